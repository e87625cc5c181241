"""What every audit shares: the split error budget, the negative control, curves no finer than the data."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from audit import plugins
from audit.bounds import budget, control
from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.errors import AssumptionError, DataError
from audit.core.game import Assumption, Game, Inclusion
from audit.core.lower_bounds import LowerBound
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.experiment.games import records
from audit.experiment.games.hypothesis import ClaimLimits
from audit.experiment.games.records import new_key
from audit.experiment.line import findings
from audit.stats.bounds import roc


def game(canaries: int, **changes: object) -> Game:
    rules = {
        "adjacency": Adjacency.ADD_REMOVE,
        "access": Access.FINAL_MODEL,
        "inclusion": Inclusion.COINS,
        "canaries": canaries,
    }
    return Game(**{**rules, **changes})  # type: ignore[arg-type]


def drawn(count: int, shift: float, seed: int = 0) -> Scores:
    generator = np.random.default_rng(seed)
    included = generator.random(count) < 0.5
    return Scores(values=generator.normal(size=count) + shift * included, included=included, game=game(count), attack="drawn")


def test_the_budget_holds_together() -> None:
    assert budget.share(0.95, 1) == pytest.approx(0.95)
    assert (1 - budget.share(0.95, 7)) * 7 == pytest.approx(0.05)


def test_an_estimator_that_assumes_too_much_is_stopped() -> None:
    with pytest.raises(AssumptionError, match="independent_trials"):
        budget.bounds(
            drawn(50, 1.0),
            [plugins.build("audit.bounds.estimators", {"kind": "gaussian"})],
            delta=1e-5,
            confidence=0.95,
            seed=Seed(0),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsound:
    """Claims something of every score table: what the negative control is there for."""

    assumes: frozenset[Assumption] = frozenset()

    def lower_bound(self, scores: Scores, *, delta: float, confidence: float, seed: Seed) -> LowerBound:
        return LowerBound(
            epsilon=0.1, delta=delta, confidence=confidence, estimator="unsound", comparisons=1, ceiling=9.0, assumes=()
        )


def test_the_control_catches_an_unsound_estimator_and_passes_a_sound_one() -> None:
    scores = drawn(200, 3.0)
    sound = [plugins.build("audit.bounds.estimators", {"kind": "one_run"})]
    assert control.negative_control(scores, sound, delta=1e-5, confidence=0.99, seed=Seed(1)).passed
    caught = control.negative_control(scores, [Unsound()], delta=1e-5, confidence=0.99, seed=Seed(1))
    assert not caught.passed
    assert caught.false_alarms == caught.repetitions


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.8])
def test_the_control_draws_its_coins_at_the_rate_of_the_game(rate: float) -> None:
    plain = drawn(400, 1.0)
    game = replace(plain.game, inclusion_probability=rate, inclusion=Inclusion.COINS)
    scores = replace(plain, game=game, included=np.arange(400) < 400 * rate)
    shares = [float(control.fresh_coins(scores, Seed(repetition)).mean()) for repetition in range(20)]
    assert np.mean(shares) == pytest.approx(rate, abs=5 * math.sqrt(rate * (1 - rate) / 8000))
    assert len(set(shares)) > 1, "coins, not a permutation"


def test_the_control_allows_what_chance_brings() -> None:
    assert control._allowed_alarms(20, 0.0) == 0
    generator = np.random.default_rng(3)
    allowed = control._allowed_alarms(20, 0.05)
    assert np.mean(generator.binomial(20, 0.05, size=200_000) > allowed) <= 1.2e-3
    assert np.mean(generator.binomial(20, 0.05, size=200_000) > allowed - 1) > 1e-3


def test_no_rate_below_the_resolution() -> None:
    result = findings.attack_result(drawn(300, 2.0), confidence=0.95)
    by_target = {point.target_fpr: point for point in result.tpr_at}
    assert by_target[0.001].tpr is None
    point = by_target[0.1]
    assert point.realised_fpr is not None and point.tpr is not None and point.lower is not None and point.upper is not None
    assert point.realised_fpr <= 0.1
    assert point.lower <= point.tpr <= point.upper
    assert point.false_positives == round(point.realised_fpr * result.roc.nonmembers)
    assert result.auc_lower <= result.auc <= result.auc_upper


@pytest.mark.slow
def test_curves_are_thin_and_keep_their_ends() -> None:
    result = findings.attack_result(drawn(30_000, 1.0), confidence=0.95).roc
    assert len(result.fpr) <= findings.CURVE_POINTS + 1
    assert result.fpr[-1] == result.tpr[-1] == 1.0
    assert all(a < b for a, b in zip(result.fpr, result.fpr[1:], strict=False))
    assert all(low <= rate <= high for low, rate, high in zip(result.lower, result.tpr, result.upper, strict=True))


def test_ties_are_not_leakage() -> None:
    scores = drawn(400, 0.0)
    tied = Scores(values=np.zeros(400), included=scores.included, game=scores.game)
    result = findings.attack_result(tied, confidence=0.95)
    assert result.auc == pytest.approx(0.5)
    point = next(point for point in result.tpr_at if point.target_fpr == 0.1)
    assert point.tpr is not None and 0.02 < point.tpr < 0.25


def test_what_a_claim_allows_stands_beside_what_was_found() -> None:
    claim = Claim(epsilon=1.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE, source="test")
    result = findings.attack_result(drawn(300, 2.0), confidence=0.95, claim_limits=ClaimLimits(claim=claim))
    assert result.tpr_at[1].allowed == pytest.approx(np.exp(1.0) * 0.01 + 1e-5)


def test_exposed_records_are_the_highest_scores_under_names_that_hide_the_row() -> None:
    scores = drawn(100, 2.0)
    key = new_key()
    names = key.names(range(100))
    assert len(set(names)) == 100 and names != new_key().names(range(100))
    assert key.rows([names[7], "nobody"], 100) == {names[7]: 7}
    assert key.text.decode() not in repr(key)
    result = records.exposures(scores, names, ["a"] * 100, count=5)
    assert [row.record for row in result] == [names[i] for i in np.argsort(-scores.values)[:5]]
    assert [row.rank for row in result] == [1, 2, 3, 4, 5]
    assert result[0].fpr == np.mean(scores.nonmembers >= result[0].score)


def test_groups_with_one_side_have_no_auc() -> None:
    scores = drawn(60, 5.0)
    groups = ["even" if i % 2 == 0 else "odd" for i in range(59)] + ["alone"]
    result = {row.group: row for row in records.group_results(scores, groups, 0.9, np.ones(60, bool))}
    assert result["alone"].auc is None and result["alone"].accuracy == 1.0
    assert result["even"].auc is not None and result["even"].auc > 0.9


def test_intervals_of_groups_pay_for_their_number() -> None:
    scores = drawn(400, 1.0)
    (alone,) = records.group_results(scores, ["all"] * 400, 0.95)
    among = next(item for item in records.group_results(scores, ["all"] * 398 + ["a", "b"], 0.95) if item.group == "all")
    assert alone.auc_lower is not None and alone.auc is not None and among.auc_lower is not None and among.auc is not None
    assert 0.5 < alone.auc_lower < alone.auc
    low, high = roc.auc_interval(
        scores.values[:398][scores.included[:398]], scores.values[:398][~scores.included[:398]], 1 - 0.05 / 3
    )
    assert (among.auc_lower, among.auc_upper) == (low, high)


def test_an_attack_with_one_side_only_is_refused_in_words() -> None:
    for included in (np.ones(4, dtype=bool), np.zeros(4, dtype=bool)):
        one_sided = replace(drawn(4, 0.0), included=included)
        with pytest.raises(DataError, match="nonmember scores; it needs at least one of each"):
            findings.attack_result(one_sided, confidence=0.95)


def test_the_control_allows_the_false_alarms_of_all_its_estimators() -> None:
    estimators = [plugins.build("audit.bounds.estimators", {"kind": "one_run"})] * 4
    result = control.negative_control(drawn(300, 0.0), estimators, delta=1e-5, confidence=0.95, seed=Seed(4))
    assert result.allowed == control.make_control(0, 0.2).allowed > control.make_control(0, 0.05).allowed
