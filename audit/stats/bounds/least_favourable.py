"""Exact tests of a whole trade-off function by any statistic that can only grow when members rank higher.

Under f-DP the position of a member's score among nonmembers, `V = P[nonmember >= score]`, has a distribution function
of at most `g = 1 - f`. So members are jointly outranked by the least favourable pair: nonmembers uniform, members drawn
from `g` itself. Any sum of rank scores over the members (the AUC, or likelihood ratios of a claimed curve) then has an exact
null, simulated here. The proof is in docs/statistics.md, section "Least favourable pair".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from audit.stats.bounds import roots
from audit.stats.bounds.binomial import rate_lower
from audit.stats.bounds.ranks import Memberships
from audit.stats.bounds.validation import Array, Counts
from audit.stats.curves.tradeoff_curves import Family, TradeoffCurve

FEWEST_RANK = 10  # simulations beyond the critical value: fewer make the bound jump with the seed
WORK = 2_000_000  # simulated scores in one test
REACH, CELLS = 8.0, 16_000  # of the look-up of `curve_shift`, in normal coordinates
FINEST = 2**30  # of rank scores: sums over 2^33 members still fit into 64 bits
STRIDE = 256.0  # between simulations laid out on one line; positions lie within +-100 of their simulation's origin


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Simulations:
    """Draws of the least favourable pair, in normal coordinates (higher = more member-like).

    Attributes:
        members: `(B, n1)` standard normal, each row ascending, to be shifted by the family's parameter.
        nonmembers: `(B, n0)` standard normal, each row ascending.
        ranks: pairs `(rows, rank)`: fewer than `rank` of the first `rows` draws may reach the observed statistic. The last
            pair is the test itself; the others are what coarser tests ask at the least.
    """

    members: Array
    nonmembers: Array
    ranks: tuple[tuple[int, int], ...]


def simulations_for(members: int, nonmembers: int, significance: float) -> int:
    """Return how many simulations a test at `significance` takes, or 0 where too few fit into the work allowed.

    The same number serves a decade of significances.
    """
    count = _rows(members + nonmembers, _decade(significance))
    return count if math.floor(significance * (count + 1)) >= FEWEST_RANK else 0


def _decade(significance: float) -> int:
    """1 for significances in [0.1, 1), 2 for [0.01, 0.1), and so on."""
    return max(1, math.ceil(-math.log10(significance) - 1e-9))


def _rows(scores: int, decade: int) -> int:
    """Draws for a decade: one short of a round number, so that `level * (count + 1)` is whole and no level is lost."""
    return int(min(20 * 10**decade, WORK // scores)) - 1


def simulate(members: int, nonmembers: int, significance: float, generator: np.random.Generator) -> Simulations:
    """Fresh draws for one test at `significance`.

    The draws of a coarser decade are the first of these, and what refutes here has to refute at the finest significance of
    every coarser decade, so that less significance never refutes more.
    """
    scores, decade = members + nonmembers, _decade(significance)
    decades = [*((_rows(scores, power), 10.0**-power) for power in range(1, decade)), (_rows(scores, decade), significance)]
    # filled row by row: the first rows are those of a shorter block from the same stream
    draws = generator.standard_normal((decades[-1][0], scores))
    return Simulations(
        members=np.sort(draws[:, :members], axis=1),
        nonmembers=np.sort(draws[:, members:], axis=1),
        ranks=tuple((count, math.floor(level * (count + 1) * (1 + 1e-12))) for count, level in decades),
    )


def wins(ranking: Memberships) -> int:
    """The number of (member, nonmember) pairs in which the member scores higher.

    >>> wins(np.array([True, False, True, False]))
    3
    """
    return int(np.cumsum(ranking, dtype=np.int64)[~ranking].sum(dtype=np.int64))


def auc_scores(count: int) -> Counts:
    """Rank scores whose sum over the members orders samples as the AUC does, from the lowest rank up."""
    return np.arange(count, dtype=np.int64)


def likelihood_scores(true: TradeoffCurve, near: TradeoffCurve, members: int, nonmembers: int) -> Counts:
    """Rank scores that are most telling between two curves, from the lowest rank up; whole numbers, so that sums are exact.

    The score of a rank is the logarithm of the ratio of the two curves' slopes over the share of the pooled sample that falls
    to that rank when `true` holds. The curves have to be fixed before the scores are seen.
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


def sum_of_scores(ranking: Memberships, scores: Counts) -> int:
    """The members' sum of rank scores (`scores` from the lowest rank up, `ranking` from the highest down)."""
    return int(scores[::-1][ranking].sum(dtype=np.int64))


def simulated_sums(member_rows: Array, nonmember_rows: Array, scores: Counts) -> Counts:
    """`(B,)` sums of the members' rank scores in each row; both arguments ascending along rows and within +-100."""
    count, size = nonmember_rows.shape
    offset = STRIDE * np.arange(count)[:, None]
    below = np.searchsorted((nonmember_rows + offset).ravel(), (member_rows + offset).ravel(), side="left")
    start = size * np.arange(count)[:, None]
    rank = below.reshape(member_rows.shape) - start + np.arange(member_rows.shape[1])
    return np.asarray(scores[rank].sum(axis=1))


def rank_bound(
    ranking: Memberships,
    shift: Callable[[float, Array], Array],
    scores: Counts,
    *,
    significance: float,
    generator: np.random.Generator,
    guess: float = 0.0,
    largest: float = 60.0,
    resolution: float = 1e-4,
) -> float:
    """The largest parameter of an ordered family that the members' sum of rank scores refutes; 0 where nothing is.

    Args:
        ranking: memberships by falling score.
        shift: `(parameter, members)` to the members' normal coordinates, ascending, non-decreasing in the parameter.
        scores: `(n,)` whole numbers, non-decreasing, from the lowest rank up; fixed beforehand.
        guess: a parameter that is probably refuted; only speeds up the search.

    Guarantee: exceeds the true parameter with probability at most `significance`, for independent, identically distributed
        scores on each side. At the true parameter the Monte-Carlo p-value `(1 + #{simulated >= observed}) / (B + 1)` is
        valid for any B, and one set of draws serves all parameters, so the refuted ones form an interval. That the first
        draws have to refute at a larger significance too makes it only more cautious.
    """
    draws = simulate(int(ranking.sum()), int((~ranking).sum()), significance, generator)
    rejects = _PruningTest(draws, shift, scores, sum_of_scores(ranking, scores)).rejects
    spread = 0.5 * math.sqrt(1 / draws.members.shape[1] + 1 / draws.nonmembers.shape[1])
    stride = 2.0 ** round(math.log2(spread))  # searches of a family then meet at the same parameters, whose curves are kept
    nearby = min(math.floor(guess / stride) * stride, largest)
    start = nearby if nearby > 0 and rejects(nearby) else 0.0
    stride = stride if start > 0 else 1.0
    return roots.last_rejected(rejects, start=start, stride=stride, largest=largest, resolution=resolution)


def critical_sum(
    shift: Callable[[float, Array], Array],
    parameter: float,
    scores: Counts,
    *,
    members: int,
    significance: float,
    generator: np.random.Generator,
) -> int:
    """The largest sum of the members' rank scores that does not refute `parameter`: the test of `rank_bound` at one point.

    It depends on no observation, so one simulation serves all samples of `members` among `len(scores)`.

    Guarantee: as `rank_bound`.
    """
    draws = simulate(members, len(scores) - members, significance, generator)
    sums = simulated_sums(shift(parameter, draws.members), draws.nonmembers, scores)
    # the rank-th largest draw: above it fewer than `rank` draws reach the sum, in every pair of `ranks`
    return max(int(np.partition(sums[:rows], rows - rank)[rows - rank]) for rows, rank in draws.ranks)


class _PruningTest:
    """The Monte-Carlo test over a search: each simulation is dropped as soon as the bracket decides about it.

    A simulated sum grows with the parameter. A simulation that reaches the observed sum at a refuted parameter does so at all
    that are still to be tried, and one that does not at a parameter that is kept never will.
    """

    def __init__(self, draws: Simulations, shift: Callable[[float, Array], Array], scores: Counts, statistic: int) -> None:
        self.members, self.nonmembers, self.ranks = draws.members, draws.nonmembers, draws.ranks
        self.shift, self.scores, self.statistic = shift, scores, statistic
        self.row, self.exceedances = np.arange(len(draws.members)), np.zeros(len(draws.ranks), dtype=np.int64)

    def rejects(self, parameter: float) -> bool:
        """True if `parameter` is refuted; to be called inside the bracket that earlier answers left."""
        reaches = simulated_sums(self.shift(parameter, self.members), self.nonmembers, self.scores) >= self.statistic
        counts = self.exceedances + np.array([int(reaches[self.row < rows].sum()) for rows, _ in self.ranks])
        refutes_claim = all(1 + count <= rank for count, (_, rank) in zip(counts.tolist(), self.ranks, strict=True))
        keep = ~reaches if refutes_claim else reaches
        if refutes_claim:
            self.exceedances = counts
        self.members, self.nonmembers, self.row = self.members[keep], self.nonmembers[keep], self.row[keep]
        return refutes_claim


def curve_shift(family: Family) -> Callable[[float, Array], Array]:
    """The `shift` of a family of curves: a member that ranks at quantile w of the curve moves to FPR `tpr^-1(w)`.

    Looked up on a fine grid and rounded towards more member-like, which can only reject less.
    """
    grid = np.linspace(-REACH, REACH, CELLS + 1)

    def shift(parameter: float, members: Array) -> Array:
        curve = family(parameter)
        fpr = 1 - curve.tnr(1 - special.ndtr(-grid))
        shifts = np.clip(-special.ndtri(np.clip(fpr, 0.0, 1.0)), -100.0, 100.0)
        cell = np.ceil((np.clip(members, -REACH, REACH) + REACH) * (CELLS / (2 * REACH))).astype(np.int64)
        return np.asarray(np.maximum.accumulate(shifts)[np.minimum(cell, CELLS)])

    return shift


def plainly_null(ranking: Memberships, scores: Counts, significance: float) -> bool:
    """True where the sum of scores is so unremarkable that a test need not be run (it is taken as not rejecting)."""
    members, count = int(ranking.sum()), len(ranking)
    deviations = scores - scores.mean()
    spread = math.sqrt(members * (count - members) / count * float(np.mean(deviations**2)))
    lead = sum_of_scores(ranking, scores) - members * float(scores.mean())
    return lead <= 0 or lead / spread < -float(special.ndtri(significance)) - 0.5


def gdp_shift(mu: float, members: Array) -> Array:
    """Members' positions under the mu-GDP curve."""
    return members + mu


def gdp_auc_bound(ranking: Memberships, *, significance: float, generator: np.random.Generator) -> float:
    """The largest mu such that the AUC refutes mu-GDP.

    Guarantee: as `rank_bound`.
    """
    scores = auc_scores(len(ranking))
    if plainly_null(ranking, scores, significance):
        return 0.0
    guess = mu_of_auc(auc_floor_guess(ranking, significance))
    return rank_bound(ranking, gdp_shift, scores, significance=significance, generator=generator, guess=guess)


def auc_floor_guess(ranking: Memberships, significance: float) -> float:
    """About the lower limit on the AUC, a little below: where a search may begin, without any guarantee."""
    members, nonmembers = int(ranking.sum()), int((~ranking).sum())
    auc_value = min(wins(ranking) / (members * nonmembers), 1 - 0.5 / (members * nonmembers))
    error = -float(special.ndtri(significance)) * math.sqrt(1 / members + 1 / nonmembers)
    return float(special.ndtr(special.ndtri(auc_value) - 0.85 * error))


def paired_auc_lower(ranking: Memberships, *, significance: float, generator: np.random.Generator) -> float:
    """A lower limit on the AUC from disjoint random pairs.

    Guarantee: exceeds the population's AUC with probability at most `significance` for independent, identically
        distributed scores: each disjoint pair is won with that probability, independently (Clopper-Pearson).
    """
    members, nonmembers = np.flatnonzero(ranking), np.flatnonzero(~ranking)
    pairs = min(len(members), len(nonmembers))
    # places from the highest score down: the smaller one wins
    wins_of_pairs = generator.permutation(members)[:pairs] < generator.permutation(nonmembers)[:pairs]
    return float(rate_lower(int(wins_of_pairs.sum()), pairs, significance))


def mu_of_auc(auc: float) -> float:
    """The mu whose curve has this area; 0 at or below one half.

    >>> round(mu_of_auc(0.7602499389065233), 9)
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
