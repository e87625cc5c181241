"""Figures that gates read off results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from audit.core.game_results import AttackResult
from audit.core.results import MechanismResult


def largest(values: Iterable[float]) -> float | None:
    """Return the largest value, None if there is none."""
    return max(values, default=None)


def attacks(results: Sequence[MechanismResult]) -> Iterable[AttackResult]:
    """Yield every attack of every game."""
    return (attack for result in results for game in result.games for attack in game.attacks)


def tprs(results: Sequence[MechanismResult], rate: float) -> Iterable[float]:
    """Yield the true positive rates at a false positive rate, of every attack that resolves it."""
    points = (point for attack in attacks(results) for point in attack.tpr_at if point.target_fpr == rate)
    return (point.tpr for point in points if point.tpr is not None)


def at_most(figure: float | None, limit: float) -> bool:
    """Return whether a figure was found and stays within the limit."""
    return figure is not None and figure <= limit
