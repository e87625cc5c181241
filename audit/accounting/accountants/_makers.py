"""Pairs of single releases in each direction; each function with its first arguments bound is a `pld.PairMaker`."""

import math
import sys
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from audit.core import deployed_events
from audit.core.adjacency import Adjacency
from audit.core.deployed_events import NoisyMax, SparseVector
from audit.core.deployed_procedures import MixtureOfGaussians
from audit.stats.curves import lattice_pairs, pld
from audit.stats.curves.group_pairs import approximate_group, gaussian_mixture, subsampled_gaussian_group
from audit.stats.curves.loss_pairs import Direction, LossPair, finite_pair, subsampled_gaussian, subsampled_laplace


def two_answers(chances: tuple[float, float], direction: Direction, log_tail: float) -> LossPair:
    """Return the pair of an answer that has these chances on either data set; a member is taken for either direction."""
    first, second = chances
    floor = sys.float_info.min  # in place of a chance that has no float: less loss, so from below as true
    losses = (math.log(first) - math.log(max(second, floor)), math.log1p(-first) - math.log1p(-second))
    return finite_pair(losses, (first, 1 - first))


def gaussian(noise: float, rate: float, direction: Direction, log_tail: float) -> LossPair:
    return subsampled_gaussian(float(noise), float(rate), direction, log_tail=log_tail)


def gaussian_group(noise: float, rate: float, size: int, direction: Direction, log_tail: float) -> LossPair:
    return subsampled_gaussian_group(float(noise), float(rate), size, direction, log_tail=log_tail)


def shares(event: MixtureOfGaussians) -> dict[float, float]:
    """Shifts, ascending, with the probability of each, those that do not happen left out."""
    chances: dict[float, float] = {}
    for shift, probability in sorted(zip(event.shifts, event.probabilities, strict=True)):
        if probability > 0:
            chances[shift] = chances.get(shift, 0.0) + probability
    return chances


def mixture(event: MixtureOfGaussians, direction: Direction, log_tail: float) -> LossPair:
    by_shift, noise = shares(event), float(event.noise_multiplier)
    shifts, probabilities = np.array(list(by_shift)), np.array(list(by_shift.values()))
    exponents = np.minimum(shifts**2 / noise**2, 700.0)  # e^710 is beyond all floats; the other limit below is smaller then
    spread = min(math.sqrt(float(probabilities**2 @ np.expm1(exponents))), float(shifts[-1]) / noise)
    return gaussian_mixture(noise, shifts, np.log(probabilities), direction, spread=spread, log_tail=log_tail)


def group_approximate(epsilon: float, delta: float, size: int, direction: Direction, log_tail: float) -> LossPair:
    return approximate_group(float(epsilon), float(delta), size)


def laplace(scale: float, rate: float, direction: Direction, log_tail: float) -> LossPair:
    return subsampled_laplace(float(scale), float(rate), direction, log_tail=log_tail)


def revealing(rate: float, direction: Direction, log_tail: float) -> LossPair:
    """A release that shows a sampled record as it is."""
    out_log = math.log1p(-rate) if rate < 1 else -math.inf
    if direction == "add":
        return finite_pair((-out_log,), (1.0,))
    return finite_pair((out_log, math.inf), (1 - rate, rate)) if rate < 1 else finite_pair((0.0, math.inf), (0.0, 1.0))


def approximate(epsilon: float, delta: float, direction: Direction, log_tail: float) -> LossPair:
    """The pair that dominates every (epsilon, delta)-DP mechanism."""
    high = 1 / (1 + math.exp(-epsilon))
    return finite_pair((-epsilon, epsilon, math.inf), ((1 - delta) * (1 - high), (1 - delta) * high, delta))


def response(parameter: float, buckets: int, direction: Direction, log_tail: float) -> LossPair:
    low = parameter / buckets
    high = 1 - parameter + low
    if low == 0:
        return finite_pair((0.0, math.inf), (0.0, 1.0))
    loss = math.log(high / low)
    return finite_pair((-loss, 0.0, loss), (low, (buckets - 2) * low, high))


def two_outcomes(epsilon: float, share: float) -> pld.PairMaker:
    """The pair of an exponential mechanism with losses `share * epsilon` and an epsilon less."""
    top = share * epsilon
    rare = math.expm1(epsilon - top) / math.expm1(epsilon) * math.exp(top)

    def maker(direction: Direction, log_tail: float) -> LossPair:
        return finite_pair((top - epsilon, top), (1 - rare, rare))

    return maker


LEAST_COUNT = 2.0  # a share from here on is a number: of candidates that are behind, or of tests before those that say yes
# examples that are tried: one from below is as true as another
SHARES = (0.5, 0.45, 0.4, 0.3, 0.8, 0.95, 0.999, 3.0, 10.0, 30.0, 100.0)
_MOST_AHEAD = 30.0  # scales of noise: beyond, a chance is 1 in floats
_SCALES = 40.0  # of the noise of a threshold that are integrated over; what is beyond is added to the smaller chance
_PANELS = 4  # a scale
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_ROUNDING = 1e-9  # relative, of an integral: the larger chance is stated so much smaller, the smaller one larger


def chances(event: NoisyMax | SparseVector, share: float) -> tuple[float, float]:
    """Return how likely one answer is on two neighbouring data sets, in an example that `share` chooses.

    Shares up to 1: of a selection the worse of two candidates is named, and both scores move against each other; of tests the
    only query is above the threshold. At 0.5 the two data sets are mirror images, at 1 the answer is a toss-up on the first.

    Shares from `LEAST_COUNT` on: of a selection with Laplace noise one of so many equal candidates and one more is named, then
    with its score and theirs moved against each other. Of tests, so many queries at the threshold say no and then all positives
    say yes, then with those queries moved up and these down. With many, the noise that the others are compared with is almost
    surely above 0, where moving it costs its whole epsilon; so both guarantees are met in the limit.

    References:
        McKenna, Sheldon 2020, arXiv 2010.12603 (exponential noise: the smaller of two chances is `exp(-gap) / 2`).
        Lyu, Su, Li 2017, arXiv 1603.01699 (tests).
    """
    if share >= LEAST_COUNT:
        return _with_rivals(event, int(share))
    if isinstance(event, NoisyMax):
        gap, tail = float(event.epsilon), _exponential_tail if event.noise == "exponential" else partial(laplace_tail, 1.0, 1.0)
        start = max(gap * (share - 1), -_MOST_AHEAD)
        return tail(start), tail(start + gap)
    scales = 1 / float(event.threshold_epsilon), 2 * event.positives / float(event.query_epsilon)
    start = max(share - 1, -_MOST_AHEAD * max(scales))
    return laplace_tail(*scales, start), laplace_tail(*scales, start + 1)


def _with_rivals(event: NoisyMax | SparseVector, rivals: int) -> tuple[float, float]:
    """The chances with that many others; two candidates of the same if noise is not Laplace."""
    if isinstance(event, SparseVector):
        scales = 1 / float(event.threshold_epsilon), 2 * event.positives / float(event.query_epsilon)
        first, second = (_yes_after_no(scales, (rivals, event.positives), (gap, -gap)) for gap in (0.0, 1.0))
    elif event.noise == "exponential":
        return chances(event, SHARES[0])
    else:
        first, second = (_yes_after_no((1.0, 1.0), (rivals, 0), (gap, 0.0)) for gap in (0.0, float(event.epsilon)))
    larger, smaller = first * (1 - _ROUNDING), second * (1 + _ROUNDING) + math.exp(-_SCALES)
    return (larger, smaller) if smaller < larger else (0.5, 0.5)  # too rare an answer shows nothing


def _yes_after_no(scales: tuple[float, float], counts: tuple[int, int], places: tuple[float, float]) -> float:
    """Return the chance that so many noisy queries stay below a noisy threshold and so many exceed it.

    Args:
        scales: of the Laplace noise of the threshold and of a query.
        counts: of queries that say no, and yes.
        places: of the former and the latter above the threshold.
    """
    around = (0.0, scales[0]), *((place, scales[1]) for place in places)
    edges = np.unique(np.concatenate([_spread(place, scale, scales[0]) for place, scale in around]))
    middles, halves = (edges[1:] + edges[:-1]) / 2, (edges[1:] - edges[:-1]) / 2
    noise = (middles[:, None] + halves[:, None] * _NODES).ravel()
    weights = (halves[:, None] * _WEIGHTS).ravel()
    logs = -np.abs(noise) / scales[0] - math.log(2 * scales[0])
    for count, sign, place in zip(counts, (1, -1), places, strict=True):
        logs = logs + count * _log_below(sign * (noise - place) / scales[1])
    return float(weights @ np.exp(logs))


def _spread(middle: float, scale: float, reach: float) -> NDArray[np.float64]:
    """Return ends of panels around a place where the integrand has a kink, some a scale, within what is integrated over."""
    ends = middle + scale * np.arange(-_SCALES * _PANELS, _SCALES * _PANELS + 1) / _PANELS
    return np.asarray(np.clip(ends, -_SCALES * reach, _SCALES * reach), dtype=np.float64)


def _log_below(value: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log chance that standard Laplace noise is below a value."""
    tail = -np.abs(value)
    return np.asarray(np.where(value < 0, tail - math.log(2), np.log1p(-np.exp(tail) / 2)), dtype=np.float64)


def _exponential_tail(gap: float) -> float:
    """Chance that a candidate wins that is `gap` scales of exponential noise behind."""
    return math.exp(-gap) / 2 if gap >= 0 else 1 - math.exp(gap) / 2


def laplace_tail(first: float, second: float, gap: float) -> float:
    """Return the chance that the sum of two Laplace variables of these scales exceeds `gap`.

    With the larger scale b, the ratio r of the smaller one to it, and t = gap / b:
    `exp(-t) / 2 * (1 + r / (1 + r) * t * (1 - exp(-d)) / d)` with `d = t (1 - r) / r`; nothing cancels at equal scales.

    >>> round(laplace_tail(1.0, 1.0, 2.0), 12), round(0.5 * math.exp(-2) * 2, 12)
    (0.135335283237, 0.135335283237)
    """
    if gap < 0:
        return 1 - laplace_tail(first, second, -gap)
    scale, smaller = max(first, second), min(first, second)
    t, ratio = gap / scale, smaller / scale
    if ratio == 0:
        return math.exp(-t) / 2
    ahead = t * (1 - ratio) / ratio
    share = -math.expm1(-ahead) / ahead if ahead else 1.0
    return math.exp(-t) / 2 * (1 + ratio / (1 + ratio) * t * share)


_PAIRS: Mapping[type, Callable[..., LossPair]] = {
    deployed_events.DiscreteGaussian: lattice_pairs.discrete_gaussian,
    deployed_events.Skellam: lattice_pairs.skellam,
}


def integer_pair(event: deployed_events.IntegerNoise, adjacency: Adjacency) -> Callable[[Direction, float], LossPair]:
    """Return the maker of the pair of integer noise; both directions are mirror images."""
    shift = int(event.sensitivity) * (2 if adjacency is Adjacency.REPLACE_ONE else 1)
    return partial(_integer_pair, event, shift)


def _integer_pair(event: deployed_events.IntegerNoise, shift: int, direction: Direction, log_tail: float) -> LossPair:
    if isinstance(event, deployed_events.DiscreteLaplace):
        return lattice_pairs.discrete_laplace(event.scale, shift)
    return _PAIRS[type(event)](event.scale, shift, log_tail=log_tail)
