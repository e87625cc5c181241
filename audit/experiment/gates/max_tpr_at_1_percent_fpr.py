"""The true positive rate of any attack at a false positive rate of 1 %, at most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from audit.core import checks
from audit.core.results import MechanismResult
from audit.experiment.gates._figures import at_most, largest, tprs


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxTprAt1PercentFpr:
    """The true positive rate of any attack at a false positive rate of 1 %, at most."""

    position: ClassVar[int] = 30

    limit: float

    def __post_init__(self) -> None:
        checks.open_probability(self.limit, "max_tpr_at_1_percent_fpr")

    def found(self, results: Sequence[MechanismResult]) -> float | None:
        """Return the figure that the limit is about; None if no result has one."""
        return largest(tprs(results, 0.01))

    def met(self, figure: float | None) -> bool:
        """Return whether a release is allowed with that figure; a figure that is not there does not allow it."""
        return at_most(figure, self.limit)


PLUGIN = MaxTprAt1PercentFpr
