"""autodp's mechanisms and its composition, as the library is: a subject of the battery."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.events import fold
from audit.core.mechanism import (
    Adjacency,
    Composed,
    DpSgd,
    Event,
    Exponential,
    Gaussian,
    Laplace,
    PoissonSampled,
    Repeated,
)
from audit.core.results import Claim

_Parts = list[tuple[Any, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Autodp:
    """States what the library states.

    Attributes:
        composition: "rdp" (its `Composition`) or "afa" (`ComposeAFA`, characteristic functions).

    References:
        github.com/yuxiangw/autodp. Zhu, Dong, Wang 2022, arXiv 2106.08567 (afa).
    """

    composition: str = "rdp"

    def __post_init__(self) -> None:
        if self.composition not in ("rdp", "afa"):
            raise ConfigError(f"composition is {self.composition!r}; expected rdp or afa")

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """The library's epsilon at `delta`.

        Raises:
            UnsupportedMechanism: the library has no such mechanism under add/remove, or it is not installed.
        """
        if adjacency is Adjacency.REPLACE_ONE:
            raise UnsupportedMechanism("autodp is asked for add/remove here; its replace-one conventions differ by mechanism")
        try:
            zoo = importlib.import_module("autodp.mechanism_zoo")
            transformers = importlib.import_module("autodp.transformer_zoo")
        except ImportError as error:
            raise UnsupportedMechanism("autodp is not installed; install the package 'autodp'") from error
        parts = fold(mechanism, self._makers(zoo, transformers))
        compose = transformers.Composition() if self.composition == "rdp" else transformers.ComposeAFA()
        composed = compose([one for one, _ in parts], [count for _, count in parts])
        source = f"autodp {importlib.metadata.version('autodp')}, {self.composition}"
        epsilon = float(composed.get_approxDP(delta))
        return Claim(epsilon=epsilon, delta=delta, adjacency=adjacency, source=source, note="the library's figure, unchecked")

    def _makers(self, zoo: Any, transformers: Any) -> dict[type, Callable[..., _Parts]]:
        smooth = self.composition == "afa"

        def gaussian(noise: float) -> Any:
            return zoo.GaussianMechanism(sigma=noise, phi_off=not smooth) if smooth else zoo.ExactGaussianMechanism(sigma=noise)

        def sampled(inner: Any, rate: float) -> Any:
            if smooth:
                raise UnsupportedMechanism("autodp's ComposeAFA is asked for unsampled mechanisms only")
            inner.neighboring = "add_remove"
            return transformers.AmplificationBySampling(PoissonSampling=True)(inner, rate)

        def repeat(one: Repeated, parts: _Parts) -> _Parts:
            return [(inner, count * one.count) for inner, count in parts]

        def sample(one: PoissonSampled, parts: _Parts) -> _Parts:
            if len(parts) != 1 or parts[0][1] != 1:
                raise UnsupportedMechanism("autodp is asked to sample single mechanisms only")
            return [(sampled(parts[0][0], one.sample_rate), 1)]

        return {
            DpSgd: lambda one: [(sampled(gaussian(one.noise_multiplier), one.sample_rate), one.steps)],
            Gaussian: lambda one: [(gaussian(one.noise_multiplier), 1)],
            Laplace: lambda one: [(zoo.LaplaceMechanism(b=one.noise_multiplier, phi_off=not smooth), 1)],
            Exponential: lambda one: [(zoo.ExponentialMechanism(eps=one.epsilon), 1)],
            PoissonSampled: sample,
            Repeated: repeat,
            Composed: lambda one, *parts: [pair for part in parts for pair in part],
        }


PLUGIN = Autodp
