"""Modules with constructors that draw something other than a parameter or a buffer, and some that only look like it."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn


class Scaled(nn.Module):
    """`last(tanh(first(x)) * scale)`, the scale being held as a subclass does."""

    def __init__(self) -> None:
        super().__init__()
        self.hold(1.0 + torch.rand(8))
        self.first, self.last = nn.Linear(5, 8), nn.Linear(8, 3)

    def hold(self, scale: Tensor) -> None:
        self.register_buffer("scale", scale)

    def held(self) -> Tensor:
        return self.scale  # type: ignore[return-value]

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(torch.tanh(self.first(inputs)) * self.held().to(inputs))


@dataclass
class Box:
    inner: Any = field(default=None)


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def holding(wrap: Callable[[Tensor], Any], unwrap: Callable[[Any], Tensor]) -> Callable[[], nn.Module]:
    class Holding(Scaled):
        def hold(self, scale: Tensor) -> None:
            self.kept = wrap(scale)

        def held(self) -> Tensor:
            return unwrap(self.kept)

    return Holding


def multiply(factor: Tensor, values: Tensor) -> Tensor:
    return factor * values


def closure() -> nn.Module:
    model, factor = Scaled(), 1.0 + torch.rand(8)
    model.held = lambda: factor  # type: ignore[method-assign]
    return model


def closed_class() -> nn.Module:
    factor = 1.0 + torch.rand(8)

    class Closed(Scaled):
        def held(self) -> Tensor:
            return factor

    return Closed()


def by_python() -> nn.Module:
    return holding(lambda _: random.uniform(1.0, 2.0), torch.tensor)()


def by_numpy() -> nn.Module:
    return holding(lambda _: np.random.uniform(1.0, 2.0, 8), torch.from_numpy)()  # noqa: NPY002


class Chosen(nn.Sequential):
    """One of three activations."""

    def __init__(self) -> None:
        activation = (nn.Tanh, nn.ReLU, nn.Sigmoid)[int(torch.randint(3, ()))]
        super().__init__(nn.Linear(5, 8), activation(), nn.Linear(8, 3))


class Ordered(nn.Module):
    """Layers in a random order."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(5, 5) for _ in range(4))
        self.order, self.last = torch.randperm(4).tolist(), nn.Linear(5, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        for number in self.order:
            inputs = torch.tanh(self.layers[number](inputs))
        return self.last(inputs)


class Hooked(Scaled):
    """The scale is in a hook."""

    def hold(self, scale: Tensor) -> None:
        self.register_forward_pre_hook(functools.partial(self.shifted, scale.mean()))

    @staticmethod
    def shifted(shift: Tensor, _: nn.Module, arguments: tuple[Tensor]) -> tuple[Tensor]:
        return (arguments[0] + shift.to(arguments[0]),)

    def held(self) -> Tensor:
        return torch.ones(8)


class Generating(Scaled):
    """A generator of each model's own, set back in every call."""

    def hold(self, scale: Tensor) -> None:
        self.stream = torch.Generator().manual_seed(int(torch.randint(1000, ())))

    def held(self) -> Tensor:
        self.stream.manual_seed(self.stream.initial_seed())
        return torch.rand(8, generator=self.stream)


def seldom() -> nn.Module:
    """One model of six draws a scale, which twins of three seeds need not show."""
    return holding(lambda _: 1.0 + float(torch.rand(()) < 1 / 6), torch.tensor)()


APART: dict[str, Callable[[], nn.Module]] = {
    "attribute": holding(lambda scale: scale, lambda store: store),
    "list": holding(lambda scale: [0, [scale]], lambda store: store[1][0]),
    "dictionary": holding(lambda scale: {"a": {"b": scale}}, lambda store: store["a"]["b"]),
    "dataclass": holding(Box, lambda store: store.inner),
    "namespace": holding(lambda scale: SimpleNamespace(scale=scale), lambda store: store.scale),
    "slots": holding(Slotted, lambda store: store.value),
    "numbers": holding(lambda scale: scale.tolist(), torch.tensor),
    "array": holding(lambda scale: scale.numpy(), torch.from_numpy),
    "objects": holding(lambda scale: np.array(scale.tolist(), dtype=object), lambda store: torch.tensor(list(store))),
    "partial": holding(lambda scale: functools.partial(multiply, scale), lambda store: store(torch.ones(8))),
    "method": holding(lambda scale: scale.mul, lambda store: store(torch.ones(8))),
    "closure": closure,
    "closed class": closed_class,
    "python": by_python,
    "numpy": by_numpy,
    "activation": Chosen,
    "order": Ordered,
    "hook": Hooked,
    "generator": Generating,
}
SELDOM = "seldom"


class ClassLevel(Scaled):
    """The last model made decides for all."""

    shared: ClassVar[Tensor]

    def hold(self, scale: Tensor) -> None:
        type(self).shared = scale

    def held(self) -> Tensor:
        return self.shared


_NUMBERS = itertools.count(1)
_SHARED: dict[str, Tensor] = {}


def counted() -> nn.Module:
    return holding(lambda _: float(next(_NUMBERS)), torch.tensor)()


class Lazy(Scaled):
    """The first call draws."""

    def hold(self, scale: Tensor) -> None:
        self.late: Tensor | None = None

    def held(self) -> Tensor:
        if self.late is None:
            self.late = 1.0 + torch.rand(8)
        return self.late


class FileLevel(Scaled):
    """As ClassLevel, in a table of the file."""

    def hold(self, scale: Tensor) -> None:
        _SHARED["scale"] = scale

    def held(self) -> Tensor:
        return _SHARED["scale"]


def frozen_by_chance() -> nn.Module:
    model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))
    model[0].weight.requires_grad_(bool(torch.rand(()) < 0.5))
    return model


def of_any_width() -> nn.Module:
    width = int(torch.randint(4, 40, ()))
    return nn.Sequential(nn.Linear(5, width), nn.Tanh(), nn.Linear(width, 3))


def shared_by_chance() -> nn.Module:
    model = nn.Sequential(nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 5), nn.Linear(5, 3))
    if torch.rand(()) < 0.5:
        model[2].weight = model[0].weight
    return model


REFUSED: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "class": (ClassLevel, "shared"),
    "file": (FileLevel, "its class or its file"),
    "counter": (counted, "'kept' comes out differently"),
    "entropy": (
        holding(lambda _: np.random.default_rng().uniform(1.0, 2.0, 8), torch.from_numpy),
        "'kept' comes out differently",
    ),
    "lazy": (Lazy, "'late' is drawn when forward"),
    "frozen": (frozen_by_chance, "'0.weight' is"),
    "width": (of_any_width, "'0.weight' is"),
    "shared": (shared_by_chance, "'2.weight' is"),
    "untrained list": (
        holding(lambda scale: [scale.requires_grad_()], lambda store: store[0]),
        r"'kept\[0\]' asks for a gradient but is not a parameter",
    ),
}


class Named(Scaled):
    """A number that names the model, and a cache of a constant: neither takes part in the output."""

    def __init__(self) -> None:
        super().__init__()
        self.number, self.ones, self.seen = next(_NUMBERS), None, None

    def forward(self, inputs: Tensor) -> Tensor:
        if self.ones is None:
            self.ones = torch.ones(8)
        self.seen = torch.nn.functional.dropout(super().forward(inputs * self.ones[:5].to(inputs)), 0.0)
        return self.seen


ALIKE: dict[str, Callable[[], nn.Module]] = {
    "buffer": Scaled,
    "named": Named,
    "plain": lambda: nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 3)),
    "recurrent": lambda: nn.Sequential(nn.Linear(5, 8), nn.LayerNorm(8), nn.Linear(8, 3)),
    "normed": lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(5, 8)), nn.Tanh(), nn.Linear(8, 3)),
    "batch": lambda: nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)),
}


def make(kind: str) -> nn.Module:
    """The factory that configs name."""
    if kind in REFUSED:
        return REFUSED[kind][0]()
    return seldom() if kind == SELDOM else (APART | ALIKE)[kind]()


def make_for_digits(kind: str) -> nn.Module:
    """Return the same model inside one of 8 x 8 pictures of ten classes."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 5), make(kind), nn.Linear(3, 10))
