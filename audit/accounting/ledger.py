"""A budget ledger: the releases about a data set over time, their joint cost, the budget that is left.

Releases are training runs, metrics computed on private data, hyper-parameter searches: anything with an event. The ledger
is a value; recording gives a new one, and refuses what would exceed the budget.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from audit.accounting import resolve
from audit.core import checks
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.errors import AuditError, ConfigError, UnsupportedMechanism
from audit.core.event_reading import unit
from audit.core.events import Composed, Event, Laplace, Repeated, words
from audit.core.protocols import Accountant
from audit.core.provenance import BudgetLedger, BudgetRelease
from audit.core.results import Trajectory


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


class BudgetExceeded(AuditError):
    """A planned release would cost more than what is left: a policy that is not met."""

    exit_code = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Something that was published about the data.

    Attributes:
        groups: of persons with data that it used; empty for everybody's.
        spent: epsilon of everything up to and with this release, as the ledger's accountant put it when it was recorded;
            None before that.
    """

    name: str
    event: Event
    when: str = ""
    note: str = ""
    groups: tuple[str, ...] = ()
    spent: float | None = None
    source: str = ""

    def is_again(self, release: Release) -> bool:
        """True if the other one is the same release: name, event, remark and groups, whenever it was recorded."""
        identity = (release.name, release.event, release.note, release.groups)
        return (self.name, self.event, self.note, self.groups) == identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """All releases about one data set, with the budget that they have to stay within.

    Attributes:
        accountant: name of the accountant that adds up (`audit ls accountants`); it must claim an upper bound.
        releases: in the order in which they were made; all of them count, whichever groups they used.
    """

    budget_epsilon: float
    delta: float
    adjacency: Adjacency
    accountant: str = "reference"
    releases: tuple[Release, ...] = ()
    limits: tuple[Limit, ...] = ()

    def __post_init__(self) -> None:
        checks.positive(self.budget_epsilon, "budget_epsilon")
        checks.open_probability(self.delta, "delta")

    def ask(self) -> Accountant:
        """The accountant that adds up; `ConfigError` if there is none of that name, or it does not claim an upper bound."""
        return upper_accountant(self.accountant)

    @property
    def event(self) -> Event:
        """Everything released so far, as one event."""
        return together(release.event for release in self.releases)

    def total_claim(self, accountant: Accountant, events: Sequence[Event] = ()) -> Claim:
        """Return what all releases cost together, `events` ones included.

        Composition is that of the mechanisms, not of their epsilons; each release may depend on those before it.
        """
        self.check_units(events)
        event = together((*(release.event for release in self.releases), *events))
        return accountant.claim(event, delta=self.delta, adjacency=self.adjacency)

    def check_units(self, events: Sequence[Event] = ()) -> None:
        """Raise `UnsupportedMechanism`, naming a release, if releases about different units would be added up."""
        units = [(f"'{release.name}'", unit(release.event)) for release in self.releases]
        units += [("the next release", unit(event)) for event in events]
        for name, other in units[1:]:
            if other != units[0][1]:
                raise UnsupportedMechanism(
                    f"{name} is about one {other}, {units[0][0]} about one {units[0][1]}; their epsilons do not add up. Keep a "
                    f"ledger for each unit, or state the smaller unit's release for one that has at most k of them: "
                    f"--event \"Grouped(dp_sgd(noise, rate, steps, unit='user'), size=k)\", in a ledger of the "
                    "accountant reference"
                )

    def remaining(self, accountant: Accountant) -> float:
        """Budget minus what is spent, at least 0. What still fits is a matter of composition: ask `affords`."""
        return max(0.0, self.budget_epsilon - self.total_claim(accountant).epsilon) if self.releases else self.budget_epsilon

    def affords(self, accountant: Accountant, event: Event, groups: Sequence[str] = ()) -> bool:
        """True if a planned release would stay within the budget and every limit."""
        is_within = self.total_claim(accountant, (event,)).epsilon <= self.budget_epsilon
        return is_within and not any(True for _ in self._excesses(event, groups))

    def total_spent(self, limit: Limit, events: Sequence[Event] = ()) -> float:
        """Return what the releases that a limit is about cost together by its own accountant, `events` ones included."""
        past = [release.event for release in self.releases if limit.concerns(release.groups)]
        return float(limit.claim((*past, *events)).epsilon) if past or events else 0.0

    def _excesses(self, event: Event, groups: Sequence[str]) -> Iterator[tuple[Limit, float]]:
        """Limits that a release would exceed, and the totals that it would bring them to; `ConfigError` for a group that no
        limit is about.
        """
        known_groups = {limit.group for limit in self.limits} - {""}
        unknown = sorted(set(groups) - known_groups)
        if unknown:
            names = ", ".join(sorted(known_groups)) or "none"
            raise ConfigError(f"no limit is about the group '{unknown[0]}'; the ledger's groups: {names}")
        for limit in self.limits:
            if limit.concerns(groups) and not (total := self.total_spent(limit, (event,))) <= limit.budget_epsilon:
                yield limit, total

    def record(self, accountant: Accountant, release: Release) -> Ledger:
        """The ledger with one release more; `BudgetExceeded` if it would cost more than what is left; nothing is recorded."""
        total = self.total_claim(accountant, (release.event,))
        if not total.epsilon <= self.budget_epsilon:  # not ">", which is False of NaN
            raise BudgetExceeded(
                f"'{release.name}' would bring the total to epsilon {total.epsilon:.6g} at delta {self.delta:g} "
                f"({total.source}); the budget is {self.budget_epsilon:g} and {self.remaining(accountant):.6g} of it is left. "
                "Take fewer steps, more noise, or raise the budget on purpose"
            )
        for limit, total_of_limit in self._excesses(release.event, release.groups):
            raise BudgetExceeded(
                f"'{release.name}' would bring the limit '{limit.name}' to epsilon {total_of_limit:.6g} at delta "
                f"{limit.delta:g} under {limit.adjacency}; its budget is {limit.budget_epsilon:g}"
            )
        entry = replace(release, spent=total.epsilon, source=total.source)
        return replace(self, releases=(*self.releases, entry))

    def most_repeats(self, accountant: Accountant, event: Event, *, groups: Sequence[str] = (), limit: int = 1_000_000) -> int:
        """Return how often a planned release can be made within the budget and every limit, from below."""

        def fits(count: int) -> bool:
            return self.affords(accountant, Repeated(mechanism=event, count=count), groups)

        low, high = 0, 1
        while fits(high):
            if high >= limit:
                return limit
            low, high = high, min(high * 4, limit)  # by fours, as each question composes all releases again
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        return low

    def trajectory(self, accountant: Accountant) -> Trajectory:
        """Return what was spent after each release, asked for now; its steps are the releases, counted from 1."""
        claims = [
            replace(self, releases=self.releases[: count + 1]).total_claim(accountant) for count in range(len(self.releases))
        ]
        return Trajectory(
            accountant=claims[-1].source if claims else "",
            steps=tuple(range(1, len(claims) + 1)),
            epsilon=_rising(claim.epsilon for claim in claims),
        )


def _rising(epsilons: Iterable[float]) -> tuple[float, ...]:
    """The largest figure so far at each place: what is spent does not come back, though an upper bound may round below."""
    return tuple(accumulate(epsilons, max))


def accuracy_release(name: str, *, records: int, scale: float, times: int = 1, moment: str = "") -> Release:
    """The release of `times` accuracies (or other means of values in [0, 1]) over `records` private records; `ConfigError` for
    a number out of range.

    Args:
        records: how many the mean is taken over, a public number; one record moves it by at most `1 / records` (under
            replace-one twice that is charged, which is safe).
        scale: of the Laplace noise added to each figure; an epsilon of at most `times / (records * scale)` in all.

    >>> accuracy_release("validation", records=1000, scale=0.05).event
    Laplace(unit='example', noise_multiplier=50.0)
    """
    if records < 1:
        raise ConfigError(f"records is {records}; expected at least 1")
    checks.positive(scale, "scale")
    event: Event = Laplace(noise_multiplier=scale * records)
    return Release(name=name, event=event if times == 1 else Repeated(mechanism=event, count=times), when=moment)


def summary(ledger: Ledger) -> BudgetLedger:
    """The ledger as a report shows it: every release with what was spent after it, as it was put when it was recorded."""
    ledger.check_units()
    releases = ledger.releases
    if any(release.spent is None for release in releases):
        claims = ledger.trajectory(ledger.ask())
        source, epsilons = claims.accountant, claims.epsilon
    else:
        source = releases[-1].source if releases else ""
        epsilons = _rising(release.spent for release in releases if release.spent is not None)
    return BudgetLedger(
        budget=ledger.budget_epsilon,
        delta=ledger.delta,
        adjacency=ledger.adjacency,
        accountant=source or ledger.accountant,
        releases=tuple(
            BudgetRelease(
                name=release.name, when=release.when, mechanism=words(release.event), note=release.note, epsilon=epsilon
            )
            for release, epsilon in zip(releases, epsilons, strict=True)
        ),
    )
