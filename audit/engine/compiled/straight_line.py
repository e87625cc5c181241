"""What a module's forward does, if it is one step after another, each of single records."""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
import torch.fx
from torch import nn
from torch.nn import functional as F

from audit.engine.layers.layer_map import has_hooks
from audit.engine.parameter_layout import Layout

FLATTENS, LINEAR, CONVOLUTION, NORMALISATION = "flatten", "linear", "convolution", "normalisation"
MAXIMUM, AVERAGE, ADAPTIVE = "maximum", "average", "adaptive"
RELU, TANH = "relu", "tanh"
UNKNOWN = "?"

_LAYERS: Mapping[type[nn.Module], str] = {
    nn.Linear: LINEAR, nn.Conv2d: CONVOLUTION, nn.MaxPool2d: MAXIMUM, nn.AvgPool2d: AVERAGE, nn.AdaptiveAvgPool2d: ADAPTIVE,
    nn.GroupNorm: NORMALISATION, nn.ReLU: RELU, nn.Tanh: TANH,
}  # fmt: skip
_FUNCTIONS: Mapping[Any, str] = {
    torch.relu: RELU, torch.tanh: TANH, F.relu: RELU, F.tanh: TANH, "relu": RELU, "tanh": TANH
}  # fmt: skip
_FLATTENING, _VIEWS = (torch.flatten, "flatten"), ("view", "reshape")
# the arguments after the input, in the order of the function, as the layer of the same work names them
_POOLING: Mapping[Any, tuple[type[nn.Module], tuple[str, ...]]] = {
    F.max_pool2d: (nn.MaxPool2d, ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")),
    torch.max_pool2d: (nn.MaxPool2d, ("kernel_size", "stride", "padding", "dilation", "ceil_mode")),
    F.avg_pool2d: (
        nn.AvgPool2d, ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override")
    ),
    F.adaptive_avg_pool2d: (nn.AdaptiveAvgPool2d, ("output_size",)),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardStep:
    """One thing that a forward pass does to each record."""

    kind: str  # one of the names above; `UNKNOWN` for all that has none
    path: str = ""  # of the layer that does it, "" for a function and for a module that is one layer
    layer: nn.Module | None = None  # that layer, or one that does what the function does; None for activations and flattening
    numbers: int = 0  # of a record, if a view names them; 0 elsewhere


def straight_line(module: nn.Module) -> list[ForwardStep] | None:
    """Return the steps of `forward`, or None if it is no straight line.

    Call it before threads train: `torch.fx` replaces `nn.Module.__call__` for the whole process while it traces.
    """
    if type(module) in (nn.Linear, nn.Conv2d):
        return [ForwardStep(kind=_LAYERS[type(module)], layer=module)]
    try:
        graph = torch.fx.symbolic_trace(module).graph
    except (torch.fx.proxy.TraceError, TypeError, RuntimeError, AttributeError, ValueError, KeyError, IndexError):
        return None  # what the code of a forward pass may raise on a stand-in for its input
    counts = [node for node in graph.nodes if _counts_records(node)]
    nodes = [node for node in graph.nodes if node not in counts]
    shapes = [node for node in nodes if _is_shape(node)]
    nodes = [node for node in nodes if node not in shapes]
    steps = []
    # a straight line: each node reads the one before it and nothing else, but for the number of records
    for before, node in pairwise(nodes):
        if [source for source in node.all_input_nodes if source not in counts] != [before]:
            return None
        if node.op in ("placeholder", "get_attr") or any(source in shapes for source in node.all_input_nodes):
            return None
        if node.op != "output":
            steps.append(_step(module, node, counts))
    returns_last = nodes[-1].args[0] is nodes[-2]
    return steps if returns_last and nodes[0].op == "placeholder" else None


def _is_shape(node: Any) -> bool:
    """True if a node is the shape of what is before it, of which nothing but the number of records is read."""
    return node.target is getattr and node.args[1] == "shape" and all(map(_counts_records, node.users))


def _counts_records(node: torch.fx.Node) -> bool:
    """True if a node is the number of records: `x.size(0)` or `x.shape[0]`."""
    if node.op == "call_method":
        return node.target == "size" and node.args[1:] == (0,) and not node.kwargs
    if node.target is not operator.getitem or node.args[1] != 0:
        return False
    shape = node.args[0]
    return isinstance(shape, torch.fx.Node) and shape.target is getattr and shape.args[1] == "shape"


def _step(module: nn.Module, node: torch.fx.Node, counts: Sequence[torch.fx.Node]) -> ForwardStep:
    if node.op == "call_module":
        path = str(node.target)
        layer = module.get_submodule(path)
        if type(layer) is nn.Flatten:
            return ForwardStep(kind=FLATTENS if (layer.start_dim, layer.end_dim) == (1, -1) else UNKNOWN)
        return ForwardStep(kind=_LAYERS.get(type(layer), UNKNOWN), path=path, layer=layer)
    if node.target in _FLATTENING:
        plain = node.args[1:] in ((1,), (1, -1)) and not node.kwargs
        return ForwardStep(kind=FLATTENS if plain or (not node.args[1:] and node.kwargs == {"start_dim": 1}) else UNKNOWN)
    if node.target in _VIEWS:
        return _view(node, counts)
    if node.target in _POOLING:
        return _pooling(node)
    plain = len(node.args) == 1 and set(node.kwargs) <= {"inplace"}
    return ForwardStep(kind=_FUNCTIONS.get(node.target, UNKNOWN) if plain else UNKNOWN)


def _view(node: torch.fx.Node, counts: Sequence[torch.fx.Node]) -> ForwardStep:
    """Return a view with one row a record: `(records, -1)`, or `(-1, numbers)`, which holds if a record has so many."""
    sizes = node.args[1] if len(node.args) == 2 and isinstance(node.args[1], tuple | list) else node.args[1:]
    if len(sizes) != 2 or node.kwargs:
        return ForwardStep(kind=UNKNOWN)
    first, second = sizes
    if first in counts and second == -1:
        return ForwardStep(kind=FLATTENS)
    named = (first == -1 or first in counts) and isinstance(second, int) and second > 0
    return ForwardStep(kind=FLATTENS, numbers=second) if named and isinstance(second, int) else ForwardStep(kind=UNKNOWN)


def _pooling(node: torch.fx.Node) -> ForwardStep:
    kind, names = _POOLING[node.target]
    arguments = dict(zip(names, node.args[1:], strict=False)) | dict(node.kwargs)
    if any(isinstance(value, torch.fx.Node) for value in arguments.values()) or not set(arguments) <= set(names):
        return ForwardStep(kind=UNKNOWN)
    layer: nn.Module = kind(**arguments)
    return ForwardStep(kind=_LAYERS[kind], layer=layer)


def parameter_starts(module: nn.Module, paths: Sequence[str]) -> dict[str, int] | None:
    """Return where each parameter starts in a model's row, if the layers at `paths` hold all of them, each trained, in one
    layer that is used once, without hooks; None elsewhere."""
    layout = Layout.of(module)
    starts = {slot.name: slot.start for slot in layout.slots}
    weights, biases = (names(paths, role) for role in ("weight", "bias"))
    own = {*weights, *(name for name in biases if name in starts)}
    alone = len(paths) == len(set(paths)) and own == starts.keys() and set(weights) <= starts.keys()
    if not alone or sum(1 for _ in module.parameters()) != len(layout.slots) or any(map(has_hooks, module.modules())):
        return None
    return starts


def names(paths: Sequence[str], role: str) -> list[str]:
    """Names of the parameters that the layers at `paths` have in a role."""
    return [f"{path}.{role}".lstrip(".") for path in paths]
