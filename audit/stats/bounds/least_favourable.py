"""Exact tests of a whole trade-off function by any statistic that can only grow when members rank higher.

Members are jointly outranked by the least favourable pair, nonmembers uniform and members drawn from `g = 1 - f`, so any sum
of rank scores over the members has an exact null, simulated here (docs/theory/independent-trials.md, "Least favourable pair").
"""

import copy
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from audit.stats.arrays import Array, Counts
from audit.stats.bounds import roots
from audit.stats.bounds.binomial import rate_lower
from audit.stats.bounds.critical_ranks import Limits, class_edges, costs_of, draws_for, move_apart
from audit.stats.bounds.ranks import Memberships
from audit.stats.bounds.shifts import CELLS, LIFT, REACH, Encoding, GdpShift, Positions, Shift
from audit.stats.curves.tradeoff import TradeoffCurve

FEWEST_BEYOND = 40  # with fewer the bound of the simulation is no better than that of pairs
COARSEST = 0.1  # significance; each class of significances reaches down to half of the one before
WORK, MOST_WORK = 24_000_000, 120_000_000  # simulated scores in one test, and if it has few draws beyond its level
TOGETHER = 1 << 16  # simulated scores ranked at a time, which stay in a core's cache
FIRST_OF_POINT = 1000  # draws that decide most tests at one point; half as many more as long as they do not
Place = Callable[[NDArray[Any]], Positions]  # of encoded members
_Arrays = tuple[NDArray[Any], NDArray[np.float32], Array]
FINEST = 2**30  # of rank scores: sums over 2^33 members still fit into 64 bits


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Simulations:
    """Draws of the least favourable pair, in normal coordinates (higher = more member-like).

    Attributes:
        members: `(B, n1)` standard normal draws, ascending along rows, or what a `Shift` encodes of them.
        nonmembers: `(B, n0)` standard normal, ascending along rows.
        costs: `(limits, B)`, of a draw that reaches the observed sum; the last limit is the test itself, the others are what
            coarser tests ask at the least.
        budgets: `(limits,)` what those draws may cost together where the sum refutes.
    """

    members: NDArray[Any]
    nonmembers: NDArray[np.float32]
    costs: Counts
    budgets: Counts


def simulations_for(members: int, nonmembers: int, significance: float) -> int:
    """Return how many simulations a test at `significance` takes, or 0 if too few fit into the work allowed.

    The same number serves a class of significances.
    """
    count = _rows(members + nonmembers, class_edges(significance, COARSEST)[-1])
    return count if significance * count >= FEWEST_BEYOND else 0


def _rows(scores: int, edge: float) -> int:
    return draws_for(edge, scores, work=WORK, most_work=MOST_WORK) // 2 * 2  # pairs of a plain and a moved draw


def simulate(
    members: int, nonmembers: int, significance: float, stream: int = 0, encode: Encoding = GdpShift.encode
) -> Simulations:
    """Return the draws for one test, from a stream that the numbers of scores fix: no caller can draw again."""
    limits = limits_for(members + nonmembers, significance)
    encoded, others, weights = _draws(encode, members, nonmembers, stream).make_rows(limits[-1][0])
    costs, budgets = costs_of(weights, limits)
    return Simulations(members=encoded, nonmembers=others, costs=costs, budgets=budgets)


def limits_for(scores: int, significance: float) -> Limits:
    """Return pairs (rows, level): by its first rows, each test has to refute at its level, so that less significance never
    refutes more.
    """
    edges = class_edges(significance, COARSEST)
    return (*((_rows(scores, edge), edge) for edge in edges[:-1]), (_rows(scores, edges[-1]), significance))


def largest_kept(sums: Counts, costs: Counts, budgets: Counts) -> int:
    """Return the largest sum that does not refute: the draws that reach it cost more than one of the budgets; -1 for none."""
    order = np.argsort(-sums, kind="stable")
    sums_of_costs = np.cumsum(costs[:, order], axis=1)
    places = [int(np.searchsorted(row, budget, side="right")) for row, budget in zip(sums_of_costs, budgets, strict=True)]
    return int(np.append(sums[order], -1)[min(places)])


class _Draws:
    """Encoded members and nonmembers with the weights of the draws, made as they are needed."""

    def __init__(self, encode: Encoding, members: int, nonmembers: int, stream: int) -> None:
        self._encode, self._members, self._scores = encode, members, members + nonmembers
        encoded = np.empty((0, members), dtype=encode(np.zeros(1, dtype=np.float32)).dtype)
        arrays: _Arrays = encoded, np.empty((0, nonmembers), dtype=np.float32), np.empty(0)
        # one value, with the generator that goes on: neither an interrupt nor another thread parts them
        self._state = arrays, np.random.default_rng([members, nonmembers, stream])

    def make_rows(self, rows: int) -> _Arrays:
        """Return so many rows, the same whatever was asked before."""
        arrays, generator = self._state
        length, step = len(arrays[2]), max(1, TOGETHER // self._scores)
        if length < rows:
            generator = copy.deepcopy(generator)
            members, nonmembers, weights = longer = tuple(
                np.empty((rows, *part.shape[1:]), dtype=part.dtype) for part in arrays
            )
            for part, shorter in zip(longer, arrays, strict=True):
                part[:length] = shorter
            for start in range(length, rows, step):
                draws = generator.standard_normal((min(step, rows - start), self._scores), dtype=np.float32)
                block = slice(start, start + len(draws))
                weights[block] = move_apart(draws, self._members, start)
                own, others = draws[:, : self._members], draws[:, self._members :]
                own.sort(axis=1)
                others.sort(axis=1)
                members[block], nonmembers[block] = self._encode(own), others
            arrays = members, nonmembers, weights
            self._state = arrays, generator
        members, nonmembers, weights = arrays
        return members[:rows], nonmembers[:rows], weights[:rows]


_draws = functools.lru_cache(maxsize=2)(_Draws)  # of the audit, and of its negative control


def wins(ranking: Memberships) -> int:
    """The number of (member, nonmember) pairs in which the member scores higher.

    >>> wins(np.array([True, False, True, False]))
    3
    """
    return int(np.cumsum(ranking, dtype=np.int64)[~ranking].sum(dtype=np.int64))


def auc_scores(count: int) -> Counts:
    """Rank scores with a sum over the members that orders samples as the AUC does, from the lowest rank up."""
    return np.arange(count, dtype=np.int64)


def likelihood_scores(true: TradeoffCurve, near: TradeoffCurve, members: int, nonmembers: int) -> Counts:
    """Rank scores that are most telling between two curves, from the lowest rank up; whole numbers, so that sums are exact.

    They are logarithms of the ratio of slopes at the share of the pooled sample of each rank under `true`; fixed beforehand.
    """
    count = members + nonmembers
    grid = special.ndtr(np.linspace(-REACH, REACH, CELLS + 1))
    mixture = (nonmembers * grid + members * np.clip(true.tpr(grid), 0.0, 1.0)) / count
    fpr = np.interp(np.arange(count + 1) / count, mixture, grid)
    steps = [np.maximum(np.diff(np.clip(curve.tpr(fpr), 0.0, 1.0)), 1e-15) for curve in (true, near)]
    # the theorem wants scores that do not fall with the rank; slopes of discretised curves may
    ratio = np.maximum.accumulate((np.log(steps[0]) - np.log(steps[1]))[::-1])  # the first cell is the highest rank
    spread = float(ratio[-1] - ratio[0])
    if not spread > 0:
        return auc_scores(count)
    return np.asarray(np.rint((ratio - ratio[0]) / spread * FINEST), dtype=np.int64)


def rank_score_sum(ranking: Memberships, scores: Counts) -> int:
    """The members' sum of rank scores (`scores` from the lowest rank up, `ranking` from the highest down)."""
    return int(scores[::-1][ranking].sum(dtype=np.int64))


def simulated_sums(member_rows: Positions, nonmember_rows: Positions, scores: Counts) -> Counts:
    """`(B,)` sums of the members' rank scores in each row; positions are rounded to float32, so that members only rise."""
    return _lifted_sums(member_rows + np.float32(LIFT), nonmember_rows, _digits(scores, member_rows.shape[1]))


def _digits(scores: Counts, members: int) -> tuple[NDArray[np.float32], Array]:
    """Return digits of whole numbers, `(n, digits)`, of which float32 sums those of all members exactly, and their weights."""
    width = max(1, 24 - members.bit_length())
    shifts = np.arange(0, max(1, int(scores.max()).bit_length()), width)
    return ((scores[:, None] >> shifts) & ((1 << width) - 1)).astype(np.float32), np.ldexp(1.0, shifts)


def _lifted_sums(member_rows: Positions, nonmember_rows: Positions, digits: tuple[NDArray[np.float32], Array]) -> Counts:
    """`(B,)` sums as of `simulated_sums`, of scores by `_digits`.

    The last bit of each position marks a member, so that one sort of all positions ranks the members.
    """
    members, (by_digit, weights) = member_rows.shape[1], digits
    positions = np.concatenate([member_rows, nonmember_rows], axis=1, dtype=np.float32)
    bits = positions.view(np.int32)
    bits[:, :members] |= 1
    bits[:, members:] &= ~1
    positions.sort(axis=1)  # by vectors: faster than merging sides that were sorted before
    bits &= 1
    bits *= np.float32(1).view(np.int32)  # 1.0 where a member is, without a copy
    return np.asarray(((positions @ by_digit).astype(np.float64) @ weights).astype(np.int64))


def shifted_sums(members: NDArray[Any], nonmembers: NDArray[np.float32], place: Place, scores: Counts, rows: Counts) -> Counts:
    """`(len(rows),)` sums of some rows of encoded draws, where a shift places them, some at a time."""
    digits = _digits(scores, members.shape[1])
    step, sums = max(1, TOGETHER // len(scores)), np.empty(len(rows), dtype=np.int64)
    for start in range(0, len(sums), step):
        some = rows[start : start + step]
        sums[start : start + step] = _lifted_sums(place(members[some]), nonmembers[some], digits)
    return sums


class PointTest:
    """The test of `rank_search.rank_bound` at one parameter, for all samples of these sizes; draws are made as they are needed.

    Guarantee: as `rank_search.rank_bound`.
    """

    def __init__(
        self, shift: Shift, parameter: float, scores: Counts, *, members: int, significance: float, stream: int = 0
    ) -> None:
        self._limits = limits_for(len(scores), significance)
        self._at = shift, parameter, scores
        self._draws = shift.encode, members, len(scores) - members, stream
        self._sums, self._critical = np.empty(0, dtype=np.int64), -1  # of the draws made, and the largest sum that they keep

    def refutes(self, statistic: int) -> bool:
        """True if the members' sum of rank scores refutes the parameter."""
        rows = self._limits[-1][0]
        while statistic > self._critical and len(self._sums) < rows:
            self._draw(min(rows, max(FIRST_OF_POINT, len(self._sums) * 3 // 2)))
        return statistic > self._critical

    def critical_sum(self, significance: float | None = None) -> int:
        """Return the largest sum that does not refute, by all draws; at a larger significance if one is given."""
        weights = self._draw(self._limits[-1][0])
        limits = self._limits if significance is None else limits_for(len(self._at[2]), significance)
        rows = limits[-1][0]
        return largest_kept(self._sums[:rows], *costs_of(weights[:rows], limits))

    def _draw(self, rows: int) -> Array:
        """Go on to so many draws; their weights."""
        members, nonmembers, weights = _draws(*self._draws).make_rows(rows)
        shift, parameter, scores = self._at
        new = np.arange(len(self._sums), rows)
        self._sums = np.append(self._sums, shifted_sums(members, nonmembers, shift.lifted(parameter), scores, new))
        self._critical = largest_kept(self._sums, *costs_of(weights, self._limits))
        return weights


def plainly_null(ranking: Memberships, scores: Counts, significance: float) -> bool:
    """True if the sum of scores is so unremarkable that a test need not be run (it is taken as not rejecting)."""
    members, count = int(ranking.sum()), len(ranking)
    deviations = scores - scores.mean()
    spread = math.sqrt(members * (count - members) / count * float(np.mean(deviations**2)))
    lead = rank_score_sum(ranking, scores) - members * float(scores.mean())
    return lead <= 0 or lead / spread < -float(special.ndtri(significance)) - 0.5


def auc_floor_guess(ranking: Memberships, significance: float) -> float:
    """About the lower limit on the AUC, a little below: where a search may begin, without any guarantee."""
    members, nonmembers = int(ranking.sum()), int((~ranking).sum())
    auc_value = min(wins(ranking) / (members * nonmembers), 1 - 0.5 / (members * nonmembers))
    error = -float(special.ndtri(significance)) * math.sqrt(1 / members + 1 / nonmembers)
    return float(special.ndtr(special.ndtri(auc_value) - 0.85 * error))


def paired_auc_lower(members: Array, nonmembers: Array, *, significance: float) -> float:
    """A lower limit on the AUC from disjoint pairs, each member with the nonmember in the same row.

    Guarantee: exceeds the population's AUC with probability at most `significance` for independent, identically distributed
        scores in an order that does not depend on them: pairs are independent, and ties lost (Clopper-Pearson).
    """
    pairs = min(len(members), len(nonmembers))
    return float(rate_lower(int((members[:pairs] > nonmembers[:pairs]).sum()), pairs, significance))


def auc_mu(auc: float) -> float:
    """The mu of the curve with this area; 0 at or below one half.

    >>> round(auc_mu(0.7602499389065233), 9)
    1.0
    """
    return max(0.0, math.sqrt(2) * float(special.ndtri(auc)))


def gdp_separation_ceiling(members: int, nonmembers: int, significance: float) -> float:
    """The mu under which perfect separation of both sides has chance `significance`."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    top = 10.0 * nodes  # the highest nonmember, on [-10, 10]
    log_density = math.log(nonmembers) - top**2 / 2 - math.log(2 * math.pi) / 2 + (nonmembers - 1) * special.log_ndtr(top)

    def rejects(mu: float) -> bool:
        chance = 10.0 * float(np.sum(weights * np.exp(log_density + members * special.log_ndtr(mu - top))))
        return chance <= significance

    return roots.last_rejected(rejects, largest=60.0)
