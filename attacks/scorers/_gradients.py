"""Attacks of adversaries who see gradients or weights: what a canary's own direction shows."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from attacks.signals import _canary_reading as canary_reading
from attacks.signals import _reading as reading
from attacks.signals._white_box import GradientNorms, LastGradientNorms, StepProducts, WeightProducts
from audit.core.data import Array
from audit.core.errors import ConfigError
from audit.core.event_reading import noisy_steps
from audit.core.models import Signal
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.scoring import membership, normal

_SIGNALS: dict[str, Signal] = {"all": GradientNorms(), "last": LastGradientNorms()}


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientNorm:
    """Scores each canary with minus the log of the l2 norm of its loss gradient. Finite.

    Attributes:
        layer: "all" parameters, or the "last" linear layer alone.
        calibrated: subtract the mean over references without the canary, so that hard records do not pass for others.

    References: Nasr et al. 2019, arXiv 1812.00910 (white-box gradients as membership signal).
    """

    layer: str = "all"
    calibrated: bool = False

    def __post_init__(self) -> None:
        if self.layer not in _SIGNALS:
            raise ConfigError(f"gradient_norm.layer is '{self.layer}'; expected {' or '.join(_SIGNALS)}")

    @property
    def needs(self) -> Needs:
        return Needs(signals={_SIGNALS[self.layer]}, references=1 if self.calibrated else 0)

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        references = reference if self.calibrated else reading.NO_REFERENCE
        target_values, reference_values = reading.log_lengths(target, references, "gradient_norm", _SIGNALS[self.layer].key)
        if not self.calibrated:
            return -target_values
        included = reading.memberships(reference, 1, "gradient_norm", online=False)
        return membership.difference(-target_values, -reference_values, included, online=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientProduct:
    """Scores each gradient canary by inner products of the released noisy sums with its direction.

    Seen steps of DP-SGD: the log-likelihood ratio of the Poisson-subsampled Gaussian, added over steps: the most powerful
    statistic against a canary that sees no other (Neyman and Pearson). Without noise the plain sum of the products. Finite.

    References: Nasr et al. 2023, arXiv 2302.07956; Steinke, Nasr and Jagielski 2023, arXiv 2305.08846, section 6.
    """

    needs: ClassVar[Needs] = Needs(signals={StepProducts()})

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        products = canary_reading.products(target, "gradient_product", StepProducts.key)
        step_claim = noisy_steps(target.mechanism)
        # of a single step the ratio rises with the product, so the order is the same; without noise there is no ratio
        if step_claim is None or step_claim.noise_multiplier == 0 or products.shape[1] == 1:
            return np.asarray(products.sum(axis=1))
        # products are over the clip norm, in which the noise multiplier is counted, too
        steps = normal.log_likelihood_ratio_subsampled_gaussian(products, step_claim.noise_multiplier, step_claim.sample_rate)
        return np.asarray(steps.sum(axis=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightDifference:
    """Scores each gradient canary by the inner product of first minus last weights with its direction.

    The adversary knows the initial weights and sees the final ones; all steps between stay hidden. Finite.

    References:
        Steinke, Nasr and Jagielski 2023, arXiv 2305.08846, section 6 (black-box gradient canaries); Cebere et al. 2025,
        arXiv 2405.14457 (hidden state).
    """

    needs: ClassVar[Needs] = Needs(signals={WeightProducts()})

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        return canary_reading.products(target, "weight_difference", WeightProducts.key)
