"""Chains of linear layers: the whole gradient step of a chunk as one call to compiled code."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from audit.core.errors import DataError
from audit.training.clipping import Clip, Clipped, Rows, all_finite
from audit.training.layout import Layout
from audit.training.native import library
from audit.training.tape import TapeGradients

SOURCE = "chain_sums.c"
# operations of one model that repay compiling (about a second) where some thirty models are trained
_WORTH_COMPILING = 1e9
_ACTIVATIONS: Mapping[type[nn.Module], int] = {nn.ReLU: 0, nn.Tanh: 1}

COMPILE = ("off", "auto", "on")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """A module that flattens its input and passes it through linear layers, with one kind of activation between them.

    Attributes:
        sizes: width of the input and of each layer's output.
        activation: number of the activation between layers.
        weights: where each layer's weight starts in a model's parameters.
        biases: the same for biases, -1 for none.
        width: numbers stored for one model.
    """

    sizes: tuple[int, ...]
    activation: int
    weights: tuple[int, ...]
    biases: tuple[int, ...]
    width: int

    @property
    def operations(self) -> int:
        """Floating-point operations of one example: forward, signals back, clipped sum."""
        each = [left * right for left, right in pairwise(self.sizes)]
        return 2 * (3 * sum(each) - each[0])


def chain_of(module: nn.Module) -> Chain | None:
    """The chain that `module` is, or None where it is anything else.

    >>> chain_of(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))).sizes
    (4, 8, 3)
    >>> chain_of(nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.Linear(8, 3)))
    """
    if type(module) is not nn.Sequential:
        return None
    layers = [layer for layer in module if not _flattens(layer)]
    linear, between = [layer for layer in layers[::2] if type(layer) is nn.Linear], layers[1::2]
    if len(linear) != len(between) + 1:
        return None
    kinds = {type(layer) for layer in between}
    if len(kinds) > 1 or not kinds <= _ACTIVATIONS.keys() or any(_flattens(layer) for layer in list(module)[1:]):
        return None
    parameters = list(module.named_parameters())
    if not all(value.requires_grad for _, value in parameters) or len({id(layer) for layer in linear}) < len(linear):
        return None
    layout = Layout.of(module)
    starts = {slot.name: slot.start for slot in layout.slots}
    paths = [name for name, layer in module.named_children() if type(layer) is nn.Linear]
    if sum(layer.weight.numel() + (0 if layer.bias is None else layer.bias.numel()) for layer in linear) != layout.parameters:
        return None
    return Chain(
        sizes=(linear[0].in_features, *(layer.out_features for layer in linear)),
        activation=_ACTIVATIONS[kinds.pop()] if kinds else 0,
        weights=tuple(starts[f"{path}.weight"] for path in paths),
        biases=tuple(starts.get(f"{path}.bias", -1) for path in paths),
        width=layout.width,
    )


def _flattens(layer: nn.Module) -> bool:
    return type(layer) is nn.Flatten and (layer.start_dim, layer.end_dim) == (1, -1)


def worth_compiling(chain: Chain, examples: float) -> bool:
    """True where a training of each model on `examples` in all repays the time that a compiler takes.

    Models of one job are not counted: how an audit is cut into jobs must not change a bit of it.
    """
    return examples * chain.operations > _WORTH_COMPILING


class ChainGradients(TapeGradients):
    """N chains in float32 on a CPU. Forward passes without gradients are those of `TapeGradients`.

    Rows of padding cost nothing, batches are read where the records lie, and models share no arithmetic.
    """

    def __init__(self, module: nn.Module, state: Mapping[str, Tensor], chain: Chain, compiled: ctypes.CDLL) -> None:
        super().__init__(module, state)
        self._sizes, self._weights, self._biases = map(_numbers, (chain.sizes, chain.weights, chain.biases))
        self._chain = _Chain(
            layers=len(chain.weights), activation=chain.activation, classes=1, width=chain.width,
            sizes=self._sizes, weights=self._weights, biases=self._biases,
        )  # fmt: skip
        self._outputs = chain.sizes[-1]
        self._sums = compiled.chain_sums
        self._sums.restype, self._sums.argtypes = None, _ARGUMENTS
        compiled.chain_workspace.restype = ctypes.c_int64
        self._work = torch.zeros(compiled.chain_workspace(ctypes.byref(self._chain)))
        self._known: Tensor | None = None

    def add_sum(self, rows: Rows, clip: Clip | None, total: Tensor) -> Clipped | None:
        if rows.copies != 1:
            return super().add_sum(rows, clip, total)
        return self.add_chosen((rows.inputs, rows.labels), torch.arange(len(rows.labels)), rows.mask, (clip, total))

    def add_chosen(
        self, data: tuple[Tensor, Tensor], chosen: Tensor, mask: Tensor, into: tuple[Clip | None, Tensor]
    ) -> Clipped | None:
        """`add_sum` for the records of `data` whose numbers are `chosen` `(N * rows,)`, read where they lie.

        Args:
            data: inputs `(records, ...)` and labels.
            chosen: numbers of records, model-major.
            mask: `(N, rows)` which of them are real.
            into: how to clip, and the flat `(N, width)` sum.
        """
        (inputs, labels), (clip, total) = data, into
        self._check(inputs, labels)
        inputs, labels, chosen, mask = (value.contiguous() for value in (inputs, labels, chosen, mask))
        norms, left = torch.empty(2, *mask.shape)
        bounds = None
        if clip is not None:
            bounds = clip.norm.flatten() if isinstance(clip.norm, Tensor) else torch.full((self.models,), float(clip.norm))
        self._chain.classes = int(labels.dtype == torch.int64)
        before, after = (self.flat, total, inputs, labels, chosen, mask), (norms, left, self._work)
        self._sums(
            ctypes.byref(self._chain),
            self.models,
            *(one.data_ptr() for one in before),
            mask.shape[1],
            None if bounds is None else bounds.data_ptr(),
            clip is not None and clip.per_layer,
            *(one.data_ptr() for one in after),
        )
        return None if clip is None else Clipped(norms=norms, left=left, finite=all_finite(norms))

    def _check(self, inputs: Tensor, labels: Tensor) -> None:
        """Nothing, or an error where compiled code would leave its memory; once for each tensor of labels."""
        if labels is self._known:
            return
        size = inputs[:1].numel() if len(inputs) else self._sizes[0]
        if inputs.dtype != torch.float32 or size != self._sizes[0]:
            raise DataError(f"records of {size} {inputs.dtype} each; expected {self._sizes[0]} torch.float32 for this model")
        if labels.dtype == torch.int64 and len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < self._outputs:
            raise DataError(f"labels up to {int(labels.max())}; expected 0 to {self._outputs - 1}, the outputs of the model")
        self._known = labels


class _Chain(ctypes.Structure):
    _fields_ = (
        ("layers", ctypes.c_int64),
        ("activation", ctypes.c_int64),
        ("classes", ctypes.c_int64),
        ("width", ctypes.c_int64),
        ("sizes", ctypes.POINTER(ctypes.c_int64)),
        ("weights", ctypes.POINTER(ctypes.c_int64)),
        ("biases", ctypes.POINTER(ctypes.c_int64)),
    )


_WHOLE, _MEMORY = ctypes.c_int64, ctypes.c_void_p
_ARGUMENTS: tuple[Any, ...] = (ctypes.POINTER(_Chain), _WHOLE, *[_MEMORY] * 6, _WHOLE, _MEMORY, _WHOLE, *[_MEMORY] * 3)


def _numbers(values: tuple[int, ...]) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * len(values))(*values)


def compiled_chain(module: nn.Module, state: Mapping[str, Tensor]) -> ChainGradients | None:
    """N models with the architecture of `module` by compiled code; None where it is no chain or nothing can be compiled."""
    chain, first = chain_of(module), next(iter(state.values()))
    if chain is None or first.device.type != "cpu" or first.dtype != torch.float32:
        return None
    compiled = library(SOURCE)
    return None if compiled is None else ChainGradients(module, state, chain, compiled)
