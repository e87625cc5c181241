"""From models to scores: what each adversary sees of a game's models, and what its attack makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from attacks.signals.step_products import StepProducts
from audit.core.data import Array
from audit.core.errors import ObservationError
from audit.core.event_reading import first_steps
from audit.core.views import Scores, View
from audit.experiment.insertion import Insertion, rules_of
from audit.experiment.observed import Observations
from audit.experiment.spec import PlannedAttack

ADVICE = "lower the learning rate or the noise"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GameModels:
    """The models of a game, trained here or brought by somebody: everything that attacks read.

    Attributes:
        insertion: with the coins of these models alone, targets first: fewer than planned where the game stopped early.
        labels: `(m,)` true labels of the canaries, None where there are none or nobody gave them.
        first: number of the first target among all of the game.
    """

    insertion: Insertion
    observed: Observations
    labels: Array | None
    first: int = 0

    @property
    def references(self) -> Array:
        """Numbers of the reference models that stayed finite."""
        runs = self.insertion.planting.runs
        return runs + np.flatnonzero(~self.observed.diverged[runs:])


def attempt(models: GameModels) -> tuple[list[Scores], dict[str, str]]:
    """The scores of every attack that can score these models, and why each other cannot, by name.

    A bound less never makes another one wrong, and the share of the error that it would have had stays unspent.
    """
    scores, left_out = [], {}
    for attack in models.insertion.play.attacks:
        try:
            _refuse_lost_references(models, attack)
            scores.append(score(models, attack))
        except ObservationError as error:
            left_out[attack.name] = str(error)
    return scores, left_out


def score(models: GameModels, planned_attack: PlannedAttack, steps: int | None = None) -> Scores:
    """The scores of all target runs, pooled; each run is attacked alone, with the dedicated references.

    Runs never serve as each other's reference: a guess that used another target's coins would break
    the independence that the one-run theorem rests on. `steps` cuts what was observed to the first steps.
    """
    game, attack = models.insertion, planned_attack.attack
    mechanism = game.mechanism if steps is None or game.mechanism is None else first_steps(game.mechanism, steps)
    signals = {key: value for key, value in models.observed.signals.items() if key in attack.needs.keys}
    if steps is not None:
        signals = {key: value[..., :steps] if key == StepProducts.key else value for key, value in signals.items()}
    own, included = models.references, game.planting.included
    reference = View(signals=_rows(signals, own), included=included[own])
    secrets = game.planting.canaries.secrets
    values = []
    for run in range(game.planting.runs):
        view = View(signals=_rows(signals, run), labels=models.labels, mechanism=mechanism)
        values.append(attack.score(view, reference, game.seed.child(f"attack:{planned_attack.name}", models.first + run)))
    return Scores(
        values=np.concatenate(values),
        included=included[: game.planting.runs].ravel(),
        game=rules_of(game.play, game.planting, planned_attack.access),
        attack=planned_attack.name,
        mechanism=mechanism,
        prior=None if secrets is None else np.tile(secrets.prior.ravel(), game.planting.runs),
    )


def _rows(signals: Mapping[str, Array], models: Array | int) -> dict[str, Array]:
    """The signals of some models."""
    return {key: value[models] for key, value in signals.items()}


def lost_reason(models: GameModels) -> str:
    """Why no target can be attacked, "" where at least one stayed finite.

    A single target that diverged stays in: leaving runs out by their outcome would bias the bounds.
    """
    runs = models.insertion.planting.runs
    return f"all {runs} target runs diverged; {ADVICE}" if models.observed.diverged[:runs].all() else ""


def _refuse_lost_references(models: GameModels, planned_attack: PlannedAttack) -> None:
    """Raise `ObservationError` if fewer references remained finite than the attack needs."""
    reference_count, references_needed = len(models.references), planned_attack.attack.needs.references
    if reference_count < references_needed:
        raise ObservationError(
            f"{reference_count} of {models.insertion.play.references} reference models stayed finite and it needs "
            f"{references_needed}; {ADVICE}"
        )
