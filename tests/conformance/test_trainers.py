"""What every trainer must do: its own mechanism or none, realised noise, clip and batch law, one seed one result."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import yaml
from scipy import stats
from torch import Tensor
from torch.nn.functional import cross_entropy

from audit import plugins
from audit.config import parse
from audit.core.access import Access
from audit.core.canaries import Canaries, CanaryRecords, CoordinateGradients, DirectionGradients
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.event_reading import noisy_steps
from audit.core.events import Event, dp_sgd, sgd
from audit.core.models import Subject
from audit.core.protocols import Trainer
from audit.core.training import Progress, TrainingJob
from audit.experiment.games.spec import TrainingDesign
from audit.experiment.line.assemble import assemble
from audit.models.build import parameter_count
from tests.engine import cases

PACKAGE = "audit.trainers"
RATE = 0.25
OTHERS = ("user_function", "federated", "language_model", "matrix_factorization")
PRIVATE = dp_sgd(noise_multiplier=1.3, clip_norm=0.5, sample_rate=RATE, steps=40)
PLAIN = sgd(sample_rate=RATE, steps=40)


def trainer_and_mechanism(name: str) -> tuple[Trainer, Event, Event]:
    """The trainer with a mechanism that it executes and one that it does not."""
    if name == "opacus":
        pytest.importorskip("opacus")
    trainer = plugins.build(PACKAGE, {"kind": name})
    for mine, peer in ((PRIVATE, PLAIN), (PLAIN, PRIVATE)):
        try:
            trainer.fit(cases.job(replace(mine, count=1), models=1), cases.silent)
        except UnsupportedMechanism:
            continue
        return trainer, mine, peer
    raise AssertionError(f"trainer '{name}' executes no known mechanism")


# the user's own function executes no mechanism of this project's: tests/experiment/test_described.py; clients are no records:
# tests/engine/test_federated.py; nor are texts: tests/engine/test_language_models.py; cycles are no Poisson batches:
# tests/engine/test_matrix_factorization.py
@pytest.fixture(params=[name for name in plugins.names(PACKAGE) if name not in OTHERS])
def trainer_setup(request: pytest.FixtureRequest) -> tuple[Trainer, Event, Event]:
    return trainer_and_mechanism(request.param)


def test_refuses_a_mechanism_that_it_does_not_execute(trainer_setup: tuple[Trainer, Event, Event]) -> None:
    trainer, _, peer = trainer_setup
    with pytest.raises(UnsupportedMechanism, match=re.escape(str(peer))):
        trainer.fit(cases.job(peer), cases.silent)


@pytest.mark.sampled(1)
def test_same_seed_same_weights(trainer_setup: tuple[Trainer, Event, Event]) -> None:
    trainer, mine, _ = trainer_setup
    first, second = (trainer.fit(cases.job(mine), cases.silent).models for _ in range(2))
    peer = trainer.fit(cases.job(mine, seed=9), cases.silent).models
    for name, value in first.weights.items():
        np.testing.assert_array_equal(value, second.weights[name])
        assert (value != peer.weights[name]).any()


@pytest.mark.sampled(1)
def test_realised_noise_clip_and_batches_are_those_of_the_mechanism(trainer_setup: tuple[Trainer, Event, Event]) -> None:
    trainer, mine, _ = trainer_setup
    job = cases.job(mine, models=5, optimizer={"kind": "sgd", "learning_rate": 0.05})
    done = trainer.fit(job, cases.silent).executed
    assert done.steps == mine.count
    assert done.batch_sizes.shape == (5, mine.count)
    np.testing.assert_array_equal(done.population, 40 + job.included.sum(1))
    for sizes, population in zip(done.batch_sizes, done.population, strict=True):
        assert stats.binomtest(int(sizes.sum()), int(population) * mine.count, RATE).pvalue > 1e-4
        spread = ((sizes - population * 0.25) ** 2 / (population * 0.25 * 0.75)).sum()
        assert 1e-4 < stats.chi2.sf(spread, mine.count) < 1 - 1e-4
    if noisy_steps(mine) is not None:
        assert done.noise_draws == parameter_count(job.model, (5,), 3) * mine.count
        np.testing.assert_allclose(done.noise_multiplier, 1.3, rtol=5 / np.sqrt(2 * done.noise_draws))
        assert (done.largest_norm <= 1 + 1e-5).all() and (done.largest_norm > 0.9).all()
    else:
        np.testing.assert_array_equal(done.noise_multiplier, 0.0)


@pytest.mark.sampled(1)
def test_canaries_with_coin_zero_leave_no_trace(trainer_setup: tuple[Trainer, Event, Event]) -> None:
    trainer, mine, _ = trainer_setup
    job = cases.job(mine)
    out = replace(job, included=np.zeros_like(job.included))
    swapped = Canaries(kind="other", description="", payload=CanaryRecords(records=cases.records((5,), 12, 99)))
    inputs = np.array(swapped.records.inputs) * 100
    swapped = Canaries(kind="other", description="", payload=CanaryRecords(records=replace(swapped.records, inputs=inputs)))
    first, second = trainer.fit(out, cases.silent).models, trainer.fit(replace(out, canaries=swapped), cases.silent).models
    third = trainer.fit(replace(job, canaries=swapped, included=~out.included), cases.silent).models
    for name, value in first.weights.items():
        np.testing.assert_allclose(value, second.weights[name], rtol=1e-6, atol=1e-7)
        assert not np.allclose(value, third.weights[name], rtol=1e-3)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dense", [False, True])
def test_gradient_canaries_show_their_inclusion(trainer_setup: tuple[Trainer, Event, Event], dense: bool) -> None:
    trainer, mine, _ = trainer_setup
    parameters = parameter_count({"kind": "mlp", "hidden": [8]}, (5,), 3)
    rows = np.linalg.qr(np.random.default_rng(0).normal(size=(parameters, 10)))[0].T.astype(np.float32)
    canaries = (
        Canaries(kind="dense", description="", payload=DirectionGradients(directions=rows))
        if dense
        else Canaries(kind="dirac", description="", payload=CoordinateGradients(coordinates=np.arange(0, 50, 5)))
    )
    job = cases.job(mine, canaries=canaries, models=12)
    done = trainer.fit(job, cases.silent).models
    assert done.products is not None
    sums = done.products.astype(float).sum(2)
    inside, outside = sums[job.included], sums[~job.included]
    noise = 1.3 if noisy_steps(mine) is not None else 0.0
    steps, rate = mine.count, RATE
    tolerance = 4.5 * np.sqrt(steps * (noise**2 + rate * (1 - rate)) / 60)
    assert abs(inside.mean() - steps * rate) < tolerance
    assert abs(outside.mean()) <= tolerance
    if noise:
        for result, variance in ((outside, noise**2), (inside, noise**2 + rate * (1 - rate))):
            statistic = len(result) * result.var() / (steps * variance)
            assert 1e-4 < stats.chi2.sf(statistic, len(result) - 1) < 1 - 1e-4


@pytest.mark.sampled(2)
def test_final_weights_come_with_the_first_ones(trainer_setup: tuple[Trainer, Event, Event]) -> None:
    trainer, mine, _ = trainer_setup
    done = trainer.fit(cases.job(mine, access=Access.FINAL_WEIGHTS), cases.silent).models
    assert done.initial is not None
    assert all(np.shape(value) == np.shape(done.weights[name]) for name, value in done.initial.items())
    assert any((value != done.weights[name]).any() for name, value in done.initial.items())


@pytest.mark.sampled(2)
def test_progress_adds_up(trainer_setup: tuple[Trainer, Event, Event]) -> None:
    trainer, mine, _ = trainer_setup
    observed: list[int] = []
    trainer.fit(cases.job(mine), observed.append)
    assert sum(observed) == 3 * mine.count


@pytest.mark.sampled(1)
@pytest.mark.parametrize("per_sample", ["hooks", "functorch"])
@pytest.mark.parametrize("name", ["logistic", "mlp", "cnn", "wide_resnet"])
def test_our_engine_equals_opacus(name: str, per_sample: str) -> None:
    """On the same batches and first weights, noise off: the same weights after six steps."""
    pytest.importorskip("opacus")
    spec, shape = cases.MODELS[name]
    mechanism = dp_sgd(noise_multiplier=0.0, clip_norm=0.5, sample_rate=0.25, steps=6)
    job = cases.job(mechanism, model=spec, data=cases.dataset(shape), models=2)
    ours = plugins.build(PACKAGE, {"kind": "dpsgd"}).fit(job, cases.silent).models
    theirs = plugins.build(PACKAGE, {"kind": "opacus", "per_sample": per_sample}).fit(job, cases.silent).models
    np.testing.assert_array_equal(ours.executed.batch_sizes, theirs.executed.batch_sizes)
    for parameter, value in ours.weights.items():
        np.testing.assert_allclose(value, theirs.weights[parameter], rtol=1e-5, atol=1e-5, err_msg=parameter)


MECHANISMS = {
    "sgd": {"kind": "non_private"},
    "federated": {"kind": "federated", "clients": 5, "noise": "central", "noise_multiplier": 1.0, "clip_norm": 0.5},
    "matrix_factorization": {"kind": "matrix_factorization", "noise_multiplier": 1.0, "clip_norm": 0.5},
}
OPTIONS = {"user_function": {"function": "tests.conformance.test_trainers:untrained"}}


def untrained(model: Any, inputs: Any, labels: Any, *, seed: int) -> None:
    """Train nothing."""


def hundredfold(outputs: Tensor, labels: Tensor) -> Tensor:
    return 100 * cross_entropy(outputs, labels, reduction="none")


@dataclass(frozen=True, kw_only=True)
class Silent:
    """A third party's trainer that never heard of losses."""

    def fit(self, job: TrainingJob, progress: Progress) -> Subject:
        raise AssertionError("nothing is trained before the refusal")


def make_training_design(kind: str) -> TrainingDesign:
    """Return the training that a config describes for a trainer, with a loss of the user's own."""
    config = {
        "version": 1,
        "name": "losses",
        "data": {"kind": "digits", "train": 40, "pool": 12, "test": 8},
        "model": {"kind": "mlp", "hidden": [8]},
        "training": {
            "loss": "tests.conformance.test_trainers:hundredfold",
            "optimizer": "sgd",
            "learning_rate": 0.01,
            "sample_rate": 0.25,
            "steps": 4,
        },
        "mechanisms": [
            {
                "name": "m",
                **MECHANISMS.get(kind, {"kind": "dp_sgd", "noise_multiplier": 1.0, "clip_norm": 0.5}),
                "trainer": {"kind": kind, **OPTIONS.get(kind, {})},
            }
        ],
        "games": [{"name": "g", "canaries": "held_out", "count": 12, "scorers": ["loss"], "estimators": ["one_run"]}],
        "accountants": ["rdp"],
    }
    return assemble(parse(yaml.safe_dump(config)).config).design.training_designs[0]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", [*plugins.names(PACKAGE), "tests.conformance.test_trainers:Silent"])
def test_a_trainer_trains_by_the_loss_of_the_config_or_the_config_is_refused(kind: str) -> None:
    if not getattr(plugins.find(PACKAGE, kind), "takes_losses", False):
        with pytest.raises(ConfigError, match=r"does not declare that it takes one .*use trainer dpsgd, matrix_fact.*, sgd"):
            make_training_design(kind)
        return
    training_design = make_training_design(kind)
    job = cases.job(training_design.mechanism, models=2)
    chosen, usual = (
        training_design.trainer.fit(replace(job, loss=loss), cases.silent).models.weights for loss in (training_design.loss, "")
    )
    assert training_design.loss and any((chosen[name] != usual[name]).any() for name in chosen)
