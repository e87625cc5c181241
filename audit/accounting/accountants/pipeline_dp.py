"""PipelineDP: its budget accountants as they are, a subject of the battery.

The library splits a budget into noise and has no figure for noise that is given. What it states is the least total budget from
which it would hand out no more than this noise; both of its accountants give less noise for more budget.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from audit.accounting.accountants import _as_it_is
from audit.core import checks
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.errors import UnsupportedMechanism
from audit.core.event_reading import runs
from audit.core.events import Event, Gaussian, Laplace

_RELATIVE = 2e-4  # of the noise: where the search for a budget ends; the library's own search for noise is hardly finer
_SMALLEST, _LARGEST = 1e-3, 1e4  # budgets that are tried
_MOST_STEPS = 60
_Part = tuple[str, float, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineDp:
    """States the least budget for which the library chooses so little noise, for Laplace and Gaussian releases.

    Attributes:
        accountant: "pld" (composition by dp-accounting's PLD, which the library calls experimental) or "naive" (sums; Laplace
            releases only).

    References: github.com/OpenMined/PipelineDP.
    """

    as_it_is: ClassVar[bool] = True
    accountant: Literal["pld", "naive"] = "pld"

    def __post_init__(self) -> None:
        checks.choice(self.accountant, "accountant", ("pld", "naive"))

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """Return the library's epsilon at `delta`; `UnsupportedMechanism` for an event that it does not know, or if it is not
        installed.
        """
        change = 2.0 if adjacency is Adjacency.REPLACE_ONE else 1.0
        releases: list[_Part] = [(*_terms(release), count) for release, count in runs(mechanism)]
        parts = [part for part in releases if part[2]]
        if not parts or any(noise <= 0 for _, noise, _ in parts):
            raise UnsupportedMechanism("PipelineDP has no budget of nothing, and none without noise")
        if self.accountant == "naive" and any(name != "LAPLACE" for name, *_ in parts):
            raise UnsupportedMechanism("PipelineDP's naive accountant turns budgets into noise of Laplace releases only")
        library = _as_it_is.library("pipeline_dp.budget_accounting", "pipeline-dp")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if self.accountant == "naive":
                epsilon = _naive(library, parts, change)
            else:
                epsilon = _budget(lambda budget: _noise(library, parts, (budget, delta), change))
        return _as_it_is.figure(epsilon, package="pipeline-dp", method=self.accountant, delta=delta, adjacency=adjacency)


def _terms(event: Event) -> tuple[str, float]:
    """Name in the library, and noise over sensitivity, of a release."""
    match event:
        case Gaussian(noise_multiplier=noise):
            return "GAUSSIAN", float(noise)
        case Laplace(noise_multiplier=noise):
            return "LAPLACE", math.sqrt(2) * float(noise)
    raise UnsupportedMechanism(f"PipelineDP accounts for unsampled Gaussian and Laplace releases only, not for {event}")


def _noise(library: Any, parts: list[_Part], budget: tuple[float, float], change: float) -> float:
    """Standard deviation that the library gives, over the one that was asked about."""
    accountant = library.PLDBudgetAccountant(*budget)
    for name, deviation, count in parts:  # its deviations are the base's over these weights
        accountant.request_budget(getattr(library.MechanismType, name), weight=change / deviation, count=count)
    accountant.compute_budgets()
    return float(accountant.base_noise_std)


def _naive(library: Any, parts: list[_Part], change: float) -> float:
    """The total of a budget of which each release gets what its noise needs."""
    accountant = library.NaiveBudgetAccountant(total_epsilon=1.0, total_delta=0.0)
    epsilons = [math.sqrt(2) * change / deviation for _, deviation, _ in parts]
    specs = [
        accountant.request_budget(getattr(library.MechanismType, name), weight=epsilon, count=count)
        for (name, _, count), epsilon in zip(parts, epsilons, strict=True)
    ]
    accountant.compute_budgets()
    return float(max(epsilon / spec.eps for epsilon, spec in zip(epsilons, specs, strict=True)))


def _budget(noise_of: Callable[[float], float]) -> float:
    """Least budget with noise of at most the given amount; noise is about its inverse, or the root of that."""
    budget = 1.0
    for _ in range(_MOST_STEPS):
        noise = noise_of(budget)
        if 1 - _RELATIVE <= noise <= 1:
            return budget
        budget *= noise * (1 + _RELATIVE / 2)
        if not _SMALLEST < budget < _LARGEST:
            break
    raise UnsupportedMechanism(f"PipelineDP finds no such noise for budgets from {_SMALLEST:g} to {_LARGEST:g}")


PLUGIN = PipelineDp
