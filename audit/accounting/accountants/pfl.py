"""Apple's pfl: the privacy accountants of its federated simulations as they are, a subject of the battery."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar, Literal

from audit.accounting.accountants import _as_it_is
from audit.core import checks
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.errors import UnsupportedMechanism
from audit.core.events import Composed, Event, Gaussian, Laplace, PoissonSampled, Repeated

_CLASSES = {"pld": "PLDPrivacyAccountant", "prv": "PRVPrivacyAccountant", "rdp": "RDPPrivacyAccountant"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pfl:
    """States what the library states for Gaussian and Laplace releases, Poisson-sampled or not, repeated and composed.

    Attributes:
        accountant: "pld", "prv" (the library takes its estimate) or "rdp".

    The library (0.6.0) asks for dp-accounting below 0.6, so it wants its own environment.

    References:
        Granqvist et al. 2024, arXiv 2404.06430. github.com/apple/pfl-research.
    """

    as_it_is: ClassVar[bool] = True
    accountant: Literal["pld", "prv", "rdp"] = "pld"

    def __post_init__(self) -> None:
        checks.choice(self.accountant, "accountant", tuple(_CLASSES))

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """Return the library's epsilon at `delta`.

        Raises:
            UnsupportedMechanism: replacing a record, an event that it does not know, or it is not installed.
        """
        _as_it_is.add_remove_only("pfl", adjacency)
        parts = [part for part in _parts(mechanism, 1.0, 1) if part[3]]
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


def _parts(event: Event, rate: float, count: int) -> list[tuple[str, float, float, int]]:
    """Name in the library, noise, sample rate and number of each release."""
    match event:
        case Repeated(mechanism=inner, count=times):
            return _parts(inner, rate, count * int(times))
        case Composed(parts=parts) if rate == 1.0:
            return [part for inner in parts for part in _parts(inner, rate, count)]
        case PoissonSampled(mechanism=Gaussian() | Laplace() as inner, sample_rate=own):
            return _parts(inner, rate * float(own), count)
        case Gaussian(noise_multiplier=noise):
            return [("gaussian", float(noise), rate, count)]
        case Laplace(noise_multiplier=noise):
            return [("laplace", float(noise), rate, count)]
    raise UnsupportedMechanism(f"pfl accounts for Gaussian and Laplace releases only, not for {event}")


PLUGIN = Pfl
