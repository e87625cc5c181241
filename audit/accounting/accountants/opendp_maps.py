"""OpenDP's own privacy maps as the library is: a subject of the battery."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from audit.accounting.accountants import _as_it_is
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.errors import UnsupportedMechanism
from audit.core.event_forms import fold
from audit.core.events import Composed, Event, Gaussian, Laplace, Repeated

_MOST_PARTS = 1000  # measurements that are composed one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenDp:
    """States what the library's maps give: zCDP turned into (epsilon, delta) for Gaussian releases, sums for Laplace ones.

    A record's change is the distance that is handed to the map: 1, or 2 under replace-one.

    References: github.com/opendp/opendp.
    """

    as_it_is: ClassVar[bool] = True

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """The library's epsilon at `delta`; `UnsupportedMechanism` for anything but up to 1000 releases of one kind, or if
        OpenDP is not installed.
        """
        parts = _parts(mechanism)
        kinds = {type(part) for part in parts}
        if len(kinds) != 1 or len(parts) > _MOST_PARTS:
            raise UnsupportedMechanism(f"OpenDP composes 1 to {_MOST_PARTS} releases of one kind here; these are {len(parts)}")
        library = _as_it_is.library("opendp.prelude", "opendp")
        library.enable_features("contrib")
        distance = 2.0 if adjacency is Adjacency.REPLACE_ONE else 1.0
        is_gaussian = kinds == {Gaussian}
        space = library.atom_domain(T=float, nan=False), library.absolute_distance(T=float)
        make = library.m.make_gaussian if is_gaussian else library.m.make_laplace
        measurements = [make(*space, scale=float(part.noise_multiplier)) for part in parts]
        joint = measurements[0] if len(measurements) == 1 else library.c.make_composition(measurements)
        epsilon = library.c.make_zCDP_to_approxDP(joint).map(distance).epsilon(delta) if is_gaussian else joint.map(distance)
        method = "zCDP to approximate DP" if is_gaussian else "pure DP"
        return _as_it_is.figure(epsilon, package="opendp", method=method, delta=delta, adjacency=adjacency)


def _parts(event: Event) -> list[Any]:
    """Each release of an event made of unsampled Gaussian or Laplace ones, as often as it is repeated."""

    def repeated(node: Repeated, inner: list[Any]) -> list[Any]:
        if node.count * len(inner) > _MOST_PARTS:
            raise UnsupportedMechanism(f"{node.count * len(inner)} releases; at most {_MOST_PARTS} are composed by OpenDP here")
        return inner * int(node.count)

    makers: dict[type, Callable[..., Any]] = {
        Gaussian: lambda leaf: [leaf],
        Laplace: lambda leaf: [leaf],
        Repeated: repeated,
        Composed: lambda _, *inner: [leaf for part in inner for leaf in part],
    }
    parts: list[Any] = fold(event, makers)
    return parts


PLUGIN = OpenDp
