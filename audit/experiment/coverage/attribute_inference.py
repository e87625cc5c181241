"""Inference of an attribute of a record whose values the auditor drew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from audit.core.game_results import GameResult


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeInference:
    """Inference of an attribute of a record whose values the auditor drew."""

    position: ClassVar[int] = 30
    attack_class: ClassVar[str] = "Attribute inference"
    absent: ClassVar[tuple[str, str]] = ("none", "not run")

    def covers(self, game: GameResult) -> bool:
        """Return whether the game was an attack of this class."""
        return game.game.secret == "attribute"


PLUGIN = AttributeInference
