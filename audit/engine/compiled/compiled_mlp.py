"""Chains of linear layers, as compiled code takes them."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from torch import nn

from audit.engine.compiled.straight_line import (
    FLATTENS,
    LINEAR,
    RELU,
    TANH,
    ForwardStep,
    names,
    parameter_starts,
    straight_line,
)
from audit.engine.parameter_layout import Layout

SOURCE = "chain_sums.c"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """A module that flattens its input and passes it through linear layers, with one kind of activation between them."""

    sizes: tuple[int, ...]  # width of the input and of each layer's output
    activation: int  # between layers: 0 for ReLU, 1 for tanh
    weights: tuple[int, ...]  # where each layer's weight starts in a model's parameters
    biases: tuple[int, ...]  # the same for biases, -1 for none
    width: int  # numbers stored for one model

    @property
    def source(self) -> str:
        """The C file that has its sums."""
        return SOURCE

    @property
    def prefix(self) -> str:
        """The beginning of the names of its functions."""
        return "chain"

    def struct(self) -> ChainStruct:
        """Return this chain as compiled code reads it."""
        return ChainStruct.of(self)

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
    steps = straight_line(module)
    if steps is None:
        return None
    while steps and steps[0].kind == FLATTENS and not steps[0].numbers:
        steps = steps[1:]
    starts = parameter_starts(module, [step.path for step in steps[::2]])
    return None if starts is None else chain_from(steps, starts, Layout.of(module).width)


def chain_from(steps: Sequence[ForwardStep], starts: Mapping[str, int], width: int) -> Chain | None:
    """The chain that some steps are, or None; `starts` says at which place parameters start in a row of `width` numbers."""
    linear, between = steps[::2], steps[1::2]
    activations = {step.kind for step in between}
    layers = [step.layer for step in linear if isinstance(step.layer, nn.Linear) and step.kind == LINEAR]
    if len(steps) % 2 == 0 or len(activations) > 1 or not activations <= {RELU, TANH} or len(layers) != len(linear):
        return None
    weights, biases = (names([step.path for step in linear], role) for role in ("weight", "bias"))
    return Chain(
        sizes=(layers[0].in_features, *(layer.out_features for layer in layers)),
        activation=int(TANH in activations),
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

    @classmethod
    def of(cls, chain: Chain) -> ChainStruct:
        """Return `chain`; its labels are classes until `classes` says otherwise."""
        sizes, weights, biases = map(_numbers, (chain.sizes, chain.weights, chain.biases))
        return cls(
            layers=len(chain.weights), activation=chain.activation, classes=1, width=chain.width,
            sizes=sizes, weights=weights, biases=biases,
        )  # fmt: skip

    @property
    def chain(self) -> ChainStruct:
        """This chain: a network has one at its end."""
        return self

    def floats(self, cdll: ctypes.CDLL) -> int:
        """Return how many floats compiled code needs beside the models."""
        cdll.chain_workspace.restype = ctypes.c_int64
        return int(cdll.chain_workspace(ctypes.byref(self)))


def _numbers(values: tuple[int, ...]) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * len(values))(*values)
