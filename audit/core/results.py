"""What an audit concludes. Upper and lower bounds are different types and can never be swapped.

Every field of `AuditReport` is plain data (numbers, strings, tuples, enums, nested results), so that
report.json is the whole report and every other output is a view of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from audit.core import checks, lower_bounds
from audit.core.claims import Claim, Outcome, Verdict, name_condition, show_figure, show_proof, split_by_condition
from audit.core.costs import CostSheet
from audit.core.events import Event
from audit.core.game_results import GameResult
from audit.core.preflight import Preflight, sort_remarks
from audit.core.provenance import BudgetLedger, DataSummary, Engagement, Provenance
from audit.core.rounding import decimals, down, places_apart, up
from audit.core.table_risks import TableAudit
from audit.core.tables import frame, html

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A utility figure over the models of one mechanism, with its spread (sample standard deviation)."""

    name: str
    value: float
    spread: float
    models: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitCurve:
    """The most that a claimed mechanism leaves any attack, over all its (epsilon, delta): concave points, `fpr` increasing."""

    fpr: tuple[float, ...]
    tpr: tuple[float, ...]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """Epsilon over steps by one accountant; `epsilon` may hold infinities."""

    accountant: str
    steps: tuple[int, ...]
    epsilon: tuple[float, ...]


class Status(StrEnum):
    """How an assumption of the claim is."""

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
    """One training recipe: its claims, the results on it, its utility.

    Attributes:
        training: name of the training that several results are about, each as one party sees it; "" if there is one result.
        preflight: how what was given was read, and whether it fits; None if nothing had to be read.
    """

    name: str
    mechanism: Event | None
    claims: tuple[Claim, ...]
    trajectories: tuple[Trajectory, ...]
    bound_trajectories: tuple[lower_bounds.ReportedTrajectory, ...]
    games: tuple[GameResult, ...]
    verdicts: tuple[Verdict, ...]
    outcome: Outcome | None
    utility: tuple[Metric, ...]
    checks: tuple[Check, ...] = ()
    models: int = 0
    limit: LimitCurve | None = None
    training: str = ""
    preflight: Preflight | None = None

    def __post_init__(self) -> None:
        verdict_bounds = tuple(verdict.bound for verdict in self.verdicts if verdict.bound is not None)
        lower_bounds.require_reported((*self.all_bounds, *verdict_bounds), self.name, void=self.is_void)
        lower_bounds.require_courses(self.bound_trajectories, self.name, void=self.is_void)

    @property
    def bounds(self) -> list[lower_bounds.LowerBound]:
        """Return what is proven for any mechanism, of all games; nothing if the audit is void."""
        return [bound for bound in self.all_bounds if isinstance(bound, lower_bounds.LowerBound)]

    @property
    def bounds_inside(self) -> list[lower_bounds.FamilyBound]:
        """Return what is proven inside a family only, of all games; nothing if the audit is void."""
        return [bound for bound in self.all_bounds if isinstance(bound, lower_bounds.FamilyBound)]

    @property
    def all_bounds(self) -> tuple[lower_bounds.ReportedBound, ...]:
        """Return the bounds of all games, of every type."""
        return tuple(bound for game in self.games for bound in game.bounds)

    @property
    def is_void(self) -> bool:
        """True if its bounds prove nothing: a negative control failed, or a check of execution did and nothing was refuted."""
        return self.outcome is Outcome.INVALID or not all(control.passed for game in self.games for control in game.controls)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """All that reports ever read.

    Attributes:
        kind: "run", "model", "scores" or "table".
        created: ISO time in UTC at which the audit was first started.
        confidence: with which all bounds of the report hold at once.
        comparisons: bounds among which that error budget was split.
        notes: numbered remarks for the cover.
        config: canonical YAML text of the resolved config; `origins`: where each value came from.
        ledger: everything released about the data, if the owner keeps such a ledger.
        engagement: what the owner declares of the audit itself, or None.
        settings: the settings that a user gave, each as its path in the config and its value in words.
        config_lines: in which line of the user's own file each of its paths begins.
        costs: of the claimed mechanisms by several accountants, if `output.costs` asks for them.
        table: the risks of a synthetic table, in a report on one.
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
    engagement: Engagement | None = None
    settings: tuple[tuple[str, str], ...] = ()
    config_lines: tuple[tuple[str, int], ...] = ()
    costs: tuple[CostSheet, ...] = ()
    table: TableAudit | None = None

    @property
    def games(self) -> list[GameResult]:
        """Return the games of all trainings."""
        return [game for result in self.mechanisms for game in result.games]

    @property
    def places(self) -> int:
        """The decimals of its epsilons with which no bound above a claim prints as that claim or below it."""
        return places_apart(
            (claim.epsilon, value)
            for result in self.mechanisms
            for claim in result.claims
            for bound in result.all_bounds
            for value in (lower_bounds.read_epsilon(bound), lower_bounds.read_ceiling(bound))
        )

    @property
    def remarks(self) -> list[str]:
        """Return how what was given was read, then the notes, those first that change how figures are read."""
        readings = [line for result in self.mechanisms if result.preflight is not None for line in result.preflight.lines]
        return [*dict.fromkeys(readings), *sort_remarks(self.notes)]

    def to_pandas(self, table: TableName = "bounds") -> pd.DataFrame:
        """Return one table of the report as a data frame.

        Args:
            table: "verdicts" (a row each claim), "bounds", "attacks" (AUC with its limits) or "games".

        Raises:
            ConfigError: no such table.
        """
        checks.choice(table, "table", _ROWS)
        columns, rows = _ROWS[table]
        return frame([dict(zip(columns, row, strict=True)) for row in rows(self.mechanisms)], columns)

    def __repr__(self) -> str:
        """Return kind, title, identity and outcome in a line, in place of every field."""
        outcome = None if self.outcome is None else self.outcome.value
        return f"<AuditReport {self.id} kind={self.kind!r} title={self.title!r} outcome={outcome!r}>"

    def __str__(self) -> str:
        """Return what `print` shows: outcome, remarks, the verdict on each claim, and the largest bounds of each training."""
        if self.table is not None:
            return f"{self.title}: {self.table}"
        lines = [f"{self.title}: {IN_WORDS[self.outcome]}", *(f"  {remark}" for remark in self.remarks)]
        with decimals(self.places):
            for result in self.mechanisms:
                lines += [
                    f"  {result.name}: claimed epsilon {up(verdict.claim.epsilon)} by {verdict.claim.source}: {verdict.reason}"
                    for verdict in result.verdicts
                ]
                lines += [f"  {result.name}: {show_proof(bound)}" for bound in _largest(result)]
        if any(result.all_bounds for result in self.mechanisms):
            lines.append(f"  all bounds that are not void hold together with {self.confidence:.4g}, at delta {self.delta:g}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return title, outcome, claims beside what was proved, and remarks, for a notebook; every text is escaped."""
        with decimals(self.places):
            claims = [
                [
                    result.name,
                    verdict.claim.source,
                    up(verdict.claim.epsilon),
                    verdict.outcome.value,
                    "" if verdict.bound is None else show_figure(verdict.bound),
                    verdict.reason,
                ]
                for result in self.mechanisms
                for verdict in result.verdicts
            ]
            bounds = [
                [*place, bound.estimator, name_condition(bound), show_figure(bound), down(lower_bounds.read_ceiling(bound))]
                for *place, bound in _places_bounds(self.mechanisms)
            ]
        parts = [
            f"<h3>{escape(self.title)}</h3>",
            f"<p>{escape(IN_WORDS[self.outcome])}; all bounds that are not void hold together with {self.confidence:.4g}, "
            f"at delta {self.delta:g}</p>",
            html(["training", "claim by", "claimed epsilon", "outcome", "lower bound", "why"], claims) if claims else "",
            html(["training", "game", "attack", "estimator", "holds for", "lower bound", "ceiling"], bounds) if bounds else "",
            f"<ul>{''.join(f'<li>{escape(remark)}</li>' for remark in self.remarks)}</ul>" if self.remarks else "",
        ]
        return "".join(parts)


def _largest(result: MechanismResult) -> Iterator[lower_bounds.ReportedBound]:
    """The largest bound of each type; of a void audit the largest of all."""
    for kind in (lower_bounds.LowerBound, lower_bounds.FamilyBound, lower_bounds.VoidBound):
        bounds = [bound for bound in result.all_bounds if isinstance(bound, kind)]
        if bounds:
            yield max(bounds, key=lower_bounds.read_epsilon)


def _verdicts(mechanisms: Sequence[MechanismResult]) -> Iterator[tuple[Any, ...]]:
    for result in mechanisms:
        for verdict in result.verdicts:
            claim = verdict.claim
            proven = split_by_condition(verdict.bound)
            yield result.name, claim.source, claim.epsilon, claim.delta, verdict.outcome.value, *proven, verdict.reason


def _places_bounds(mechanisms: Sequence[MechanismResult]) -> Iterator[tuple[str, str, str, lower_bounds.ReportedBound]]:
    """Every bound with its training, game and attack."""
    for result in mechanisms:
        for game in result.games:
            together = game.watched.bounds if game.watched is not None else ()
            for attack, bounds in (*((attack.scorer, attack.bounds) for attack in game.attacks), ("all attacks", together)):
                for bound in bounds:
                    yield result.name, game.name, attack, bound


def _bounds(mechanisms: Sequence[MechanismResult]) -> Iterator[tuple[Any, ...]]:
    for result, game, attack, bound in _places_bounds(mechanisms):
        epsilon, inside, _ = split_by_condition(bound)
        void = bound.void_epsilon if isinstance(bound, lower_bounds.VoidBound) else None
        ceilings = getattr(bound, "ceiling", None), getattr(bound, "ceiling_inside", None)
        figures = epsilon, inside, bound.family, void, bound.delta, bound.confidence, *ceilings
        yield result, game, attack, bound.estimator, *figures


def _attacks(mechanisms: Sequence[MechanismResult]) -> Iterator[tuple[Any, ...]]:
    for result in mechanisms:
        for game in result.games:
            for attack in game.attacks:
                access = (attack.access or game.game.access).name
                yield result.name, game.name, attack.scorer, access, attack.auc, attack.auc_lower, attack.auc_upper


def _games(mechanisms: Sequence[MechanismResult]) -> Iterator[tuple[Any, ...]]:
    for result in mechanisms:
        for game in result.games:
            rules = game.game
            counts = rules.canaries, rules.runs, rules.references, game.models
            yield result.name, game.name, rules.access.name, rules.adjacency.value, *counts


TableName = Literal["verdicts", "bounds", "attacks", "games"]
_ROWS: Mapping[str, tuple[tuple[str, ...], Callable[[Sequence[MechanismResult]], Iterator[tuple[Any, ...]]]]] = {
    "verdicts": (
        ("mechanism", "source", "claimed", "delta", "outcome", "proven", "proven_inside", "family", "reason"),
        _verdicts,
    ),
    "bounds": (
        (
            *("mechanism", "game", "attack", "estimator", "epsilon", "epsilon_inside", "family", "void_epsilon"),
            *("delta", "confidence", "ceiling", "ceiling_inside"),
        ),
        _bounds,
    ),
    "attacks": (("mechanism", "game", "attack", "access", "auc", "auc_lower", "auc_upper"), _attacks),
    "games": (("mechanism", "game", "access", "adjacency", "canaries", "runs", "references", "models"), _games),
}
# what is to be said of a report with this outcome, in a line
IN_WORDS: Mapping[Outcome | None, str] = {
    Outcome.VIOLATED: "the claim is contradicted",
    Outcome.CONSISTENT: "the claim was not contradicted",
    Outcome.OUT_OF_REACH: "not testable: this audit could not have contradicted the claim",
    Outcome.INVALID: "invalid: the audit's own checks failed",
    None: "no claim was made",
}


SCHEMA = "audit-report/2.0"
# what is written where nobody names formats; `reports/formats` may hold more
USUAL_FORMATS = ("pdf", "json", "junit", "sarif", "figures")
