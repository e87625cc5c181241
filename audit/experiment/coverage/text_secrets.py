"""Exposure of secrets in texts: naming the secret that was trained on among those that could have stood in its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from audit.core.game_results import GameResult


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSecrets:
    """Exposure of secrets in texts: naming the secret that was trained on among those that could have stood in its place."""

    position: ClassVar[int] = 42
    attack_class: ClassVar[str] = "Extraction of secrets from texts"
    absent: ClassVar[tuple[str, str]] = ("none", "not run")

    def covers(self, game: GameResult) -> bool:
        """Return whether the game was an attack of this class."""
        return game.game.secret == "text secret"


PLUGIN = TextSecrets
