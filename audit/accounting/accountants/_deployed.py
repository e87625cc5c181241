"""What deployed releases cost, in terms of events that have a proof: exactly, or at most.

`COSTS` is the open table: a kind of event to the event that costs exactly what it does. `LIMITS` is the same from above: the
event is accounted for as any mechanism with its guarantee. From below it costs what one example of it does (`_examples`).
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from audit.core import deployed_events
from audit.core.adjacency import Adjacency
from audit.core.encoder import encoder_sensitivity
from audit.core.events import ApproximateDp, Composed, Event, Exponential, Gaussian
from audit.stats.curves import lattice_pairs
from audit.stats.curves.loss_pairs import Direction, LossPair


def _matrix(event: deployed_events.MatrixFactorization, adjacency: Adjacency) -> Event:
    return _gaussian(event, encoder_sensitivity(event))


def _tree(event: deployed_events.TreeAggregation, adjacency: Adjacency) -> Event:
    return _gaussian(event, math.sqrt(event.depth))


def _gaussian(event: Any, sensitivity: float) -> Event:
    """One Gaussian release, adaptively chosen inputs included (Denisov et al. 2022, Theorem 2.1)."""
    if sensitivity == 0:
        return Composed(parts=())
    return Gaussian(noise_multiplier=event.noise_multiplier / sensitivity, unit=event.unit)


def _best(event: deployed_events.NoisyMax, adjacency: Adjacency) -> Event:
    return Exponential(epsilon=event.epsilon) if event.noise == "gumbel" else ApproximateDp(epsilon=event.epsilon)


Rule = Callable[[Any, Adjacency], Event]
COSTS: Mapping[type, Rule] = {deployed_events.MatrixFactorization: _matrix, deployed_events.TreeAggregation: _tree}
LIMITS: Mapping[type, Rule] = {
    deployed_events.NoisyMax: _best,
    deployed_events.SparseVector: lambda event, adjacency: ApproximateDp(epsilon=event.threshold_epsilon + event.query_epsilon),
}
# the same from below: the event itself where an example of it is accounted for (`_examples.chances`)
FLOORS: Mapping[type, Rule] = {
    deployed_events.NoisyMax: lambda event, adjacency: _best(event, adjacency) if event.noise == "gumbel" else event,
    deployed_events.SparseVector: lambda event, adjacency: event,
}
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
