"""The exposure of a secret among all that could have stood in its place, extrapolated from a sample of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.signals import _secrets
from audit.core.data import Array, Canaries
from audit.core.errors import ConfigError
from audit.core.models import TextModels
from audit.stats.scoring import texts


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtrapolatedExposures:
    """Bits of exposure by a skew-normal law fitted to the losses of `candidates` secrets drawn by the same law: an estimate.

    Attributes:
        candidates: secrets that the law is fitted to.
        seed: of the draw, which is the same for all models.

    References:
        Carlini et al. 2019, arXiv 1802.08232, section 4.4.
    """

    candidates: int = 64
    seed: int = 0

    source = "token_log_probabilities"

    def __post_init__(self) -> None:
        if self.candidates < texts.FEWEST_LOSSES:
            raise ConfigError(
                f"extrapolated_exposures.candidates is {self.candidates}; three moments are fitted: expected at least "
                f"{texts.FEWEST_LOSSES}"
            )

    @property
    def key(self) -> str:
        """Name in a view."""
        return f"extrapolated_exposures_{self.candidates}_{self.seed}"

    def size(self, classes: int, steps: int) -> int:
        """Numbers that are kept of one canary under one model, at most."""
        return 1

    def read(self, models: TextModels, canaries: Canaries) -> Array | None:
        """`(N, m)` float32; None for canaries that are no texts, or whose secrets were not drawn token by token."""
        pair = _secrets.comparison(models, canaries, self.candidates, self.seed)
        if pair is None:
            return None
        own, rivals = pair
        losses = np.stack([-sums for sums, _ in rivals])
        return texts.extrapolated_exposure(-own, losses).astype(np.float32)


PLUGIN = ExtrapolatedExposures
