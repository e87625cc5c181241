"""Scores that any tool made, or that coins and trainings of any system gave here: the line of a run from its bounds on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from audit.bounds import granted, plausibility
from audit.bounds.budget import Budget
from audit.bounds.granted import granted_estimators
from audit.core.claims import Claim
from audit.core.data import Array
from audit.core.game import Assumption, Game, Inclusion
from audit.core.phrases import phrase
from audit.core.results import AuditReport, Check, Status
from audit.core.views import Scores
from audit.experiment.games import stopping
from audit.experiment.games.hypothesis import StatedClaims
from audit.experiment.games.settings import Settings
from audit.experiment.line import findings, judge, preflight
from audit.experiment.line import report as reporting
from audit.experiment.line.game import GameOutcome
from audit.experiment.line.provenance import make_provenance
from audit.experiment.line.side_agreement import ReadRecords

DECLARATION = "scores given"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOrigin:
    """Where scores come from.

    Attributes:
        name: of the table, or of the function that was trained.
        claims: to compare with.
        checks: rows of the assumptions table, on how they came about.
        kind: of the report: "scores" that were given, or "training" with coins and trainings made here.
        reading: what a score is, in words; `model` what was trained.
        remarks: on the cover; `facts` in the report's config.
        log_odds: a score's size says how sure it is, so that guesses of one run are made in that order.
        doubt: why nothing can be believed, "" if it can.
    """

    name: str
    game: Game
    claims: tuple[Claim, ...]
    checks: tuple[Check, ...]
    kind: str = "scores"
    reading: str = "scores were given, higher for members"
    model: str = "not given"
    remarks: tuple[str, ...] = ()
    facts: Mapping[str, object] = field(default_factory=dict)
    log_odds: bool = False
    doubt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoredReport:
    """A report with the score columns `(n,)` by name, and the memberships `(n,)`, that its figures follow from."""

    report: AuditReport
    columns: Mapping[str, Array]
    included: Array


def inspect_scores(
    values: Array | Mapping[str, Array],
    included: Array,
    settings: Settings,
    *,
    game: str = "one_run",
    name: str = "scores",
    remarks: Sequence[str] = (),
) -> AuditReport:
    """Lower bounds of the game's default estimator or of those named, and the verdict on `settings.claim_epsilon`.

    Args:
        values: `(n,)`, higher for records taken for members; or several such columns by name, which share the error rate.
        included: `(n,)` bool, the coins.
        game: "one_run" (memberships are independent fair coins, scores may depend on each other) or "independent_trials"
            (as well, each score comes from its own training, or trainings that do not touch each other).
        name: of the table.
        remarks: on how the scores came about, in words.

    Raises:
        AssumptionError: the scores cannot come from that game.
        ConfigError: an unknown game, estimator or setting.
        DataError: NaN, unequal lengths, or one side only.
    """
    columns = values if isinstance(values, Mapping) else {"scores": values}
    origin = ScoreOrigin(
        name=name,
        game=Game.of_scores(game, len(included), settings.adjacency, DECLARATION),
        claims=settings.claims,
        checks=(_declaration(game),),
        remarks=tuple(remarks),
        facts={"scores": name, "records": len(included), "game": game},
    )
    return judge_scores(columns, included, origin, settings)


def judge_scores(columns: Mapping[str, Array], included: Array, origin: ScoreOrigin, settings: Settings) -> AuditReport:
    """The report on score columns `(n,)` by name and their coins `(n,)`, of one game; without coins nothing is bounded. Errors
    as of `inspect_scores`.
    """
    tables = [Scores(values=column, included=included, game=origin.game, attack=key) for key, column in columns.items()]
    by_coins = origin.game.inclusion is Inclusion.COINS
    by_size = origin.log_odds and settings.estimators is None and granted.for_epsilon(origin.game) == "one_run"
    specs = [{"kind": "one_run", "order": "distance"}] if by_size else settings.estimators
    estimators = granted_estimators(origin.game, specs) if by_coins else ()
    odd = _odd(tables, frozenset().union(*(estimator.assumes for estimator in estimators)), own_coins=origin.kind == "training")
    budget = Budget(
        delta=settings.delta,
        confidence=settings.confidence,
        comparisons=max(len(tables) * len(estimators), 1),
        certificates=settings.certificates,
    )
    terms = findings.BoundTerms(
        name="scores",
        game=origin.game,
        planned=origin.game.runs,
        estimators=(estimators,) * len(tables),
        seed=settings.stream,
        watch=stopping.never(budget, origin.game.runs),
    )
    stated_claims = StatedClaims(claims=origin.claims)
    outcome = GameOutcome(result=findings.bound_game(tables, terms, stated_claims, budget), scores=tuple(tables))
    records = ReadRecords(losses=-tables[0].values, included=tables[0].included, reading=origin.reading)
    preflight_result = preflight.look(records, tables[1:], by_coins=by_coins)  # of each column: are members' scores lower?
    training = judge.Training(
        name=origin.name,
        mechanism=None,
        stated_claims=stated_claims,
        checks=(*origin.checks, *odd),
        doubt=origin.doubt or preflight_result.doubt,
        preflight=preflight_result,
    )
    order = {"order": "distance"} if by_size else {}  # of the guesses: what a bound that is computed again has to know
    config = settings.text(**origin.facts, **order, columns=list(columns))
    frame = reporting.Frame(
        kind=origin.kind,
        title=settings.title or origin.name,
        created=settings.timestamp(),
        budget=budget,
        data=None,
        model=origin.model,
        config=config,
        provenance=make_provenance(settings, config),
        remarks=(
            *preflight.notes(preflight_result),
            *origin.remarks,
            *(phrase("Column {column}: {remark}.", column=check.item, remark=check.value) for check in odd),
        ),
    )
    return reporting.report([judge.conclude(training, [outcome])], frame)


def _odd(tables: Sequence[Scores], assumes: frozenset[Assumption], *, own_coins: bool) -> tuple[Check, ...]:
    """A row for each thing in the scores that does not look like the game they are said to come from."""
    return tuple(
        Check(code="scores", item=table.attack, value=remark, status=Status.GAP)
        for table in tables
        for remark in plausibility.remarks(table, assumes, own_coins=own_coins)
    )


def _declaration(game: str) -> Check:
    assumptions = [Assumption.INDEPENDENT_COINS.value.replace("_", " ")]
    if game == "independent_trials":
        assumptions.append(Assumption.INDEPENDENT_TRIALS.value.replace("_", " "))
    return Check(code="game", item="How the scores came about", value=" and ".join(assumptions), status=Status.DECLARED)
