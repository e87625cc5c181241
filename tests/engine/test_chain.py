"""Compiled sums of chains: as exact as torch's, the same bits beside any neighbours, given up if they cannot be had."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from audit.checks.execution import check_executed
from audit.core.canaries import Canaries, CoordinateGradients
from audit.core.errors import ConfigError, DataError
from audit.core.event_reading import noisy_steps
from audit.core.events import Repeated, dp_sgd, sgd
from audit.core.seeds import Seed
from audit.core.training import TrainingJob
from audit.engine import compile_c
from audit.engine.compiled.compiled_gradients import CompiledGradients, compiled_gradients, worth_compiling
from audit.engine.compiled.compiled_mlp import SOURCE, find_chain
from audit.engine.device import survey
from audit.engine.dp_options import Technique
from audit.engine.ensemble import train
from audit.engine.gradients.adaptive_clipping import Quantile
from audit.engine.gradients.clipping import Clip, Gradients, Rows, stacked_state
from audit.engine.gradients.ghost_clipping import TapeGradients
from audit.engine.schedule import ScheduleSettings, arrange
from audit.models.build import build, initialise_model
from audit.trainers._ensemble import DpSgdTrainer, SgdTrainer
from audit.trainers.matrix_factorization import MatrixFactorizationTrainer
from tests.engine import cases
from tests.engine.compiled_trainings import ON, same, train_both_ways

NOISY = dp_sgd(noise_multiplier=1.5, clip_norm=0.4, sample_rate=0.3, steps=12)
QUIET = cases.varied(NOISY, noise_multiplier=0.0)
SHAPES = {
    "logistic": ((), (5,)),
    "one output a vector wide": ((16,), (16,)),
    "odd widths": ((37, 3, 21), (45,)),
    "several panels": ((70, 130), (2, 5, 10)),
}

pytestmark = pytest.mark.skipif(compile_c.library(SOURCE) is None, reason="this machine has no C compiler")


def both(hidden: tuple[int, ...], shape: tuple[int, ...], activation: str, classes: int) -> tuple[Gradients, Gradients]:
    spec = {"kind": "mlp", "hidden": list(hidden), "activation": activation}
    modules = [initialise_model(spec, shape, classes, Seed(index)) for index in range(3)]
    chain = find_chain(modules[0])
    assert chain is not None
    built = compiled_gradients(chain, modules[0], stacked_state(modules, torch.float32, torch.device("cpu")))
    assert isinstance(built, CompiledGradients)
    return built, TapeGradients(modules[0], stacked_state(modules, torch.float64, torch.device("cpu")))


def rows_for(shape: tuple[int, ...], rows: int, classes: int) -> Rows:
    generator = np.random.default_rng(rows)
    count = 3 * rows
    labels = torch.from_numpy(generator.integers(0, classes, count) if classes else generator.normal(size=count))
    return Rows(
        inputs=torch.from_numpy(generator.normal(size=(count, *shape))).float(),
        labels=labels if classes else labels.float(),
        mask=torch.from_numpy(generator.random((3, rows)) < 0.7),
    )


def doubled(rows: Rows) -> Rows:
    labels = rows.labels if rows.labels.dtype == torch.int64 else rows.labels.double()
    return replace(rows, inputs=rows.inputs.double(), labels=labels)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("classes", [0, 3, 19])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("name", sorted(SHAPES))
def test_sums_and_norms_equal_those_in_double_precision(name: str, activation: str, classes: int) -> None:
    hidden, shape = SHAPES[name]
    compiled, exact = both(hidden, shape, activation, classes)
    rows = rows_for(shape, 300, classes)  # more than go through at once
    for clip in (None, Clip(norm=1e6), Clip(norm=0.7), Clip(norm=0.7, per_layer=True), Clip(norm=torch.rand(3, 1) + 0.1)):
        built, wanted = torch.zeros_like(compiled.flat), torch.zeros_like(exact.flat)
        observed = compiled.add_sum(rows, clip, built)
        known = exact.add_sum(doubled(rows), clip, wanted)
        assert float((built - wanted).abs().max() / wanted.abs().max()) < 2e-6
        assert (observed is None) == (known is None)
        if observed is not None and known is not None:
            real = rows.mask
            torch.testing.assert_close(observed.norms[real].double(), known.norms[real], rtol=1e-5, atol=1e-6)
            torch.testing.assert_close(observed.left.double(), known.left, rtol=1e-5, atol=1e-6)


def test_values_at_the_ends_of_the_range() -> None:
    """exp and tanh are our own: with saturated logits, tiny and huge activations as exact as torch's in float32."""
    for activation in ("relu", "tanh"):
        compiled, exact = both((8,), (5,), activation, 4)
        single = TapeGradients(build({"kind": "mlp", "hidden": [8], "activation": activation}, (5,), 4), compiled.state())
        rows = rows_for((5,), 64, 4)
        for scale in (1e-12, 1e-3, 0.6, 30.0, 1e4):
            item = replace(rows, inputs=rows.inputs * scale)
            built, torchs, wanted = (*torch.zeros(2, *compiled.flat.shape), torch.zeros_like(exact.flat))
            compiled.add_sum(item, Clip(norm=1.0), built)
            single.add_sum(item, Clip(norm=1.0), torchs)
            exact.add_sum(doubled(item), Clip(norm=1.0), wanted)
            size = wanted.abs().max()
            assert float((built - wanted).abs().max() / size) < 4 * float((torchs - wanted).abs().max() / size) + 1e-6


def test_one_example_adds_at_most_the_clip_norm() -> None:
    compiled, _ = both((37, 21), (45,), "relu", 3)
    rows = rows_for((45,), 16, 3)
    for per_layer in (False, True):
        for row in range(16):
            rows.mask[:] = False
            rows.mask[:, row] = True
            total = torch.zeros_like(compiled.flat)
            compiled.add_sum(rows, Clip(norm=0.05, per_layer=per_layer), total)
            lengths = total.double().norm(dim=1)
            assert (lengths <= 0.05 * (1 + 1e-6)).all() and (lengths > 0.02).all()


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 3e38])
def test_a_record_without_finite_gradient_adds_nothing(value: float) -> None:
    for activation in ("relu", "tanh"):
        compiled, _ = both((8,), (5,), activation, 3)
        rows = rows_for((5,), 32, 3)
        rows.mask[:] = True
        rows.inputs.unflatten(0, (3, 32))[1, 4] = value
        built, without = torch.zeros_like(compiled.flat), torch.zeros_like(compiled.flat)
        observed = compiled.add_sum(rows, Clip(norm=0.3), built)
        assert observed is not None and not observed.finite
        assert not observed.norms[1, 4].isfinite() and observed.left[1, 4] == 0
        rows.mask[1, 4] = False
        compiled.add_sum(rows, Clip(norm=0.3), without)
        torch.testing.assert_close(built, without, rtol=1e-5, atol=1e-6)


def test_chains_are_traced_before_threads_train(monkeypatch: pytest.MonkeyPatch) -> None:
    """While `torch.fx` traces, a model called on another thread is traced too, and fails or is."""
    threads, trace = [], torch.fx.symbolic_trace

    def symbolic_trace(module: nn.Module) -> torch.fx.GraphModule:
        threads.append(threading.current_thread())
        return trace(module)

    monkeypatch.setattr(torch.fx, "symbolic_trace", symbolic_trace)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    job = cases.job(NOISY, models=4, model={"kind": "mlp", "hidden": [9]})
    assert arrange(job, replace(ON, model_chunk=1)).workers == 2
    train(job, cases.silent, replace(ON, model_chunk=1))
    assert threads and set(threads) == {threading.main_thread()}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mechanism", [NOISY, sgd(sample_rate=0.3, steps=12)], ids=["dpsgd", "plain"])
def test_training_agrees_with_torch_and_not_with_the_chunk(mechanism: Repeated) -> None:
    optimizer = {"kind": "adam", "learning_rate": 0.01}
    job = cases.job(mechanism, models=5, model={"kind": "mlp", "hidden": [9, 7]}, optimizer=optimizer)
    plain, full = train_both_ways(job)
    if noisy_steps(mechanism) is not None:
        assert 0 <= full.executed.recomputed.max() < 1e-5
        np.testing.assert_allclose(full.executed.noise_multiplier, plain.executed.noise_multiplier, rtol=1e-5)


def test_adaptive_clipping_canaries_and_narrow_passes_go_through_compiled_sums() -> None:
    adaptive = Technique(clipping="adaptive", quantile=Quantile(count_noise=1.0))
    item, peer = (train(cases.job(NOISY), cases.silent, settings, adaptive) for settings in (ScheduleSettings(), ON))
    np.testing.assert_allclose(item.extra["clip_norm"], peer.extra["clip_norm"], rtol=1e-4)
    canaries = Canaries(kind="dirac", description="", payload=CoordinateGradients(coordinates=np.arange(4)))
    item, peer = (train(cases.job(NOISY, canaries=canaries), cases.silent, settings) for settings in (ScheduleSettings(), ON))
    np.testing.assert_allclose(item.products, peer.products, atol=1e-4)
    item, peer = (train(cases.job(NOISY), cases.silent, settings) for settings in (ON, replace(ON, rows=16)))
    for name, value in item.weights.items():
        np.testing.assert_allclose(value, peer.weights[name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("module", "sizes"),
    [
        (nn.Sequential(nn.Linear(4, 3)), (4, 3)),
        (nn.Sequential(nn.Flatten(), nn.Linear(4, 6, bias=False), nn.Tanh(), nn.Linear(6, 3)), (4, 6, 3)),
        (nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 3)), None),
        (nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.Linear(6, 3)), None),
        (nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 3)), None),
        (nn.Sequential(nn.Linear(4, 6), nn.ReLU()), None),
        (nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Flatten(), nn.Linear(6, 3)), None),
        (nn.Sequential(nn.Linear(4, 3)).requires_grad_(False), None),
        (nn.Linear(4, 3), (4, 3)),
        (nn.Sequential(nn.Sequential(nn.Linear(4, 5), nn.Tanh()), nn.Linear(5, 3)), (4, 5, 3)),
        (nn.Sequential(*[nn.Linear(4, 4), nn.ReLU()] * 2, nn.Linear(4, 3)), None),
    ],
)
def test_what_a_chain_is(module: nn.Module, sizes: tuple[int, ...] | None) -> None:
    chain = find_chain(module)
    assert (None if chain is None else chain.sizes) == sizes


class Written(nn.Module):
    """A forward pass in the user's own words."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(6, 5), nn.Linear(5, 5, bias=False), nn.Linear(5, 3)
        self.way = way

    def forward(self, inputs: Tensor) -> Tensor:  # noqa: PLR0911
        flat = inputs.flatten(1)
        match self.way:
            case "functions":
                return self.last(F.relu(self.second(torch.relu(self.first(flat)))))
            case "methods":
                return self.last(self.second(self.first(torch.flatten(flat, 1)).tanh()).tanh())
            case "residual":
                return self.last(torch.relu(self.first(flat)) + torch.relu(self.second(torch.relu(self.first(flat)))))
            case "twice":
                return self.last(torch.relu(self.second(torch.relu(self.second(torch.relu(self.first(flat)))))))
            case "unused":
                return self.last(torch.relu(self.first(flat)))
            case "scaled":
                return self.last(torch.relu(self.second(torch.relu(self.first(flat) * 2))))
            case "weight":
                return self.last(torch.relu(F.linear(torch.relu(self.first(flat)), self.second.weight)))
            case "branching":
                return self.last(torch.relu(self.second(torch.relu(self.first(flat))))) if flat.sum() > 0 else flat
            case "halfway":
                observed = torch.relu(self.second(torch.relu(self.first(flat))))
                self.last(observed)
                return observed
            case _:
                return self.last(torch.relu(self.second(torch.relu(self.first(flat.flatten(0))))))


def written(way: str) -> nn.Module:
    return Written(way)


@pytest.mark.parametrize("way", ["functions", "methods"])
def test_chains_are_found_however_they_are_written(way: str) -> None:
    spec = {"factory": "tests.engine.test_chain:written", "arguments": {"way": way}}
    assert find_chain(Written(way)) == replace(find_chain(Written(way)), sizes=(6, 5, 5, 3), activation=int(way == "methods"))
    job = cases.job(NOISY, model=spec, data=cases.dataset((2, 3)))
    assert arrange(job, ON).architecture is not None
    plain, built = train(job, cases.silent), train(job, cases.silent, ON)
    assert not same(plain, built)
    for name, value in plain.weights.items():
        np.testing.assert_allclose(value, built.weights[name], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("way", ["residual", "twice", "unused", "scaled", "weight", "branching", "halfway", "flat"])
def test_what_is_no_straight_line_is_no_chain(way: str) -> None:
    assert find_chain(Written(way)) is None


def test_hooks_and_buffers_stay_with_torch() -> None:
    module = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
    assert find_chain(module) is not None
    module[1].register_forward_hook(lambda layer, provided, built: 2 * built)
    assert find_chain(module) is None
    assert find_chain(nn.utils.parametrizations.weight_norm(nn.Linear(4, 3))) is None
    assert find_chain(nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))) is None


def test_tied_weights_are_no_chain() -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3))
    module[2].weight = module[0].weight
    assert find_chain(module) is None


def long(job: TrainingJob) -> TrainingJob:
    return replace(job, mechanism=replace(job.mechanism, count=10**8))


def test_auto_waits_for_a_training_that_repays_the_compiler() -> None:
    job, auto = cases.job(NOISY), ScheduleSettings(compile="auto")
    assert (
        arrange(job, auto).architecture is None
        and arrange(long(job), auto).architecture is not None
        and arrange(job, ON).architecture is not None
    )
    assert arrange(long(job), ScheduleSettings()).architecture is None
    chain = find_chain(build({"kind": "mlp", "hidden": [64]}, (64,), 10))
    assert chain is not None and not worth_compiling(chain, 100 * 128) and worth_compiling(chain, 1000 * 128)
    jobs = [cases.job(replace(NOISY, count=steps), models=models) for steps in (10**4, 10**5, 10**6) for models in (1, 200)]
    decided = [arrange(item, auto).architecture is not None for item in jobs]
    assert decided[::2] == decided[1::2] and set(decided) == {True, False}


@pytest.mark.parametrize(
    ("settings", "technique", "model", "message"),
    [
        (replace(ON, dtype=torch.float64), Technique(), {"kind": "mlp"}, "not float32"),
        (ON, Technique(copies=2), {"kind": "mlp"}, "several views"),
        (ON, Technique(), {"kind": "mlp", "activation": "gelu"}, "not a chain"),
    ],
)
def test_what_cannot_be_compiled_is_said_once_asked_for(
    settings: ScheduleSettings, technique: Technique, model: dict, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    job = long(cases.job(NOISY, model=model))
    with caplog.at_level(logging.WARNING):
        assert arrange(job, replace(settings, compile="auto"), technique).architecture is None
        assert "compile" not in caplog.text
        assert arrange(job, settings, technique).architecture is None
    assert "compile: on has no effect" in caplog.text and message in caplog.text


@pytest.fixture
def fresh() -> Iterator[None]:
    compile_c.library.cache_clear()
    yield
    compile_c.library.cache_clear()


@pytest.mark.parametrize(("command", "message"), [("false", "could not be compiled"), ("no-such-compiler", "could not be")])
def test_a_compiler_that_fails_is_logged_once_and_done_without(
    fresh: None, command: str, message: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CC", command)
    with caplog.at_level(logging.WARNING):
        first, second = (train(cases.job(NOISY), cases.silent, ON) for _ in range(2))
    assert caplog.text.count(message) == 1
    assert same(first, train(cases.job(NOISY), cases.silent)) and same(first, second)


@pytest.mark.parametrize(("setting", "level"), [("on", logging.WARNING), ("auto", logging.INFO)])
def test_no_compiler_warns_who_asked_for_it(
    fresh: None, setting: str, level: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "")
    with caplog.at_level(logging.INFO):
        assert compile_c.library(SOURCE) is None
        assert arrange(long(cases.job(NOISY)), ScheduleSettings(compile=setting)).architecture is None
    (record,) = (entry for entry in caplog.records if "no C compiler was found" in entry.getMessage())
    assert record.levelno == level


def test_code_that_disagrees_with_torch_is_left(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    honest = CompiledGradients.add_rows

    def wrong(self: CompiledGradients, data: Any, indices: Any, mask: Any, into: tuple[Any, Any]) -> Any:
        clipping = honest(self, data, indices, mask, into)
        into[1][:, :5] *= 1.5
        return clipping

    job = cases.job(NOISY)
    assert arrange(job, ON).architecture is not None
    monkeypatch.setattr(CompiledGradients, "add_rows", wrong)
    assert arrange(job, ON).architecture is None
    assert "going on with torch's kernels: sums of compiled code differ by" in caplog.text


def test_the_default_is_auto_and_the_report_says_what_was_compiled() -> None:
    assert {trainer().compile for trainer in (DpSgdTrainer, SgdTrainer, MatrixFactorizationTrainer)} == {"auto"}
    job = cases.job(NOISY)
    compiled, plain = train(job, cases.silent, ON).executed, train(job, cases.silent).executed
    (row,) = (row for row in check_executed(job.mechanism, compiled) if row.code == "compiled")
    assert row.value.startswith("made by code that was compiled on the machine, for all ")
    assert "compiled" not in {row.code for row in check_executed(job.mechanism, plain)}


def test_doctor_names_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "gcc -m64")
    assert ("C compiler", "gcc -m64", True, False) in survey()
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", "")
    assert any(what == "C compiler" and "leave all to torch" in result and not ok for what, result, ok, _ in survey())


@pytest.mark.slow
def test_memory_is_guarded() -> None:
    compiled, _ = both((8,), (5,), "relu", 3)
    rows = rows_for((5,), 16, 3)
    with pytest.raises(DataError, match="labels up to 3"):
        compiled.add_sum(replace(rows, labels=rows.labels + 1), Clip(norm=1.0), torch.zeros_like(compiled.flat))
    with pytest.raises(DataError, match=r"4 torch\.float32"):
        compiled.add_sum(rows_for((4,), 16, 3), Clip(norm=1.0), torch.zeros_like(compiled.flat))


@pytest.mark.slow
def test_the_trainers_take_the_option() -> None:
    job = cases.job(NOISY)
    assert same(DpSgdTrainer(compile="on").fit(job, cases.silent).models, train(job, cases.silent, ON))
    plain = replace(job, mechanism=sgd(sample_rate=0.3, steps=4))
    assert same(SgdTrainer(compile="on").fit(plain, cases.silent).models, train(plain, cases.silent, ON))
    for trainer in (DpSgdTrainer, SgdTrainer):
        with pytest.raises(ConfigError, match="compile is 'yes'; expected one of off, auto, on"):
            trainer(compile="yes")
