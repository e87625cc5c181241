"""Betting against a privacy claim while models finish: evidence that may be looked at after every pair of runs.

The argument is in docs/statistics.md, section "Sequential".
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from audit.stats.arrays import Array

EPSILONS = np.arange(0.0, 12.001, 0.05)  # claims that are bet against, side by side
LEVELS = (0.0, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5)  # shares of the past beyond which a threshold is set
STAKES = (0.05, 0.15, 0.3, 0.6, 0.9)  # shares of the largest stake that cannot go bankrupt


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Wealth:
    """All that has to be kept to go on later; plain arrays, so that it can be stored.

    Attributes:
        delta: of the claims.
        members: and `nonmembers`: scores seen so far, ascending.
        log_wealth: `(claims, 2, levels, stakes)` of each bettor; they began with equal shares of 1.
        best: `(claims,)` largest logarithm so far of the wealth of all bettors against a claim.
    """

    delta: float
    members: Array
    nonmembers: Array
    log_wealth: Array
    best: Array

    @property
    def pairs(self) -> int:
        """Pairs of scores seen."""
        return len(self.members)


def start(delta: float) -> Wealth:
    """Nothing seen yet."""
    shape = (len(EPSILONS), 2, len(LEVELS), len(STAKES))
    return Wealth(
        delta=delta,
        members=np.empty(0),
        nonmembers=np.empty(0),
        log_wealth=np.full(shape, -math.log(2 * len(LEVELS) * len(STAKES))),
        best=np.zeros(len(EPSILONS)),
    )


def update(wealth: Wealth, members: Array, nonmembers: Array) -> Wealth:
    """The state after further pairs `(members[i], nonmembers[i])`; thresholds come from earlier pairs only.

    A call is one bet: pass pairs in small groups so that thresholds can follow. The first call only fills the past.
    """
    if len(members) != len(nonmembers):
        raise ValueError(f"{len(members)} member and {len(nonmembers)} nonmember scores; expected pairs")
    log_wealth = wealth.log_wealth
    if wealth.pairs > 0:
        log_wealth = log_wealth + _gains(_outcomes(wealth, members, nonmembers), wealth.delta)
    total = _sum(log_wealth)
    return Wealth(
        delta=wealth.delta,
        members=np.sort(np.concatenate([wealth.members, members])),
        nonmembers=np.sort(np.concatenate([wealth.nonmembers, nonmembers])),
        log_wealth=log_wealth,
        best=np.maximum(wealth.best, total),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Averaged:
    """Several attacks on the same runs, each betting an equal share of one fortune.

    Attributes:
        each: one state for each attack.
        best: `(claims,)` largest logarithm so far of the attacks' average wealth against a claim.
    """

    each: tuple[Wealth, ...]
    best: Array


def start_averaged(delta: float, attacks: int) -> Averaged:
    """Nothing seen yet by any attack."""
    return Averaged(each=tuple(start(delta) for _ in range(attacks)), best=np.zeros(len(EPSILONS)))


def update_averaged(averaged: Averaged, members: Array, nonmembers: Array) -> Averaged:
    """The state after further pairs of runs, `(attacks, pairs)` on either side: every attack's scores of the same runs.

    An average of processes that are supermartingales with respect to the same past is one, so the best of many attacks
    costs the logarithm of their number once, and nothing has to be chosen beforehand.
    """
    if not len(members) == len(nonmembers) == len(averaged.each):
        raise ValueError(f"scores of {len(members)} and {len(nonmembers)} attacks; expected {len(averaged.each)}")
    each = tuple(update(*one) for one in zip(averaged.each, members, nonmembers, strict=True))
    logs = np.stack([_sum(one.log_wealth) for one in each])
    top = logs.max(axis=0)
    return Averaged(each=each, best=np.maximum(averaged.best, top + np.log(np.exp(logs - top).mean(axis=0))))


def _sum(log_wealth: Array) -> Array:
    """`(claims,)` logarithm of the bettors' joint wealth."""
    flat = log_wealth.reshape(len(EPSILONS), -1)
    top = flat.max(axis=1)
    return np.asarray(top + np.log(np.exp(flat - top[:, None]).sum(axis=1)))


def _outcomes(wealth: Wealth, members: Array, nonmembers: Array) -> Array:
    """`(2, levels, 2, 2)` how many pairs had (hit, false alarm): members high, then nonmembers low."""
    found = np.empty((2, len(LEVELS), 2, 2))
    for direction, (past, hits, misses) in enumerate(
        ((wealth.nonmembers, members, nonmembers), (-wealth.members[::-1], -nonmembers, -members))
    ):
        for level, share in enumerate(LEVELS):
            beyond = math.floor(share * len(past))
            threshold = past[len(past) - 1 - min(beyond, len(past) - 1)]
            hit, alarm = hits > threshold, misses > threshold
            for i in (0, 1):
                for j in (0, 1):
                    found[direction, level, i, j] = np.count_nonzero((hit == bool(i)) & (alarm == bool(j)))
    return found


def _gains(outcomes: Array, delta: float) -> Array:
    """`(claims, 2, levels, stakes)` growth of the logarithms of wealth for these outcomes."""
    counts = outcomes.reshape(2 * len(LEVELS), 4)
    return np.asarray((counts @ _factors(delta)).reshape(len(EPSILONS), *outcomes.shape[:2], len(STAKES)))


@functools.lru_cache(maxsize=8)
def _factors(delta: float) -> Array:
    """`(claims, 4, stakes)` logarithm of what one pair multiplies wealth by, for (hit, false alarm) = 00, 01, 10, 11."""
    weight = np.exp(EPSILONS)[:, None, None]
    hit, alarm = np.array([0, 0, 1, 1])[None, :, None], np.array([0, 1, 0, 1])[None, :, None]
    stake = np.array(STAKES)[None, None, :] / (weight + delta)
    return np.asarray(np.log1p(stake * (hit - weight * alarm - delta)))


def epsilon_refuted(wealth: Wealth | Averaged, significance: float) -> float:
    """The largest epsilon of the grid up to which every claim has been refuted at some time so far; 0 if none.

    Guarantee: at no time ever exceeds the true epsilon, except with probability at most `significance`, for pairs that are
        independent of the past (Ville's inequality).
    """
    refuted = wealth.best >= -math.log(significance)
    first_kept = len(refuted) if refuted.all() else int(np.argmin(refuted))
    return float(EPSILONS[first_kept - 1]) if first_kept > 0 else 0.0


def perfect(pairs: int, delta: float, significance: float) -> float:
    """What so many pairs prove when every member is a hit and no nonmember a false alarm."""
    outcomes = np.zeros((2, len(LEVELS), 2, 2))
    outcomes[:, :, 1, 0] = max(pairs - 1, 0)
    begun = start(delta)
    total = _sum(begun.log_wealth + _gains(outcomes, delta))
    refuted = total >= -math.log(significance)
    first_kept = len(refuted) if refuted.all() else int(np.argmin(refuted))
    return float(EPSILONS[first_kept - 1]) if first_kept > 0 else 0.0


def groups(pairs: int) -> list[slice]:
    """How a finished set of pairs is passed on: one by one at first, later in groups of a twentieth of the past.

    >>> [one.stop - one.start for one in groups(50)][-3:]
    [2, 2, 2]
    """
    found, done = [], 0
    while done < pairs:
        size = min(max(1, done // 20), pairs - done)
        found.append(slice(done, done + size))
        done += size
    return found
