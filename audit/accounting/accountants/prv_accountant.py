"""Microsoft's prv_accountant as the library is: a subject of the battery."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from audit.accounting.accountants import _as_it_is
from audit.core import checks
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim, Side
from audit.core.errors import UnsupportedMechanism
from audit.core.event_forms import fold
from audit.core.events import ApproximateDp, Composed, Event, Gaussian, Laplace, PoissonSampled, Repeated

_SIDES: tuple[Side, ...] = ("lower", "estimate", "upper")
_Parts = list[tuple[Any, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrvAccountant:
    """States what the library states.

    Attributes:
        side: "upper" bound, "estimate" or "lower" bound of the three figures that the library gives.
        error: the error in epsilon that the library is asked for.

    References: Gopi, Lee, Wutschitz 2021, arXiv 2106.02848.
    """

    as_it_is: ClassVar[bool] = True
    side: Side = "upper"
    error: float = 0.01

    def __post_init__(self) -> None:
        checks.choice(self.side, "side", _SIDES)

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """The library's epsilon at `delta`; `UnsupportedMechanism` if it has no such mechanism under add/remove, or it is not
        installed.
        """
        _as_it_is.add_remove_only("prv_accountant", adjacency)
        library = _as_it_is.library("prv_accountant", "prv-accountant")
        parts = fold(mechanism, _makers(library))
        counts = [count for _, count in parts]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            accountant = library.PRVAccountant(
                prvs=[prv for prv, _ in parts], max_self_compositions=counts, eps_error=self.error, delta_error=delta / 1000
            )
            figures = accountant.compute_epsilon(delta, counts)
        epsilon = figures[_SIDES.index(self.side)]
        return _as_it_is.figure(epsilon, package="prv-accountant", method=self.side, delta=delta, adjacency=adjacency)


def _makers(library: Any) -> dict[type, Callable[..., _Parts]]:
    def sample(poisson_sampled: PoissonSampled, _: _Parts) -> _Parts:
        if not isinstance(poisson_sampled.mechanism, Gaussian):
            raise UnsupportedMechanism(f"prv_accountant does not sample {poisson_sampled.mechanism}")
        return [
            (
                library.PoissonSubsampledGaussianMechanism(
                    poisson_sampled.sample_rate, poisson_sampled.mechanism.noise_multiplier
                ),
                1,
            )
        ]

    def approximate(approximate_dp: ApproximateDp) -> _Parts:
        if approximate_dp.delta == 0:
            return [(library.PureDPMechanism(approximate_dp.epsilon), 1)]
        return [(library.ApproximateDPMechanism(approximate_dp.epsilon, approximate_dp.delta), 1)]

    return {
        Gaussian: lambda event: [(library.GaussianMechanism(event.noise_multiplier), 1)],
        Laplace: lambda event: [(library.LaplaceMechanism(1 / event.noise_multiplier), 1)],
        ApproximateDp: approximate,
        PoissonSampled: sample,
        Repeated: lambda event, parts: [(inner, count * event.count) for inner, count in parts],
        Composed: lambda event, *parts: [pair for part in parts for pair in part],
    }


PLUGIN = PrvAccountant
