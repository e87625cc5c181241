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
from audit.experiment.observed import Observed
from audit.experiment.spec import PlannedAttack

ADVICE = "lower the learning rate or the noise"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Models:
    """The models of a game, trained here or brought by somebody: everything that attacks read.

    Attributes:
        insertion: with the coins of these models alone, targets first: fewer than planned where the game stopped early.
        labels: `(m,)` true labels of the canaries, None where there are none or nobody gave them.
        first: number of the first target among all of the game.
    """

    insertion: Insertion
    observed: Observed
    labels: Array | None
    first: int = 0

    @property
    def references(self) -> Array:
        """Numbers of the reference models that stayed finite."""
        runs = self.insertion.planting.runs
        return runs + np.flatnonzero(~self.observed.diverged[runs:])


def scores_of(models: Models) -> list[Scores]:
    """The scores of every attack of the game."""
    return [score(models, planned) for planned in models.insertion.play.attacks]


def score(models: Models, planned: PlannedAttack, steps: int | None = None) -> Scores:
    """The scores of all target runs, pooled; each run is attacked alone, with the dedicated references.

    Runs never serve as each other's reference: a guess that used another target's coins would break
    the independence that the one-run theorem rests on. `steps` cuts what was observed to the first steps.
    """
    game, attack = models.insertion, planned.attack
    mechanism = game.mechanism if steps is None or game.mechanism is None else first_steps(game.mechanism, steps)
    shown = {key: value for key, value in models.observed.signals.items() if key in attack.needs.keys}
    if steps is not None:
        shown = {key: value[..., :steps] if key == StepProducts.key else value for key, value in shown.items()}
    own, included = models.references, game.planting.included
    reference = View(signals=_rows(shown, own), included=included[own])
    values = []
    for run in range(game.planting.runs):
        view = View(signals=_rows(shown, run), labels=models.labels, mechanism=mechanism)
        values.append(attack.score(view, reference, game.seed.child(f"attack:{planned.name}", models.first + run)))
    return Scores(
        values=np.concatenate(values),
        included=included[: game.planting.runs].ravel(),
        game=rules_of(game.play, game.planting, planned.access),
        attack=planned.name,
        mechanism=mechanism,
    )


def _rows(signals: Mapping[str, Array], models: Array | int) -> dict[str, Array]:
    """The signals of some models."""
    return {key: value[models] for key, value in signals.items()}


def refuse_lost(models: Models) -> None:
    """Raise `ObservationError` if too few models remained finite for the game to be played.

    A single target that diverged stays in: leaving runs out by their outcome would bias the bounds.
    """
    runs = models.insertion.planting.runs
    if models.observed.diverged[:runs].all():
        raise ObservationError(f"game '{models.insertion.play.name}': all {runs} target runs diverged; {ADVICE}")
    refuse_lost_references(models)


def refuse_lost_references(models: Models) -> None:
    """Raise `ObservationError` if fewer references remained finite than some attack needs."""
    play, left = models.insertion.play, len(models.references)
    for planned in play.attacks:
        if left < planned.attack.needs.references:
            raise ObservationError(
                f"game '{play.name}': {left} of {play.references} reference models stayed finite, "
                f"scorer '{planned.name}' needs {planned.attack.needs.references}; {ADVICE}"
            )
