"""The preflight of targets that were trained here: what members and nonmembers get, and whether scores have the right sign."""

from collections.abc import Sequence

import numpy as np

from attacks.signals.logits import Logits
from audit.core.preflight import Preflight
from audit.core.views import Scores
from audit.experiment.games.observed import GameModels
from audit.experiment.line import preflight
from audit.experiment.line.side_agreement import ReadRecords
from audit.stats.scoring.signals import cross_entropy
from audit.stats.sign_test import lower_tail

_MOST_ANSWERS = 20_000


def look_at_targets(models: GameModels, scores: Sequence[Scores], *, games: int) -> Preflight | None:
    """Return the preflight of a game's targets; None if its scores are not of members and nonmembers.

    Verdicts rest on the best of several attacks, so the sign test, at a level that all `games` share, is of the scores with the
    largest tail.
    """
    bound_attacks = {plan.name for plan in models.prepared_game.game_design.attacks if plan.estimators}
    score_tables = [score for score in scores if score.attack in bound_attacks and score.game.choices == 1]
    score_tables = [score for score in score_tables if 0 < score.included.sum() < len(score.included)]
    if not score_tables:
        return None
    best = max(score_tables, key=lambda score: lower_tail(score.values, score.included))
    records = _read_answers(models) or ReadRecords(
        losses=-best.values, included=best.included, reading="scores of attacks, higher for members"
    )
    return preflight.look_at_signs(records, best, games=games)


def _read_answers(models: GameModels) -> ReadRecords | None:
    """Return the answers of targets, evenly chosen, for the canaries; None if these are not records of classes."""
    logits, labels, assignment = models.observed.signals.get(Logits.key), models.labels, models.prepared_game.assignment
    if logits is None or labels is None or labels.dtype.kind not in "iu" or not models.are_classified:
        return None
    targets = np.flatnonzero(~models.observed.diverged[: assignment.runs])
    targets = targets[:: max(1, -(-len(targets) * len(labels) // _MOST_ANSWERS))]
    if not len(targets):
        return None
    answers = np.concatenate([np.asarray(logits[target]) for target in targets])
    truths = np.tile(labels, len(targets)).astype(np.int64)
    included = np.concatenate([np.asarray(assignment.included[target : target + 1])[0] for target in targets]).astype(bool)
    if answers.ndim != 2 or answers.shape[1] < 2 or not 0 < included.sum() < len(included):
        return None
    return ReadRecords(
        losses=cross_entropy(answers, truths),
        included=included,
        reading=f"outputs are logits of {answers.shape[1]} classes, y holds classes",
        logits=answers,
        labels=truths,
    )
