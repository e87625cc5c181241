"""The score of canary clients and examples from their inner products with what one party sees in each round."""

from __future__ import annotations

import numpy as np

from attacks.signals import _canary_reading as canary_reading
from audit.core.data import Array
from audit.core.event_reading import noisy_steps, unit
from audit.core.views import View
from audit.stats.scoring import normal


def score(target: View, attack: str, key: str) -> Array:
    """Return the log-likelihood ratio of the sampled Gaussian mechanism added over rounds `(m,)`; the plain sum without noise.

    If every client takes part in every round the ratio is a rising line in the plain sum, which is taken then, and where
    canaries are examples, of which no law is known.

    References:
        Neyman, Pearson 1933 (most powerful tests). Andrew et al. 2023, arXiv 2302.03098 (canary clients). Li et al. 2022,
        arXiv 2202.10209 (cosines of examples).
    """
    products = canary_reading.products(target, attack, key)
    claimed = noisy_steps(target.mechanism)
    examples = target.mechanism is not None and unit(target.mechanism) == "example"
    if examples or claimed is None or claimed.noise_multiplier == 0 or claimed.sample_rate == 1:
        return np.asarray(products.sum(axis=1))
    ratios = normal.log_likelihood_ratio_subsampled_gaussian(products, claimed.noise_multiplier, claimed.sample_rate)
    return np.asarray(ratios.sum(axis=1))
