"""Models, data and the slow per-example loop that the engine's tests are compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from audit.core.access import Access
from audit.core.canaries import Canaries, CanaryRecords
from audit.core.data import Dataset, Records
from audit.core.event_reading import noisy_steps
from audit.core.events import Event, dp_sgd
from audit.core.seeds import Seed
from audit.core.training import TrainingJob


class Tied(nn.Module):
    """Encoder and decoder share one matrix through two modules; an embedding and a head share another."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 6)
        self.norm = nn.LayerNorm(6)
        self.inner = nn.Linear(6, 6)
        self.head = nn.Linear(6, 7, bias=False)
        self.head.weight = self.embed.weight
        self.out = nn.Linear(7, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        tokens = (inputs.abs() * 10).long() % 7
        hidden = torch.tanh(self.inner(self.norm(self.embed(tokens))))
        return self.out(self.head(hidden).mean(1))


class UsedTwice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 8)
        self.again = nn.Linear(8, 8)
        self.last = nn.Linear(8, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.tanh(self.again(torch.relu(self.again(torch.tanh(self.first(inputs))))))
        return self.last(hidden)


class Sequences(nn.Module):
    """Embedding with a padding row, a linear layer on positions (ghost norms), layer norm without bias."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 24, padding_idx=0)
        self.mix = nn.Linear(24, 24)
        self.norm = nn.LayerNorm(24, bias=False)
        self.last = nn.Linear(24, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        tokens = (inputs.abs() * 10).long() % 7
        return self.last(self.norm(torch.relu_(self.mix(self.embed(tokens)))).mean(1))


class Convolutions(nn.Module):
    """Every geometry of a convolution, group norm, an in-place activation, pooling, a frozen layer."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(2, 4, 3, padding="same", dilation=2),
            nn.ReLU(inplace=True),
            nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 0), bias=False),
            nn.GroupNorm(2, 6),
            nn.ELU(inplace=True),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 32, 1),
            nn.Tanh(),
        )
        self.body[6].bias.requires_grad_(False)
        self.last = nn.Linear(32, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(self.body(inputs).mean((2, 3)))


class ManyChannels(nn.Module):
    """Convolutions wide enough to be left to the library."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(2, 16, 1),
            nn.Tanh(),
            nn.Conv2d(16, 17, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2)),
            nn.ELU(),
            nn.Conv2d(17, 16, 2, bias=False),
        )
        self.last = nn.Linear(16, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(self.body(inputs).mean((2, 3)))


class GroupedConvolutions(nn.Module):
    """Groups, one channel a group, one channel in and out, and a kernel as large as the image."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1, groups=2),
            nn.Tanh(),
            nn.Conv2d(4, 4, 3, stride=(1, 2), padding=2, dilation=2, groups=4, bias=False),
            nn.Tanh(),
            nn.Conv2d(4, 1, 1),
            nn.Tanh(),
            nn.Conv2d(1, 1, 1, groups=1),
            nn.Tanh(),
            nn.Conv2d(1, 6, (6, 3), groups=1),
        )
        self.last = nn.Linear(6, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(self.body(inputs).flatten(1))


class Vision(nn.Module):
    """A small vision transformer: patches by convolution, a class token, positions, one encoder layer."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(2, 8, 3, stride=3)
        self.token = nn.Parameter(torch.zeros(1, 1, 8))
        self.position = nn.Parameter(torch.randn(1, 5, 8) * 0.1)
        self.encoder = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True, norm_first=True)
        self.norm = nn.LayerNorm(8)
        self.last = nn.Linear(8, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        patches = self.patches(inputs).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(len(inputs), -1, -1), patches], dim=1) + self.position
        return self.last(self.norm(self.encoder(tokens))[:, 0])


class Attending(nn.Module):
    """Embedding, self-attention, a residual and a feed-forward part with layer norms."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 8)
        self.attention = nn.MultiheadAttention(8, 2, dropout=dropout, batch_first=True)
        self.norm = nn.LayerNorm(8)
        self.feed = nn.Sequential(nn.Linear(8, 12), nn.GELU(), nn.Linear(12, 8))
        self.last = nn.Linear(8, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.embed((inputs.abs() * 10).long() % 7)
        hidden = self.norm(hidden + self.attention(hidden, hidden, hidden, need_weights=False)[0])
        return self.last((hidden + self.feed(hidden)).mean(1))


class Encoder(nn.Module):
    """torch's own encoder under a causal mask and one that hides a token of each record."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.weighing = nn.MultiheadAttention(8, 4, bias=False, batch_first=True)
        self.last = nn.Linear(8, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        tokens = (inputs.abs() * 10).long() % 7
        length = tokens.shape[1]
        causal = torch.ones(length, length, dtype=torch.bool, device=inputs.device).triu(1)
        hidden = (torch.arange(length, device=inputs.device) == 2) & (tokens[:, 2:3] < 4)
        observed = self.body(self.embed(tokens), mask=causal, src_key_padding_mask=hidden)
        bias = torch.linspace(-1, 1, length, device=inputs.device).to(observed.dtype).expand(length, length)
        mixed, weights = self.weighing(observed, observed, observed, attn_mask=bias)
        return self.last((mixed * weights.amax(2, keepdim=True)).mean(1))


class Crossing(nn.Module):
    """Attention of one sequence to another."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.last = nn.Linear(8, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        observed = self.embed((inputs.abs() * 10).long() % 7)
        return self.last(self.attention(observed[:, :2], observed, observed)[0].mean(1))


class Recurrent(nn.Module):
    """Embedding and one recurrent layer."""

    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 6)
        self.body = kind(6, 5, batch_first=True)
        self.last = nn.Linear(5, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(self.body(self.embed((inputs.abs() * 10).long() % 7))[0][:, -1])


class Transposed(nn.Module):
    """An upsampling convolution between two plain ones."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(2, 3, 3, stride=2), nn.Tanh(), nn.ConvTranspose2d(3, 4, 3, stride=2), nn.Tanh(), nn.Conv2d(4, 4, 3)
        )
        self.last = nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(self.body(inputs).mean((2, 3)))


class RawParameter(nn.Module):
    """A parameter outside any layer and a bilinear layer, which only the fallback covers."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(5))
        self.linear = nn.Bilinear(5, 5, 4)
        self.last = nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(torch.tanh(self.linear(inputs * self.scale, inputs)))


class Sneaky(nn.Module):
    """Uses a layer's weight without calling the layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 5)
        self.last = nn.Linear(5, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(F.linear(torch.tanh(self.first(inputs)), self.first.weight))


class Normalised(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.body(inputs)


class Mixing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.linear(inputs - inputs.mean(0, keepdim=True))


class Dropping(nn.Module):
    def __init__(self, raw: bool = False) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 32), nn.Dropout(0.4), nn.Linear(32, 3))
        self.scale = nn.Parameter(torch.ones(5)) if raw else 1.0

    def forward(self, inputs: Tensor) -> Tensor:
        return self.body(inputs * self.scale)


def steady() -> nn.Module:
    built = Dropping()
    built.body[1].p = 0.0
    return built


def dropping(raw: bool) -> nn.Module:
    return Dropping(raw)


def attending(dropout: float) -> nn.Module:
    return Attending(dropout)


FACTORIES: Mapping[str, Callable[[], nn.Module]] = {
    "tied": Tied,
    "used_twice": UsedTwice,
    "sequences": Sequences,
    "convolutions": Convolutions,
    "grouped": GroupedConvolutions,
    "vision": Vision,
    "attending": Attending,
    "encoder": Encoder,
    "crossing": Crossing,
    "lstm": lambda: Recurrent(nn.LSTM),
    "gru": lambda: Recurrent(nn.GRU),
    "transposed": Transposed,
    "raw": RawParameter,
    "many_channels": ManyChannels,
    "sneaky": Sneaky,
    "normalised": Normalised,
    "mixing": Mixing,
}


def make(name: str) -> nn.Module:
    return FACTORIES[name]()


def factory(name: str) -> dict[str, Any]:
    return {"factory": "tests.engine.cases:make", "arguments": {"name": name}}


MODELS: Mapping[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "logistic": ({"kind": "logistic"}, (5,)),
    "mlp": ({"kind": "mlp", "hidden": [8, 6], "activation": "tanh"}, (5,)),
    "cnn": ({"kind": "cnn", "channels": [3, 4]}, (2, 6, 6)),
    "wide_resnet": ({"kind": "wide_resnet", "depth": 10, "widen": 1, "groups": 4}, (1, 8, 8)),
    "vit": ({"kind": "vit", "patch": 3, "width": 8, "depth": 1, "heads": 2}, (2, 6, 6)),
    "transformer": ({"kind": "transformer", "vocabulary": 3, "width": 8, "depth": 1, "heads": 2}, (6,)),
    "recurrent": ({"kind": "recurrent", "vocabulary": 3, "cell": "gru", "width": 6}, (4,)),
    "tied": (factory("tied"), (5,)),
    "used_twice": (factory("used_twice"), (5,)),
    "sequences": (factory("sequences"), (5,)),
    "convolutions": (factory("convolutions"), (2, 6, 6)),
    "many_channels": (factory("many_channels"), (2, 6, 6)),
    "grouped": (factory("grouped"), (2, 6, 6)),
    "vision": (factory("vision"), (2, 6, 6)),
    "attending": (factory("attending"), (5,)),
    "encoder": (factory("encoder"), (5,)),
    "crossing": (factory("crossing"), (5,)),
    "lstm": (factory("lstm"), (5,)),
    "gru": (factory("gru"), (5,)),
    "transposed": (factory("transposed"), (2, 6, 6)),
    "raw": (factory("raw"), (5,)),
    "sneaky": (factory("sneaky"), (5,)),
}


def records(shape: tuple[int, ...], count: int, seed: int, classes: int = 3) -> Records:
    generator = np.random.default_rng(seed)
    inputs = generator.normal(size=(count, *shape)).astype(np.float32)
    labels = generator.integers(0, classes, count) if classes else generator.normal(size=count)
    return Records(inputs=inputs, labels=labels)


def dataset(shape: tuple[int, ...], train: int = 40, pool: int = 12, classes: int = 3) -> Dataset:
    return Dataset(
        name="toy",
        source="made up for a test",
        sha256="0" * 64,
        classes=classes,
        train=records(shape, train, 1, classes),
        pool=records(shape, pool, 2, classes),
        test=records(shape, 20, 3, classes),
        pool_index=np.arange(pool),
    )


def job(
    mechanism: Event,
    *,
    model: Mapping[str, Any] | None = None,
    data: Dataset | None = None,
    canaries: Canaries | None = None,
    models: int = 3,
    access: Access = Access.ALL_STEPS,
    optimizer: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> TrainingJob:
    data = data or dataset((5,))
    canaries = canaries or Canaries(kind="held_out", description="", payload=CanaryRecords(records=data.pool))
    return TrainingJob(
        dataset=data,
        canaries=canaries,
        included=np.random.default_rng(seed).random((models, len(canaries))) < 0.5,
        seeds=tuple(Seed(seed).child("model", index) for index in range(models)),
        mechanism=mechanism,
        model=model or {"kind": "mlp", "hidden": [8]},
        optimizer=optimizer or {"kind": "sgd", "learning_rate": 0.5},
        access=access,
    )


def varied(mechanism: Event, **changes: Any) -> Event:
    """Return the event of a DP-SGD training with other noise, clip norm, rate or steps."""
    noisy = noisy_steps(mechanism)
    assert noisy is not None
    return dp_sgd(**{**asdict(noisy), **changes})


def silent(_: int) -> None:
    """A progress callback that shows nothing."""


def slow_loss(outputs: Tensor, label: Tensor) -> Tensor:
    if label.dtype == torch.int64:
        return F.cross_entropy(outputs, label.unsqueeze(0))
    return (outputs.reshape(()) - label) ** 2


def slow_sum(module: nn.Module, inputs: Tensor, labels: Tensor, clip_norm: float | None) -> tuple[list[Tensor], Tensor]:
    """Clipped sum, one example after another by plain autograd, and the norms before clipping."""
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    total = [torch.zeros_like(parameter) for parameter in trained]
    norms = []
    for item, label in zip(inputs, labels, strict=True):
        loss = slow_loss(module(item.unsqueeze(0)), label)
        result = torch.autograd.grad(loss, trained, allow_unused=True)
        gradients = [torch.zeros_like(p) if g is None else g for p, g in zip(trained, result, strict=True)]
        norm = torch.sqrt(sum((gradient**2).sum() for gradient in gradients))
        norms.append(norm)
        if not torch.isfinite(norm):
            continue
        factor = 1.0 if clip_norm is None else min(1.0, clip_norm / float(norm))
        for place, gradient in zip(total, gradients, strict=True):
            place.add_(factor * gradient)
    return total, torch.stack(norms) if norms else torch.empty(0)
