"""Models as users write them, of the kinds that an engine for many models gets wrong without noticing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F


class SequenceFirst(nn.Module):
    """Linear layers on `(position, record, feature)`."""

    def __init__(self, zero_head: bool = False) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(2, 6), nn.Linear(6, 3)
        if zero_head:
            nn.init.zeros_(self.last.weight)
            nn.init.zeros_(self.last.bias)

    def forward(self, inputs: Tensor) -> Tensor:
        positions = 0.1 * inputs.unflatten(1, (3, 2)).transpose(0, 1)
        return self.last(torch.tanh(self.first(positions)).mean(0))


class Capacity(nn.Module):
    """A mixture of two experts of which the first takes no more than eight records of a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.route, self.left, self.right = nn.Linear(6, 1), nn.Linear(6, 6), nn.Linear(6, 6)
        self.last = nn.Linear(6, 3)
        nn.init.zeros_(self.last.weight)

    def forward(self, inputs: Tensor) -> Tensor:
        wants = self.route(inputs)[:, 0] > 0
        fits = wants & (wants.cumsum(0) <= 8)
        hidden = torch.where(fits.unsqueeze(1), self.left(inputs), self.right(inputs))
        return self.last(torch.tanh(hidden))


class MixesInTraining(nn.Module):
    """Centres the batch in training mode only, before a head that starts at zero."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 6), nn.Linear(6, 3)
        nn.init.zeros_(self.last.weight)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.first(inputs)
        return self.last(hidden - hidden.mean(0) if self.training else hidden)


class Lora(nn.Module):
    """A frozen linear layer with a trained low-rank path beside it, as adapters of language models have."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(6, 6).requires_grad_(False)
        self.down, self.up = nn.Linear(6, 2, bias=False), nn.Linear(2, 6, bias=False)
        self.last = nn.Linear(6, 3)
        nn.init.zeros_(self.up.weight)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(torch.relu(self.base(inputs) + self.up(self.down(inputs))))


class Scaled(nn.Module):
    """A temperature and a shift without axes, trained."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
        self.temperature = nn.Parameter(torch.tensor(1.5))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.body(inputs) * self.temperature.exp()


class Positions(nn.Module):
    """Positions that are looked up once for all records, before a head that starts at zero."""

    def __init__(self, leading_axis: bool) -> None:
        super().__init__()
        self.embed, self.position = nn.Embedding(7, 6), nn.Embedding(6, 6)
        self.mix, self.last = nn.Linear(6, 6), nn.Linear(6, 3)
        self.leading_axis = leading_axis
        nn.init.zeros_(self.last.weight)

    def forward(self, inputs: Tensor) -> Tensor:
        places = torch.arange(inputs.shape[1], device=inputs.device)
        places = places.unsqueeze(0) if self.leading_axis else places
        tokens = (inputs.abs() * 10).long() % 7
        return self.last(torch.tanh(self.mix(self.embed(tokens) + self.position(places))).mean(1))


class FunctionalDropout(nn.Module):
    """Dropout as a function, as in torch's own examples."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 16), nn.Linear(16, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(F.dropout(torch.relu(self.first(inputs)), 0.5, self.training))


class NoGradient(nn.Module):
    """A convolution under `no_grad`, before a head that starts at zero."""

    def __init__(self) -> None:
        super().__init__()
        self.features, self.inner, self.last = nn.Conv2d(2, 16, 1), nn.Conv2d(16, 16, 3), nn.Linear(16, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        with torch.no_grad():
            hidden = self.inner(torch.relu(self.features(inputs)))
        return self.last(hidden.mean((2, 3)))


class FrozenConvolutions(nn.Module):
    """Frozen convolutions, wide and narrow, with many positions and few, and a trained one between them."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(2, 4, 3).requires_grad_(False), nn.ReLU(), nn.Conv2d(4, 16, 1), nn.Tanh(),
            nn.Conv2d(16, 16, 2).requires_grad_(False), nn.Tanh(), nn.Conv2d(16, 5, 2).requires_grad_(False),
        )  # fmt: skip
        self.last = nn.Linear(5, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(self.body(inputs).mean((2, 3)))


class FrozenBackbone(nn.Module):
    """Batch normalisation and dropout in evaluation mode, trained scales and a trained head."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5))
        self.norm = nn.BatchNorm1d(4, affine=False)
        for layer in (self.backbone[1], self.norm):
            layer.running_mean.copy_(torch.linspace(-1, 1, 4))
            layer.running_var.copy_(torch.linspace(0.5, 2, 4))
        self.backbone[0].requires_grad_(False)
        self.backbone.eval()
        self.norm.eval()
        self.last = nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(self.norm(self.backbone(inputs).mean((2, 3))))


class InPlaceFirst(nn.Module):
    """An activation in place on the output of the first layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 5), nn.Linear(5, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.first(inputs)
        hidden.relu_()
        return self.last(hidden)


class Keeps(nn.Module):
    """Adds the records of a batch to a buffer, in place or by another tensor."""

    def __init__(self, rebinds: bool = False) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(6, 3))
        self.rebinds = rebinds
        self.register_buffer("seen", torch.zeros(6))

    def forward(self, inputs: Tensor) -> Tensor:
        if self.training and self.rebinds:
            self.seen = self.seen + inputs.detach().sum(0)
        elif self.training:
            self.seen.add_(inputs.detach().sum(0))
        return self.inner(inputs)


class Complex(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.filter = nn.Parameter(torch.randn(6, dtype=torch.complex64))
        self.last = nn.Linear(6, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last((inputs * self.filter).abs())


class Fails(nn.Module):
    """A layer inside that does not take what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(4, 3))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.body(inputs)


class Shuffles(nn.Module):
    """Mixes each record with another that is drawn at random."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(6, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(inputs + 0.1 * inputs[torch.randperm(len(inputs), device=inputs.device)])


class Counts(nn.Module):
    """Keeps a state that is no buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.last, self.calls = nn.Linear(6, 3), 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls += 1
        return self.last(inputs) * self.calls


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(6, 3)

    def forward(self, inputs: Tensor) -> Any:
        return {"logits": self.last(inputs)}


def patched() -> nn.Module:
    made = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    before = made[0].forward
    made[0].forward = lambda inputs: 2.0 * before(inputs)  # type: ignore[method-assign]
    return made


def spectral() -> nn.Module:
    return nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(6, 5)), nn.ReLU(), nn.Linear(5, 3))


def frozen() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 3)).requires_grad_(False)


VECTOR, IMAGE = (6,), (2, 6, 6)
Factory = Callable[[], nn.Module]
EXACT: Mapping[str, tuple[Factory, tuple[int, ...]]] = {
    "sequence_first": (SequenceFirst, VECTOR),
    "sequence_first_zero_head": (lambda: SequenceFirst(True), VECTOR),
    "lora": (Lora, VECTOR),
    "scaled": (Scaled, VECTOR),
    "positions": (lambda: Positions(False), VECTOR),
    "positions_leading": (lambda: Positions(True), VECTOR),
    "no_gradient": (NoGradient, IMAGE),
    "frozen_convolutions": (FrozenConvolutions, IMAGE),
    "frozen_backbone": (FrozenBackbone, IMAGE),
    "in_place_first": (InPlaceFirst, VECTOR),
}
REFUSED: Mapping[str, tuple[Factory, str]] = {
    "capacity": (Capacity, "changes with the other records of the batch"),
    "mixes_in_training": (MixesInTraining, "changes with the other records of the batch.*in training mode"),
    "keeps": (Keeps, r"\(Keeps\) changes its buffer 'seen'"),
    "keeps_rebound": (lambda: Keeps(True), r"\(Keeps\) changes its buffer 'seen'"),
    "complex": (Complex, r"'\(the model itself\)' \(Complex\): 'filter' is complex"),
    "fails": (Fails, r"layer 'body.2' \(Linear\) fails on a batch of shape \(\d+, 6\): RuntimeError: mat1 and mat2"),
    "shuffles": (Shuffles, r"\(Shuffles\): forward\(\) draws random numbers by randperm"),
    "counts": (Counts, r"\(Counts\) gives other outputs when it is called again"),
    "pair": (Pair, r"returns dict; expected one tensor of shape \(\d+, 3\)"),
    "patched": (patched, r"layer '0' \(Linear\): forward\(\) was replaced on the object"),
    "spectral": (spectral, r"changes its buffer '0.parametrizations.weight.0._[uv]'"),
    "frozen": (frozen, r"\(Sequential\) has no trainable parameter"),
}
RANDOM: Mapping[str, tuple[Factory, tuple[int, ...]]] = {"functional_dropout": (FunctionalDropout, VECTOR)}


def make(name: str) -> nn.Module:
    for table in (EXACT, REFUSED, RANDOM):
        if name in table:
            return table[name][0]()
    raise KeyError(name)


def spec(name: str) -> dict[str, Any]:
    return {"factory": "tests.engine.users:make", "arguments": {"name": name}}


def first_kind(name: str) -> np.ndarray:
    """Shape of one record of the model `name`."""
    return np.asarray({**EXACT, **RANDOM}[name][1] if name not in REFUSED else VECTOR)
