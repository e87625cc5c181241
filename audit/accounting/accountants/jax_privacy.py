"""The training accountant of jax-privacy as the library is: a subject of the battery."""

from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any, ClassVar

from audit.accounting.accountants import _as_it_is
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.event_reading import phases
from audit.core.events import Event, Gaussian, Repeated, SampledWithoutReplacement

_LARGEST_POPULATION = 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class JaxPrivacy:
    """States what the library's `DpsgdTrainingAccountant` states.

    It takes a batch and a population in place of a rate: the fraction nearest to the rate is handed over; its quotient is the
    rate itself for every rate that a person would write. Phases may differ in their noise.

    Attributes:
        accountant: "pld" or "rdp", its two configurations.

    References: github.com/google-deepmind/jax_privacy.
    """

    as_it_is: ClassVar[bool] = True
    accountant: str = "pld"

    def __post_init__(self) -> None:
        if self.accountant not in ("pld", "rdp"):
            raise ConfigError(f"accountant is {self.accountant!r}; expected pld or rdp")

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """The library's epsilon at `delta`: Poisson batches under add/remove, batches of fixed size under replace-one;
        `UnsupportedMechanism` for anything else, phases of different rates, or if it is not installed.
        """
        parts, population, batch, sampling = _settings(mechanism, adjacency)
        library = _as_it_is.library("jax_privacy.accounting", "jax-privacy")
        config = library.PldAccountantConfig() if self.accountant == "pld" else library.RdpAccountantConfig()
        starts = [0, *accumulate(steps for _, steps in parts)]
        schedule = [(start, noise) for start, (noise, _) in zip(starts, parts, strict=False)]
        epsilon = library.DpsgdTrainingAccountant(config).compute_epsilon(
            starts[-1],
            library.DpParams(
                noise_multipliers=schedule[0][1] if len(schedule) == 1 else schedule,
                num_samples=population,
                delta=delta,
                batch_size=batch,
                sampling_method=getattr(library.SamplingMethod, sampling),
            ),
        )
        method = self.accountant.upper()
        return _as_it_is.figure(
            epsilon, package="jax-privacy", module="jax_privacy", method=method, delta=delta, adjacency=adjacency
        )


def _settings(mechanism: Event, adjacency: Adjacency) -> tuple[list[tuple[float, int]], int, int, Any]:
    """Noise and steps of each phase, population, batch, and the name of the sampling method."""
    if adjacency is Adjacency.REPLACE_ONE:
        count, inner = (mechanism.count, mechanism.mechanism) if isinstance(mechanism, Repeated) else (1, mechanism)
        if isinstance(inner, SampledWithoutReplacement) and isinstance(inner.mechanism, Gaussian):
            return [(inner.mechanism.noise_multiplier, count)], inner.population, inner.batch, "FIXED_BATCH_SIZE"
        raise UnsupportedMechanism("jax-privacy has a figure for replace_one with batches of fixed size only")
    phase_list = phases(mechanism)
    rates = {float(rate) for _, rate, _ in phase_list}
    if len(rates) != 1:
        raise UnsupportedMechanism(f"jax-privacy's training accountant takes one rate in all phases; here are {len(rates)}")
    rate = Fraction(rates.pop()).limit_denominator(_LARGEST_POPULATION)
    return [(noise, steps) for noise, _, steps in phase_list], rate.denominator, rate.numerator, "POISSON"


PLUGIN = JaxPrivacy
