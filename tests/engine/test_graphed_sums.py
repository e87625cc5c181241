"""Passes that are captured once and repeated, as a graph of a GPU does, by a recorder that repeats operations in place."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from audit.core.errors import ConfigError, ExecutionMismatch
from audit.core.events import dp_sgd, sgd
from audit.engine import chunk, schedule
from audit.engine.compiled import graphed_sums
from audit.engine.compiled.graphed_sums import GraphedSums
from audit.engine.dp_options import Technique
from audit.engine.ensemble import train
from audit.engine.gradients import clipping
from audit.engine.schedule import ScheduleSettings
from tests.engine import cases, users
from tests.marks import slow

NOISY = dp_sgd(noise_multiplier=1.5, clip_norm=0.4, sample_rate=0.3, steps=12)
GRAPHS = ScheduleSettings(counters=True, graphs=True)
USUAL_CAPTURE = graphed_sums._cuda_graph


class Recorder(TorchDispatchMode):
    """Notes operations; repeats them in the memory that they had, as a CUDA graph does."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.calls.append((func, args, kwargs or {}, result))
        return result

    def replay(self) -> None:
        with torch.no_grad():
            for func, args, kwargs, result in self.calls:
                places = {item.untyped_storage().data_ptr() for item in _tensors((args, kwargs))}
                outputs = _tensors(result)
                if func._schema.is_mutable:
                    func(*args, **kwargs)
                elif not any(item.untyped_storage().data_ptr() in places for item in outputs):  # a view moves nothing
                    for old, new in zip(outputs, _tensors(func(*args, **kwargs)), strict=True):
                        old.copy_(new)


def _tensors(values: Any) -> list[torch.Tensor]:
    return [item for item in tree_flatten(values)[0] if isinstance(item, torch.Tensor) and item.numel()]


def record(launch: Callable[[], None]) -> Callable[[], None]:
    """A capture on a CPU: what is noted is taken back, since nothing runs while a GPU captures."""
    recorder = Recorder()
    with recorder:
        launch()
    return recorder.replay


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Graphs by the recorder; the passes that were repeated."""
    repeated: list[int] = []

    def capture(launch: Callable[[], None]) -> Callable[[], None]:
        total = totals[-1].clone()
        replay = record(launch)
        totals[-1].copy_(total)  # nothing runs while a GPU captures

        def run() -> None:
            repeated.append(1)
            replay()

        return run

    totals: list[torch.Tensor] = []
    add_rows = chunk.Chunk._add_rows

    def noted(self: chunk.Chunk, *arguments: Any) -> Any:
        if not totals or totals[-1] is not self.total:
            totals.append(self.total)
        return add_rows(self, *arguments)

    monkeypatch.setattr(chunk.Chunk, "_add_rows", noted)
    monkeypatch.setattr(graphed_sums, "_cuda_graph", capture)
    monkeypatch.setattr(clipping, "all_finite", lambda _: False)  # on a GPU no one looks
    return repeated


MODELS = {
    "mlp": ({"kind": "mlp", "hidden": [8]}, (5,)),
    "cnn": ({"kind": "cnn"}, (1, 8, 8)),
}


@pytest.mark.parametrize("mechanism", [NOISY, sgd(sample_rate=0.3, steps=12)], ids=["dpsgd", "plain"])
@pytest.mark.parametrize("name", slow(sorted(MODELS), ["cnn"]))
def test_repeated_passes_train_what_passes_of_their_own_train(name: str, mechanism: Any, recorded: list[int]) -> None:
    model, shape = MODELS[name]
    optimizer = {"kind": "adam", "learning_rate": 0.01}
    job = cases.job(mechanism, model=model, data=cases.dataset(shape, train=60), models=3, optimizer=optimizer)
    full = train(job, cases.silent, replace(GRAPHS, graphs=False))
    graphed = train(job, cases.silent, GRAPHS)
    assert len(recorded) >= 10  # all steps but two, and narrow passes
    for parameter, value in full.weights.items():
        np.testing.assert_allclose(graphed.weights[parameter], value, rtol=1e-6, atol=1e-8, err_msg=parameter)
    np.testing.assert_allclose(graphed.executed.largest_norm, full.executed.largest_norm, rtol=1e-6)
    np.testing.assert_array_equal(graphed.executed.skipped, full.executed.skipped)


def test_each_shape_is_captured_once_and_reads_its_own_place() -> None:
    captures: list[Callable[[], None]] = []

    def capture(launch: Callable[[], None]) -> Callable[[], None]:
        captures.append(launch)
        launch()
        return launch

    observed: list[int] = []

    def work(rows_at: torch.Tensor, mask: torch.Tensor) -> None:
        observed.append(int(rows_at.sum()))

    graphs = GraphedSums(torch.zeros(1, 3), capture=capture)
    for number in range(7):
        for rows in (4, 2):
            graphs.run(work, torch.full((rows,), number), torch.ones(1, rows, dtype=torch.bool))
    assert len(captures) == 2
    # two passes of each shape run as they are, then the batch is copied
    assert observed[:4] == [0, 0, 4, 2] and observed[-2:] == [24, 12]


def graphed(work: graphed_sums.Work, total: torch.Tensor) -> GraphedSums:
    """Graphs of passes that `work` adds to `total`, by the recorder."""

    def capture(launch: Callable[[], None]) -> Callable[[], None]:
        before = total.clone()
        replay = record(launch)
        total.copy_(before)
        return replay

    return GraphedSums(total, capture=capture)


@pytest.mark.parametrize(("first_change", "refused_at"), [(2, 2), (3, 3), (5, 5), (6, 9), (10, 17)])
def test_a_number_that_the_host_moves_after_the_capture_ends_the_training(first_change: int, refused_at: int) -> None:
    """The capture is of pass 2 (from 0 on); repetitions 1, 2, 4, 8, 16 are passes 2, 3, 5, 9, 17."""
    total, retained = torch.zeros(2, 3), {"scale": 1.0}

    def work(rows_at: torch.Tensor, mask: torch.Tensor) -> None:
        total.add_(rows_at.view(2, -1).sum(1, keepdim=True) * retained["scale"])

    graphs = graphed(work, total)
    mask = torch.ones(2, 4, dtype=torch.bool)
    if first_change == 2:  # what the capture itself moves

        def moving(rows_at: torch.Tensor, mask: torch.Tensor) -> None:
            work(rows_at, mask)
            retained["scale"] *= 1.5

        graphs, chosen = graphed(moving, total), moving
    else:
        chosen = work
    for number in range(refused_at):
        total.zero_()
        if number == first_change:
            retained["scale"] = 2.0
        graphs.run(chosen, torch.arange(8) + number, mask)
    total.zero_()
    if first_change == refused_at:
        retained["scale"] = 2.0
    with pytest.raises(ExecutionMismatch, match=r"sums that differ .* train without graphs"):
        graphs.run(chosen, torch.arange(8), mask)


def test_a_model_that_diverged_is_not_blamed_and_hides_no_neighbour() -> None:
    total, retained = torch.zeros(2, 3), {"scale": 1.0}

    def work(rows_at: torch.Tensor, mask: torch.Tensor) -> None:
        total.add_(torch.tensor([[float("inf")], [retained["scale"]]]) * rows_at.view(2, -1).sum(1, keepdim=True))

    graphs = graphed(work, total)
    for _ in range(4):
        graphs.run(work, torch.arange(8), torch.ones(2, 4, dtype=torch.bool))
    graphs = graphed(work, total.zero_())
    for _ in range(3):
        graphs.run(work, torch.arange(8), torch.ones(2, 4, dtype=torch.bool))
    retained["scale"] = 1.1
    with pytest.raises(ExecutionMismatch, match="sums that differ"):
        graphs.run(work, torch.arange(8), torch.ones(2, 4, dtype=torch.bool))


@pytest.mark.parametrize(("scale", "short", "refused"), [
    (1.0, False, False), (1.01, False, True), (1.01, True, False), (1.1, True, True), (float("nan"), False, True),
])  # fmt: skip
def test_a_repeated_pass_is_held_to_the_rounding_of_its_products(scale: float, short: bool, refused: bool) -> None:
    """The capture has another scale than the passes as they are."""
    total, retained = torch.zeros(2, 3), {"scale": 1.0}

    def work(rows_at: torch.Tensor, mask: torch.Tensor) -> None:
        total.add_(rows_at.view(2, -1).sum(1, keepdim=True) * retained["scale"])

    def capture(launch: Callable[[], None]) -> Callable[[], None]:
        retained["scale"] = scale
        replay = record(launch)
        retained["scale"] = 1.0
        total.zero_()
        return replay

    graphs = GraphedSums(total, short=short, capture=capture)
    mask = torch.ones(2, 4, dtype=torch.bool)
    for _ in range(2):
        graphs.run(work, torch.arange(8), mask)
    total.zero_()
    with pytest.raises(ExecutionMismatch, match="sums that differ") if refused else nullcontext():
        graphs.run(work, torch.arange(8), mask)


def test_a_capture_that_fails_says_so_and_memory_that_ran_out_stays_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    class Scope:
        """Ends as a capture ends after an error in it: with its own error."""

        def __init__(self, graph: object) -> None: ...

        def __enter__(self) -> None: ...

        def __exit__(self, *_: object) -> None:
            raise RuntimeError("operation failed due to a previous error during capture")

    streams: list[object] = []
    monkeypatch.setattr(torch.cuda, "CUDAGraph", object)
    monkeypatch.setattr(torch.cuda, "graph", Scope)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: "the usual stream")
    monkeypatch.setattr(torch.cuda, "set_stream", streams.append)

    def run_out() -> None:
        raise torch.OutOfMemoryError("out of memory")

    with pytest.raises(ConfigError, match=r"cannot capture .* during capture; train without graphs"):
        graphed_sums._cuda_graph(lambda: None)
    with pytest.raises(torch.OutOfMemoryError):
        graphed_sums._cuda_graph(run_out)
    assert streams == ["the usual stream"] * 2


@pytest.mark.parametrize(
    ("technique", "model", "message"),
    [
        (Technique(clipping="adaptive"), {"kind": "mlp"}, "clip norms move"),
        (Technique(flip=True), {"kind": "cnn"}, "views are drawn"),
        (Technique(), {"factory": "tests.engine.cases:dropping", "arguments": {"raw": False}}, "the forward pass draws"),
        (Technique(), users.spec("sequence_first"), "not trained together"),
    ],
)
def test_what_a_graph_cannot_repeat_is_refused(technique: Technique, model: dict[str, Any], message: str) -> None:
    shape = (1, 8, 8) if model.get("kind") == "cnn" else (6,) if model == users.spec("sequence_first") else (5,)
    with pytest.raises(ConfigError, match=message):
        train(cases.job(NOISY, model=model, data=cases.dataset(shape)), cases.silent, GRAPHS, technique)


@pytest.mark.parametrize("failing", ["capture", "repetition", "memory"])
def test_by_default_a_training_that_no_graph_can_repeat_begins_again_without(
    failing: str, recorded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, shape = MODELS["mlp"]
    job = cases.job(NOISY, model=model, data=cases.dataset(shape, train=60), models=3)
    plain = train(job, cases.silent, replace(GRAPHS, graphs=False))

    def refuse(*_: Any) -> None:
        raise RuntimeError("not permitted when a stream is capturing")

    if failing == "capture":
        monkeypatch.setattr(torch.cuda, "CUDAGraph", object)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda: None)
        monkeypatch.setattr(torch.cuda, "set_stream", lambda _: None)
        monkeypatch.setattr(torch.cuda, "graph", refuse)
        monkeypatch.setattr(graphed_sums, "_cuda_graph", USUAL_CAPTURE)
    elif failing == "memory":

        def run_out(_: Any) -> None:
            raise torch.OutOfMemoryError("out of memory")

        monkeypatch.setattr(graphed_sums, "_cuda_graph", run_out)
    else:
        monkeypatch.setattr(graphed_sums, "_LIMIT", -1.0)
    asked_for = (torch.OutOfMemoryError,) if failing == "memory" else graphed_sums.GRAPH_ERRORS
    with pytest.raises(asked_for, match=r"out of memory|train without graphs"):
        train(job, cases.silent, GRAPHS)
    monkeypatch.setattr(schedule, "captures", lambda _: True)  # as on a GPU: no one asked for graphs
    steps: list[int] = []
    done = train(job, steps.append, ScheduleSettings(counters=True))
    assert sum(steps) == 3 * NOISY.count
    for parameter, value in plain.weights.items():
        np.testing.assert_array_equal(done.weights[parameter], value, err_msg=parameter)


def test_code_of_a_user_is_captured_only_if_asked_for(recorded: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """It may count its calls, as a warm-up does; a graph calls it no more, and comparisons are too few to meet the change."""
    monkeypatch.setattr(schedule, "captures", lambda _: True)
    spec = {"factory": "tests.engine.test_graphed_sums:Counting"}
    job = cases.job(replace(NOISY, count=40), model=spec, data=cases.dataset((5,), train=60), models=2)
    for settings, is_captured in ((ScheduleSettings(counters=True), False), (GRAPHS, True)):
        recorded.clear()
        train(job, cases.silent, settings)
        assert (len(recorded) > 10) == is_captured
    library = replace(job, model=MODELS["mlp"][0])
    recorded.clear()
    train(library, cases.silent, ScheduleSettings(counters=True))
    assert len(recorded) > 10


class Counting(torch.nn.Module):
    """A layer and a number of calls that decides nothing here."""

    def __init__(self) -> None:
        super().__init__()
        self.last, self.calls = torch.nn.Linear(5, 3), 0

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.last(inputs)
