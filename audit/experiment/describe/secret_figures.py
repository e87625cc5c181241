"""What attacks on texts get of planted secrets, and of those that were not planted: exposure and extraction in a report."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from audit.core.canaries import Canaries
from audit.core.game_results import AttackResult, LevelCount, SecretFigures
from audit.core.protocols import Attack
from audit.core.secret_units import SecretScorer, SecretUnit
from audit.core.views import Scores

ROUNDING = 1e-9  # of a figure that a level is compared with, relative


def with_secrets(result: AttackResult, attack: Attack, scores: Scores, canaries: Canaries) -> AttackResult:
    """Return the attack's result with its figures on secrets, if its scores of texts have a unit."""
    records = canaries.records
    if not isinstance(attack, SecretScorer) or records is None or not records.are_texts:
        return result
    predicted = records.labels >= 0
    starts = predicted & ~np.pad(predicted, ((0, 0), (1, 0)))[:, :-1]  # a user's texts are side by side, each with its secret
    texts = canaries.payload.copies * int(starts.sum(axis=1).max())
    return replace(result, secrets=secret_figures(scores, attack.unit, texts))


def secret_figures(scores: Scores, unit: SecretUnit, texts: int) -> SecretFigures:
    """Return means and counts of a unit on both sides.

    Args:
        scores: of texts in that unit.
        texts: training texts that hold a planted secret.
    """
    sides = scores.members, scores.nonmembers
    counts = [[int((side >= level * (1 - ROUNDING)).sum()) for side in sides] for level in unit.levels]
    return SecretFigures(
        quantity=unit.quantity,
        members=len(scores.members),
        nonmembers=len(scores.nonmembers),
        mean_members=float(scores.members.mean()),
        mean_nonmembers=float(scores.nonmembers.mean()),
        by_chance=unit.by_chance,
        levels=tuple(
            LevelCount(level=level, members=planted, nonmembers=absent)
            for level, (planted, absent) in zip(unit.levels, counts, strict=True)
        ),
        texts=texts,
    )
