"""What random procedures and tests around mechanisms cost: pairs on either side, divergences of the best of several runs."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from audit.core.adjacency import Adjacency
from audit.core.deployed_procedures import ProposeTestRelease, RandomAllocation, Shuffled, Tuned
from audit.core.errors import UnsupportedMechanism
from audit.core.event_reading import nodes
from audit.core.events import (
    ApproximateDp,
    Composed,
    Event,
    Exponential,
    Gaussian,
    Laplace,
    NonPrivate,
    PoissonSampled,
    RandomizedResponse,
    Repeated,
)
from audit.stats.curves import pld, shuffling
from audit.stats.curves.loss_pairs import Direction, LossPair, finite_pair
from audit.stats.curves.random_allocation import random_allocation

Array = NDArray[np.float64]
_HALVINGS = 200
_EXAMPLES = 40  # chances of either score that are tried
_ATTAINED = (ApproximateDp, Composed, Exponential, Gaussian, Laplace, NonPrivate, PoissonSampled, RandomizedResponse, Repeated)


def largest_loss(event: Event, adjacency: Adjacency) -> float:  # noqa: PLR0911 (one arm a kind)
    """Return the sum of the largest losses of all parts, infinite if one has none."""
    change = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    match event:
        case Repeated(mechanism=inner, count=count):
            return count * largest_loss(inner, adjacency) if count else 0.0
        case Composed(parts=parts):
            return sum(largest_loss(part, adjacency) for part in parts)
        case Laplace(noise_multiplier=scale) if scale > 0:
            return change / float(scale)
        case Exponential(epsilon=epsilon) | ApproximateDp(epsilon=epsilon, delta=0.0):
            return float(epsilon)
        case RandomizedResponse(noise_parameter=parameter, buckets=buckets) if change == 2 and parameter > 0:
            return math.log1p((1 - parameter) * buckets / parameter)
        case PoissonSampled(mechanism=inner, sample_rate=rate):
            loss = largest_loss(inner, adjacency)
            # under replace-one both data sets hold the rest of the mixture, which may be as unlikely as the likelier record
            return _sampled_loss(loss, float(rate)) if change == 1 else loss
        case Shuffled(mechanism=inner) if change == 2:
            return largest_loss(inner, adjacency)
        case Tuned(mechanism=inner, shape=shape) if math.isfinite(shape):
            return (2 + max(shape, 0.0)) * largest_loss(inner, adjacency)  # Papernot, Steinke 2022, Corollary 3
    return math.inf


def _sampled_loss(loss: float, rate: float) -> float:
    """Return `log(1 - rate + rate exp(loss))`, the largest loss of a mixture with what is released without the record."""
    if rate in (0, 1) or math.isinf(loss):
        return loss if rate else 0.0
    return math.log1p(rate * math.expm1(loss)) if loss < 700 else loss + math.log(rate + (1 - rate) * math.exp(-loss))


def pure(event: Event, adjacency: Adjacency) -> float:
    """Return the epsilon of an event at delta 0: the largest losses of its parts, which some data set attains together;
    `UnsupportedMechanism` if some part may lose less than is known, or has no loss under this adjacency.
    """
    for node in nodes(event):
        is_open = isinstance(node, PoissonSampled) and 0 < node.sample_rate < 1 and adjacency is Adjacency.REPLACE_ONE
        is_local = isinstance(node, RandomizedResponse) and adjacency is not Adjacency.REPLACE_ONE
        if is_open or is_local or not isinstance(node, _ATTAINED):
            raise UnsupportedMechanism(
                f"{node} at delta 0 under {adjacency}: proven there for Laplace noise, exponential and pure mechanisms, "
                "Poisson samples of them under add_remove, and randomised response under replace_one"
            )
    return largest_loss(event, adjacency)


def allocation_pair(event: RandomAllocation, adjacency: Adjacency, side: str) -> pld.PairMaker:
    """Return the pair of one epoch on a side; `UnsupportedMechanism` for replacing a record."""
    if adjacency is Adjacency.REPLACE_ONE:
        raise UnsupportedMechanism("random allocation under replace-one has no proof here; use add_remove")
    return partial(_allocation_pair, event, side)


def _allocation_pair(event: RandomAllocation, side: str, direction: Direction, log_tail: float) -> LossPair:
    # `pld.epsilon_bracket` asks for a tail 16 e-folds below delta over the number of releases
    resolution = math.exp(log_tail + pld.RESOLUTION_LIMIT) / 2
    return random_allocation(float(event.noise_multiplier), int(event.steps), direction, side, resolution=resolution)


def shuffled_pair(event: Shuffled, adjacency: Adjacency, side: str) -> list[pld.PairMaker]:
    """Return pairs of the shuffled answers: one from above; one or two from below, each that of one data set. Raises
    `UnsupportedMechanism` for another randomiser or adjacency.

    No data set is known to be the worst: from below, another one may cost more.
    Of a randomiser that is only known to be pure, randomised response of three categories is an example.
    """
    inner, records = event.mechanism, int(event.records)
    epsilon = largest_loss(inner, adjacency)
    is_local = isinstance(inner, RandomizedResponse | ApproximateDp) and 0 < epsilon < math.inf
    if adjacency is not Adjacency.REPLACE_ONE or not is_local:
        raise UnsupportedMechanism(
            f"{event} under {adjacency}: proven here for shuffled randomised response, or ApproximateDp with delta 0 for any "
            "pure local randomiser, under replace_one"
        )
    own, clone = 1 / (1 + math.exp(epsilon)), math.exp(-epsilon) / 2
    example = 1 / (2 + math.exp(epsilon))
    if isinstance(inner, RandomizedResponse):
        own = clone = example = inner.noise_parameter / inner.buckets
    if side == "above":
        return [partial(_clones, (epsilon, records, own, clone, side))]
    pairs: list[pld.PairMaker] = []
    if not isinstance(inner, RandomizedResponse) or inner.buckets > 2:
        pairs.append(partial(_clones, (epsilon, records, example, example, side)))
    if not isinstance(inner, RandomizedResponse) or inner.buckets == 2:
        pairs.append(partial(_binary, epsilon, records))
    return pairs


def _clones(setting: tuple[float, int, float, float, str], direction: Direction, log_tail: float) -> LossPair:
    return shuffling.clones(*setting)


def _binary(epsilon: float, records: int, direction: Direction, log_tail: float) -> LossPair:
    return shuffling.binary(epsilon, records)


def above_propose_test_release(event: ProposeTestRelease) -> ApproximateDp:
    """Return what dominates: pure, and where the bound does not hold the distance is 0 and `delta` the chance to pass."""
    return ApproximateDp(
        epsilon=event.test_epsilon + event.release_epsilon,
        delta=math.exp(-event.test_epsilon * event.threshold) / 2,
        unit=event.unit,
    )


def below_propose_test_release(event: ProposeTestRelease) -> tuple[pld.PairMaker, pld.PairMaker]:
    """Return pairs of two members of the class.

    Both data sets at distance 0, and a release that shows the record: distinguished wherever the test is passed. And data sets
    on either side of the last distance that the threshold does not exceed, with randomised response as the release.
    """
    test, release = float(event.test_epsilon), float(event.release_epsilon)
    gap = test * (float(event.threshold) - math.floor(event.threshold))
    passes = math.exp(-gap) / 2, math.exp(-gap - test) / 2  # of the farther data set, and of the nearer one
    share = 1 / (1 + math.exp(-release))
    fails = math.log1p(-passes[0]) - math.log1p(-passes[1])
    slip = math.exp(-test * event.threshold) / 2  # chance to pass at distance 0

    def revealing(direction: Direction, log_tail: float) -> LossPair:
        return finite_pair((0.0, math.inf), (1 - slip, slip))

    def farther(direction: Direction, log_tail: float) -> LossPair:
        side, chance = (1, passes[0]) if direction != "add" else (-1, passes[1])
        losses = (side * test + release, side * test - release, side * fails)
        return finite_pair(losses, (chance * share, chance * (1 - share), 1 - chance))

    return revealing, farther if event.threshold >= 1 else revealing


def tuned_divergences(event: Tuned, orders: Array, run: Array) -> Array:
    """Return the divergences of the best of several runs, given those of one.

    A Poisson law has the outcome "no run", of the same mass `exp(-mean)` on either data set, which adds to the moment.

    References: Papernot, Steinke 2022, arXiv 2110.03620, Theorems 2 and 6.
    """
    mean, shape = float(event.mean), float(event.shape)
    if math.isinf(shape):
        limits = np.log1p(1 / (orders - 1))
        failures = np.array([_delta(orders, run, limit) for limit in limits.tolist()])
        log_sum = math.log(mean) + (orders - 1) * (run + mean * failures)
        return np.asarray(np.logaddexp(-mean, log_sum) / (orders - 1), dtype=np.float64)
    gamma = _gamma(mean, shape)
    extra = (1 + shape) * float(np.min((1 - 1 / orders) * run - math.log(gamma) / orders))
    return np.asarray(run + extra + math.log(mean) / (orders - 1), dtype=np.float64)


def tuned_example(event: Tuned, neighbour: Callable[[Array, int], Array], limit: float) -> pld.PairMaker:
    """Return the pair of the best of several runs with three scores: a best one that is rare, one below it, and the rest.

    If the best score is rarer and the one below likelier, the latter is the best of all runs for two reasons at once.

    Args:
        neighbour: chances on the other data set of a score of these chances: 1 likelier there, -1 rarer.
        limit: of the ratio of the chances of what is left, if the run has one.
    """
    grid = np.logspace(-6, -0.31, _EXAMPLES)
    best, middle = (place.ravel() for place in np.meshgrid(grid, grid))
    scores = [(best, middle), (neighbour(best, 1), neighbour(middle, -1))]
    first, last = (np.array([high, low, 1 - high - low]) for high, low in scores)
    holds = (np.minimum(first, last) > 0).all(axis=0) & (first[2] <= limit * last[2]) & (last[2] <= limit * first[2])
    laws = [_best_run_chances(event, row[:, holds]) for row in (first, last)]
    if not holds.any():
        return lambda direction, log_tail: finite_pair((0.0,), (1.0,))  # no such scores: nothing is shown

    def maker(direction: Direction, log_tail: float) -> LossPair:
        first, second = laws if direction != "add" else laws[::-1]
        delta = math.exp(log_tail + pld.RESOLUTION_LIMIT)
        with np.errstate(divide="ignore"):
            excess = np.log(np.maximum(first - delta, 0))  # minus infinity beside a chance of 0 says nothing
            gains = np.subtract(excess, np.log(second), out=np.full_like(excess, -math.inf), where=first > delta)
            place = int(np.argmax(np.max(gains, axis=0)))
            losses = np.log(first[:, place]) - np.log(second[:, place])  # infinite if one of the chances underflows
        return finite_pair(tuple(losses.tolist()), tuple(first[:, place].tolist()))

    return maker


def _best_run_chances(event: Tuned, scores: Array) -> Array:
    """Chances that each score, from the best on, is that of the best run; no run counts as the last."""
    above = np.cumsum(scores, axis=0)[:-1]
    none_above = [_generating(event, 1 - chance) for chance in above]
    return np.array([1 - none_above[0], none_above[0] - none_above[1], none_above[1]])


def _generating(event: Tuned, chance: Array) -> Array:
    """Chance that each of the runs is of a kind that one run is of with `chance`."""
    mean, shape = float(event.mean), float(event.shape)
    if math.isinf(shape):
        return np.asarray(np.exp(mean * (chance - 1)), dtype=np.float64)
    gamma = _gamma(mean, shape)
    if shape == 0:
        return np.asarray(np.log1p(-(1 - gamma) * chance) / math.log(gamma), dtype=np.float64)
    growth = np.expm1(-shape * np.log1p(-(1 - gamma) * chance))
    return np.asarray(growth / math.expm1(-shape * math.log(gamma)), dtype=np.float64)


def _delta(orders: Array, run: Array, epsilon: float) -> float:
    """The delta of one run at an epsilon, from its divergences (Canonne, Kamath, Steinke 2020)."""
    logs = (orders - 1) * (run - epsilon + np.log1p(-1 / orders)) - np.log(orders)
    return math.exp(min(0.0, float(np.min(logs))))


def _gamma(mean: float, shape: float) -> float:
    """The parameter of the truncated negative binomial law of this mean, from below: less of it only adds to the divergence."""
    low, high = 1e-300, 1.0
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high) if high < 0.1 else (low + high) / 2
        low, high = (middle, high) if _mean(middle, shape) > mean else (low, middle)
    return low


def _mean(gamma: float, shape: float) -> float:
    remainder = 1 - gamma
    if remainder == 0:
        return 1.0
    logarithm = math.log(gamma)
    if shape == 0:
        return -remainder / (gamma * logarithm)
    return shape * remainder / (gamma * -math.expm1(shape * logarithm))
