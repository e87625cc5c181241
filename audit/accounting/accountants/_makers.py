"""Pairs of single releases in each direction; each function with its first arguments bound is a `pld.PairMaker`."""

import math
import sys

import numpy as np

from audit.core.deployed_procedures import MixtureOfGaussians
from audit.stats.curves import pld
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
