"""A game as far as it was trained: what its adversaries see of the models, and the scores that they make of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from attacks.signals.step_products import StepProducts
from audit.core.data import Array, Planting
from audit.core.errors import ObservationError
from audit.core.event_reading import first_steps
from audit.core.game import Game
from audit.core.protocols import Attack
from audit.core.seeds import Seed
from audit.core.views import Scores, View
from audit.execution.store import Store
from audit.experiment.insertion import Planted, rules_of
from audit.experiment.job import Order
from audit.experiment.spec import Experiment, Play, Recipe
from audit.experiment.train import Observed, gather

ADVICE = "lower the learning rate or the noise"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Round:
    """A game on a recipe, after training: everything that attacks and statistics read.

    Attributes:
        planting: of the models that were observed, targets first: fewer than planned where the game stopped early.
        first: number of the first target among all of the game.
    """

    experiment: Experiment
    recipe: Recipe
    game: Play
    seed: Seed
    planting: Planting
    observed: Observed
    first: int = 0

    @property
    def rules(self) -> Game:
        """The game as an adversary with all its access played it."""
        return rules_of(self.game, self.planting, self.game.access)

    def attack(self, name: str, attack: Attack, steps: int | None = None) -> Scores:
        """The scores of all target runs, pooled; each run is attacked alone, with the dedicated references.

        Runs never serve as each other's reference: a guess that used another target's coins would break
        the independence that the one-run theorem rests on. `steps` cuts what was observed to the first steps.
        """
        mechanism = self.recipe.mechanism if steps is None else first_steps(self.recipe.mechanism, steps)
        level, keys = self.game.level(attack), attack.needs.keys
        shown = {key: value for key, value in self.observed.signals.items() if key in keys}
        if steps is not None:
            shown = {key: value[..., :steps] if key == StepProducts.key else value for key, value in shown.items()}
        records = self.planting.canaries.records
        labels = None if records is None else records.labels
        own = self.references
        reference = View(signals=_rows(shown, own), included=self.planting.included[own])
        values = []
        for run in range(self.planting.runs):
            view = View(signals=_rows(shown, run), labels=labels, mechanism=mechanism)
            values.append(attack.score(view, reference, self.seed.child(f"attack:{name}", self.first + run)))
        included = self.planting.included[: self.planting.runs].ravel()
        return Scores(
            values=np.concatenate(values),
            included=included,
            game=rules_of(self.game, self.planting, level),
            attack=name,
            mechanism=mechanism,
        )

    @property
    def references(self) -> Array:
        """Numbers of the reference models that stayed finite."""
        runs = self.planting.runs
        return runs + np.flatnonzero(~self.observed.diverged[runs:])


def _rows(signals: Mapping[str, Array], models: Array | int) -> dict[str, Array]:
    """The signals of some models."""
    return {key: value[models] for key, value in signals.items()}


def part(experiment: Experiment, one: Planted, jobs: Sequence[tuple[range, Order]], store: Store) -> Round:
    """The game as far as these jobs, with the models that each trained, show it."""
    ordered = sorted(jobs, key=lambda job: job[0].start)
    rows = np.concatenate([np.arange(rows.start, rows.stop) for rows, _ in ordered])
    runs = int(np.sum(rows < one.game.runs))
    return Round(
        experiment=experiment,
        recipe=one.recipe,
        game=one.game,
        seed=one.seed,
        planting=replace(one.planting, included=one.planting.included[rows], runs=runs),
        observed=gather([order.key for _, order in ordered], store),
        first=int(rows[0]),
    )


def refuse_lost(one: Round) -> None:
    """Nothing, or `ObservationError` where too few models stayed finite for the game to be played.

    A single target that diverged stays in: leaving runs out by their outcome would bias the bounds.
    """
    runs = one.planting.runs
    if one.observed.diverged[:runs].all():
        raise ObservationError(f"game '{one.game.name}': all {runs} target runs diverged; {ADVICE}")
    refuse_lost_references(one)


def refuse_lost_references(one: Round) -> None:
    """Nothing, or `ObservationError` where fewer references stayed finite than some attack needs."""
    game, left = one.game, int((~one.observed.diverged[one.planting.runs :]).sum())
    for name, attack in game.attacks:
        if left < attack.needs.references:
            raise ObservationError(
                f"game '{game.name}': {left} of {game.references} reference models stayed finite, "
                f"scorer '{name}' needs {attack.needs.references}; {ADVICE}"
            )
