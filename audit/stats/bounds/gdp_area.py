"""The area under the ROC as an exact test of mu-GDP: exact if nothing leaks, else the mean difference is integrated out.

The tail is the mean of `Phi((mu - D) / c)` over centred normal samples, `c^2 = 1/n1 + 1/n0` and D the difference of means at
which members win w pairs; some thousand draws of D serve every mu (docs/theory/independent-trials.md, "Area under the ROC").
"""

import functools
import math

import numpy as np
from scipy import special

from audit.stats.arrays import Array, Counts
from audit.stats.bounds import rank_sums, roots
from audit.stats.bounds.critical_ranks import LUCK, class_edges
from audit.stats.bounds.least_favourable import COARSEST, auc_mu, auc_scores, gdp_separation_ceiling, simulated_sums
from audit.stats.bounds.shifts import LIFT, Positions

DRAWS_OF_LEVEL = 160  # draws times the least level of a class: so many leave a fifteenth of the level unused
CHEAP = 1_000_000  # simulated scores that are always drawn
WORK = 32_000_000  # and at most
FEWEST = 16  # draws times level: with fewer the test is no better than that of pairs
STAKE = 0.98  # of a bet against a tail above the level; below 1, so that no draw ends it
GRID = 64  # cells to which D is rounded down, per standard error of the difference of means
TOGETHER = 1 << 19  # simulated scores at a time


def draws_for(members: int, nonmembers: int, significance: float) -> int:
    """Return how many draws a test takes, or 0 if too few fit into the work allowed."""
    count = _rows(members + nonmembers, class_edges(significance, COARSEST)[-1])
    return count if significance * count >= FEWEST else 0


def _rows(scores: int, edge: float) -> int:
    return int(min(max(DRAWS_OF_LEVEL / edge, CHEAP // scores), WORK // scores))


def bound(members: int, nonmembers: int, wins: int, significance: float) -> float:
    """Return the largest mu that so many wins of members against nonmembers refute; 0 if none is.

    Guarantee: exceeds the true mu with probability at most `significance`, for independent, identically distributed scores on
        each side, given the draws, but for a chance of `critical_ranks.LUCK` that the draws of these sizes lift the level.
        Above 0 exactly if the test of Mann and Whitney refutes.
    """
    exact = _shifted_null(members, nonmembers, wins, significance)
    if exact is None:
        return 0.0
    if wins == members * nonmembers:  # the smallest event of all, whose chance is known
        return max(exact, gdp_separation_ceiling(members, nonmembers, significance))
    crossings = _crossings(members, nonmembers, wins, _classes(members + nonmembers, significance)[-1][0])

    def rejects(mu: float) -> bool:
        return _rejects(crossings, mu, members, nonmembers, significance)

    return max(exact, roots.last_rejected(rejects, start=exact if rejects(exact) else 0.0, stride=0.25, largest=60.0))


@functools.lru_cache(maxsize=256)
def critical_wins(members: int, nonmembers: int, mu: float, significance: float) -> int:
    """Return the least number of wins that refutes mu-GDP: the test of `bound` at one point."""
    if mu <= 0:
        return rank_sums.critical_wins(members, nonmembers, significance)
    pairs = members * nonmembers

    def refutes(wins: int) -> bool:
        exact = _shifted_null(members, nonmembers, wins, significance)
        if exact is None or exact > mu:
            return exact is not None
        if wins == pairs:
            return gdp_separation_ceiling(members, nonmembers, significance) > mu
        crossings = _crossings(members, nonmembers, wins, _classes(members + nonmembers, significance)[-1][0])
        return _rejects(crossings, mu, members, nonmembers, significance)

    # each question costs a simulation: strides from the normal approximation double until both ends are known, then halve
    low, high = 0, pairs + 1
    error = math.sqrt(1 / members + 1 / nonmembers)
    guess = int(pairs * special.ndtr((mu - special.ndtri(significance) * error) / math.sqrt(2)))
    step = max(1, int(pairs * error / 50))
    while high - low > 1:
        place = guess if low < guess < high else (low + high) // 2
        if refutes(place):
            high, guess = place, place - step
        else:
            low, guess = place, place + step
        step *= 2
        if low > 0 and high <= pairs:
            guess = -1
    return high


def _shifted_null(members: int, nonmembers: int, wins: int, significance: float) -> float | None:
    """Return the mu up to which the exact tail if nothing leaks refutes alone (Neyman and Pearson); None if it does not refute
    0.
    """
    tail = rank_sums.tail(members, nonmembers, wins)
    if tail > significance:
        return None
    return math.sqrt(1 / members + 1 / nonmembers) * float(special.ndtri(significance) - special.ndtri(tail))


@functools.lru_cache(maxsize=256)
def _classes(scores: int, significance: float) -> tuple[tuple[int, float], ...]:
    """Pairs (draws, level), the test itself last; the others are what coarser tests ask at the least."""
    edges = class_edges(significance, COARSEST)
    return (*((_rows(scores, edge), edge) for edge in edges[:-1]), (_rows(scores, edges[-1]), significance))


def _rejects(crossings: Array, mu: float, members: int, nonmembers: int, significance: float) -> bool:
    """True if a gambler who bets against a mean tail above the level wins `1 / LUCK` times the stake, in every class."""
    tails = special.ndtr((mu - crossings) / math.sqrt(1 / members + 1 / nonmembers))
    return all(
        float(np.log1p(STAKE * (level - tails[:rows])).sum()) >= -math.log(LUCK)
        for rows, level in _classes(members + nonmembers, significance)
    )


@functools.lru_cache(maxsize=2)
def _residuals(members: int, nonmembers: int, rows: int) -> tuple[Positions, Positions]:
    """Centred normal samples, row by row, so that the first rows are those of fewer; the sizes fix the stream."""
    generator = np.random.default_rng([members, nonmembers, 1])
    draws = generator.standard_normal((rows, members + nonmembers), dtype=np.float32)
    sides = draws[:, :members], draws[:, members:]
    return sides[0] - sides[0].mean(axis=1, keepdims=True), sides[1] - sides[1].mean(axis=1, keepdims=True)


@functools.lru_cache(maxsize=64)
def _crossings(members: int, nonmembers: int, wins: int, rows: int) -> Array:
    """`(rows,)` least differences of means at which members win so many pairs, rounded down to a grid, by secant and
    bisection.
    """
    sides, cell = _residuals(members, nonmembers, rows), math.sqrt(1 / members + 1 / nonmembers) / GRID
    pairs, offset = members * nonmembers, members * (members - 1) // 2

    def reaches(at: Counts, rows_of_turn: Counts) -> Counts:
        """Wins beyond the number asked for, at cells of the grid, in some rows."""
        lead, step = np.empty(len(rows_of_turn), dtype=np.int64), max(1, TOGETHER // (members + nonmembers))
        for start in range(0, len(rows_of_turn), step):
            part = slice(start, start + step)
            shift = (at[part, None] * cell).astype(np.float32)
            sums = simulated_sums(
                sides[0][rows_of_turn[part]] + shift, sides[1][rows_of_turn[part]], auc_scores(members + nonmembers)
            )
            lead[part] = sums - offset - wins
        return lead

    # half a win, and .3 of a lost pair, keep the first guess finite if no or nearly all pairs are won
    typical = auc_mu(min(max(wins - 0.5, 0.5) / pairs, 1 - 0.3 / pairs))
    slope = pairs * cell * math.exp(-(typical**2) / 4) / math.sqrt(4 * math.pi)
    low, high = np.full(rows, -(1 << 40)), np.full(rows, 1 << 40)
    place, width, all_rows = np.full(rows, round(typical / cell)), np.ones(rows, dtype=np.int64), np.arange(rows)
    rows_of_turn = all_rows
    for turn in range(200):
        beyond = reaches(place[rows_of_turn], rows_of_turn)
        below = beyond < 0
        low[rows_of_turn] = np.where(below, place[rows_of_turn], low[rows_of_turn])
        high[rows_of_turn] = np.where(below, high[rows_of_turn], place[rows_of_turn])
        open_ended = (low[rows_of_turn] < -(1 << 39)) | (high[rows_of_turn] > 1 << 39)
        near = np.where(below, low[rows_of_turn] + width[rows_of_turn], high[rows_of_turn] - width[rows_of_turn])
        # two steps by the slope of the normal approximation come within a few cells in most rows; the others stride outwards,
        # twice as far each turn, until the crossing lies between two ends
        if turn < 2:
            near = place[rows_of_turn] - np.clip(np.rint((beyond + 0.5) / slope), -4 * GRID, 4 * GRID).astype(np.int64)
            near = np.where(near == place[rows_of_turn], near + np.where(below, 1, -1), near)
            open_ended |= (near > low[rows_of_turn]) & (near < high[rows_of_turn])
        else:
            width[rows_of_turn] *= 2
        place[rows_of_turn] = np.where(open_ended, near, (low[rows_of_turn] + high[rows_of_turn]) // 2)
        rows_of_turn = rows_of_turn[high[rows_of_turn] - low[rows_of_turn] > 1]
        if not len(rows_of_turn):
            break
    # members were moved up by LIFT and positions are rounded: the crossing is above the cell lead
    return np.asarray(low * cell - LIFT)
