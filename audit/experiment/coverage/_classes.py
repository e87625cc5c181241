"""Classes of attack: each says which games are of it, and what a report writes if none is."""

from dataclasses import dataclass
from typing import ClassVar

from audit.core.game_results import GameResult
from audit.plugins import name_classes

INSIDE = {"weights", "steps"}  # what is released of a white box


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackClass:
    """A class of attack with games about secrets of one kind; `absent` is what is written if there is none, and the status."""

    position: ClassVar[int]
    attack_class: ClassVar[str]
    absent: ClassVar[tuple[str, str]] = ("none", "not run")
    secret: ClassVar[str] = ""

    def covers(self, game: GameResult) -> bool:
        """Return whether the game was an attack of this class."""
        return game.game.secret == self.secret


class MembershipBlackBox(AttackClass):
    """Membership inference from the outputs of the final model."""

    position = 10
    attack_class = "Membership inference, black box"

    def covers(self, game: GameResult) -> bool:
        return game.game.choices == 1 and game.game.aim == "membership" and not game.game.access.released & INSIDE


class MembershipWhiteBox(AttackClass):
    """Membership inference from the final weights, or from all steps."""

    position = 20
    attack_class = "Membership inference, white box"

    def covers(self, game: GameResult) -> bool:
        return game.game.choices == 1 and game.game.aim == "membership" and bool(game.game.access.released & INSIDE)


class AttributeInference(AttackClass):
    """Inference of an attribute of a record with values that the auditor drew."""

    position = 30
    attack_class = "Attribute inference"
    secret = "attribute"


class PropertyInference(AttackClass):
    """Inference of a property of a group of records, which no claim for one record restrains."""

    position = 35
    attack_class = "Property inference"
    secret = "property"


class Reconstruction(AttackClass):
    """Model inversion and reconstruction: naming the record that was trained on among candidates."""

    position = 40
    attack_class = "Model inversion, reconstruction"
    secret = "candidate"


class TextSecrets(AttackClass):
    """Exposure of secrets in texts: naming the secret that was trained on among those that could have stood in its place."""

    position = 42
    attack_class = "Extraction of secrets from texts"
    secret = "text secret"


class Backdoor(AttackClass):
    """Planted records that are to make a model answer a trigger as the attacker wants."""

    position = 45
    attack_class = "Poisoning, backdoor"

    def covers(self, game: GameResult) -> bool:
        return game.game.aim == "backdoor"


class Exfiltration(AttackClass):
    """Theft of the data themselves, which no test of a model sees."""

    position = 50
    attack_class = "Exfiltration"
    absent = ("outside the scope of a model test", "out of scope")

    def covers(self, game: GameResult) -> bool:
        return False


PLUGINS = name_classes(
    *(MembershipBlackBox, MembershipWhiteBox, AttributeInference, PropertyInference),
    *(Reconstruction, TextSecrets, Backdoor, Exfiltration),
)
