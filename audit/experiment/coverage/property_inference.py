"""Inference of a property of a group of records, which no claim for one record restrains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from audit.core.game_results import GameResult


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyInference:
    """Inference of a property of a group of records, which no claim for one record restrains."""

    position: ClassVar[int] = 35
    attack_class: ClassVar[str] = "Property inference"
    absent: ClassVar[tuple[str, str]] = ("none", "not run")

    def covers(self, game: GameResult) -> bool:
        """Return whether the game was an attack of this class."""
        return game.game.secret == "property"


PLUGIN = PropertyInference
