"""Where a report comes from: the data, the machine, the releases so far about the data, and who ordered it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime

from audit.core.adjacency import Adjacency
from audit.core.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSummary:
    """What was read."""

    name: str
    source: str
    sha256: str
    train: int
    pool: int
    test: int
    classes: int
    features: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """How to get the same report again; the external edition leaves out the seed, hashes and the machine's device."""

    command: str
    version: str
    code_commit: str
    seed: int | None
    config_sha256: str
    packages: tuple[tuple[str, str], ...]
    python: str
    platform: str
    device: str
    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetRelease:
    """A release in a budget ledger: its mechanism in words, and the epsilon of all releases up to it; may be infinite."""

    name: str
    when: str
    mechanism: str
    note: str
    epsilon: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLedger:
    """All releases about the data, over time, beside the epsilon that may be spent at `delta`; added up by `accountant`."""

    budget: float
    delta: float
    adjacency: Adjacency
    accountant: str
    releases: tuple[BudgetRelease, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Engagement:
    """Who had what audited, why and until when, in the owner's words; "" if no one said.

    Attributes:
        system: what the model is a part of.
        release_context: who will be able to ask the model or to hold it ("internal", "public interface", "open weights").
        valid_until, next_audit: dates, or what ends the validity of the report ("a new release").
    """

    system: str = ""
    owner: str = ""
    purpose: str = ""
    release_context: str = ""
    auditor: str = ""
    reviewer: str = ""
    valid_until: str = ""
    next_audit: str = ""


def timestamp() -> str:
    """Return the time in ISO 8601, UTC, to the second; `ConfigError` if SOURCE_DATE_EPOCH is no number of seconds."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    try:
        time = datetime.now(UTC) if epoch is None else datetime.fromtimestamp(int(epoch), UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise ConfigError(
            f"SOURCE_DATE_EPOCH is {str(epoch)[:40]!r}; expected a number of seconds since 1970, or no such variable"
        ) from error
    return f"{time:%Y-%m-%dT%H:%M:%SZ}"
