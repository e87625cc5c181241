"""Membership inference from the outputs of the final model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from audit.core.game_results import GameResult


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipBlackBox:
    """Membership inference from the outputs of the final model."""

    position: ClassVar[int] = 10
    attack_class: ClassVar[str] = "Membership inference, black box"
    absent: ClassVar[tuple[str, str]] = ("none", "not run")

    def covers(self, game: GameResult) -> bool:
        """Return whether the game was an attack of this class."""
        rules = game.game
        return rules.choices == 1 and rules.aim == "membership" and not rules.access.released & {"weights", "steps"}


PLUGIN = MembershipBlackBox
