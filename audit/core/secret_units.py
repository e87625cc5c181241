"""Attacks on texts whose scores have their own unit, so that a report can say what they get of secrets."""

from __future__ import annotations

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
    """An attack whose score of a text says how much of its secret is given away, in a unit."""

    @property
    def unit(self) -> SecretUnit: ...
