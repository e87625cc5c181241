"""Titles of the sections that each training and each game has."""

from __future__ import annotations

from audit.core.game_results import GameResult
from audit.core.results import AuditReport, MechanismResult
from reports.words.language import say


def training_title(report: AuditReport, mechanism: MechanismResult) -> str:
    """Return the title of a training's section: its kind in this report, and its name."""
    kind = say({"model": "page.model", "scores": "page.scores"}.get(report.kind, "page.training"))
    return say("page.section_of", kind=kind, name=mechanism.name)


def game_title(mechanism: MechanismResult, game: GameResult) -> str:
    """Return the title of a game's section."""
    return f"{mechanism.name}: {game.name}"
