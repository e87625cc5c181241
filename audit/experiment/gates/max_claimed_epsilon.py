"""The epsilon of the tightest claim of each mechanism, at most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from audit.core import checks
from audit.core.results import MechanismResult
from audit.experiment.gates._figures import at_most, largest


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxClaimedEpsilon:
    """The epsilon of the tightest claim of each mechanism, at most."""

    position: ClassVar[int] = 10

    limit: float

    def __post_init__(self) -> None:
        checks.positive(self.limit, "max_claimed_epsilon")

    def found(self, results: Sequence[MechanismResult]) -> float | None:
        """Return the figure that the limit is about; None if no result has one."""
        return largest(min(claim.epsilon for claim in result.claims) for result in results if result.claims)

    def met(self, figure: float | None) -> bool:
        """Return whether a release is allowed with that figure; a figure that is not there does not allow it."""
        return at_most(figure, self.limit)


PLUGIN = MaxClaimedEpsilon
