"""Small convolutional networks, as compiled code takes them: convolutions and pooling before a chain of linear layers."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from torch import nn

from audit.engine.compiled import straight_line as line
from audit.engine.compiled.compiled_mlp import Chain, ChainStruct, chain_from
from audit.engine.compiled.image_geometry import Stage, find_stage, multiplications
from audit.engine.compiled.image_tables import ImageStruct, StageStruct, Tables, workspace_vectors
from audit.engine.parameter_layout import Layout

SOURCE = "conv_sums.c"
_ACTIVATIONS: Mapping[str, int] = {line.RELU: 1, line.TANH: 2}
# numbers of the images of one record, twice, from which a vector of records no longer fits any cache
_MOST_NUMBERS = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Convolutions, normalisation and pooling one after another, then linear layers on all that is left of the images."""

    source: ClassVar[str] = SOURCE
    prefix: ClassVar[str] = "conv"  # of its functions' names

    shape: tuple[int, int, int]  # channels, rows and columns of a record
    stages: tuple[Stage, ...]  # what is before the linear layers
    weights: tuple[int, ...]  # where those of each convolution and normalisation that has any start in a model's parameters
    biases: tuple[int, ...]  # the same for biases, -1 for none
    tail: Chain  # the linear layers

    def struct(self) -> NetworkStruct:
        """Return this network as compiled code reads it, with tables of all places that it reads and writes."""
        tables = Tables(self.shape, self.stages, self.weights, self.biases)
        chain = self.tail.struct()
        struct = NetworkStruct(
            stages=len(self.stages), layers=len(self.weights), vectors=tables.vectors, gradients=tables.gradients,
            packing=tables.packing, images=tables.images, list=tables.list, tail=ctypes.pointer(chain),
        )  # fmt: skip
        struct.chain, struct.tables = chain, tables  # C reads their memory, which Python would free with them
        return struct

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of a record, of what the linear layers take, and of what each of them returns."""
        return math.prod(self.shape), *self.tail.sizes

    @property
    def operations(self) -> int:
        """Floating-point operations of one example: forward, signals back, its gradient."""
        products = multiplications(self.shape[0], self.stages)
        # here the first linear layer sends its signal on
        linear = self.tail.operations + 2 * self.tail.sizes[0] * self.tail.sizes[1]
        return 2 * (3 * sum(products) - products[0]) + linear


Architecture = Chain | Network


def find_network(module: nn.Module, shape: tuple[int, ...]) -> Network | None:
    """The network that `module` is for records of `shape`, however its `forward` is written, or None for anything else.

    Call it before threads train, as for `straight_line`.

    >>> layers = nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 3)
    >>> [stage.size for stage in find_network(nn.Sequential(*layers), (1, 6, 6)).stages]
    [(4, 4), (2, 2)]
    >>> find_network(nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4)), (1, 6, 6))
    """
    if len(shape) != 3 or not any(type(layer) is nn.Conv2d for layer in module.modules()):
        return None
    steps = line.straight_line(module)
    if steps is None:
        return None
    own = [step.path for step in steps if step.kind in (line.CONVOLUTION, line.LINEAR) or _has_scale(step)]
    starts = line.parameter_starts(module, own)
    if starts is None:
        return None
    stages = _stages(steps, shape)
    if stages is None or not any(stage.axes for stage in stages):
        return None
    # an activation is a step of its own in `forward`, and a part of a stage here
    remainder = steps[len(stages) + sum(stage.activation > 0 for stage in stages) :]
    size = stages[-1].channels * math.prod(stages[-1].size)
    views = 0
    # views behind one another are one; 0 numbers: whatever their count
    while views < len(remainder) and remainder[views].kind == line.FLATTENS and remainder[views].numbers in (0, size):
        views += 1
    tail = chain_from(remainder[views:], starts, Layout.of(module).width) if views else None
    if tail is None or tail.sizes[0] != size:
        return None
    paths = [stage.path for stage in stages if stage.path]
    network = Network(
        shape=(shape[0], shape[1], shape[2]),
        stages=stages,
        weights=tuple(starts[name] for name in line.names(paths, "weight")),
        biases=tuple(starts.get(name, -1) for name in line.names(paths, "bias")),
        tail=tail,
    )
    return network if workspace_vectors(network.shape, stages) <= _MOST_NUMBERS else None


def _has_scale(step: line.ForwardStep) -> bool:
    return isinstance(step.layer, nn.GroupNorm) and step.layer.affine


def _stages(steps: list[line.ForwardStep], shape: tuple[int, ...]) -> tuple[Stage, ...] | None:
    """Return the stages up to the first step that is neither of images nor an activation; None if one is not covered."""
    channels, size, stages = shape[0], (shape[1], shape[2]), list[Stage]()
    for step in steps:
        if step.kind in _ACTIVATIONS and stages and not stages[-1].activation:
            stages[-1] = replace(stages[-1], activation=_ACTIVATIONS[step.kind])
            continue
        if step.kind in (line.FLATTENS, line.LINEAR):
            break
        stage = find_stage(step, channels, size)
        if stage is None:
            return None
        stages.append(stage)
        channels, size = stage.channels, stage.size
    return tuple(stages) or None


class NetworkStruct(ctypes.Structure):
    """A network as compiled code reads it."""

    _fields_ = (
        ("stages", ctypes.c_int64),
        ("layers", ctypes.c_int64),
        ("vectors", ctypes.c_int64),
        ("gradients", ctypes.c_int64),
        ("packing", ctypes.c_int64),
        ("images", ctypes.POINTER(ImageStruct)),
        ("list", ctypes.POINTER(StageStruct)),
        ("tail", ctypes.POINTER(ChainStruct)),
    )
    chain: ChainStruct
    tables: Tables
