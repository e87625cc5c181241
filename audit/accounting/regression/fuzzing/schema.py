"""Questions derived from the events themselves: every class, every field, wrapped at random.

In each event one field is drawn from far beyond its usual range, or from its edges; the others are usual. A new class of event
has a stratum at once; a new field without a range in `SPANS` is an error that names it.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from audit.accounting.regression.fuzzing.draws import Draws
from audit.accounting.regression.suite import ClaimQuestion
from audit.core import events
from audit.core.adjacency import Adjacency
from audit.core.deployed_events import Selection
from audit.core.deployed_procedures import Shuffled, SubsampleAggregate, Tuned
from audit.core.errors import ConfigError
from audit.core.event_changes import has_noise, with_noise_factor
from audit.core.event_forms import kinds_by_name
from audit.core.event_reading import nodes, rebuilt


@dataclass(frozen=True, slots=True)
class Span:
    """What a field is drawn from: a usual range, a far one around it, and single values at its edges."""

    usual: tuple[float, float]
    far: tuple[float, float]
    edges: tuple[float, ...] = ()
    is_count: bool = False

    def draw(self, draws: Draws, is_far: bool) -> float:
        if is_far and self.edges and draws.chance(0.2):
            return draws.pick(*self.edges)
        low, high = self.far if is_far else self.usual
        return draws.count(int(high), int(low)) if self.is_count else draws.log_uniform(low, high)


def _counts(usual: int, far: int, *edges: int, lowest_count: int = 1) -> Span:
    return Span((lowest_count, usual), (lowest_count, far), edges, is_count=True)


# of the fields that hold one number, by name
SPANS: Mapping[str, Span] = {
    "noise_multiplier": Span((0.4, 8.0), (0.05, 5000.0)),
    "clip_norm": Span((0.1, 10.0), (1e-6, 1e6)),
    "noise_parameter": Span((0.1, 0.9), (1e-5, 1.0), (1.0,)),
    "buckets": _counts(20, 100_000, lowest_count=2),
    "epsilon": Span((0.05, 2.0), (1e-4, 30.0), (0.0,)),
    "delta": Span((1e-10, 1e-5), (1e-14, 0.2), (0.0,)),
    "rho": Span((0.01, 1.0), (1e-6, 60.0), (0.0,)),
    "sample_rate": Span((0.01, 0.5), (1e-7, 1.0), (0.0, 1.0)),
    "population": _counts(2000, 1_000_000, lowest_count=20),
    "batch": _counts(20, 100_000, 1),
    "count": _counts(60, 1_000_000, 0, 1),
    "size": _counts(5, 300, 1),
    "sensitivity": _counts(5, 2000, 1),
    "threshold_epsilon": Span((0.1, 2.0), (1e-3, 20.0)),
    "query_epsilon": Span((0.1, 2.0), (1e-3, 20.0)),
    "positives": _counts(5, 500, 1),
    "steps": _counts(200, 30_000, 1),
    "participations": _counts(6, 200, 1),
    "separation": _counts(20, 2000, 1),
    "groups": _counts(8, 500, 1),
    "batch_limit": _counts(200, 100_000, 1),
    "count_noise": Span((0.5, 20.0), (0.05, 2000.0)),
    "test_epsilon": Span((0.1, 2.0), (1e-3, 20.0)),
    "release_epsilon": Span((0.1, 2.0), (1e-3, 20.0), (0.0,)),
    "threshold": Span((1.0, 20.0), (0.01, 1000.0), (0.0,)),
    "blocks": _counts(5, 200, 1),
    "records": _counts(1000, 100_000, 1),
    "mean": Span((1.0, 50.0), (1.0, 20_000.0), (1.0,)),
    "shape": Span((0.1, 4.0), (0.01, 100.0), (0.0, 1.0, -0.5, math.inf)),
}
_STRUCTURE = {"unit", "mechanism", "parts", "noise", "coefficients", "shifts", "probabilities", "decays", "weights"}
_PLAIN = (events.Gaussian, events.Laplace, events.ApproximateDp)
_INSIDE: Mapping[type[events.Event], tuple[type[events.Event], ...]] = {
    events.PoissonSampled: (events.Gaussian, events.Gaussian, events.Laplace),
    events.SampledWithoutReplacement: (events.Gaussian,),
    Shuffled: (events.RandomizedResponse, events.ApproximateDp),
    Tuned: (events.Gaussian, events.ApproximateDp, events.Repeated),
    SubsampleAggregate: (events.Gaussian, events.Laplace),
    events.Grouped: (events.Gaussian, events.Laplace, events.Repeated, events.ApproximateDp),
}
_LEAVES = tuple(kind for kind in kinds_by_name().values() if issubclass(kind, events.ReleaseEvent))


def fields(kind: type[events.Event]) -> tuple[str, ...]:
    """Return the fields of a class that hold one number; `ConfigError` if one has no range."""
    names = tuple(field.name for field in dataclasses.fields(kind) if field.name not in _STRUCTURE)  # type: ignore[arg-type]
    for name in names:
        if name not in SPANS:
            raise ConfigError(f"the field {name} of {kind.__name__} has no range to be drawn from; add it to SPANS")
    return names


def draw_event(
    draws: Draws, kind: type[events.Event], far: str | None = None, *, depth: int = 0, is_usual: bool = False
) -> events.Event:
    """Return an event of a class with one field far from the usual: `far`, or any; with none if it `is_usual`.

    The noise is set so that the release still reveals something, except if it is the far one.
    """
    names = fields(kind)
    event_class: Any = kind
    of_lists = _STRUCTURE - {"unit", "mechanism", "parts", "noise"}
    lists = [field.name for field in dataclasses.fields(event_class) if field.name in of_lists]
    if far is None and depth == 0 and not is_usual and (names or lists):
        far = (*names, *lists)[draws.count(len(names) + len(lists)) - 1]
    values: dict[str, Any] = {name: SPANS[name].draw(draws, name == far) for name in names}
    values |= _lists(draws, lists, far)
    declared = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    if "noise" in declared:
        values["noise"] = get_args(Selection)[draws.count(3) - 1]
    if "batch" in values:
        values["batch"] = min(values["batch"], values["population"])
    if far == "steps" and "participations" in values:  # as many as fit, so that the last steps cost something
        values["separation"] = max(values["separation"], math.ceil(values["steps"] / SPANS["participations"].far[1]))
        values["participations"] = (values["steps"] - 1) // values["separation"] + 1
    if far == "batch_limit" and draws.chance(0.5):  # every batch is cut, so that the limit is what is paid for
        values |= {"sample_rate": 1.0, "population": values["batch_limit"] * draws.count(20, 2)}
    if "mean" in values and math.isfinite(values["shape"]):
        values["mean"] = max(values["mean"], 1.0)
    if "coefficients" in values and "groups" in values:
        values["groups"] = max(values["groups"], len(values["coefficients"]))
    if "mechanism" in declared:
        choice = _INSIDE.get(kind, _LEAVES)
        values["mechanism"] = draw_event(draws, choice[draws.count(len(choice)) - 1], depth=depth + 1)
        if kind is Shuffled and isinstance(values["mechanism"], events.ApproximateDp):
            values["mechanism"] = dataclasses.replace(values["mechanism"], delta=0.0)
    if "parts" in declared:
        values["parts"] = tuple(
            draw_event(draws, _LEAVES[draws.count(len(_LEAVES)) - 1], depth=depth + 1) for _ in range(draws.count(3))
        )
    event = kind(**values)
    return event if depth or far == "noise_multiplier" or not draws.chance(0.8) else _scale_noise(draws, event)


def _lists(draws: Draws, names: list[str], far: str | None) -> dict[str, Any]:
    """Return lists of numbers of one length; a long one if such a field is the far one."""
    length = draws.count(12 if far in names else 4)
    values: dict[str, Any] = {}
    for name in names:
        numbers = [draws.log_uniform(0.05, 1.0) for _ in range(length)]
        if name == "coefficients":
            numbers = [1.0, *sorted(numbers, reverse=True)[1:]]
        if name == "shifts":
            numbers = [draws.log_uniform(0.2, 6.0) for _ in range(length)]
        if name == "probabilities":
            total = math.fsum(numbers)
            numbers = [number / total for number in numbers]
            numbers[-1] = 1 - math.fsum(numbers[:-1])
        values[name] = tuple(numbers)
    return values


def _scale_noise(draws: Draws, event: events.Event) -> events.Event:
    """Return the event with so much noise that its epsilon is neither 0 nor huge, by a rule of thumb."""
    if not has_noise(event):
        return event
    spread = 1.0
    for node in nodes(event):
        counts = [getattr(node, name) for name in ("count", "participations", "blocks") if hasattr(node, name)]
        if not hasattr(node, "participations"):
            counts += (
                [node.steps * getattr(node, "sample_rate", 1.0) ** 2]
                if hasattr(node, "steps") and hasattr(node, "sample_rate")
                else []
            )
        spread *= math.sqrt(math.prod(max(float(value), 1e-4) for value in counts))
        spread *= float(getattr(node, "size", 1)) * (
            float(node.sample_rate) if isinstance(node, events.PoissonSampled) else 1.0
        )
    return with_noise_factor(event, max(spread * draws.log_uniform(0.15, 1.5), 0.2))


def _inside(draws: Draws, event: events.Event) -> events.Event:
    """Return the event inside of another, which hardly adds to it: most often beside others, else repeated or grouped."""
    form = int(draws.pick(0, 0, 0, 1, 2, 3))
    if form in (0, 3):
        weak_events = [_weak(draws) for _ in range(draws.count(2))]
        place = int(draws.pick(*range(len(weak_events) + 1)))
        event = events.Composed(parts=(*weak_events[:place], event, *weak_events[place:]))
    if form in (1, 3):
        event = events.Repeated(mechanism=event, count=draws.count(4, 2))
    return events.Grouped(mechanism=event, size=draws.count(4, 2)) if form == 2 else event


def _weak(draws: Draws) -> events.Event:
    """Return a release that costs little."""
    kind = int(draws.pick(0, 1, 2))
    if kind == 0:
        return events.ApproximateDp(epsilon=draws.log_uniform(0.01, 0.3), delta=draws.log_uniform(1e-12, 1e-9))
    noise = draws.log_uniform(4.0, 100.0)
    return events.Gaussian(noise_multiplier=noise) if kind == 1 else events.Laplace(noise_multiplier=noise)


def wrap_event(draws: Draws, event: events.Event) -> events.Event:
    """Return the event as it is, or repeated, grouped, beside another release, or several of these."""
    if draws.chance(0.25):
        event = events.Repeated(mechanism=event, count=draws.count(12, 2))
    if draws.chance(0.25):
        second = draw_event(draws, _PLAIN[draws.count(len(_PLAIN)) - 1], depth=1)
        parts = (event, second) if draws.chance(0.5) else (second, event)
        event = events.Parallel(parts=parts) if draws.chance(0.15) else events.Composed(parts=parts)
    if draws.chance(0.25):
        event = events.Grouped(mechanism=event, size=draws.count(20, 2))
    return event


def _about(event: events.Event, unit: str) -> events.Event:
    return rebuilt(event, lambda node: dataclasses.replace(node, unit=unit) if isinstance(node, events.ReleaseEvent) else node)  # type: ignore[arg-type]


def draw_question(draws: Draws, kind: type[events.Event], far: str | None = None, *, wrap: bool = True) -> ClaimQuestion:
    """Return a question about an event of a class, wrapped at random, about any unit, under any adjacency."""
    is_usual = wrap and far is None and draws.chance(0.5)
    event = draw_event(draws, kind, far, is_usual=is_usual)
    if is_usual:
        event = _inside(draws, event)
    elif wrap and draws.chance(0.6):
        event = wrap_event(draws, event)
    if wrap and draws.chance(0.2):
        event = _about(event, get_args(events.Unit)[draws.count(len(get_args(events.Unit))) - 1])
    answers = any(isinstance(node, events.RandomizedResponse) for node in nodes(event))
    odds = (0.05, 0.1) if answers else (0.6, 0.75)
    adjacency = Adjacency.REPLACE_ONE
    if draws.chance(odds[0]):
        adjacency = Adjacency.ADD_REMOVE
    elif draws.chance(odds[1] - odds[0]):
        adjacency = Adjacency.ZERO_OUT
    return ClaimQuestion(event=event, delta=draws.log_uniform(1e-10, 1e-3), adjacency=adjacency)


def _stratum(kind: type[events.Event]) -> Callable[[Draws], ClaimQuestion]:
    def draw(draws: Draws) -> ClaimQuestion:
        for _ in range(20):
            try:
                return draw_question(draws, kind)
            except ConfigError:  # fields that do not go together, such as a batch larger than its population
                continue
        raise ConfigError(f"no event of the kind {kind.__name__} could be drawn in 20 attempts; see SPANS")

    return draw


# one stratum a class of events
SCHEMA_STRATA: Mapping[str, Callable[[Draws], ClaimQuestion]] = {
    f"event {name}": _stratum(kind) for name, kind in kinds_by_name().items()
}
