"""Hidden state: how far the weights moved along the canary's gradient, for adversaries who see no single step."""

from __future__ import annotations

from dataclasses import dataclass

from attacks.signals import reading
from audit.core.data import Array, ReferenceView, TargetView
from audit.core.errors import ObservationError
from audit.core.game import Access
from audit.core.protocols import Needs
from audit.core.seeds import Seed


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
        return Needs(access=Access.FINAL_WEIGHTS, gradients=True)

    def score(self, target: TargetView, reference: ReferenceView, seed: Seed) -> Array:
        """The inner product of each canary, `(m,)` float64."""
        if target.weight_products is None:
            raise ObservationError(
                "attack 'weight_difference' reads inner products of the weight difference with gradient canaries and none were "
                "recorded; use canaries dirac_gradient or random_gradient with access final_weights or all_steps"
            )
        return reading.products(target.weight_products, "weight_difference", per_step=False)


PLUGIN = WeightDifference
