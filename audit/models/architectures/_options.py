"""How the options of architectures are checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from torch import nn

from audit.core.errors import ConfigError
from audit.plugins import hint

Shape = tuple[int, ...]
ACTIVATIONS: Mapping[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "elu": nn.ELU,
    "sigmoid": nn.Sigmoid,
}


def flatten(input_shape: Shape) -> list[nn.Module]:
    """Return the layer that makes a vector of a record; none if it is one."""
    return [] if len(input_shape) == 1 else [nn.Flatten()]


def image(input_shape: Shape, kind: str) -> tuple[int, int, int]:
    """Return channels, height and width, or raise `ConfigError` if records are no images."""
    if len(input_shape) != 3:
        raise ConfigError(
            f"model.{kind}: records of shape {input_shape}; expected images (channels, height, width), "
            "so choose kind 'mlp' or another data set"
        )
    planes, height, width = input_shape
    return planes, height, width


def positive_list(values: Sequence[int], name: str) -> list[int]:
    """Return the widths as a list, or raise `ConfigError` if one is no whole number above 0."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise ConfigError(f"{name} is {values!r}; expected a list of widths such as [64, 64]")
    for value in values:
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigError(f"{name} is {list(values)!r}; expected whole numbers of at least 1")
    return list(values)


def activation(name: str, location: str) -> nn.Module:
    """Return the activation of that name, or raise `ConfigError` with the nearest."""
    if name not in ACTIVATIONS:
        raise ConfigError(
            f"{location}.activation is {name!r}.{hint(str(name), list(ACTIVATIONS))} It may be: {', '.join(ACTIVATIONS)}"
        )
    return ACTIVATIONS[name]()


def length(input_shape: Shape, kind: str) -> int:
    """Return the number of tokens of a record, or raise `ConfigError` if it is no sequence."""
    if len(input_shape) != 1:
        raise ConfigError(f"model.{kind}: records of shape {input_shape}; expected sequences of token numbers (length,)")
    return input_shape[0]


def whole(kind: str, **values: int) -> None:
    """Raise `ConfigError` if a value is no whole number above 0."""
    for name, value in values.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigError(f"model.{kind}.{name} is {value!r}; expected a whole number of at least 1")


def divides(heads: int, width: int, kind: str) -> None:
    """Raise `ConfigError` unless the heads share the width evenly."""
    if width % heads:
        raise ConfigError(
            f"model.{kind}: {heads} heads of a width of {width}; expected a number of heads that divides the width"
        )
