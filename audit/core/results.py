"""What an audit concludes. Upper and lower bounds are different types and can never be swapped.

Every field of `AuditReport` is plain data (numbers, strings, tuples, enums, nested results), so that
report.json is the whole report and every other output is a view of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from audit.core.adjacency import Adjacency
from audit.core.claims import Claim, Outcome, Verdict
from audit.core.events import Event
from audit.core.game_results import GameResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A utility figure over the models of one mechanism, with its spread (sample standard deviation)."""

    name: str
    value: float
    spread: float
    models: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitCurve:
    """The most that the claimed mechanism leaves any attack, over all its (epsilon, delta) pairs at once.

    Attributes:
        fpr, tpr: points of the limit, `fpr` increasing; the limit is concave, so lines joining them lie just below it.
        source: who computed it.
    """

    fpr: tuple[float, ...]
    tpr: tuple[float, ...]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """Epsilon over steps by one accountant; `epsilon` may hold infinities."""

    accountant: str
    steps: tuple[int, ...]
    epsilon: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundTrajectory:
    """Proven epsilon over steps (white-box games), beside the accountants' `Trajectory`."""

    label: str
    steps: tuple[int, ...]
    epsilon: tuple[float, ...]


class Status(StrEnum):
    """How an assumption of the claim stands."""

    CHECKED = "checked"  # this run tested it
    DECLARED = "declared"  # the owner stated it
    GAP = "gap"  # known not to hold, or not covered
    FAILED = "failed"  # tested and found false


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One row of the assumptions table."""

    code: str
    item: str
    value: str
    status: Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """One class of attack and whether it was run. Absent rows are findings."""

    attack_class: str
    done: str
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """One policy gate of the config."""

    gate: str
    limit: float
    found: float | None
    met: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MechanismResult:
    """One training recipe: what it claims, what was shown of it, what it is good for."""

    name: str
    mechanism: Event | None
    claims: tuple[Claim, ...]
    trajectories: tuple[Trajectory, ...]
    bound_trajectories: tuple[BoundTrajectory, ...]
    games: tuple[GameResult, ...]
    verdicts: tuple[Verdict, ...]
    outcome: Outcome | None
    utility: tuple[Metric, ...]
    checks: tuple[Check, ...] = ()
    models: int = 0
    limit: LimitCurve | None = None


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
    """One release in a budget ledger.

    Attributes:
        mechanism: what was released, in words.
        epsilon: what all releases up to this one cost together; may be infinite.
    """

    name: str
    when: str
    mechanism: str
    note: str
    epsilon: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLedger:
    """All releases about the data, over time, held against a budget.

    Attributes:
        budget: epsilon that may be spent at `delta`.
        accountant: who added up.
    """

    budget: float
    delta: float
    adjacency: Adjacency
    accountant: str
    releases: tuple[BudgetRelease, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """All that reports ever read.

    Attributes:
        kind: "run", "model" or "scores".
        created: ISO time in UTC at which the audit was first started.
        confidence: with which all bounds of the report hold at once.
        comparisons: bounds among which that error budget was split.
        notes: numbered remarks for the cover.
        config: canonical YAML text of the resolved config; `origins`: where each value came from.
        ledger: everything released about the data, where the owner keeps such a ledger.
    """

    schema: str
    id: str
    kind: str
    title: str
    created: str
    delta: float
    confidence: float
    comparisons: int
    data: DataSummary | None
    model: str
    mechanisms: tuple[MechanismResult, ...]
    outcome: Outcome | None
    notes: tuple[str, ...]
    coverage: tuple[Coverage, ...]
    policy: tuple[GateResult, ...]
    config: str
    origins: tuple[tuple[str, str], ...]
    provenance: Provenance
    ledger: BudgetLedger | None = None


SCHEMA = "audit-report/1.0"
USUAL_FORMATS = ("pdf", "json", "junit", "sarif", "figures")
"""What is written where nobody names formats; `reports/formats` may hold more."""
