"""Verdicts: each outcome, which bound may refute which claim, and what execution checks catch."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from audit.accounting.accountants.pld import PLUGIN as PldAccountant
from audit.bounds.estimators.fdp_rank import FdpRank
from audit.bounds.estimators.gaussian import Gaussian
from audit.bounds.estimators.one_run_fdp import OneRunFdp
from audit.bounds.estimators.product_channel import ProductChannel
from audit.bounds.estimators.sequential import Sequential
from audit.checks.execution import check_executed
from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim, Detectable, Outcome
from audit.core.events import Repeated, dp_sgd
from audit.core.evidence import Evidence, Watched
from audit.core.game import Game, Inclusion
from audit.core.game_results import GameResult
from audit.core.lower_bounds import LowerBound
from audit.core.results import Check, Status
from audit.core.seeds import Seed
from audit.core.training import Executed
from audit.core.views import Scores
from audit.experiment.line import judge
from audit.stats.curves import tradeoff

CLAIM = Claim(epsilon=2.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE, source="test")


def bound(epsilon: float, ceiling: float = 5.0, family: str | None = None) -> LowerBound:
    return LowerBound(
        epsilon=epsilon,
        delta=1e-5,
        confidence=0.99,
        estimator="test",
        comparisons=1,
        ceiling=ceiling,
        assumes=(),
        family=family,
    )


@pytest.mark.parametrize(
    ("bounds", "trusted", "executed", "outcome"),
    [
        ([bound(2.5)], True, True, Outcome.VIOLATED),
        ([bound(2.0)], True, True, Outcome.CONSISTENT),
        ([bound(1.5, ceiling=1.9)], True, True, Outcome.OUT_OF_REACH),
        ([bound(1.5, ceiling=2.0)], True, True, Outcome.OUT_OF_REACH),
        ([bound(2.5)], False, True, Outcome.INVALID),
        ([bound(1.0)], True, False, Outcome.INVALID),
        ([bound(2.5)], True, False, Outcome.VIOLATED),
        ([bound(9.0, 99.0, family="gdp")], True, True, Outcome.OUT_OF_REACH),
        ([bound(9.0, 99.0, family="gdp"), bound(1.0)], True, True, Outcome.CONSISTENT),
        ([], True, True, Outcome.OUT_OF_REACH),
    ],
)
def test_each_outcome(bounds: list[LowerBound], trusted: bool, executed: bool, outcome: Outcome) -> None:
    assert judge.judge(CLAIM, bounds, evidence_valid=trusted, execution_valid=executed).outcome is outcome


def test_where_no_bound_was_computed_no_figure_is_given_for_it() -> None:
    for bounds in ([], [bound(9.0, 99.0, family="gdp")]):
        reason = judge.judge(CLAIM, bounds, evidence_valid=True, execution_valid=True).reason
        assert not any(letter.isdigit() for letter in reason) and "perfect" not in reason


def test_a_family_bound_refutes_only_a_claim_of_that_family() -> None:
    same = replace(CLAIM, family="dp_sgd")
    assert judge.judge(same, [bound(3.0, 99.0, "dp_sgd")], evidence_valid=True).outcome is Outcome.VIOLATED
    assert judge.judge(same, [bound(3.0, 99.0, "gdp")], evidence_valid=True).outcome is Outcome.OUT_OF_REACH


@pytest.mark.slow
def test_without_sampling_dp_sgd_and_a_gaussian_are_one_curve() -> None:
    draw = np.random.default_rng(0)
    included = np.arange(400) < 200
    mechanism = dp_sgd(noise_multiplier=4.0, clip_norm=1.0, sample_rate=1.0, steps=4)
    game = Game(adjacency=Adjacency.ADD_REMOVE, access=Access.ALL_STEPS, inclusion=Inclusion.COINS, canaries=1, runs=400)
    values = draw.normal(size=400) + 3 * included
    scores = Scores(values=values, included=included, game=game, mechanism=mechanism)
    requested = {"delta": 1e-5, "confidence": 0.95, "seed": Seed(0)}
    stated = (PldAccountant().claim(mechanism, delta=1e-5, adjacency=Adjacency.ADD_REMOVE), replace(CLAIM, family="gdp"))
    for estimator in (
        Gaussian(),
        FdpRank(statistic="auc"),
        Sequential(family="dp_sgd"),
        ProductChannel(family="dp_sgd"),
        OneRunFdp(family="dp_sgd"),
    ):
        result = estimator.lower_bound(scores, **requested)
        assert result.family == "gdp" and result.parameter is not None and 1 < result.parameter < 3, estimator
        assert result.epsilon == pytest.approx(tradeoff.gdp_epsilon(result.parameter, 1e-5), rel=0.02), estimator
        for claim in stated:
            assert judge.judge(claim, [result], evidence_valid=True).outcome is Outcome.VIOLATED
    sampled = dp_sgd(noise_multiplier=4.0, clip_norm=1.0, sample_rate=0.5, steps=4)
    result = FdpRank().lower_bound(replace(scores, mechanism=sampled), **requested)
    assert result.family == "dp_sgd" and not replace(CLAIM, family="gdp").can_be_refuted_by(result)


IN_FAMILY = replace(bound(8.6, 99.0, "dp_sgd"), parameter=0.4123, estimator="fdp_rank")


def test_a_refuted_curve_is_named_and_its_epsilon_is_never_stated_without_the_family() -> None:
    result = judge.judge(replace(CLAIM, family="dp_sgd"), [IN_FAMILY, bound(0.4)], evidence_valid=True)
    assert result.outcome is Outcome.VIOLATED
    assert (
        "refutes the claimed curve of DP-SGD" in result.reason and "effective noise multiplier at most 0.413" in result.reason
    )
    assert "inside the family 'dp_sgd', and only there" in result.reason and "proves epsilon" not in result.reason


def test_a_run_outside_of_the_family_gets_no_epsilon_from_it() -> None:
    result = judge.judge(
        replace(CLAIM, family="dp_sgd"), [IN_FAMILY, bound(0.4)], evidence_valid=True, execution_valid=False, inside=False
    )
    assert result.outcome is Outcome.INVALID and result.bound is not None and result.bound.family is None
    assert "do not fit the claimed curve of DP-SGD" in result.reason and "8.6" not in result.reason


def test_a_run_outside_of_the_families_keeps_no_figure_of_theirs() -> None:
    rules = Game(adjacency=Adjacency.ADD_REMOVE, access=Access.FINAL_MODEL, inclusion=Inclusion.COINS, canaries=1, runs=8)

    def bets(family: str | None) -> Evidence:
        return Evidence(
            estimator="sequential",
            family=family,
            claim=CLAIM,
            models=(0, 8),
            log_evidence=(0.0, 9.0),
            threshold=3.0,
            proved=8 if family else None,
            stakes=(),
        )

    def caught(family: str | None) -> Detectable:
        return Detectable(estimator="test", family=family, claim=0.0, epsilon=1.0, power=0.8, draws=50)

    both = (bound(1.0), bound(9.0, 99.0, "gdp"))
    watched = Watched(planned=8, used=8, looks=8, bounds=both, evidence=(bets(None), bets("gdp")))
    game = GameResult(name="one", game=rules, attacks=(), detectable=(caught(None), caught("dp_sgd")), watched=watched)
    free = game.for_any_mechanism()
    assert free.watched is not None and free.watched.proved is None and game.watched is not None and game.watched.proved == 8
    figures = [*free.bounds, *free.watched.evidence, *free.detectable]
    assert len(figures) == 3 and all(figure.family is None for figure in figures)


def test_a_bound_for_any_mechanism_decides_before_a_larger_one_inside_a_family() -> None:
    result = judge.judge(replace(CLAIM, family="dp_sgd"), [IN_FAMILY, bound(2.5)], evidence_valid=True)
    assert result.bound is not None and result.bound.family is None and "proves epsilon of at least 2.50" in result.reason


def test_only_noise_of_another_size_leaves_a_run_inside_its_family() -> None:
    def row(code: str, status: Status) -> Check:
        return Check(code=code, item=code, value="", status=status)

    assert not judge.outside_families([row("steps", Status.CHECKED), row("noise", Status.FAILED), row("finite", Status.GAP)])
    for code in ("steps", "sampling", "sampling-law", "clipping", "clipping-recomputed"):
        assert judge.outside_families([row(code, Status.FAILED)])


def test_a_bound_at_another_delta_decides_nothing() -> None:
    assert judge.judge(CLAIM, [replace(bound(4.0), delta=1e-6)], evidence_valid=True).outcome is Outcome.OUT_OF_REACH


def test_the_tightest_claim_decides_unless_one_is_refuted() -> None:
    loose = replace(CLAIM, epsilon=4.9)
    tight = judge.judge(CLAIM, [bound(1.0, 4.0)], evidence_valid=True)
    far = judge.judge(loose, [bound(1.0, 4.0)], evidence_valid=True)
    assert far.outcome is Outcome.OUT_OF_REACH
    assert judge.conclude_mechanism([far, tight]) is Outcome.CONSISTENT
    assert judge.conclude_mechanism([]) is None


@pytest.mark.parametrize(
    ("outcome", "met", "code"),
    [
        (Outcome.CONSISTENT, True, 0),
        (None, True, 0),
        (Outcome.VIOLATED, True, 1),
        (Outcome.CONSISTENT, False, 1),
        (Outcome.OUT_OF_REACH, True, 3),
        (Outcome.INVALID, True, 3),
        (Outcome.OUT_OF_REACH, False, 1),
    ],
)
def test_exit_codes(outcome: Outcome | None, met: bool, code: int) -> None:
    assert judge.exit_code(outcome, met) == code


MECHANISM = dp_sgd(noise_multiplier=1.5, clip_norm=2.0, sample_rate=0.1, steps=200)
FULL_BATCHES = dp_sgd(noise_multiplier=1.5, clip_norm=2.0, sample_rate=1.0, steps=200)


def executed(seed: int = 0, models: int = 4) -> Executed:
    generator = np.random.default_rng(seed)
    draws = 200 * 5000
    return Executed(
        steps=200,
        batch_sizes=generator.binomial(1000, 0.1, size=(models, 200)),
        population=np.full(models, 1000),
        noise_multiplier=1.5 + generator.normal(size=models) * 1.5 / math.sqrt(2 * draws),
        noise_draws=draws,
        largest_norm=np.ones(models),
        skipped=np.zeros(models, int),
    )


def failed(change: dict[str, object], mechanism: Repeated = MECHANISM) -> set[str]:
    checks = check_executed(mechanism, replace(executed(), **change))
    return {check.code for check in checks if check.status is Status.FAILED}


def test_an_honest_run_passes_every_check() -> None:
    for seed in range(30):
        assert all(check.status is Status.CHECKED for check in check_executed(MECHANISM, executed(seed)))


def test_every_departure_is_caught() -> None:
    assert failed({"steps": 201}) == {"steps"}
    assert failed({"noise_multiplier": np.full(4, 1.5 / 2.0)}) == {"noise"}
    assert failed({"noise_multiplier": np.array([1.5, 1.5, 1.5, 1.47])}) == {"noise"}
    assert failed({"largest_norm": np.array([1.0, 1.0, 1.01, 1.0])}) == {"clipping"}
    assert failed({"batch_sizes": np.full((4, 200), 100)}) == {"sampling-law"}
    assert "sampling" in failed({"batch_sizes": np.random.default_rng(0).binomial(1000, 0.11, size=(4, 200))})
    assert failed({"batch_sizes": np.full((4, 200), 999)}, FULL_BATCHES) == {"sampling"}
    assert failed({"batch_sizes": np.full((4, 200), 1000)}, FULL_BATCHES) == set()
