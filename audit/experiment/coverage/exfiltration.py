"""Theft of the data themselves, which no test of a model sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from audit.core.game_results import GameResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Exfiltration:
    """Theft of the data themselves, which no test of a model sees."""

    position: ClassVar[int] = 50
    attack_class: ClassVar[str] = "Exfiltration"
    absent: ClassVar[tuple[str, str]] = ("outside the scope of a model test", "out of scope")

    def covers(self, game: GameResult) -> bool:
        """Return whether the game was an attack of this class."""
        return False


PLUGIN = Exfiltration
