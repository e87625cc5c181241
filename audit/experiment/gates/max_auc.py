"""The AUC of any attack, at most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from audit.core import checks
from audit.core.results import MechanismResult
from audit.experiment.gates._figures import at_most, attacks, largest


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxAuc:
    """The AUC of any attack, at most."""

    position: ClassVar[int] = 40

    limit: float

    def __post_init__(self) -> None:
        checks.open_probability(self.limit, "max_auc")

    def found(self, results: Sequence[MechanismResult]) -> float | None:
        """Return the figure that the limit is about; None if no result has one."""
        return largest(attack.auc for attack in attacks(results))

    def met(self, figure: float | None) -> bool:
        """Return whether a release is allowed with that figure; a figure that is not there does not allow it."""
        return at_most(figure, self.limit)


PLUGIN = MaxAuc
