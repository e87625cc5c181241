"""Layers and bare matrices that N models use at each time of a sequence, beside torch's own on each record."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from audit.core.events import dp_sgd
from audit.engine.ensemble import train
from audit.engine.gradients.clipping import Clip, Rows, stacked_state
from audit.engine.gradients.dispatch import loop_reason, model_gradients
from audit.engine.gradients.ghost_clipping import TapeGradients
from audit.engine.gradients.per_model_loop import LoopGradients
from tests.engine import cases

MODELS, ROWS, TIMES, WIDTH = 3, 5, 7, 4
CLIPS = [None, Clip(norm=1e6), Clip(norm=0.05), Clip(norm=0.1, per_layer=True)]


class Reader(nn.Module):
    """A recurrent layer between a linear one and the classes."""

    def __init__(self, body: nn.RNNBase, *, start: bool = False, packed: bool = False) -> None:
        super().__init__()
        self.widen, self.body, self.start, self.packed = nn.Linear(3, WIDTH), body, start, packed
        self.last = nn.Linear(body.hidden_size * (1 + body.bidirectional), 3)

    def forward(self, inputs: Tensor) -> Tensor:
        sequence = self.widen(inputs)
        sequence = sequence if self.body.batch_first else sequence.transpose(0, 1)
        self.body.flatten_parameters()
        first = torch.tanh(inputs[:, 0].mean(1)).view(1, -1, 1).expand(2, -1, self.body.hidden_size).contiguous()
        if self.packed:
            lengths = torch.full((len(inputs),), TIMES - 1)
            sequences = nn.utils.rnn.pack_padded_sequence(sequence, lengths, batch_first=True)
            scores: Tensor = self.last(nn.utils.rnn.pad_packed_sequence(self.body(sequences)[0], batch_first=True)[0][:, -1])
            return scores
        begin = (first, -first) if self.body.mode == "LSTM" else first
        outputs, state = self.body(sequence, begin) if self.start else self.body(sequence)
        hidden = state[0] * state[1] if isinstance(state, tuple) else state
        scores = self.last(outputs.mean(1 if self.body.batch_first else 0)) + hidden.mean((0, 2)).unsqueeze(1)
        return scores


class Repeated(nn.Module):
    """One linear layer at several positions at once, at a single one, and at each time of a loop; one with tied weights."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.other, self.last = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)
        self.tied = nn.Linear(3, 3)
        self.tied.weight = self.other.weight

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.tanh(self.inner(inputs))
        state = self.inner(hidden.mean(1))
        for time in range(TIMES):
            state = torch.tanh(self.inner(state) + hidden[:, time] + self.other(state) + self.tied(hidden[:, time]))
        scores: Tensor = self.last(state)
        return scores


class Scan(nn.Module):
    """Bare matrices, biases, scales and positions beside activations of two and of three axes."""

    def __init__(self) -> None:
        super().__init__()
        self.inward, self.onward, self.outward = (nn.Parameter(torch.randn(shape)) for shape in [(3, 4), (4, 4), (3, 4)])
        self.shift, self.scale, self.places = (nn.Parameter(torch.randn(shape)) for shape in [(4,), (4,), (1, TIMES, 4)])
        self.answer, self.factor = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.ones(()))
        self.mask = nn.Parameter(torch.eye(4), requires_grad=False)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = inputs @ self.inward * self.scale + self.places
        state = hidden[:, 0]
        for time in range(TIMES):
            state = torch.tanh(hidden[:, time] + torch.matmul(state, self.onward) + self.shift - self.scale * state) @ self.mask
        state = F.linear(state, self.onward, self.shift) * self.factor
        scores: Tensor = F.linear(state, self.outward, bias=self.answer)
        return scores


class Placed(nn.Module):
    """A bare scale, or a bare matrix, of numbers that are not of records, as many as a batch may have records."""

    places: Tensor

    def __init__(self, is_matrix: bool, *, is_first_axis: bool = True) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.ones(3, 3) if is_matrix else torch.ones(3))
        self.is_matrix, self.last = is_matrix, nn.Linear(3, 3)
        self.register_buffer("places", torch.arange(3.0 * TIMES).view(*(() if is_first_axis else (1,)), TIMES, 3) / 10)

    def forward(self, inputs: Tensor) -> Tensor:
        places = self.places @ self.value if self.is_matrix else self.value * self.places
        scores: Tensor = self.last(torch.tanh(inputs + places).mean(1))
        return scores


class Tied(nn.Module):
    """Two linear layers of one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(5, 5), nn.Linear(5, 5), nn.Linear(5, 3)
        self.second.weight = self.first.weight

    def forward(self, inputs: Tensor) -> Tensor:
        scores: Tensor = self.last(torch.tanh(self.second(torch.tanh(self.first(inputs)))).mean(1))
        return scores


class Sized(nn.Module):
    """A bare matrix whose sizes the code reads, or a device of any parameter."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.value, self.last, self.way = nn.Parameter(torch.ones(64, 3)), nn.Linear(3, 3), way
        self.body = nn.GRU(3, 3, batch_first=True)

    def forward(self, inputs: Tensor) -> Tensor:
        if self.way == "sizes":
            wide = inputs[:, -self.value.size(0) :] * len(self.value) ** -0.5
            wide = wide + F.linear(inputs, self.value) @ self.value / self.value.shape[0]
        else:
            wide = self.body(inputs, next(self.parameters()).new_zeros(1, len(inputs), 3))[0]
        scores: Tensor = self.last(torch.tanh(wide).mean(1))
        return scores


class Walk(nn.Module):
    """A cell that a loop calls at each time, from its own first state or from none."""

    def __init__(self, cell: nn.RNNCellBase) -> None:
        super().__init__()
        self.cell, self.last = cell, nn.Linear(cell.hidden_size, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        state = self.cell(inputs[:, 0])
        for time in range(1, TIMES):
            state = self.cell(inputs[:, time], state)
        scores: Tensor = self.last(state[0] + state[1] if isinstance(state, tuple) else state)
        return scores


BODIES = {
    "tanh": lambda: nn.RNN(WIDTH, 6, batch_first=True),
    "relu without bias": lambda: nn.RNN(WIDTH, 6, nonlinearity="relu", bias=False, batch_first=True),
    "gru": lambda: nn.GRU(WIDTH, 6, batch_first=True),
    "gru in both directions": lambda: nn.GRU(WIDTH, 6, 2, bidirectional=True),
    "lstm": lambda: nn.LSTM(WIDTH, 6, batch_first=True),
    "deep lstm, times first": lambda: nn.LSTM(WIDTH, 6, 2),
    "lstm in both directions": lambda: nn.LSTM(WIDTH, 6, 2, batch_first=True, bidirectional=True),
}


def beside_loop(module: nn.Module) -> None:
    """Assert that norms and sums of the fast path are those of plain autograd for each record, for every clip."""
    modules = [copy.deepcopy(module).double() for _ in range(MODELS)]
    draws = torch.Generator().manual_seed(0)
    for parameter in (parameter for each in modules for parameter in each.parameters()):
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=draws, dtype=torch.float64)
    inputs = torch.randn(MODELS * ROWS, TIMES, 3, generator=draws, dtype=torch.float64)
    mask = torch.ones(MODELS, ROWS, dtype=torch.bool)
    mask[1, -2:] = False
    same_sums(modules, Rows(inputs=inputs, labels=torch.arange(len(inputs)) % 3, mask=mask))
    for rows in (1, TIMES):  # one record, and as many as there are times
        own = torch.randn(rows, TIMES, 3, generator=draws, dtype=torch.float64)
        same_sums(modules[:1], Rows(inputs=own, labels=torch.arange(rows) % 3, mask=torch.ones(1, rows, dtype=torch.bool)))


def same_sums(modules: list[nn.Module], rows: Rows) -> None:
    state = stacked_state(modules, torch.float64, torch.device("cpu"))
    fast, slow = model_gradients(modules[0], state), model_gradients(modules[0], state, force_loop=True)
    assert isinstance(fast, TapeGradients) and isinstance(slow, LoopGradients)
    torch.testing.assert_close(fast.forward(rows.inputs), slow.forward(rows.inputs))
    for clip in CLIPS:
        total, reference = torch.zeros_like(fast.flat), torch.zeros_like(slow.flat)
        clipping, loop_clipping = fast.add_sum(rows, clip, total), slow.add_sum(rows, clip, reference)
        torch.testing.assert_close(total, reference)
        if clipping is not None and loop_clipping is not None:
            torch.testing.assert_close(clipping.norms[rows.mask], loop_clipping.norms[rows.mask])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("body", BODIES)
def test_gradients_of_recurrent_layers_are_those_of_each_record(body: str) -> None:
    torch.manual_seed(1)
    plain = BODIES[body]()
    beside_loop(Reader(plain, start=plain.num_layers * (1 + plain.bidirectional) == 2))


@pytest.mark.parametrize(
    "cell", [nn.RNNCell(3, 5, nonlinearity="relu"), nn.RNNCell(3, 5, bias=False), nn.GRUCell(3, 5), nn.LSTMCell(3, 5)], ids=str
)
def test_gradients_of_cells_are_those_of_each_record(cell: nn.RNNCellBase) -> None:
    beside_loop(Walk(cell))


def test_gradients_of_bare_matrices_are_those_of_each_record() -> None:
    torch.manual_seed(3)
    beside_loop(Scan())


@pytest.mark.parametrize("is_matrix", [False, True])
def test_gradients_of_what_all_records_share_are_those_of_each_record(is_matrix: bool) -> None:
    beside_loop(Placed(is_matrix, is_first_axis=False))


def test_sizes_of_a_bare_matrix_are_its_own() -> None:
    beside_loop(Sized("sizes"))


def test_a_linear_layer_that_is_used_often_has_the_gradients_of_each_record() -> None:
    torch.manual_seed(2)
    beside_loop(Repeated())


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (Reader(nn.GRU(WIDTH, 6, batch_first=True), packed=True), "packed sequence"),
        (Reader(nn.LSTM(WIDTH, 6, proj_size=2)), "only torch.func covers"),
        (Reader(nn.GRU(WIDTH, 6, 2, dropout=0.5)), "only torch.func covers"),
        (Sized("device"), ""),
        (Placed(is_matrix=False), "numbers that are not of records"),
        (Placed(is_matrix=True), "numbers that are not of records"),
    ],
    ids=["packed", "projected", "dropout", "any parameter", "scale of places", "matrix of places"],
)
def test_what_no_rule_covers_is_trained_one_model_after_another(module: nn.Module, reason: str) -> None:
    if isinstance(module, Reader) and module.body.proj_size:
        module.last = nn.Linear(module.body.proj_size, 3)
    state = stacked_state([module], torch.float32, torch.device("cpu"))
    assert reason in str(loop_reason(module, state, torch.randn(6, TIMES, 3)))


@pytest.mark.parametrize("seed", [0, 4])
def test_shared_parameters_have_the_same_bits_beside_any_neighbours(seed: int) -> None:
    spec = {"factory": "tests.engine.test_recurrent:Tied"}
    noisy = dp_sgd(noise_multiplier=0.7, clip_norm=0.5, sample_rate=0.3, steps=6)
    job = cases.job(noisy, model=spec, data=cases.dataset((6, 5)), models=3, seed=seed)
    together = train(job, cases.silent)
    alone = train(replace(job, seeds=job.seeds[2:], included=job.included[2:]), cases.silent)
    for name, value in together.weights.items():
        np.testing.assert_array_equal(value[2:], alone.weights[name])
