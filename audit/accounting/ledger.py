"""A budget ledger: what was released about a data set over time, what it costs together, what is left.

Releases are training runs, metrics computed on private data, hyper-parameter searches: anything with an event. The ledger
is a value; recording gives a new one, and refuses what would exceed the budget.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from audit.accounting import resolve
from audit.core import checks
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.errors import AuditError, ConfigError
from audit.core.events import Composed, Event, Laplace, Repeated, words
from audit.core.protocols import Accountant
from audit.core.provenance import BudgetLedger, BudgetRelease
from audit.core.results import Trajectory


class BudgetExceeded(AuditError):
    """A planned release would cost more than what is left: a policy that is not met."""

    exit_code = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Something that was published about the data.

    Attributes:
        when: ISO 8601 text.
        note: a remark.
        spent: epsilon of everything up to and with this release, as the ledger's accountant put it when it was recorded;
            None before that.
        source: that accountant, as it states itself.
    """

    name: str
    event: Event
    when: str = ""
    note: str = ""
    spent: float | None = None
    source: str = ""

    def is_again(self, release: Release) -> bool:
        """True if the other one is the same release: name, event and remark, whenever it was recorded."""
        return (self.name, self.event, self.note) == (release.name, release.event, release.note)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """All releases about one data set, with the budget that they have to stay within.

    Attributes:
        budget_epsilon: total epsilon that may be spent, at `delta`.
        accountant: name of the accountant that adds up (`audit ls accountants`); it must claim an upper bound.
        releases: in the order in which they were made.
    """

    budget_epsilon: float
    delta: float
    adjacency: Adjacency
    accountant: str = "reference"
    releases: tuple[Release, ...] = ()

    def __post_init__(self) -> None:
        checks.positive(self.budget_epsilon, "budget_epsilon")
        checks.open_probability(self.delta, "delta")

    def ask(self) -> Accountant:
        """The accountant that adds up.

        Raises:
            ConfigError: there is none of that name, or it does not claim an upper bound.
        """
        accountant = resolve.subject(self.accountant)
        side = resolve.side_of(accountant)
        if side != "upper":
            raise ConfigError(
                f"the ledger's accountant '{self.accountant}' states {side} figures; a budget needs an upper bound"
            )
        return accountant

    @property
    def event(self) -> Event:
        """Everything released so far, as one event."""
        return together(release.event for release in self.releases)

    def total_claim(self, accountant: Accountant, events: Sequence[Event] = ()) -> Claim:
        """Return what all releases cost together, `events` ones included.

        Composition is that of the mechanisms, not of their epsilons; each release may depend on those before it.
        """
        event = together((*(release.event for release in self.releases), *events))
        return accountant.claim(event, delta=self.delta, adjacency=self.adjacency)

    def remaining(self, accountant: Accountant) -> float:
        """Budget minus what is spent, at least 0. What still fits is a matter of composition: ask `affords`."""
        return max(0.0, self.budget_epsilon - self.total_claim(accountant).epsilon) if self.releases else self.budget_epsilon

    def affords(self, accountant: Accountant, event: Event) -> bool:
        """True if a planned release would stay within the budget."""
        return self.total_claim(accountant, (event,)).epsilon <= self.budget_epsilon

    def record(self, accountant: Accountant, release: Release) -> Ledger:
        """The ledger with one release more.

        Raises:
            BudgetExceeded: it would cost more than what is left; nothing is recorded.
        """
        total = self.total_claim(accountant, (release.event,))
        if not total.epsilon <= self.budget_epsilon:
            raise BudgetExceeded(
                f"'{release.name}' would bring the total to epsilon {total.epsilon:.6g} at delta {self.delta:g} "
                f"({total.source}); the budget is {self.budget_epsilon:g} and {self.remaining(accountant):.6g} of it is left. "
                "Take fewer steps, more noise, or raise the budget on purpose"
            )
        entry = replace(release, spent=total.epsilon, source=total.source)
        return replace(self, releases=(*self.releases, entry))

    def most_repeats(self, accountant: Accountant, event: Event, *, limit: int = 1_000_000) -> int:
        """Return how often a planned release can be made within the budget, from below."""

        def fits(count: int) -> bool:
            return self.affords(accountant, Repeated(mechanism=event, count=count))

        low, high = 0, 1
        while fits(high):
            if high >= limit:
                return limit
            low, high = high, min(high * 4, limit)
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


def together(events: Iterable[Event]) -> Event:
    """Return the events as one; equal ones are counted, since their order costs nothing.

    >>> step = Laplace(noise_multiplier=2.0)
    >>> together((step, step)) == Repeated(mechanism=step, count=2)
    True
    """
    counts = Counter(events)
    parts = tuple(event if count == 1 else Repeated(mechanism=event, count=count) for event, count in counts.items())
    return parts[0] if len(parts) == 1 else Composed(parts=parts)


def _rising(epsilons: Iterable[float]) -> tuple[float, ...]:
    """The largest figure so far at each place: what is spent does not come back, though an upper bound may round below."""
    return tuple(accumulate(epsilons, max))


def accuracy_release(name: str, *, records: int, scale: float, times: int = 1, moment: str = "") -> Release:
    """The release of `times` accuracies (or other means of values in [0, 1]) over `records` private records.

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
