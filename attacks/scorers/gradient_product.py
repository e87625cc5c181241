"""White-box: how much of the canary's gradient is in what was released."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.signals import _canary_reading as canary_reading
from attacks.signals._white_box import StepProducts
from audit.core.data import Array
from audit.core.event_reading import noisy_steps
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.scoring import normal


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientProduct:
    """Scores each gradient canary by inner products of the released noisy sums with its direction.

    Seen steps of DP-SGD: the log-likelihood ratio of the Poisson-subsampled Gaussian, added over
    steps, which is the most powerful statistic against a canary that sees no other canary (Neyman and
    Pearson). Without noise: the plain sum of the products. Scores are finite. For an adversary who sees the
    last weights alone there is weight_difference.

    References:
        Nasr et al. 2023, arXiv 2302.07956; Steinke, Nasr and Jagielski 2023, arXiv 2305.08846, section 6.
    """

    @property
    def needs(self) -> Needs:
        """All steps, and gradient canaries."""
        return Needs(signals={StepProducts()})

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Log-likelihood ratio or sum of products of each canary, `(m,)` float64."""
        products = canary_reading.products(target, "gradient_product", StepProducts.key)
        step_claim = noisy_steps(target.mechanism)
        if step_claim is None or step_claim.noise_multiplier == 0 or products.shape[1] == 1:
            return np.asarray(products.sum(axis=1))
        steps = normal.log_likelihood_ratio_subsampled_gaussian(products, step_claim.noise_multiplier, step_claim.sample_rate)
        return np.asarray(steps.sum(axis=1))


PLUGIN = GradientProduct
