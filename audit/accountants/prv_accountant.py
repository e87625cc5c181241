"""Microsoft's prv_accountant as the library is: a subject of the battery."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass

from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.events import phases
from audit.core.mechanism import Adjacency, Event
from audit.core.results import Claim


@dataclass(frozen=True, slots=True, kw_only=True)
class PrvAccountant:
    """States what the library states.

    Attributes:
        side: "upper" bound, "estimate" or "lower" bound of the three figures that the library gives.
        error: the error in epsilon that the library is asked for.

    References:
        Gopi, Lee, Wutschitz 2021, arXiv 2106.02848.
    """

    side: str = "upper"
    error: float = 0.01

    def __post_init__(self) -> None:
        if self.side not in ("lower", "estimate", "upper"):
            raise ConfigError(f"side is {self.side!r}; expected lower, estimate or upper")

    @property
    def optimistic(self) -> bool:
        """Whether the figure is meant as a lower bound on the true epsilon."""
        return self.side == "lower"

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """The library's epsilon at `delta`.

        Raises:
            UnsupportedMechanism: not DP-SGD under add/remove, or the library is not installed.
        """
        if adjacency is Adjacency.REPLACE_ONE:
            raise UnsupportedMechanism("prv_accountant accounts for add/remove only; it has no figure for replace_one")
        history = phases(mechanism)
        try:
            import prv_accountant
        except ImportError as error:
            raise UnsupportedMechanism("prv_accountant is not installed; install the package 'prv-accountant'") from error
        accountant = prv_accountant.PRVAccountant(
            prvs=[prv_accountant.PoissonSubsampledGaussianMechanism(rate, noise) for noise, rate, _ in history],
            max_self_compositions=[steps for _, _, steps in history],
            eps_error=self.error,
            delta_error=delta / 1000,
        )
        found = accountant.compute_epsilon(delta, [steps for _, _, steps in history])
        epsilon = float(found[("lower", "estimate", "upper").index(self.side)])
        source = f"prv-accountant {importlib.metadata.version('prv-accountant')}, {self.side}"
        return Claim(epsilon=epsilon, delta=delta, adjacency=adjacency, source=source, note="the library's figure, unchecked")


PLUGIN = PrvAccountant
