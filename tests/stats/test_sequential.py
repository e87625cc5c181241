from __future__ import annotations

import math

import numpy as np
import pytest

from audit.stats import curves, sequential, sgd_curve, tradeoff
from audit.stats.curves import Curve
from audit.stats.sequential import LEVELS, RATES, STAKES, Hypotheses

ANY = sequential.any_mechanism(1e-5)


def single(scores: np.ndarray) -> np.ndarray:
    """Scores of one attack."""
    return scores[None, :]


def naive(members: np.ndarray, nonmembers: np.ndarray, curve: Curve) -> list[float]:
    """Wealth over time against one claim, every bettor followed pair by pair with plain floats."""
    wealth: dict[tuple[int, float, float], float] = {}
    path, seen_m, seen_n = [1.0], [], []
    lines = {direction: sequential.supporting_lines(rate) for direction, rate in enumerate((curve.tpr, curve.tnr))}
    for x, y in zip(members, nonmembers, strict=True):
        for direction in (0, 1) if seen_m else ():
            past = sorted(seen_n) if direction == 0 else sorted(-m for m in seen_m)
            hit_score, alarm_score = (x, y) if direction == 0 else (-y, -x)
            for level in LEVELS:
                cut = past[len(past) - 1 - min(math.floor(level * len(past)), len(past) - 1)]
                near = min(RATES, key=lambda rate: abs(math.log(rate / max(level, 1 / (len(past) + 1)))))
                slope, intercept = lines[direction][:, RATES.index(near)]
                z = (hit_score > cut) - slope * (alarm_score > cut) - intercept
                for stake in STAKES:
                    key = (direction, level, stake)
                    wealth[key] = wealth.get(key, 1.0) * (1 + stake / (slope + intercept) * z)
        path.append(sum(wealth.values()) / sequential.BETTORS if wealth else 1.0)
        seen_m.append(x)
        seen_n.append(y)
    return path


@pytest.mark.parametrize("place", [0, 10, 40])
def test_wealth_equals_the_plain_game(place: int) -> None:
    draw = np.random.default_rng(0)
    members, nonmembers = draw.normal(1.5, 1, 20), draw.normal(0, 1, 20)
    expected = [naive(members, nonmembers, curves.epsilon_delta(0.05 * claim, 1e-5)) for claim in range(place + 1)]
    followed = sequential.follow(ANY, single(members), single(nonmembers))
    assert followed.pairs == tuple(range(21))
    assert followed.each[:, 0, place] == pytest.approx(np.log(expected[place]), abs=1e-9)
    assert followed.joint[:, place] == pytest.approx(np.log(np.min(expected, axis=0)), abs=1e-9)
    assert followed.end.best[place] == pytest.approx(float(np.log(np.min(expected, axis=0)).max()), abs=1e-9)


CURVES = [
    *[curves.epsilon_delta(epsilon, delta) for epsilon in (0.0, 1.0, 8.0) for delta in (0.0, 1e-5, 0.1)],
    *[curves.gdp(mu) for mu in (0.0, 0.5, 2.0, 6.0)],
    *[sgd_curve.sgd(noise, 0.2, 50) for noise in (0.6, 1.0, 4.0)],
]


@pytest.mark.parametrize("curve", CURVES)
def test_lines_lie_nowhere_below_the_curve_and_close_to_it_where_they_touch(curve: Curve) -> None:
    """A line below the curve anywhere would make a bet that a true claim loses."""
    fpr = np.unique(np.concatenate([[0.0], np.geomspace(1e-12, 1, 5001), np.linspace(0, 1, 5001), RATES]))
    for rate in (curve.tpr, curve.tnr):
        allowed = rate(fpr)
        for (slope, intercept), touched in zip(sequential.supporting_lines(rate).T, RATES, strict=True):
            gap = slope * fpr + intercept - allowed
            assert gap.min() >= -1e-12
            assert gap[fpr == touched][0] < 0.008  # a corner of the curve inside a cell of the outline costs the most


@pytest.mark.parametrize(
    ("against", "limit"),
    [
        (sequential.gaussian(1e-5, (2.0,)), 2.0),
        (sequential.any_mechanism(1e-5, (1.23,)), 1.23),
        (sequential.dp_sgd(1.0, 0.2, 50, 1e-5), 3.0),
    ],
)
def test_claims_are_ordered_and_the_one_bet_against_lies_above_the_stated_one(against: Hypotheses, limit: float) -> None:
    assert (np.diff(against.epsilons) >= 0).all()
    place = against.against(limit)
    assert place is not None and against.epsilons[place] > limit >= against.epsilons[place - 1]
    assert against.against(1e9) is None
    assert against.epsilons[place] < limit * 1.4
    if len(against.epsilons) > 100:
        assert against.epsilons[place] == pytest.approx(limit, rel=1e-4)


def test_stopping_and_resuming_changes_nothing() -> None:
    draw = np.random.default_rng(1)
    members, nonmembers = draw.normal(1, 1, (2, 60)), draw.normal(0, 1, (2, 60))
    straight = sequential.start(ANY, 2)
    for i in range(60):
        straight = sequential.update(straight, members[:, i : i + 1], nonmembers[:, i : i + 1])
    first = sequential.start(ANY, 2)
    for i in range(25):
        first = sequential.update(first, members[:, i : i + 1], nonmembers[:, i : i + 1])
    resumed = sequential.Wealth(
        against=first.against,
        members=first.members.copy(),
        nonmembers=first.nonmembers.copy(),
        log_wealth=first.log_wealth.copy(),
        best=first.best.copy(),
    )
    for i in range(25, 60):
        resumed = sequential.update(resumed, members[:, i : i + 1], nonmembers[:, i : i + 1])
    assert (resumed.best == straight.best).all()


def test_a_prefix_of_the_pairs_gives_a_prefix_of_the_evidence() -> None:
    """So a bound at the time of stopping does not depend on what would have followed."""
    draw = np.random.default_rng(7)
    members, nonmembers = draw.normal(1, 1, (1, 90)), draw.normal(0, 1, (1, 90))
    whole = sequential.follow(ANY, members, nonmembers)
    part = sequential.follow(ANY, members[:, :50], nonmembers[:, :50])
    common = [pairs for pairs in part.pairs if pairs in whole.pairs]
    assert len(common) > 30
    for pairs in common:
        assert (whole.joint[whole.pairs.index(pairs)] == part.joint[part.pairs.index(pairs)]).all()


def alarms(against: Hypotheses, truth: float, trials: int, pairs: int, kind: str) -> int:
    """How often a claim at or above the truth is ever refuted, while somebody looks after every group of pairs."""
    draw, found = np.random.default_rng(2), 0
    for _ in range(trials):
        if kind == "flat":
            right = draw.random((2, pairs)) < 1 / (1 + math.exp(-truth))
            size = np.abs(draw.normal(size=(2, pairs)))
            members, nonmembers = np.where(right[0], size[0], -size[0]), np.where(right[1], -size[1], size[1])
        else:
            members, nonmembers = (
                draw.normal(tradeoff.mu_of_gdp(truth, 1e-5) if truth else 0.0, 1, pairs),
                draw.normal(size=pairs),
            )
        followed = sequential.follow(against, single(members), single(nonmembers))
        place = against.against(truth)
        assert place is not None
        found += bool((followed.joint[:, place] >= math.log(1 / 0.05)).any())  # at any time at all
    return found


@pytest.mark.parametrize(
    ("against", "truth", "kind"),
    [(ANY, 0.0, "normal"), (ANY, 1.0, "flat"), (sequential.gaussian(1e-5, (2.0,)), 2.0, "normal")],
)
def test_looking_at_every_time_does_not_inflate_the_error(against: Hypotheses, truth: float, kind: str) -> None:
    assert alarms(against, truth, 60, 60, kind) <= 9  # of 60 at 5 %: more has chance below 1e-3


@pytest.mark.calibration
@pytest.mark.parametrize("pairs", [50, 300])
@pytest.mark.parametrize(
    ("against", "truth", "kind"),
    [
        (ANY, 0.0, "normal"),
        (ANY, 1.0, "flat"),
        (ANY, 3.0, "flat"),
        (sequential.gaussian(1e-5, (1.0,)), 1.0, "normal"),
        (sequential.gaussian(1e-5, (4.0,)), 4.0, "normal"),
    ],
)
def test_calibration_at_every_time(against: Hypotheses, truth: float, kind: str, pairs: int) -> None:
    trials = 1000
    assert alarms(against, truth, trials, pairs, kind) <= 0.05 * trials + 3 * math.sqrt(0.05 * 0.95 * trials)


def test_evidence_only_grows_and_finds_a_leak() -> None:
    draw = np.random.default_rng(3)
    wealth, found = sequential.start(ANY), []
    for one in sequential.groups(400):
        size = one.stop - one.start
        wealth = sequential.update(wealth, draw.normal(2, 1, (1, size)), draw.normal(0, 1, (1, size)))
        found.append(sequential.epsilon_refuted(wealth, 0.05))
    assert found == sorted(found)
    top = sequential.perfect(ANY, 400, 0.05)
    assert top is not None
    assert 1.5 < found[-1] <= ANY.epsilons[top]


def test_a_family_shows_more_than_a_pair_of_epsilon_and_delta() -> None:
    draw = np.random.default_rng(4)
    members, nonmembers = draw.normal(1, 1, (1, 300)), draw.normal(0, 1, (1, 300))
    plain, inside, noise = (
        sequential.epsilon_refuted(sequential.follow(one, members, nonmembers).end, 0.05)
        for one in (ANY, sequential.gaussian(1e-5), sequential.dp_sgd(2.0, 1.0, 4, 1e-5))
    )
    assert plain + 1 < inside < 4.3772
    assert inside - 0.4 < noise < 4.3772


def test_groups_cover_all_pairs_once() -> None:
    covered = [i for one in sequential.groups(333) for i in range(one.start, one.stop)]
    assert covered == list(range(333))


@pytest.mark.parametrize(("members", "nonmembers"), [((1, 2), (1, 3)), ((2, 2), (2, 2)), ((1, 2), (2, 2))])
def test_unequal_sides_are_refused(members: tuple[int, int], nonmembers: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="pairs of 1 attack"):
        sequential.update(sequential.start(ANY), np.ones(members), np.ones(nonmembers))


def test_an_average_over_attacks_is_the_plain_average_of_their_wealth() -> None:
    draw = np.random.default_rng(5)
    members, nonmembers = draw.normal(1, 1, (2, 12)), draw.normal(0, 1, (2, 12))
    joint = sequential.follow(ANY, members, nonmembers)
    apart = [sequential.follow(ANY, members[i : i + 1], nonmembers[i : i + 1]) for i in range(2)]
    for i, one in enumerate(apart):
        assert joint.each[:, i] == pytest.approx(one.each[:, 0])
    average = np.log(np.mean([np.exp(one.each[:, 0]) for one in apart], axis=0))
    assert joint.joint == pytest.approx(np.minimum.accumulate(average, axis=1))
    assert joint.end.best == pytest.approx(joint.joint.max(axis=0))


def test_one_good_attack_among_bad_ones_is_enough_and_ten_bad_ones_prove_nothing() -> None:
    draw, found = np.random.default_rng(6), 0
    members, nonmembers = draw.normal(size=(5, 180)), draw.normal(size=(5, 180))
    members[2] += 3.0
    assert sequential.epsilon_refuted(sequential.follow(ANY, members, nonmembers).end, 0.05) > 1.0
    for seed in range(10):
        stream = np.random.default_rng(seed)
        nothing = sequential.follow(ANY, stream.normal(size=(10, 50)), stream.normal(size=(10, 50)))
        found += sequential.refuted(nothing.end, 0.05) is not None
    assert found <= 3
