from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

from audit.stats.bounds import betting_claims, sequential
from audit.stats.bounds.betting_claims import MU_STEP, RATES, Hypotheses
from audit.stats.bounds.sequential import LEVELS, SIDES, STAKES
from audit.stats.curves import dp_sgd_curve, tradeoff
from audit.stats.curves.tradeoff import TradeoffCurve

ANY = betting_claims.any_mechanism(1e-5)


def drawn(seed: int, shift: float, trials: int, attacks: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian scores `(attacks, trials)` of members shifted by so much, and who is one."""
    draw = np.random.default_rng(seed)
    included = draw.random(trials) < 0.5
    return draw.normal(size=(attacks, trials)) + shift * included, included


def naive(scores: np.ndarray, included: np.ndarray, curve: TradeoffCurve, chance: float = 0.5) -> list[float]:
    """Wealth over time against one claim, every bettor followed trial by trial with plain floats."""
    wealth: dict[tuple[tuple[float, float], float, float], float] = {}
    path, members, nonmembers = [1.0], [], []
    lines = [betting_claims.supporting_lines(rate) for rate in (curve.tpr, curve.tnr)]
    for score, member in zip(scores.tolist(), included.tolist(), strict=True):
        for level in LEVELS if members and nonmembers else ():
            observed = len(members) + len(nonmembers)
            near = RATES.index(min(RATES, key=lambda rate: abs(math.log(rate / max(level, 2 / (observed + 2))))))
            (s, c), (s_low, c_low) = (line[:, near] for line in lines)
            high = score > sorted(nonmembers)[::-1][min(math.floor(level * len(nonmembers)), len(nonmembers) - 1)]
            low = score < sorted(members)[min(math.floor(level * len(members)), len(members) - 1)]
            z = high * (1 / chance if member else -s / (1 - chance)) - c
            z_low = low * (-s_low / chance if member else 1 / (1 - chance)) - c_low
            for a, b in ((2 * (1 - chance) * on_high, 2 * chance * on_low) for on_high, on_low in SIDES):
                worst = max(a * (s / (1 - chance) + c) + b * c_low, b * (s_low / chance + c_low) + a * c)
                for stake in STAKES:
                    key = ((a, b), level, stake)
                    wealth[key] = wealth.get(key, 1.0) * (1 + stake / worst * (a * z + b * z_low))
        path.append(sum(wealth.values()) / sequential.BETTORS if wealth else 1.0)
        (members if member else nonmembers).append(score)
    return path


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("place", "chance"), [(0, 0.5), (10, 0.5), (30, 0.3)])
def test_wealth_equals_the_plain_game(place: int, chance: float) -> None:
    scores, included = drawn(0, 1.5, 36)
    expected = [naive(scores[0], included, tradeoff.gdp(MU_STEP * claim), chance) for claim in range(place + 1)]
    followed = sequential.follow(betting_claims.gaussian(1e-5), scores, included, chance)
    assert followed.trials == tuple(range(37))
    assert followed.separate[:, 0, place] == pytest.approx(np.log(expected[place]), abs=1e-9)
    assert followed.joint[:, place] == pytest.approx(np.log(np.min(expected, axis=0)), abs=1e-9)
    assert followed.end.best[place] == pytest.approx(float(np.log(np.min(expected, axis=0)).max()), abs=1e-9)


CURVES = [
    *[tradeoff.epsilon_delta(epsilon, delta) for epsilon in (0.0, 1.0, 8.0) for delta in (0.0, 1e-5, 0.1)],
    *[tradeoff.gdp(mu) for mu in (0.0, 0.5, 2.0, 6.0)],
    *[dp_sgd_curve.sgd(noise, 0.2, 50) for noise in (0.6, 1.0, 4.0)],
]


@pytest.mark.parametrize("curve", CURVES)
def test_lines_lie_nowhere_below_the_curve_and_close_to_it_where_they_touch(curve: TradeoffCurve) -> None:
    """A line below the curve anywhere would make a bet that a true claim loses."""
    fpr = np.unique(np.concatenate([[0.0], np.geomspace(1e-12, 1, 5001), np.linspace(0, 1, 5001), RATES]))
    for rate in (curve.tpr, curve.tnr):
        allowed = rate(fpr)
        for (slope, intercept), touched in zip(betting_claims.supporting_lines(rate).T, RATES, strict=True):
            gap = slope * fpr + intercept - allowed
            assert gap.min() >= -1e-12
            assert gap[fpr == touched][0] < 0.008  # a corner of the curve inside a cell of the outline costs the most


@pytest.mark.parametrize("epsilon", [0.0, 0.7, 3.0])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.1])
def test_lines_of_a_pair_are_its_own_two(epsilon: float, delta: float) -> None:
    lines = betting_claims.pairs(np.array([epsilon]), delta).lines[:, :, :, 0]
    fpr = np.unique(np.concatenate([np.linspace(0, 1, 2001), [1 / (1 + math.exp(epsilon))]]))
    allowed = tradeoff.epsilon_delta(epsilon, delta).tpr(fpr)
    for slope, intercept in lines.reshape(2, -1).T:
        gap = slope * fpr + intercept - allowed
        assert gap.min() >= -1e-12 and gap.min() < 1e-9
    steep = lines[0, 0] == math.exp(epsilon)
    assert (steep == (np.array(RATES) <= 1 / (1 + math.exp(epsilon)))).all()


def test_what_is_refuted_at_one_delta_is_refuted_at_all_smaller_ones() -> None:
    """Factors do not grow with delta, outcome by outcome and bettor by bettor."""
    epsilons = np.array([0.0, 0.4, 1.0, 3.0])
    tables = [
        sequential._table(betting_claims.pairs(epsilons, delta), 0.5, tuple(range(len(RATES))))
        for delta in (0.0, 1e-5, 0.01, 0.1)
    ]
    for smaller, larger in itertools.pairwise(tables):
        assert (larger <= smaller + 1e-12).all()


@pytest.mark.parametrize("chance", [0.5, 0.2])
@pytest.mark.parametrize("curve", CURVES)
def test_no_bettor_gains_on_average_from_a_true_claim(curve: TradeoffCurve, chance: float) -> None:
    demand_no_gain(curve, betting_claims.alone(curve, 1.0), chance)


@pytest.mark.parametrize("epsilon", [0.0, 0.7, 3.0])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.1])
def test_no_bettor_gains_on_average_from_a_true_pair(epsilon: float, delta: float) -> None:
    demand_no_gain(tradeoff.epsilon_delta(epsilon, delta), betting_claims.pairs(np.array([epsilon]), delta), 0.5)


def demand_no_gain(curve: TradeoffCurve, against: Hypotheses, chance: float) -> None:
    """Exactly, over the coin and the score, for the leakiest law that the claim allows and any pair of thresholds."""
    table = np.exp(sequential._table(against, chance, tuple(range(len(RATES)))))
    for high, low in [(0.001, 0.9), (0.02, 0.02), (0.3, 0.5), (0.5, 0.1), (0.9, 0.05), (1.0, 0.0), (0.0, 1.0)]:
        cuts = np.sort([0.0, 1.0, high, low])  # false positive rates; the score is high below `high`, low beyond `low`
        middles = (cuts[:-1] + cuts[1:]) / 2
        kinds = 4 * (middles < high) + 2 * (middles > low)
        shares = [np.diff(cuts), np.diff(np.append(0.0, curve.tpr(cuts[1:])))]  # of nonmembers and members in each part
        mean = sum(
            chance_of * share @ np.moveaxis(table[:, :, kinds + member], 2, 0).reshape(3, -1)
            for member, chance_of, share in ((0, 1 - chance, shares[0]), (1, chance, shares[1]))
        )
        assert mean.max() <= 1 + 1e-9
        assert table.min() > 0


@pytest.mark.parametrize(
    ("claims", "limit"),
    [
        (lambda: betting_claims.gaussian(1e-5, (2.0,)), 2.0),
        (lambda: betting_claims.any_mechanism(1e-5, (1.23,)), 1.23),
        pytest.param(lambda: betting_claims.dp_sgd(1.0, 0.2, 50, 1e-5), 3.0, marks=pytest.mark.slow),
    ],
    ids=["gaussian", "any", "dp_sgd"],
)
def test_claims_are_ordered_and_the_one_bet_against_lies_above_the_stated_one(
    claims: Callable[[], Hypotheses], limit: float
) -> None:
    against = claims()
    assert (np.diff(against.epsilons) >= 0).all()
    place = against.against(limit)
    assert place is not None and against.epsilons[place] > limit >= against.epsilons[place - 1]
    assert against.against(1e9) is None
    assert against.epsilons[place] < limit * 1.4
    if len(against.epsilons) > 100:
        assert against.epsilons[place] == pytest.approx(limit, rel=1e-4)


def test_stopping_and_resuming_changes_nothing() -> None:
    scores, included = drawn(1, 1.0, 90, attacks=2)
    straight = sequential.start(ANY, 2)
    for i in range(90):
        straight = sequential.update(straight, scores[:, i : i + 1], included[i : i + 1])
    first = sequential.start(ANY, 2)
    for i in range(40):
        first = sequential.update(first, scores[:, i : i + 1], included[i : i + 1])
    resumed = sequential.Wealth(
        against=first.against,
        chance=first.chance,
        members=first.members.copy(),
        nonmembers=first.nonmembers.copy(),
        log_wealth=first.log_wealth.copy(),
        best=first.best.copy(),
        stakes=first.stakes,
    )
    for i in range(40, 90):
        resumed = sequential.update(resumed, scores[:, i : i + 1], included[i : i + 1])
    assert (resumed.best == straight.best).all() and resumed.trials == 90


def test_a_prefix_of_the_trials_gives_a_prefix_of_the_evidence() -> None:
    """So a bound at the time of stopping does not depend on what would have followed."""
    scores, included = drawn(7, 1.0, 150)
    full = sequential.follow(ANY, scores, included)
    part = sequential.follow(ANY, scores[:, :100], included[:100])
    common = [trials for trials in part.trials if trials in full.trials]
    assert len(common) > 60
    for trials in common:
        assert (full.joint[full.trials.index(trials)] == part.joint[part.trials.index(trials)]).all()


def hypotheses(family: str, truth: float) -> Hypotheses:
    """The claims of a family that are bet against if the truth is so much."""
    return ANY if family == "any" else betting_claims.gaussian(1e-5, (truth,))


def alarms(against: Hypotheses, truth: float, games: int, trials: int, kind: str) -> int:
    """How often a claim at or above the truth is ever refuted, while a user looks after every group of trials."""
    draw, result = np.random.default_rng(2), 0
    mu = tradeoff.gdp_mu(truth, 1e-5) if truth else 0.0
    for _ in range(games):
        included = draw.random(trials) < 0.5
        if kind == "flat":
            right = draw.random(trials) < 1 / (1 + math.exp(-truth))
            scores = np.abs(draw.normal(size=trials)) * np.where(right == included, 1.0, -1.0)
        else:
            scores = draw.normal(size=trials) + mu * included
        followed = sequential.follow(against, scores[None, :], included)
        place = against.against(truth)
        assert place is not None
        result += bool((followed.joint[:, place] >= math.log(1 / 0.05)).any())  # at any time
    return result


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "truth", "kind"),
    [
        ("any", 0.0, "normal"),
        pytest.param("any", 1.0, "flat", marks=pytest.mark.slow),
        pytest.param("gaussian", 2.0, "normal", marks=pytest.mark.slow),
    ],
)
def test_looking_at_every_time_does_not_inflate_the_error(family: str, truth: float, kind: str) -> None:
    assert alarms(hypotheses(family, truth), truth, 60, 120, kind) <= 9  # of 60 at 5 %: more has chance below 1e-3


@pytest.mark.calibration
@pytest.mark.parametrize("trials", [100, 600])
@pytest.mark.parametrize(
    ("family", "truth", "kind"),
    [
        ("any", 0.0, "normal"),
        ("any", 1.0, "flat"),
        ("any", 3.0, "flat"),
        ("gaussian", 1.0, "normal"),
        ("gaussian", 4.0, "normal"),
    ],
)
def test_calibration_at_every_time(family: str, truth: float, kind: str, trials: int) -> None:
    games = 1000
    result = alarms(hypotheses(family, truth), truth, games, trials, kind)
    print(f"{kind}, epsilon {truth:g}, {trials} trials: {result} of {games} true claims refuted at some time")
    assert result <= 0.05 * games + 3 * math.sqrt(0.05 * 0.95 * games)


def epsilon_refuted(wealth: sequential.Wealth, significance: float) -> float:
    """The largest epsilon of the grid that was refuted at some time; 0 if none was."""
    index = sequential.largest_refuted(wealth, significance)
    return 0.0 if index is None else float(wealth.against.epsilons[index])


def test_evidence_only_grows_and_finds_a_leak() -> None:
    scores, included = drawn(3, 2.0, 800)
    wealth, result = sequential.start(ANY), []
    for item in sequential.groups(800):
        wealth = sequential.update(wealth, scores[:, item], included[item])
        result.append(epsilon_refuted(wealth, 0.05))
    assert result == sorted(result)
    top = sequential.perfect(ANY, 800, 0.05)
    assert top is not None
    assert 1.5 < result[-1] <= ANY.epsilons[top]


def test_a_family_shows_more_than_a_pair_of_epsilon_and_delta() -> None:
    scores, included = drawn(4, 1.0, 600)
    plain, inside, noise = (
        epsilon_refuted(sequential.follow(item, scores, included).end, 0.05)
        for item in (ANY, betting_claims.gaussian(1e-5), betting_claims.dp_sgd(2.0, 1.0, 4, 1e-5))
    )
    assert plain + 1 < inside < 4.3772
    assert inside - 0.4 < noise < 4.3772


def test_groups_cover_all_pairs_once() -> None:
    covered = [i for item in sequential.groups(333) for i in range(item.start, item.stop)]
    assert covered == list(range(333))


@pytest.mark.parametrize(("scores", "included"), [((1, 2), 3), ((2, 2), 2), ((1, 0), 1)])
def test_scores_that_do_not_fit_memberships_are_refused(scores: tuple[int, int], included: int) -> None:
    with pytest.raises(ValueError, match="each of 1 attack"):
        sequential.update(sequential.start(ANY), np.ones(scores), np.ones(included, dtype=bool))


def test_an_average_over_attacks_is_the_plain_average_of_their_wealth() -> None:
    scores, included = drawn(5, 1.0, 24, attacks=2)
    joint = sequential.follow(ANY, scores, included)
    apart = [sequential.follow(ANY, scores[i : i + 1], included) for i in range(2)]
    for i, item in enumerate(apart):
        assert joint.separate[:, i] == pytest.approx(item.separate[:, 0])
    average = np.log(np.mean([np.exp(item.separate[:, 0]) for item in apart], axis=0))
    assert joint.joint == pytest.approx(np.minimum.accumulate(average, axis=1))
    assert joint.end.best == pytest.approx(joint.joint.max(axis=0))


def test_attacks_that_gave_no_scores_have_lost_their_stakes() -> None:
    """The others' wealth is never above that of the game in which the lost ones bet on, whatever made them fail."""
    scores, included = drawn(5, 1.0, 60, attacks=3)
    planned = sequential.follow(ANY, scores, included)
    for retained in ([0], [0, 2], [1, 2]):
        fewer = sequential.follow(ANY, scores[retained], included, stakes=3)
        assert (fewer.joint <= planned.joint + 1e-9).all() and (fewer.end.best <= planned.end.best + 1e-9).all()
    assert sequential.follow(ANY, scores[:1], included, stakes=3).joint == pytest.approx(
        sequential.follow(ANY, scores[:1], included).joint - math.log(3)
    )
    with pytest.raises(ValueError, match="stakes"):
        sequential.start(ANY, attacks=3, stakes=2)


@pytest.mark.slow
def test_one_good_attack_among_bad_ones_is_enough_and_ten_bad_ones_prove_nothing() -> None:
    scores, included = drawn(6, 0.0, 360, attacks=5)
    scores[2] += 3.0 * included
    assert epsilon_refuted(sequential.follow(ANY, scores, included).end, 0.05) > 1.0
    nothing = [sequential.follow(ANY, *drawn(100 + seed, 0.0, 100, attacks=10)) for seed in range(10)]
    assert sum(sequential.largest_refuted(item.end, 0.05) is not None for item in nothing) <= 3


def test_trials_without_order_or_with_infinite_scores_are_played_on() -> None:
    included = np.arange(40) % 2 == 0
    equal = sequential.follow(ANY, np.zeros((1, 40)), included)
    assert sequential.largest_refuted(equal.end, 0.05) is None and np.isfinite(equal.joint).all()
    endless = sequential.follow(ANY, np.where(included, np.inf, -np.inf)[None, :], included)
    assert epsilon_refuted(endless.end, 0.05) > 0.5 and np.isfinite(endless.joint).all()
