"""Chains of linear layers, as compiled code takes them."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from torch import nn

from audit.engine.compiled import straight_line as line
from audit.engine.parameter_layout import Layout

SOURCE = "chain_sums.c"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """A module that flattens its input and passes it through linear layers, with one kind of activation between them."""

    source: ClassVar[str] = SOURCE
    prefix: ClassVar[str] = "chain"  # of its functions' names

    sizes: tuple[int, ...]  # width of the input and of each layer's output
    activation: int  # between layers: 0 for ReLU, 1 for tanh
    weights: tuple[int, ...]  # where each layer's weight starts in a model's parameters
    biases: tuple[int, ...]  # the same for biases, -1 for none
    width: int  # numbers stored for one model

    def struct(self) -> ChainStruct:
        """Return this chain as compiled code reads it; its labels are classes until `classes` says otherwise."""
        sizes, weights, biases = map(_numbers, (self.sizes, self.weights, self.biases))
        return ChainStruct(
            layers=len(self.weights), activation=self.activation, classes=1, width=self.width,
            sizes=sizes, weights=weights, biases=biases,
        )  # fmt: skip

    @property
    def operations(self) -> int:
        """Floating-point operations of one example: forward, signals back, clipped sum."""
        products = [first * right for first, right in pairwise(self.sizes)]
        return 2 * (3 * sum(products) - products[0])  # no signal goes back to the records themselves


def find_chain(module: nn.Module) -> Chain | None:
    """The chain that `module` is, however its `forward` is written, or None if it is anything else.

    Call it before threads train, as for `straight_line`.

    >>> find_chain(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))).sizes
    (4, 8, 3)
    >>> find_chain(nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.Linear(8, 3)))
    """
    steps = line.straight_line(module)
    if steps is None:
        return None
    while steps and steps[0].kind == line.FLATTENS and not steps[0].numbers:
        steps = steps[1:]
    starts = line.parameter_starts(module, [step.path for step in steps[::2]])
    return None if starts is None else chain_from(steps, starts, Layout.of(module).width)


def chain_from(steps: Sequence[line.ForwardStep], starts: Mapping[str, int], width: int) -> Chain | None:
    """The chain that some steps are, or None; `starts` says at which place parameters start in a row of `width` numbers."""
    linear, between = steps[::2], steps[1::2]
    activations = {step.kind for step in between}
    layers = [step.layer for step in linear if isinstance(step.layer, nn.Linear) and step.kind == line.LINEAR]
    if len(steps) % 2 == 0 or len(activations) > 1 or not activations <= {line.RELU, line.TANH} or len(layers) != len(linear):
        return None
    weights, biases = (line.names([step.path for step in linear], role) for role in ("weight", "bias"))
    return Chain(
        sizes=(layers[0].in_features, *(layer.out_features for layer in layers)),
        activation=int(line.TANH in activations),
        weights=tuple(starts[name] for name in weights),
        biases=tuple(starts.get(name, -1) for name in biases),
        width=width,
    )


class ChainStruct(ctypes.Structure):
    """A chain as compiled code reads it."""

    _fields_ = (
        ("layers", ctypes.c_int64),
        ("activation", ctypes.c_int64),
        ("classes", ctypes.c_int64),
        ("width", ctypes.c_int64),
        ("sizes", ctypes.POINTER(ctypes.c_int64)),
        ("weights", ctypes.POINTER(ctypes.c_int64)),
        ("biases", ctypes.POINTER(ctypes.c_int64)),
    )

    @property
    def chain(self) -> ChainStruct:
        """This chain: a network has one at its end."""
        return self


def _numbers(values: tuple[int, ...]) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * len(values))(*values)
