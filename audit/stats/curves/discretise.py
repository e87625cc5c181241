"""A privacy loss put on a grid so that it dominates, or is dominated by, the true one.

Upper side: the P- and Q-mass of a cell are split over the cell's two ends so that both are kept. The likelihood ratio
is spread out, which no post-processing can undo, so every hockey-stick divergence can only grow, also under composition.
Lower side: a cell is merged into one outcome, which is a post-processing, and its loss is rounded down to the grid.
The boundaries of the lower cells are moved until merged losses fall on the grid, so that rounding costs almost nothing.
Cells widen geometrically away from zero loss: rare large losses need relative resolution only.

References: Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022, arXiv 2207.04380 (keeping both masses).
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from audit.stats.arrays import Array
from audit.stats.curves.loss_pairs import LossPair

Indices = NDArray[np.int64]
_NODES = 8
_FEWEST_FINE_CELLS = 64  # on each side of zero loss before cells start to widen
_MOST_CELLS = 8192  # on each side, that are of one width if the others widen for want of room only
_COARSE, _MOST_COARSE_CELLS = 8.0, 2048  # grid points per standard deviation below which there are so many such cells
_ALIGNMENTS = 4
_SMALLEST_MASS = 1e-300
_DOMINANT = 0.25  # P-mass of one cell from which the grid is moved onto its loss
_ON_THE_GRID = 1e-13  # of a step: closer than this a loss counts as lying on its grid point
_WIDEST = 8.0  # a cell of more loss than this is rounded outwards as a whole: quadrature does not resolve exp(-loss) there
_FARTHEST = 700.0  # difference of two losses beyond which nothing is exchanged between outcomes
_MASS_ERROR = 1e-9  # that quadrature may leave of a total of 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LossGrid:
    """P-masses of losses `(index + shift) * step`, and the P-mass of an infinite loss.

    Attributes:
        index: increasing integers; only losses with mass are listed.
        mass: P-mass of each; with `infinite` they add up to at most 1.
        shift: fraction of a step that the whole grid is moved by.
    """

    index: Indices
    mass: Array
    step: float
    infinite: float = 0.0
    shift: float = 0.0

    @property
    def loss(self) -> Array:
        return np.asarray((self.index + self.shift) * self.step, dtype=np.float64)


def upper(pair: LossPair, step: float, *, widens: bool = True) -> LossGrid:
    """A loss distribution on multiples of `step` that dominates the pair's; on each of them unless it `widens` outwards.
    Raises `ArithmeticError` if the masses do not add up to 1.
    """
    index, mass, infinite = [], [], pair.outside
    if pair.right > pair.left:
        ends = _indices(pair, step, _fine_cells(pair, step) if widens else _MOST_CELLS)
        cell, weight, loss = _quadrature(pair, np.asarray(ends * step, dtype=np.float64))
        above = ends[cell + 1] * step
        width = above - ends[cell] * step
        narrow = np.minimum(width, _WIDEST)
        # what keeps both masses: share exp(-lower end) + (1 - share) exp(-upper end) = exp(-loss)
        share = np.clip(np.expm1(np.clip(above - loss, 0.0, narrow)) / np.expm1(narrow), 0.0, 1.0)
        share = np.where(width > _WIDEST, 0.0, share)  # all to the upper end, which dominates
        index += [ends[cell], ends[cell + 1]]
        mass += [weight * share, weight * (1 - share)]
    for loss_value, atom in pair.atoms:
        if not np.isfinite(loss_value):
            infinite += atom
            continue
        below, share_below = _split(loss_value, step)
        index += [np.array([below, below + 1])]
        mass += [np.array([atom * share_below, atom * (1 - share_below)])]
    return _whole(_collect(index, mass, step=step, infinite=infinite), pair.outside)


def _whole(grid: LossGrid, outside: float) -> LossGrid:
    """The grid itself, its masses being those of a distribution up to what the pair leaves outside."""
    total = float(grid.mass.sum()) + grid.infinite
    if not abs(total - 1) <= _MASS_ERROR + 2 * outside:
        raise ArithmeticError(f"the masses of one step add up to {total:.12g} on a loss grid of width {grid.step:g}, not to 1")
    return grid


def lower(pair: LossPair, step: float) -> LossGrid:
    """A loss distribution that the pair's dominates, on a grid of width `step` shifted onto the heaviest atom;
    `ArithmeticError` if the masses do not add up to 1.
    """
    finite = [(loss, mass) for loss, mass in pair.atoms if np.isfinite(loss)]
    heaviest = max(finite, key=lambda atom: atom[1], default=(0.0, 0.0))[0]
    shift = heaviest / step - round(heaviest / step)
    index, merged_losses, mass = np.empty(0, dtype=np.int64), np.empty(0), np.empty(0)
    if pair.right > pair.left:
        index, merged_losses, mass = _merge(pair, step, shift)
        for _ in range(_ALIGNMENTS if not finite and mass.max() > _DOMINANT else 0):
            heaviest = float(merged_losses[np.argmax(mass)])  # lifting so much by a part of a step would use up the rare losses
            shift = heaviest / step - round(heaviest / step)
            index, merged_losses, mass = _merge(pair, step, shift)
    if finite:
        losses = np.array([loss for loss, _ in finite])
        places = np.floor(losses / step - shift + 1e-9).astype(np.int64)
        order = np.argsort(np.concatenate([merged_losses, losses]), kind="stable")
        index = np.concatenate([index, places])[order]
        mass = np.concatenate([mass, [amount for _, amount in finite]])[order]
        merged_losses = np.concatenate([merged_losses, losses])[order]
    if step <= _WIDEST:
        index, mass = _settle(index, merged_losses, mass, step, shift)
    infinite = sum(mass for loss, mass in pair.atoms if not np.isfinite(loss))
    return _whole(_collect([index], [mass], step=step, infinite=infinite, shift=shift), pair.outside)


def _settle(index: Indices, merged_losses: Array, mass: Array, step: float, shift: float) -> tuple[Indices, Array]:
    """The outcomes moved onto their grid points, each by merging in just enough of a neighbour.

    An outcome a little above its point takes in a part of the one settled before it, one a little below takes in a part
    of the next, which leaves those two ratios as they are. If the neighbour has too little, the loss is rounded down.
    """
    losses, remaining_masses = merged_losses.tolist(), mass.tolist()
    points: list[list[float]] = []  # grid index and P-mass
    for j, nearest in enumerate(index.tolist()):
        place, amount = nearest, remaining_masses[j]
        point = (place + shift) * step
        excess = -math.expm1(point - losses[j]) * amount  # P-mass minus exp(point) times Q-mass
        if amount <= 0 or abs(losses[j] - point) < _ON_THE_GRID * step:
            points.append([place, amount])
            continue
        if excess > 0 and not _can_take(points, point, excess, step, shift):
            # too little below to take in: to the next point instead, which outcomes above have to lift; the Q-mass stays,
            # `exp(point)` times it grows by a step
            place, excess = place + 1, amount - (amount - excess) * math.exp(step)
        point = (place + shift) * step
        for k in range(j + 1, len(losses)):
            weight = -math.expm1(point - losses[k])
            if weight <= 0.5 * step:
                continue
            amount_moved = max(min(remaining_masses[k], -excess / weight), 0.0)
            remaining_masses[k] -= amount_moved
            amount += amount_moved
            excess += amount_moved * weight
            if remaining_masses[k] > 0:
                break
        if excess < -_ON_THE_GRID * step * amount:  # nothing above could lift it
            place, excess = place - 1, amount - (amount - excess) * math.exp(-step)
            point = (place + shift) * step
        for neighbour in reversed(points):
            away = point - (neighbour[0] + shift) * step
            if away > _FARTHEST:
                break
            weight = math.expm1(away)
            if weight <= 0.5 * step:
                continue
            amount_moved = max(min(neighbour[1], excess / weight), 0.0)
            neighbour[1] -= amount_moved
            amount += amount_moved
            excess -= amount_moved * weight
            if neighbour[1] > 0:
                break
        points.append([place, amount])  # an excess that is left is rounded down
    return np.array([int(place) for place, _ in points], dtype=np.int64), np.array([amount for _, amount in points])


def _can_take(points: list[list[float]], point: float, excess: float, step: float, shift: float) -> bool:
    """True if the outcomes settled below `point` have mass enough to bring the excess down to it."""
    for place, amount in reversed(points):
        excess -= amount * math.expm1(min(max(point - (place + shift) * step, 0.0), _FARTHEST))
        if excess <= 0:
            return True
    return False


def _split(loss: float, step: float) -> tuple[int, float]:
    """The grid index at or below an atom and the share of its P-mass that goes there."""
    nearest = round(loss / step)
    if abs(loss - nearest * step) <= 4e-16 * abs(loss):
        return nearest, 1.0
    below = int(np.floor(loss / step))
    if step > _WIDEST:
        return below, 0.0
    return below, float(np.expm1((below + 1) * step - loss) / np.expm1(step))


def _merge(pair: LossPair, step: float, shift: float) -> tuple[Indices, Array, Array]:
    """Grid index, merged loss and P-mass of cells, their ends moved until merged losses about equal the grid points."""
    ends = _odd_cells(pair, step, shift)
    index = np.rint((ends[1:] + ends[:-1]) / 2).astype(np.int64)
    centres = (index + shift) * step
    boundaries = (ends + shift) * step
    wide = np.diff(boundaries) > _WIDEST
    for turn in range(_ALIGNMENTS):
        cell, weight, loss = _quadrature(pair, boundaries)
        mass = np.bincount(cell, weight, len(centres))
        change = np.expm1(np.where(wide[cell], 0.0, centres[cell] - loss))
        gain = np.bincount(cell, weight * change, len(centres))
        with np.errstate(divide="ignore", invalid="ignore"):
            away = np.where(mass > _SMALLEST_MASS, -np.log1p(gain / mass), 0.0)
        if turn == _ALIGNMENTS - 1:
            break
        inner = boundaries[1:-1] - (away[1:] + away[:-1]) / 2
        boundaries[1:-1] = np.maximum.accumulate(np.clip(inner, centres[:-1], centres[1:]))
    below = np.floor(boundaries[:-1] / step - shift).astype(np.int64)
    merged_losses = np.where(wide, (below + shift) * step, centres + away)
    positive = mass > _SMALLEST_MASS
    nearest = np.rint(np.where(positive, merged_losses, 0.0) / step - shift).astype(np.int64)
    index = np.where(wide, below, nearest)  # not the middle of the cell, which may be beyond the largest loss
    return index[positive], np.asarray(merged_losses[positive], dtype=np.float64), np.asarray(mass[positive], dtype=np.float64)


def _collect(index: list[Indices], mass: list[Array], *, step: float, infinite: float, shift: float = 0.0) -> LossGrid:
    if not index:  # everything is lost: a mark of no weight keeps the grid from being empty
        index, mass = [np.zeros(1, dtype=np.int64)], [np.array([_SMALLEST_MASS])]
    everywhere, amounts = np.concatenate(index), np.concatenate(mass)
    unique, inverse = np.unique(everywhere, return_inverse=True)
    total = np.asarray(np.bincount(inverse, amounts, len(unique)), dtype=np.float64)
    positive = total > 0
    return LossGrid(index=unique[positive], mass=total[positive], step=step, infinite=infinite, shift=shift)


def _fine_cells(pair: LossPair, step: float) -> int:
    """Cells on each side of zero loss before they widen: many if the grid is wider than the bulk: its tail then counts."""
    density = pair.spread / step
    return max(_FEWEST_FINE_CELLS, int(4 * density)) if density >= _COARSE else _MOST_COARSE_CELLS


def _indices(pair: LossPair, step: float, fine: int) -> Indices:
    """Grid indices that cover the pair's losses: every one up to `fine` from zero, geometrically fewer further out."""
    first, last = (float(value) for value in pair.loss(np.array([pair.left, pair.right])))
    low, high = int(np.floor(first / step)), int(np.ceil(last / step))
    centre = min(max(0, low), high)
    right = centre + _widening(fine, high - centre)
    lhs = centre - _widening(fine, centre - low)
    return np.unique(np.concatenate([lhs, right, [low, high if high > low else low + 1]]))


@lru_cache(maxsize=64)
def _widening(fine: int, reach: int) -> Indices:
    """0, 1, 2, ... `fine`, and then steps growing by a factor `1 + 1 / fine`, up to `reach`."""
    if reach <= fine:
        return np.arange(reach + 1)
    count = int(np.ceil(np.log(reach / fine) / np.log1p(1 / fine))) + 1
    distances = np.round(fine * (1 + 1 / fine) ** np.arange(count)).astype(np.int64)
    return np.unique(np.concatenate([np.arange(fine), np.minimum(distances, reach), [reach]]))


@lru_cache(maxsize=1)
def _rule() -> tuple[Array, Array]:
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return nodes, weights


def _odd_cells(pair: LossPair, step: float, shift: float) -> Array:
    """Cell ends, in steps, halfway between integers, cells being an odd number of steps wide: their middles are integers."""
    first, last = (float(value) / step - shift for value in pair.loss(np.array([pair.left, pair.right])))
    low, high = math.floor(first), math.ceil(last)
    fine = _fine_cells(pair, step)
    centre = min(max(0, low), high)
    right = centre - 0.5 + _odd_widening(fine, high - centre + 2)
    lhs = centre - 0.5 - _odd_widening(fine, centre - low + 1)
    return np.unique(np.concatenate([lhs, right]))


@lru_cache(maxsize=64)
def _odd_widening(fine: int, reach: int) -> Array:
    """0, 1, 2, ... `fine`, and then steps of an odd number that is about the distance over `fine`, past `reach`."""
    ends = [float(cell) for cell in range(min(fine, reach) + 1)]
    while ends[-1] < reach:
        ends.append(ends[-1] + 2 * int(ends[-1] / (2 * fine)) + 1)
    return np.array(ends)


def _pieces(left: float, right: float, bend: float) -> Array:
    """Ends of quadrature pieces of at most `bend`."""
    return np.linspace(left, right, max(math.ceil((right - left) / bend), 1) + 1)


def _quadrature(pair: LossPair, boundaries: Array) -> tuple[Indices, Array, Array]:
    """Cell, P-mass and loss of every quadrature node; cells are between consecutive `boundaries` of the loss."""
    with np.errstate(invalid="ignore"):
        positions = np.clip(pair.position(boundaries), pair.left, pair.right)
    positions[0], positions[-1] = pair.left, pair.right
    positions = np.maximum.accumulate(positions)
    cuts = np.unique(np.concatenate([positions, *(_pieces(first, right, pair.bend) for first, right in pair.spans)]))
    middle, half = (cuts[1:] + cuts[:-1]) / 2, (cuts[1:] - cuts[:-1]) / 2
    inside = np.any([(first <= middle) & (middle <= right) for first, right in pair.spans], axis=0)
    middle, half = middle[inside], half[inside]
    cell = np.minimum(np.searchsorted(positions, middle, side="right") - 1, len(positions) - 2)  # a middle may round to the end
    nodes, weights = _rule()
    x = middle[:, None] + half[:, None] * nodes
    mass = half[:, None] * weights * np.exp(pair.log_density(x))
    return np.repeat(cell, _NODES).astype(np.int64), np.asarray(mass.ravel(), dtype=np.float64), pair.loss(x).ravel()
