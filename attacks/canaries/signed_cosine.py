"""Signed cosines: canary clients whose updates are exactly orthogonal, each made again from seed and number alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit.core.data import Array, Canaries, Dataset
from audit.core.errors import ConfigError
from audit.core.seeds import Seed

_LARGEST = 4 << 30  # bytes of directions held in memory


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedCosine:
    """Clients that send one row of a cosine transform each, with the signs of all coordinates flipped at random.

    Canary `i` is `s[j] * sqrt(2 / d) * cos(pi * (2 j + 1) * (i + 1) / (2 d))`. Rows of the transform (DCT-II) are orthonormal
    for every `d`, and flipping the sign of a coordinate in all of them keeps that; every coordinate takes part in every canary,
    so none of them is clipped or noised apart from the others.
    """

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` directions `(count, parameters)` of unit l2 norm.

        Raises:
            ConfigError: not fewer canaries than parameters, or directions that would not fit 4 GiB.
        """
        if not 1 <= count < parameters:
            raise ConfigError(
                f"{count} canaries of kind 'signed_cosine' for a model with {parameters} parameters; expected 1 to "
                f"{parameters - 1}, or a larger model"
            )
        if 8 * count * parameters > _LARGEST:
            raise ConfigError(
                f"{count} canaries of kind 'signed_cosine' for {parameters} parameters take more than {_LARGEST >> 30} GiB; "
                "use fewer canaries and more runs, or dirac_gradient, which stores one index a canary"
            )
        key = seed.child("signs").integer()
        return Canaries(
            kind="signed_cosine",
            description="canary clients whose whole update is a signed cosine, orthogonal to all others",
            directions=np.stack([direction(number, parameters, key) for number in range(count)]),
            orthogonal=True,
        )


def direction(number: int, parameters: int, key: int) -> Array:
    """Return canary `number` `(parameters,)` float64 of the family that `key` names.

    >>> float(np.round(direction(0, 5, 7) @ direction(3, 5, 7), 12))
    0.0
    """
    bits = np.random.Generator(np.random.Philox(key=[key, 0])).integers(0, 2, parameters)
    quarter_turns = (2 * np.arange(parameters) + 1) * (number + 1) % (4 * parameters)  # whole numbers: no angle loses digits
    cosines: Array = np.cos(np.pi * quarter_turns / (2 * parameters))
    direction: Array = (2 * bits - 1) * np.sqrt(2 / parameters) * cosines
    return direction


PLUGIN = SignedCosine
