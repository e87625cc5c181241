"""The parts that the report of a trained model and that of a score table share."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from typing import TypeVar

from audit.core.errors import ConfigError
from audit.core.results import SCHEMA, AuditReport, Coverage, DataSummary, MechanismResult
from audit.experiment import figures, judge
from audit.experiment.settings import Settings, sha256

Value = TypeVar("Value")


def pick(name: str, known: Mapping[str, Value], key: str) -> Value:
    """What `name` stands for, or `ConfigError` with the nearest name."""
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, list(known), n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    raise ConfigError(f"{key} is {name!r}.{hint} Expected one of {', '.join(known)}")


def report(
    settings: Settings,
    *,
    kind: str,
    title: str,
    model: str,
    data: DataSummary | None,
    result: MechanismResult,
    notes: tuple[str, ...],
    comparisons: int,
    config: str,
) -> AuditReport:
    """The finished report around one audited mechanism."""
    identity = sha256(config)
    return AuditReport(
        schema=SCHEMA,
        id=f"PA-{identity[:8].upper()}",
        kind=kind,
        title=title,
        created=settings.timestamp(),
        delta=settings.delta,
        confidence=settings.confidence,
        comparisons=max(comparisons, 1),
        data=data,
        model=model,
        mechanisms=(result,),
        outcome=judge.worst([result.outcome]),
        notes=notes,
        coverage=_coverage(result, kind),
        policy=(),
        config=config,
        origins=(),
        provenance=figures.provenance(
            command=settings.command,
            seed=settings.seed,
            config_sha256=identity,
            device=settings.device,
            threads=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        ),
    )


def _coverage(result: MechanismResult, kind: str) -> tuple[Coverage, ...]:
    attacks = [attack.scorer for game in result.games for attack in game.attacks]
    count = sum(game.game.canaries * game.game.runs for game in result.games)
    done = f"{count:,} records, scorers {', '.join(attacks)}" if kind == "model" else f"{count:,} scores made elsewhere"
    return (
        Coverage(attack_class="Membership inference, black box", done=done, status="run"),
        Coverage(attack_class="Membership inference, white box", done="none", status="not run"),
        Coverage(attack_class="Attribute inference", done="none", status="not run"),
        Coverage(attack_class="Model inversion, reconstruction", done="none", status="not run"),
        Coverage(attack_class="Exfiltration", done="outside the scope of a model test", status="out of scope"),
    )
