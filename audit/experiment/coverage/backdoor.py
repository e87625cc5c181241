"""Planted records that are to make a model answer a trigger as the attacker wants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from audit.core.game_results import GameResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Backdoor:
    """Planted records that are to make a model answer a trigger as the attacker wants."""

    position: ClassVar[int] = 45
    attack_class: ClassVar[str] = "Poisoning, backdoor"
    absent: ClassVar[tuple[str, str]] = ("none", "not run")

    def covers(self, game: GameResult) -> bool:
        """Return whether the game was an attack of this class."""
        return game.game.aim == "backdoor"


PLUGIN = Backdoor
