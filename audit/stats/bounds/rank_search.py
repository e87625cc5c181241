"""The largest parameter of an ordered family that a sum of rank scores refutes, by simulations of the least favourable pair.

The sum of each draw grows with the parameter, so most draws are decided for all of a search from sums of few scores.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from audit.stats.arrays import Counts
from audit.stats.bounds import roots
from audit.stats.bounds.least_favourable import Place, Simulations, rank_score_sum, shifted_sums, simulate
from audit.stats.bounds.ranks import Memberships
from audit.stats.bounds.shifts import Shift

FIRST_ROWS = 2000  # simulations that only say where a search may begin
ROOM = 0.25  # logarithm of a share of the budget, by which these seldom err
FARTHEST = -8.0  # logarithm of a share of the budget that counts as none


def rank_bound(
    ranking: Memberships,
    shift: Shift,
    scores: Counts,
    *,
    significance: float,
    stream: int = 0,
    guess: float = 0.0,
    largest: float = 60.0,
    resolution: float = 1e-4,
) -> float:
    """The largest parameter of an ordered family that the members' sum of rank scores refutes; 0 if nothing is.

    Args:
        ranking: memberships by falling score.
        scores: `(n,)` whole numbers, non-decreasing, from the lowest rank up; fixed beforehand.
        guess: a parameter that is probably refuted; only speeds up the search.

    Guarantee: exceeds the true parameter with probability at most `significance`, for independent, identically distributed
        scores on each side, given the draws: their luck is paid for (`weighted_draws`). That the first draws have to refute at
        a larger significance too makes it only more cautious.
    """
    draws = simulate(int(ranking.sum()), int((~ranking).sum()), significance, stream, shift.encode)
    search = _Search(shift=shift, scores=scores, statistic=rank_score_sum(ranking, scores), largest=largest)
    spread = 0.5 * math.sqrt(1 / draws.members.shape[1] + 1 / draws.nonmembers.shape[1])
    low, high = guess - spread, guess + 2 * spread
    if len(draws.members) > FIRST_ROWS:
        first_draws = replace(
            draws,
            members=draws.members[:FIRST_ROWS],
            nonmembers=draws.nonmembers[:FIRST_ROWS],
            costs=draws.costs[-1:, :FIRST_ROWS],
            budgets=draws.budgets[-1:] * FIRST_ROWS // len(draws.members),
        )
        first = search.bracket(first_draws, low, high)
        reach = (first.high[0] - first.low[0]) * ROOM / max(first.high[1] - max(first.low[1], FARTHEST), ROOM)
        end = search.end(first, reach / 2)
        low, high = end - reach, end + 1.5 * reach
    return search.end(search.bracket(draws, low, high), resolution)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bracket:
    """A test to be asked inside a bracket alone, and its ends with the excess there: `low` is refuted and `high` is not, unless
    the whole range of a search is on one side.
    """

    test: "_PruningTest"
    low: roots.Point
    high: roots.Point


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Search:
    """The question that all draws are asked."""

    shift: Shift
    scores: Counts
    statistic: int
    largest: float

    def bracket(self, draws: Simulations, low: float, high: float) -> _Bracket:
        """Return this bracket, or if the end is not in it, a wider one beside it."""
        low, high = (min(max(end, 0.0), self.largest) for end in (low, high))
        test = _PruningTest(draws, self)
        test.narrow(low, high)
        above, below = test.excess(high), test.excess(low)
        wider = 4 * max(high - low, 1 / math.sqrt(len(self.scores)))
        if below > 0 and low > 0:
            return self.bracket(draws, low - wider, low)
        if above <= 0 and high < self.largest:
            return self.bracket(draws, high, high + wider)
        return _Bracket(test=test, low=(low, below), high=(high, above))

    def end(self, bracket: _Bracket, resolution: float) -> float:
        """Return what a search by halves from 0 on would find: where it is looked for first decides nothing."""
        if bracket.low[1] > 0 or bracket.high[1] <= 0:
            return bracket.low[0] if bracket.low[1] > 0 else bracket.high[0]
        rejects = roots.foresee(bracket.test.excess, resolution=resolution, inside=(bracket.low, bracket.high))
        return roots.last_rejected(rejects, largest=self.largest, resolution=resolution)


class _PruningTest:
    """The Monte-Carlo test over a search: each simulation is dropped as soon as the bracket decides about it."""

    def __init__(self, draws: Simulations, search: _Search) -> None:
        self.draws, self.scores, self.statistic = draws, search.scores, search.statistic
        self.place: Callable[[float], Place] = functools.lru_cache(maxsize=2)(search.shift.lifted)
        self.rows = np.arange(len(draws.members))  # that are not decided
        self.budget_use = np.zeros(len(draws.budgets), dtype=np.int64)

    def narrow(self, low: float, high: float) -> None:
        """Drop what coarse sums decide on a whole bracket; to be asked inside it alone from then on."""
        if group_size(self.draws.members.shape[1], self.draws.nonmembers.shape[1]) > 1:
            self._drop(coarse_sums(self.draws, self.place(high), self.scores, self.rows, upper=True) < self.statistic)
            reaches = coarse_sums(self.draws, self.place(low), self.scores, self.rows, upper=False) >= self.statistic
            self.budget_use = self._use(reaches)
            self._drop(reaches)

    def excess(self, parameter: float) -> float:
        """Return the logarithm of the ratio of what draws cost to the budget: at most 0 if `parameter` is refuted.

        To be called inside the bracket that earlier answers left.
        """
        draws = self.draws
        sums = shifted_sums(draws.members, draws.nonmembers, self.place(parameter), self.scores, self.rows)
        reaches = sums >= self.statistic
        use = self._use(reaches)
        worst = float(((use - draws.budgets) / np.maximum(draws.budgets, 1)).max())
        if worst <= 0:
            self.budget_use = use
        self._drop(reaches if worst <= 0 else ~reaches)
        return math.log1p(worst) if worst > -1 else -math.inf

    def _use(self, reaches: NDArray[np.bool_]) -> Counts:
        return np.asarray(self.budget_use + self.draws.costs[:, self.rows[reaches]].sum(axis=1))

    def _drop(self, settles: NDArray[np.bool_]) -> None:
        self.rows = self.rows[~settles]


def group_size(members: int, nonmembers: int) -> int:
    """Return how many neighbours of a side `coarse_sums` takes together: about half a sum's standard deviation is left open.

    >>> group_size(500, 500), group_size(500, 40)
    (4, 1)
    """
    return max(1, round(math.sqrt(min(members, nonmembers)) / 5.6))


def coarse_sums(draws: Simulations, place: Place, scores: Counts, rows: Counts, *, upper: bool) -> Counts:
    """Bounds on `shifted_sums` in less time: neighbours stand together where it raises the sum most, or lowers it most."""
    sides, count = (draws.members.shape[1], draws.nonmembers.shape[1]), len(scores)
    size = group_size(*sides)
    over, under = sides[0] % size, sides[1] % size  # they stand at an end of the ranking
    if upper:
        members, nonmembers = draws.members[:, size - 1 :: size], draws.nonmembers[:, under::size]
        between, outside = scores[under : count - over], scores[count - over :]
    else:
        members, nonmembers = draws.members[:, over::size], draws.nonmembers[:, size - 1 :: size]
        between, outside = scores[over : count - under], scores[:over]
    return int(outside.sum()) + shifted_sums(members, nonmembers, place, between.reshape(-1, size).sum(axis=1), rows)
