"""IBM's diffprivlib: its budget accountant as it is, a subject of the battery; it knows (epsilon, delta) of releases only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from audit.accounting.accountants import _as_it_is
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.errors import UnsupportedMechanism
from audit.core.events import ApproximateDp, Composed, Event, Exponential, Laplace, Repeated

_MOST_RELEASES = 100_000  # it keeps a list


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffprivlibBudget:
    """States what the library states for pure and approximate releases, all of delta that they leave being its slack.

    References:
        Holohan, Braghin, Mac Aonghusa, Levacher 2019, arXiv 1907.02444. github.com/IBM/differential-privacy-library.
    """

    as_it_is: ClassVar[bool] = True

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """Return the library's epsilon at `delta`.

        Raises:
            UnsupportedMechanism: the library does not import, or a part has no (epsilon, delta).
        """
        releases = _releases(mechanism, 1, adjacency)
        number = sum(count for _, _, count in releases)
        if number > _MOST_RELEASES:
            raise UnsupportedMechanism(f"{number:,} releases; diffprivlib keeps a list, at most {_MOST_RELEASES:,} here")
        accountant = _as_it_is.library("diffprivlib.accountant", "diffprivlib").BudgetAccountant(
            slack=max(0.0, delta - sum(failure * count for _, failure, count in releases))
        )
        for epsilon, failure, count in releases:
            for _ in range(count):
                accountant.spend(epsilon, failure)
        return _as_it_is.figure(
            accountant.total()[0], package="diffprivlib", method="budget accountant", delta=delta, adjacency=adjacency
        )


def _releases(event: Event, count: int, adjacency: Adjacency) -> list[tuple[float, float, int]]:
    """Epsilon and delta of each release, and how often it is made."""
    match event:
        case Repeated(mechanism=inner, count=times):
            return _releases(inner, count * int(times), adjacency)
        case Composed(parts=parts):
            return [release for part in parts for release in _releases(part, count, adjacency)]
        case Laplace(noise_multiplier=scale) if scale > 0:
            return [((2 if adjacency is Adjacency.REPLACE_ONE else 1) / scale, 0.0, count)]
        case Exponential(epsilon=epsilon):
            return [(epsilon, 0.0, count)]
        case ApproximateDp(epsilon=epsilon, delta=delta):
            return [(epsilon, delta, count)]
    raise UnsupportedMechanism(f"diffprivlib accounts for pure and approximate releases only, not for {event}")


PLUGIN = DiffprivlibBudget
