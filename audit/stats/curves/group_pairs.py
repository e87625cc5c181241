"""Dominating pairs of data sets that differ in several records (group privacy)."""

import math

import numpy as np
from scipy.special import gammaln, ndtri_exp

from audit.stats.arrays import Array
from audit.stats.curves.loss_pairs import Direction, LossPair, finite_pair, loss_std, mass_outside, spans_around

_SMOOTH_PIECES = 4  # quadrature pieces per length over which the densities bend
_HALVINGS = 60
_LARGEST_LOSS = 1e6


def subsampled_gaussian_group(
    noise: float, rate: float, size: int, direction: Direction, *, log_tail: float = -70.0
) -> LossPair:
    """One Poisson-subsampled Gaussian release, `size` records being added or removed together; `ValueError` if the direction
    is "replace".

    Each record is sampled on its own; the worst contributions are equal, so the shift is a binomial number of them.

    Args:
        noise: standard deviation over the norm bound of one record's contribution.
        direction: "remove" (P has them) or "add".
        log_tail: logarithm of the probability beyond which either tail is not resolved.

    References: Choquette-Choo, Ganesh, Steinke, Thakurta 2023, arXiv 2310.15526 (mixtures of Gaussians).
    """
    if direction == "replace":
        raise ValueError("replacing a sampled group has no proof here; direction is 'replace', expected 'remove' or 'add'")
    counts = np.arange(size + 1, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_rest = np.where(counts == size, 0.0, (size - counts) * (math.log1p(-rate) if rate < 1 else -math.inf))
    weights = gammaln(size + 1) - gammaln(counts + 1) - gammaln(size - counts + 1) + counts * math.log(rate) + log_rest
    spread = size * loss_std(noise / math.sqrt(size), rate)
    return gaussian_mixture(noise, counts, weights, direction, spread=spread, log_tail=log_tail)


def gaussian_mixture(
    noise: float, shifts: Array, log_weights: Array, direction: Direction, *, spread: float, log_tail: float = -70.0
) -> LossPair:
    """Return the pair of Gaussian noise moved by a random shift, and the same noise at rest.

    Args:
        noise: standard deviation, in the unit of the shifts.
        shifts: `(k,)`, none below 0, ascending.
        direction: "remove" (P is moved) or "add".
        spread: about the standard deviation of the loss.
    """
    variance = noise * noise
    weights = log_weights - shifts**2 / (2 * variance)
    reach = -float(ndtri_exp(log_tail)) * noise
    constant = -math.log(noise * math.sqrt(2 * math.pi))
    largest = float(shifts[-1])

    def shift_mass(x: Array) -> Array:
        return _log_sums(weights + x[..., None] * shifts / variance)

    def gaussian(x: Array) -> Array:
        return constant - x * x / (2 * variance)

    def inverse(loss: Array) -> Array:
        """The inverse of `shift_mass` by halving; infinite if the loss is not reached."""
        low = np.full(loss.shape, -reach - largest)
        high = np.full(loss.shape, reach + largest)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            below = shift_mass(middle) < loss
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray((low + high) / 2, dtype=np.float64)

    if direction == "remove":
        return LossPair(
            loss=shift_mass,
            position=inverse,
            log_density=lambda x: gaussian(x) + shift_mass(x),
            spans=spans_around(shifts.tolist(), reach),
            bend=noise / _SMOOTH_PIECES,
            outside=mass_outside(log_tail),
            spread=spread,
        )
    return LossPair(
        loss=lambda x: -shift_mass(-x),
        position=lambda l: -inverse(-l),
        log_density=gaussian,
        spans=spans_around((-shifts[::-1]).tolist(), reach),
        bend=noise / _SMOOTH_PIECES,
        outside=mass_outside(log_tail),
        spread=spread,
    )


def _log_sums(terms: Array) -> Array:
    """Return the logarithm of the sum of exponentials along the last axis; overwrites `terms`.

    `scipy.special.logsumexp` gives the same in two to three times as long, and a large group asks for minutes of it.
    """
    heaviest = terms.argmax(axis=-1)[..., None]
    exponent = np.take_along_axis(terms, heaviest, axis=-1)
    terms -= exponent
    np.exp(terms, out=terms)
    np.put_along_axis(terms, heaviest, 0.0, axis=-1)  # it is 1, beside which others would lose their digits
    return np.asarray(np.log1p(terms.sum(axis=-1)) + exponent[..., 0], dtype=np.float64)


def approximate_group(epsilon: float, delta: float, size: int) -> LossPair:
    """The worst pair at distance `size` of a mechanism that is only known to be (epsilon, delta)-DP.

    The most power that a test of size `a` can have at distance 1 is `g(a) = min(1, delta + exp(epsilon) a,
    1 - exp(-epsilon) (1 - delta - a))`; at distance k it is g applied k times, which some chain of data sets attains. It is a
    broken line, and its slopes and rises are the likelihood ratios and P-masses of a pair on finitely many outcomes.

    References: Dong, Roth, Su 2022, arXiv 1905.02383, Theorem 2.14.

    >>> [(round(loss, 3), round(mass, 3)) for loss, mass in approximate_group(0.5, 0.0, 2).atoms]
    [(1.0, 0.622), (0.0, 0.149), (-1.0, 0.229)]
    """
    grow = math.exp(min(epsilon, 700.0))
    # where the broken line may bend: where a later bend or a corner of g comes from, found backwards through g
    bends = {0.0, 1.0}
    for _ in range(size):
        before = [_undone(bend, grow, delta) for bend in bends]
        bends = {loss for loss in before if 0 < loss < 1} | {0.0, 1.0, (1 - delta) / (1 + grow), 1 - delta}
    sizes = np.array(sorted(bends))
    powers = sizes.copy()
    for _ in range(size):
        powers = np.minimum(np.minimum(1.0, delta + grow * powers), 1 - (1 - delta - powers) / grow)
    masses: list[float] = [float(powers[0])]
    losses: list[float] = [math.inf]
    for rise, run in zip(np.diff(powers), np.diff(sizes), strict=True):
        if rise > 0 and run > 0:
            masses.append(float(rise))
            losses.append(float(np.clip(math.log(rise / run), -_LARGEST_LOSS, size * epsilon)))
    atoms = [(loss, mass) for loss, mass in zip(losses, masses, strict=True) if mass > 0]
    return finite_pair(tuple(loss for loss, _ in atoms), tuple(mass for _, mass in atoms))


def _undone(power: float, grow: float, delta: float) -> float:
    """The size of test at which `g` reaches a power."""
    return max((power - delta) / grow, 1 - delta - (1 - power) * grow)
