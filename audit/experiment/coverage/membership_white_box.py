"""Membership inference from the final weights, or from all steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from audit.core.game_results import GameResult


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipWhiteBox:
    """Membership inference from the final weights, or from all steps."""

    position: ClassVar[int] = 20
    attack_class: ClassVar[str] = "Membership inference, white box"
    absent: ClassVar[tuple[str, str]] = ("none", "not run")

    def covers(self, game: GameResult) -> bool:
        """Return whether the game was an attack of this class."""
        return (
            game.game.choices == 1 and game.game.aim == "membership" and bool(game.game.access.released & {"weights", "steps"})
        )


PLUGIN = MembershipWhiteBox
