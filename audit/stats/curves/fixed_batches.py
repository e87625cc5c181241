"""Batches of fixed size under replace-one, composed: steps that choose the worst triple as they see what was released.

Proof: docs/theory/accounting.md, "Batches of fixed size".
"""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from audit.stats.arrays import Array
from audit.stats.curves import discretise, loss_pairs, record_triples
from audit.stats.curves.adaptive_composition import Kernel, Programme, kernel
from audit.stats.curves.loss_pairs import subsampled_gaussian
from audit.stats.curves.record_triples import Gram

_TAIL = 1e-6  # of delta, over the steps
_BELOW = 3.0  # log a below which everything is taken for certain
_MOMENTS = (0.1, 0.4, 0.8)  # shares of the steps to come, at which cells are weighed
_NEGLIGIBLE = 0.1  # of delta: what is smaller decides nothing
_NEARBY = 0.35  # of epsilon: log a this far from the share of epsilon that the steps to come are due is what decides
_QUARTER = math.pi / 2
_LEAST_NOISE = 0.1  # below it rectangles are too many
_PATIENT = 1e-4  # relative width below which there is time for
_MOST_WORK, _PATIENT_WORK, _QUICK_WORK = 1e8, 3e9, 1e5  # numbers
_FEW_CELLS, _MOST_CELLS = 300, 4000
_EXCESS = 0.1  # of delta, that triples beside the two of the ends may cost


def closer(
    ends: tuple[float, float], noise: float, rate: float, steps: int, delta: float, *, tolerance: float
) -> tuple[float, float]:
    """Ends of a bracket on epsilon, moved together if steps may choose and that is worth the time.

    Args:
        tolerance: relative width that is wanted; below 1e-4 the search takes minutes, else seconds at most.
    """
    low, high = ends
    if steps < 2 or not 0 < rate < 1 or noise < _LEAST_NOISE or not math.isfinite(high) or high - low <= tolerance * high:
        return ends
    patient = tolerance < _PATIENT
    from_below = BatchSetting(
        noise=noise, rate=rate, steps=steps, delta=delta, epsilon_limit=high, density=64.0 if patient else 32.0
    )
    if from_below.work <= (_MOST_WORK if patient else _MOST_WORK / 16):
        low = max(low, min(lower(from_below), high))
    from_above = replace(from_below, density=16.0, width=0.06 if patient else 0.1)
    if from_above.work <= (_MOST_WORK if patient else _QUICK_WORK):
        cells = min(max(int(_PATIENT_WORK / from_above.work), _FEW_CELLS), _MOST_CELLS) if patient else _FEW_CELLS
        high = min(high, max(low, upper(from_above, most_cells=cells, tolerance=_EXCESS)))
    return low, high


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSetting:
    """A composed mechanism and how finely it is looked at.

    Attributes:
        noise: standard deviation over the norm bound of one record.
        rate: batch size over population, in (0, 1).
        epsilon_limit: epsilon that is not exceeded, as known from elsewhere.
        density: grid points per standard deviation of one step's loss.
        width: of a rectangle of the plane, in units of the noise.
    """

    noise: float
    rate: float
    steps: int
    delta: float
    epsilon_limit: float
    density: float = 16.0
    width: float = 0.1

    @property
    def step(self) -> float:
        """Width of the grid of losses."""
        return loss_pairs.loss_std(self.noise / 2, self.rate) / self.density

    @property
    def span(self) -> tuple[int, int]:
        """First and last grid index of `log a`."""
        return -math.ceil(_BELOW / self.step), math.ceil((1.5 * self.epsilon_limit + 1) / self.step)

    @property
    def work(self) -> float:
        """About how many numbers one kernel goes through."""
        return self.steps * float(self.span[1] - self.span[0])

    @property
    def tail(self) -> float:
        """Mass of one step that is not resolved."""
        return max(_TAIL * self.delta / self.steps, 1e-250)

    def programme(self, kernels: Sequence[Kernel], sign: int) -> Programme:
        return Programme(kernels, step=self.step, start=self.span[0], stop=self.span[1], sign=sign)

    def ends(self, sign: int) -> list[Kernel]:
        """The two triples in which the displaced record coincides with one of the others, from the side of `sign`."""
        log_tail = math.log(self.tail)
        pairs = [subsampled_gaussian(self.noise / 2, self.rate, way, log_tail=log_tail) for way in ("remove", "add")]
        grids = [(discretise.upper if sign > 0 else discretise.lower)(pair, self.step) for pair in pairs]
        return [kernel(grid, sign, self.tail) for grid in grids]


def lower(setting: BatchSetting) -> float:
    """An epsilon that is attained: each step takes the worse of two triples, after seeing what was released."""
    programme = setting.programme(setting.ends(-1), -1)
    for _ in range(setting.steps):
        programme.advance()
    return programme.epsilon(setting.delta)


def upper(setting: BatchSetting, *, most_cells: int, tolerance: float) -> float:
    """An epsilon that is not exceeded: each step takes the worst of triples that together dominate all there are.

    Args:
        tolerance: by what share of delta the steps may be dearer than with the two triples of `lower`.
    """
    programme = setting.programme(joined_kernels(setting, cover(setting, most_cells, tolerance), tolerance), 1)
    for _ in range(setting.steps):
        programme.advance()
    return programme.epsilon(setting.delta)


# angles at the record and at its replacement, of triangles that are inscribed into the unit circle
Box = tuple[tuple[float, float], tuple[float, float]]
# by what share of delta a kernel may be dearer than the two of the ends, the kernel, and whose triangles it dominates
Cell = tuple[float, Kernel, Box]


def dominating_triple(box: Box, noise: float) -> Gram | None:
    """A triple that dominates all triangles of a box, None if it holds none.

    The inner products of the sides are monotone in the angles, so each is between two ends. Raising the squares by what the
    product may be off leaves a difference that is positive semidefinite, for any balance between the two.
    """
    (first_low, first_high), (second_low, second_high) = box
    if first_high + second_high < _QUARTER:
        return None
    third_low = max(0.0, math.pi - first_high - second_high)
    third_high = min(_QUARTER, math.pi - first_low - second_low)
    if third_low > third_high:
        return None
    member_square, other_square = 4 * math.sin(second_high) ** 2, 4 * math.sin(first_high) ** 2
    largest = 4 * math.sin(second_high) * math.sin(first_high) * math.cos(third_low)
    smallest = 4 * math.sin(second_low) * math.sin(first_low) * max(0.0, math.cos(third_high))
    slack = (largest - smallest) / 2
    balance = math.exp(min(max((other_square - member_square) / (2 * noise**2), -20.0), 20.0))
    scale = (1 + 1e-12) / noise**2
    return Gram(
        member=(member_square + slack * balance) * scale,
        replacement=(other_square + slack / balance) * scale,
        product=(largest + smallest) / 2 / noise**2,
    )


def cover(setting: BatchSetting, most_cells: int, tolerance: float) -> list[Cell]:
    """Kernels that together dominate every triple, finest if they are dearer than the two of the ends."""
    scale = Scale(setting)
    halves = ((0.0, _QUARTER / 2), (_QUARTER / 2, _QUARTER))
    queue: list[tuple[float, int, Kernel, Box]] = []
    trials = 0
    pending: list[Box] = list(product(halves, halves))
    while True:
        for box in pending:
            gram = dominating_triple(box, setting.noise)
            if gram is None:
                continue
            trials += 1
            choice = record_triples.above(gram, setting.rate, step=setting.step, tail=setting.tail, width=setting.width)
            heapq.heappush(queue, (-scale.excess(choice), trials, choice, box))
        if -queue[0][0] <= tolerance or trials >= most_cells:
            return [(-excess, choice, box) for excess, _, choice, box in queue]
        _, _, _, (first, second) = heapq.heappop(queue)
        pending = list(product(_halves(first), _halves(second)))


def _halves(side: tuple[float, float]) -> tuple[tuple[float, float], tuple[float, float]]:
    middle = (side[0] + side[1]) / 2
    return (side[0], middle), (middle, side[1])


class Scale:
    """By what share a kernel is dearer than the two triples of the ends, at moments of their programme."""

    def __init__(self, setting: BatchSetting) -> None:
        self._setting = setting
        programme = setting.programme(setting.ends(1), 1)
        places_due = {round(share * (setting.steps - 1)) for share in _MOMENTS}
        self._moments: list[tuple[Array, Array, NDArray[np.bool_]]] = []
        for step_number in range(setting.steps):
            values = programme.values
            programme.advance()
            if step_number in places_due:
                best = programme.values
                due = setting.epsilon_limit * (step_number + 1) / setting.steps
                decisive = np.abs(programme.places - due) <= _NEARBY * setting.epsilon_limit
                self._moments.append((values, best, decisive & (best > _NEGLIGIBLE * setting.delta)))

    def excess(self, choice: Kernel) -> float:
        """Largest share of delta by which the kernel is dearer, if it were so in all steps."""
        programme = self._setting.programme([choice], 1)
        worst = -math.inf
        for values, best, decisive in self._moments:
            if decisive.any():
                worst = max(worst, float(np.max(programme.apply(values)[0][decisive] / best[decisive])) - 1)
        return worst * self._setting.steps


def joined_kernels(setting: BatchSetting, cells: Sequence[Cell], tolerance: float) -> list[Kernel]:
    """Fewer kernels that dominate the same triples: neighbours are joined while that keeps them within the tolerance."""
    scale = Scale(setting)
    groups: list[tuple[float, Kernel]] = []
    for excess, choice, _ in sorted(cells, key=_along):
        union = worse_kernel(groups[-1][1], choice, setting.step) if groups else None
        dearer = math.inf if union is None else scale.excess(union)
        if union is not None and dearer <= max(tolerance, excess, groups[-1][0]):
            groups[-1] = dearer, union
        else:
            groups.append((excess, choice))
    return [choice for _, choice in groups]


def _along(cell: Cell) -> tuple[float, float]:
    """Order from one end to the other: triangles alike come one after another."""
    (first, _), (second, _) = cell[2]
    return first - second, first + second


def worse_kernel(first: Kernel, second: Kernel, step: float) -> Kernel:
    """A kernel with `P(S) - a Q(S)`, at every grid point, the larger of two: straight lines between them are above both."""
    start, stop = min(first.first, second.first) - 1, max(first.last, second.last) + 1
    curves = [_curve(choice, start, stop, step) for choice in (first, second)]
    (lhs, left_slope), (right, right_slope) = curves
    wins = lhs >= right
    larger = np.where(wins, lhs, right)
    places = np.exp(np.arange(start, stop + 1) * step)
    slopes = np.where(wins, left_slope, right_slope)[:-1]  # of the segment that begins at each point, downwards
    bends = wins[:-1] != wins[1:]
    slopes[bends] = (-np.diff(larger) / np.diff(places))[bends]
    nonmember_mass = np.maximum(slopes[:-1] - slopes[1:], 0.0)
    mass = nonmember_mass * places[1:-1]
    infinite = max(first.infinite, second.infinite)
    result = Kernel(first=start + 1, mass=mass, infinite=infinite)
    short = float(np.max(larger - _curve(result, start, stop, step)[0]))
    return Kernel(first=result.first, mass=mass, infinite=infinite + max(short, 0.0) + 1e-15)


def _curve(choice: Kernel, start: int, stop: int, step: float) -> tuple[Array, Array]:
    """`P(S) - a Q(S)` at the grid points from `start` to `stop`, and how fast it falls in `a` behind each."""
    index = np.arange(start, stop + 1)
    mass = np.zeros(len(index))
    mass[choice.first - start : choice.first - start + len(choice.mass)] = choice.mass
    ahead = np.concatenate([np.cumsum(mass[:0:-1])[::-1], [0.0]]) + choice.infinite
    slope = np.concatenate([np.cumsum((mass * np.exp(-index * step))[:0:-1])[::-1], [0.0]])
    return ahead - np.exp(index * step) * slope, slope
