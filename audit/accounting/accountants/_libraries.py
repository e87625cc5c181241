"""Accountants of smaller libraries as they are: subjects of the battery."""

import warnings
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from audit.accounting.accountants import _as_it_is
from audit.core import checks
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim, Side
from audit.core.errors import UnsupportedMechanism
from audit.core.event_reading import runs, single_phase
from audit.core.events import ApproximateDp, Event, Exponential, Gaussian, Laplace, PoissonSampled

PACKAGE = "dp-accelerator"


@dataclass(frozen=True, slots=True, kw_only=True)
class DpAccelerator:
    """States what the library states for one phase of DP-SGD under add/remove.

    References: pypi.org/project/dp-accelerator.
    """

    as_it_is: ClassVar[bool] = True

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """The library's epsilon at `delta`; `UnsupportedMechanism` for anything else, under replace-one, or if it is not
        installed.
        """
        _as_it_is.add_remove_only(PACKAGE, adjacency)
        noise, rate, steps = single_phase(mechanism)
        accountant = _as_it_is.library("dp_accelerator", PACKAGE).DPSGDAccountant(noise, 1, 1)
        accountant.q = rate  # which it takes as a batch over a data set, so of any rate only rounded
        epsilon = accountant.get_epsilon(steps, delta)
        return _as_it_is.figure(epsilon, package=PACKAGE, method="RDP", delta=delta, adjacency=adjacency)


_MOST_RELEASES = 100_000  # it keeps a list


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffprivlibBudget:
    """States what the library states for pure and approximate releases, all of delta that they leave being its slack.

    References: Holohan, Braghin, Mac Aonghusa, Levacher 2019, arXiv 1907.02444. github.com/IBM/differential-privacy-library.
    """

    as_it_is: ClassVar[bool] = True

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """Return the library's epsilon at `delta`; `UnsupportedMechanism` if the library does not import, or a part has no
        (epsilon, delta).
        """
        releases = [(*_cost(release, adjacency), count) for release, count in runs(mechanism)]
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


def _cost(event: Event, adjacency: Adjacency) -> tuple[float, float]:
    """Epsilon and delta of a release."""
    match event:
        case Laplace(noise_multiplier=scale) if scale > 0:
            return (2 if adjacency is Adjacency.REPLACE_ONE else 1) / scale, 0.0
        case Exponential(epsilon=epsilon):
            return epsilon, 0.0
        case ApproximateDp(epsilon=epsilon, delta=delta):
            return epsilon, delta
    raise UnsupportedMechanism(f"diffprivlib accounts for pure and approximate releases only, not for {event}")


_CLASSES = {"pld": "PLDPrivacyAccountant", "prv": "PRVPrivacyAccountant", "rdp": "RDPPrivacyAccountant"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pfl:
    """States what the library states for Gaussian and Laplace releases, Poisson-sampled or not, repeated and composed.

    Attributes:
        accountant: "pld", "prv" (the library takes its estimate) or "rdp".

    The library (0.6.0) asks for dp-accounting below 0.6, so it wants its own environment.

    References: Granqvist et al. 2024, arXiv 2404.06430. github.com/apple/pfl-research.
    """

    as_it_is: ClassVar[bool] = True
    accountant: Literal["pld", "prv", "rdp"] = "pld"

    def __post_init__(self) -> None:
        checks.choice(self.accountant, "accountant", tuple(_CLASSES))

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """Return the library's epsilon at `delta`; `UnsupportedMechanism` under replace-one, for an event that it does not
        know, or if it is not installed.
        """
        _as_it_is.add_remove_only("pfl", adjacency)
        releases = [(*_terms(release), count) for release, count in runs(mechanism)]
        parts = [part for part in releases if part[3]]
        if not parts:
            raise UnsupportedMechanism("pfl has no accountant of nothing")
        joint = _as_it_is.library("pfl.privacy.joint_privacy_accountant", "pfl")
        names, noises, rates, counts = zip(*parts, strict=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            total = joint.JointPrivacyAccountant(
                mechanisms=list(names),
                accountants=getattr(joint, _CLASSES[self.accountant]),
                num_compositions=list(counts),
                sampling_probability=list(rates),
                total_delta=delta,
                noise_parameters=list(noises),
            )
        method = self.accountant.upper()
        return _as_it_is.figure(total.total_epsilon, package="pfl", method=method, delta=delta, adjacency=adjacency)


def _terms(event: Event, rate: float = 1.0) -> tuple[str, float, float]:
    """Name in the library, noise and sample rate of a release."""
    match event:
        case PoissonSampled(mechanism=Gaussian() | Laplace() as inner, sample_rate=own):
            return _terms(inner, float(own))
        case Gaussian(noise_multiplier=noise):
            return "gaussian", float(noise), rate
        case Laplace(noise_multiplier=noise):
            return "laplace", float(noise), rate
    raise UnsupportedMechanism(f"pfl accounts for Gaussian and Laplace releases only, not for {event}")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpacusPrv:
    """States what the library states for its history of (noise multiplier, sample rate, steps).

    References: github.com/meta-pytorch/opacus. Yousefpour et al. 2021, arXiv 2109.12298.
    """

    as_it_is: ClassVar[bool] = True
    side: ClassVar[Side] = "upper"
    method: ClassVar[str] = "PRV"

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """The library's epsilon at `delta` (its accountant knows DP-SGD under add/remove only); `UnsupportedMechanism` for
        anything else, or if Opacus is not installed.
        """
        return _as_it_is.opacus(self.method, mechanism, delta=delta, adjacency=adjacency)


class OpacusRdp(OpacusPrv):
    """States what the library states by Renyi divergences for its history of (noise multiplier, sample rate, steps)."""

    method = "RDP"


class OpacusGdp(OpacusPrv):
    """States what the library states by a central limit for its history of (noise multiplier, sample rate, steps)."""

    side = "estimate"
    method = "GDP"

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        note = "a central limit: an approximation, not a bound"
        claim = _as_it_is.opacus(self.method, mechanism, delta=delta, adjacency=adjacency, note=note)
        return replace(claim, family="gdp")
