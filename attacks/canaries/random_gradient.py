"""Random gradients: each canary pulls in a random direction of parameter space."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit.core.data import Array, Canaries, Dataset
from audit.core.errors import ConfigError
from audit.core.seeds import Seed

_LARGEST = 4 << 30  # bytes of directions held in memory


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomGradient:
    """Unit gradients in random directions, uniform on the sphere.

    Two independent directions in `d` dimensions have an inner product of about `1 / sqrt(d)`.

    Attributes:
        orthogonalise: make them orthogonal by a QR decomposition (in float64), so that the canaries of a
            run do not touch each other; needs at most as many canaries as parameters.

    References:
        Andrew et al. 2023, arXiv 2302.03098; Steinke, Nasr and Jagielski 2023, arXiv 2305.08846.
    """

    orthogonalise: bool = False

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` directions `(count, parameters)` of unit l2 norm.

        Raises:
            ConfigError: more canaries than parameters although orthogonal ones were asked for, or the
                directions would not fit 4 GiB.
        """
        _check_size(count, parameters, self.orthogonalise)
        rows = seed.child("directions").numpy().standard_normal((count, parameters))
        directions = _orthogonal(rows) if self.orthogonalise else rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return Canaries(
            kind="random_gradient",
            description=f"crafted unit gradients in random {'orthogonal ' if self.orthogonalise else ''}directions",
            directions=directions,
            orthogonal=self.orthogonalise,
        )


def _check_size(count: int, parameters: int, orthogonalise: bool) -> None:
    if count < 1 or parameters < 1:
        raise ConfigError(f"{count} canaries of kind 'random_gradient' for {parameters} parameters; expected at least 1 each")
    if orthogonalise and count > parameters:
        raise ConfigError(
            f"{count} orthogonal canaries of kind 'random_gradient' for a model with {parameters} parameters; "
            f"expected at most {parameters}, or orthogonalise: false"
        )
    size = 8 * count * parameters
    if size > _LARGEST:
        raise ConfigError(
            f"{count} canaries of kind 'random_gradient' for {parameters} parameters take {size / 2**30:.1f} GiB, more than "
            f"{_LARGEST >> 30} GiB; use dirac_gradient, which stores one index a canary"
        )


def _orthogonal(rows: Array) -> Array:
    orthonormal, triangle = np.linalg.qr(rows.T)
    return np.ascontiguousarray((orthonormal * np.sign(np.diag(triangle))).T)


PLUGIN = RandomGradient
