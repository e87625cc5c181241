"""What the log-probabilities of a text's tokens say. Tokens that no one predicts (label -1) count nowhere."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[Any]
FEWEST_LOSSES = 16  # that a law of three moments is fitted to
MOST_BITS = 50.0  # of an extrapolated exposure; the distribution function is not known more finely
_MOST_SKEW = 0.99  # a skew-normal law has less than 0.9953


def supervised(labels: Numbers) -> NDArray[np.bool_]:
    """Return which tokens a model is to predict, of labels `(..., T)` that are -1 elsewhere."""
    return np.asarray(labels) >= 0


def mean_losses(log_probabilities: Numbers, labels: Numbers) -> NDArray[np.float32]:
    """Return the mean loss of each text in nats.

    Args:
        log_probabilities: `(..., m, T)` of the texts' own tokens.
        labels: `(m, T)`, -1 if nothing is predicted. A text without a predicted token has loss 0.

    >>> mean_losses(np.array([[-1.0, -3.0]]), np.array([[-1, 5]])).tolist()
    [3.0]
    """
    mask = supervised(labels)
    sums = np.where(mask, log_probabilities, 0.0).sum(axis=-1, dtype=np.float64)
    return np.asarray(-sums / np.maximum(mask.sum(axis=-1), 1), dtype=np.float32)


def lowest_share_mean(values: Numbers, labels: Numbers, share: float) -> NDArray[np.float64]:
    """Return the mean of the lowest `share` of each text's token scores, `(m,)`: Min-K %.

    At least one token counts, however short the text: the published code takes `int(n * share)`, which is 0 for short texts and
    makes the score a NaN. A text without a predicted token scores 0.

    Args:
        values: `(m, T)` log-probabilities, or standardised ones (Min-K %++).
        labels: `(m, T)`, -1 if nothing is predicted.

    References: Shi et al. 2024, arXiv 2310.16789; Zhang et al. 2024, arXiv 2404.02936.

    >>> lowest_share_mean(np.array([[0.0, -4.0, -1.0]]), np.array([[-1, 7, 8]]), 0.2).tolist()
    [-4.0]
    """
    mask = supervised(labels)
    counts = mask.sum(axis=-1)
    sorted_values = np.sort(np.where(mask, values, np.inf), axis=-1)
    # 1e-9: a product that rounding lifts above a whole number would take one token more
    lowest = np.minimum(np.maximum(np.ceil(share * counts - 1e-9), 1), np.maximum(counts, 1)).astype(np.int64)
    sums = np.where(np.arange(values.shape[-1]) < lowest[:, None], sorted_values, 0.0)
    sums = np.where(np.isfinite(sums), sums, 0.0).sum(axis=-1, dtype=np.float64)
    return np.asarray(sums / lowest, dtype=np.float64)


def standardised(log_probabilities: Numbers, means: Numbers, deviations: Numbers) -> NDArray[np.float64]:
    """Return `(log p - mean) / deviation` of each token over its next-token distribution.

    A deviation of zero (a distribution that is uniform, or sits on one token) says nothing about the token: it scores 0;
    public code divides by it.
    """
    flat = deviations <= 1e-6
    return np.where(flat, 0.0, (log_probabilities - means) / np.where(flat, 1.0, deviations))


def extraction_chance(log_probabilities: Numbers, labels: Numbers, queries: int) -> NDArray[np.float64]:
    """Return the chance that one of `queries` sampled continuations is a text's whole secret: `1 - (1 - P)^n`, `(m,)`.

    Args:
        log_probabilities: `(m, T)` of the texts' own tokens.
        labels: `(m, T)`, -1 if a token is not the secret's. A text without a secret scores 0.

    References: Hayes et al. 2024, arXiv 2410.19482, (n, p)-discoverable extraction.

    >>> extraction_chance(np.log([[1.0, 0.5]]), np.array([[-1, 7]]), 2).tolist()
    [0.75]
    """
    mask = supervised(labels)
    full = np.where(mask, log_probabilities, 0.0).sum(axis=-1, dtype=np.float64)
    with np.errstate(divide="ignore"):
        misses = queries * np.log1p(-np.exp(np.minimum(full, 0.0)))
    return np.where(mask.any(axis=-1), -np.expm1(misses), 0.0)


def exposure(rank: Numbers, candidates: int) -> NDArray[np.float64]:
    """Return log2 of the number of candidate secrets minus log2 of the secret's rank among them, rank 1 being the best.

    References: Carlini et al. 2019, arXiv 1802.08232.

    >>> exposure(np.array([1, 1024]), 1024).tolist()
    [10.0, 0.0]
    """
    ranks = np.asarray(rank, dtype=np.float64)
    return np.asarray(math.log2(candidates) - np.log2(ranks), dtype=np.float64)


def extrapolated_exposure(own: Numbers, losses: Numbers) -> NDArray[np.float64]:
    """Return `-log2 F(own)`, F being the skew-normal law with the three moments of the sampled losses: an estimate.

    It says how a secret is among all that its law gives, beyond the log2 of the sample's size that a rank can say; if
    the losses follow another law it is wrong, and it is never a bound. At most `MOST_BITS`.

    Args:
        own: `(...)` losses of the secrets, summed over their tokens.
        losses: `(n, ...)` of sampled ones.

    Returns: bits, `(...)`; if all sampled losses are the same, 0 or `MOST_BITS`.

    References: Carlini et al. 2019, arXiv 1802.08232, section 4.4 (skew-normal); Azzalini 1985 (moments).

    >>> extrapolated_exposure(np.array([0.0]), np.random.default_rng(0).normal(size=(100_000, 1))).round(1).tolist()
    [1.0]
    """
    from scipy.stats import skewnorm

    mean, spread = losses.mean(axis=0), losses.std(axis=0)
    flat = spread <= 1e-12
    divisor = np.where(flat, 1.0, spread)
    skew = np.clip((((losses - mean) / divisor) ** 3).mean(axis=0), -_MOST_SKEW, _MOST_SKEW)
    part = np.abs(skew) ** (2 / 3)
    delta = np.sign(skew) * np.sqrt(math.pi / 2 * part / (part + ((4 - math.pi) / 2) ** (2 / 3)))
    width = divisor / np.sqrt(1 - 2 * delta**2 / math.pi)
    place = mean - width * delta * math.sqrt(2 / math.pi)
    below = skewnorm.cdf(own, delta / np.sqrt(1 - delta**2), loc=place, scale=width)
    bits = -np.log2(np.clip(below, 2.0**-MOST_BITS, 1.0))
    return np.where(flat, np.where(own < mean, MOST_BITS, 0.0), bits)


def mean_null_exposure(candidates: int) -> float:
    """Return the mean exposure in bits of a secret that was never trained on: its rank is uniform; about 1 / ln 2 = 1.443.

    >>> round(mean_null_exposure(1_000_000), 3)
    1.443
    """
    return math.log2(candidates) - math.lgamma(candidates + 1) / (candidates * math.log(2))
