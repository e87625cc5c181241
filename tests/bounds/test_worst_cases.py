"""How often each estimator for any mechanism is wrong at worst: by enumeration and linear programs, not by drawing.

A bound is wrong if it is above the truth. Its law is known exactly for small games: all outcomes are listed, the bound of
each is computed once, and the truths that are just below one of these bounds are the worst. Canaries in copies are judged the
same way, through the search that an audit uses.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize, sparse, special, stats

from audit import plugins
from audit.bounds import group_privacy
from audit.bounds.estimators.both_ends import BothEnds
from audit.bounds.estimators.clopper_pearson import ClopperPearson
from audit.bounds.estimators.one_run import OneRun
from audit.bounds.estimators.product_channel import ProductChannel
from audit.bounds.estimators.rank_exact import RankExact
from audit.bounds.estimators.sequential import Sequential
from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.errors import ConfigError, DataError, UnsupportedMechanism
from audit.core.game import Game, Inclusion
from audit.core.protocols import Estimator
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.stats.bounds import betting_claims, guess_split, one_run_all_counts, sequential
from audit.stats.bounds.one_run_all_counts import Walk
from audit.stats.curves.tradeoff import GroupPairs
from tests.marks import slow_rows

CONFIDENCE = 0.95
LEVEL = 1 - CONFIDENCE
JUST_BELOW = 1e-9


def rate_of(epsilon: float) -> float:
    return 1 / (1 + math.exp(-epsilon))


# ----------------------------------------------------------------------------- one run, delta 0: randomised response is worst


def one_run_bounds(counts: tuple[int, ...], pairs: GroupPairs) -> dict[tuple[int, ...], float]:
    """The bound on one record for all numbers of right guesses among the guesses that each count adds."""
    steps = np.diff([0, *counts])
    result = {}
    for gains in itertools.product(*(range(step + 1) for step in steps)):
        walk = Walk(guesses=np.array(counts), correct=np.cumsum(gains), coins=counts[-1], delta=0.0)
        result[gains] = one_run_all_counts.bound_along(walk, pairs, LEVEL)
    return result


def worst_error(bounds: dict[tuple[int, ...], float], steps: np.ndarray, copies: int) -> tuple[float, float]:
    """The largest chance of a bound above the truth over all truths, and that truth, under randomised response."""
    gains, values = np.array(list(bounds)), np.array(list(bounds.values()))
    worst, at = 0.0, 0.0
    for value in np.unique(values[values > 0]):
        truth = value - JUST_BELOW
        chances = stats.binom.pmf(gains, steps, rate_of(copies * truth)).prod(axis=1)
        wrong = float(chances[values > truth].sum())
        worst, at = max((worst, at), (wrong, truth))
    return worst, at


SMALL_GAMES = [
    ((4, 10, 20), 2),
    ((3, 7), 3),
]
LARGER_GAMES = [
    (tuple(guess_split.guess_numbers(20, guess_split.SHARES).tolist()), 1),
    ((4, 12, 24), 2),
    (tuple(guess_split.guess_numbers(20, guess_split.SHARES).tolist()), 2),
    (tuple(guess_split.guess_numbers(28, guess_split.SHARES).tolist()), 2),
]


def check_one_run(counts: tuple[int, ...], copies: int) -> None:
    bounds = one_run_bounds(counts, GroupPairs(delta=0.0, copies=copies))
    worst, truth = worst_error(bounds, np.diff([0, *counts]), copies)
    assert 0.02 < worst <= LEVEL, (counts, copies, worst, truth)


@pytest.mark.parametrize(("counts", "copies"), SMALL_GAMES)
def test_one_run_is_wrong_in_five_per_cent_at_most_with_and_without_copies(counts: tuple[int, ...], copies: int) -> None:
    check_one_run(counts, copies)


@pytest.mark.slow
@pytest.mark.parametrize(("counts", "copies"), LARGER_GAMES)
def test_one_run_is_wrong_in_five_per_cent_at_most_in_larger_games(counts: tuple[int, ...], copies: int) -> None:
    check_one_run(counts, copies)


@pytest.mark.slow
def test_a_search_that_takes_the_tests_for_monotone_is_caught() -> None:
    """Bisecting over single epsilons, as if what is refuted were one interval, is wrong in more than five per cent."""
    counts, copies = (4, 10, 20), 2

    def bisected(correct: np.ndarray) -> float:
        walk = Walk(guesses=np.array(counts), correct=correct, coins=20, delta=0.0)
        grid = np.arange(0.0, 0.5, 0.005)
        refuted = np.array([one_run_all_counts.refutes(walk, copies * epsilon, LEVEL) for epsilon in grid])
        return float(grid[refuted].max(initial=0.0))

    steps = np.diff([0, *counts])
    gains = itertools.product(*(range(step + 1) for step in steps))
    likely = [each for each in gains if 8 <= sum(each) <= 18]  # others prove nothing
    bounds = {each: bisected(np.cumsum(each)) for each in likely}
    worst, _ = worst_error(bounds, steps, copies)
    assert worst > 0.055


# ------------------------------------------------------------------ one run, delta > 0: the worst of all releases


def worst_release(wrong: np.ndarray, coins: int, epsilon: float, delta: float) -> float:
    """The largest chance of the patterns of right guesses marked in `wrong` `(2^coins,)`, for any (epsilon, delta)-DP release.

    Averaged over flips and orders of the coins, a release is a law p of patterns, and (epsilon, delta)-DP in each coin says
    that the sum over patterns a and coins k of `[p(a) - e^epsilon p(a with k flipped)]_+` is at most `coins delta`.
    """
    size = 2**coins
    patterns = np.arange(size)
    pairs = [(a, a ^ (1 << k)) for k in range(coins) for a in patterns]
    rows = np.arange(len(pairs))
    first, second = np.array(pairs).T
    slack = size + rows
    excess = sparse.coo_matrix(
        (
            np.concatenate([np.ones(len(pairs)), -math.exp(epsilon) * np.ones(len(pairs)), -np.ones(len(pairs))]),
            (np.concatenate([rows, rows, rows]), np.concatenate([first, second, slack])),
        ),
        shape=(len(pairs), size + len(pairs)),
    )
    budget = sparse.coo_matrix(np.concatenate([np.zeros(size), np.ones(len(pairs))])[None])
    total = sparse.coo_matrix(np.concatenate([np.ones(size), np.zeros(len(pairs))])[None])
    solved = optimize.linprog(
        -np.concatenate([wrong.astype(float), np.zeros(len(pairs))]),
        A_ub=sparse.vstack([excess, budget]).tocsr(),
        b_ub=np.concatenate([np.zeros(len(pairs)), [coins * delta]]),
        A_eq=total.tocsr(),
        b_eq=[1.0],
        method="highs",
    )
    assert solved.status == 0
    return float(-solved.fun)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("calibration", ["joint", "each"])
@pytest.mark.parametrize(("delta", "copies"), [(1e-3, 1), (4e-3, 1), (1e-3, 2), (3e-4, 3)])
def test_one_run_is_right_for_the_worst_release_with_delta(calibration: str, delta: float, copies: int) -> None:
    coins, counts = 8, np.array([2, 4, 8])
    estimator, pairs = OneRun(calibration=calibration), GroupPairs(delta=delta, copies=copies)
    patterns = (np.arange(2**coins)[:, None] >> np.arange(coins)) & 1
    right = np.stack([patterns[:, :count].sum(axis=1) for count in counts], axis=1)
    kinds, which = np.unique(right, axis=0, return_inverse=True)
    result = np.array([estimator._search(pairs, counts, item, coins, LEVEL)[0] for item in kinds])[which.ravel()]
    proved = np.unique(result[result > 0])
    assert len(proved)
    for value in proved:
        truth = float(value) - JUST_BELOW
        assert worst_release(result > truth, coins, *pairs(truth)) <= LEVEL + 1e-7, truth


# ----------------------------------------------------------------------- independent trials: all orders of a few scores


def law_of_orders(count: int, epsilon: float, delta: float) -> np.ndarray:
    """`(2^count,)` chances of the memberships by falling score, for the mechanism of which all others are a post-processing.

    It gives a record away with chance delta, else answers by randomised response; four values, ties broken at random. Coins are
    fair, so values are i.i.d., and given its value a record is a member with its own chance.
    """
    rate = rate_of(epsilon)
    member = np.array([delta, (1 - delta) * rate, (1 - delta) * (1 - rate), 0.0])
    nonmember = member[::-1]
    chance = (member + nonmember) / 2
    posterior = np.divide(member, member + nonmember, out=np.zeros(4), where=chance > 0)
    patterns = ((np.arange(2**count)[:, None] >> np.arange(count)) & 1).astype(bool)
    total = np.zeros(2**count)
    for cuts in itertools.combinations_with_replacement(range(count + 1), 3):
        sizes = np.diff([0, *cuts, count])
        if any(size and not mass for size, mass in zip(sizes, chance, strict=True)):
            continue
        log_mass = special.gammaln(count + 1) - special.gammaln(sizes + 1).sum() + special.xlogy(sizes, chance).sum()
        at = np.repeat(posterior, sizes)
        total += math.exp(log_mass) * np.where(patterns, at, 1 - at).prod(axis=1)
    return total


def trials(pattern: np.ndarray, copies: int) -> Scores:
    game = Game(
        adjacency=Adjacency.ADD_REMOVE,
        access=Access.FINAL_MODEL,
        inclusion=Inclusion.COINS,
        canaries=1,
        runs=len(pattern),
        copies=copies,
    )
    return Scores(values=-np.arange(float(len(pattern))), included=pattern, game=game)


@functools.lru_cache(maxsize=64)
def bounds_of_orders(estimator: Estimator, count: int, delta: float, copies: int) -> np.ndarray:
    """`(2^count,)` bounds on one record; 0 if one side is empty, which no estimator takes."""
    result = np.zeros(2**count)
    for index in range(1, 2**count - 1):
        pattern = ((index >> np.arange(count)) & 1).astype(bool)
        bound: Callable[..., object] = (
            estimator.lower_bound if copies == 1 else functools.partial(group_privacy.bound, estimator)
        )
        result[index] = bound(trials(pattern, copies), delta=delta, confidence=CONFIDENCE, seed=Seed(0)).epsilon  # type: ignore[attr-defined]
    return result


TRIAL_ESTIMATORS: tuple[Estimator, ...] = (
    BothEnds(),
    RankExact(),
    ClopperPearson(threshold_by="fixed", threshold=-4.5),
    ClopperPearson(),
    ProductChannel(family="any", guess_fractions=(1.0,)),
    OneRun(),
)


@pytest.mark.slow
@pytest.mark.parametrize(("delta", "copies"), slow_rows([(0.0, 1), (1e-2, 1), (1e-2, 2)], [(1e-2, 1), (1e-2, 2)]))
@pytest.mark.parametrize(
    "estimator", TRIAL_ESTIMATORS, ids=lambda item: f"{type(item).__name__}-{getattr(item, 'threshold_by', '')}"
)
def test_bounds_of_independent_trials_are_right_for_the_worst_mechanism(
    estimator: Estimator, delta: float, copies: int
) -> None:
    count, pairs = 8, GroupPairs(delta=delta, copies=copies)
    result = bounds_of_orders(estimator, count, delta, copies)
    values = np.unique(result[result > 0])
    assert len(values) or delta > 0 or isinstance(estimator, ClopperPearson)
    for value in values:
        truth = float(value) - JUST_BELOW
        wrong = float(law_of_orders(count, *pairs(truth))[result > truth].sum())
        assert wrong <= LEVEL + 1e-9, (truth, wrong)


@pytest.mark.parametrize("estimator", [ClopperPearson(threshold_by="split"), Sequential()], ids=["split", "sequential"])
def test_rows_decide_which_scores_are_used_how_and_ranks_do_not(estimator: Estimator) -> None:
    """A choice by ranks is the same for all orders of the rows; at some sizes it once was wrong in three of four audits."""
    draw, proofs = np.random.default_rng(8), set()
    included = np.arange(60) < 30
    values = draw.normal(size=60) + 2 * included
    for _ in range(6):
        rows = np.concatenate([draw.permutation(30), 30 + draw.permutation(30)])
        scores = Scores(values=values[rows], included=included, game=Game.of_scores("independent_trials", 60))
        proofs.add(estimator.lower_bound(scores, delta=0.0, confidence=CONFIDENCE, seed=Seed(0)).epsilon)
    assert len(proofs) > 1


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-2])
def test_a_threshold_chosen_on_half_of_the_trials_is_right_for_the_worst_mechanism(delta: float) -> None:
    """Which half it is depends on the order of rows: all orders of memberships, each with rows in several random orders."""
    count, estimator, rows = 9, ClopperPearson(threshold_by="split"), np.random.default_rng(1)
    result = np.zeros((8, 2**count))
    for order, index in itertools.product(range(len(result)), range(1, 2**count - 1)):
        ranked = trials(((index >> np.arange(count)) & 1).astype(bool), 1)
        shuffled = rows.permutation(count)
        mixed = replace(ranked, values=ranked.values[shuffled], included=ranked.included[shuffled])
        result[order, index] = estimator.lower_bound(mixed, delta=delta, confidence=CONFIDENCE, seed=Seed(0)).epsilon
    for value in np.unique(result[result > 0]):
        truth = float(value) - JUST_BELOW
        assert float(law_of_orders(count, truth, delta) @ (result > truth).mean(axis=0)) <= LEVEL, truth


@pytest.mark.parametrize("delta", [0.0, 1e-2])
@pytest.mark.parametrize("sizes", [(4, 4), (5, 3), (2, 6)])
def test_bets_on_blocks_gain_nothing_on_average_in_a_fixed_order_of_memberships(delta: float, sizes: tuple[int, int]) -> None:
    """All answers of randomised response, at the exact claim: the mean wealth of every bettor, and of all orders."""
    epsilon, (count, trials) = 1.0, (sizes[0], sum(sizes))
    against = betting_claims.pairs(np.array([epsilon]), delta)
    rate = rate_of(epsilon)
    mean, finished = np.zeros(sequential.BETTORS), 0.0
    for answers in itertools.product((0.0, 1.0), repeat=trials):
        members, nonmembers = np.array(answers[:count]), np.array(answers[count:])
        right = int(members.sum() + (1 - nonmembers).sum())
        chance = rate**right * (1 - rate) ** (trials - right)
        wealth = sequential._follow_sides(against, members[None], nonmembers[None]).end
        mean += chance * np.exp(wealth.log_wealth[0, :, 0]) * sequential.BETTORS
        finished += chance * math.exp(sequential.finished_wealth(against, members[None], nonmembers[None], 0.9)[0, 0])
    assert mean.max() <= 1 + 1e-9
    assert 0.5 < finished <= 1 + 1e-9
    assert mean.max() > 0.9, "and some bettors lose little"
    assert mean.min() < 0.99, "and bets were made"


def test_every_estimator_for_any_mechanism_has_its_worst_case_here() -> None:
    """A new one for members and nonmembers fails this until it is listed, by exact laws or by the program over channels."""
    listed = {type(estimator).__module__.rsplit(".", maxsplit=1)[-1] for estimator in TRIAL_ESTIMATORS} | {"sequential"}
    drawn = replace(trials(np.arange(12) % 2 == 0, 1), mechanism=None)
    free = set()
    for name in plugins.names("audit.bounds.estimators"):
        for options in ({}, {"family": "any"}):
            try:
                estimator = plugins.build("audit.bounds.estimators", {"kind": name, **options})
                bound = estimator.lower_bound(drawn, delta=1e-2, confidence=CONFIDENCE, seed=Seed(0))
            except (ConfigError, UnsupportedMechanism, DataError):  # no such option; a mechanism or its own game
                continue
            free |= {name} if bound.family is None else set()
    assert free == listed


def test_laws_of_orders_are_laws() -> None:
    for epsilon, delta in ((0.0, 0.0), (1.0, 0.0), (2.0, 0.1), (0.5, 1.0)):
        chances = law_of_orders(6, epsilon, delta)
        assert chances.sum() == pytest.approx(1.0) and (chances >= 0).all()
    assert law_of_orders(5, 0.0, 0.0) == pytest.approx(np.full(32, 1 / 32))


# ------------------------------------------------------------------------------------------- bets: the best of all channels


def best_growth(gains: np.ndarray, epsilon: float, delta: float, chance: float) -> float:
    """The largest mean of what a trial multiplies a bettor's wealth by, over all (epsilon, delta) channels.

    Args:
        gains: `(8,)` factor of each outcome: 4 if the score is high, 2 if low, 1 if a member.
    """
    grow, size = math.exp(epsilon), 4  # outcomes of a score; then member and nonmember laws, then positive parts
    weights = np.concatenate([chance * gains[1::2], (1 - chance) * gains[0::2], np.zeros(2 * size)])
    eye, zero = np.eye(size), np.zeros((size, size))
    parts = np.block([[eye, -grow * eye, -eye, zero], [-grow * eye, eye, zero, -eye]])
    sums = np.block([[np.zeros(2 * size), np.ones(size), np.zeros(size)], [np.zeros(3 * size), np.ones(size)]])
    laws = np.block([[np.ones(size), np.zeros(3 * size)], [np.zeros(size), np.ones(size), np.zeros(2 * size)]])
    solved = optimize.linprog(
        -weights, A_ub=np.vstack([parts, sums]), b_ub=[*np.zeros(2 * size), delta, delta], A_eq=laws, b_eq=[1.0, 1.0]
    )
    assert solved.status == 0
    return float(-solved.fun)


def claims_of(pairs: GroupPairs) -> Iterable[tuple[betting_claims.Hypotheses, int, float, float]]:
    against = betting_claims.along(pairs)
    for place in (0, 7, 40):
        epsilon, delta = pairs(float(against.epsilons[place]))
        yield (
            replace(against, lines=against.lines[..., [place]], epsilons=np.zeros(1), parameters=np.zeros(1)),
            place,
            epsilon,
            delta,
        )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("pairs", [GroupPairs(delta=1e-2), GroupPairs(delta=1e-2, copies=2)], ids=["alone", "two copies"])
@pytest.mark.parametrize("chance", [0.5, 0.1])
def test_no_bettor_gains_on_average_from_a_true_claim(pairs: GroupPairs, chance: float) -> None:
    for against, place, epsilon, delta in claims_of(pairs):
        table = sequential._table(against, chance, tuple(range(len(betting_claims.RATES))))
        gains = np.exp(table).transpose(0, 1, 3, 2).reshape(-1, sequential.OUTCOMES)
        for each in gains[::3]:
            assert best_growth(each, epsilon, delta, chance) <= 1 + 1e-9, (place, epsilon)


def test_evidence_along_copies_has_no_gaps() -> None:
    """A weaker pair is refuted only if all stronger ones are: the bound is the end of an interval from 0."""
    pairs = GroupPairs(delta=1e-2, copies=2)
    against, draw = betting_claims.along(pairs), np.random.default_rng(0)
    for _ in range(5):
        coins = draw.random(120) < 0.5
        followed = sequential.follow(against, (draw.normal(size=120) + 3 * coins)[None], coins)
        refuted = followed.end.best >= -math.log(LEVEL)
        assert not (np.diff(refuted.astype(int)) > 0).any()


# ------------------------------------------------------------------------------------------------------------------ copies


def test_a_threshold_chosen_for_one_delta_is_refused_for_copies() -> None:
    drawn = trials(np.arange(40) % 2 == 0, copies=2)
    with pytest.raises(ConfigError, match="split"):
        group_privacy.bound(ClopperPearson(threshold_by="split"), drawn, delta=1e-5, confidence=CONFIDENCE, seed=Seed(0))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "estimator",
    [
        pytest.param(estimator, marks=pytest.mark.slow) if isinstance(estimator, BothEnds) else estimator
        for estimator in TRIAL_ESTIMATORS
    ],
    ids=lambda estimator: f"{type(estimator).__name__}-{getattr(estimator, 'threshold_by', '')}",
)
def test_bounds_never_rise_with_delta(estimator: Estimator) -> None:
    draw = np.random.default_rng(3)
    for _ in range(3):
        included = draw.random(100) < 0.5
        drawn = replace(trials(included, 1), values=draw.normal(size=100) + 2 * included)
        result = [
            estimator.lower_bound(drawn, delta=delta, confidence=CONFIDENCE, seed=Seed(0)).epsilon
            for delta in (0.0, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
        ]
        assert (np.diff(result) <= 0).all(), result
