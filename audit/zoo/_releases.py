"""What entries of `audit.zoo.releases` share: a function that `audit mechanism` takes, its claim and its neighbours."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.data import Array
from audit.mechanism_checks.report import MechanismReport
from audit.mechanism_checks.run import Questions, check_mechanism
from audit.mechanism_checks.sampling import Pair
from audit.stats.curves import tradeoff


# Gaussian noise added to a sum, its exact epsilon, and the formulas that choose its size.
@dataclass(frozen=True, slots=True)
class GaussianSum:
    """The sum of the data plus Gaussian noise of a standard deviation."""

    deviation: float

    def __call__(self, data: Any, rng: np.random.Generator, size: int) -> Array:
        return float(np.sum(data)) + rng.normal(0.0, self.deviation, size)

    def epsilon(self, delta: float, sensitivity: float = 1.0) -> float:
        """The exact epsilon at `delta`. References: Balle and Wang 2018, arXiv 1805.06530."""
        return tradeoff.gdp_epsilon(sensitivity / self.deviation, delta)

    def delta(self, epsilon: float, sensitivity: float = 1.0) -> float:
        return tradeoff.gdp_delta(sensitivity / self.deviation, epsilon)


def analytic_deviation(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """The least standard deviation that makes a Gaussian sum (epsilon, delta)-DP (the analytic Gaussian mechanism).

    >>> round(GaussianSum(analytic_deviation(1.0, 1e-5)).epsilon(1e-5), 6)
    1.0
    """
    return sensitivity / tradeoff.gdp_mu(epsilon, delta)


def classic_deviation(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """The standard deviation of the classic formula: proved for epsilon up to 1, false beyond a few (5.75 at delta 0.1)."""
    return sensitivity * math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def inverted_deviation(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """A wrong formula of documents: the root is under the line."""
    return sensitivity / (epsilon * math.sqrt(2 * math.log(2 / delta)))


OUTPUTS = 40_000  # drawn of a release on either side, unless its defect takes more to be seen


class ZooRelease(ABC):
    """A function of the data that claims an epsilon; a subclass says which, and what is wrong.

    Attributes:
        epsilon, delta: claimed.
        family: that the claim asserts, or None.
        adjacency: of the claim.
        data, neighbour: on which the defect shows most.
        outputs: that are drawn of either side.
    """

    wrong: ClassVar[str] = ""
    visibility: ClassVar[str] = ""
    epsilon: ClassVar[float] = 1.0
    delta: ClassVar[float] = 0.0
    family: ClassVar[str | None] = None
    adjacency: ClassVar[Adjacency] = Adjacency.ADD_REMOVE
    data: ClassVar[tuple[float, ...]] = (1.0,)
    neighbour: ClassVar[tuple[float, ...]] = ()
    outputs: ClassVar[int] = OUTPUTS

    @abstractmethod
    def __call__(self, data: Any, rng: np.random.Generator, size: int) -> Array:
        """Return so many releases, first axis first."""

    @abstractmethod
    def exact(self) -> tuple[float, float]:
        """Return a bracket on the true epsilon at the claimed delta, for the worst neighbours."""


class GaussianRelease(ZooRelease):
    """A sum with Gaussian noise and a claim about one record; a subclass gives the formula of the noise.

    Attributes:
        distance: by which the worst neighbours move the sum.
    """

    delta = 1e-5
    family = "gdp"
    distance: ClassVar[float] = 1.0

    @abstractmethod
    def deviation(self) -> float:
        """Return the standard deviation of the noise."""

    def __call__(self, data: Any, rng: np.random.Generator, size: int) -> Array:
        """Return noisy sums."""
        return GaussianSum(self.deviation())(data, rng, size)

    def exact(self) -> tuple[float, float]:
        """Return the epsilon of Gaussian noise of that deviation, twice."""
        epsilon = GaussianSum(self.deviation()).epsilon(self.delta, self.distance)
        return epsilon, epsilon


def audit_release(release: ZooRelease, seed: int = 0) -> MechanismReport:
    """Return what `audit mechanism` says of an entry."""
    claim = Claim(
        epsilon=release.epsilon, delta=release.delta, adjacency=release.adjacency, source="declared", family=release.family
    )
    pair = Pair(data=np.array(release.data), neighbour=np.array(release.neighbour), name="worst")
    questions = Questions(claim=claim, confidence=0.95, floating_point=False)
    return check_mechanism(release, [pair], questions, samples=release.outputs, seed=seed)


def failures(release: ZooRelease, report: MechanismReport) -> tuple[str, ...]:
    """Return the bounds that refute the claim, by name."""
    names = {
        "epsilon": report.epsilon.epsilon > release.epsilon,
        "delta": report.delta.delta > release.delta,
        "fit": report.fit is not None and report.fit.epsilon > release.epsilon,
    }
    return tuple(f"mechanism.{name}" for name, is_refuted in names.items() if is_refuted)


def selection_epsilon(runs: int, scale: float) -> float:
    """Return the exact epsilon of the largest of so many Laplace-noised scores that a record moves by 1.

    The ratio of densities is largest in the left tail, where each run contributes `exp(1 / scale)`.
    """
    return runs / scale


INFINITE = (math.inf, math.inf)
