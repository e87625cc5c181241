"""Models as users write them, of the kinds that an engine for many models gets wrong without noticing."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


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
    """A layer inside that cannot take the shape it receives."""

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
    built = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    before = built[0].forward
    built[0].forward = lambda inputs: 2.0 * before(inputs)  # type: ignore[method-assign]
    return built


def spectral() -> nn.Module:
    return nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(6, 5)), nn.ReLU(), nn.Linear(5, 3))


def frozen() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 3)).requires_grad_(False)


class Small(nn.Module):
    """Two linear layers, to be changed by those that follow."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 6), nn.Linear(6, 3)

    def hidden(self, inputs: Tensor) -> Tensor:
        return torch.tanh(self.first(inputs))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(self.hidden(inputs))


class Checkpoints(Small):
    """Computes its first layer again on the way back."""

    def hidden(self, inputs: Tensor) -> Tensor:
        return checkpoint(super().hidden, inputs, use_reentrant=False)  # type: ignore[no-any-return]


class StraightThrough(Small):
    """A step with the slope of another function."""

    def hidden(self, inputs: Tensor) -> Tensor:
        soft = torch.tanh(self.first(inputs))
        return soft + (soft.sign() - soft).detach()


class SharedAcrossKinds(nn.Module):
    """One weight in a linear layer, as a function, and in a sum; two kinds of normalisation share another."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.group = nn.Linear(6, 6, bias=False), nn.LayerNorm(6), nn.GroupNorm(2, 6)
        self.group.weight, self.same, self.last = self.norm.weight, self.first, nn.Linear(6, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.group(torch.tanh(self.norm(self.first(inputs) + F.linear(inputs, self.first.weight.t()))))
        return self.last(self.same(hidden) + self.first.weight.sum(1))


class Late(Small):
    """Keeps a record in a buffer, but not in the first calls; dropout as a function takes the path of one model at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = [0]
        self.register_buffer("seen", torch.zeros(6))

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls[0] += 1
        if self.training and self.calls[0] > 12:
            self.get_buffer("seen").copy_(inputs.reshape(-1, 6)[0].detach())
        return self.last(F.dropout(self.hidden(inputs), 0.1, self.training))


class Copies(Small):
    """Keeps the first record of a batch in a buffer, the same each time for the same batch."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(6))

    def forward(self, inputs: Tensor) -> Tensor:
        self.get_buffer("seen").copy_(inputs.reshape(-1, 6)[0].detach())
        return super().forward(inputs)


class WritesParameter(Small):
    """Keeps a record in a parameter that nothing reads."""

    def __init__(self, trained: bool) -> None:
        super().__init__()
        self.log = nn.Parameter(torch.zeros(6), requires_grad=trained)

    def forward(self, inputs: Tensor) -> Tensor:
        with torch.no_grad():
            self.log.copy_(inputs.reshape(-1, 6)[0])
        return super().forward(inputs)


class DrawsElsewhere(Small):
    """Rarely does something else, by a stream that is not torch's."""

    def __init__(self, stream: str, training: bool) -> None:
        super().__init__()
        self.stream, self.mode = stream, training

    def forward(self, inputs: Tensor) -> Tensor:
        drawn = 1.0
        if self.training == self.mode:
            drawn = random.random() if self.stream == "random" else float(np.random.rand())  # noqa: NPY002
        return super().forward(inputs) * (2.0 if drawn < 1e-9 else 1.0)


class NoisyInEvaluation(Small):
    """Draws in evaluation mode alone, as randomised smoothing does."""

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.hidden(inputs)
        return self.last(hidden if self.training else hidden + 0.5 * torch.randn_like(hidden))


def one_memory(kind: str) -> nn.Module:
    built = Small()
    if kind == "transposed":  # the usual way to tie an autoencoder's weights wrongly
        built.other = nn.Linear(6, 6)
        built.other.weight.data = built.first.weight.data.transpose(0, 1)
    elif kind == "slices":
        full = torch.randn(9, 6)
        built.upper, built.lower = nn.Parameter(full[:6]), nn.Parameter(full[5:])
    else:
        built.register_buffer("copy", built.first.weight.detach())
    return built


def hooked(kind: str) -> nn.Module:
    built = Small()
    if kind == "before":
        built.first.weight.register_hook(lambda gradient: 3 * gradient)
    else:
        built.first.weight.register_post_accumulate_grad_hook(lambda parameter: None)
    return built


class OwnNorm(nn.Module):
    """A scale in a user's class, and a gate of one number."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.gate = nn.Parameter(torch.linspace(0.5, 1.5, 4)), nn.Parameter(torch.tensor(0.7))

    def forward(self, hidden: Tensor) -> Tensor:
        return self.gate * hidden * self.scale / (hidden.square().mean(-1, keepdim=True) + 0.1).sqrt()


class Tokens(nn.Module):
    """A class token, positions, a relative bias and an own normalisation, as in a vision transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.norm, self.last = nn.Linear(2, 4), OwnNorm(), nn.Linear(4, 3)
        self.token, self.place = nn.Parameter(torch.full((1, 1, 4), 0.2)), nn.Parameter(0.3 * torch.ones(1, 4, 4))
        self.relative = nn.Parameter(torch.linspace(-1, 1, 16).view(1, 4, 4))

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.embed(inputs.unflatten(1, (3, 2)))
        hidden = torch.cat([self.token.expand(len(hidden), -1, -1), hidden], 1) + self.place
        mixed = torch.softmax(hidden @ hidden.transpose(1, 2) + self.relative, -1) @ self.norm(hidden)
        return self.last(self.norm(mixed)[:, 0])


class Rows(nn.Module):
    """Positions looked up once for all records, as many as a pass of one model has rows, and RMSNorm."""

    def __init__(self) -> None:
        super().__init__()
        self.place, self.norm, self.last = nn.Embedding(16, 4), nn.RMSNorm(4), nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = inputs[:, :4].unsqueeze(1) + self.place(torch.arange(16))
        return self.last(self.norm(hidden).tanh().mean(1))


def sequence_convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (2, 3)),
        nn.Conv1d(2, 4, 3, padding="same"),
        nn.PReLU(4),
        nn.InstanceNorm1d(4, affine=True),
        nn.Conv1d(4, 4, 2, stride=2, padding=1, groups=2),
        nn.PReLU(),
        nn.Flatten(),
        nn.Linear(8, 3),
    )


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
    "checkpoints": (Checkpoints, VECTOR),
    "straight_through": (StraightThrough, VECTOR),
    "shared_across_kinds": (SharedAcrossKinds, VECTOR),
    "noisy_in_evaluation": (NoisyInEvaluation, VECTOR),
    "tokens": (Tokens, VECTOR),
    "rows": (Rows, VECTOR),
    "sequence_convolutions": (sequence_convolutions, VECTOR),
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
    "transposed": (lambda: one_memory("transposed"), "'other.weight' and 'first.weight' are views of the same numbers"),
    "slices": (lambda: one_memory("slices"), "'lower' and 'upper' are views of the same numbers"),
    "alias": (lambda: one_memory("buffer"), "'copy' and 'first.weight' are views of the same numbers"),
    "hook_before": (lambda: hooked("before"), r"layer 'first' \(Linear\): a hook is attached to the gradient of 'weight'"),
    "hook_after": (lambda: hooked("after"), r"layer 'first' \(Linear\): a hook is attached to the gradient of 'weight'"),
    "draws_python": (lambda: DrawsElsewhere("random", True), "stream of Python's random in training mode"),
    "draws_numpy": (lambda: DrawsElsewhere("numpy", False), "stream of numpy.random in evaluation mode"),
    "writes_parameter": (lambda: WritesParameter(True), r"forward\(\) changes its parameter 'log' in place"),
    "writes_frozen": (lambda: WritesParameter(False), r"forward\(\) changes its parameter 'log' in place"),
    "copies": (Copies, r"\(Copies\) changes its buffer 'seen'"),
    "late": (Late, r"\(Late\) changed its buffer 'seen' in a step of training"),
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
