"""`audit.testing.assert_private`: passes what keeps its claim, fails what does not, and says why."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import audit
import audit.testing
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim, Outcome
from audit.mechanism_checks.run import Questions
from audit.testing import assert_private, seconds
from tests.mechanism_checks.controls.additive import LaplaceSum

PAIRS = [([0.0], [1.0])]


def test_a_mechanism_that_keeps_its_claim_passes() -> None:
    assert assert_private(LaplaceSum(1.0), epsilon=1.0, pairs=PAIRS, budget="500ms").exit_code == 0


def test_a_broken_mechanism_fails_with_what_was_proved() -> None:
    with pytest.raises(AssertionError, match=r"violated\. Epsilon is at least (.|\n)* one of 1,000 runs"):
        assert_private(LaplaceSum(0.1), epsilon=1.0, pairs=PAIRS, budget="500ms")


def test_a_test_that_could_not_fail_fails() -> None:
    with pytest.raises(AssertionError, match=r"out of reach(.|\n)*The claim was not tested: raise the budget"):
        assert_private(LaplaceSum(1.0), epsilon=30.0, pairs=PAIRS, budget="100ms")


@pytest.mark.parametrize("false_alarm", [0.05, 1e-3, 1e-6])
def test_refutations_and_drift_share_one_false_alarm(false_alarm: float) -> None:
    claim = Claim(epsilon=1.0, delta=1e-5, adjacency=Adjacency.REPLACE_ONE, source="declared", family="gdp")
    for floating_point, answers in ((False, 3), (True, 4)):
        requested = Questions(claim=claim, confidence=1 - false_alarm, floating_point=floating_point)
        assert 0 < requested.drift_level <= false_alarm / 10
        assert answers * requested.significance + requested.drift_level == pytest.approx(false_alarm)


def test_a_smaller_false_alarm_calls_fewer_functions_dependent() -> None:
    """Outputs that drift a little: seen at the level of an audit, not at one in 10^12."""

    def drifting() -> Any:
        calls = iter(range(10**9))
        return lambda data, rng: rng.normal() + 0.35 * (next(calls) > 2666)

    requested: dict[str, Any] = {"epsilon": 5.0, "pairs": PAIRS, "samples": 2000, "seed": 1}
    assert audit.mechanism(drifting(), **requested, confidence=0.95).verdict.outcome is Outcome.INVALID
    assert audit.mechanism(drifting(), **requested, confidence=1 - 1e-12).verdict.outcome is not Outcome.INVALID


def test_a_fixed_number_of_outputs_repeats_whatever_the_machine_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither pilots nor the clock reach the draws of the audit."""
    first = assert_private(LaplaceSum(1.0), epsilon=1.0, pairs=PAIRS, samples=2000)
    monkeypatch.setattr(audit.testing, "_affordable_samples", lambda *given, **more: pytest.fail("the clock decides nothing"))
    again = assert_private(LaplaceSum(1.0), epsilon=1.0, pairs=PAIRS, samples=2000, budget="1ms")
    assert first.samples == again.samples == 2000 and first.epsilon == again.epsilon and first.delta == again.delta


def test_pilots_have_draws_of_their_own_and_numbers_are_powers_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(0, 0.01)  # every pilot takes 10 ms
    monkeypatch.setattr(audit.testing, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    states: list[str] = []

    def spy(data: Any, rng: np.random.Generator, size: int) -> Any:
        states.append(str(rng.bit_generator.state))
        return LaplaceSum(1.0)(data, rng, size=size)

    report = assert_private(spy, epsilon=1.0, pairs=PAIRS, budget="100ms")
    assert report.samples == 512, "of the 700 that fit"
    assert len(set(states)) == len(states)
    seeds: list[int] = []

    def train(data: Any, seed: int) -> Any:
        seeds.append(seed)
        return ignore(data, seed)

    report = assert_private(train, epsilon=0.5, delta=1e-5, data=points(50, 1), canaries=points(200, 2), budget="100ms")
    assert report.game.runs == 4, "of the 7 that fit"
    assert len(set(seeds)) == len(seeds) == 5


@pytest.mark.parametrize(("budget", "value"), [("60s", 60.0), ("500ms", 0.5), ("1.5 min", 90.0), (3, 3.0)])
def test_budgets(budget: Any, value: float) -> None:
    assert seconds(budget) == value


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": "soon"}, "budget is 'soon'"),
        ({"budget": 0}, "budget is 0"),
        ({"false_alarm": 0.0}, "false_alarm is 0"),
        ({"data": ([], [])}, "data and canaries belong together"),
    ],
)
def test_what_cannot_be_used_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(audit.ConfigError, match=message):
        assert_private(LaplaceSum(1.0), epsilon=1.0, **{"pairs": PAIRS, **options})


def points(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    stream = np.random.default_rng(seed)
    return stream.normal(size=(count, 8)), stream.integers(2, size=count)


class Neighbour:
    """A model that remembers every record: the class of the nearest one."""

    def __init__(self, data: tuple[np.ndarray, np.ndarray]) -> None:
        self.inputs, self.labels = data

    def predict_proba(self, queries: np.ndarray) -> np.ndarray:
        distance = ((queries[:, None] - self.inputs[None]) ** 2).sum(axis=2)
        right = 0.5 + 0.49 * np.exp(-distance.min(axis=1))
        matches = np.arange(2) == self.labels[distance.argmin(axis=1)][:, None]
        return np.where(matches, right[:, None], 1 - right[:, None])


def memorise(data: tuple[np.ndarray, np.ndarray], seed: int) -> Neighbour:
    return Neighbour(data)


def ignore(data: tuple[np.ndarray, np.ndarray], seed: int) -> Any:
    weights = np.random.default_rng(seed).normal(size=8)

    def predict(queries: np.ndarray) -> np.ndarray:  # of a record alone, wherever it stands in a batch
        chance = 1 / (1 + np.exp(-np.asarray(queries) @ weights))
        return np.stack([1 - chance, chance], axis=1)

    return predict


def test_a_training_that_remembers_is_refuted_in_one_run() -> None:
    report = audit.check_training(memorise, points(50, 1), points(400, 2), epsilon=0.5, seed=3)
    assert report.exit_code == 1 and report.bound.epsilon > 0.5 and report.bound.estimator == "one_run"
    with pytest.raises(AssertionError, match="game     400 canaries"):
        assert_private(memorise, epsilon=0.5, delta=1e-5, data=points(50, 1), canaries=points(400, 2), budget="200ms")


class SureNeighbour(Neighbour):
    """The same, and sure of every answer."""

    def predict_proba(self, queries: np.ndarray) -> np.ndarray:
        return np.round(super().predict_proba(queries))


def test_equal_scores_of_a_model_that_is_always_sure_are_ordered_at_random() -> None:
    """Every member and half of the nonmembers score alike; counted against the attack, these ties would leave 0.4."""
    report = audit.check_training(
        lambda data, seed: SureNeighbour(data), points(50, 1), points(200, 2), epsilon=1.0, seed=3, runs=4
    )
    assert len(np.unique(report.scores)) == 2 and report.bound.epsilon > 0.7


def test_a_training_that_ignores_its_data_keeps_any_claim() -> None:
    report = audit.check_training(ignore, points(50, 1), points(200, 2), epsilon=0.5, seed=3, runs=3)
    assert report.exit_code == 0 and report.scores.shape == report.included.shape == (3, 200)


def test_a_single_canary_in_many_runs_is_an_independent_trial_each() -> None:
    canary = (np.full((1, 8), 30.0), np.array([1]))
    report = audit.check_training(memorise, (points(50, 1)[0], np.zeros(50, int)), canary, epsilon=1.0, seed=3, runs=60)
    assert report.bound.estimator == "both_ends" and report.exit_code == 1
    assert report.bound.epsilon <= report.bound.ceiling < math.log(60)


def test_a_score_of_ones_own_serves_any_model() -> None:
    report = audit.check_training(
        memorise,
        points(50, 1),
        points(300, 2),
        epsilon=0.5,
        seed=3,
        score=lambda model, inputs, labels: [float((model.inputs == record).all(axis=1).any()) for record in inputs],
    )
    assert report.exit_code == 1 and report.bound.epsilon > 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"canaries": (np.zeros((3, 8)), np.zeros(2, int))}, "canaries: 3 in part 1, 2 in part 2"),
        ({"canaries": np.zeros((3, 8))}, "score is not given, and canaries is not a pair"),
        ({"data": np.zeros((3, 8))}, "data are ndarray .*expected the same form"),
        ({"references": 2}, "references is 2"),
        ({"score": lambda model, inputs, labels: np.zeros((30, 2))}, "score gives 2 numbers per canary"),
        ({"score": lambda model, inputs, labels: [1.0]}, r"score gave a list of 1 float; expected a number for each of 30"),
        ({"runs": 0}, "runs is 0"),
    ],
)
def test_arguments_of_a_training_are_checked(options: dict[str, Any], message: str) -> None:
    arguments = {"data": points(20, 1), "canaries": points(30, 2), **options}
    with pytest.raises(audit.AuditError, match=message):
        audit.check_training(memorise, arguments.pop("data"), arguments.pop("canaries"), epsilon=1.0, seed=1, **arguments)
