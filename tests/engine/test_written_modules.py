"""Modules of kinds that people write train like a slow loop over single records, to rounding, or are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.events import dp_sgd
from audit.engine.ensemble import train
from audit.engine.schedule import ScheduleSettings
from tests.engine import cases
from tests.engine.twin import slow_training
from tests.marks import slow

PRIVATE = dp_sgd(noise_multiplier=0.0, clip_norm=0.3, sample_rate=0.4, steps=4)
DOUBLE = ScheduleSettings(dtype=torch.float64)
SHAPE = (4, 6)


class Square(torch.autograd.Function):
    """A function with its own backward pass."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        ctx.save_for_backward(values)
        return values * values

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Tensor:
        return 2.0 * ctx.saved_tensors[0] * slope


class Centre(torch.autograd.Function):
    """The identity, with a backward pass that takes the mean over the batch away."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        return values * 1.0

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Tensor:
        return slope - slope.mean(0, keepdim=True)


def find_layer(kind: str) -> nn.Module:  # noqa: PLR0911
    match kind:
        case "weight norm":
            return nn.utils.parametrizations.weight_norm(nn.Linear(6, 6))
        case "orthogonal":
            return nn.utils.parametrizations.orthogonal(nn.Linear(6, 6))
        case "old weight norm":
            return nn.utils.weight_norm(nn.Linear(6, 6))
        case "twice its weight":
            layer = nn.Linear(6, 6)
            layer.weight_twice = 2 * layer.weight
            return layer
        case "attention, positions first":
            return nn.MultiheadAttention(6, 2)
        case "cell":
            return nn.LSTMCell(6, 6)
        case "both ways":
            return nn.GRU(6, 3, batch_first=True, bidirectional=True)
        case "bag":
            return nn.EmbeddingBag(9, 6)
    return nn.Linear(6, 6)


class Written(nn.Module):
    """A layer, and what `kind` does with it, before a head."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.layer, self.out = kind, find_layer(kind), nn.Linear(6, 3)
        self.experts = nn.ModuleList(nn.Linear(6, 6) for _ in range(2)) if kind in ("routed", "rows apart") else None
        self.root = nn.ParameterList(torch.linspace(-1, 1, 3) * scale for scale in (0.3, 0.2)) if kind == "waves" else None
        self.centres = nn.Parameter(torch.linspace(-1, 1, 18).view(3, 6)) if kind == "prototypes" else None

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.hidden(inputs)
        hidden = hidden.mean(1) if hidden.dim() == 3 else hidden
        scores: Tensor = self.out(hidden) if self.centres is None else -torch.cdist(hidden, self.centres)
        return scores

    def hidden(self, inputs: Tensor) -> Tensor:  # noqa: PLR0911
        match self.kind:
            case "attention, positions first":
                turned = inputs.transpose(0, 1)
                return self.layer(turned, turned, turned)[0].mean(0)
            case "cell":
                state = (inputs.new_zeros(len(inputs), 6), inputs.new_zeros(len(inputs), 6))
                for place in range(inputs.shape[1]):
                    state = self.layer(inputs[:, place], state)
                return state[0]
            case "both ways":
                return self.layer(inputs)[0]
            case "bag":
                return self.layer((inputs.mean(2).abs() * 20).long() % 9)
            case "own backward pass":
                return Square.apply(self.layer(inputs))  # type: ignore[no-untyped-call, no-any-return]
            case "mixed on the way back":
                return Centre.apply(torch.tanh(self.layer(inputs)))  # type: ignore[no-untyped-call, no-any-return]
            case "rounded":
                values = self.layer(inputs)
                return values + (values.round() - values).detach()
            case "median":
                values = self.layer(inputs)
                return torch.where(values > values.median(), values, 0.1 * values)
            case "one way or the other":
                return self.layer(inputs) if float(inputs.sum()) > 0 else self.layer(2.0 * inputs)
        return self.with_parts(inputs)

    def with_parts(self, inputs: Tensor) -> Tensor:
        if self.kind == "waves" and self.root is not None:
            factors = torch.complex(self.root[0], self.root[1])
            return torch.fft.irfft(torch.fft.rfft(inputs, dim=1) * factors[None, :, None], n=4, dim=1)
        if self.kind == "rows apart" and self.experts is not None:
            warm, values = inputs.sum((1, 2)) > 0, torch.zeros_like(inputs)
            values[warm], values[~warm] = self.experts[0](inputs[warm]), self.experts[1](inputs[~warm])
            return values
        if self.kind == "routed" and self.experts is not None:
            tokens = inputs.reshape(-1, 6)
            shares, routes = self.layer(tokens)[:, :2].softmax(-1).max(-1)
            total = torch.zeros_like(tokens)
            for number, expert in enumerate(self.experts):
                rows = (routes == number).nonzero().flatten()
                total = total.index_add(0, rows, expert(tokens[rows]) * shares[rows, None])
            return total.view_as(inputs)
        return F.relu(self.layer(inputs))


def job(kind: str) -> Any:
    model = {"factory": f"{__name__}:Written", "arguments": {"kind": kind}}
    return cases.job(PRIVATE, model=model, data=cases.dataset(SHAPE), models=2)


KINDS = (
    "weight norm", "orthogonal", "attention, positions first", "cell", "both ways", "bag", "own backward pass",
    "mixed on the way back", "rounded", "waves", "rows apart", "routed", "prototypes", "old weight norm",
)  # fmt: skip


@pytest.mark.parametrize("kind", slow(KINDS, KINDS))
def test_written_modules_train_like_the_slow_loop(kind: str) -> None:
    item = job(kind)
    done = train(item, cases.silent, DOUBLE)
    assert (done.executed.recomputed >= 0).all() and (done.executed.recomputed < 1e-9).all()
    for model in range(2):
        for name, value in slow_training(item, model).items():
            np.testing.assert_allclose(done.weights[name][model], value, rtol=1e-8, atol=1e-10, err_msg=name)


@pytest.mark.parametrize("kind", ["median", "one way or the other"])
def test_written_modules_that_mix_records_are_refused(kind: str) -> None:
    with pytest.raises(UnsupportedMechanism, match="changes with the other records of the batch"):
        train(job(kind), cases.silent, DOUBLE)


def test_a_module_whose_weight_is_computed_into_an_attribute_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"layer 'layer' \(Linear\): 'weight_twice' was computed from parameters and lies in"):
        train(job("twice its weight"), cases.silent, DOUBLE)
