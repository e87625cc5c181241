"""The accuracy of the models of each mechanism, at least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from audit.core import checks
from audit.core.results import MechanismResult


@dataclass(frozen=True, slots=True, kw_only=True)
class MinAccuracy:
    """The accuracy of the models of each mechanism, at least."""

    position: ClassVar[int] = 50

    limit: float

    def __post_init__(self) -> None:
        checks.open_probability(self.limit, "min_accuracy")

    def found(self, results: Sequence[MechanismResult]) -> float | None:
        """Return the figure that the limit is about; None if no result has one."""
        return min((metric.value for result in results for metric in result.utility if metric.name == "accuracy"), default=None)

    def met(self, figure: float | None) -> bool:
        """Return whether a release is allowed with that figure; a figure that is not there does not allow it."""
        return figure is not None and figure >= self.limit


PLUGIN = MinAccuracy
