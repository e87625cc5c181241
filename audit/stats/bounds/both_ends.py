"""Right guesses at both ends of the ranking, all counts at once, for independent trials.

The k highest scores are guessed members and the k lowest nonmembers. How far right guesses exceed what an epsilon explains is
measured on one scale for all k, and the largest excess is the statistic. Its law is simulated under the least favourable
pair, so that neither the search over k nor delta costs anything; the same draws serve every epsilon and delta. The proof is in
docs/statistics.md, section "Both ends".
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit.stats.bounds import pair_draws, rank_exact
from audit.stats.bounds.ranks import Memberships
from audit.stats.bounds.validation import Array, Counts
from audit.stats.curves import tradeoff, tradeoff_curves

COUNTS = 20  # numbers of guesses, about
RANKS = 0.01  # of the error rate, for rank tests: they tell where to begin, and prove what no simulation can
RATIO = 3.0  # between the ranks of those tests
STEP, LEAST_STEP = 0.25, 1e-3  # between statistics, in standard errors of the bound, and the least, relative above 1
PARTS = 16  # of a step, to which a bound is rounded
LARGEST = 30.0  # epsilon of the last step
SMALL = 4 / pair_draws.ROWS  # levels below: fewer than four simulations would decide, so there are more
ROUNDING = 1e-9  # excesses that are equal up to it count as reached

Pairs = Callable[[float], tuple[float, float]]
"""The (epsilon, delta) of each parameter from 0 on; epsilon in proportion to it, and delta does not fall."""
Rows = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """How many scores there are on either side: all that the tests depend on besides the ranking."""

    members: int
    nonmembers: int

    @classmethod
    def of(cls, ranked: Memberships) -> Design:
        """Return the design of a ranking."""
        return cls(members=int(ranked.sum()), nonmembers=int((~ranked).sum()))

    @property
    def scores(self) -> int:
        """Members and nonmembers together."""
        return self.members + self.nonmembers


def bound(ranked: Memberships, pairs: Pairs, significance: float) -> tuple[float, int]:
    """The end of the initial interval of refuted parameters, and the index of the count that tells most there (or -1).

    Two tests share the error rate: the rank tests and the simulated one, whose statistic is fixed on each step of a ladder of
    epsilons and which is monotone there. A parameter that one of them refutes is refuted.

    Guarantee: exceeds the least parameter whose pair is true with probability at most `significance`, for independent scores,
        identically distributed on each side. Never rises with delta, with confidence or where members move down.
    """
    design, right, slope = Design.of(ranked), right_guesses(ranked), pairs(1.0)[0]
    edges, level = ladder(design), (1 - RANKS) * significance

    def pair(epsilon: float) -> tuple[float, float]:
        return epsilon, pairs(epsilon / slope)[1]

    def rejects(first: int, last: int) -> bool:
        return _refuted(design, _limits(design, right, range(first, last)), pair(float(edges[last])), level)

    refuted = _begin(ranked, pairs, significance) * slope
    step = _last_edge(rejects, int(np.searchsorted(edges, refuted, side="right")) - 1, len(edges) - 1)
    refuted = max(refuted, float(edges[step]))
    if step < len(edges) - 1:
        parts = [pair(epsilon) for epsilon in np.linspace(edges[step], edges[step + 1], PARTS + 1).tolist()]
        last = _last_part(design, _limits(design, right, range(step, step + 1)), parts, level)
        refuted = max(refuted, parts[last][0])
    return refuted / slope, int(np.argmax(excess(right, refuted, design))) if refuted > 0 else -1


def _last_edge(rejects: Callable[[int, int], bool], begin: int, end: int) -> int:
    """The edge up to which each step from `begin` is refuted; several steps are tried together, which refutes each of them."""
    width, longer = 1, True
    while begin < end and width:
        width = min(width, end - begin)
        if rejects(begin, begin + width):
            begin += width
            width *= 2 if longer else 1
        else:
            longer, width = False, width // 2
    return begin


def _last_part(design: Design, limits: Counts, parts: list[tuple[float, float]], level: float) -> int:
    """The index of the last of growing pairs that is refuted, the last of all not being; 0 where none is.

    A draw that reaches a limit at a pair that is refuted does so at all that are still to be tried, and one that does not at a
    pair that is kept never will: only the others are counted anew.
    """
    blocks = range(_blocks(level))
    settled = [_reached(design, parts[0], limits, block) for block in blocks]
    open_rows = [np.flatnonzero(_reached(design, parts[-1], limits, block) & ~settled[block]) for block in blocks]
    counts_settled = [int(rows.sum()) for rows in settled]
    first, last = 0, len(parts) - 1
    while last - first > 1:
        middle = (first + last) // 2
        reached = [(_right_guesses(design, *parts[middle], block, open_rows[block]) >= limits).any(axis=1) for block in blocks]
        now = [count + int(rows.sum()) for count, rows in zip(counts_settled, reached, strict=True)]
        refuted = _significant(now, level)
        open_rows = [rows[~hit if refuted else hit] for rows, hit in zip(open_rows, reached, strict=True)]
        first, last, counts_settled = (middle, last, now) if refuted else (first, middle, counts_settled)
    return first


def refutes(ranked: Memberships, epsilon: float, delta: float, significance: float) -> bool:
    """Whether one of the tests of `bound` refutes (epsilon, delta)-DP; less delta is refuted wherever more is."""
    design = Design.of(ranked)
    edges = ladder(design)
    if epsilon >= edges[-1]:
        return False
    curve = tradeoff_curves.epsilon_delta(epsilon, delta)
    if rank_exact.refutes(rank_exact.precedence_tests(ranked, RATIO), curve, significance=RANKS * significance):
        return True
    step = int(np.searchsorted(edges, epsilon, side="right")) - 1
    limits = _limits(design, right_guesses(ranked), range(step, step + 1))
    return _refuted(design, limits, (epsilon, delta), (1 - RANKS) * significance)


def _begin(ranked: Memberships, pairs: Pairs, significance: float) -> float:
    tests = rank_exact.precedence_tests(ranked, RATIO)
    return rank_exact.bound(
        tests,
        lambda parameter: tradeoff_curves.epsilon_delta(*pairs(parameter)),
        significance=RANKS * significance,
        resolution=1e-4,
        largest=LARGEST / pairs(1.0)[0],
    )[0]


def _limits(design: Design, right: Counts, steps: range) -> Counts:
    """`(J,)` right guesses that are as surprising as what was seen: the least at each count, over the statistics of `steps`."""
    edges, each = ladder(design), counts(design.scores)
    centres = ((edges[:-1] + edges[1:]) / 2)[steps.start : steps.stop, None]
    seen = excess(right, centres, design).max(axis=1, keepdims=True) - ROUNDING
    low, high = (np.broadcast_to(count, (len(steps), len(each))) for count in (right, 2 * each + 1))
    while (low < high).any():
        middle = (low + high) // 2
        reached = excess(np.minimum(middle, 2 * each), centres, design) >= seen
        low, high = np.where(reached, low, np.minimum(middle + 1, high)), np.where(reached, middle, high)
    return np.asarray(low.min(axis=0))


def _refuted(design: Design, limits: Counts, pair: tuple[float, float], level: float) -> bool:
    """Whether it is rarer than `level` that draws of (epsilon, delta) reach one of `limits`."""
    reached: list[int] = []
    for block in range(_blocks(level)):
        reached.append(int(_reached(design, pair, limits, block).sum()))
        if block == 0 and not _significant(reached, max(level, SMALL)):
            return False
    return _significant(reached, level)


def _blocks(level: float) -> int:
    return 1 if level >= SMALL else pair_draws.BLOCKS


def _significant(reached: list[int], level: float) -> bool:
    """Whether so many draws of each block are few enough.

    More blocks refute only what the first of them refutes at the finest level that it serves: tests are nested.
    """
    if (1 + reached[0]) / (1 + pair_draws.ROWS) > max(level, SMALL):
        return False
    return (1 + sum(reached)) / (1 + pair_draws.ROWS * len(reached)) <= level


def _reached(design: Design, pair: tuple[float, float], limits: Counts, block: int) -> Rows:
    """Which draws have one of so many right guesses."""
    return np.asarray((simulate(design, *pair, block) >= limits).any(axis=1))


@functools.lru_cache(maxsize=64)
def ladder(design: Design) -> Array:
    """Rising epsilons from 0, where steps begin and end; they depend on the numbers of scores alone."""
    edges = [0.0]
    while (epsilon := edges[-1]) < LARGEST:
        rate = 1 / (1 + math.exp(-epsilon))
        error = 1 / math.sqrt(design.scores * rate * (1 - rate))
        edges.append(epsilon + max(min(STEP * error, 0.5), LEAST_STEP * max(1.0, epsilon)))
    return np.array(edges)


@functools.lru_cache(maxsize=64)
def counts(scores: int) -> Counts:
    """How many scores are guessed at either end: all numbers up to half of a few scores, else about `COUNTS`, geometrically.

    >>> counts(12).tolist()
    [1, 2, 3, 4, 5, 6]
    """
    half = max(1, scores // 2)
    return np.unique(np.rint(np.geomspace(1, half, min(half, COUNTS))).astype(np.int64))


def right_guesses(ranked: Memberships) -> Counts:
    """`(J,)`: members among the k highest and nonmembers among the k lowest, for each of `counts`.

    >>> right_guesses(np.array([True, False, True, False])).tolist()
    [2, 2]
    """
    each = counts(len(ranked))
    above = np.concatenate([[0], np.cumsum(ranked, dtype=np.int64)])
    below = np.concatenate([[0], np.cumsum(~ranked[::-1], dtype=np.int64)])
    return np.asarray(above[each] + below[each])


def excess(right: Counts, epsilon: float | Array, design: Design) -> Array:
    """`(..., J)` right guesses as standard normal deviates: signed roots of their deviance from `epsilon`.

    A top guess counts as right with log odds `epsilon + log(members / nonmembers)`, one at the bottom with `epsilon` less that;
    half a guess is taken off for continuity. Grows with the right guesses and falls with epsilon, whatever the scores' law.
    """
    each, lean = counts(design.scores).astype(np.float64), math.log(design.members / design.nonmembers)
    mean = np.maximum((right - 0.5) / each, 1e-12)  # of two guesses, one at either end
    turn = 2 * math.cosh(lean) * (1 - mean)  # their fitted odds solve (2 - mean) odds^2 + turn odds = mean
    root = np.sqrt(turn**2 + 4 * mean * (2 - mean))
    fitted = np.log(np.where(mean < 1, 2 * mean / (np.abs(turn) + root), (np.abs(turn) + root) / (2 * (2 - mean))))
    deviance = mean * (fitted - epsilon)
    for sign in (1.0, -1.0):
        deviance -= np.logaddexp(0.0, fitted + sign * lean) - np.logaddexp(0.0, epsilon + sign * lean)
    return np.asarray(np.sign(fitted - epsilon) * np.sqrt(2 * each * np.maximum(deviance, 0.0)))


@functools.lru_cache(maxsize=128)
def simulate(design: Design, epsilon: float, delta: float, block: int) -> Counts:
    """`(rows, J)` right guesses in a block of draws of the least favourable pair of (epsilon, delta)-DP.

    None falls in any row as epsilon or delta grows.
    """
    return _right_guesses(design, epsilon, delta, block, None)


def _right_guesses(design: Design, epsilon: float, delta: float, block: int, rows: Counts | None) -> Counts:
    """Those of all draws of a block, or of some."""
    members, nonmembers = pair_draws.block(design.members, design.nonmembers, block)
    if rows is not None:
        members, nonmembers = members.only(rows), nonmembers.only(rows)
    each = counts(design.scores)
    cuts = np.concatenate([each, design.scores - each])
    above = pair_draws.members_on_top(members, nonmembers, cuts, functools.partial(tradeoff.tpr_allowed, epsilon, delta))
    in_top, in_rest = above[:, : len(each)], above[:, len(each) :]
    return np.asarray(in_top + each - (design.members - in_rest))
