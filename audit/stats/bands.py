"""Bands on a distribution function that hold at every point at once."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from audit.stats.arrays import Array, fraction


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SurvivalBand:
    """Limits on `P[X >= t]` when `k` of `n` scores are at least t: `lower[k]`, `upper[k]`, `(n + 1,)` each."""

    lower: Array
    upper: Array
    method: str


def dkw_band(count: int, confidence: float) -> SurvivalBand:
    """Limits of constant width.

    Guarantee: contain the survival function of independent, identically distributed scores everywhere at once with
        probability at least `confidence` (Dvoretzky-Kiefer-Wolfowitz inequality with Massart's constant).
    References:
        Massart 1990, "The tight constant in the Dvoretzky-Kiefer-Wolfowitz inequality".
    """
    width = math.sqrt(math.log(2 / (1 - fraction(confidence, "confidence"))) / (2 * count))
    rate = np.arange(count + 1) / count
    return SurvivalBand(lower=np.maximum(rate - width, 0), upper=np.minimum(rate + width, 1), method="DKW")


@functools.lru_cache(maxsize=64)
def survival_band(count: int, confidence: float) -> SurvivalBand:
    """The band that plots and TPR-at-FPR figures use for `count` scores."""
    return dkw_band(count, confidence)
