"""Opacus' PRV accountant as the library is: a subject of the battery."""

from __future__ import annotations

import importlib.metadata
import warnings
from dataclasses import dataclass

from audit.core.errors import UnsupportedMechanism
from audit.core.events import phases
from audit.core.mechanism import Adjacency, Event
from audit.core.results import Claim


@dataclass(frozen=True, slots=True, kw_only=True)
class OpacusPrv:
    """States what the library states for its history of (noise multiplier, sample rate, steps).

    References:
        github.com/meta-pytorch/opacus. Yousefpour et al. 2021, arXiv 2109.12298.
    """

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """The library's epsilon at `delta` (its accountant knows DP-SGD under add/remove only).

        Raises:
            UnsupportedMechanism: something else, or Opacus is not installed.
        """
        if adjacency is Adjacency.REPLACE_ONE:
            raise UnsupportedMechanism("Opacus accounts for add/remove only; it has no figure for replace_one")
        history = list(phases(mechanism))
        try:
            from opacus.accountants import PRVAccountant
        except ImportError as error:
            raise UnsupportedMechanism("Opacus is not installed; install the extra 'opacus' (epsilon-audit[opacus])") from error
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            accountant = PRVAccountant()
            accountant.history = history
            epsilon = float(accountant.get_epsilon(delta))
        version = importlib.metadata.version("opacus")
        return Claim(
            epsilon=epsilon,
            delta=delta,
            adjacency=adjacency,
            source=f"opacus {version} PRV",
            note="the library's figure, unchecked",
        )


PLUGIN = OpacusPrv
