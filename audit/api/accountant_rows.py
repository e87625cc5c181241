"""Rows of the tables in which accountants answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic

from audit.core.adjacency import Adjacency
from audit.core.claims import Side
from audit.core.costs import EpsilonRow
from audit.core.tables import Row, Table

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaRow:
    """The delta that one accountant states at an epsilon; None if it does not cover the mechanism."""

    accountant: str
    side: Side
    delta: float | None
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs(Generic[Row]):
    """A row for each accountant asked about one mechanism, beside the bracket in which the truth was proved to be.

    Attributes:
        lower, upper: ends of the bracket; nothing is proved at 0 and infinity (of deltas 1), for the reason in `doubt`.
    """

    rows: Table[Row]
    lower: float
    upper: float
    adjacency: Adjacency
    doubt: str = ""

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame with one row per accountant."""
        return self.rows.to_pandas()


@dataclass(frozen=True, slots=True, kw_only=True)
class Epsilons(Costs[EpsilonRow]):
    """What several accountants state of one mechanism at a delta, beside the bracket on its true epsilon."""

    delta: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Deltas(Costs[DeltaRow]):
    """What several accountants state of one mechanism at an epsilon, beside the bracket on its true delta."""

    epsilon: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseRow:
    """The least noise with which one accountant's claim stays within a budget, and that claim; None without any.

    Attributes:
        noise_multiplier: of the event with that noise; None also if the event has several.
        factor: on all noise multipliers of the event that was asked about.
    """

    accountant: str
    noise_multiplier: float | None
    epsilon: float | None
    note: str
    factor: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsRow:
    """The most steps within a budget by one accountant, and how many of them are left; None if it does not cover them.

    With `is_limit`, `steps` is only the largest number that was tried, all of which stay within the budget.
    """

    accountant: str
    steps: int | None
    left: int | None
    note: str
    is_limit: bool = False
