"""From results to the report: coverage, policy gates, notes, data and provenance."""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from audit import plugins
from audit.bounds.budget import Budget
from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.data import Dataset
from audit.core.event_reading import noisy_steps
from audit.core.game import Inclusion
from audit.core.game_results import GameResult
from audit.core.phrases import join_clauses, phrase
from audit.core.protocols import AttackClass, Gate
from audit.core.provenance import DataSummary, Engagement, Provenance
from audit.core.results import SCHEMA, AuditReport, Check, Coverage, GateResult, MechanismResult, Status
from audit.core.rounding import down, places_apart, up
from audit.experiment.describe.resemblance import UNLIKE
from audit.experiment.line import judge


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What a report says in addition to its results.

    Attributes:
        kind: "run", "model", "scores", "training" or "table".
        budget: the error that its bounds share.
        config: canonical text of the resolved config.
        classes: of attack, by third parties, listed after our own.
        unaccounted: what touched the data outside the claim, in the owner's words.
        remarks: of those who looked at the input, for the cover.
        settings: the settings that a user gave, by path; `config_lines`: the line of the file for each path.
        engagement: what the owner declares of the audit itself.
    """

    kind: str
    title: str
    created: str
    budget: Budget
    data: DataSummary | None
    model: str
    config: str
    provenance: Provenance
    origins: tuple[tuple[str, str], ...] = ()
    gates: Mapping[str, Gate] = field(default_factory=dict)
    unaccounted: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    classes: tuple[AttackClass, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    config_lines: tuple[tuple[str, int], ...] = ()
    engagement: Engagement | None = None


# what a report has from its frame as it is
_GIVEN = ("origins", "settings", "config_lines", "engagement")
_SHARED = ("kind", "title", "created", "data", "model", "config", "provenance", *_GIVEN)


def report(results: Sequence[MechanismResult], frame: Frame) -> AuditReport:
    complete = tuple(replace(result, checks=(*result.checks, *declarations(result, frame))) for result in results)
    shared: dict[str, Any] = {name: getattr(frame, name) for name in _SHARED}
    return AuditReport(
        **shared,
        schema=SCHEMA,
        id=f"PA-{frame.provenance.config_sha256[:8].upper()}",
        delta=frame.budget.delta,
        confidence=frame.budget.confidence,
        comparisons=max(frame.budget.comparisons, 1),
        mechanisms=complete,
        outcome=judge.worst([result.outcome for result in complete]),
        notes=(*frame.remarks, *notes(complete, frame)),
        coverage=coverage(complete, (*attack_classes(), *frame.classes)),
        policy=gates(complete, frame.gates),
    )


def data_summary(dataset: Dataset) -> DataSummary:
    shape = dataset.train.inputs.shape[1:]
    return DataSummary(
        name=dataset.name,
        source=dataset.source,
        sha256=dataset.sha256,
        train=len(dataset.train),
        pool=len(dataset.pool),
        test=len(dataset.test),
        classes=dataset.classes,
        features=" x ".join(str(size) for size in shape),
    )


def model_name(model: Mapping[str, object], parameters: int) -> str:
    spec = dict(model)
    name = str(spec.pop("kind", spec.pop("factory", "model")))
    remainder = ", ".join(f"{key} {_in_words(value)}" for key, value in sorted(spec.items()))
    count = phrase("{parameters} parameters", parameters=f"{parameters:,}")
    return join_clauses(
        (phrase("{name} ({options})", name=name, options=remainder) if remainder else name, count), "{first}, {rest}"
    )


def _in_words(value: object) -> str:
    """A value of the configuration; options of a model by name, without the brackets of Python."""
    if not isinstance(value, Mapping):
        return str(value)
    return ", ".join(f"{key} {_in_words(option)}" for key, option in sorted(value.items())) or "none"


def declarations(result: MechanismResult, frame: Frame) -> tuple[Check, ...]:
    """Rows of the assumptions table that no measurement of this run decides."""
    if not result.claims or result.mechanism is None:
        return ()
    claim = min(result.claims, key=lambda claim: claim.epsilon)
    adjacencies = {game.game.adjacency for game in result.games}
    agrees = adjacencies == {claim.adjacency}
    rows = [
        Check(
            code="unit", item="Unit of privacy", value=phrase("one training {unit}", unit=claim.unit), status=Status.DECLARED
        ),
        Check(
            code="adjacency",
            item="Neighbouring data sets",
            value=_neighbours(claim.adjacency, "record" if claim.unit == "example" else claim.unit),
            status=Status.CHECKED if agrees else Status.FAILED,
        ),
        _compare_accountants(result),
        Check(code="release", item="What is released", value=_release_text(result), status=Status.DECLARED),
        Check(code="floating-point", item="Floating-point noise", value="attacks on it are not covered", status=Status.GAP),
    ]
    for index, text in enumerate(frame.unaccounted, start=1):
        rows.append(Check(code=f"unaccounted-{index}", item="Outside the claim", value=text, status=Status.GAP))
    if not frame.unaccounted:
        value = "none was declared in the config"
        rows.append(Check(code="unaccounted", item="Use of the data outside the claim", value=value, status=Status.DECLARED))
    return tuple(rows)


def _neighbours(adjacency: Adjacency, unit: str) -> str:
    if adjacency is Adjacency.ADD_REMOVE:
        return phrase("add or remove one {unit}", unit=unit)
    if adjacency is Adjacency.ZERO_OUT:
        return phrase("zero out one {unit}", unit=unit)
    return phrase("replace one {unit}", unit=unit)


def _compare_accountants(result: MechanismResult) -> Check:
    computed_claims = [claim for claim in result.claims if not claim.is_declared]
    if len(computed_claims) < 2:
        return Check(
            code="accountants", item="Second accountant", value="none; the claim stands on one figure", status=Status.GAP
        )
    low, high = min(c.epsilon for c in computed_claims), max(c.epsilon for c in computed_claims)
    value = phrase(
        "{count} accountants state {low} to {high}", count=len(computed_claims), low=f"{low:.3g}", high=f"{high:.3g}"
    )
    return Check(code="accountants", item="Accountants compared", value=value, status=Status.CHECKED)


def _release_text(result: MechanismResult) -> str:
    accesses = {game.game.access for game in result.games}
    if not accesses:
        return "nothing that a game of this report is about"
    largest = max(accesses, key=lambda access: (len(access.released), access.name))
    strongest = " (the strongest release that the claim covers)" if largest == Access.ALL_STEPS else ""
    return largest.sees.removeprefix("the ") + strongest


def notes(results: Sequence[MechanismResult], frame: Frame) -> tuple[str, ...]:
    """Remarks for the cover that a reader of the verdict must not miss."""
    lines: list[str] = [phrase("Outside the claim: {text}.", text=text) for text in frame.unaccounted]
    for result in results:
        for check in result.checks:
            if check.status is Status.FAILED and result.mechanism is not None:
                lines.append(
                    phrase(
                        "{name}: {item} failed the check ({value}).",
                        name=result.name,
                        item=check.item.lower(),
                        value=check.value,
                    )
                )
            if check.code == "own-modules" or check.code.startswith("left-out-"):
                lines.append(phrase("{training}, {note}.", training=result.name, note=check.value))
        for game in result.games:
            lines += ([] if result.is_void else _stopping_note(result.name, game)) + _weak(result.name, game)
        family_bound = _family_above(result)
        if family_bound is not None:
            lines.append(family_bound)
        noisy = None if result.mechanism is None else noisy_steps(result.mechanism)
        if noisy is not None and noisy.noise_multiplier == 0:
            lines.append(phrase("{name} adds no noise: it has no guarantee at any epsilon.", name=result.name))
    return tuple(lines)


def _stopping_note(mechanism: str, game: GameResult) -> list[str]:
    stopping = game.watched
    if stopping is None or stopping.proved is None:
        return []
    note = phrase(
        "a claim was refuted after {runs} runs; {trained} of at most {planned} were trained",
        runs=stopping.proved,
        trained=stopping.used,
        planned=stopping.planned,
    )
    return [phrase("{training}, game {game}: {note}.", training=mechanism, game=game.name, note=note)]


def _weak(mechanism: str, game: GameResult) -> list[str]:
    """A remark if references do not resemble the target, so that weak scores are no comfort."""
    fidelity = None if game.evaluation is None else game.evaluation.fidelity
    if fidelity is None or fidelity.matches:
        return []
    note = phrase("the attack is weak, because {reason}", reason=UNLIKE)
    return [phrase("{training}, game {game}: {note}.", training=mechanism, game=game.name, note=note)]


def _family_above(result: MechanismResult) -> str | None:
    claim = min(result.claims, key=lambda claim: claim.epsilon, default=None)
    if claim is None or math.isinf(claim.epsilon):
        return None
    over = [
        bound for bound in result.bounds_inside if not claim.can_be_refuted_by(bound) and bound.epsilon_inside > claim.epsilon
    ]
    if not over:
        return None
    bound = max(over, key=lambda bound: bound.epsilon_inside)
    places = places_apart([(claim.epsilon, bound.epsilon_inside)])
    proven, claimed = down(bound.epsilon_inside, places), up(claim.epsilon, places)
    return phrase(
        "{name}: inside the family '{family}' the scores prove {epsilon}, above the claimed {claim}; the "
        "claim does not assert that family, so this alone refutes nothing.",
        name=result.name,
        family=bound.family,
        epsilon=proven,
        claim=claimed,
    )


def coverage(results: Sequence[MechanismResult], classes: Sequence[AttackClass]) -> tuple[Coverage, ...]:
    """Return which classes of attack were run. What was not run is listed, not left out."""
    games = [(result.training or result.name, game) for result in results for game in result.games]
    rows = []
    for attack_class in classes:
        own = [(training, game) for training, game in games if attack_class.covers(game)]
        text, status = (_games_by_training(own), "run") if own else attack_class.absent
        rows.append(Coverage(attack_class=attack_class.attack_class, done=text, status=status))
    return tuple(rows)


@functools.lru_cache(maxsize=1)
def attack_classes() -> tuple[AttackClass, ...]:
    """Return the classes of attack of `audit/experiment/coverage`, in the order of the report."""
    return tuple(own() for own in plugins.in_order(plugins.FOLDERS["coverage"]).values())


def _games_by_training(games: Sequence[tuple[str, GameResult]]) -> str:
    """Return what games were played on; parties that look at one training have its canaries and runs in common."""
    names = sorted({attack.scorer for _, game in games for attack in game.attacks})
    trainings = {(training, game.name): game.game for training, game in games}.values()
    canaries = sum(game.canaries * game.runs for game in trainings)
    runs = sum(game.runs for game in trainings)
    count = f"{canaries:,}"
    if all(game.inclusion is Inclusion.SPLIT for game in trainings):
        subjects = phrase("{count} records", count=count)
    elif all(game.choices == 1 for game in trainings):
        subjects = phrase("{count} canaries", count=count)
    else:
        subjects = phrase("{count} secrets", count=count)
    scorers = ", ".join(names)
    if runs == 1:
        return phrase("{what} over {runs} training run, scorers {scorers}", what=subjects, runs=runs, scorers=scorers)
    return phrase("{what} over {runs} training runs, scorers {scorers}", what=subjects, runs=runs, scorers=scorers)


def gates(results: Sequence[MechanismResult], gates_by_name: Mapping[str, Gate]) -> tuple[GateResult, ...]:
    """Return each policy gate with what was found; over the mechanisms that claim something, else over all."""
    judged_results = [result for result in results if result.claims] or list(results)
    figures = {name: gate.found(judged_results) for name, gate in gates_by_name.items()}
    return tuple(
        GateResult(gate=name, limit=gate.limit, found=figures[name], met=bool(gate.met(figures[name])))
        for name, gate in gates_by_name.items()
    )


def code(audit_report: AuditReport) -> int:
    return judge.exit_code(audit_report.outcome, all(gate.met for gate in audit_report.policy))
