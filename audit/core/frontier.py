"""What noise costs and what it buys: a training at several noise multipliers, each with what it claims and what is proven."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from audit.core.results import AuditReport
from audit.core.rounding import down, percent, up
from audit.core.tables import Table

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierRow:
    """One noise multiplier.

    Attributes:
        claimed: the smallest epsilon that an accountant states for one training.
        claimed_with_tuning: epsilon of releasing the best of a random number of trainings at this noise or more.
        proven: the largest bound for any mechanism, 0 if void; `ceiling`: what perfect scores would have proven.
        tpr: the largest true positive rate of an attack at the false positive rate `fpr`; None if no game states one.
        utility: mean over the models, and `spread` its standard deviation; None without a test set.
    """

    name: str
    noise_multiplier: float
    claimed: float
    claimed_with_tuning: float
    proven: float
    ceiling: float
    outcome: str
    fpr: float | None
    tpr: float | None
    utility: float | None
    spread: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontier:
    """The rows by rising noise, and the report of the one run that they are from.

    Attributes:
        tuning: expected number of trainings of which the best is released, in `claimed_with_tuning`.
        metric: the name of the utility figure, "" without a test set.
    """

    rows: Table[FrontierRow]
    tuning: float
    metric: str
    report: AuditReport

    def to_pandas(self) -> pd.DataFrame:
        """Return a row per noise multiplier."""
        return self.rows.to_pandas()

    def __str__(self) -> str:
        head = ("noise", "claimed", f"best of {self.tuning:g}", "proven", "ceiling", "TPR", self.metric or "utility")
        lines = [head, *(_texts(row) for row in self.rows)]
        widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
        return "\n".join("  ".join(word.rjust(width) for word, width in zip(line, widths, strict=True)) for line in lines)


def _texts(row: FrontierRow) -> Sequence[str]:
    rate = "-" if row.tpr is None or row.fpr is None else f"{percent(row.tpr)} at {percent(row.fpr)}"
    utility = "-" if row.utility is None else f"{row.utility:.3f}"
    proven, ceiling = down(row.proven), down(row.ceiling)
    return f"{row.noise_multiplier:g}", up(row.claimed), up(row.claimed_with_tuning), proven, ceiling, rate, utility
