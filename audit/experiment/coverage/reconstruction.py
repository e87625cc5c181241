"""Model inversion and reconstruction: naming the record that was trained on among candidates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from audit.core.game_results import GameResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconstruction:
    """Model inversion and reconstruction: naming the record that was trained on among candidates."""

    position: ClassVar[int] = 40
    attack_class: ClassVar[str] = "Model inversion, reconstruction"
    absent: ClassVar[tuple[str, str]] = ("none", "not run")

    def covers(self, game: GameResult) -> bool:
        """Return whether the game was an attack of this class."""
        return game.game.secret == "candidate"


PLUGIN = Reconstruction
