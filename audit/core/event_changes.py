"""Events with other noise, rates, counts or groups: what "what if" asks, and what a calibration searches over."""

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from audit.core import checks
from audit.core.errors import ConfigError
from audit.core.event_reading import nodes, rebuilt
from audit.core.events import Event, Grouped, Repeated

Quantity = Literal["noise", "rate", "steps"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventChange:
    """Another noise multiplier, sampling rate or number of steps; one that is a factor multiplies what the event has."""

    quantity: Quantity
    value: float
    is_factor: bool = False

    def __post_init__(self) -> None:
        checks.choice(self.quantity, "the quantity", get_args(Quantity))
        checks.nonnegative(self.value, self.quantity)


def changed(event: Event, change: EventChange) -> Event:
    """Return the event with another noise, rate or number of steps everywhere.

    Raises:
        ConfigError: the event has no such quantity, or several different ones and `change` is no factor.

    >>> from audit.core.events import dp_sgd
    >>> training = dp_sgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=0.1, steps=10)
    >>> changed(training, EventChange(quantity="steps", value=2, is_factor=True)).count
    20
    """
    names = ((node, _field(node, change.quantity)) for node in nodes(event))
    values = sorted({float(getattr(node, name)) for node, name in names if name})
    if not values:
        raise ConfigError(f"{event} has no {change.quantity} that could be changed")
    if not change.is_factor and len(values) > 1:
        texts = " and ".join(f"{value:g}" for value in values)
        raise ConfigError(
            f"{event} has several values of {change.quantity} ({texts}); expected a factor for all of them, such as x2"
        )

    def edit(node: Event) -> Event:
        name = _field(node, change.quantity)
        if not name:
            return node
        value = getattr(node, name) * change.value if change.is_factor else change.value
        replacement: Any = round(value) if change.quantity == "steps" else value
        edited: Event = replace(node, **{name: replacement})  # type: ignore[type-var]
        return edited

    return rebuilt(event, edit)


def _field(node: Event, quantity: Quantity) -> str:
    """The field of a node that holds a quantity, "" for none; only the innermost repetition counts as steps."""
    if quantity == "noise":
        return "noise_multiplier" if hasattr(node, "noise_multiplier") else ""
    if quantity == "rate":
        return "sample_rate" if hasattr(node, "sample_rate") else ""
    innermost = isinstance(node, Repeated) and not any(isinstance(inner, Repeated) for inner in nodes(node.mechanism))
    return "count" if innermost else ""


def with_noise_factor(event: Event, factor: float) -> Event:
    """Return the event with every noise multiplier times `factor`."""
    return changed(event, EventChange(quantity="noise", value=factor, is_factor=True))


def grouped(event: Event, size: int) -> Event:
    """Return the event compared with `size` records that change together; itself for a single one."""
    return event if size == 1 else Grouped(mechanism=event, size=size)


def repeated_step(event: Event) -> Event:
    """Return what a budget of steps repeats: the mechanism of a repetition, else the event itself."""
    return event.mechanism if isinstance(event, Repeated) else event


def has_noise(event: Event) -> bool:
    """Return whether some leaf has a noise multiplier.

    >>> from audit.core.events import NonPrivate
    >>> has_noise(NonPrivate())
    False
    """
    return any(hasattr(node, "noise_multiplier") for node in nodes(event))


def read_noise(event: Event) -> float | None:
    """Return the noise multiplier of an event that has a single one, else None."""
    values = {float(node.noise_multiplier) for node in nodes(event) if hasattr(node, "noise_multiplier")}
    return values.pop() if len(values) == 1 else None
