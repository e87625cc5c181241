"""Opake's PLD accounting as it is: a subject of the battery."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from types import ModuleType
from typing import Any, ClassVar

from audit.accounting.accountants import _as_it_is
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.deployed_procedures import RandomAllocation, TruncatedPoisson
from audit.core.errors import UnsupportedMechanism
from audit.core.event_forms import fold
from audit.core.events import ApproximateDp, Composed, Event, Gaussian, NonPrivate, PoissonSampled, Repeated

_PACKAGE = "opake-accounting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opake:
    """States what the library's processes give under add/remove: Gaussian releases, Poisson batches (cut or not), one place of
    many, and (epsilon, delta) guarantees, repeated and composed.

    Release 0.16.1 of its DP-SGD part cannot be imported by Python 3.11; 3.13 can.

    References: pypi.org/project/opake.
    """

    as_it_is: ClassVar[bool] = True

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """The library's epsilon at `delta`; `UnsupportedMechanism` under replace-one, for an event without a process, or if it
        cannot be imported.
        """
        _as_it_is.add_remove_only("Opake", adjacency)
        process = fold(mechanism, _makers(*_modules()))
        return _as_it_is.figure(process.epsilon_at(delta), package=_PACKAGE, method="PLD", delta=delta, adjacency=adjacency)


def _modules() -> tuple[ModuleType, ModuleType]:
    """Its accounting in general and that of DP-SGD, the latter from where it is: the public name needs the training part."""
    try:
        general = _as_it_is.library("opake.accounting", "opake")
        return general, _as_it_is.library("opake.api.accounting.dpsgd", "opake")
    except TypeError as error:
        raise UnsupportedMechanism(f"opake is installed and cannot be imported by this Python: {error}; use 3.13") from error


def _makers(general: Any, dp_sgd: Any) -> dict[type, Callable[..., Any]]:
    """Makers of the library's process of each kind of event; a count of 0 and nothing composed are its identity."""

    def sampled(node: PoissonSampled, inner: Any) -> Any:
        if not isinstance(node.mechanism, Gaussian | NonPrivate):
            raise UnsupportedMechanism(f"Opake samples single Gaussian releases, not {node.mechanism}")
        return dp_sgd.poisson(inner, node.sample_rate)

    def truncation(event: TruncatedPoisson) -> Any:
        limits = {"truncated_batch_size": event.batch_limit, "dataset_size": event.population}
        return dp_sgd.poisson(dp_sgd.gaussian(event.noise_multiplier), event.sample_rate, **limits) * event.steps

    return {
        NonPrivate: lambda leaf: general.nonprivate(),
        Gaussian: lambda leaf: dp_sgd.gaussian(leaf.noise_multiplier),
        ApproximateDp: lambda leaf: general.eps_delta(leaf.epsilon, leaf.delta),
        TruncatedPoisson: truncation,
        RandomAllocation: lambda leaf: dp_sgd.k_out_of_t(
            dp_sgd.gaussian(leaf.noise_multiplier), k=1, t=leaf.steps, allocation="block"
        ),
        PoissonSampled: sampled,
        Repeated: lambda node, inner: inner * node.count if node.count else general.identity(),
        Composed: lambda node, *inner: reduce(lambda first, right: first | right, inner, general.identity()),
    }


PLUGIN = Opake
