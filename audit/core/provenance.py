"""Where a report comes from: the data, the machine, the releases so far about the data, and who ordered it."""

from __future__ import annotations

from dataclasses import dataclass

from audit.core.adjacency import Adjacency


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
