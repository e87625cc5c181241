"""A remark on a given model that is right on nearly all records of both sides: a split gone wrong."""

from __future__ import annotations

from attacks.signals.logits import Logits
from audit.experiment.games.observed import GameModels

LOOKS_TRAINED = 0.98  # share of right answers from which on a side looks trained on
LIKE_SIDES = "both sides look trained on"  # words of the remark


def like_sides(models: GameModels) -> list[str]:
    """A remark if both sides are nearly always answered right, as after a split of the training records."""
    logits = models.observed.signals.get(Logits.key)
    if logits is None or models.labels is None:
        return []
    included = models.prepared_game.assignment.included[0]
    correct = logits[0].argmax(-1) == models.labels
    inside, outside = float(correct[included].mean()), float(correct[~included].mean())
    if min(inside, outside) < LOOKS_TRAINED or inside - outside > 1 - LOOKS_TRAINED:
        return []
    return [
        f"The model is right on {inside:.1%} of the members and {outside:.1%} of the nonmembers: {LIKE_SIDES}. "
        "If nonmembers were split from the training records after training, no figure here says anything; give records that "
        "the model was never trained on. If they are such records, the model generalises."
    ]
