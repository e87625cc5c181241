"""One training at several noise multipliers in one run: utility, claimed epsilon, proven epsilon, attack."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.api.configs import resolve
from audit.core import checks
from audit.core.errors import ConfigError
from audit.core.lower_bounds import read_ceiling
from audit.core.tables import Table

if TYPE_CHECKING:
    from audit.core.plans import Frontier, FrontierRow
    from audit.core.results import AuditReport, MechanismResult
    from audit.core.training import Progress


def frontier(
    config: str | Path | Mapping[str, Any],
    noise: Sequence[float],
    *,
    mechanism: str | None = None,
    tuning: float | None = None,
    output: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> Frontier:
    """Run a config with one of its mechanisms at several noise multipliers, all in one run; a row for each.

    All trainings share data, canaries and the error budget of one report, so all bounds hold together, and are trained as one
    ensemble as far as `audit run` does.

    Args:
        noise: multipliers, of which each makes a mechanism.
        mechanism: name of the one that is varied; None takes the only one that has noise.
        tuning: expected number of trainings of which the best is released (Papernot and Steinke 2022, a geometric number);
            None takes as many as there are multipliers.
        output: folder of the run; None keeps nothing.

    Raises:
        ConfigError: fewer than two multipliers, or no mechanism that takes one.
    """
    from audit.api.run import run
    from audit.core.plans import Frontier

    multipliers = sorted({checks.positive(float(value), "noise") for value in noise})
    if len(multipliers) < 2:
        raise ConfigError(f"noise holds {len(multipliers)} multipliers; expected at least two to compare")
    mean_trainings = float(len(multipliers)) if tuning is None else tuning
    if mean_trainings < 1:
        raise ConfigError(f"tuning is {mean_trainings:g}; expected at least 1 training")
    settings, names = vary_noise(resolve(config, overrides or {}).text, multipliers, mechanism)
    report = run(settings, output=output, resume=resume, progress=progress)
    results = {result.name: result for result in report.mechanisms}
    rows = [_row(results[name], value, report, mean_trainings) for name, value in zip(names, multipliers, strict=True)]
    metrics = results[names[0]].utility
    return Frontier(rows=Table(rows), tuning=mean_trainings, metric=metrics[0].name if metrics else "", report=report)


def vary_noise(text: str, multipliers: Sequence[float], mechanism: str | None) -> tuple[dict[str, Any], list[str]]:
    """Return a config's values with a mechanism per multiplier in place of one, and their names; `ConfigError` if that one is
    not there, takes no noise, or several could be meant.
    """
    from audit.config import yaml_text

    settings: dict[str, Any] = yaml_text.read(text)[0]
    noisy = [spec for spec in settings["mechanisms"] if spec.get("noise_multiplier") or spec.get("target_epsilon")]
    candidates = [spec for spec in noisy if mechanism in (None, spec["name"])]
    if len(candidates) != 1:
        noisy_names = ", ".join(spec["name"] for spec in noisy) or "none"
        raise ConfigError(
            f"mechanism is {mechanism!r}; expected the name of one that has noise, of which there are: {noisy_names}"
        )
    (original,) = candidates
    by_name = {f"{original['name']}-noise-{value:g}": value for value in multipliers}
    specs = [{**original, "name": name, "noise_multiplier": value, "target_epsilon": None} for name, value in by_name.items()]
    further_specs = [spec for spec in settings["mechanisms"] if spec is not original]
    games = []
    for game in settings["games"]:
        names = game.get("mechanisms")
        if names is not None:
            names = [name for entry in names for name in (by_name if entry == original["name"] else [entry])]
        games.append({**game, "mechanisms": names})
    return {**settings, "mechanisms": [*further_specs, *specs], "games": games}, list(by_name)


def _row(result: MechanismResult, multiplier: float, report: AuditReport, tuning: float) -> FrontierRow:
    from audit.api import accountant
    from audit.core.deployed_procedures import Tuned
    from audit.core.plans import FrontierRow

    claim_epsilon = min((claim.epsilon for claim in result.claims), default=math.inf)
    with_tuning = claim_epsilon
    if tuning > 1 and result.mechanism is not None:
        best_run = Tuned(mechanism=result.mechanism, mean=tuning)
        with_tuning = accountant.epsilon(best_run, delta=report.delta, adjacency=result.games[0].game.adjacency).upper
    points = [point for game in result.games for attack in game.attacks for point in attack.tpr_at if point.tpr is not None]
    fpr = min((point.target_fpr for point in points), default=None)
    metric = result.utility[0] if result.utility else None
    return FrontierRow(
        name=result.name,
        noise_multiplier=multiplier,
        claimed=claim_epsilon,
        claimed_with_tuning=with_tuning,
        proven=max((bound.epsilon for bound in result.bounds), default=0.0),
        ceiling=max((read_ceiling(bound) for bound in result.all_bounds if bound.family is None), default=0.0),
        outcome="" if result.outcome is None else result.outcome.value,
        fpr=fpr,
        tpr=max((float(point.tpr or 0.0) for point in points if point.target_fpr == fpr), default=None),
        utility=None if metric is None else metric.value,
        spread=None if metric is None else metric.spread,
    )
