"""What an audit concludes. Upper and lower bounds are different types and can never be swapped.

Every field of `AuditReport` is plain data (numbers, strings, tuples, enums, nested results), so that
report.json is the whole report and every other output is a view of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from audit.core.game import Access, Assumption, Game
from audit.core.mechanism import Adjacency, Mechanism


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """An upper bound that somebody states: "this training is (epsilon, delta)-DP".

    Attributes:
        epsilon: may be infinite (no guarantee at this delta).
        source: the accountant's name and version, or "declared".
        unit: what one record protects ("example", "user", ...).
        family: name of the trade-off family that the claim asserts as a whole, or None for a bare
            (epsilon, delta) pair. A bound that tests that same family can refute the claim.
        note: what the figure leaves out or assumes, in words.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    source: str
    unit: str = "example"
    family: str | None = None
    note: str = ""

    def can_be_refuted_by(self, bound: LowerBound) -> bool:
        """True where a bound of this kind is evidence against a claim of that kind.

        A bound inside a trade-off family speaks only about claims that assert that very family.
        """
        return bound.delta == self.delta and bound.family in (None, self.family)


@dataclass(frozen=True, slots=True, kw_only=True)
class LowerBound:
    """What the scores prove: epsilon is at least this, except with probability 1 - confidence.

    Attributes:
        epsilon: the bound, 0 where nothing is proved; never above `ceiling`.
        confidence: of this bound on its own, after the report's error budget was split.
        comparisons: size of the family of thresholds or guess counts searched, fixed before the data.
        ceiling: the largest epsilon that perfect scores would have proved in this game.
        assumes: what the game had to grant.
        family: None where the bound holds for any mechanism; else the trade-off family ("gdp", "dp_sgd")
            inside which it holds. Such an epsilon must never be printed without naming the family.
        parameter: the family's parameter at the bound (mu of GDP, noise multiplier of DP-SGD), or None.
        selected: what the search ended on, in words.
        seed: of tie-breaks and simulations, or None where there was no randomness.
    """

    epsilon: float
    delta: float
    confidence: float
    estimator: str
    comparisons: int
    ceiling: float
    assumes: tuple[Assumption, ...]
    family: str | None = None
    parameter: float | None = None
    selected: str = ""
    seed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A figure without a guarantee (bootstrap, credible interval, point estimate). Never compared with a claim."""

    epsilon: float
    delta: float
    estimator: str
    warning: str


class Outcome(StrEnum):
    """What can be said of a claim. There is no word for "safe"."""

    VIOLATED = "violated"  # a bound lies above the claim
    CONSISTENT = "consistent"  # no bound above the claim, and one could have been
    OUT_OF_REACH = "out_of_reach"  # no bound above the claim, and none could have been
    INVALID = "invalid"  # the negative control failed or an assumption was found false


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One claim held against the bounds that are able to refute it."""

    claim: Claim
    outcome: Outcome
    bound: LowerBound | None
    reason: str


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
class NegativeControl:
    """The same statistics on coins shuffled anew: how often anything was "proved" from nothing."""

    repetitions: int
    false_alarms: int
    allowed: int
    passed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """How often the largest bound of a game was wrong in simulation: same estimators, attacks, number of scores, error share.

    Attributes:
        law: what the scores were drawn from: nothing leaks, or randomised response, where every threshold has the same
            likelihood ratio and a search that is not paid for shows most.
        epsilon: the truth under that law.
        wrong: of `repetitions` simulated audits put a bound above it.
        nominal: the error rate that all those bounds together promise.
    """

    law: str
    epsilon: float
    wrong: int
    repetitions: int
    nominal: float

    @property
    def kept(self) -> bool:
        """Whether the count is one that the promise explains: not above its mean by three standard deviations."""
        mean = self.repetitions * self.nominal
        spread = math.sqrt(mean * max(0.0, 1 - self.nominal))
        return self.wrong <= mean + 3 * spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Detectable:
    """The least true epsilon of a Gaussian mechanism that an estimator in this game would have caught with chance `power`.

    Attributes:
        claim: what a bound has to lie above to count as a catch; 0 where nothing was claimed that it could refute.
        epsilon: infinite where even an almost unprotected mechanism would have been missed.
        draws: simulated audits behind each estimate of the chance.
    """

    estimator: str
    family: str | None
    claim: float
    epsilon: float
    power: float
    draws: int


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
    """One slice (a class, or a value of the user's column)."""

    group: str
    members: int
    nonmembers: int
    auc: float | None
    accuracy: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A figure over targets: mean, sample standard deviation and range. Targets share references, so no interval."""

    figure: str
    mean: float
    std: float
    lowest: float
    highest: float
    targets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerSpread:
    """One scorer with every trained model once its target."""

    scorer: str
    figures: tuple[Spread, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSpread:
    """How exposed one record is over the targets that trained on it.

    Attributes:
        record: a keyed hash, never the row itself.
        fpr: median over those targets of the share of nonmembers that score at least as high.
        found: share of those targets in which the record is found.
        targets: how many trained on it.
    """

    record: str
    label: str
    fpr: float
    found: float
    targets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpread:
    """Attack AUC inside one value of a column, over targets."""

    column: str
    group: str
    canaries: int
    auc: Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """A threshold that the adversary sets on its own models, and what it realises on the target; means over targets.

    Attributes:
        precision: share of members among those called members if `prior` of all candidates are; None where nobody is called.
    """

    nominal_fpr: float
    realised_fpr: float
    tpr: float
    precision: float | None
    prior: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fidelity:
    """Whether references resemble the target. `matches` False: the attack is weak, which says nothing for the model.

    Attributes:
        target_accuracy: on (members, non-members) of the target; `reference_accuracy`: means over references.
        distance: Kolmogorov-Smirnov distance between the target's losses and all references', the larger
            of members and non-members.
        typical: the largest such distance of any one reference against the others.
    """

    target_accuracy: tuple[float, float]
    reference_accuracy: tuple[float, float]
    distance: float
    typical: float
    matches: bool
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What the trained models of a game say about its attacks, each model once the target. Descriptive: proves no epsilon.

    Attributes:
        targets: models that were attacked with all others as references.
        leading: the scorer with the largest mean AUC, whose scores all that follows is about.
        at_fpr: false positive rate at which records count as found.
        reproducibility: mean overlap (Jaccard) of the lists of records found in two targets that both trained on them;
            None where all lists are empty. `chance`: the same for random lists of those lengths.
        records: the most exposed ones, worst first.
        fidelity: the worst over the target runs, None where fewer than three references were trained.
    """

    targets: int
    scorers: tuple[ScorerSpread, ...]
    leading: str
    at_fpr: float
    reproducibility: float | None
    chance: float | None
    records: tuple[RecordSpread, ...]
    thresholds: tuple[Calibrated, ...]
    groups: tuple[GroupSpread, ...]
    fidelity: Fidelity | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GameResult:
    """One game with all attacks that were played in it.

    Attributes:
        certificates: simulated error rates of the largest of its bounds.
        detectable: what its estimators would have caught.
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
    mechanism: Mechanism | None
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
    """How to get the same report again."""

    command: str
    version: str
    code_commit: str
    seed: int
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
