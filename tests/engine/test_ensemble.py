"""Training: equal to a slow loop step for step, reproducible in any arrangement, and with a true record of its steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from audit.core.access import Access
from audit.core.canaries import Canaries, CanaryRecords, CoordinateGradients, DirectionGradients
from audit.core.errors import ConfigError, DataError, UnsupportedMechanism
from audit.core.events import Repeated, dp_sgd, sgd
from audit.core.seeds import Seed
from audit.core.training import TrainedModels, TrainingJob
from audit.engine.ensemble import train
from audit.engine.layers.layers import Tape
from audit.engine.layers.layers_elementwise import DropoutLayer
from audit.engine.random.counter_streams import CounterStreams
from audit.engine.random.noise import CounterDraws, GeneratorDraws, Place
from audit.engine.random.sampling import EnsembleSampler, Law
from audit.engine.schedule import ScheduleSettings, arrange
from audit.models.build import initialise_model, parameter_count
from tests.engine import cases
from tests.engine.twin import slow_training
from tests.marks import slow

QUIET = dp_sgd(noise_multiplier=0.0, clip_norm=0.4, sample_rate=0.3, steps=3)
NOISY = dp_sgd(noise_multiplier=1.5, clip_norm=0.4, sample_rate=0.3, steps=12)
DOUBLE = ScheduleSettings(dtype=torch.float64)


def assert_same(first: TrainedModels, second: TrainedModels, *, exact: bool) -> None:
    for name in first.weights:
        if exact:
            np.testing.assert_array_equal(first.weights[name], second.weights[name], err_msg=name)
        else:
            np.testing.assert_allclose(first.weights[name], second.weights[name], rtol=1e-5, atol=1e-6)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mechanism", [QUIET, sgd(sample_rate=0.3, steps=3)], ids=["dpsgd", "plain"])
@pytest.mark.parametrize("name", slow(sorted(cases.MODELS), ["encoder", "recurrent", "vision", "vit", "wide_resnet"]))
def test_steps_without_noise_equal_a_slow_loop(name: str, mechanism: Repeated) -> None:
    spec, shape = cases.MODELS[name]
    job = cases.job(mechanism, model=spec, data=cases.dataset(shape), models=2)
    done = train(job, cases.silent, DOUBLE)
    for model in range(2):
        for parameter, value in slow_training(job, model).items():
            np.testing.assert_allclose(done.weights[parameter][model], value, rtol=1e-6, atol=1e-9, err_msg=parameter)


@pytest.mark.parametrize(
    "options",
    [
        {"kind": "sgd", "learning_rate": 0.2, "momentum": 0.9, "weight_decay": 0.01},
        {"kind": "adam", "learning_rate": 0.02, "weight_decay": 0.01},
        {"kind": "adamw", "learning_rate": 0.02, "weight_decay": 0.1},
    ],
    ids=["momentum", "adam", "adamw"],
)
def test_optimisers_equal_those_of_torch(options: dict) -> None:
    job = cases.job(replace(QUIET, count=8), models=2, optimizer=options)
    done = train(job, cases.silent, DOUBLE)
    for model in range(2):
        for parameter, value in slow_training(job, model).items():
            np.testing.assert_allclose(done.weights[parameter][model], value, rtol=1e-6, atol=1e-9)


def test_regression_trains_like_the_slow_loop() -> None:
    job = cases.job(QUIET, data=cases.dataset((5,), classes=0), models=2)
    done = train(job, cases.silent, DOUBLE)
    for parameter, value in slow_training(job, 1).items():
        np.testing.assert_allclose(done.weights[parameter][1], value, rtol=1e-6, atol=1e-9)


CHUNKED = (
    *("logistic", "mlp", "cnn", "wide_resnet", "sequences", "tied", "many_channels", "grouped", "convolutions"),
    *("vit", "transformer", "encoder", "wide"),
)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "name", slow(CHUNKED, ["encoder", "many_channels", "grouped", "tied", "transformer", "vit", "wide_resnet"])
)
def test_any_chunk_size_gives_the_same_bits_on_one_thread(name: str) -> None:
    wide = ({"kind": "mlp", "hidden": [256]}, (200,))  # large enough for one library call a model
    spec, shape = wide if name == "wide" else cases.MODELS[name]
    job = cases.job(NOISY, model=spec, data=cases.dataset(shape, train=120), models=5)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        full = train(job, cases.silent)
        for chunk in (1, 2, 3):
            assert_same(full, train(job, cases.silent, ScheduleSettings(model_chunk=chunk)), exact=True)
        reordered = replace(job, seeds=job.seeds[::-1], included=job.included[::-1])
        backwards = train(reordered, cases.silent)
        for parameter, value in full.weights.items():
            np.testing.assert_array_equal(value, backwards.weights[parameter][::-1])
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("kind", ["adam", "adamw"])
def test_adam_gives_the_same_bits_in_any_chunk(kind: str) -> None:
    options = {"kind": kind, "learning_rate": 0.01, "weight_decay": 0.1, "schedule": "cosine", "warmup": 3}
    job = cases.job(NOISY, models=5, optimizer=options)
    full = train(job, cases.silent)
    for chunk in (1, 2):
        assert_same(full, train(job, cases.silent, ScheduleSettings(model_chunk=chunk)), exact=True)


def test_any_chunk_size_gives_nearly_the_same_on_two_threads() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        job = cases.job(NOISY, models=4)
        assert_same(train(job, cases.silent), train(job, cases.silent, ScheduleSettings(model_chunk=1)), exact=False)
    finally:
        torch.set_num_threads(threads)


def test_same_seed_same_weights_and_another_seed_others() -> None:
    first, second = (train(cases.job(NOISY), cases.silent) for _ in range(2))
    assert_same(first, second, exact=True)
    peer = train(cases.job(NOISY, seed=1), cases.silent)
    assert all((first.weights[name] != peer.weights[name]).any() for name in first.weights)
    assert len({first.weights["0.weight"][model].tobytes() for model in range(3)}) == 3


def test_training_leaves_the_global_stream_alone() -> None:
    before = torch.random.get_rng_state()
    train(cases.job(NOISY), cases.silent)
    assert torch.equal(before, torch.random.get_rng_state())


def test_noise_has_the_right_variance_in_every_parameter() -> None:
    steps, models, rate = 60, 24, 0.3
    mechanism = dp_sgd(noise_multiplier=2.0, clip_norm=0.5, sample_rate=rate, steps=steps)
    data = cases.dataset((5,))
    learning_rate = 0.7
    optimizer = {"kind": "sgd", "learning_rate": learning_rate}
    # clipping to next to nothing leaves the noise alone: weights move by a random walk of known variance
    mechanism = dp_sgd(noise_multiplier=2.0 * 0.5 / 1e-9, clip_norm=1e-9, sample_rate=rate, steps=steps)
    job = cases.job(mechanism, data=data, models=models, optimizer=optimizer)
    done = train(job, cases.silent, DOUBLE)
    assert done.initial is not None
    expected = (learning_rate * 1.0 / (rate * (len(data.train) + len(data.pool)))) ** 2 * steps
    worst = []
    for name, value in done.weights.items():
        moved = (value - done.initial[name]).reshape(models, -1)
        worst.append(moved.shape[1])
        scaled = (moved**2).sum() / expected
        assert 1e-5 < stats.chi2.sf(scaled, moved.size) < 1 - 1e-5, name
        each = (moved**2).sum(0) / expected
        assert stats.chi2.sf(each.max(), models) * moved.shape[1] > 1e-4, name
        assert stats.chi2.cdf(each.min(), models) * moved.shape[1] > 1e-4, name
    assert sum(worst) == parameter_count(job.model, (5,), 3)
    flat = np.concatenate([(done.weights[n] - done.initial[n]).reshape(models, -1) for n in done.weights], axis=1)
    correlation = np.corrcoef(flat)[np.triu_indices(models, 1)]
    assert (correlation**2).sum() * flat.shape[1] < stats.chi2.isf(1e-4, len(correlation))


def test_what_was_executed_is_recorded() -> None:
    job = cases.job(replace(NOISY, count=100), models=6)
    done = train(job, cases.silent).executed
    draws = parameter_count(job.model, (5,), 3) * 100
    assert done.steps == 100 and done.noise_draws == draws
    np.testing.assert_allclose(done.noise_multiplier, 1.5, rtol=5 / np.sqrt(2 * draws))
    np.testing.assert_array_equal(done.population, 40 + job.included.sum(1))
    pvalues = [
        stats.binomtest(int(sizes.sum()), int(population) * 100, 0.3).pvalue
        for sizes, population in zip(done.batch_sizes, done.population, strict=True)
    ]
    assert min(pvalues) > 1e-5
    assert (done.largest_norm <= 1 + 1e-6).all() and (done.largest_norm > 0.9).all()
    assert (done.skipped == 0).all()


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_a_poisoned_record_is_skipped_and_counted(value: float) -> None:
    data = cases.dataset((5,))
    inputs = np.array(data.train.inputs)
    inputs[0] = value
    poisoned = replace(data, train=replace(data.train, inputs=inputs))
    job = cases.job(NOISY, data=poisoned)
    done = train(job, cases.silent)
    assert all(np.isfinite(weight).all() for weight in done.weights.values())
    assert not done.extra["diverged"].any()
    law = Law(population=52, rate=0.3)
    block = EnsembleSampler(law, tuple(s.child("batches") for s in job.seeds), job.included, as_gradients=False).block()
    for model in range(3):
        drawn = sum(0 in block.index[step, model, : block.counts[step, model]] for step in range(NOISY.count))
        assert done.executed.skipped[model] == drawn


@pytest.mark.parametrize("last", [False, True], ids=["anywhere", "at the last step"])
def test_a_training_that_takes_no_one_out_begins_again_with_a_poisoned_record(
    last: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As on a device, where no step waits for the answer whether norms are finite."""
    data, event = cases.dataset((5,)), replace(NOISY, count=1) if last else NOISY
    inputs = np.array(data.train.inputs)
    inputs[39] = np.inf  # which the trial before a training does not see
    poisoned = replace(data, train=replace(data.train, inputs=inputs))
    usual = {name: cases.job(event, data=data) for name, data in (("healthy", data), ("poisoned", poisoned))}
    settings = ScheduleSettings(compile="off")
    expected = {name: train(job, cases.silent, settings) for name, job in usual.items()}
    monkeypatch.setattr("audit.engine.gradients.clipping.all_finite", lambda _: False)
    monkeypatch.setattr("audit.engine.ensemble.arrange", lambda *args: replace(arrange(*args), takes_out=False))
    for name, job in usual.items():
        caplog.clear()
        done = train(job, cases.silent, settings)
        assert ("begins again" in caplog.text) == (name == "poisoned")
        np.testing.assert_array_equal(done.executed.skipped, expected[name].executed.skipped)
        assert (done.executed.skipped.sum() > 0) == (name == "poisoned")
        for parameter, value in expected[name].weights.items():
            np.testing.assert_array_equal(done.weights[parameter], value)


def test_a_diverging_model_does_not_touch_the_others() -> None:
    job = cases.job(sgd(sample_rate=0.3, steps=12), model={"kind": "mlp", "hidden": [8], "activation": "relu"})
    healthy = train(job, cases.silent)
    coins = np.array(job.included)
    records = cases.records((5,), 12, 2)
    inputs = np.array(records.inputs)
    inputs[:] = 1e38
    coins[:] = False
    quiet = train(replace(job, included=coins), cases.silent)
    coins[1] = True  # only the second model samples the canaries that overflow
    canaries = Canaries(kind="huge", description="", payload=CanaryRecords(records=replace(records, inputs=inputs)))
    mixed = train(replace(job, canaries=canaries, included=coins), cases.silent)
    assert mixed.extra["diverged"].tolist() == [False, True, False]
    assert not healthy.extra["diverged"].any()
    for name in quiet.weights:
        np.testing.assert_allclose(quiet.weights[name][[0, 2]], mixed.weights[name][[0, 2]], rtol=1e-6)


def test_the_divisor_is_public() -> None:
    """The update is divided by a constant that says nothing about the coins or the realised batch."""
    mechanism = dp_sgd(noise_multiplier=0.0, clip_norm=1e-3, sample_rate=1.0, steps=1)
    job = cases.job(mechanism, optimizer={"kind": "sgd", "learning_rate": 1.0})
    none = replace(job, included=np.zeros_like(job.included))
    done = train(none, cases.silent, DOUBLE)
    assert done.initial is not None
    module = initialise_model(job.model, (5,), 3, job.seeds[0].child("init")).double()
    train_records = job.dataset.train
    inputs = torch.from_numpy(np.array(train_records.inputs)).double()
    total, _ = cases.slow_sum(module, inputs, torch.from_numpy(np.array(train_records.labels)), 1e-3)
    moved = done.initial["0.weight"][0] - done.weights["0.weight"][0]
    np.testing.assert_allclose(moved, total[0].numpy() / 52, rtol=1e-6, atol=1e-12)


class TestGradientCanaries:
    def dense(self, count: int, parameters: int) -> Canaries:
        rows = np.random.default_rng(0).normal(size=(count, parameters))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return Canaries(kind="dense", description="", payload=DirectionGradients(directions=rows.astype(np.float32)))

    def dirac(self, count: int, parameters: int) -> Canaries:
        chosen = np.random.default_rng(0).choice(parameters, count, replace=False)
        return Canaries(kind="dirac", description="", payload=CoordinateGradients(coordinates=chosen))

    @pytest.mark.parametrize("kind", ["dirac", "dense"])
    def test_products_have_the_right_mean_and_variance(self, kind: str) -> None:
        parameters = parameter_count({"kind": "mlp", "hidden": [8]}, (5,), 3)
        canaries = getattr(self, kind)(10, parameters)
        mechanism = dp_sgd(noise_multiplier=0.8, clip_norm=3.0, sample_rate=0.3, steps=60)
        job = cases.job(mechanism, canaries=canaries, models=20)
        done = train(job, cases.silent)
        assert done.products is not None and done.products.shape == (20, 10, 60) and done.products.dtype == np.float32
        if kind == "dense":  # remove what the other canaries add: at most ten of them, all known
            return self.check_dense(job, done, canaries)
        outside = done.products[~job.included]
        inside = done.products[job.included]
        assert stats.kstest(outside.ravel() / 0.8, "norm").pvalue > 1e-4
        assert abs(inside.mean() - 0.3) < 5 * inside.std() / np.sqrt(inside.size)
        variance = 0.64 + 0.3 * 0.7
        assert abs(inside.var() / variance - 1) < 5 * np.sqrt(2 / inside.size) * 1.5

    def check_dense(self, job: TrainingJob, done: TrainedModels, canaries: Canaries) -> None:
        assert done.products is not None and isinstance(canaries.payload, DirectionGradients)
        gram = np.asarray(canaries.payload.directions, np.float64) @ canaries.payload.directions.T
        law = Law(population=50, rate=0.3)
        seeds = tuple(seed.child("batches") for seed in job.seeds)
        block = EnsembleSampler(law, seeds, job.included, as_gradients=True).block()
        assert block.extra is not None
        expected = np.einsum("snm,mk->nks", block.extra[:60], gram)
        noise = (done.products - expected) / 0.8
        whitened = np.einsum("nks,kj->njs", noise, np.linalg.inv(np.linalg.cholesky(gram)).T)
        assert stats.kstest(whitened.ravel(), "norm").pvalue > 1e-4

    @pytest.mark.parametrize("kind", ["dirac", "dense"])
    @pytest.mark.parametrize("private", [True, False])
    def test_without_noise_products_are_the_inclusions(self, kind: str, private: bool) -> None:
        parameters = parameter_count({"kind": "logistic"}, (5,), 3)
        canaries = getattr(self, kind)(6, parameters)
        mechanism = (
            dp_sgd(noise_multiplier=0.0, clip_norm=2.5, sample_rate=0.4, steps=20)
            if private
            else sgd(sample_rate=0.4, steps=20)
        )
        job = cases.job(mechanism, canaries=canaries, model={"kind": "logistic"}, models=4)
        done = train(job, cases.silent, DOUBLE)
        law = Law(population=46, rate=0.4)
        seeds = tuple(seed.child("batches") for seed in job.seeds)
        extra = EnsembleSampler(law, seeds, job.included, as_gradients=True).block().extra
        assert extra is not None and done.products is not None
        gram = np.eye(6)
        if isinstance(canaries.payload, DirectionGradients):
            gram = np.asarray(canaries.payload.directions, np.float64) @ canaries.payload.directions.T
        np.testing.assert_allclose(done.products, np.einsum("snm,mk->nks", extra[:20], gram), atol=1e-5)
        if private:
            np.testing.assert_allclose(done.executed.largest_norm, 1.0, atol=1e-6)
        assert (done.executed.batch_sizes.sum(1) > extra[:20].sum((0, 2))).all()

    def test_a_canary_moves_exactly_its_coordinate(self) -> None:
        mechanism = dp_sgd(noise_multiplier=0.0, clip_norm=2.0, sample_rate=1.0, steps=1)
        canaries = Canaries(kind="dirac", description="", payload=CoordinateGradients(coordinates=np.array([15, 3])))
        job = cases.job(
            mechanism, canaries=canaries, model={"kind": "logistic"}, models=1, optimizer={"kind": "sgd", "learning_rate": 1.0}
        )
        moved = []
        for coins in ([[False, False]], [[True, False]], [[False, True]]):
            done = train(replace(job, included=np.array(coins)), cases.silent, DOUBLE)
            moved.append(
                np.concatenate([done.weights["weight"][0].ravel(), done.weights["bias"][0]])
                if "weight" in done.weights
                else np.concatenate([done.weights["0.weight"][0].ravel(), done.weights["0.bias"][0]])
            )
        for which, coordinate in ((1, 15), (2, 3)):
            step = moved[which] - moved[0]
            assert step[coordinate] == pytest.approx(-2.0 / 42)
            assert np.count_nonzero(np.abs(step) > 1e-12) == 1

    def test_products_only_where_the_game_shows_every_step(self) -> None:
        canaries = self.dirac(4, 18)
        job = cases.job(QUIET, canaries=canaries, model={"kind": "logistic"}, access=Access.FINAL_WEIGHTS)
        done = train(job, cases.silent)
        assert done.products is None and done.initial is not None
        done = train(replace(job, access=Access.FINAL_MODEL), cases.silent)
        assert done.products is None and done.initial is None

    def test_canaries_of_another_model_are_refused(self) -> None:
        for canaries in (self.dirac(4, 100), self.dense(4, 19)):
            with pytest.raises(DataError, match="18 parameters"):
                train(cases.job(QUIET, canaries=canaries, model={"kind": "logistic"}), cases.silent)


def test_batch_normalisation_is_refused_by_name() -> None:
    job = cases.job(QUIET, model=cases.factory("normalised"))
    with pytest.raises(UnsupportedMechanism, match=r"body\.1.*BatchNorm1d.*GroupNorm"):
        train(job, cases.silent)


def test_mixing_in_the_forward_pass_is_refused() -> None:
    job = cases.job(QUIET, model=cases.factory("mixing"))
    with pytest.raises(UnsupportedMechanism, match="other records"):
        train(job, cases.silent)


def test_batch_normalisation_trains_without_privacy() -> None:
    job = cases.job(sgd(sample_rate=0.3, steps=5), model=cases.factory("normalised"), models=2)
    done = train(job, cases.silent)
    assert (done.weights["body.1.running_mean"][0] != 0).any()
    assert (done.weights["body.1.running_mean"][0] != done.weights["body.1.running_mean"][1]).any()
    assert done.weights["body.1.num_batches_tracked"].tolist() == [5, 5]


def test_an_absent_device_is_a_config_error() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    for device in ("cuda", "cuda:1", "spaceship"):
        with pytest.raises(ConfigError, match="device"):
            train(replace(cases.job(QUIET), device=device), cases.silent)


def test_progress_counts_model_steps() -> None:
    observed: list[int] = []
    train(cases.job(NOISY, models=5), observed.append, ScheduleSettings(model_chunk=2))
    assert sum(observed) == 5 * NOISY.count


def test_no_steps_is_a_model_as_initialised() -> None:
    done = train(cases.job(replace(NOISY, count=0)), cases.silent)
    assert done.initial is not None
    for name, value in done.initial.items():
        np.testing.assert_array_equal(value, done.weights[name])
    assert done.executed.batch_sizes.shape == (3, 0) and done.executed.noise_draws == 0


@pytest.mark.sampled(1)
@pytest.mark.parametrize("raw", [False, True], ids=["together", "one by one"])
@pytest.mark.parametrize("mechanism", [NOISY, sgd(sample_rate=0.3, steps=6)], ids=["dpsgd", "plain"])
def test_dropout_draws_from_each_models_own_stream(mechanism: Repeated, raw: bool) -> None:
    model = {"factory": "tests.engine.cases:dropping", "arguments": {"raw": raw}}
    job = cases.job(mechanism, model=model)
    before = torch.random.get_rng_state()
    full = train(job, cases.silent)
    assert torch.equal(before, torch.random.get_rng_state())
    for chunk in (1, 2):
        assert_same(full, train(job, cases.silent, ScheduleSettings(model_chunk=chunk)), exact=True)
    steady = train(replace(job, model={"factory": "tests.engine.cases:steady"}), cases.silent)
    assert (full.weights["body.0.weight"] != steady.weights["body.0.weight"]).mean() > 0.9


@pytest.mark.slow
def test_attention_that_drops_draws_from_each_models_own_stream() -> None:
    model = {"factory": "tests.engine.cases:attending", "arguments": {"dropout": 0.5}}
    job = cases.job(replace(NOISY, count=3), model=model)
    before = torch.random.get_rng_state()
    full = train(job, cases.silent)
    assert torch.equal(before, torch.random.get_rng_state())
    assert_same(full, train(job, cases.silent, ScheduleSettings(model_chunk=1)), exact=True)
    steady = train(replace(job, model=cases.factory("attending")), cases.silent)
    assert (full.weights["last.weight"] != steady.weights["last.weight"]).mean() > 0.9


@pytest.mark.parametrize("counters", [False, True])
def test_dropout_keeps_its_share_and_scale(counters: bool) -> None:
    seeds, cpu = [Seed(index) for index in range(2)], torch.device("cpu")
    draws = (
        CounterDraws(CounterStreams(seeds, cpu), Place(step=3, first=0, rows=400)) if counters else GeneratorDraws(seeds, cpu)
    )
    layer = DropoutLayer(0.25, 2, Tape(models=2, draws=draws))
    built = layer(torch.ones(2 * 400, 5, 3, 3))
    assert torch.equal(built, built[:, :, :1, :1].expand_as(built))
    retained = built[:, :, 0, 0]
    assert retained.unique().tolist() == pytest.approx([0.0, 4 / 3])
    assert stats.binomtest(int((retained > 0).sum()), retained.numel(), 0.75).pvalue > 1e-4
    assert not torch.equal(retained[:400], retained[400:])
    assert not torch.equal(layer(torch.ones(2 * 400, 5, 3, 3)), built)  # a second call draws anew
    assert torch.equal(layer.eval()(built), built)


def test_a_game_without_shared_records_trains() -> None:
    data = cases.dataset((5,))
    empty = replace(data, train=data.train.take(np.arange(0)))
    done = train(cases.job(cases.varied(NOISY, sample_rate=0.6), data=empty), cases.silent)
    assert all(np.isfinite(value).all() for value in done.weights.values())
    assert (done.executed.batch_sizes.sum(1) > 0).all()
