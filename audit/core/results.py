"""What an audit concludes. Upper and lower bounds are different types and can never be swapped.

Every field of `AuditReport` is plain data (numbers, strings, tuples, enums, nested results), so that
report.json is the whole report and every other output is a view of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.claims import Certificate, Claim, Detectable, Estimate, LowerBound, NegativeControl, Outcome, Verdict
from audit.core.evaluation import Evaluation
from audit.core.events import Event
from audit.core.evidence import Watched
from audit.core.game import Game


@dataclass(frozen=True, slots=True, kw_only=True)
class RocCurve:
    """An empirical ROC, thinned for drawing, with a simultaneous band on the true positive rate.

    Attributes:
        fpr, tpr: points of the curve, `fpr` increasing.
        lower, upper: band on TPR at each point; holds for all points at once with `confidence`.
        members, nonmembers: how many scores on each side; no rate below 1/nonmembers is shown.
    """

    fpr: tuple[float, ...]
    tpr: tuple[float, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    confidence: float
    band: str
    members: int
    nonmembers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TprAtFpr:
    """The last ROC point with FPR at or under the target; None fields where the target is below 1/nonmembers."""

    target_fpr: float
    tpr: float | None
    realised_fpr: float | None
    lower: float | None
    upper: float | None
    false_positives: int | None
    true_positives: int | None
    allowed: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Counts of member and nonmember scores in common bins."""

    edges: tuple[float, ...]
    members: tuple[int, ...]
    nonmembers: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackResult:
    """One scorer in one game.

    Attributes:
        access: the least an adversary has to see for this attack; None where that is all that the game shows.
    """

    scorer: str
    auc: float
    auc_lower: float
    auc_upper: float
    roc: RocCurve
    tpr_at: tuple[TprAtFpr, ...]
    histogram: Histogram
    bounds: tuple[LowerBound, ...]
    estimates: tuple[Estimate, ...] = ()
    control: NegativeControl | None = None
    access: Access | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordExposure:
    """One audited record: how far its score stands out. `record` is a keyed hash, never the row itself."""

    record: str
    label: str
    score: float
    rank: int
    fpr: float
    member: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupResult:
    """One slice (a class, or a value of the user's column).

    Attributes:
        auc_lower, auc_upper: limits that hold for all slices of the column at once where scores are independent.
    """

    group: str
    members: int
    nonmembers: int
    auc: float | None
    accuracy: float | None
    auc_lower: float | None = None
    auc_upper: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GameResult:
    """One game with all attacks that were played in it.

    Attributes:
        certificates: simulated error rates of the largest of its bounds.
        detectable: what its estimators would have caught.
        watched: how training went where it could stop at the first proof, with the bounds of all attacks together.
    """

    name: str
    game: Game
    attacks: tuple[AttackResult, ...]
    records: tuple[RecordExposure, ...] = ()
    groups: tuple[GroupResult, ...] = ()
    models: int = 0
    note: str = ""
    certificates: tuple[Certificate, ...] = ()
    detectable: tuple[Detectable, ...] = ()
    evaluation: Evaluation | None = None
    watched: Watched | None = None

    @property
    def bounds(self) -> tuple[LowerBound, ...]:
        """All bounds: each attack's own, and those of all attacks together."""
        together = self.watched.bounds if self.watched is not None else ()
        return (*(bound for attack in self.attacks for bound in attack.bounds), *together)

    def for_any_mechanism(self) -> GameResult:
        """The same without the bounds inside a family, whose epsilon is not that of a run outside of it."""
        attacks = tuple(replace(one, bounds=_for_any_mechanism(one.bounds)) for one in self.attacks)
        watched = self.watched
        if watched is not None:
            watched = replace(watched, bounds=_for_any_mechanism(watched.bounds))
        return replace(self, attacks=attacks, watched=watched)

    @property
    def controls(self) -> tuple[NegativeControl, ...]:
        """All negative controls that were made."""
        found = [attack.control for attack in self.attacks] + [self.watched.control if self.watched is not None else None]
        return tuple(control for control in found if control is not None)


def _for_any_mechanism(bounds: tuple[LowerBound, ...]) -> tuple[LowerBound, ...]:
    return tuple(bound for bound in bounds if bound.family is None)


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
