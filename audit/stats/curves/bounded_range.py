"""Adaptive composition of exponential mechanisms: the worst delta of mechanisms of bounded range, from both sides.

A mechanism of range `epsilon` has its loss in `[t - epsilon, t]` for some t in `[0, epsilon]`, and the pair with just those
two losses dominates it; the exponential mechanism attains every such pair. With `x = exp(budget)`, the worst delta of k
mechanisms, each chosen after seeing the outcomes before it, is `H_k(x) = max over t of E_P[H_(k-1)(x exp(-loss))]` with
`H_0(x) = max(0, 1 - x)`. Each `H_k` is convex and does not increase. On a grid of the budget that holds every t tried, the
lower side is exact for the best strategy among those t. The upper side bounds the maximum between two grid points by
replacing `H` there by its chord, which is above a convex function: the maximum is then a formula.

References: Dong, Durfee, Rogers 2020, arXiv 1909.13830. Durfee, Rogers 2019, arXiv 1905.04273 (bounded range).
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit.stats.arrays import Array

MOST_STEPS = 3000
_FEWEST, _MOST_CELLS = 12, 1500  # grid cells per epsilon
_BISECTIONS = 7


def epsilon_bracket(epsilon: float, count: int, delta: float, *, reach: float, work: float = 1e8) -> tuple[float, float]:
    """Lower and upper end of the epsilon at `delta` of `count` exponential mechanisms, adaptively composed.

    Args:
        epsilon: of each mechanism, at its usual scale; above 0.
        count: from 1 to `MOST_STEPS`.
        reach: an epsilon that is known to be enough.
        work: cells of the recursion that are evaluated; the width of the bracket falls with it.

    Guarantee:
        lower <= epsilon of the worst adaptive composition <= upper, up to floating-point rounding. Ends that cross are
        returned as they are: the caller has to refuse them.

    >>> low, high = epsilon_bracket(1.0, 1, 1e-6, reach=1.0)
    >>> 0.998 < low <= high <= 1.0
    True
    """
    reach = min(reach, count * epsilon)
    end = min(reach + 3 * math.sqrt(count) * epsilon, count * epsilon)  # beyond it little delta is left
    problem = _Problem(epsilon=epsilon, count=count, reach=end, work=work)
    high = _first_within(problem.budgets, _run(problem, problem.budgets, upper=True), delta, reach)
    low = max(_last_beyond(problem, delta, high), fixed_epsilon(epsilon, count, delta))
    return low, high


@dataclass(frozen=True, slots=True, kw_only=True)
class _Problem:
    """`count` mechanisms of range `epsilon`, on a grid of budgets that ends at `reach`."""

    epsilon: float
    count: int
    reach: float
    work: float

    @property
    def _below(self) -> float:
        """Return how far the grid goes below 0, in epsilons."""
        return min(self.count, 4 + 6 * math.sqrt(self.count))

    @property
    def cells(self) -> int:
        """Grid cells per epsilon."""
        spans = self._below + self.reach / self.epsilon
        return int(min(max(math.sqrt(self.work / (self.count * spans)), _FEWEST), _MOST_CELLS))

    @property
    def step(self) -> float:
        return self.epsilon / self.cells

    @property
    def budgets(self) -> Array:
        first, last = math.ceil(self._below * self.cells), math.ceil(self.reach / self.epsilon * self.cells)
        return np.asarray(np.arange(-first, last + 1) * self.step, dtype=np.float64)


def fixed_epsilon(epsilon: float, count: int, delta: float) -> float:
    """A proven lower end: the worst of `count` equal mechanisms chosen beforehand, over a list of loss pairs.

    References: Dong, Durfee, Rogers 2020, arXiv 1909.13830, Lemma 3.2 (the composition of equal pairs is binomial).
    """
    from scipy.stats import binom  # here, because it takes a second that most accountants' tests do not need

    top = epsilon * (0.5 + 0.5 * np.linspace(-1, 1, 161) / math.sqrt(min(count, 400)))  # the loss t, near the middle for many
    if count < 400:
        top = np.union1d(top, epsilon * np.linspace(0.005, 0.995, 199))
        top = np.union1d(top, epsilon * (1 - np.geomspace(1e-9, 0.3, 80)))  # the rarer, the nearer to epsilon
    falls = np.arange(count + 1) if count <= MOST_STEPS else _bulk(count)
    rare = (math.exp(epsilon) - np.exp(top)) / math.expm1(epsilon)
    masses = np.exp(binom.logpmf(falls, count, 1 - rare[:, None]))
    losses = count * top[:, None] - falls * epsilon

    def worst(budget: float) -> float:
        return float(np.max(np.sum(masses * np.maximum(0.0, -np.expm1(np.minimum(budget - losses, 0.0))), axis=1)))

    low, high = 0.0, count * epsilon
    if worst(0.0) <= delta:
        return 0.0
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if worst(middle) > delta else (low, middle)
    return low


def _bulk(count: int) -> NDArray[np.int64]:
    """Counts within forty standard deviations of half: what is left out can only lower a lower end."""
    width = math.ceil(20 * math.sqrt(count))
    return np.arange(max(0, count // 2 - width), min(count, count // 2 + width) + 1)


def _last_beyond(problem: _Problem, delta: float, high: float) -> float:
    """The largest budget found at which some strategy on the grid still has more than `delta`."""
    budgets, step = problem.budgets, problem.step
    first, right = max(math.floor(high / step) - 2, 0) * step, high
    beyond = 0.0
    for turn in range(_BISECTIONS + 1):
        budget = first if turn == 0 else (first + right) / 2
        place = int(np.argmin(np.abs(budgets - budget)))
        grid = budgets - budgets[place] + budget  # the grid moved so that the budget is on it
        if _run(problem, grid, upper=False)[place] > delta:
            first = beyond = budget
        elif turn == 0:  # a coarse grid: further to the left
            first, right = max(first - 8 * step, 0.0), first
        else:
            right = budget
    return beyond


def _first_within(budgets: Array, worst: Array, delta: float, reach: float) -> float:
    """Return where the chord of the worst delta falls to `delta`."""
    if worst[0] <= delta:
        return 0.0
    sufficient = np.flatnonzero(worst <= delta)
    if len(sufficient) == 0:
        return reach
    place = int(sufficient[0])
    x_low, x_high = math.exp(budgets[place - 1]), math.exp(budgets[place])
    share = (worst[place - 1] - delta) / (worst[place - 1] - worst[place])
    return min(max(math.log(x_low + share * (x_high - x_low)), 0.0), reach)


def _run(problem: _Problem, budgets: Array, *, upper: bool) -> Array:
    """`H_count` at every budget, from above or from below."""
    epsilon, cells = problem.epsilon, problem.cells
    x = np.exp(budgets)
    worst: Array = np.maximum(0.0, -np.expm1(budgets))
    shares = np.exp(-np.arange(cells + 1) * problem.step)  # u = exp(-t)
    likely = (math.exp(epsilon) - 1 / shares) / math.expm1(epsilon)  # P-mass of the loss t
    for _ in range(problem.count):
        wide = _pad(worst, x, budgets, cells, upper=upper)
        worst = _from_above(wide, shares, epsilon, cells) if upper else _from_below(wide, likely, cells)
    return worst


def _pad(worst: Array, x: Array, budgets: Array, cells: int, *, upper: bool) -> Array:
    """The function continued by `cells` grid points on either side, from above or from below."""
    step = budgets[1] - budgets[0]
    first = np.exp(budgets[0] - step * np.arange(cells, 0, -1))
    start = 1 - first * (1 - worst[0]) / x[0] if upper else 1 - first  # the chord from H(0) = 1
    # H does not increase: its last value bounds all further ones from above, 0 from below
    end = np.full(cells, worst[-1] if upper else 0.0)
    return np.concatenate([start, worst, end])


def _from_below(wide: Array, likely: Array, cells: int) -> Array:
    size = len(wide) - 2 * cells
    best = np.zeros(size)
    for place in range(cells + 1):
        high, low = wide[cells - place :][:size], wide[2 * cells - place :][:size]  # after the losses t and t - epsilon
        np.maximum(best, likely[place] * high + (1 - likely[place]) * low, out=best)
    return best


def _from_above(wide: Array, shares: Array, epsilon: float, cells: int) -> Array:
    """The maximum over `u` of `p(u) H(x u) + (1 - p(u)) H(x u exp(epsilon))`, with chords for H within each cell.

    `p(u) = (exp(epsilon) - 1/u) / (exp(epsilon) - 1)`, so with chords `a + b u` the sum is `constant + slope u - pole / u`.
    """
    size = len(wide) - 2 * cells
    gain, loss = math.exp(epsilon) / math.expm1(epsilon), 1 / math.expm1(epsilon)
    best = np.zeros(size)
    for place in range(cells):
        big, small = shares[place], shares[place + 1]
        ends = []
        for offset in (cells, 2 * cells):
            at_big, at_small = wide[offset - place :][:size], wide[offset - place - 1 :][:size]
            slope = (at_big - at_small) / (big - small)
            ends.append((at_small - slope * small, slope))
        (rise, tilt), (base, lean) = ends
        # p = gain - loss / u and 1 - p = loss / u - loss
        constant = gain * rise - loss * tilt - loss * base + loss * lean
        linear = gain * tilt - loss * lean
        pole = loss * (rise - base)
        with np.errstate(divide="ignore", invalid="ignore"):
            turning = np.sqrt(np.maximum(-pole / linear, 0.0))
        u = np.clip(np.where(np.isfinite(turning), turning, big), small, big)
        for point in (u, big, small):
            np.maximum(best, constant + linear * point - pole / point, out=best)
    return best
