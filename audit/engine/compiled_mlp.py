"""Chains of linear layers: the whole gradient step of a chunk as one call to compiled code."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
import torch.fx
from torch import Tensor, nn
from torch.nn import functional as F

from audit.core.errors import DataError
from audit.engine.clipping import Clip, Clipping, Rows, all_finite
from audit.engine.compile_c import library
from audit.engine.ghost_clipping import TapeGradients
from audit.engine.layer_map import has_hooks
from audit.engine.parameter_layout import Layout

SOURCE = "chain_sums.c"
# operations of one model that repay compiling (about a second) where some thirty models are trained
_WORTH_COMPILING = 1e9
FLATTENS = "flatten"
_ACTIVATIONS: Mapping[type[nn.Module], str] = {nn.ReLU: "relu", nn.Tanh: "tanh"}
_FUNCTIONS: Mapping[Any, str] = {
    torch.relu: "relu", torch.tanh: "tanh", F.relu: "relu", F.tanh: "tanh", "relu": "relu", "tanh": "tanh"
}  # fmt: skip
_FLATTENING = (torch.flatten, "flatten")

COMPILE = ("off", "auto", "on")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """A module that flattens its input and passes it through linear layers, with one kind of activation between them.

    Attributes:
        sizes: width of the input and of each layer's output.
        activation: between layers: 0 for ReLU, 1 for tanh.
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
        products = [left * right for left, right in pairwise(self.sizes)]
        return 2 * (3 * sum(products) - products[0])


def chain_of(module: nn.Module) -> Chain | None:
    """The chain that `module` is, however its `forward` is written, or None where it is anything else.

    Call it before threads train: `torch.fx` replaces `nn.Module.__call__` for the whole process while it traces.

    >>> chain_of(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))).sizes
    (4, 8, 3)
    >>> chain_of(nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.Linear(8, 3)))
    """
    chain = _steps(module)
    if chain is None:
        return None
    while chain and chain[0] == FLATTENS:
        chain = chain[1:]
    paths, between = chain[::2], chain[1::2]
    activations = set(between)
    if len(chain) % 2 == 0 or len(activations) > 1 or not activations <= {"relu", "tanh"}:
        return None
    linear = [layer for layer in map(dict(module.named_modules()).get, paths) if type(layer) is nn.Linear]
    layout = Layout.of(module)
    starts = {slot.name: slot.start for slot in layout.slots}
    weights, biases = ([f"{path}.{role}".lstrip(".") for path in paths] for role in ("weight", "bias"))
    # each parameter is trained, belongs to one layer, and each layer is used once
    own = {*weights, *(name for name in biases if name in starts)}
    alone = len(linear) == len(paths) == len(set(paths)) and own == starts.keys() and set(weights) <= starts.keys()
    if not alone or sum(1 for _ in module.parameters()) != len(layout.slots) or any(map(has_hooks, module.modules())):
        return None
    return Chain(
        sizes=(linear[0].in_features, *(layer.out_features for layer in linear)),
        activation=int("tanh" in activations),
        weights=tuple(starts[name] for name in weights),
        biases=tuple(starts.get(name, -1) for name in biases),
        width=layout.width,
    )


def _steps(module: nn.Module) -> list[str] | None:
    """Return what `forward` does one after another: paths of layers, names of functions; None where it is no straight line."""
    if type(module) is nn.Linear:
        return [""]
    try:
        graph = torch.fx.symbolic_trace(module).graph
    except (torch.fx.proxy.TraceError, TypeError, RuntimeError, AttributeError, ValueError, KeyError, IndexError):
        return None  # what the code of a forward pass may raise on a stand-in for its input
    nodes, names = list(graph.nodes), []
    for before, node in pairwise(nodes):
        inputs = node.all_input_nodes
        if inputs != [before] or node.op in ("placeholder", "get_attr"):
            return None
        if node.op != "output":
            names.append(_name(module, node))
    returns_last = nodes[-1].args[0] is nodes[-2]
    return names if returns_last and nodes[0].op == "placeholder" else None


def _name(module: nn.Module, node: torch.fx.Node) -> str:
    """Return what one step is called: "relu", "tanh", flattening, the path of a layer; "?" for all else."""
    if node.op == "call_module":
        layer = module.get_submodule(str(node.target))
        if type(layer) is nn.Linear:
            return str(node.target)
        flattens = type(layer) is nn.Flatten and (layer.start_dim, layer.end_dim) == (1, -1)
        return FLATTENS if flattens else _ACTIVATIONS.get(type(layer), "?")
    if node.target in _FLATTENING:
        return FLATTENS if node.args[1:] in ((1,), (1, -1)) and not node.kwargs else "?"
    plain = len(node.args) == 1 and set(node.kwargs) <= {"inplace"}
    return _FUNCTIONS.get(node.target, "?") if plain else "?"


def worth_compiling(chain: Chain, examples: float) -> bool:
    """True where a training of each model on `examples` in all repays the time that a compiler takes.

    Models of one job are not counted: how an audit is cut into jobs must not change a bit of it.
    """
    return examples * chain.operations > _WORTH_COMPILING


class ChainGradients(TapeGradients):
    """N chains in float32 on a CPU. Forward passes without gradients are those of `TapeGradients`.

    Rows of padding cost nothing, batches are read where the records lie, and models share no arithmetic.
    """

    def __init__(self, module: nn.Module, state: Mapping[str, Tensor], chain: Chain, cdll: ctypes.CDLL) -> None:
        super().__init__(module, state)
        self._sizes, self._chain = chain.sizes, ChainStruct.of(chain)
        self._sums = cdll.chain_sums
        self._sums.restype, self._sums.argtypes = None, _ARGUMENTS
        self._work = torch.zeros(workspace(self._chain, cdll))
        self._valid_labels: Tensor | None = None

    def add_sum(self, rows: Rows, clip: Clip | None, total: Tensor) -> Clipping | None:
        if rows.copies != 1:
            return super().add_sum(rows, clip, total)
        return self.add_rows((rows.inputs, rows.labels), torch.arange(len(rows.labels)), rows.mask, (clip, total))

    def add_rows(
        self, data: tuple[Tensor, Tensor], indices: Tensor, mask: Tensor, into: tuple[Clip | None, Tensor]
    ) -> Clipping | None:
        """`add_sum` for the records of `data` whose numbers are `indices` `(N * rows,)`, read where they lie.

        Args:
            data: inputs `(records, ...)` and labels.
            indices: numbers of records, model-major.
            mask: `(N, rows)` which of them are real.
            into: how to clip, and the flat `(N, width)` sum.

        Raises:
            DataError: records of another size or type than the chain's, or labels that it has no output for.
        """
        (inputs, labels), (clip, total) = data, into
        if labels is not self._valid_labels:  # once for each tensor of labels
            check_records(inputs, labels, self._sizes)
            self._valid_labels = labels
        inputs, labels, indices, mask = (value.contiguous() for value in (inputs, labels, indices, mask))
        norms, clipped_norms = torch.empty(2, *mask.shape)
        bounds = None
        if clip is not None:
            bounds = clip.norm.flatten() if isinstance(clip.norm, Tensor) else torch.full((self.models,), float(clip.norm))
        self._chain.classes = int(labels.dtype == torch.int64)
        before, after = (self.flat, total, inputs, labels, indices, mask), (norms, clipped_norms, self._work)
        self._sums(
            ctypes.byref(self._chain),
            self.models,
            *(tensor.data_ptr() for tensor in before),
            mask.shape[1],
            None if bounds is None else bounds.data_ptr(),
            clip is not None and clip.per_layer,
            *(tensor.data_ptr() for tensor in after),
        )
        return None if clip is None else Clipping(norms=norms, left=clipped_norms, finite=all_finite(norms))


def check_records(inputs: Tensor, labels: Tensor, sizes: tuple[int, ...]) -> None:
    """Raise an error where compiled code would leave its memory.

    Raises:
        DataError: records of another size or type than the chain's, or labels that it has no output for.
    """
    size = inputs[:1].numel() if len(inputs) else sizes[0]
    if inputs.dtype != torch.float32 or size != sizes[0]:
        raise DataError(f"records of {size} {inputs.dtype} each; expected {sizes[0]} torch.float32 for this model")
    if labels.dtype == torch.int64 and len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < sizes[-1]:
        raise DataError(f"labels up to {int(labels.max())}; expected 0 to {sizes[-1] - 1}, the outputs of the model")


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
        """Return `chain`, whose labels are classes until `classes` says otherwise."""
        sizes, weights, biases = map(_numbers, (chain.sizes, chain.weights, chain.biases))
        return cls(
            layers=len(chain.weights), activation=chain.activation, classes=1, width=chain.width,
            sizes=sizes, weights=weights, biases=biases,
        )  # fmt: skip


def workspace(struct: ChainStruct, cdll: ctypes.CDLL) -> int:
    """Return how many floats compiled code needs beside the models."""
    cdll.chain_workspace.restype = ctypes.c_int64
    return int(cdll.chain_workspace(ctypes.byref(struct)))


_WHOLE, _MEMORY = ctypes.c_int64, ctypes.c_void_p
_ARGUMENTS: tuple[Any, ...] = (ctypes.POINTER(ChainStruct), _WHOLE, *[_MEMORY] * 6, _WHOLE, _MEMORY, _WHOLE, *[_MEMORY] * 3)


def _numbers(values: tuple[int, ...]) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * len(values))(*values)


def compiled_chain(chain: Chain, module: nn.Module, state: Mapping[str, Tensor]) -> ChainGradients | None:
    """N models with the architecture of `module`, which is `chain`, by compiled code; None where that cannot be had."""
    first = next(iter(state.values()))
    if first.device.type != "cpu" or first.dtype != torch.float32:
        return None
    code = library(SOURCE)
    return None if code is None else ChainGradients(module, state, chain, code)
