"""Forms of canaries tried on rehearsals of a game, so that a config names the one that proves most before a run draws coins.

A rehearsal is the whole game under a seed of its own: its coins, noise and weights say nothing of those of the run, so the
choice costs no share of the error (docs/theory/choice.md).
"""

import json
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from audit import plugins
from audit.config import Resolution, parse
from audit.core.errors import AuditError, ConfigError
from audit.core.results import MechanismResult
from audit.core.seeds import Seed, new_seed
from audit.execution.store import Store
from audit.experiment.games.hypothesis import state
from audit.experiment.games.spec import Experiment
from audit.experiment.line.assemble import assemble
from audit.experiment.line.run import run


@dataclass(frozen=True, slots=True, kw_only=True)
class FormRow:
    """What a game proves with one form of canaries: means over rehearsals and over the mechanisms with a claim, if any has one.

    Attributes:
        canaries: value of the game's `canaries`; `count` its number of them.
        proven: epsilon for any mechanism, `standard_error` over rehearsals (NaN if there is one).
        inside: epsilon inside a family.
        auc: of the best attack.
    """

    canaries: Mapping[str, Any]
    count: int
    proven: float
    standard_error: float
    inside: float
    auc: float


def try_forms(
    resolution: Resolution, game: str, forms: Sequence[Mapping[str, Any]] = (), rehearsals: int = 3
) -> tuple[list[FormRow], list[str]]:
    """Return the forms that the game can be played with, the one that proves most first, and why others cannot.

    Args:
        forms: values of `canaries`, each with a `count` if it is not the game's; none tries every kind that needs no key.
        rehearsals: of each form; all forms meet the same seeds.

    Raises:
        ConfigError: there is no such game, or none of the forms can be used.
    """
    spec = next((spec for spec in resolution.config.games if spec.name == game), None)
    if spec is None:
        raise ConfigError(f"no game is called '{game}'; there are: {', '.join(spec.name for spec in resolution.config.games)}")
    number = resolution.config.seed
    root = Seed(new_seed() if number is None else number)
    seeds = [root.child("rehearsal", index).integer() for index in range(rehearsals)]
    rows, refusals = [], []
    for form in forms or list(_usual_forms(spec.count)):
        canaries = {key: value for key, value in form.items() if key != "count"}
        count = form.get("count", spec.count)
        try:
            figures = np.array([_rehearse(settled(resolution, game, canaries, count, seed), game) for seed in seeds])
        except AuditError as error:
            refusals.append(f"{json.dumps(dict(form))}: {error}")
            continue
        proven, inside, auc = figures.mean(axis=0).tolist()
        spread = float(figures[:, 0].std(ddof=1) / math.sqrt(rehearsals)) if rehearsals > 1 else math.nan
        rows.append(FormRow(canaries=canaries, count=count, proven=proven, standard_error=spread, inside=inside, auc=auc))
    if not rows:
        raise ConfigError("\n".join([f"games.{game}: none of the canaries can be used", *refusals]))
    return sorted(rows, key=lambda row: (row.proven, row.inside, row.auc), reverse=True), refusals


def settled(resolution: Resolution, game: str, canaries: Mapping[str, Any], count: int, seed: int | None) -> Resolution:
    """Return the config with these canaries in a game, and with this seed."""
    at = [spec.name for spec in resolution.config.games].index(game)  # a name may hold points
    changes = {f"games.{at}.canaries": canaries, f"games.{at}.count": count, "seed": seed}
    return parse(resolution.text, [f"{path}={json.dumps(value)}" for path, value in changes.items()])


def _usual_forms(count: int) -> Iterator[dict[str, Any]]:
    package = plugins.FOLDERS["canaries"]
    for kind in plugins.names(package):
        if not plugins.keys(plugins.find(package, kind))[1]:
            yield from ({"kind": kind, "count": count}, {"kind": kind, "count": 2 * count})


def _rehearse(resolution: Resolution, game: str) -> tuple[float, float, float]:
    """Return what one rehearsal proves for any mechanism and inside a family, and the AUC of its best attack."""
    experiment = _alone(assemble(resolution.config), game)
    with tempfile.TemporaryDirectory(prefix="audit-") as folder:
        results, _ = run(experiment, Store.start(Path(folder) / "run", resolution.sha256))
    proven, inside, auc = np.mean([_figures(result) for result in results], axis=0).tolist()
    return proven, inside, auc


def _figures(result: MechanismResult) -> tuple[float, float, float]:
    return (
        max((bound.epsilon for bound in result.bounds), default=0.0),
        max((bound.epsilon_inside for bound in result.bounds_inside), default=0.0),
        max((attack.auc or 0.0 for game in result.games for attack in game.attacks), default=0.0),
    )


def _alone(experiment: Experiment, game: str) -> Experiment:
    """Return the experiment with one game only, under the error budget of all, on mechanisms with a claim if there are any."""
    design, budget = experiment.design, experiment.budget
    played = [game_design for game_design in design.game_designs if game_design.name == game]
    names = {name for game_design in played for name in game_design.training_designs}
    training_designs = tuple(training for training in design.training_designs if training.name in names)
    claimed = tuple(training for training in training_designs if state(training, budget.delta).claims)
    return replace(
        experiment,
        design=replace(design, training_designs=claimed or training_designs, game_designs=tuple(played)),
        budget=replace(budget, certificates=0),
    )
