"""What a mechanism costs: claims of accountants, points of its privacy curve, variants of it; and all of that as a sheet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from audit.core.adjacency import Adjacency
from audit.core.claims import Side


@dataclass(frozen=True, slots=True, kw_only=True)
class EpsilonRow:
    """The epsilon that one accountant states.

    Attributes:
        side: if it claims to be: "upper" (at or above the true epsilon), "lower", or "estimate", which is no bound.
        epsilon: None if the accountant does not cover the mechanism; `note` then says why.
        source: the accountant with its version.
    """

    accountant: str
    side: Side
    epsilon: float | None
    source: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """A point of a privacy curve: the proven bracket on epsilon at a delta, and each accountant's claim (None for no claim)."""

    delta: float
    lower: float
    upper: float
    claims: Mapping[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfRow:
    """What an event would cost with other values ("noise 2", "steps x0.5"); an accountant without a claim has None."""

    changes: tuple[str, ...]
    lower: float
    upper: float
    claims: Mapping[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CostLine:
    """A line of a sheet: the proven bracket on epsilon, and what each of its accountants claims, in their order."""

    label: str
    lower: float
    upper: float
    claims: tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CostSheet:
    """All that is said of what one mechanism costs.

    Attributes:
        trainings: of a report, that it is about; none if it is about a mechanism alone.
        mechanism: in words.
        group_size: records that change together.
        lower, upper: ends of the bracket on the true epsilon at `delta`; 0 and infinity, for the reason in `doubt`, if
            nothing is proved.
        accountants: names, in the order of the claims.
        deltas: of the lines of `curve`.
        what_if: lines with other noise, rates or steps.
        course: lines after each of `course_steps` of a repeated mechanism; the label is the Renyi order that decides there.
    """

    trainings: tuple[str, ...]
    mechanism: str
    delta: float
    adjacency: Adjacency
    group_size: int
    lower: float
    upper: float
    doubt: str
    accountants: tuple[str, ...]
    claims: tuple[EpsilonRow, ...]
    deltas: tuple[float, ...]
    curve: tuple[CostLine, ...]
    what_if: tuple[CostLine, ...]
    course_steps: tuple[int, ...] = ()
    course: tuple[CostLine, ...] = ()
