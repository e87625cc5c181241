"""autodp's mechanisms and its composition, as the library is: a subject of the battery."""

import contextlib
import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from audit.accounting.accountants import _as_it_is
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.event_forms import fold
from audit.core.events import Composed, Event, Exponential, Gaussian, Laplace, PoissonSampled, RandomizedResponse, Repeated

_Parts = list[tuple[Any, int]]
_EITHER = (Exponential, RandomizedResponse)  # the library states these without their own adjacency


@dataclass(frozen=True, slots=True, kw_only=True)
class Autodp:
    """States what the library states.

    Attributes:
        composition: "rdp" (its `Composition`) or "afa" (`ComposeAFA`, characteristic functions).

    References: github.com/yuxiangw/autodp. Zhu, Dong, Wang 2022, arXiv 2106.08567 (afa).
    """

    as_it_is: ClassVar[bool] = True
    composition: str = "rdp"

    def __post_init__(self) -> None:
        if self.composition not in ("rdp", "afa"):
            raise ConfigError(f"composition is {self.composition!r}; expected rdp or afa")

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """The library's epsilon at `delta`; `UnsupportedMechanism` if the library has no such mechanism under this adjacency,
        or it is not installed.
        """
        inner = mechanism.mechanism if isinstance(mechanism, Repeated) else mechanism
        if not isinstance(inner, _EITHER):
            _as_it_is.add_remove_only("autodp", adjacency)
        zoo = _as_it_is.library("autodp.mechanism_zoo", "autodp")
        transformers = _as_it_is.library("autodp.transformer_zoo", "autodp")
        parts = fold(mechanism, self._makers(zoo, transformers))
        compose = transformers.Composition() if self.composition == "rdp" else transformers.ComposeAFA()
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):  # it prints its searches
            warnings.simplefilter("ignore")
            composition = compose([part for part, _ in parts], [count for _, count in parts])
            epsilon = composition.get_approxDP(delta)
        return _as_it_is.figure(epsilon, package="autodp", method=self.composition, delta=delta, adjacency=adjacency)

    def _makers(self, zoo: Any, transformers: Any) -> dict[type, Callable[..., _Parts]]:
        smooth = self.composition == "afa"

        def gaussian(noise: float) -> Any:
            return zoo.GaussianMechanism(sigma=noise, phi_off=not smooth) if smooth else zoo.ExactGaussianMechanism(sigma=noise)

        def sampled_mechanism(inner: Any, rate: float, *, is_gaussian: bool) -> Any:
            if smooth:
                raise UnsupportedMechanism("autodp's ComposeAFA is asked for unsampled mechanisms only")
            inner.neighboring = "add_remove"
            # its own Gaussian training mechanism asks for the tighter of its two theorems, which others have to earn
            return transformers.AmplificationBySampling(PoissonSampling=True)(inner, rate, improved_bound_flag=is_gaussian)

        def response(randomized_response: RandomizedResponse) -> _Parts:
            if randomized_response.buckets != 2:
                raise UnsupportedMechanism(
                    f"autodp's randomised response has two answers; here are {randomized_response.buckets}"
                )
            return [(zoo.RandresponseMechanism(p=1 - randomized_response.noise_parameter / 2, phi_off=not smooth), 1)]

        def repeat(event: Repeated, parts: _Parts) -> _Parts:
            return [(inner, count * event.count) for inner, count in parts]

        def sample(poisson_sampled: PoissonSampled, parts: _Parts) -> _Parts:
            if len(parts) != 1 or parts[0][1] != 1:
                raise UnsupportedMechanism("autodp is asked to sample single mechanisms only")
            return [
                (
                    sampled_mechanism(
                        parts[0][0], poisson_sampled.sample_rate, is_gaussian=isinstance(poisson_sampled.mechanism, Gaussian)
                    ),
                    1,
                )
            ]

        return {
            Gaussian: lambda event: [(gaussian(event.noise_multiplier), 1)],
            Laplace: lambda event: [(zoo.LaplaceMechanism(b=event.noise_multiplier, phi_off=not smooth), 1)],
            Exponential: lambda event: [(zoo.ExponentialMechanism(eps=event.epsilon), 1)],
            RandomizedResponse: response,
            PoissonSampled: sample,
            Repeated: repeat,
            Composed: lambda event, *parts: [pair for part in parts for pair in part],
        }


PLUGIN = Autodp
