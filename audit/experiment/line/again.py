"""What follows from the scores, the config and other sections of a finished report, written again by the code that wrote it.

Nothing that a config names outside of this package is imported: a folder may come from a stranger.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from audit import plugins
from audit.accounting import calibration
from audit.accounting.costs import with_costs
from audit.bounds.budget import Budget
from audit.config import Config
from audit.core.access import event_before
from audit.core.claims import DECLARED, Outcome
from audit.core.event_forms import encode
from audit.core.event_reading import is_non_private, repetition, unit
from audit.core.events import Event, Unit
from audit.core.game_results import AttackResult, GameResult
from audit.core.protocols import Accountant, Estimator, ObservedMechanism
from audit.core.results import AuditReport, MechanismResult
from audit.core.views import Scores
from audit.execution.recompute import is_equal
from audit.experiment.games import hypothesis, stopping
from audit.experiment.games.hypothesis import StatedClaims
from audit.experiment.gates._limits import largest, tprs
from audit.experiment.line import assemble, findings, folder_again, judge
from audit.experiment.line import report as reporting
from audit.experiment.line.folder_again import Difference, RunSource, read_source, section
from audit.experiment.line.game import GameOutcome


def differences(folder: Path, report: AuditReport) -> tuple[int, list[str], list[str]]:
    """Return how many sections were written again, a line for each that is not what the folder says, and what was left out."""
    source = read_source(folder, report)
    sections = [*folder_again.differences(source), *_summary(source)]
    config, odd_lines = folder_again.read_config(source)
    sections += odd_lines + [row for result in report.mechanisms for row in _training(result, config, source)]
    problems = [
        f"{place}: {str(value)[:150]} is written, {str(follows)[:150]} follows when it is written again"
        for place, value, follows in sections
        if not is_equal(_plain(value), _plain(follows))
    ]
    return len(sections), problems, list(dict.fromkeys(source.unread))


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        return [_plain(getattr(value, part.name)) for part in fields(value)]
    if isinstance(value, Mapping):
        return [[key, _plain(part)] for key, part in sorted(value.items())]
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value


def _summary(source: RunSource) -> Iterator[Difference]:
    report = source.report
    classes = reporting.attack_classes() if report.mechanisms else ()
    yield "coverage", report.coverage, reporting.coverage(report.mechanisms, classes)
    if report.table is not None:
        yield from folder_again.table_differences(report, source.config)
    verdict_result = [result for result in report.mechanisms if result.claims] or report.mechanisms
    for gate in report.policy:
        if rate := re.fullmatch(r"tpr@([\d.]+)%", gate.gate):
            highest = largest(tprs(verdict_result, float(rate[1]) / 100))
            yield gate.gate, [gate.found, gate.met], [highest, highest is not None and highest <= gate.limit]
    folder = plugins.FOLDERS["gates"]
    own_gates = [gate for gate in report.policy if gate.gate in plugins.names(folder)]
    gates = {gate.gate: plugins.build(folder, {"kind": gate.gate, "limit": gate.limit}) for gate in own_gates}
    yield "policy", own_gates, reporting.gates(report.mechanisms, gates)
    if report.kind == "run":
        course = (source.config.get("output") or {}).get("costs", False)
        yield "costs", report.costs, with_costs(report, course_only=course == "course").costs if course else ()
    frame = _frame(report, tuple(source.config.get("unaccounted") or ()))
    for result in report.mechanisms:
        rows = reporting.declarations(result, frame)
        yield f"{result.name}: declarations", result.checks[len(result.checks) - len(rows) :], rows
    notes = reporting.notes(report.mechanisms, frame)
    yield "notes", report.notes[len(report.notes) - len(notes) :], notes


def _frame(report: AuditReport, uses: tuple[str, ...]) -> reporting.Frame:
    """Return what a report says in addition to its results, as far as declarations and notes need it."""
    names = ("kind", "title", "created", "data", "model", "config", "provenance")
    budget = Budget(delta=report.delta, confidence=report.confidence, comparisons=report.comparisons)
    return reporting.Frame(**{name: getattr(report, name) for name in names}, budget=budget, unaccounted=uses)


def _training(result: MechanismResult, config: Config | None, source: RunSource) -> Iterator[Difference]:
    """Yield what follows of a training: mechanism, claims, courses and limits, games from their scores, and verdicts."""
    accountants = _accountants(source)
    if config is not None and accountants is not None and result.mechanism is not None:
        event = _event(result, unit(result.mechanism), config, accountants, source)
        yield f"{result.name}: mechanism", encode(result.mechanism), encode(event)
    yield from _claims(result, accountants, source)
    pairs = [(game, _game(result, game, source)) for game in result.games]
    for game, again in pairs:
        if again is not None:
            yield from _figures(f"{result.name}/{game.name}", game, again, result, source)
    if pairs and all(again is not None for _, again in pairs) and result.outcome is not Outcome.INVALID:
        training = judge.Training(
            name=result.name,
            mechanism=result.mechanism,
            stated_claims=StatedClaims(claims=result.claims, limit=result.limit),
            checks=result.checks,
        )
        outcomes = [GameOutcome(result=again, scores=()) for _, again in pairs if again is not None]
        verdict_result = judge.conclude(training, outcomes)
        yield f"{result.name}: verdicts", result.verdicts, verdict_result.verdicts
        yield f"{result.name}: outcome", result.outcome, verdict_result.outcome


def _accountants(source: RunSource) -> list[Accountant] | None:
    folder, specs = plugins.FOLDERS["accountants"], source.config.get("accountants") or ()
    if all(spec.get("kind") in plugins.names(folder) for spec in specs):
        return [plugins.build(folder, spec) for spec in specs]
    source.unread.append("mechanisms and claims by accountants that are not of this package")
    return None


def _event(result: MechanismResult, unit: Unit, config: Config, accountants: Sequence[Accountant], source: RunSource) -> Event:
    """Return the mechanism that the config states of a training, for the party that looks on."""
    name, data = result.training or result.name, source.report.data
    (spec,) = [row for row in config.mechanisms if row.name == name]
    setting = assemble.find_setting(config, spec, data.train if data else 0, unit, accountants)
    event, maker = assemble.stated_mechanism(spec, setting)
    if isinstance(maker, ObservedMechanism):
        shown = [attack.access or game.game.access for game in result.games for attack in game.attacks]
        event = next((event_before(maker.observers(event), access, event) or event for access in shown), event)
    return event


def _claims(result: MechanismResult, accountants: Sequence[Accountant] | None, source: RunSource) -> Iterator[Difference]:
    """Yield what accountants claim of a mechanism, at its end and over its steps, and the limit that it sets."""
    if source.report.kind == "run":
        spec = section(source.config, "mechanisms", result.training or result.name)
        declared = [(claim.epsilon, claim.source) for claim in result.claims if claim.is_declared]
        yield f"{result.name}: declared claims", declared, _declarations(spec.get("claim"))
    if result.mechanism is None or accountants is None or not result.games:
        return
    computed_claims, delta = [claim for claim in result.claims if not claim.is_declared], source.report.delta
    adjacency = result.games[0].game.adjacency
    claims = [accountant.claim(result.mechanism, delta=delta, adjacency=adjacency) for accountant in accountants]
    finite = [claim for claim in claims if np.isfinite(claim.epsilon)]
    follows = [replace(claim, unit=computed_claims[0].unit) for claim in finite] if computed_claims else finite
    yield f"{result.name}: claims", computed_claims, follows
    yield f"{result.name}: limit", result.limit, hypothesis.limit_curve(result.mechanism, adjacency)
    training = repetition(result.mechanism)
    if training is not None and not is_non_private(training):
        courses = [calibration.trajectory(part, training, delta=delta, adjacency=adjacency) for part in accountants]
        yield f"{result.name}: courses", result.trajectories, courses


def _declarations(claim: Mapping[str, Any] | None) -> list[tuple[float, str]]:
    if not claim:
        return []
    source = claim.get("source") or DECLARED
    return [(float(claim["epsilon"]), source if source == DECLARED else f"{DECLARED} ({source})")]


def _game(result: MechanismResult, game: GameResult, source: RunSource) -> GameResult | None:
    """Return figures, bounds, controls and simulated audits of a game from its scores; None for one that stops early."""
    report, columns = source.report, [source.tables.get((result.name, game.name, attack.scorer)) for attack in game.attacks]
    estimators = [_estimators(result, game, attack, source) for attack in game.attacks]
    if game.watched or game.game.choices > 1 or not columns or None in columns or None in estimators:
        return None
    scores = []
    for attack, column in zip(game.attacks, filter(None, columns), strict=True):
        rules, event = game.game.at(attack.access or game.game.access), result.mechanism
        scores.append(Scores(values=column[0], included=column[1], game=rules, attack=attack.scorer, mechanism=event))
    budget = Budget(
        delta=report.delta,
        confidence=report.confidence,
        comparisons=report.comparisons,
        certificates=int(source.config.get("certificates") or 0),
    )
    terms = findings.BoundTerms(
        name=game.name,
        game=game.game,
        planned=game.game.runs,
        estimators=tuple(part for part in estimators if part is not None),
        seed=source.game_seed(result.training or result.name, game.name),
        watch=stopping.never(budget, game.game.runs),
        mechanism=result.mechanism,
    )
    return findings.bound_game(scores, terms, StatedClaims(claims=result.claims, limit=result.limit), budget)


def _estimators(
    result: MechanismResult, game: GameResult, attack: AttackResult, source: RunSource
) -> tuple[Estimator, ...] | None:
    """Return the estimators of an attack's bounds with the options of the config; None if one is not of this package."""
    specs: Sequence[Any] = (section(source.config, "games", game.name) or source.config).get("estimators") or ()
    options = {part["kind"]: part for part in specs if isinstance(part, dict)}
    if source.config.get("order"):
        options["one_run"] = {"kind": "one_run", "order": source.config["order"]}
    names = [bound.estimator for bound in attack.bounds]
    if not set(names) <= set(plugins.names(plugins.FOLDERS["estimators"])):
        source.unread.append(f"figures and bounds of '{result.name}/{game.name}', by an estimator that is not of this package")
        return None
    return tuple(plugins.build(plugins.FOLDERS["estimators"], options.get(name, {"kind": name})) for name in names)


def _figures(
    place: str, game: GameResult, again: GameResult, result: MechanismResult, source: RunSource
) -> Iterator[Difference]:
    inside = not judge.outside_families(result.checks)
    follows = (again if inside else again.for_any_mechanism()).type_bounds(void=result.is_void)
    names = ["auc", "auc_lower", "auc_upper", "roc", "tpr_at", "histogram", "bounds", "estimates", "access"]
    for attack, attack_again in zip(game.attacks, follows.attacks, strict=True):
        for name in names + ["control"] * (source.seed is not None):
            yield f"{place}/{attack.scorer}: {name}", getattr(attack, name), getattr(attack_again, name)
    yield f"{place}: simulated audits", game.certificates, follows.certificates
    yield f"{place}: detectable shares", game.detectable, follows.detectable
