"""Right guesses at both ends of the ranking, all counts at once, for independent trials.

The k highest scores are guessed members and the k lowest nonmembers; the largest excess of right guesses, on one scale for all
k, is the statistic. Its law under the least favourable pair is simulated, by the same draws for every epsilon and delta. The
proof is in docs/theory/independent-trials.md, section "Both ends".
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit.stats.arrays import Array, Counts
from audit.stats.bounds import merged_draws, pair_draws, rank_exact
from audit.stats.bounds.critical_ranks import class_edges, critical_rank, draws_for, most_likely_reached
from audit.stats.bounds.ranks import Memberships
from audit.stats.curves import tradeoff

COUNTS = 36  # numbers of guesses, about
RANKS = 0.01  # of the error rate, for rank tests: they tell where to begin, and prove what no simulation can
RATIO = 3.0  # between the ranks of those tests
STEP, LEAST_STEP = 0.25, 1e-3  # between statistics, in standard errors of the bound, and the least, relative above 1
PARTS = 16  # of a step, to which a bound is rounded
LARGEST = 30.0  # epsilon of the last step
COARSEST = 0.1 * (1 - RANKS)  # level; each class of levels reaches down to half of the one before
WORK, MOST_WORK = 28_000_000, 60_000_000  # simulated scores in one test, and if it has few draws beyond its level
EARLY = (1, 5, 20)  # blocks of draws after which a test may end
ROUNDING = 1e-9  # excesses that are equal up to it count as reached

# the (epsilon, delta) of each parameter from 0 on; epsilon in proportion to it, and delta does not fall
Pairs = Callable[[float], tuple[float, float]]
Rows = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """How many scores there are on either side: all that the tests depend on in addition to the ranking."""

    members: int
    nonmembers: int

    @classmethod
    def of(cls, ranking: Memberships) -> Design:
        return cls(members=int(ranking.sum()), nonmembers=int((~ranking).sum()))

    @property
    def scores(self) -> int:
        return self.members + self.nonmembers

    @property
    def is_merged(self) -> bool:
        """True if whole samples are drawn and sorted; of more scores some order statistics are drawn."""
        return self.scores <= merged_draws.MOST_SCORES


def bound(ranking: Memberships, pairs: Pairs, significance: float) -> tuple[float, int]:
    """The end of the initial interval of refuted parameters, and the index of the most informative count there (or -1).

    A parameter that the rank tests or the simulated test refutes is refuted; the latter is monotone on each step of a ladder.

    Guarantee: exceeds the least parameter whose pair is true with probability at most `significance`, for independent scores,
        identically distributed on each side. Never rises with delta, with confidence or if members move down.
    """
    design, right, slope = Design.of(ranking), right_guesses(ranking), pairs(1.0)[0]
    edges, level = ladder(design), (1 - RANKS) * significance

    def pair(epsilon: float) -> tuple[float, float]:
        return epsilon, pairs(epsilon / slope)[1]

    def rejects(first: int, last: int) -> bool:
        return _rejects(design, _limits(design, right, range(first, last)), pair(float(edges[last])), level)

    statistic = _begin(ranking, pairs, significance) * slope
    step = _last_edge(rejects, int(np.searchsorted(edges, statistic, side="right")) - 1, len(edges) - 1)
    statistic = max(statistic, float(edges[step]))
    if step < len(edges) - 1:
        parts = [pair(epsilon) for epsilon in np.linspace(edges[step], edges[step + 1], PARTS + 1).tolist()]
        last = _last_part(design, _limits(design, right, range(step, step + 1)), parts, level)
        statistic = max(statistic, parts[last][0])
    return statistic / slope, int(np.argmax(excess(right, statistic, design))) if statistic > 0 else -1


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
    """The index of the last of growing pairs that is refuted, the last of all not being; 0 if none is.

    Only draws are counted anew that reach a limit at the last pair and not at the first: the others are decided.
    """
    blocks = range(_blocks(design, level))
    settled_rows = [_exceedance_mask(design, parts[0], limits, block) for block in blocks]
    open_rows = [np.flatnonzero(_exceedance_mask(design, parts[-1], limits, block) & ~settled_rows[block]) for block in blocks]
    counts_settled = [int(rows.sum()) for rows in settled_rows]
    first, last = 0, len(parts) - 1
    while last - first > 1:
        middle = (first + last) // 2
        exceedances = [
            (_right_guesses(design, *parts[middle], block, open_rows[block]) >= limits).any(axis=1) for block in blocks
        ]
        counts_after = [count + int(rows.sum()) for count, rows in zip(counts_settled, exceedances, strict=True)]
        is_refuted = _significant(design, counts_after, level)
        open_rows = [rows[~hit if is_refuted else hit] for rows, hit in zip(open_rows, exceedances, strict=True)]
        first, last, counts_settled = (middle, last, counts_after) if is_refuted else (first, middle, counts_settled)
    return first


def refutes(ranking: Memberships, epsilon: float, delta: float, significance: float) -> bool:
    """True if one of the tests of `bound` refutes (epsilon, delta)-DP; less delta is refuted wherever more is."""
    design = Design.of(ranking)
    edges = ladder(design)
    if epsilon >= edges[-1]:
        return False
    curve = tradeoff.epsilon_delta(epsilon, delta)
    if rank_exact.refutes(rank_exact.precedence_tests(ranking, RATIO), curve, significance=RANKS * significance):
        return True
    step = int(np.searchsorted(edges, epsilon, side="right")) - 1
    limits = _limits(design, right_guesses(ranking), range(step, step + 1))
    return _rejects(design, limits, (epsilon, delta), (1 - RANKS) * significance)


def _begin(ranking: Memberships, pairs: Pairs, significance: float) -> float:
    tests = rank_exact.precedence_tests(ranking, RATIO)
    return rank_exact.bound(
        tests,
        lambda parameter: tradeoff.epsilon_delta(*pairs(parameter)),
        significance=RANKS * significance,
        resolution=1e-4,
        largest=LARGEST / pairs(1.0)[0],
    )[0]


def _limits(design: Design, right: Counts, steps: range) -> Counts:
    """`(J,)` right guesses that are as surprising as what was seen: the least at each count, over the statistics of `steps`."""
    edges, guesses = ladder(design), counts(design.scores)
    centres = ((edges[:-1] + edges[1:]) / 2)[steps.start : steps.stop, None]
    statistic = excess(right, centres, design).max(axis=1, keepdims=True) - ROUNDING
    low, high = (np.broadcast_to(count, (len(steps), len(guesses))) for count in (right, 2 * guesses + 1))
    while (low < high).any():
        middle = (low + high) // 2
        exceedances = excess(np.minimum(middle, 2 * guesses), centres, design) >= statistic
        low, high = np.where(exceedances, low, np.minimum(middle + 1, high)), np.where(exceedances, middle, high)
    return np.asarray(low.min(axis=0))


def _rejects(design: Design, limits: Counts, pair: tuple[float, float], level: float) -> bool:
    """True if it is rarer than `level` that draws of (epsilon, delta) reach one of `limits`."""
    exceedances: list[int] = []
    for blocks in _stages(design, level):
        new = range(len(exceedances), blocks)
        exceedances += [int(_exceedance_mask(design, pair, limits, block).sum()) for block in new]
        verdict = _verdict(design, exceedances, blocks, level)
        if verdict is not None:
            return verdict
    return False


@functools.lru_cache(maxsize=256)
def _classes(design: Design, level: float) -> tuple[tuple[int, int], ...]:
    """Pairs (blocks, rank): fewer than `rank` draws of the first `blocks` may reach a limit, the test itself last."""
    edges = class_edges(level, COARSEST)
    scores = min(design.scores, merged_draws.MOST_SCORES)
    draws = [draws_for(edge, scores, work=WORK, most_work=MOST_WORK) for edge in edges]
    blocks = [max(1, round(count / pair_draws.ROWS)) for count in draws]
    levels = [*edges[:-1], level]
    return tuple((count, critical_rank(count * pair_draws.ROWS, item)) for count, item in zip(blocks, levels, strict=True))


def _stages(design: Design, level: float) -> list[int]:
    """Rising numbers of blocks, the last of them all that a test has: most tests are decided by the first."""
    total = _blocks(design, level)
    return [*(count for count in EARLY if count < total), total]


def _blocks(design: Design, level: float) -> int:
    return _classes(design, level)[-1][0]


def _verdict(design: Design, exceedances: list[int], blocks: int, level: float) -> bool | None:
    """Return the decision of the first blocks alone, or None if they do not suffice.

    Coarser tests that have no more draws must refute as well: then more confidence never proves more.
    """
    count, rows = sum(exceedances[:blocks]), blocks * pair_draws.ROWS
    *coarser, (total, _) = _classes(design, level)
    agrees = all(sum(exceedances[:first]) < rank for first, rank in coarser if first <= blocks)
    if agrees and count < critical_rank(rows, level):
        return True
    return False if blocks == total or count > most_likely_reached(rows, level) else None


def _significant(design: Design, exceedances: list[int], level: float) -> bool:
    """True if so many draws of each block are few enough."""
    verdicts = (_verdict(design, exceedances, blocks, level) for blocks in _stages(design, level))
    return next((verdict for verdict in verdicts if verdict is not None), False)


def _exceedance_mask(design: Design, pair: tuple[float, float], limits: Counts, block: int) -> Rows:
    """Return which draws have one of so many right guesses."""
    return np.asarray((simulate(design, *pair, block) >= limits).any(axis=1))


@functools.lru_cache(maxsize=64)
def ladder(design: Design) -> Array:
    """Return the rising epsilons from 0 at which steps begin and end; they depend on the numbers of scores alone."""
    edges = [0.0]
    while (epsilon := edges[-1]) < LARGEST:
        rate = 1 / (1 + math.exp(-epsilon))
        error = 1 / math.sqrt(design.scores * rate * (1 - rate))
        edges.append(epsilon + max(min(STEP * error, 0.5), LEAST_STEP * max(1.0, epsilon)))
    return np.array(edges)


@functools.lru_cache(maxsize=64)
def counts(scores: int) -> Counts:
    """Return how many scores are guessed at either end: about `COUNTS` numbers from one in 200 to half, geometrically.

    >>> counts(12).tolist()
    [1, 2, 3, 4, 6]
    """
    half, first = max(1, scores // 2), max(1, scores // 200)
    return np.unique(np.rint(np.geomspace(first, half, min(half, COUNTS))).astype(np.int64))


def right_guesses(ranking: Memberships) -> Counts:
    """`(J,)`: members among the k highest and nonmembers among the k lowest, for each of `counts`.

    >>> right_guesses(np.array([True, False, True, False])).tolist()
    [2, 2]
    """
    guesses = counts(len(ranking))
    above = np.concatenate([[0], np.cumsum(ranking, dtype=np.int64)])
    below = np.concatenate([[0], np.cumsum(~ranking[::-1], dtype=np.int64)])
    return np.asarray(above[guesses] + below[guesses])


def excess(right: Counts, epsilon: float | Array, design: Design) -> Array:
    """`(..., J)` right guesses as standard normal deviates: signed roots of their deviance from `epsilon`, less half a guess.

    A top guess is right with log odds `epsilon + log(members / nonmembers)`, one at the bottom with `epsilon` less that.
    """
    guesses, lean = counts(design.scores).astype(np.float64), math.log(design.members / design.nonmembers)
    mean = np.maximum((right - 0.5) / guesses, 1e-12)  # of two guesses, one at either end
    turn = 2 * math.cosh(lean) * (1 - mean)  # their fitted odds solve (2 - mean) odds^2 + turn odds = mean
    # of the two forms of the root the one that subtracts nothing, whatever the sign of `turn`
    root = np.sqrt(turn**2 + 4 * mean * (2 - mean))
    log_ratio = np.log(np.where(mean < 1, 2 * mean / (np.abs(turn) + root), (np.abs(turn) + root) / (2 * (2 - mean))))
    deviance = mean * (log_ratio - epsilon)
    for sign in (1.0, -1.0):
        deviance -= np.logaddexp(0.0, log_ratio + sign * lean) - np.logaddexp(0.0, epsilon + sign * lean)
    return np.asarray(np.sign(log_ratio - epsilon) * np.sqrt(2 * guesses * np.maximum(deviance, 0.0)))


@functools.lru_cache(maxsize=128)
def simulate(design: Design, epsilon: float, delta: float, block: int) -> Counts:
    """`(rows, J)` right guesses in a block of draws of the least favourable pair; none falls as epsilon or delta grows."""
    return _right_guesses(design, epsilon, delta, block, None)


def _right_guesses(design: Design, epsilon: float, delta: float, block: int, rows: Counts | None) -> Counts:
    """Return the right guesses of all draws of a block, or of some."""
    guesses = counts(design.scores)
    cuts = np.concatenate([guesses, design.scores - guesses])
    if design.is_merged:
        cells, keys = merged_draws.block(design.members, design.nonmembers, block)
        if rows is not None:
            cells, keys = cells[rows], keys[rows]
        above = merged_draws.members_on_top(cells, keys, cuts, epsilon=epsilon, delta=delta)
    else:
        members, nonmembers = pair_draws.block(design.members, design.nonmembers, block)
        if rows is not None:
            members, nonmembers = members.only(rows), nonmembers.only(rows)
        curve = functools.partial(tradeoff.tpr_allowed, epsilon, delta)
        above = pair_draws.members_on_top(members, nonmembers, cuts, curve)
    in_top, in_rest = above[:, : len(guesses)], above[:, len(guesses) :]
    return np.asarray(in_top + guesses - (design.members - in_rest))
