"""Random modules: layers, functions, sharing, freezing, buffers, masks and axes in random order."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.engine import fuzz_parts

POSITIONS, WIDTH, CLASSES = 4, 6, 3
SHAPE = (POSITIONS, WIDTH)


class Around(nn.Module):
    """One layer inside of operations that a layer for many models does not see: axes, masks, residuals, scopes."""

    def __init__(self, layer: nn.Module, way: str) -> None:
        super().__init__()
        self.layer, self.way = layer, way
        self.register_buffer("mask", (torch.arange(POSITIONS) != 1).float().unsqueeze(1))

    def forward(self, hidden: Tensor) -> Tensor:  # noqa: PLR0911
        match self.way:
            case "residual":
                return hidden + self.layer(hidden)
            case "masked":
                return self.layer(hidden * self.mask)
            case "positions first":
                return self.layer(hidden.transpose(0, 1)).transpose(0, 1)
            case "positions folded":
                return self.layer(hidden.flatten(0, 1)).unflatten(0, (-1, POSITIONS))
            case "position by position":
                return torch.stack([self.layer(hidden[:, place]) for place in range(POSITIONS)], dim=1)
            case "without gradient":
                with torch.no_grad():
                    built = self.layer(hidden)
                return built + hidden
            case "detached":
                return hidden + self.layer(hidden).detach()
            case "in place":
                built = self.layer(hidden)
                built += 0.5 * hidden
                return built.relu_()
            case "twice":
                return self.layer(torch.tanh(self.layer(hidden)))
            case "where":
                return torch.where(hidden > 0, self.layer(hidden), hidden)
        return self.layer(hidden)


WAYS = (
    "plain", "residual", "masked", "positions first", "positions folded", "position by position", "without gradient",
    "detached", "in place", "twice", "where",
)  # fmt: skip


class Swapped(nn.Module):
    """A layer over channels, given `(record, position, channel)`."""

    def __init__(self, layer: nn.Module, extra: int = 0) -> None:
        super().__init__()
        self.layer, self.extra = layer, extra

    def forward(self, hidden: Tensor) -> Tensor:
        built = hidden.transpose(1, 2)
        built = self.layer(built.unsqueeze(-1)).squeeze(-1) if self.extra else self.layer(built)
        return built.transpose(1, 2)


class Raw(nn.Module):
    """Parameters outside of any layer: a matrix, a vector, a number."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        shape = {"matrix": (WIDTH, WIDTH), "vector": (WIDTH,), "number": ()}[kind]
        self.value = nn.Parameter(torch.randn(shape) * 0.5)

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden @ self.value if self.value.dim() == 2 else hidden * self.value


class Tokens(nn.Module):
    """Numbers as tokens of a table, with positions of the same table or their own."""

    def __init__(self, shared: bool) -> None:
        super().__init__()
        self.table = nn.Embedding(7, WIDTH)
        self.places = self.table if shared else nn.Embedding(POSITIONS, WIDTH)

    def forward(self, hidden: Tensor) -> Tensor:
        tokens = (hidden.detach()[..., 0].abs() * 3).long() % 7
        return hidden + self.table(tokens) + self.places(torch.arange(POSITIONS).unsqueeze(0))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(WIDTH, 2, batch_first=True)

    def forward(self, hidden: Tensor) -> Tensor:
        return self.inner(hidden, hidden, hidden, need_weights=False)[0]


class Function(nn.Module):
    """An operation without parameters."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, hidden: Tensor) -> Tensor:  # noqa: PLR0911
        match self.name:
            case "tanh":
                return torch.tanh(hidden)
            case "softmax":
                return torch.softmax(hidden, -1)
            case "cumsum":
                return hidden.cumsum(1)
            case "roll":
                return hidden.roll(1, dims=1)
            case "normalise":
                return F.normalize(hidden, dim=-1, eps=0.1)
            case "sort":
                return hidden.sort(dim=1).values
        return F.gelu(hidden)


FUNCTIONS = ("tanh", "softmax", "cumsum", "roll", "normalise", "sort", "gelu")


class Mixing(nn.Module):
    """An operation over the records of a batch, small beside the value to which it is added."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, hidden: Tensor) -> Tensor:
        match self.name:
            case "mean":
                return hidden - 0.01 * hidden.mean(0)
            case "in training":
                return hidden - 0.01 * hidden.mean(0) if self.training else hidden
            case "order":
                return hidden + 0.01 * hidden.cumsum(0)
            case "rank":
                channel = torch.arange(WIDTH) == 0  # of one alone: norms and softmax take a shift of all channels away
                return hidden + 0.01 * (hidden[:, :1, :1].argsort(0) < 8) * channel
        return hidden + 0.01 * hidden.roll(1, dims=0)


MIXINGS = ("mean", "in training", "order", "rank", "neighbour")

LAYERS: Mapping[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(WIDTH, WIDTH),
    "linear without bias": lambda: nn.Linear(WIDTH, WIDTH, bias=False),
    "layer norm": lambda: nn.LayerNorm(WIDTH),
    "layer norm over positions": lambda: nn.LayerNorm(SHAPE),
    "group norm": lambda: Swapped(nn.GroupNorm(2, WIDTH)),
    "convolution": lambda: Swapped(nn.Conv2d(WIDTH, WIDTH, (3, 1), padding=(1, 0)), 1),
    "grouped convolution": lambda: Swapped(nn.Conv2d(WIDTH, WIDTH, (3, 1), padding=(1, 0), groups=2), 1),
    "convolution 1d": lambda: Swapped(nn.Conv1d(WIDTH, WIDTH, 3, padding=1)),
    "frozen batch norm": lambda: Swapped(nn.BatchNorm1d(WIDTH).eval()),
    "matrix": lambda: Raw("matrix"),
    "vector": lambda: Raw("vector"),
    "number": lambda: Raw("number"),
    "tokens": lambda: Tokens(False),
    "shared tokens": lambda: Tokens(True),
    "attention": Attention,
}
# layers whose meaning needs all axes in their places
_FIXED = ("layer norm over positions", "tokens", "shared tokens", "attention")


def _layers(random: np.random.Generator) -> list[nn.Module]:
    """One to four layers, shared, frozen and inside of other operations as it comes, each before a function."""
    parts: list[nn.Module] = []
    built: list[nn.Module] = []
    for _ in range(int(random.integers(1, 5))):
        name = str(random.choice(list(LAYERS)))
        shared = built and random.random() < 0.2
        layer = built[int(random.integers(len(built)))] if shared else LAYERS[name]()
        if not shared and random.random() < 0.2:
            layer.requires_grad_(False)
        if shared or name not in _FIXED:
            built += [] if shared else [layer]
            folds = isinstance(layer, nn.Linear | nn.LayerNorm | Raw)
            ways = WAYS if folds else [way for way in WAYS if not way.startswith("position")]
            layer = Around(layer, str(random.choice(ways)))
        parts += [layer, Function(str(random.choice(FUNCTIONS)))]
    return parts


def _with_parts(random: np.random.Generator) -> list[nn.Module]:
    """Up to two layers with one or two parts of `fuzz_parts` somewhere between them, which may be frozen or are twice."""
    layers = _layers(random)[: 2 * int(random.integers(0, 3))]
    for name in random.choice(list(fuzz_parts.PARTS), int(random.integers(1, 3))):
        part = fuzz_parts.PARTS[str(name)]()
        if random.random() < 0.15:
            part.requires_grad_(False)
        for _ in range(1 + (random.random() < 0.15)):
            layers.insert(int(random.integers(len(layers) + 1)), part)
    return layers


class Fuzzed(nn.Module):
    """A random chain of layers and functions, and a head that may start at zero.

    Args:
        seed: of all choices.
        mixes: an operation over the batch is among them.
        parts: those of `fuzz_parts` are, too, at least one of them.
    """

    def __init__(self, seed: int, mixes: bool = False, parts: bool = False) -> None:
        super().__init__()
        random = np.random.default_rng(seed)
        self.body = nn.Sequential(*(_with_parts(random) if parts else _layers(random)))
        if mixes:
            self.body.insert(int(random.integers(len(self.body) + 1)), Mixing(str(random.choice(MIXINGS))))
        self.head = nn.Linear(WIDTH, CLASSES)
        if random.random() < 0.5:
            nn.init.zeros_(self.head.weight)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.body(inputs).mean(1))


class Several(nn.Module):
    """The same for records in two tensors, by name or in a dictionary."""

    def __init__(self, seed: int, mixes: bool = False) -> None:
        super().__init__()
        self.inner = Fuzzed(seed, mixes, parts=True)
        self.shift = nn.Linear(2, WIDTH, bias=False)

    def forward(self, left: Tensor | dict[str, Tensor], right: Tensor | None = None) -> Tensor:
        first, second = (left["left"], left["right"]) if isinstance(left, dict) else (left, right)
        return self.inner(torch.cat([first, first.flip(1)], 1) + self.shift(second).unsqueeze(1))
