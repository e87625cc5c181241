"""The frozen part of a model before anything that is trained or drawn: computed once for each record, for all models and steps.

Torch's tracer writes a `forward` down as a graph. What of it depends on the records but on no trained number is a fixed map
of each record, the features; the rest of the graph is the model that is trained. Weights, gradients, clips and noise are
the same to rounding; the recomputation holds the engine against the module itself, from the records on.
"""

import copy
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, fx, nn

from audit.core.seeds import Seed
from audit.core.training import TrainingJob
from audit.engine.gradients.trials import CODE_ERRORS
from audit.engine.layers.layer_map import has_hooks, has_random_layers
from audit.engine.parameter_layout import Layout
from audit.engine.record_rows import RecordRows, training_tensors
from audit.engine.trial.examine import move
from audit.engine.trial.mixing import alike
from audit.models.build import seeded_stream

_BLOCK = 256  # records at once
_MOST_BYTES = 2**30


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Split:
    """A model in two."""

    base: nn.Module  # records `(n, ...)` to features
    head: nn.Module  # features to outputs, its parameters named and laid out as in the whole
    width: int  # numbers of one record's features

    def features(self, records: Tensor | RecordRows, dtype: torch.dtype) -> Tensor:
        """Return the features of all `records`, in blocks of a fixed size, so that no training changes their bits."""
        base = self.base.to(records.device, dtype)
        blocks = []
        with torch.no_grad():
            for start in range(0, len(records), _BLOCK):
                blocks.append(base(records[start : start + _BLOCK].clone()))  # it may work in place
        return torch.cat(blocks) if blocks else torch.zeros(0, device=records.device, dtype=dtype)

    def holds(self, state: Mapping[str, Tensor]) -> bool:
        """True if what is frozen in `state` `(N, ...)` of several models is what the features were computed with."""
        own = self.base.state_dict()
        return all(bool((state[name] == value.to(state[name])).all()) for name, value in own.items() if name in state)

    def fits(self, records: int, dtype: torch.dtype) -> bool:
        return records * self.width * dtype.itemsize <= _MOST_BYTES


def split_module(module: nn.Module, counterpart: Callable[[], nn.Module], records: Tensor) -> Split | None:
    """Return the frozen and the trained part of `module`, or None if a model has no such parts, or they are not all alike.

    What is frozen must be the same in the model of another seed that `counterpart` makes; `records` `(n, ...)` are at least
    two, on the CPU.
    """
    if all(parameter.requires_grad for parameter in module.parameters()) or any(map(has_hooks, module.modules())):
        return None
    if not _same_frozen_values(module, counterpart()):
        return None
    try:
        trial = copy.deepcopy(module)
        move(trial, Seed(0).child("split"))  # a head that starts at zero would make any two parts agree
        parts = _parts(trial, fx.symbolic_trace(trial))
        return None if parts is None else _checked(trial, *parts, records)
    except (fx.proxy.TraceError, NotImplementedError, *CODE_ERRORS):
        return None  # what the code of a forward pass may raise on a stand-in for its input


def _same_frozen_values(module: nn.Module, counterpart: nn.Module) -> bool:
    """True if parameters that are not trained, and buffers, are those of its counterpart."""
    free = {name for name, parameter in module.named_parameters() if parameter.requires_grad}
    values, counterparts = module.state_dict(), counterpart.state_dict()
    return values.keys() == counterparts.keys() and all(
        name in free or torch.equal(value, counterparts[name]) for name, value in values.items()
    )


def _parts(module: nn.Module, graph_module: fx.GraphModule) -> tuple[nn.Module, nn.Module] | None:
    """Return both parts as modules; None unless one value of the frozen part reaches the other."""
    nodes = list(graph_module.graph.nodes)
    inputs = [node for node in nodes if node.op == "placeholder"]
    if len(inputs) != 1:
        return None
    # `later`: what a trained parameter takes part in; `of_records`: what depends on the records alone; the rest is constant
    of_records, later = set(inputs), set()
    for node in nodes:
        if any(source in later for source in node.all_input_nodes) or _is_trained(module, node):
            later.add(node)
        elif any(source in of_records for source in node.all_input_nodes):
            of_records.add(node)
    crossing = {source for node in later for source in node.all_input_nodes if source in of_records}
    output = next(node for node in nodes if node.op == "output")
    if len(crossing) != 1 or output not in later:
        return None
    (border,) = crossing
    if border in inputs:
        return None
    return _base_graph(graph_module, border), _head_graph(graph_module, nodes, later, of_records, border)


def _is_trained(module: nn.Module, node: fx.Node) -> bool:
    """True for an operation that computes with trained parameters, draws, or keeps a state."""
    if node.op == "get_attr":
        value = operator.attrgetter(str(node.target))(module)
        return isinstance(value, Tensor) and value.requires_grad
    if node.op != "call_module":
        return False
    layer = module.get_submodule(str(node.target))
    statistics = [part for part in layer.modules() if isinstance(part, nn.modules.batchnorm._NormBase)]
    if any(part.training and part.track_running_stats for part in statistics):
        return True
    return has_random_layers(layer) or any(parameter.requires_grad for parameter in layer.parameters())


def _base_graph(graph_module: fx.GraphModule, border: fx.Node) -> nn.Module:
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node in _before(border):
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(copies[border])
    return fx.GraphModule(graph_module, graph)


def _head_graph(
    graph_module: fx.GraphModule, nodes: Iterable[fx.Node], later: set[fx.Node], of_records: set[fx.Node], border: fx.Node
) -> nn.Module:
    graph = fx.Graph()
    copies = {border: graph.placeholder("features")}
    needs = {source for node in later for source in _before(node, of_records)}  # with constants, needed on either side
    for node in nodes:
        if node in needs:
            if node.op == "output":
                graph.output(fx.node.map_arg(node.args[0], copies.__getitem__))
            else:
                copies[node] = graph.node_copy(node, copies.__getitem__)
    return fx.GraphModule(graph_module, graph)


def _before(node: fx.Node, ends: Iterable[fx.Node] = ()) -> list[fx.Node]:
    """Return `node` and all that it is computed from, in order; without `ends` and what is computed for them alone."""
    sources, queue = {node}, [node]
    while queue:
        for source in queue.pop().all_input_nodes:
            if source not in sources and source not in ends:
                sources.add(source)
                queue.append(source)
    return [candidate for candidate in node.graph.nodes if candidate in sources]


def _checked(module: nn.Module, base: nn.Module, head: nn.Module, records: Tensor) -> Split | None:
    """Return the two parts if together they are the module, record by record, and the parameters keep their layout."""
    names = module.state_dict()
    if Layout.of(head) != Layout.of(module) or not names.keys() >= head.state_dict().keys():
        return None
    with torch.no_grad():
        features = base(records.clone())
        if not isinstance(features, Tensor) or not features.is_floating_point() or len(features) != len(records):
            return None
        half = len(records) // 2
        halves = torch.cat([base(records[:half].clone()), base(records[half:].clone())])
    outputs, gradients = _trial_gradients(head, features)
    reference, reference_gradients = _trial_gradients(module, records.clone())
    if not (alike(halves, features) and alike(outputs, reference)) or not _alike_by_name(gradients, reference_gradients):
        return None  # gradients differ if a graph lacks what forward() did: no_grad, or its own backward
    return Split(base=base, head=head, width=features[0].numel())


def _trial_gradients(module: nn.Module, inputs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the outputs, and by name the gradients of their sum in a random direction, 0 of a parameter without one."""
    names, leaves = zip(*((name, value) for name, value in module.named_parameters() if value.requires_grad), strict=True)
    with torch.enable_grad(), seeded_stream(Seed(0)):
        outputs = module(inputs)
    shifts = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(0)).to(outputs)
    gradients = torch.autograd.grad((outputs * shifts).sum(), leaves, allow_unused=True, materialize_grads=True)
    return outputs.detach(), dict(zip(names, gradients, strict=True))


def _alike_by_name(left: Mapping[str, Tensor], right: Mapping[str, Tensor]) -> bool:
    return left.keys() == right.keys() and all(alike(left[name], value) for name, value in right.items())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingData:
    """All that the models of a job may sample."""

    inputs: Tensor | RecordRows  # `(n, ...)` to train on: records, or features of them
    labels: Tensor  # `(n, ...)`
    records: Tensor | RecordRows | None = None  # the records themselves if `inputs` are features of them; None otherwise


def training_data(job: TrainingJob, dtype: torch.dtype, device: torch.device, split: Split | None) -> TrainingData:
    """Return the records and canaries of `job`, as features if its models have a frozen part."""
    inputs, labels = training_tensors(job, dtype, device)
    if split is None:
        return TrainingData(inputs=inputs, labels=labels)
    return TrainingData(inputs=split.features(inputs, dtype), labels=labels, records=inputs)
