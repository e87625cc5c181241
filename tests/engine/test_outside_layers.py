"""Parameters that a module's own code computes with, of its own and of its layers, beside plain autograd on each record."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from audit.engine.gradients.clipping import stacked_state
from audit.engine.gradients.dispatch import loop_reason
from tests.engine.test_recurrent import TIMES, beside_loop


class Outside(nn.Module):
    """A layer and bare parameters, and what `way` computes with their numbers for records of three columns."""

    distances: Tensor

    def __init__(self, way: Callable[[Outside, Tensor], Tensor]) -> None:
        super().__init__()
        self.way, self.layer, self.last = way, nn.Linear(3, 3), nn.Linear(3, 3)
        self.first, self.second = nn.Parameter(torch.randn(2, 3)), nn.Parameter(torch.randn(3, 2))
        self.scale, self.places = nn.Parameter(torch.randn(3)), nn.Parameter(torch.randn(9, 3))
        self.attention = nn.MultiheadAttention(6, 2, batch_first=True)
        self.register_buffer("distances", torch.arange(TIMES).sub(torch.arange(TIMES).unsqueeze(1)).abs().double())

    def forward(self, inputs: Tensor) -> Tensor:
        scores: Tensor = self.last(torch.tanh(self.way(self, inputs)).mean(1))
        return scores


def merged(module: Outside, inputs: Tensor) -> Tensor:
    weight = module.layer.weight + module.second @ module.first
    return F.linear(inputs, module.scale.unsqueeze(1) * weight / weight.norm(dim=1, keepdim=True), module.layer.bias)


def decayed(module: Outside, inputs: Tensor) -> Tensor:
    share, state = torch.exp(-F.softplus(module.scale)), torch.zeros_like(inputs[:, 0])
    for time in range(TIMES):
        state = share * state + (1 - share) * inputs[:, time]
    return state.unsqueeze(1) + module.scale * inputs


def split(module: Outside, inputs: Tensor) -> Tensor:
    left, middle, right = module.places.chunk(3)
    return inputs @ left.T + F.linear(inputs, middle, None) * (inputs @ right.transpose(0, 1))


def far_apart(module: Outside, inputs: Tensor) -> Tensor:
    scores = inputs.unsqueeze(1) @ inputs.unsqueeze(1).transpose(-1, -2) - module.scale[:, None, None] * module.distances
    table = module.places[:, module.distances.long() % 3][:3]
    return (torch.softmax(scores + table, -1) @ inputs.unsqueeze(1)).mean(1)


def asked(module: Outside, inputs: Tensor) -> Tensor:
    questions = torch.cat([module.places, module.places.flip(0)], -1).unsqueeze(0).expand(len(inputs), -1, -1)
    return module.attention(questions, torch.cat([inputs, -inputs], -1), torch.cat([inputs, inputs], -1))[0][..., :3]


WAYS: dict[str, Callable[[Outside, Tensor], Tensor]] = {
    "low rank": lambda module, inputs: module.layer(inputs) + inputs @ module.first.T @ module.second.transpose(0, 1),
    "sum of products": lambda module, inputs: torch.einsum("btc,rc,or->bto", inputs, module.first, module.second),
    "tied": lambda module, inputs: F.linear(torch.tanh(module.layer(inputs)), module.layer.weight.t(), module.layer.bias),
    "tied backwards": lambda module, inputs: torch.tanh(inputs @ module.layer.weight.mT) @ module.layer.weight,
    "normalised": lambda module, inputs: F.layer_norm(inputs, module.scale.shape, module.scale, module.places[0]),
    "looked up": lambda module, inputs: F.embedding(inputs.argmax(-1) + (inputs.sum(-1) > 0), module.places) * inputs,
    "first positions": lambda module, inputs: inputs * module.scale.abs() + module.places[:TIMES],
    "repeated": lambda module, inputs: inputs + module.places[None, 2:].repeat(len(inputs), 1, 1),
    "decayed": decayed,
    "far apart": far_apart,
    "asked": asked,
}
WEIGHTS: dict[str, Callable[[Outside, Tensor], Tensor]] = {
    "filtered": lambda module, inputs: F.conv1d(inputs.transpose(1, 2), module.places.view(3, 3, 3), padding=1).mT,
    "merged": merged,
    "split": split,
}


@pytest.mark.parametrize("way", WAYS)
def test_numbers_of_parameters_in_a_modules_own_code_have_the_gradients_of_each_record(way: str) -> None:
    torch.manual_seed(0)
    beside_loop(Outside(WAYS[way]))


@pytest.mark.parametrize("way", WEIGHTS)
def test_weights_that_a_module_computes_are_not_computed_for_each_record(way: str) -> None:
    torch.manual_seed(0)
    module = Outside(WEIGHTS[way])
    reason = loop_reason(module, stacked_state([module], torch.float32, torch.device("cpu")), torch.randn(8, TIMES, 3))
    assert reason == "weights that a module computes from parameters, which would be computed for each record"
