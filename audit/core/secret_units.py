"""Attacks on texts with a unit for their scores, so that a report can say how much of the secrets they get."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretUnit:
    """What a score of a text counts.

    Attributes:
        quantity: in words.
        levels: growing figures from which on secrets are counted.
        by_chance: the most that the mean is over secrets that were never trained on; None if that depends on the model.
    """

    quantity: str
    levels: tuple[float, ...]
    by_chance: float | None = None


@runtime_checkable
class SecretScorer(Protocol):
    """An attack that scores how much of a text's secret is given away, in a unit."""

    @property
    def unit(self) -> SecretUnit: ...
