"""Betting against privacy claims while models finish: evidence that may be looked at after every run.

A claim allows a threshold test at most the true positive rate `g(fpr)`, and so at most any line that is nowhere below g. Each
bettor stakes against one such line at one threshold; their joint wealth is an e-process. The argument is in
docs/theory/anytime.md, section "Sequential".
"""

import functools
import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from audit.stats.arrays import Array
from audit.stats.bounds.betting_claims import RATES, Hypotheses
from audit.stats.bounds.ranks import Memberships

LEVELS = (0.0, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5)  # shares of the past beyond which a threshold is set
STAKES = (0.1, 0.3, 0.6, 0.95)  # shares of the largest stake that cannot go bankrupt
SIDES = ((1.0, 1.0), (1.0, 0.0), (0.0, 1.0))  # who bets on high scores being members, on low ones being nonmembers
BETTORS = len(SIDES) * len(LEVELS) * len(STAKES)
Part = tuple[float, Array, Memberships]  # the chance of a coin, scores `(attacks, k)` and which of them are members
UNEVEN = 3  # scores of the smaller side in a block that has one more of the other: larger blocks bet later, smaller ones less
ORDERS, MOST_SCORES = 8, 200_000  # of finished scores' rows, fixed by the sizes; so many scores and more have one
TARGET = 5.0  # times the wealth that refutes: bets in one of several orders end there
OUTCOMES = 8  # of a trial: 4 if its score is high, 2 if it is low, 1 if it is a member


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Wealth:
    """All that has to be kept to go on later; plain arrays, so that it can be stored.

    Attributes:
        chance: with which each trial's coin makes it a member.
        members, nonmembers: `(attacks, seen)` scores seen so far, ascending.
        log_wealth: `(attacks, bettors, claims)` of each bettor; those of one attack began with equal shares of 1.
        best: `(claims,)` largest joint wealth so far, as `joint` has it.
        stakes: among how many attacks the fortune was divided; one that gives no scores has lost its share.
    """

    against: Hypotheses
    chance: float
    members: Array
    nonmembers: Array
    log_wealth: Array
    best: Array
    stakes: int

    @property
    def trials(self) -> int:
        return int(self.members.shape[1] + self.nonmembers.shape[1])

    @property
    def separate(self) -> Array:
        """`(attacks, claims)` logarithm of the wealth that each attack's bettors have now."""
        return _log_sum(self.log_wealth)


def joint(log_wealth: Array, stakes: int) -> Array:
    """`(..., claims)` logarithm of the attacks' wealth `(..., attacks, claims)` over the stakes, the least of stronger claims.

    Stronger claims are false if a weaker one is, so the least is evidence against the weakest of them.
    """
    return np.asarray(np.minimum.accumulate(_log_sum(log_wealth) - math.log(stakes), axis=-1))


def start(against: Hypotheses, attacks: int = 1, chance: float = 0.5, stakes: int | None = None) -> Wealth:
    """Return the wealth before any observation, one per attack; `stakes` as in `Wealth`, one for each attack unless given.
    Raises `ValueError` for fewer stakes than attacks.
    """
    claims, count = len(against.epsilons), attacks if stakes is None else stakes
    if count < attacks:
        raise ValueError(f"{attacks} attacks bet from {count} stakes; each needs its own")
    return Wealth(
        against=against,
        chance=chance,
        members=np.empty((attacks, 0)),
        nonmembers=np.empty((attacks, 0)),
        log_wealth=np.full((attacks, BETTORS, claims), -math.log(BETTORS)),
        best=np.full(claims, math.log(attacks / count)),
        stakes=count,
    )


def update(wealth: Wealth, scores: Array, included: Memberships) -> Wealth:
    """The state after further trials, every attack's scores of the same ones; `ValueError` for scores that are not one row for
    each attack.

    Thresholds come from earlier trials only. A call is one bet: pass trials in small groups so that thresholds can follow.
    Nothing is bet before a member and a nonmember have been seen. An average of processes that are supermartingales with
    respect to the same past is one, so many attacks cost the logarithm of their number at most, and none has to be chosen.

    Args:
        scores: `(attacks, k)`.
        included: `(k,)` which of them are members.
    """
    return _update(wealth, scores, included)[0]


def _update(wealth: Wealth, scores: Array, included: Memberships) -> tuple[Wealth, Array, Array]:
    """The state after further trials, with its `log_sums` and their `joint`."""
    attacks = len(wealth.members)
    if scores.shape != (attacks, len(included)):
        raise ValueError(
            f"scores are {scores.shape} for {len(included)} memberships; expected a row for each of {attacks} attack(s)"
        )
    log_wealth = wealth.log_wealth
    if wealth.members.size and wealth.nonmembers.size:
        table = _table(wealth.against, wealth.chance, _lines(wealth.trials))
        outcomes = _outcomes(wealth.members, wealth.nonmembers, (scores, included))
        log_wealth = log_wealth + (outcomes[:, None, :, None, :] @ table).reshape(log_wealth.shape)
    log_sums = _log_sum(log_wealth)
    joint_wealth = joint(log_sums, wealth.stakes)
    after = Wealth(
        against=wealth.against,
        chance=wealth.chance,
        members=np.sort(np.concatenate([wealth.members, scores[:, included]], axis=1), axis=1),
        nonmembers=np.sort(np.concatenate([wealth.nonmembers, scores[:, ~included]], axis=1), axis=1),
        log_wealth=log_wealth,
        best=np.maximum(wealth.best, joint_wealth),
        stakes=wealth.stakes,
    )
    return after, log_sums, joint_wealth


def _log_sum(logs: Array) -> Array:
    """Logarithm of the sum over the last axis but one."""
    top = logs.max(axis=-2)
    return np.asarray(top + np.log(np.exp(logs - top[..., None, :]).sum(axis=-2)))


def _outcomes(members: Array, nonmembers: Array, new: tuple[Array, Memberships]) -> Array:
    """`(attacks, levels, OUTCOMES)` how many new trials had each outcome, with thresholds from the scores seen before."""
    scores, included = new[0][:, None], new[1]
    high, low = (
        ascending[:, np.minimum(np.floor(np.array(LEVELS) * ascending.shape[1]), ascending.shape[1] - 1).astype(np.int64), None]
        for ascending in (nonmembers[:, ::-1], members)
    )
    kinds = 4 * (scores > high) + 2 * (scores < low) + included
    return np.asarray((kinds[..., None] == np.arange(OUTCOMES)).sum(axis=2), dtype=np.float64)


@functools.lru_cache(maxsize=16)
def _table(against: Hypotheses, chance: float, lines: tuple[int, ...]) -> Array:
    """`(sides, levels, OUTCOMES, stakes * claims)` logarithm of what one trial multiplies each bettor's wealth by.

    With slopes and intercepts `(s, c)` and `(s', c')` a bettor who stakes `a` on either side gains `a` times

        1{high} (1{member} / chance - s 1{nonmember} / (1 - chance)) - c
        1{low} (1{nonmember} / (1 - chance) - s' 1{member} / chance) - c'

    neither of which is positive on average if the claim is true.
    """
    (slope, intercept), (slope_low, intercept_low) = against.lines[:, :, list(lines)].transpose(1, 0, 2, 3)
    kind = np.arange(OUTCOMES)[:, None]
    high, low, member = kind // 4, kind // 2 % 2, kind % 2
    for_high = high * (member / chance - slope[:, None] * (1 - member) / (1 - chance)) - intercept[:, None]
    for_low = low * ((1 - member) / (1 - chance) - slope_low[:, None] * member / chance) - intercept_low[:, None]
    rows = []
    for side_high, side_low in SIDES:
        # either end risks the same where sides are unequal: at a chance of one half these are 1 and 1
        on_high, on_low = 2 * (1 - chance) * side_high, 2 * chance * side_low
        # the largest losses: a nonmember whose score is high, a member whose score is low. No score loses on both sides, so
        # `stake * gain` stays above -1
        worst_high = on_high * (slope / (1 - chance) + intercept) + on_low * intercept_low
        worst_low = on_low * (slope_low / chance + intercept_low) + on_high * intercept
        stake = np.array(STAKES)[:, None] / np.maximum(worst_high, worst_low)[:, None, None]
        gain = (on_high * for_high + on_low * for_low)[:, :, None]
        rows.append(np.log1p(stake * gain))
    return np.ascontiguousarray(np.stack(rows)).reshape(len(SIDES), len(LEVELS), OUTCOMES, -1)


@functools.lru_cache(maxsize=4096)
def _lines(rounds: int) -> tuple[int, ...]:
    """For each level the line that touches nearest to the rate that its threshold probably has."""
    log_targets = np.log(np.maximum(LEVELS, 2 / (rounds + 2)))
    return tuple(np.abs(np.log(RATES) - log_targets[:, None]).argmin(axis=1).tolist())


def largest_refuted(wealth: Wealth, significance: float) -> int | None:
    """The weakest claim that was refuted at some time so far, as an index; None if none was.

    Guarantee: at no time ever is a true claim refuted, except with probability at most `significance`, for coins that
        are independent of the past (Ville's inequality).
    """
    return weakest(wealth.best, significance)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BettingPath:
    """A whole game of betting, with the wealth after each group of trials.

    Attributes:
        trials: `(points,)` trials seen, 0 first.
        joint: `(points, claims)` logarithm of the joint wealth.
        separate: `(points, attacks, claims)` of each attack as if it had been alone.
    """

    end: Wealth
    trials: tuple[int, ...]
    joint: Array
    separate: Array


def follow(
    against: Hypotheses, scores: Array, included: Memberships, chance: float = 0.5, stakes: int | None = None
) -> BettingPath:
    """The game on trials `(attacks, n)` in their order, in groups as `groups` makes them; `stakes` as in `Wealth`."""
    parts = ((chance, scores[:, group], included[group]) for group in groups(len(included)))
    return _follow(start(against, len(scores), chance, stakes), parts)


def finished_wealth(against: Hypotheses, members: Array, nonmembers: Array, significance: float) -> Array:
    """Return `(tables, claims)` logarithm of the mean wealth of several orders of the rows, the least of stronger claims.

    Bets in an order end if they brought `TARGET / significance`, in a single one `1 / significance`. So each order has an
    e-value, as a stopped supermartingale, and so has their mean (docs/theory/anytime.md, "Sequential").

    Args:
        members, nonmembers: `(tables, n)` scores in an order that does not depend on them.

    Guarantee: refutes a true claim, by `log(1 / significance)` or more, with probability at most `significance`.
    """
    orders, factor = (ORDERS, TARGET) if members.shape[1] + nonmembers.shape[1] < MOST_SCORES else (1, 1.0)
    sides = [np.concatenate([_reorder(side, number) for number in range(orders)]) for side in (members, nonmembers)]
    wealth, limit = _follow_sides(against, *sides).separate, math.log(factor / significance)
    ends = np.where(wealth.max(axis=0) >= limit, limit, wealth[-1]).reshape(orders, len(members), -1).transpose(1, 0, 2)
    return joint(ends, orders)


def weakest(log_wealth: Array, significance: float) -> int | None:
    """Return the weakest claim that wealth, falling along the claims, refutes, as an index; None if it refutes none."""
    count = int(np.count_nonzero(log_wealth >= -math.log(significance)))
    return count - 1 if count else None


def _reorder(rows: Array, number: int) -> Array:
    """Rows from another place on, every second time from the last to the first."""
    order = np.roll(rows, number * rows.shape[1] // ORDERS, axis=1)
    return order[:, ::-1] if number % 2 else order


def _follow_sides(against: Hypotheses, members: Array, nonmembers: Array) -> BettingPath:
    """The game on finished scores `(tables, n)`, in blocks of so many members with so many nonmembers as `blocks` makes them.

    A block is bet on as if a coin with its share of members had been tossed for each trial, with the same thresholds and
    stakes, and the wealth is looked at after whole blocks. So it is a supermartingale for the fixed order of memberships: what
    the coin would gain on average is the mean of the gains of a block, and a geometric mean is at most the arithmetic one.
    """
    sizes = np.array(blocks(members.shape[1], nonmembers.shape[1]))
    ends = np.concatenate([[[0, 0]], np.cumsum(sizes, axis=0)])
    (changes,) = np.nonzero((np.diff(sizes, axis=0) != 0).any(axis=1))

    def parts() -> Iterator[Part]:
        for group in groups(len(sizes)):
            cuts = [group.start, *(changes[(changes >= group.start) & (changes < group.stop - 1)] + 1).tolist(), group.stop]
            for first, last in itertools.pairwise(cuts):
                (member, nonmember), (last_member, last_nonmember) = ends[first].tolist(), ends[last].tolist()
                sides = members[:, member:last_member], nonmembers[:, nonmember:last_nonmember]
                included = np.arange(sides[0].shape[1] + sides[1].shape[1]) < sides[0].shape[1]
                yield float(sizes[first, 0] / sizes[first].sum()), np.concatenate(sides, axis=1), included

    return _follow(start(against, len(members)), parts())


def blocks(members: int, nonmembers: int) -> list[tuple[int, int]]:
    """Return the members and nonmembers of each block, such that none is left over: even blocks, and then uneven ones.

    >>> blocks(6, 5), blocks(2, 5)
    ([(1, 1), (1, 1), (1, 1), (3, 2)], [(1, 2), (1, 3)])
    """
    if members < nonmembers:
        return [(first, second) for second, first in blocks(nonmembers, members)]
    share, surplus = divmod(members, nonmembers)
    smaller = min(UNEVEN, max(1, nonmembers // (2 * surplus))) if surplus else 0
    return [(share, 1)] * (nonmembers - surplus * smaller) + [(share * smaller + 1, smaller)] * surplus


def _follow(wealth: Wealth, parts: Iterable[Part]) -> BettingPath:
    attacks = len(wealth.members)
    trials, together, separate = [0], [wealth.best], [np.zeros((attacks, len(wealth.best)))]
    for chance, scores, included in parts:
        wealth, apart, joint_wealth = _update(replace(wealth, chance=chance), scores, included)
        trials.append(wealth.trials)
        together.append(joint_wealth)
        separate.append(apart)
    return BettingPath(end=wealth, trials=tuple(trials), joint=np.stack(together), separate=np.stack(separate))


def perfect_sides(against: Hypotheses, members: int, nonmembers: int, significance: float) -> int | None:
    """Return what so many finished scores refute when every member scores higher; an index as of `weakest`."""
    return weakest(finished_wealth(against, np.ones((1, members)), np.zeros((1, nonmembers)), significance)[0], significance)


def perfect(against: Hypotheses, trials: int, significance: float, chance: float = 0.5) -> int | None:
    """Return what so many trials refute when every member scores higher than every nonmember; an index as of `largest_refuted`.

    Memberships come in turn, as often as the coins make them on average.
    """
    turns = np.floor(np.arange(1, trials + 1) * chance) > np.floor(np.arange(trials) * chance)
    wealth = start(against, chance=chance)
    for group in groups(trials):
        wealth = update(wealth, turns[None, group].astype(np.float64), turns[group])
    return largest_refuted(wealth, significance)


def groups(trials: int) -> list[slice]:
    """Return how a finished set of trials is passed on: one by one at first, later in groups of a fortieth of the past.

    Groups do not depend on how many trials will follow, but for the last one, which ends with the trials.

    >>> [one.stop - one.start for one in groups(100)][-3:]
    [2, 2, 2]
    """
    slices, begin = [], 0
    while begin < trials:
        size = min(max(1, begin // 40), trials - begin)
        slices.append(slice(begin, begin + size))
        begin += size
    return slices
