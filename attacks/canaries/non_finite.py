"""Canary clients that put a NaN into their update: one that is let through takes the clip from all other coordinates."""

from __future__ import annotations

from dataclasses import dataclass

from attacks.canaries import _cosines
from audit.core.data import Canaries, ClientBehaviour, Dataset
from audit.core.seeds import Seed


@dataclass(frozen=True, slots=True, kw_only=True)
class NonFinite:
    """Clients of a federation that send a signed cosine far beyond the clip norm, and NaN in its first coordinate.

    An update that is not finite is to count as zero, so a correct training shows nothing of their coins. One that divides the
    clip norm by a norm of NaN, and replaces NaN afterwards, releases the rest unclipped.
    """

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` directions `(count, parameters)` of unit l2 norm.

        Raises:
            ConfigError: not fewer canaries than parameters, or directions that would not fit 4 GiB.
        """
        return Canaries(
            kind="non_finite",
            description="canary clients that send a signed cosine far beyond the clip norm, and NaN in one coordinate",
            directions=_cosines.directions(count, parameters, seed.child("signs").integer(), "non_finite"),
            orthogonal=True,
            behaviour=ClientBehaviour(finite=False),
        )


PLUGIN = NonFinite
