"""What deployed releases and whole procedures cost, in terms of events that have a proof, each with the argument why.

`COSTS` is the open table: a kind of event to the event that costs exactly what it does. `LIMITS` is the same from above: the
event is accounted for as any mechanism with its guarantee. From below it costs what one example of it does (`_makers`).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from audit.accounting.accountants._pairs import gaussians
from audit.core import deployed_events, deployed_procedures, events
from audit.core.adjacency import Adjacency
from audit.core.deployed_events import IntegerNoise, MatrixFactorization, encoder_sensitivity
from audit.core.deployed_procedures import RandomAllocation, Shuffled, Tuned
from audit.core.errors import UnsupportedMechanism
from audit.core.event_reading import kinds, nodes, parts, rebuilt
from audit.stats.sampling_tests import overflow_chance


def _matrix(event: deployed_events.MatrixFactorization, adjacency: Adjacency) -> events.Event:
    return _gaussian(event, encoder_sensitivity(event))


def _tree(event: deployed_events.TreeAggregation, adjacency: Adjacency) -> events.Event:
    return _gaussian(event, math.sqrt(event.depth))


def _gaussian(event: Any, sensitivity: float) -> events.Event:
    """One Gaussian release, adaptively chosen inputs included (Denisov et al. 2022, Theorem 2.1)."""
    if sensitivity == 0:
        return events.Composed(parts=())
    return events.Gaussian(noise_multiplier=event.noise_multiplier / sensitivity, unit=event.unit)


def _best(event: deployed_events.NoisyMax, adjacency: Adjacency) -> events.Event:
    return events.Exponential(epsilon=event.epsilon) if event.noise == "gumbel" else events.ApproximateDp(epsilon=event.epsilon)


Rule = Callable[[Any, Adjacency], events.Event]
LIMITS: Mapping[type, Rule] = {
    deployed_events.NoisyMax: _best,
    deployed_events.SparseVector: lambda event, adjacency: events.ApproximateDp(
        epsilon=event.threshold_epsilon + event.query_epsilon
    ),
}
# the same from below: the event itself where an example of it is accounted for (`_makers.chances`)
FLOORS: Mapping[type, Rule] = {
    deployed_events.NoisyMax: lambda event, adjacency: _best(event, adjacency) if event.noise == "gumbel" else event,
    deployed_events.SparseVector: lambda event, adjacency: event,
}


_SAMPLED = events.PoissonSampled | events.SampledWithoutReplacement | RandomAllocation | deployed_procedures.MixtureOfGaussians


def _fixed_size(event: events.SampledWithoutReplacement, adjacency: Adjacency) -> events.Event:
    """Batches of fixed size under add/remove are Poisson batches with a record that moves the sum by two clip norms.

    With probability batch / population the record is in the batch, in place of another one. Given that other one and the rest,
    the release is a mixture of two Gaussians at most two clip norms apart, against the first of them alone; by joint convexity
    this dominates, and it is attained if all others push against the record. `population` is that of the larger data set.
    """
    noises = gaussians(event.mechanism)
    if adjacency is not Adjacency.ADD_REMOVE or noises is None or event.batch in (0, event.population):
        return event
    if min(noises, default=1.0) == 0:
        return event
    release = tuple(
        events.Gaussian(noise_multiplier=noise / 2) for noise in noises
    )  # two clip norms are half of the multiplier
    return events.PoissonSampled(mechanism=events.Composed(parts=release), sample_rate=event.batch / event.population)


def _truncated(event: deployed_procedures.TruncatedPoisson, adjacency: Adjacency) -> events.Event:
    """The Poisson batches that were not cut, `slack` being how far the cut ones are from them; or all cut to one size."""
    if _are_all_cut(event):
        release = events.Gaussian(noise_multiplier=event.noise_multiplier, unit=event.unit)
        cut = events.SampledWithoutReplacement(mechanism=release, population=event.population, batch=event.batch_limit)
        return events.Repeated(mechanism=_fixed_size(cut, adjacency), count=event.steps)
    step = events.PoissonSampled(
        mechanism=events.Gaussian(noise_multiplier=event.noise_multiplier, unit=event.unit), sample_rate=event.sample_rate
    )
    return events.Repeated(mechanism=step, count=event.steps)


def _are_all_cut(event: deployed_procedures.TruncatedPoisson) -> bool:
    return event.sample_rate == 1 and event.batch_limit < event.population


def _cyclic(event: deployed_procedures.CyclicPoisson, adjacency: Adjacency) -> events.Event:
    """A record of the first group: a Poisson-sampled Gaussian release for each turn of the group.

    Columns of different turns do not meet, so each turn is its own release, at the length of its column; groups that start
    later have fewer turns and shorter columns.
    """
    if adjacency is Adjacency.REPLACE_ONE and len(event.coefficients) > 1:
        raise UnsupportedMechanism("cyclic sampling with an encoder under replace-one has no proof here; use add_remove")
    turns = []
    for start in range(0, int(event.steps), int(event.groups)):
        length = math.hypot(*event.coefficients[: int(event.steps) - start])
        turns.append(events.Gaussian(noise_multiplier=event.noise_multiplier / length, unit=event.unit) if length else None)
    samples = [events.PoissonSampled(mechanism=turn, sample_rate=event.sample_rate) for turn in turns if turn is not None]
    counts = {step: samples.count(step) for step in dict.fromkeys(samples)}  # accountants compose equal steps at once
    return events.Composed(parts=tuple(events.Repeated(mechanism=step, count=count) for step, count in counts.items()))


def _buffered(event: deployed_procedures.BufferedToeplitz, adjacency: Adjacency) -> events.Event:
    """The matrix factorisation that the buffers represent."""
    matrix = MatrixFactorization(
        noise_multiplier=event.noise_multiplier,
        coefficients=event.coefficients,
        steps=event.steps,
        participations=event.participations,
        separation=event.separation,
    )
    return events.Gaussian(noise_multiplier=event.noise_multiplier / encoder_sensitivity(matrix), unit=event.unit)


def _adaptive_clipping(event: deployed_procedures.AdaptiveClipping, adjacency: Adjacency) -> events.Event:
    """Two Gaussian releases on one batch: the bit of the count moves it by half, or is flipped if a record is replaced."""
    noises = (event.noise_multiplier, 2 * event.count_noise)
    return events.Composed(parts=tuple(events.Gaussian(noise_multiplier=noise, unit=event.unit) for noise in noises))


def _aggregate(event: deployed_procedures.SubsampleAggregate, adjacency: Adjacency) -> events.Event:
    """The release with the answers of the record's blocks replaced, which under add/remove is twice its bound;
    `UnsupportedMechanism` for blocks that take part at random or in groups, where replacing one has no proof.
    """
    mechanism = event.mechanism
    if any(isinstance(node, _SAMPLED | events.Grouped) for node in nodes(mechanism)):
        raise UnsupportedMechanism(f"blocks that are sampled or grouped have no proof here: {mechanism}")
    if adjacency is not Adjacency.REPLACE_ONE:
        mechanism = rebuilt(mechanism, _with_answer_replaced)
    return mechanism if event.blocks == 1 else events.Grouped(mechanism=mechanism, size=event.blocks)


def _with_answer_replaced(event: events.Event) -> events.Event:
    if isinstance(event, IntegerNoise):
        return replace(event, noise_multiplier=event.noise_multiplier / 2, sensitivity=2 * event.sensitivity)  # the scale stays
    if isinstance(event, events.Gaussian | events.Laplace):
        return replace(event, noise_multiplier=event.noise_multiplier / 2)
    return event


def _allocation(event: RandomAllocation, adjacency: Adjacency) -> events.Event:
    """A plain release if there is one place, and one that shows the record if there is no noise."""
    if event.noise_multiplier == 0:
        return events.NonPrivate(unit=event.unit)
    return events.Gaussian(noise_multiplier=event.noise_multiplier, unit=event.unit) if event.steps == 1 else event


def _alone(event: Shuffled, adjacency: Adjacency) -> events.Event:
    """The answer itself if no one else answers."""
    return event.mechanism if event.records == 1 else event


COSTS: Mapping[type, Rule] = {
    deployed_events.MatrixFactorization: _matrix,
    deployed_events.TreeAggregation: _tree,
    RandomAllocation: _allocation,
    Shuffled: _alone,
    events.SampledWithoutReplacement: _fixed_size,
    deployed_procedures.TruncatedPoisson: _truncated,
    deployed_procedures.CyclicPoisson: _cyclic,
    deployed_procedures.BufferedToeplitz: _buffered,
    deployed_procedures.AdaptiveClipping: _adaptive_clipping,
    deployed_procedures.SubsampleAggregate: _aggregate,
}
# kinds whose cost for one record is not that of a group's members one by one; under which adjacency, None for any
_ALONE = {events.SampledWithoutReplacement: Adjacency.ADD_REMOVE, deployed_procedures.CyclicPoisson: None}


def check_groups(event: events.Event, adjacency: Adjacency) -> None:
    """Refuse groups of records if the rule is proved for one record only."""
    for node in nodes(event):
        if isinstance(node, events.Grouped) and node.size > 1:
            for kind in kinds(node.mechanism) & _ALONE.keys():
                if _ALONE[kind] in (None, adjacency):
                    raise UnsupportedMechanism(f"a group of records in {kind.__name__} under {adjacency} has no proof here")


def slack(event: events.Event) -> float:
    """Return a bound on the total variation distance between the event and what represents it, on either data set.

    Batches that are cut differ from those that are not with the chance that some batch is too large, which depends on coins
    only (Chua et al. 2024, arXiv 2411.04205, Theorem 3.2).
    """
    if isinstance(event, deployed_procedures.TruncatedPoisson):
        if _are_all_cut(event):
            return 0.0
        chance = overflow_chance(int(event.population), float(event.sample_rate), int(event.batch_limit))
        return min(1.0, float(event.steps) * chance)
    inner = math.fsum(slack(part) for part in parts(event))
    return min(1.0, inner * _runs(event)) if inner else 0.0


def _runs(event: events.Event) -> float:
    """Expected number of runs of what is below a node: a union over runs is at most that many times as likely."""
    match event:
        case events.Repeated(count=count):
            return float(count)
        case Tuned(mean=mean):
            return float(mean)
        case Shuffled(records=records):
            return float(records)
    return 1.0
