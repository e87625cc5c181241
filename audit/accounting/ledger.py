"""A budget ledger: what was released about a data set over time, what it costs together, what is left.

Releases are training runs, metrics computed on private data, hyper-parameter searches: anything with an event. The ledger
is a value; recording gives a new one, and refuses what would exceed the budget.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from audit.accounting import resolve
from audit.core import checks, files
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.errors import AuditError, ConfigError, DataError, OutputError
from audit.core.event_forms import decode, encode
from audit.core.events import Composed, Event, Laplace, Repeated, words
from audit.core.protocols import Accountant
from audit.core.results import BudgetLedger, BudgetRelease, Trajectory

VERSION = 2
_HEAD = {"version", "budget_epsilon", "delta", "adjacency", "accountant", "seal", "releases"}
_ROW = {"name", "when", "note", "event", "hash"}
_PATIENCE = 10.0  # seconds that a command waits for another one that writes the same ledger


class BudgetExceeded(AuditError):
    """A planned release would cost more than what is left: a policy that is not met."""

    exit_code = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Something that was published about the data: its name, its event, when (ISO 8601 text), and a remark."""

    name: str
    event: Event
    when: str = ""
    note: str = ""


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
        return Composed(parts=tuple(release.event for release in self.releases))

    def total_claim(self, accountant: Accountant, events: Sequence[Event] = ()) -> Claim:
        """What all releases cost together, `events` ones included.

        Composition is that of the mechanisms, not of their epsilons; each release may depend on those before it.
        """
        parts = (*(release.event for release in self.releases), *events)
        event = parts[0] if len(parts) == 1 else Composed(parts=parts)
        return accountant.claim(event, delta=self.delta, adjacency=self.adjacency)

    def remaining(self, accountant: Accountant) -> float:
        """Budget minus what is spent, at least 0. What still fits is a matter of composition: ask `affords`."""
        return max(0.0, self.budget_epsilon - self.total_claim(accountant).epsilon) if self.releases else self.budget_epsilon

    def affords(self, accountant: Accountant, event: Event) -> bool:
        """Whether a planned release would stay within the budget."""
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
        return replace(self, releases=(*self.releases, release))

    def most_repeats(self, accountant: Accountant, event: Event, *, limit: int = 1_000_000) -> int:
        """How often a planned release can be made within the budget, from below."""

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
        """What was spent after each release; its steps are the releases, counted from 1."""
        epsilons, source = [0.0], ""
        for count in range(1, len(self.releases) + 1):
            claim = replace(self, releases=self.releases[:count]).total_claim(accountant)
            source = claim.source
            epsilons.append(max(epsilons[-1], claim.epsilon))
        return Trajectory(accountant=source, steps=tuple(range(1, len(epsilons))), epsilon=tuple(epsilons[1:]))


def record(path: Path, release: Release, *, unless_present: bool = False) -> Ledger:
    """Return the ledger of a file after a release was recorded in it.

    The accountant is asked before the file is locked, and again where another command recorded something meanwhile.

    Args:
        unless_present: leave the ledger as it is where the very same release (name, event, note) is there already.

    Raises:
        BudgetExceeded: it would cost more than what is left; the file stays as it is.
    """
    while True:
        book = load(path)
        if unless_present and any(replace(row, when=release.when) == release for row in book.releases):
            return book
        extension = book.record(book.ask(), release)
        with lock(path):
            if load(path) == book:
                save(extension, path)
                return extension


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


def save(ledger: Ledger, path: Path) -> None:
    """Writes the ledger as JSON, whole or not at all, and waits until it is on the disk.

    Each release has a hash over itself, all before it and the settings; the seal covers their number.

    Raises:
        OutputError: the file cannot be written.
    """
    hashes = _hashes(ledger)
    rows = [
        {"name": row.name, "when": row.when, "note": row.note, "event": encode(row.event), "hash": digest}
        for row, digest in zip(ledger.releases, hashes[1:], strict=True)
    ]
    document = {"version": VERSION, **_settings(ledger), "seal": _seal(hashes), "releases": rows}
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w") as file:
            file.write(json.dumps(document, indent=1) + "\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OutputError(f"cannot write the ledger {path}: {error}") from error


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """Keeps other commands from writing a ledger of this folder until the block, or the process, ends.

    Raises:
        OutputError: another one has been at it for ten seconds, or the folder cannot be opened.
    """
    until = time.monotonic() + _PATIENCE
    try:
        folder = os.open(path.parent, os.O_RDONLY)
    except OSError as error:
        raise OutputError(f"cannot write beside the ledger {path}: {error}") from error
    try:
        while True:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise OutputError(f"another command writes a ledger in {path.parent}; try again when it is done") from None
                time.sleep(0.02)
        yield
    finally:
        os.close(folder)  # which unlocks; so does the end of the process, however it ends


def load(path: Path) -> Ledger:
    """The ledger of a file that `save` wrote.

    Raises:
        DataError: it is missing, malformed, of another version, or a release was changed after it was recorded.
    """
    try:
        document = files.read_json(path)
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read the ledger {path}: {error}; expected a JSON file that this program wrote") from error
    if not isinstance(document, dict) or document.get("version") not in (1, VERSION):
        raise DataError(f"{path} is not a ledger of version {VERSION}")
    is_sealed = document["version"] == VERSION  # a file of version 1 is sealed when something is recorded in it
    _exactly(document, _HEAD if is_sealed else _HEAD - {"seal"}, str(path))
    if not isinstance(document["releases"], list):
        raise DataError(f"{path}: 'releases' is {type(document['releases']).__name__}; expected a list")
    releases = tuple(_release(row, f"{path}, release {place + 1}") for place, row in enumerate(document["releases"]))
    try:
        ledger = Ledger(
            budget_epsilon=_number(document["budget_epsilon"], "budget_epsilon"),
            delta=_number(document["delta"], "delta"),
            adjacency=Adjacency(document["adjacency"]),
            accountant=_text(document["accountant"], "accountant"),
            releases=releases,
        )
    except (ValueError, ConfigError) as error:
        raise DataError(f"{path}: {error}") from error
    hashes = _hashes(ledger, with_seal=is_sealed)
    for place, row in enumerate(document["releases"]):
        if row["hash"] != hashes[place + 1]:
            raise DataError(
                f"{path}: release {place + 1} ('{releases[place].name}'), one before it or a setting was changed after it was "
                "recorded"
            )
    if is_sealed and document["seal"] != _seal(hashes):
        raise DataError(f"{path}: a setting was changed or a release removed after it was recorded; the seal does not fit")
    return ledger


def _release(row: Any, location: str) -> Release:
    if not isinstance(row, dict):
        raise DataError(f"{location} is {type(row).__name__}; expected an object")
    _exactly(row, _ROW, location)
    try:
        event = decode(row["event"])
    except (TypeError, AttributeError, KeyError, ConfigError, DataError) as error:
        raise DataError(f"{location}: the event cannot be read: {error}") from error
    return Release(
        name=_text(row["name"], "name"), event=event, when=_text(row["when"], "when"), note=_text(row["note"], "note")
    )


def _exactly(row: Mapping[str, Any], fields: set[str], location: str) -> None:
    missing, extra = sorted(fields - row.keys()), sorted(row.keys() - fields)
    if missing or extra:
        raise DataError(f"{location} lacks {missing or 'nothing'} and has {extra or 'nothing'} beyond what a ledger holds")


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} is {value!r}; expected a number")
    return float(value)


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise DataError(f"{name} is {value!r}; expected text")
    return value


def _settings(ledger: Ledger) -> dict[str, Any]:
    return {
        "budget_epsilon": ledger.budget_epsilon,
        "delta": ledger.delta,
        "adjacency": str(ledger.adjacency),
        "accountant": ledger.accountant,
    }


def _hashes(ledger: Ledger, *, with_seal: bool = True) -> list[str]:
    """The hash of the settings ("" in files of version 1), and of each release with all before it."""
    hashes = [_digest(_settings(ledger)) if with_seal else ""]
    for row in ledger.releases:
        hashes.append(_digest([hashes[-1], row.name, row.when, row.note, encode(row.event)]))
    return hashes


def _seal(hashes: Sequence[str]) -> str:
    return _digest([hashes[-1], len(hashes) - 1])


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def summary(ledger: Ledger) -> BudgetLedger:
    """The ledger as a report shows it: every release with what was spent after it."""
    trajectory = ledger.trajectory(ledger.ask())
    return BudgetLedger(
        budget=ledger.budget_epsilon,
        delta=ledger.delta,
        adjacency=ledger.adjacency,
        accountant=trajectory.accountant or ledger.accountant,
        releases=tuple(
            BudgetRelease(
                name=release.name, when=release.when, mechanism=words(release.event), note=release.note, epsilon=epsilon
            )
            for release, epsilon in zip(ledger.releases, trajectory.epsilon, strict=True)
        ),
    )


def report_line(ledger: Ledger, accountant: Accountant) -> str:
    """The state of the ledger in one sentence."""
    claim = ledger.total_claim(accountant) if ledger.releases else None
    epsilon = 0.0 if claim is None else claim.epsilon
    share = "all" if math.isinf(epsilon) else f"{100 * epsilon / ledger.budget_epsilon:.1f} %"
    return (
        f"{len(ledger.releases)} release(s) cost epsilon {epsilon:.4g} of {ledger.budget_epsilon:g} at delta {ledger.delta:g} "
        f"under {ledger.adjacency} ({share} of the budget)"
    )
