"""Further budgets of a ledger: other claims about the same data, and budgets of groups of persons."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from audit.accounting import resolve
from audit.core import checks
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.errors import ConfigError
from audit.core.events import Composed, Event, Repeated
from audit.core.protocols import Accountant


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A budget beside the main one of a ledger, at its own delta, adjacency and accountant.

    Attributes:
        group: of persons with this budget: releases that used this group count, and those that used everybody; "" for
            everybody, if all releases count. Groups may overlap: each counts all that any of its members is part of.
    """

    name: str
    budget_epsilon: float
    delta: float
    adjacency: Adjacency
    accountant: str = "reference"
    group: str = ""

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise ConfigError("a limit has a name, such as 'board' or 'patients of 2020'")
        checks.positive(self.budget_epsilon, "budget_epsilon")
        checks.open_probability(self.delta, "delta")

    def concerns(self, groups: Sequence[str]) -> bool:
        """Return whether a release that used these groups (none: everybody) counts."""
        return not self.group or not groups or self.group in groups

    def claim(self, events: Iterable[Event]) -> Claim:
        """Return what the events cost together; `ConfigError` if there is no such accountant, or it does not claim an upper
        bound.
        """
        event = together(events)
        return upper_accountant(self.accountant).claim(event, delta=self.delta, adjacency=self.adjacency)


def upper_accountant(name: str) -> Accountant:
    """Return the accountant of this name; `ConfigError` if there is none, or it does not claim an upper bound."""
    accountant = resolve.accountant(name)
    side = resolve.find_side(accountant)
    if side != "upper":
        raise ConfigError(f"the ledger's accountant '{name}' states {side} figures; a budget needs an upper bound")
    return accountant


def together(events: Iterable[Event]) -> Event:
    """Return the events as one; equal ones are counted, since their order costs nothing.

    >>> from audit.core.events import Laplace
    >>> step = Laplace(noise_multiplier=2.0)
    >>> together((step, step)) == Repeated(mechanism=step, count=2)
    True
    """
    counts = Counter(events)
    parts = tuple(event if count == 1 else Repeated(mechanism=event, count=count) for event, count in counts.items())
    return parts[0] if len(parts) == 1 else Composed(parts=parts)
