"""What deployed releases cost, in terms of events that have a proof: exactly, or at most.

`COSTS` is the open table: a kind of event to the event that costs exactly what it does. `LIMITS` is the same from above: the
event is accounted for as any mechanism with its guarantee. From below it costs what one example of it does (`chances`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from audit.core.adjacency import Adjacency
from audit.core.deployed_events import (
    DiscreteGaussian,
    DiscreteLaplace,
    IntegerNoise,
    MatrixFactorization,
    NoisyMax,
    Skellam,
    SparseVector,
    TreeAggregation,
)
from audit.core.errors import UnsupportedMechanism
from audit.core.events import ApproximateDp, Composed, Event, Exponential, Gaussian
from audit.stats.curves import lattice_pairs
from audit.stats.curves.loss_pairs import Direction, LossPair


def _matrix(event: MatrixFactorization, adjacency: Adjacency) -> Event:
    return _gaussian(event, encoder_sensitivity(event))


def _tree(event: TreeAggregation, adjacency: Adjacency) -> Event:
    return _gaussian(event, math.sqrt(event.depth))


def _gaussian(event: Any, sensitivity: float) -> Event:
    """One Gaussian release, adaptively chosen inputs included (Denisov et al. 2022, Theorem 2.1)."""
    if sensitivity == 0:
        return Composed(parts=())
    return Gaussian(noise_multiplier=event.noise_multiplier / sensitivity, unit=event.unit)


def encoder_sensitivity(event: MatrixFactorization) -> float:
    """Return how far one record of clip norm 1 moves `C x`: the worst of the batches that it may be part of.

    For one participation it is the longest column. Where columns of different participations do not meet (fewer bands than the
    separation) their squares add up. Where coefficients are neither negative nor rising, the earliest batches and equal
    contributions are worst (Kalinin, Lampert 2024, Theorem 2).

    Raises:
        UnsupportedMechanism: no such theorem holds for the coefficients.
    """
    column = np.zeros(event.steps)
    bands = min(len(event.coefficients), event.steps)
    column[:bands] = event.coefficients[:bands]
    starts = range(0, event.steps, event.separation)[: event.participations]
    if len(starts) <= 1:
        return float(np.linalg.norm(column))
    if bands <= event.separation:
        return math.sqrt(sum(float(column[: event.steps - start] @ column[: event.steps - start]) for start in starts))
    if (np.diff(column) > 0).any() or (column < 0).any():
        raise UnsupportedMechanism(
            f"several participations {event.separation} batches apart, and {bands} bands that rise or are below 0: "
            "no sensitivity is proved here; use at most as many bands as the separation"
        )
    total = np.zeros(event.steps)
    for start in starts:
        total[start:] += column[: event.steps - start]
    return float(np.linalg.norm(total))


def _best(event: NoisyMax, adjacency: Adjacency) -> Event:
    return Exponential(epsilon=event.epsilon) if event.noise == "gumbel" else ApproximateDp(epsilon=event.epsilon)


_MOST_AHEAD = 30.0  # scales of noise: beyond, a chance is 1 in floats


def chances(event: NoisyMax | SparseVector, share: float) -> tuple[float, float]:
    """Return how likely one answer is on two neighbouring data sets, in an example that `share` (0 to 1) chooses.

    Of a selection: the worse of two candidates is named; both scores move against each other. Of tests: the only query is above
    the threshold. At 0.5 the two data sets are mirror images, at 1 the answer is a toss-up on the first.

    References:
        McKenna, Sheldon 2020, arXiv 2010.12603 (exponential noise: the smaller of two chances is `exp(-gap) / 2`).
    """
    if isinstance(event, NoisyMax):
        gap, tail = float(event.epsilon), _exponential_tail if event.noise == "exponential" else partial(laplace_tail, 1.0, 1.0)
        start = max(gap * (share - 1), -_MOST_AHEAD)
        return tail(start), tail(start + gap)
    scales = 1 / float(event.threshold_epsilon), 2 * event.positives / float(event.query_epsilon)
    start = max(share - 1, -_MOST_AHEAD * max(scales))
    return laplace_tail(*scales, start), laplace_tail(*scales, start + 1)


def _exponential_tail(gap: float) -> float:
    """Chance that a candidate wins that is `gap` scales of exponential noise behind."""
    return math.exp(-gap) / 2 if gap >= 0 else 1 - math.exp(gap) / 2


def laplace_tail(first: float, second: float, gap: float) -> float:
    """Return the chance that the sum of two Laplace variables of these scales exceeds `gap`.

    With the larger scale b, the ratio r of the smaller one to it, and t = gap / b:
    `exp(-t) / 2 * (1 + r / (1 + r) * t * (1 - exp(-d)) / d)` with `d = t (1 - r) / r`, where nothing cancels at equal scales.

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


Rule = Callable[[Any, Adjacency], Event]
COSTS: Mapping[type, Rule] = {MatrixFactorization: _matrix, TreeAggregation: _tree}
LIMITS: Mapping[type, Rule] = {
    NoisyMax: _best,
    SparseVector: lambda event, adjacency: ApproximateDp(epsilon=event.threshold_epsilon + event.query_epsilon),
}
FLOORS: Mapping[type, Rule] = {
    NoisyMax: lambda event, adjacency: _best(event, adjacency) if event.noise == "gumbel" else event,
    SparseVector: lambda event, adjacency: event,
}
"""The same from below: the event itself where an example of it is accounted for (`chances`)."""
_PAIRS: Mapping[type, Callable[..., LossPair]] = {
    DiscreteGaussian: lattice_pairs.discrete_gaussian,
    Skellam: lattice_pairs.skellam,
}


def integer_pair(event: IntegerNoise, adjacency: Adjacency) -> Callable[[Direction, float], LossPair]:
    """Return the maker of the pair of integer noise; both directions are mirror images."""
    shift = int(event.sensitivity) * (2 if adjacency is Adjacency.REPLACE_ONE else 1)
    return partial(_integer_pair, event, shift)


def _integer_pair(event: IntegerNoise, shift: int, direction: Direction, log_tail: float) -> LossPair:
    if isinstance(event, DiscreteLaplace):
        return lattice_pairs.discrete_laplace(event.scale, shift)
    return _PAIRS[type(event)](event.scale, shift, log_tail=log_tail)
