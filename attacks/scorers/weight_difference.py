"""Hidden state: how far the weights moved along the canary's gradient, for adversaries who see no single step."""

from __future__ import annotations

from dataclasses import dataclass

from attacks.signals import _canary_reading as canary_reading
from attacks.signals._white_box import WeightProducts
from audit.core.data import Array
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightDifference:
    """Scores each gradient canary by the inner product of first minus last weights with its direction.

    The adversary knows the initial weights and sees the final ones; all steps between stay hidden. Finite.

    References:
        Steinke, Nasr and Jagielski 2023, arXiv 2305.08846, section 6 (black-box gradient canaries); Cebere et al. 2025,
        arXiv 2405.14457 (hidden state).
    """

    @property
    def needs(self) -> Needs:
        """Final weights and gradient canaries."""
        return Needs(signals={WeightProducts()})

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """The inner product of each canary, `(m,)` float64."""
        return canary_reading.products(target, "weight_difference", WeightProducts.key)


PLUGIN = WeightDifference
