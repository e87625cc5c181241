"""dp-accounting's privacy-loss distributions as the library is, unchecked: a subject of the battery.

For claims use 'pld', which checks and converts what this passes on as it is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

import dp_accounting
from dp_accounting import pld
from dp_accounting.pld import privacy_loss_distribution
from dp_accounting.privacy_accountant import UnsupportedEventError

from audit.accounting.accountants import _as_it_is
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim, Side
from audit.core.errors import UnsupportedMechanism
from audit.core.event_forms import dp_events, fold
from audit.core.events import Composed, Event, Gaussian, Laplace, PoissonSampled, RandomizedResponse, Repeated


@dataclass(frozen=True, slots=True, kw_only=True)
class DpAccountingPld:
    """States what the library states.

    Attributes:
        interval: width of the loss grid; the library's own default.
        pessimistic: its accountant, which rounds towards a larger epsilon. Otherwise its distributions rounded the other
            way, which are meant as lower bounds on epsilon and are judged as such.

    References: github.com/google/differential-privacy, python/dp_accounting.
    """

    as_it_is: ClassVar[bool] = True
    interval: float = 1e-4
    pessimistic: bool = True

    @property
    def side(self) -> Side:
        return "upper" if self.pessimistic else "lower"

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """The library's epsilon at `delta`; `UnsupportedMechanism` if the library does not support the event."""
        epsilon = self._pessimistic(mechanism, delta, adjacency) if self.pessimistic else 0.0
        method = "PLD, as it is"
        if not self.pessimistic:
            epsilon = fold(mechanism, self._makers(adjacency)).get_epsilon_for_delta(delta)
            method = "PLD, optimistic, as it is"
        return _as_it_is.figure(epsilon, package="dp-accounting", method=method, delta=delta, adjacency=adjacency)

    def _pessimistic(self, mechanism: Event, delta: float, adjacency: Adjacency) -> float:
        accountant = pld.PLDAccountant(_as_it_is.RELATIONS[adjacency], self.interval)
        try:
            accountant.compose(dp_events(mechanism, dp_accounting))
        except UnsupportedEventError as error:
            raise UnsupportedMechanism(f"dp-accounting's PLD accountant: {error}") from error
        return float(accountant.get_epsilon(delta))

    def _makers(self, adjacency: Adjacency) -> dict[type, Callable[..., Any]]:
        grid: dict[str, Any] = {"pessimistic_estimate": False, "value_discretization_interval": self.interval}

        def gaussian(noise: float, rate: float) -> Any:
            relation = _as_it_is.RELATIONS[adjacency]
            return privacy_loss_distribution.from_gaussian_mechanism(
                noise, sampling_prob=rate, neighboring_relation=relation, use_connect_dots=False, **grid
            )

        def laplace(scale: float, rate: float) -> Any:
            if adjacency is Adjacency.REPLACE_ONE:
                raise UnsupportedMechanism("dp-accounting's PLD has no Laplace mechanism under replace_one")
            return privacy_loss_distribution.from_laplace_mechanism(scale, sampling_prob=rate, use_connect_dots=False, **grid)

        def response(randomized_response: RandomizedResponse) -> Any:
            if adjacency is not Adjacency.REPLACE_ONE:
                raise UnsupportedMechanism("dp-accounting's PLD has randomised response under replace_one only")
            return privacy_loss_distribution.from_randomized_response(
                randomized_response.noise_parameter, randomized_response.buckets, **grid
            )

        def sample(poisson_sampled: PoissonSampled, _: Any) -> Any:
            match poisson_sampled.mechanism:
                case Gaussian(noise_multiplier=noise):
                    return gaussian(noise, poisson_sampled.sample_rate)
                case Laplace(noise_multiplier=scale):
                    return laplace(scale, poisson_sampled.sample_rate)
            raise UnsupportedMechanism(f"dp-accounting's PLD does not sample {poisson_sampled.mechanism}")

        return {
            Gaussian: lambda event: gaussian(event.noise_multiplier, 1.0),
            Laplace: lambda event: laplace(event.noise_multiplier, 1.0),
            RandomizedResponse: response,
            PoissonSampled: sample,
            Repeated: lambda event, inner: inner.self_compose(event.count),
            Composed: lambda event, *parts: reduce(lambda first, right: first.compose(right), parts),
        }


PLUGIN = DpAccountingPld
