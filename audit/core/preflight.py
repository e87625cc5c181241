"""How what a user gave was read, and whether the model's answers fit it, before anything is concluded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from audit.core.phrases import phrase

LIKE_SIDES = "both sides look trained on"  # words of a remark, after which no figure follows
# how remarks begin, or what they hold, that change how figures are read: they come first
_FIRST = (LIKE_SIDES, "Invalid: ", "Other readings", "Look first: ", "the attack is weak")


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedReading:
    """Another reading of the records, with its fit on members and AUC; None if it changes nothing or has one record a side."""

    name: str
    fit: float | None
    auc: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """Whether outputs and y fit each other, and members fit better than nonmembers.

    Attributes:
        reading: how outputs and y were read.
        measure: "accuracy", "error" (root mean square) or "" if only losses are known.
        members, nonmembers: the measure on either side; `baseline` of the commonest class, or of the mean, on members.
        auc: of the loss, members against nonmembers; above 1/2 if members have smaller losses; None of one record a side.
        chance: of an AUC as small as this one if membership says nothing of the losses.
        alternatives: other readings, if something speaks against this one.
        doubt: why the reading cannot be right; "" if nothing speaks against it.
        question: the point to look at, "" if there is none.
    """

    reading: str
    measure: str
    members: float | None
    nonmembers: float | None
    baseline: float | None
    auc: float | None
    chance: float
    alternatives: tuple[TriedReading, ...] = ()
    doubt: str = ""
    question: str = ""

    @property
    def lines(self) -> list[str]:
        """Return how outputs and y were read, and what follows from it on either side."""
        return [f"read as: {self.reading}", *([self.figures] if self.figures else [])]

    @property
    def figures(self) -> str:
        """Return the figures of the measure in a sentence; "" if only losses are known."""
        if self.members is None or self.nonmembers is None or self.baseline is None:
            return ""
        if self.measure == "error":
            return phrase(
                "root mean square error: members {members}, nonmembers {nonmembers}; always the mean {baseline}",
                members=f"{self.members:.4g}",
                nonmembers=f"{self.nonmembers:.4g}",
                baseline=f"{self.baseline:.4g}",
            )
        return phrase(
            "right answers: members {members}, nonmembers {nonmembers}; commonest class {baseline}",
            members=f"{self.members:.1%}",
            nonmembers=f"{self.nonmembers:.1%}",
            baseline=f"{self.baseline:.1%}",
        )


def sort_remarks(remarks: Iterable[str]) -> list[str]:
    """Return remarks, those first that change how figures are read."""

    def find_rank(remark: str) -> int:
        return next((rank for rank, words in enumerate(_FIRST) if words in remark), len(_FIRST))

    return [f"no figure may follow: {text}" if LIKE_SIDES in text else text for text in sorted(remarks, key=find_rank)]
