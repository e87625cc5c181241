"""Signed cosines: canary clients whose updates are exactly orthogonal, each made again from seed and number alone."""

from __future__ import annotations

from dataclasses import dataclass

from attacks.canaries import _cosines
from audit.core.data import Canaries, Dataset
from audit.core.seeds import Seed


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
        return Canaries(
            kind="signed_cosine",
            description="canary clients whose whole update is a signed cosine, orthogonal to all others",
            directions=_cosines.directions(count, parameters, seed.child("signs").integer(), "signed_cosine"),
            orthogonal=True,
        )


PLUGIN = SignedCosine
