"""Brackets on the true epsilon of composed mechanisms, and the composed loss distribution itself.

Pure numbers: a mechanism is a function from direction to its dominating pair (`audit.stats.curves.loss_pairs`). Both ends
come from discretisations that provably are on either side (`audit.stats.curves.discretise`), composed without losing the
tail (`audit.stats.curves.composition`). Nothing here comes from an accounting library.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np

from audit.stats.arrays import Array
from audit.stats.curves import composition, discretise, tilting
from audit.stats.curves.loss_pairs import Direction, LossPair, subsampled_gaussian

# direction and the logarithm of the tail probability to resolve, to the pair of one step
PairMaker = Callable[[Direction, float], LossPair]
Steps = Sequence[tuple[PairMaker, int]]

ADD_REMOVE: tuple[Direction, ...] = ("remove", "add")
REPLACE: tuple[Direction, ...] = ("replace",)
RESOLUTION_LIMIT = 16.0  # e-folds below delta per step at which a tail is given up
_COARSEST, _FINEST = 16.0, 1024.0  # grid points per standard deviation of one step's loss
_WIDEST = 1e-12  # grid points per standard deviation that are still tried if memory is short
_INDISTINGUISHABLE = 400.0  # grid points per standard deviation from which a finer grid changes nothing
_ROUNDS = 4
_WORTHWHILE = 1.2  # a grid that much finer than the last one that fitted is still tried
_CROSSING = 1e-7  # relative: ends that cross by more are no rounding
Ends = dict[Direction, tuple[float, float]]


def epsilon_bracket(
    steps: Steps, delta: float, *, directions: Sequence[Direction] = ADD_REMOVE, tolerance: float = 2e-4
) -> tuple[float, float]:
    """Lower and upper end of the true epsilon at `delta` of all steps composed, each step with its count; `ArithmeticError` if
    the ends crossed by more than rounding explains.

    The grid is refined until the ends are within `tolerance` of each other, relatively, or it becomes too large.

    Guarantee:
        lower <= epsilon <= upper for the composition of the pairs, whichever of `directions` is worst, up to
        floating-point rounding (an allowance is included; this is not interval arithmetic).

    References: Zhu, Dong, Wang 2022, arXiv 2106.08567. Doroshenko et al. 2022, arXiv 2207.04380.

    >>> from audit.stats.curves.loss_pairs import subsampled_gaussian
    >>> low, high = epsilon_bracket([(lambda way, tail: subsampled_gaussian(1.0, 1.0, way, log_tail=tail), 1)], 1e-5)
    >>> low <= 4.377178 <= high and high - low < 1e-3
    True
    """
    positive = [(maker, count) for maker, count in steps if count > 0]
    total = sum(count for _, count in positive)
    if total == 0:
        return 0.0, 0.0
    log_tail = max(math.log(delta) - math.log(total) - RESOLUTION_LIMIT, -700.0)
    pairs = {way: [(maker(way, log_tail), count) for maker, count in positive] for way in directions}
    ends: Ends = dict.fromkeys(directions, (0.0, math.inf))
    density, refinements, last_density = _COARSEST, 0, 0.0
    while refinements < _ROUNDS:
        try:
            ends = _refine(ends, pairs, density, tolerance, delta)
        except MemoryError:
            if last_density == 0 and density < _WIDEST:
                break
            # between the grid that fitted and the one that did not there is a finer one, if they are apart
            density = math.sqrt(last_density * density) if last_density else density / 8
            if density < _WORTHWHILE * last_density:
                break
            continue
        last_density = density
        lower, upper = _worst(ends)
        if upper - lower <= tolerance * upper or not math.isfinite(upper) or density >= _FINEST:
            break
        # the gap falls with the square of the density
        density *= min(max(1.2 * math.sqrt((upper - lower) / (tolerance * upper)), 2.0), 8.0)
        refinements += 1
    lower, upper = _worst(ends)
    if lower > upper * (1 + _CROSSING):
        raise ArithmeticError(f"the ends of a bracket crossed: {lower:.12g} from below, {upper:.12g} from above")
    return min(lower, upper), upper


def epsilons_on_grid(
    steps: Steps, deltas: Sequence[float], grid: float, *, directions: Sequence[Direction] = ADD_REMOVE
) -> tuple[float, ...]:
    """Epsilon at each delta of losses put on multiples of `grid` such that both masses of each cell stay, rounding aside;
    `MemoryError` if so many losses have no room; use a wider grid.

    It is not refined towards the truth. Of a grid that is finer than a 400th of a step's standard deviation the coarser one
    stands for it: the figure of either is within a millionth of the truth.

    References: Doroshenko et al. 2022, arXiv 2207.04380 ("connect the dots").
    """
    present = [(maker, count) for maker, count in steps if count > 0]
    if not present:
        return (0.0,) * len(deltas)
    log_tail = max(math.log(min(deltas)) - math.log(sum(count for _, count in present)) - RESOLUTION_LIMIT, -700.0)
    figures = []
    for way in directions:
        pairs = [(maker(way, log_tail), count) for maker, count in present]
        width = max(grid, min(pair.spread for pair, _ in pairs) / _INDISTINGUISHABLE)
        losses = [(discretise.upper(pair, width, widens=False), count) for pair, count in pairs]
        figures.append([composition.epsilon_at(losses, delta, 1) for delta in deltas])
    return tuple(map(max, zip(*figures, strict=True)))


def _worst(ends: Ends) -> tuple[float, float]:
    return max(low for low, _ in ends.values()), max(high for _, high in ends.values())


def _refine(
    ends: Ends, pairs: Mapping[Direction, Sequence[tuple[LossPair, int]]], density: float, tolerance: float, delta: float
) -> Ends:
    """The ends of each direction on a grid of this density, if they are not close enough and may still be the worst."""
    floor, closer = _worst(ends)[0], dict(ends)
    for direction, (low, high) in ends.items():
        if high < floor or (math.isfinite(high) and high - low <= tolerance * high):
            continue
        lower, upper = _both_sides(pairs[direction], density, delta)
        closer[direction] = max(low, lower), min(high, upper)
    return closer


def _both_sides(pairs: Sequence[tuple[LossPair, int]], density: float, delta: float) -> tuple[float, float]:
    step = grid_step(pairs, density)
    above = [(discretise.upper(pair, step), count) for pair, count in pairs]
    below = [(discretise.lower(pair, step), count) for pair, count in pairs]
    return composition.epsilon_at(below, delta, -1), composition.epsilon_at(above, delta, 1)


def without_replacement_bracket(
    noise_multiplier: float, sample_rate: float, steps: int, delta: float, *, density: float = 64.0
) -> tuple[float, float]:
    """Lower and upper end of epsilon at `delta` when each step draws a batch of fixed size and one record is replaced.

    Args:
        noise_multiplier: standard deviation over the norm bound of one record (a replacement moves the sum by twice that).
        sample_rate: batch size over population.
        density: grid points per standard deviation of one step's loss.

    Guarantee:
        The upper end composes the pair that follows the remove curve at positive and the add curve at negative losses
        (Zhu, Dong, Wang 2022, arXiv 2106.08567, Theorem 11), the lower end is the worst of three data sets: others that
        push against the record, for either hypothesis, and others at rest. Ends that cross are returned as they are.
    """
    log_tail = math.log(delta) - math.log(steps) - RESOLUTION_LIMIT
    pairs = [subsampled_gaussian(noise_multiplier / 2, sample_rate, side, log_tail=log_tail) for side in ADD_REMOVE]
    step = pairs[0].spread / density
    remove, add = (discretise.upper(pair, step) for pair in pairs)
    gain, loss_mask = remove.index > 0, add.index < 0
    index = np.concatenate([add.index[loss_mask], [0], remove.index[gain]])
    mass = np.concatenate([add.mass[loss_mask], [0.0], remove.mass[gain]])
    infinite = remove.infinite + add.infinite
    mass[int(loss_mask.sum())] = max(0.0, 1 - infinite - float(mass.sum()))
    joint_grid = discretise.LossGrid(index=index[mass > 0], mass=mass[mass > 0], step=step, infinite=infinite)
    upper = composition.epsilon_at([(joint_grid, steps)], delta, 1)
    at_rest = subsampled_gaussian(noise_multiplier, sample_rate, "replace", log_tail=log_tail)
    lower = max(
        composition.epsilon_at([(discretise.lower(pair, pair.spread / density), steps)], delta, -1)
        for pair in (*pairs, at_rest)
    )
    return lower, upper


def grid_step(pairs: Sequence[tuple[LossPair, int]], density: float) -> float:
    """A grid width of `1 / density` of a typical step's loss, such that the heaviest pair's atoms are whole steps apart."""
    total = sum(count for _, count in pairs)
    step = math.sqrt(sum(count * pair.spread**2 for pair, count in pairs) / total) / density
    finite = [(count, sorted(loss for loss, _ in pair.atoms if math.isfinite(loss))) for pair, count in pairs]
    heaviest = max(finite, key=lambda part: (len(part[1]) > 1, part[0]))[1]
    gap = heaviest[-1] - heaviest[0] if heaviest else 0.0
    return gap / math.ceil(gap / step) if gap > 0 else step


def subsampled_gaussian_epsilon(
    noise_multiplier: float,
    sample_rate: float,
    steps: int,
    delta: float,
    *,
    side: Literal["lower", "upper"] = "upper",
    direction: Direction | None = None,
    density: float = 32.0,
) -> float:
    """A proven bound, on the given side, on epsilon at `delta` of `steps` Poisson-subsampled Gaussian releases.

    Args:
        noise_multiplier: noise standard deviation over the norm bound of one record; infinite epsilon at 0.
        sample_rate: probability that a record takes part in a step.
        side: which bound; the two are about `0.1 / density^2` apart, relatively.
        direction: "remove", "add" or "replace"; None for the worse of the first two.
        density: grid points per standard deviation of one step's loss.

    Guarantee: As for `epsilon_bracket`. Takes some ten milliseconds for a few hundred steps.

    >>> round(subsampled_gaussian_epsilon(1.0, 0.01, 1000, 1e-5), 3)
    1.828
    """
    if steps == 0 or sample_rate == 0:
        return 0.0
    if noise_multiplier == 0:
        return math.inf
    log_tail = math.log(delta) - math.log(steps) - RESOLUTION_LIMIT
    build, sign = (discretise.upper, 1) if side == "upper" else (discretise.lower, -1)
    if steps * sample_rate <= delta:  # with more than the rest of the chance no step samples the record
        return 0.0
    epsilons = []
    for neighbour in (direction,) if direction else ADD_REMOVE:
        pair = subsampled_gaussian(noise_multiplier, sample_rate, neighbour, log_tail=log_tail)

        def epsilon_at(points: float, pair: LossPair = pair) -> float:
            return composition.epsilon_at([(build(pair, pair.spread / points), steps)], delta, sign)

        epsilons.append(_on_a_grid_that_fits(epsilon_at, density))
    return max(epsilons)


def _on_a_grid_that_fits(evaluate: Callable[[float], float], density: float) -> float:
    """The figure on a grid of this density, or of the first coarser one for which there is memory: each is true."""
    while True:
        try:
            return evaluate(density)
        except MemoryError:
            if density < _WIDEST:
                raise
            density /= 8


def subsampled_gaussian_losses(
    noise_multiplier: float, sample_rate: float, steps: int, *, grid: float = 0.0, direction: Direction = "remove"
) -> tuple[Array, Array, Array]:
    """Privacy losses after `steps` Poisson-subsampled Gaussian releases, and their probabilities under either hypothesis.

    A pair that dominates the mechanism's: any test between the two hypotheses is at least as powerful on it.

    Args:
        grid: width of the loss grid; 0 for a 32nd of the standard deviation of one step's loss.
        direction: "remove": the member's data set samples the record, the non-member's does not have it.

    Returns:
        losses `(k,)` ascending from minus infinity to infinity, `log(member / nonmember)` each; masses under the
        member's hypothesis `(k,)`, which put what is not resolved (about 1e-16) on an infinite loss; masses under
        the non-member's `(k,)`, which put it on minus infinity. Each set of masses adds up to 1 within 1e-12.
    """
    log_negligible = math.log(1e-16)
    pair = subsampled_gaussian(noise_multiplier, sample_rate, direction, log_tail=log_negligible - math.log(steps))
    part = (discretise.upper(pair, grid or pair.spread / 32), steps)
    # Q-masses are P-masses times exp(-loss): those of the tilt -1, up to the Q-mass of all finite losses
    limits = [tilting.window([part], tilt, log_negligible) for tilt in (0.0, -1.0)]
    joint_limits = (min(lhs for lhs, _ in limits), max(right for _, right in limits))
    first, member = composition.composed_masses([part], 0.0, joint_limits)
    _, nonmember = composition.composed_masses([part], -1.0, joint_limits)
    losses = first + part[0].step * np.arange(len(member))
    infinite = tilting.infinite_mass([part])
    kept_by_nonmember = math.exp(float(tilting.cumulants([part], np.array([-1.0]))[0]))
    member, nonmember = member * (1 - infinite), nonmember * kept_by_nonmember
    with np.errstate(over="ignore", under="ignore"):
        right = losses >= 0  # each side from the transform that resolves its tail
        member = np.where(right, member, nonmember * np.exp(np.minimum(losses, 0.0)))
        nonmember = np.where(right, member * np.exp(-np.maximum(losses, 0.0)), nonmember)
    return (
        np.concatenate([[-math.inf], losses, [math.inf]]),
        np.concatenate([[0.0], member, [max(0.0, 1 - float(member.sum()))]]),
        np.concatenate([[max(0.0, 1 - float(nonmember.sum()))], nonmember, [0.0]]),
    )
