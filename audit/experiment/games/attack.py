"""From models to scores: attacks by name, what each adversary sees of a game's models, and what its attack makes of it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from attacks.signals import _reading as reading
from attacks.signals._white_box import StepProducts
from attacks.signals.logits import Logits
from audit import plugins
from audit.core.coins import some_models
from audit.core.data import Array
from audit.core.errors import ConfigError, DataError, ObservationError
from audit.core.event_reading import first_steps
from audit.core.phrases import join_clauses, phrase
from audit.core.protocols import Attack, Needs
from audit.core.seeds import Seed
from audit.core.views import Scores, View
from audit.experiment.games.observed import GameModels, as_slice, read_only
from audit.experiment.games.spec import PlannedAttack
from audit.plugins import refuse_answer

ADVICE = "lower the learning rate or the noise"


def attempt(models: GameModels) -> tuple[list[Scores], dict[str, str]]:
    """The scores of every attack that can score these models, and why each other cannot, by name.

    A bound less never makes another one wrong, and the share of the error that it would have had stays unspent.
    """
    models, scores, left_out = with_confidences(models), [], {}
    for attack in models.prepared_game.game_design.attacks:
        try:
            _refuse_lost_references(models, attack)
            scores.append(score(models, attack))
        except ObservationError as error:
            left_out[attack.name] = str(error)
    return scores, left_out


def with_confidences(models: GameModels) -> GameModels:
    """The models with the logit-scaled confidence of each in each record, once for all attacks that read it off logits."""
    signals, labels = models.observed.signals, models.labels
    if Logits.key not in signals or labels is None or labels.ndim != 1:
        return models
    view = reading.with_confidences(View(signals={Logits.key: signals[Logits.key]}), labels)
    shared = {**signals, **{key: array for key, array in view.signals.items() if key != Logits.key}}
    return replace(models, observed=replace(models.observed, signals=shared))


def attempt_whole_game(models: GameModels) -> tuple[list[Scores], dict[str, str]]:
    """The same for all models of a game that is over: no attack is left where no target stayed finite.

    A single target that diverged stays in: leaving runs out by their outcome would bias the bounds.
    """
    runs = models.prepared_game.assignment.runs
    if not models.observed.diverged[:runs].all():
        return attempt(models)
    reason = join_clauses((phrase("all {runs} target runs diverged", runs=runs), ADVICE))
    return [], {attack.name: reason for attack in models.prepared_game.game_design.attacks}


def score(models: GameModels, planned_attack: PlannedAttack, steps: int | None = None) -> Scores:
    """The scores of all target runs, pooled; each run is attacked alone, with the dedicated references.

    Runs never serve as each other's reference: a guess that used another target's coins would break the independence that the
    one-run theorem rests on. `steps` cuts what was observed to the first steps. `ObservationError` if an attack has nothing to
    read.
    """
    prepared_game, attack = models.prepared_game, planned_attack.attack
    mechanism, assignment = prepared_game.mechanism, prepared_game.assignment
    if steps is not None and mechanism is not None:
        mechanism = first_steps(mechanism, steps)
    keys = reading.view_keys(attack.needs)
    signals = {key: value for key, value in models.observed.signals.items() if key in keys}
    if not signals:  # an attack of your own need not look
        raise ObservationError(f"it reads {' or '.join(sorted(keys))}, and these models show nothing of that")
    if steps is not None:
        signals = {key: value[..., :steps] if key == StepProducts.key else value for key, value in signals.items()}
    own, included = as_slice(models.references), assignment.included
    reference = View(signals=_rows(signals, own), included=read_only(some_models(included, own)))
    secrets = assignment.canaries.secrets
    values = []
    for run in range(assignment.runs):
        view = View(signals=_rows(signals, run), labels=models.labels, mechanism=mechanism)
        seed = prepared_game.seed.child(f"attack:{planned_attack.name}", models.first + run)
        scored = canary_scores(attack, view, reference, seed) if secrets is None else attack.score(view, reference, seed)
        if np.shape(scored) != (canaries := len(assignment.canaries),):
            refuse_answer(attack, "score", f"scores of shape {np.shape(scored)}", f"a number for each canary, ({canaries},)")
        values.append(scored)
    return Scores(
        values=np.concatenate(values),
        included=included[: assignment.runs].ravel(),
        game=prepared_game.game.at(planned_attack.access),
        attack=planned_attack.name,
        mechanism=mechanism,
        prior=None if secrets is None else np.tile(secrets.prior.ravel(), assignment.runs),
    )


def canary_scores(attack: Attack, target: View, reference: View, seed: Seed) -> Array:
    """Scores `(m,)` of canaries that are in or out; all zero of a target that shows the same of every one of them.

    What an attack makes of such a target distinguishes only its references' coins, or roundings. `DataError` if they are no
    numbers.
    """
    values = np.asarray(attack.score(target, reference, seed))
    if values.dtype.kind not in "biuf":
        raise DataError(f"{type(attack).__name__} gives scores of type {values.dtype}; expected one number for each record")
    values = values.astype(np.float64)
    is_silent = reading.without_reductions(target).is_silent
    return np.zeros_like(values) if is_silent else values


def _rows(signals: Mapping[str, Array], models: Array | slice | int) -> dict[str, Array]:
    return {key: read_only(value[models]) for key, value in signals.items()}


def _refuse_lost_references(models: GameModels, planned_attack: PlannedAttack) -> None:
    reference_count, references_needed = len(models.references), planned_attack.attack.needs.references
    if reference_count < references_needed:
        reason = phrase(
            "{finite} of {models} reference models stayed finite and it needs {needed}",
            finite=reference_count,
            models=models.prepared_game.game_design.references,
            needed=references_needed,
        )
        raise ObservationError(join_clauses((reason, ADVICE)))


def build_attack(spec: Mapping[str, Any]) -> Attack:
    """The attack that `spec["kind"]` names, or `ConfigError` if there is none, or what is there is no attack."""
    attack: Attack = plugins.build(plugins.FOLDERS["scorers"], spec)
    check_attack(attack, str(spec["kind"]))
    return attack


def check_attack(attack: Any, name: str) -> None:
    """Raise `ConfigError` unless it has `needs` and a method `score`."""
    with plugins.foreign_code(f"needs of '{name}'", whole=False):
        needs = getattr(attack, "needs", None)
    if isinstance(needs, Needs) and callable(getattr(attack, "score", None)):
        return
    problem = "no method 'score'" if isinstance(needs, Needs) else f"'needs' of type {type(needs).__name__}"
    raise ConfigError(
        f"'{name}' cannot be used as an attack: it has {problem}; expected 'needs', an audit.core.protocols.Needs, and "
        "score(target, reference, seed) that returns a number for each record"
    )
