"""The epsilon that is proven without assuming a family, at most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from audit.core import checks
from audit.core.results import MechanismResult
from audit.experiment.gates._figures import at_most, largest


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxProvenEpsilon:
    """The epsilon that is proven without assuming a family, at most."""

    position: ClassVar[int] = 20

    limit: float

    def __post_init__(self) -> None:
        checks.positive(self.limit, "max_proven_epsilon")

    def found(self, results: Sequence[MechanismResult]) -> float | None:
        """Return the figure that the limit is about; None if no result has one."""
        return largest(bound.epsilon for result in results for bound in result.bounds)

    def met(self, figure: float | None) -> bool:
        """Return whether a release is allowed with that figure; a figure that is not there does not allow it."""
        return at_most(figure, self.limit)


PLUGIN = MaxProvenEpsilon
