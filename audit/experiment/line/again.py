"""What follows from the scores, the config and other sections of a finished report, written again by the code that wrote it.

Nothing that a config names outside of this package is imported: a folder may come from a stranger.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from audit import plugins
from audit.accounting import calibration
from audit.accounting.report_costs import with_costs
from audit.bounds.budget import Budget
from audit.config import yaml_text
from audit.core.claims import Outcome
from audit.core.event_reading import is_non_private, repetition
from audit.core.game_results import AttackResult, GameResult
from audit.core.protocols import Estimator
from audit.core.results import AuditReport, MechanismResult
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.execution.recompute import is_equal
from audit.execution.run_folder import PRIVATE, SEED
from audit.experiment.games import hypothesis, stopping
from audit.experiment.games.hypothesis import StatedClaims
from audit.experiment.gates._limits import largest, tprs
from audit.experiment.line import findings, judge, table_again
from audit.experiment.line import report as reporting
from audit.experiment.line.game import GameOutcome

Difference = tuple[str, Any, Any]  # place, what is written, what follows
LOG_START = r"(\S+ \S+),\d+ INFO epsilon-audit (\S+), config .*, sha256 (\w+)"
COLUMNS = ("mechanism", "game", "attack", "run", "canary", "record", "label", "member", "score")  # of scores.parquet
START_GAP = 120  # seconds between a report's time and the first line of its log


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSource:
    """A report with its config and, by training, game and attack, scores and memberships `(n,)` each."""

    folder: Path
    report: AuditReport
    config: Mapping[str, Any]
    tables: Mapping[tuple[str, str, str], tuple[Any, Any]]

    @property
    def seed(self) -> int | None:
        """Return the seed of all draws; None if the folder does not hold it."""
        path = self.folder / SEED
        own_seed = int(path.read_text(encoding="utf-8")) if path.is_file() else None
        return self.report.provenance.seed if own_seed is None else own_seed


def differences(folder: Path, report: AuditReport) -> tuple[int, list[str]]:
    """Return how many sections were written again, and a line for each that is not what the folder says."""
    import pandas as pd

    path, tables = folder / "scores.parquet", dict[tuple[str, str, str], tuple[Any, Any]]()
    if path.is_file():
        table = pd.read_parquet(path)
        columns = [name for name in table if name not in COLUMNS]
        if columns or table["member"].dtype != bool:
            return 1, [f"scores.parquet: column {[*columns, 'member'][0]!r} is not as `audit` writes it"]
        first = next(((result.name, game.name) for result in report.mechanisms for game in result.games), ("", ""))
        table = table.assign(
            **{name: part for name, part in zip(("mechanism", "game"), first, strict=True) if name not in table}
        )
        for (training, game, attack), rows in table.groupby(["mechanism", "game", "attack"], sort=False):  # type: ignore[misc]
            tables[str(training), str(game), str(attack)] = (rows["score"].to_numpy(np.float64), rows["member"].to_numpy(bool))
    source = RunSource(folder=folder, report=report, config=yaml_text.read(report.config)[0] or {}, tables=tables)
    sections = [*_files(source), *_summary(source)]
    sections += [row for result in report.mechanisms for row in _training(result, source)]
    problems = [
        f"{place}: {str(value)[:150]} is written, {str(follows)[:150]} follows when it is written again"
        for place, value, follows in sections
        if not is_equal(_plain(value), _plain(follows))
    ]
    return len(sections), problems


def _plain(value: Any) -> Any:
    """Return a value as numbers, texts and lists of them."""
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        return [_plain(getattr(value, part.name)) for part in fields(value)]
    if isinstance(value, Mapping):
        return [[key, _plain(part)] for key, part in sorted(value.items())]
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value


def _files(source: RunSource) -> Iterator[Difference]:
    """Yield config, machine, version and time of the report beside other files, and memberships beside the coins drawn."""
    from safetensors.numpy import load_file

    folder, report, provenance = source.folder, source.report, source.report.provenance
    if (path := folder / "config.resolved.yaml").is_file():
        yield "config", path.read_text(encoding="utf-8"), report.config
    if (path := folder / "environment.json").is_file():
        machine = json.loads(path.read_text(encoding="utf-8"))
        for name in ("packages", "python", "platform", "device", "threads"):
            part = getattr(provenance, name)
            yield f"provenance.{name}", dict(part) if name == "packages" else part, machine[name]
    path = folder / "audit.log"
    if first := re.match(LOG_START, path.read_text(encoding="utf-8") if path.is_file() else ""):
        yield "provenance", [provenance.version, provenance.config_sha256], [first[2], first[3]]
        times = [datetime.fromisoformat(text) for text in (report.created.rstrip("Z"), first[1])]  # both are UTC
        yield "created", abs((times[0] - times[1]).total_seconds()) <= START_GAP, True
    keys = [
        (result.name, game.name, row.scorer) for result in report.mechanisms for game in result.games for row in game.attacks
    ]
    yield "attacks in their order", keys, list(source.tables)
    for (training, game_name, attack), (_, member) in source.tables.items():
        path = folder / PRIVATE / f"coins-{training}-{game_name}.safetensors"
        if path.is_file():
            arrays = load_file(path)
            count = int(arrays["canaries"])
            coins = np.unpackbits(arrays["bits"], axis=1)[: len(member) // max(count, 1), :count]
            yield f"{training}/{game_name}/{attack}: coins", np.array_equal(coins.ravel(), member), True


def _summary(source: RunSource) -> Iterator[Difference]:
    """Yield sections that follow from all trainings: coverage, gates, costs, notes and declarations."""
    report = source.report
    classes = reporting.attack_classes() if report.mechanisms else ()
    yield "coverage", report.coverage, reporting.coverage(report.mechanisms, classes)
    if report.table is not None:
        yield from table_again.differences(report, source.config)
    verdict_result = [result for result in report.mechanisms if result.claims] or report.mechanisms
    for gate in report.policy:
        if rate := re.fullmatch(r"tpr@([\d.]+)%", gate.gate):
            highest = largest(tprs(verdict_result, float(rate[1]) / 100))
            yield gate.gate, [gate.found, gate.met], [highest, highest is not None and highest <= gate.limit]
    own_gates = [gate for gate in report.policy if gate.gate in plugins.names(plugins.FOLDERS["gates"])]
    gates = {gate.gate: plugins.build(plugins.FOLDERS["gates"], {"kind": gate.gate, "limit": gate.limit}) for gate in own_gates}
    yield "policy", own_gates, reporting.gates(report.mechanisms, gates)
    if report.kind == "run":
        course = (source.config.get("output") or {}).get("costs", False)
        yield "costs", report.costs, with_costs(report, course_only=course == "course").costs if course else ()
    uses = tuple(source.config.get("unaccounted") or ())
    for result in report.mechanisms:
        frame = _frame(report, uses)
        rows = reporting.declarations(result, frame)
        yield f"{result.name}: declarations", result.checks[len(result.checks) - len(rows) :], rows
    notes = reporting.notes(report.mechanisms, _frame(report, uses))
    yield "notes", report.notes[len(report.notes) - len(notes) :], notes


def _frame(report: AuditReport, uses: tuple[str, ...]) -> reporting.Frame:
    """Return what a report says in addition to its results, as far as declarations and notes need it."""
    return reporting.Frame(
        kind=report.kind,
        title=report.title,
        created=report.created,
        budget=Budget(delta=report.delta, confidence=report.confidence, comparisons=report.comparisons),
        data=report.data,
        model=report.model,
        config=report.config,
        provenance=report.provenance,
        unaccounted=uses,
    )


def _training(result: MechanismResult, source: RunSource) -> Iterator[Difference]:
    """Yield claims, courses and limits of a training by its accountants, its games from their scores, and its verdicts."""
    yield from _claims(result, source)
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


def _claims(result: MechanismResult, source: RunSource) -> Iterator[Difference]:
    """Yield what accountants claim of a mechanism, at its end and over its steps, and the limit that it sets."""
    spec: Mapping[str, Any] = next((part for part in source.config.get("mechanisms") or () if part["name"] == result.name), {})
    if source.report.kind == "run":
        declared = [claim.epsilon for claim in result.claims if claim.is_declared]
        yield f"{result.name}: declared claims", declared, [float(spec["claim"]["epsilon"])] if spec.get("claim") else []
    kinds = plugins.names(plugins.FOLDERS["accountants"])
    specs = [spec for spec in source.config.get("accountants") or () if spec.get("kind") in kinds]
    if result.mechanism is None or len(specs) < len(source.config.get("accountants") or ()):
        return
    accountants = [plugins.build(plugins.FOLDERS["accountants"], spec) for spec in specs]
    computed_claims, delta = [claim for claim in result.claims if not claim.is_declared], source.report.delta
    adjacency = next((game.game.adjacency for game in result.games), None)
    if adjacency is None:
        return
    claims = [accountant.claim(result.mechanism, delta=delta, adjacency=adjacency) for accountant in accountants]
    finite = [
        replace(claim, unit=next((row.unit for row in computed_claims), claim.unit))
        for claim in claims
        if np.isfinite(claim.epsilon)
    ]
    yield f"{result.name}: claims", computed_claims, finite
    yield f"{result.name}: limit", result.limit, hypothesis.limit_curve(result.mechanism, adjacency)
    training = repetition(result.mechanism)
    if training is not None and not is_non_private(training):
        courses = [calibration.trajectory(part, training, delta=delta, adjacency=adjacency) for part in accountants]
        yield f"{result.name}: courses", result.trajectories, courses


def _game(result: MechanismResult, game: GameResult, source: RunSource) -> GameResult | None:
    """Return figures, bounds, controls and simulated audits of a game from its scores; None for one that stops early."""
    report, columns = source.report, [source.tables.get((result.name, game.name, attack.scorer)) for attack in game.attacks]
    estimators = [_estimators(result, game, attack, source) for attack in game.attacks]
    if game.watched or game.game.choices > 1 or not columns or None in columns or None in estimators:
        return None
    scores = [
        Scores(
            values=column[0],
            included=column[1],
            game=game.game.at(attack.access or game.game.access),
            attack=attack.scorer,
            mechanism=result.mechanism,
        )
        for attack, column in zip(game.attacks, columns, strict=True)
        if column is not None
    ]
    budget = Budget(
        delta=report.delta,
        confidence=report.confidence,
        comparisons=report.comparisons,
        certificates=int(source.config.get("certificates") or 0),
    )
    seed = Seed(source.seed or 0)
    terms = findings.BoundTerms(
        name=game.name,
        game=game.game,
        planned=game.game.runs,
        estimators=tuple(part for part in estimators if part is not None),
        seed=seed.child(f"recipe:{result.training or result.name}").child(f"game:{game.name}")
        if report.kind == "run"
        else seed,
        watch=stopping.never(budget, game.game.runs),
        mechanism=result.mechanism,
    )
    return findings.bound_game(scores, terms, StatedClaims(claims=result.claims, limit=result.limit), budget)


def _estimators(
    result: MechanismResult, game: GameResult, attack: AttackResult, source: RunSource
) -> tuple[Estimator, ...] | None:
    """Return the estimators of an attack's bounds with the options of the config; None if one is not of this package."""
    games = [part for part in source.config.get("games") or () if isinstance(part, dict) and part.get("name") == game.name]
    specs: Sequence[Any] = games[0].get("estimators", ()) if games else source.config.get("estimators") or ()
    options = {part["kind"]: part for part in specs if isinstance(part, dict)}
    if source.config.get("order"):
        options["one_run"] = {"kind": "one_run", "order": source.config["order"]}
    names = [bound.estimator for bound in attack.bounds]
    if not set(names) <= set(plugins.names(plugins.FOLDERS["estimators"])):
        return None
    return tuple(plugins.build(plugins.FOLDERS["estimators"], options.get(name, {"kind": name})) for name in names)


def _figures(
    place: str, game: GameResult, again: GameResult, result: MechanismResult, source: RunSource
) -> Iterator[Difference]:
    """Yield the sections of a game that were written again."""
    inside = not judge.outside_families(result.checks)
    follows = (again if inside else again.for_any_mechanism()).type_bounds(void=result.is_void)
    names = ["auc", "auc_lower", "auc_upper", "roc", "tpr_at", "histogram", "bounds", "estimates", "access"]
    for attack, attack_again in zip(game.attacks, follows.attacks, strict=True):
        for name in names + ["control"] * (source.seed is not None):
            yield f"{place}/{attack.scorer}: {name}", getattr(attack, name), getattr(attack_again, name)
    yield f"{place}: simulated audits", game.certificates, follows.certificates
    yield f"{place}: detectable shares", game.detectable, follows.detectable
