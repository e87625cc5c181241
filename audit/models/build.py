"""The models of an audit: built-in architectures, or the user's own factory."""

import random
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from audit import plugins
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.seeds import Seed
from audit.models.architectures._encoder import Shape
from audit.models.packed_inputs import feed


class Architecture(Protocol):
    """The options of an architecture; `build` makes a module for records of a shape, with so many outputs."""

    def build(self, input_shape: Shape, outputs: int) -> nn.Module: ...


_GLOBAL_STREAM = threading.RLock()
_STREAM_SCOPES = threading.local()


def build(spec: Mapping[str, Any], input_shape: Shape, classes: int) -> nn.Module:
    """A freshly initialised model for inputs of `input_shape`: `(features,)` or `(channels, height, width)`.

    `{"kind": "mlp", ...}` names a plug-in (`audit/models/architectures`, or a third party's `package.module:Class`),
    `{"factory": "package.module:callable", "arguments": {...}}` calls the user's own; with
    `"inputs": {"ids": [16], "mask": [16]}` its forward takes these tensors by name, cut from each record in this order
    (`"pass_inputs": "dictionary"`: as one dictionary). With `classes` 0 the built-in models have one output (regression).
    `ConfigError` for an unknown kind or key (with the nearest match), or a value that makes no model.

    >>> build({"kind": "mlp", "hidden": [8]}, (4,), 3)(torch.zeros(2, 4)).shape
    torch.Size([2, 3])
    """
    if "factory" in spec:
        return feed(_from_factory(spec), spec, tuple(input_shape))
    architecture: Architecture = plugins.build("audit.models.architectures", spec, "model")
    if len(input_shape) == 0 or any(size < 1 for size in input_shape):
        raise ConfigError(f"model.{spec['kind']}: records of shape {input_shape}; expected at least one feature")
    module = architecture.build(input_shape, max(classes, 1))
    if not isinstance(module, nn.Module):
        raise ConfigError(f"model '{spec['kind']}' built {type(module).__name__}; expected a torch.nn.Module")
    return module


def initialise_model(spec: Mapping[str, Any], input_shape: Shape, classes: int, seed: Seed) -> nn.Module:
    """`build` with every random draw of the initialisation taken from `seed`; global streams are left as they were.

    These are torch's and, for the code of a user's factory, those of Python and numpy.

    The model is in training mode; layers that the factory left in evaluation mode (of a model in training mode) stay there: a
    frozen backbone is then a fixed function of each record alone, its BatchNorm uses the statistics it came with.
    """
    with seeded_stream(seed), _host_streams(seed) if is_foreign(spec) else nullcontext():
        module = build(spec, input_shape, classes)
    frozen_layers = [layer for layer in module.modules() if not layer.training] if module.training else []
    module.train()
    for layer in frozen_layers:
        layer.training = False
    return module


def is_foreign(spec: Mapping[str, Any]) -> bool:
    """True if code from outside this project makes the model."""
    return "factory" in spec or ":" in str(spec.get("kind", ""))


@contextmanager
def kept_host_streams() -> Iterator[None]:
    """A scope after which the global streams of Python and numpy are where they were."""
    own, numbers = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(own)
        np.random.set_state(numbers)  # noqa: NPY002


@contextmanager
def _host_streams(seed: Seed) -> Iterator[None]:
    """A scope in which the global streams of Python and numpy start at `seed`; restored after. Inside of `seeded_stream`."""
    with kept_host_streams():
        # not a stream of this project's own, but those that a factory's code may draw from
        random.setstate(random.Random(seed.child("python").integer()).getstate())
        np.random.set_state(np.random.RandomState(seed.child("numpy").integer() % 2**32).get_state())  # noqa: NPY002
        yield


def starting(
    spec: Mapping[str, Any], input_shape: Shape, classes: int, seed: Seed, start: Mapping[str, Any] | None
) -> nn.Module:
    """The model that training starts from, with the weights of `start` if given; `ConfigError` if they are of another model."""
    module = initialise_model(spec, input_shape, classes, seed)
    if start is None:
        return module
    own = tensors(module)
    shapes = {name: tuple(np.shape(value)) for name, value in start.items()}
    own_shapes = {name: tuple(value.shape) for name, value in own.items()}
    strange = next((name for name in {**own_shapes, **shapes} if own_shapes.get(name) != shapes.get(name)), None)
    if strange is not None:
        raise ConfigError(
            f"the initial weights do not fit the model: '{strange}' has shape {shapes.get(strange)}, and the model's "
            f"{own_shapes.get(strange)}"
        )
    with torch.no_grad():
        for name, value in start.items():
            own[name].copy_(torch.from_numpy(np.array(value)))
    return module


def tensors(module: nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers by name, with those buffers that `state_dict` leaves out."""
    return dict(module.named_parameters()) | dict(module.named_buffers())


@contextmanager
def seeded_stream(seed: Seed) -> Iterator[None]:
    """A scope in which torch's global stream, which some of its functions insist on, starts at `seed`; restored after.

    Scopes nest on one thread, so that a user's factory may train its own model.
    """
    with _GLOBAL_STREAM, torch.random.fork_rng(devices=[]):
        _STREAM_SCOPES.depth = getattr(_STREAM_SCOPES, "depth", 0) + 1
        try:
            torch.default_generator.manual_seed(seed.integer())
            yield
        finally:
            _STREAM_SCOPES.depth -= 1


def is_stream_scoped() -> bool:
    """True inside `seeded_stream` on this thread: other threads that ask for the stream would wait for this one to leave."""
    return getattr(_STREAM_SCOPES, "depth", 0) > 0


def parameter_count(spec: Mapping[str, Any], input_shape: Shape, classes: int) -> int:
    """The number of trainable parameters of the model that `build` gives."""
    return sum(tensor_sizes(spec, input_shape, classes))


def tensor_sizes(spec: Mapping[str, Any], input_shape: Shape, classes: int) -> tuple[int, ...]:
    """Return the coordinates of each trainable tensor of the model that `build` gives, in the order of its parameters.

    >>> tensor_sizes({"kind": "logistic"}, (64,), 10)
    (640, 10)
    """
    if is_foreign(spec):
        module = initialise_model(spec, input_shape, classes, Seed(0))
    else:
        try:
            with torch.device("meta"):  # our own architectures are counted without memory for them
                module = initialise_model(spec, input_shape, classes, Seed(0))
        except (OverflowError, RuntimeError, TypeError) as error:  # by how far beyond 64 bits a size is
            raise ConfigError(f"model.{spec['kind']} has more weights than torch can count; choose a smaller model") from error
    return tuple(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


def refuse_mixing_layers(module: nn.Module) -> None:
    """Raise `UnsupportedMechanism` naming the first layer that mixes examples in its outputs.

    Clipping bounds what one example adds to the sum only where each example has its own gradient.
    Instance normalisation is fine unless it keeps running statistics, which are released unprotected. Batch normalisation is
    fine in evaluation mode, if it is one affine map for all records.
    """
    for path, layer in module.named_modules():
        location = f"layer '{path or '(the model itself)'}' ({type(layer).__name__})"
        steady = not layer.training and getattr(layer, "running_mean", None) is not None
        instance = isinstance(layer, nn.modules.instancenorm._InstanceNorm)
        if isinstance(layer, nn.modules.batchnorm._BatchNorm) and not instance and not steady:
            raise UnsupportedMechanism(
                f"{location} mixes the examples of a batch, so no clipping of one example's gradient bounds its influence; "
                "use nn.GroupNorm or nn.LayerNorm in its place, or keep a pretrained one in evaluation mode (layer.eval() in "
                "the factory), where it is a fixed map of each example"
            )
        if instance and layer.track_running_stats and layer.training:
            raise UnsupportedMechanism(
                f"{location} keeps running statistics of the examples, which would be released without noise; "
                "use track_running_stats=False, or nn.GroupNorm"
            )


def _from_factory(spec: Mapping[str, Any]) -> nn.Module:
    plugins.refuse_unknown(spec, ("factory", "arguments", "inputs", "pass_inputs"), "model")
    name, arguments = spec["factory"], spec.get("arguments", {})
    if not isinstance(name, str) or name.count(":") != 1:
        raise ConfigError(f"model.factory is {name!r}; expected 'package.module:callable'")
    if not isinstance(arguments, Mapping):
        raise ConfigError(f"model.arguments is {arguments!r}; expected a mapping of argument names to values")
    factory = plugins.foreign(name, "model.factory")
    with plugins.foreign_code(f"model.factory '{name}' with arguments {dict(arguments)}"):
        module = factory(**arguments)
    if not isinstance(module, nn.Module):
        raise ConfigError(f"model.factory '{name}' returned {type(module).__name__}; expected a torch.nn.Module")
    return module
