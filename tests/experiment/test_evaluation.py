"""Leave-one-out figures on models with a leakage that is known by construction."""

from __future__ import annotations

from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest

from attacks.scorers._figures import Loss
from attacks.scorers.lira import Lira
from audit.core.data import Array
from audit.core.errors import ConfigError, DataError
from audit.core.evaluation import Fidelity
from audit.core.seeds import Seed
from audit.core.views import View
from audit.experiment.describe import leave_one_out
from audit.experiment.describe.resemblance import Resemblance
from audit.stats.scoring import signals

SEED = Seed(3)


def models(count: int = 9, records: int = 2000, shift: Array | float = 1.0, seed: int = 0) -> View:
    """Confidences N(shift * member, 1), given as losses."""
    random = np.random.default_rng(seed)
    included = random.random((count, records)) < 0.5
    confidence = shift * included + random.standard_normal((count, records))
    return View.of(included=included, losses=np.logaddexp(0.0, -confidence))


def test_every_model_is_the_target_once_and_its_own_coins_stay_hidden() -> None:
    everyone = models()
    result = leave_one_out.leave_one_out(Lira(), everyone, None, SEED)
    assert result.values.shape == everyone.included.shape
    for item in (0, 4):
        remainder = np.delete(np.arange(9), item)
        by_hand = Lira().score(
            View.of(losses=everyone["losses"][item]),
            View.of(included=everyone.included[remainder], losses=everyone["losses"][remainder]),
            SEED,
        )
        np.testing.assert_array_equal(result.values[item], by_hand)
    other_coins = everyone.included.copy()
    other_coins[4] = ~other_coins[4]
    again = leave_one_out.leave_one_out(
        Lira(), View.of(included=other_coins, losses=everyone["losses"]), None, SEED, targets=[4]
    )
    np.testing.assert_array_equal(again.values[0], result.values[4])


def test_spreads_find_the_known_auc() -> None:
    result = leave_one_out.leave_one_out(Loss(), models(), None, SEED)
    actual = {item.figure: item for item in leave_one_out.spreads(result, fprs=(0.01, 1e-5))}
    best = NormalDist().cdf(1 / 2**0.5)
    assert actual["auc"].mean == pytest.approx(best, abs=0.01)
    assert actual["auc"].lowest < actual["auc"].mean < actual["auc"].highest
    assert 0 < actual["auc"].std < 0.03
    assert actual["tpr at fpr 0.01"].mean == pytest.approx(NormalDist().cdf(1 - 2.326), abs=0.03)
    assert "tpr at fpr 1e-05" not in actual  # cannot be resolved by 1000 non-members


def test_tpr_is_the_last_point_at_or_under_the_rate() -> None:
    values = np.array([5.0, 4.0, 4.0, 3.0, 2.0, 1.0])
    included = np.array([True, True, False, True, False, False])
    assert leave_one_out.tpr_at(values[included], values[~included], 0.3) == 1 / 3  # the tie at 4 costs a false positive of 1/3
    assert leave_one_out.tpr_at(values[included], values[~included], 0.34) == 1.0


def test_exposure_finds_the_same_records_again() -> None:
    shift = np.where(np.arange(2000) < 100, 6.0, 0.0)
    result = leave_one_out.leave_one_out(Loss(), models(shift=shift), None, SEED)
    actual = leave_one_out.exposure(result, at_fpr=0.01)
    assert np.nanmean(actual.found[:100]) > 0.95
    assert np.nanmean(actual.found[100:]) < 0.03
    assert np.mean(leave_one_out.worst_records(actual, 90) < 100) > 0.95
    assert actual.reproducibility > 0.7
    assert actual.chance < 0.1
    nothing = leave_one_out.exposure(leave_one_out.leave_one_out(Loss(), models(shift=0.0), None, SEED), at_fpr=0.05)
    assert nothing.reproducibility == pytest.approx(nothing.chance, abs=0.01)


def test_groups() -> None:
    groups = np.repeat(["safe", "exposed"], 1000)
    result = leave_one_out.leave_one_out(Loss(), models(shift=np.where(groups == "safe", 0.0, 3.0)), None, SEED)
    actual = leave_one_out.by_group(result, groups)
    assert actual["safe"].mean == pytest.approx(0.5, abs=0.02)
    assert actual["exposed"].mean == pytest.approx(NormalDist().cdf(3 / 2**0.5), abs=0.01)


def test_units_are_judged_by_all_their_records_at_once() -> None:
    """250 units of 8 records: means of about four records a side, each N(1 * member, 1)."""
    users = np.random.default_rng(5).permutation(np.repeat(np.arange(250), 8)).astype(str)
    result = leave_one_out.leave_one_out(Loss(), models(), None, SEED, targets=[0, 3, 7])
    units, figures = leave_one_out.by_unit(result, users, fprs=(0.1, 0.001))
    retained = [user for user in np.unique(users) if all(0 < c[users == user].sum() < 8 for c in result.included)]
    assert 230 < units == len(retained) < 250
    assert [item.figure for item in figures] == ["auc", "tpr at fpr 0.1"]  # 1 in 1000 is not resolved by 250 units
    by_hand = []
    for values, coins in zip(result.values, result.included, strict=True):
        inside = [np.mean([values[i] for i in np.flatnonzero((users == user) & coins)]) for user in retained]
        outside = [np.mean([values[i] for i in np.flatnonzero((users == user) & ~coins)]) for user in retained]
        by_hand.append(np.mean([[(x > y) + 0.5 * (x == y) for y in outside] for x in inside]))
    assert figures[0].mean == pytest.approx(np.mean(by_hand))
    (single, *_) = leave_one_out.spreads(result)
    assert figures[0].mean > single.mean + 0.08  # several records say more than one
    assert leave_one_out.by_unit(result, np.arange(2000)) == (0, ())


def test_calibrated_thresholds_realise_their_rate() -> None:
    result = leave_one_out.leave_one_out(Loss(), models(shift=2.0), None, SEED)
    actual = leave_one_out.calibrate(result, 0.05, prior=0.1)
    assert actual.realised_fpr == pytest.approx(0.05, abs=0.01)
    assert actual.tpr == pytest.approx(NormalDist().cdf(2 - 1.645), abs=0.02)
    assert actual.precision == pytest.approx(actual.tpr * 0.1 / (actual.tpr * 0.1 + actual.realised_fpr * 0.9))
    with pytest.raises(DataError, match="threshold"):
        leave_one_out.calibrate(result, 1e-6, prior=0.1)
    with pytest.raises(ConfigError, match="prior"):
        leave_one_out.calibrate(result, 0.1, prior=1.0)
    assert leave_one_out.precision(0.0, 0.0, 0.5) is None


def views(scale: float) -> tuple[View, Array, View]:
    random = np.random.default_rng(1)
    labels = random.integers(0, 3, 600)
    included = random.random((7, 600)) < 0.5
    logits = random.standard_normal((7, 600, 3)) + (1 + included)[..., None] * np.eye(3)[labels]
    logits[0] *= scale
    return View.of(labels=labels, logits=logits[0]), included[0], View.of(included=included[1:], logits=logits[1:])


def fidelity(target: View, coins: Array, references: View) -> Fidelity:
    return Resemblance(references, target.labels).of(target, coins)


def test_fidelity_tells_when_references_are_of_another_kind() -> None:
    same = fidelity(*views(1.0))
    assert same.matches
    assert same.target_accuracy[0] == pytest.approx(same.reference_accuracy[0], abs=0.06)
    peer = fidelity(*views(4.0))
    assert not peer.matches
    assert peer.distance > peer.typical
    assert "speaks of the attack, not of the model" in peer.sentence
    target, coins, references = views(1.0)
    with pytest.raises(DataError, match="fidelity"):
        fidelity(View.of(labels=target.labels), coins, references)


def naive_distance(losses: Array, coins: Array, item: int, peers: Array) -> float:
    """The largest gap between two distributions, looked for at every loss of either."""
    gaps = []
    for side in (coins, ~coins):
        mine, theirs = losses[item][side[item]], losses[peers][side[peers]]
        gaps += [abs((mine <= x).mean() - (theirs <= x).mean()) for x in np.concatenate([mine, theirs])]
    return float(max(gaps))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("decimals", [1, 8], ids=["ties", "no ties"])
def test_fidelity_equals_a_naive_comparison(decimals: int) -> None:
    target, coins, references = views(1.3)
    rounded = replace(references, signals={"logits": np.round(references["logits"], decimals)})
    deployed = replace(target, signals={"logits": np.round(target["logits"], decimals)})
    observed = fidelity(deployed, coins, rounded)
    losses = signals.cross_entropy(np.concatenate([deployed["logits"][None], rounded["logits"]]), target.labels)
    sides = np.concatenate([coins[None], references.included])
    pool = np.arange(1, 7)
    assert observed.distance == pytest.approx(naive_distance(losses, sides, 0, pool), abs=1e-12)
    typical = max(naive_distance(losses, sides, int(item), np.delete(pool, item - 1)) for item in pool)
    assert observed.typical == pytest.approx(typical, abs=1e-12)


def test_fidelity_of_many_runs_sorts_the_references_once(monkeypatch: pytest.MonkeyPatch) -> None:
    target, coins, references = views(1.0)
    sorted_numbers = 0
    honest = np.sort

    def counting(values: Array) -> Array:
        nonlocal sorted_numbers
        sorted_numbers += values.size
        return honest(values)

    monkeypatch.setattr("audit.experiment.describe.resemblance.np.sort", counting)
    resemblance = Resemblance(references, target.labels)
    for _ in range(20):
        resemblance.of(target, coins)
    assert (
        sorted_numbers == (6 + 20) * 600
    )  # each reference, each run, beside the pool in its own place: nothing times anything


def test_one_model_is_not_enough() -> None:
    with pytest.raises(ConfigError, match="at least 2"):
        leave_one_out.leave_one_out(Loss(), models(count=1), None, SEED)
