"""Betting against privacy claims while models finish: evidence that may be looked at after every pair of runs.

A claim allows a threshold test at most the true positive rate `g(fpr)`, and so at most any line that lies nowhere below g. Each
bettor stakes against one such line at one threshold; their joint wealth is an e-process. The argument is in
docs/statistics.md, section "Sequential".
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from audit.stats import curves, sgd_curve, tradeoff
from audit.stats.arrays import Array
from audit.stats.curves import Curve, Rate

LEVELS = (0.0, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5)  # shares of the past beyond which a threshold is set
RATES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5)  # where the lines touch the curve
STAKES = (0.05, 0.15, 0.3, 0.6, 0.9)  # shares of the largest stake that cannot go bankrupt
BETTORS = 2 * len(LEVELS) * len(STAKES)

EPSILON_STEP, LARGEST_EPSILON = 0.05, 12.0
MU_STEP, LARGEST_MU = 0.02, 8.0
NOISE_FACTORS = np.unique(
    np.concatenate([[1.0, 1.005, 1.01], 1.02 ** np.arange(1, 12), 1.05 ** np.arange(5, 15), 1.15 ** np.arange(5, 16)])
)
ABOVE = 1e-6  # relative distance of the claim that is bet against from the one that it refutes
OUTLINE = np.concatenate([[0.0], np.geomspace(1e-9, 0.5, 200), 1 - np.geomspace(0.5, 1e-9, 200)[1:], [1.0]])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hypotheses:
    """Ever weaker claims that are bet against side by side. They have to be fixed before the data.

    Attributes:
        epsilons: `(claims,)` what each proves when it is refuted, ascending.
        parameters: `(claims,)` of the family at each; `epsilons` again for (epsilon, delta)-DP.
        factors: `(2, rates, 4, stakes, claims)` logarithm of what one pair multiplies the wealth by, for members high and
            nonmembers low, and for (hit, false alarm) = 00, 01, 10, 11.
    """

    epsilons: Array
    parameters: Array
    factors: Array

    def against(self, epsilon: float) -> int | None:
        """The first claim whose refutation proves more than `epsilon`; None where there is no such claim."""
        place = int(np.searchsorted(self.epsilons, epsilon, side="right"))
        return place if place < len(self.epsilons) else None


@functools.lru_cache(maxsize=16)
def any_mechanism(delta: float, claimed: tuple[float, ...] = ()) -> Hypotheses:
    """(epsilon, delta)-DP for each epsilon of a grid, and just above each of those that are `claimed`."""
    epsilons = _with(np.arange(0.0, LARGEST_EPSILON + 1e-9, EPSILON_STEP), claimed)
    return _hypotheses([curves.epsilon_delta(one, delta) for one in epsilons.tolist()], epsilons, epsilons)


@functools.lru_cache(maxsize=16)
def gaussian(delta: float, claimed: tuple[float, ...] = ()) -> Hypotheses:
    """mu-GDP for each mu of a grid, and just above what each of the epsilons that are `claimed` at delta leaves."""
    limits = tuple(tradeoff.mu_of_gdp(one, delta) for one in claimed if math.isfinite(one))
    mus = _with(np.arange(0.0, LARGEST_MU + 1e-9, MU_STEP), limits)
    epsilons = np.array([tradeoff.epsilon_of_gdp(one, delta) for one in mus.tolist()])
    return _hypotheses([curves.gdp(one) for one in mus.tolist()], epsilons, mus)


@functools.lru_cache(maxsize=16)
def dp_sgd(noise_multiplier: float, sample_rate: float, steps: int, delta: float) -> Hypotheses:
    """The curve of DP-SGD for noise above and below the given one; the first claim is that nothing leaks.

    `parameters` are noise multipliers, descending from infinity.
    """
    middle = max(noise_multiplier, sgd_curve.LEAST_NOISE)
    noises = {*(middle * NOISE_FACTORS).tolist(), *(middle / NOISE_FACTORS).tolist()}
    kept = sorted((one for one in noises if one >= sgd_curve.LEAST_NOISE), reverse=True)
    parameters = np.array([math.inf, *kept])
    found = [sgd_curve.sgd(one, sample_rate, steps) for one in parameters.tolist()]
    floors = np.array([sgd_curve.epsilon_floor(one, sample_rate, steps, delta) for one in parameters.tolist()])
    return _hypotheses(found, np.maximum.accumulate(floors), parameters)


def alone(curve: Curve, epsilon: float) -> Hypotheses:
    """One claim, whose refutation proves `epsilon`."""
    return _hypotheses([curve], np.array([epsilon]), np.array([epsilon]))


def _with(grid: Array, claimed: Sequence[float]) -> Array:
    above = [one * (1 + ABOVE) + ABOVE**2 for one in claimed if math.isfinite(one)]
    return np.unique(np.concatenate([grid, above]))


def _hypotheses(found: Sequence[Curve], epsilons: Array, parameters: Array) -> Hypotheses:
    """The bets against each curve."""
    lines = np.array([[supporting_lines(one.tpr), supporting_lines(one.tnr)] for one in found])
    slope, intercept = lines.transpose(2, 1, 3, 0)[:, :, :, None, None, :]
    hit, alarm = np.array([0, 0, 1, 1])[:, None, None], np.array([0, 1, 0, 1])[:, None, None]
    stake = np.array(STAKES)[:, None] / (slope + intercept)
    factors = np.log1p(stake * (hit - slope * alarm - intercept))
    return Hypotheses(epsilons=epsilons, parameters=parameters, factors=factors)


def supporting_lines(rate: Rate) -> Array:
    """`(2, rates)` slopes and intercepts of lines nowhere below a concave non-decreasing curve, close to it at each of `RATES`.

    Between two points of a concave curve it lies below both neighbouring chords carried on, so the corners where these meet
    outline it from above.

    >>> supporting_lines(curves.epsilon_delta(1.0, 1e-3).tpr)[:, 0].round(6).tolist()
    [2.718282, 0.001]
    """
    y = np.clip(rate(OUTLINE), 0.0, 1.0)
    x = OUTLINE
    chord = np.diff(y) / np.diff(x)
    before, after = chord[:-2], chord[2:]  # of the cells that have neighbours on both sides
    left, right = x[1:-2], x[2:-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        meet = (y[2:-1] - after * right - y[1:-2] + before * left) / (before - after)
    meet = np.clip(np.where(np.isfinite(meet), meet, right), left, right)
    above = np.maximum(y[1:-2] + before * (meet - left), y[2:-1] + after * (meet - right))
    ends = [y[1] - chord[1] * x[1], min(1.0, y[-2] + chord[-2] * (1 - x[-2]))]
    corners_x = np.concatenate([x, meet, [0.0, 1.0]])
    corners_y = np.concatenate([y, np.minimum(above, y[2:-1]), [min(ends[0], y[1]), ends[1]]])
    slopes = np.maximum(chord[np.searchsorted(x, RATES, side="right") - 1], 0.0)
    intercepts = np.max(corners_y[:, None] - corners_x[:, None] * slopes, axis=0)
    return np.stack([slopes, np.maximum(intercepts, 0.0)])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Wealth:
    """All that has to be kept to go on later; plain arrays, so that it can be stored.

    Attributes:
        against: the claims.
        members: and `nonmembers`: `(attacks, seen)` scores seen so far, ascending.
        log_wealth: `(attacks, bettors, claims)` of each bettor; those of one attack began with equal shares of 1.
        best: `(claims,)` largest `now` so far.
    """

    against: Hypotheses
    members: Array
    nonmembers: Array
    log_wealth: Array
    best: Array

    @property
    def pairs(self) -> int:
        """Pairs of scores seen."""
        return int(self.members.shape[1])

    @property
    def each(self) -> Array:
        """`(attacks, claims)` logarithm of the wealth that each attack's bettors have now."""
        return _log_sum(self.log_wealth)


def joint(each: Array) -> Array:
    """`(..., claims)` logarithm of the attacks' average wealth `(..., attacks, claims)`, the least over all stronger claims.

    Stronger claims are false where a weaker one is, so the least is evidence against the weakest of them.
    """
    return np.asarray(np.minimum.accumulate(_log_sum(each) - math.log(each.shape[-2]), axis=-1))


def start(against: Hypotheses, attacks: int = 1) -> Wealth:
    """Nothing seen yet by any attack."""
    claims = len(against.epsilons)
    return Wealth(
        against=against,
        members=np.empty((attacks, 0)),
        nonmembers=np.empty((attacks, 0)),
        log_wealth=np.full((attacks, BETTORS, claims), -math.log(BETTORS)),
        best=np.zeros(claims),
    )


def update(wealth: Wealth, members: Array, nonmembers: Array) -> Wealth:
    """The state after further pairs `(members[:, i], nonmembers[:, i])`, every attack's scores of the same trials.

    Thresholds come from earlier pairs only. A call is one bet: pass pairs in small groups so that thresholds can follow. The
    first call only fills the past. An average of processes that are supermartingales with respect to the same past is one, so
    many attacks cost the logarithm of their number at most, and nothing has to be chosen beforehand.

    Args:
        wealth: after the earlier pairs.
        members: and `nonmembers`: `(attacks, k)`.
    """
    return _updated(wealth, members, nonmembers)[0]


def _updated(wealth: Wealth, members: Array, nonmembers: Array) -> tuple[Wealth, Array, Array]:
    """The state after further pairs, with its `each` and their `joint`."""
    attacks = len(wealth.members)
    if members.shape != nonmembers.shape or members.shape[:1] != (attacks,):
        raise ValueError(
            f"scores are {members.shape} of members and {nonmembers.shape} of nonmembers; expected pairs of {attacks} attack(s)"
        )
    log_wealth = wealth.log_wealth
    if wealth.pairs > 0:
        table = _table(wealth.against, _lines(wealth.pairs))
        found = zip(wealth.members, wealth.nonmembers, members, nonmembers, strict=True)
        outcomes = np.stack([_outcomes((old, other), (new, newer)) for old, other, new, newer in found])
        log_wealth = log_wealth + (outcomes[:, :, None, :] @ table).reshape(log_wealth.shape)
    each = _log_sum(log_wealth)
    now = joint(each)
    after = Wealth(
        against=wealth.against,
        members=np.sort(np.concatenate([wealth.members, members], axis=1), axis=1),
        nonmembers=np.sort(np.concatenate([wealth.nonmembers, nonmembers], axis=1), axis=1),
        log_wealth=log_wealth,
        best=np.maximum(wealth.best, now),
    )
    return after, each, now


def _log_sum(logs: Array) -> Array:
    """Logarithm of the sum over the last axis but one."""
    top = logs.max(axis=-2)
    return np.asarray(top + np.log(np.exp(logs - top[..., None, :]).sum(axis=-2)))


def _outcomes(past: tuple[Array, Array], new: tuple[Array, Array]) -> Array:
    """`(2 * levels, 4)` how many pairs had (hit, false alarm) = 00, 01, 10, 11: members high, then nonmembers low."""
    (old_members, old_nonmembers), (members, nonmembers) = past, new
    seen = len(old_members)
    beyond = np.minimum(np.floor(np.array(LEVELS) * seen), seen - 1).astype(np.int64)
    cuts = np.concatenate([old_nonmembers[seen - 1 - beyond], -old_members[beyond]])[:, None]
    size = len(LEVELS)
    hit = np.concatenate([members > cuts[:size], -nonmembers > cuts[size:]])
    alarm = np.concatenate([nonmembers > cuts[:size], -members > cuts[size:]])
    both, hits, alarms = (hit & alarm).sum(axis=1), hit.sum(axis=1), alarm.sum(axis=1)
    rest = len(members) - hits - alarms + both
    return np.stack([rest, alarms - both, hits - both, both], axis=1).astype(np.float64)


@functools.lru_cache(maxsize=64)
def _table(against: Hypotheses, lines: tuple[int, ...]) -> Array:
    """`(2 * levels, 4, stakes * claims)` of the factors at these lines."""
    return np.ascontiguousarray(against.factors[:, list(lines)]).reshape(2 * len(LEVELS), 4, -1)


def _lines(seen: int) -> tuple[int, ...]:
    """For each level the line that touches nearest to the rate that its threshold probably has."""
    wanted = np.log(np.maximum(LEVELS, 1 / (seen + 1)))
    return tuple(np.abs(np.log(RATES) - wanted[:, None]).argmin(axis=1).tolist())


def refuted(wealth: Wealth, significance: float) -> int | None:
    """The weakest claim that was refuted at some time so far, as an index; None if none was.

    Guarantee: at no time ever is a true claim refuted, except with probability at most `significance`, for pairs that are
        independent of the past (Ville's inequality).
    """
    count = int(np.count_nonzero(wealth.best >= -math.log(significance)))  # `best` does not increase along the claims
    return count - 1 if count else None


def epsilon_refuted(wealth: Wealth, significance: float) -> float:
    """The largest epsilon of the grid up to which every claim has been refuted at some time so far; 0 if none.

    Guarantee: as `refuted`.
    """
    found = refuted(wealth, significance)
    return 0.0 if found is None else float(wealth.against.epsilons[found])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Followed:
    """A whole game of betting, with the wealth after each group of pairs.

    Attributes:
        end: the state at its end.
        pairs: `(points,)` pairs seen, 0 first.
        joint: `(points, claims)` logarithm of the joint wealth.
        each: `(points, attacks, claims)` of each attack as if it had been alone.
    """

    end: Wealth
    pairs: tuple[int, ...]
    joint: Array
    each: Array


def follow(against: Hypotheses, members: Array, nonmembers: Array) -> Followed:
    """The game on pairs `(attacks, pairs)` in their order, in groups as `groups` makes them."""
    wealth = start(against, len(members))
    pairs, together, each = [0], [np.zeros_like(wealth.best)], [np.zeros((len(members), len(wealth.best)))]
    for group in groups(members.shape[1]):
        wealth, apart, now = _updated(wealth, members[:, group], nonmembers[:, group])
        pairs.append(wealth.pairs)
        together.append(now)
        each.append(apart)
    return Followed(end=wealth, pairs=tuple(pairs), joint=np.stack(together), each=np.stack(each))


def perfect(against: Hypotheses, pairs: int, significance: float) -> int | None:
    """What so many pairs refute when every member is a hit and no nonmember a false alarm; an index as of `refuted`."""
    wealth = start(against)
    for group in groups(pairs):
        size = group.stop - group.start
        wealth = update(wealth, np.ones((1, size)), np.zeros((1, size)))
    return refuted(wealth, significance)


def groups(pairs: int) -> list[slice]:
    """How a finished set of pairs is passed on: one by one at first, later in groups of a twentieth of the past.

    Groups do not depend on how many pairs will follow, but for the last one, which ends where the pairs do.

    >>> [one.stop - one.start for one in groups(50)][-3:]
    [2, 2, 2]
    """
    found, done = [], 0
    while done < pairs:
        size = min(max(1, done // 20), pairs - done)
        found.append(slice(done, done + size))
        done += size
    return found
