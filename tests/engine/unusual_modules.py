"""Modules of unusual types and parts: what is trained as it is, and what is refused by the sentence that it deserves."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.utils import prune


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))


class Categories(nn.Module):
    """Rows of a table, found by the numbers of a record."""

    def __init__(self, table: nn.Module, width: int) -> None:
        super().__init__()
        self.table, self.last = table, nn.Linear(width, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(self.table((inputs.abs() * 3).long().clamp(0, 19)).flatten(1))


class HalfBackbone(nn.Module):
    """A frozen layer in half precision, its inputs converted to its own type or to a fixed one."""

    def __init__(self, dtype: torch.dtype, *, fixed: bool = False) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(5, 8).to(dtype), nn.Linear(8, 3)
        self.first.requires_grad_(False)
        self.dtype = dtype if fixed else None

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.relu(self.first(inputs.to(self.dtype or self.first.weight.dtype)))
        return self.last(hidden.to(self.last.weight.dtype))


class Writing(nn.Module):
    """Scales its input if it is."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = network()

    def forward(self, inputs: Tensor) -> Tensor:
        return self.layers(inputs.mul_(2.0))


def pruned() -> nn.Module:
    model = network()
    prune.l1_unstructured(model[0], "weight", 0.3)
    return model


def normed() -> nn.Module:
    model = network()
    nn.utils.weight_norm(model[0])
    return model


TRAINED: dict[str, Callable[[], nn.Module]] = {
    "sparse embedding": lambda: Categories(nn.Embedding(20, 6, sparse=True), 30),
    "sparse bag": lambda: Categories(nn.EmbeddingBag(20, 6, sparse=True), 6),
    "bfloat16 backbone": lambda: HalfBackbone(torch.bfloat16),
    "float16 backbone": lambda: HalfBackbone(torch.float16),
    "bfloat16": lambda: network().to(torch.bfloat16),
    "pruned": pruned,
    "old weight norm": normed,
    "first layer in place": lambda: nn.Sequential(nn.ReLU(inplace=True), *network()),
}
REFUSED: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "parallel": (lambda: nn.DataParallel(network()), "return the module inside of it"),
    "parallel inside": (lambda: nn.Sequential(nn.DataParallel(network()), nn.Identity()), r"layer '0' \(DataParallel\)"),
    "fixed type": (lambda: HalfBackbone(torch.bfloat16, fixed=True), "convert by the type of the weights"),
    "writes": (Writing, "writes into its input"),
}


def make(kind: str) -> nn.Module:
    """The factory that configs name."""
    return REFUSED[kind][0]() if kind in REFUSED else TRAINED[kind]()
