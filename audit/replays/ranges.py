"""Where the laws of draws end for all that a generator gives, and how likely the other outcome of a comparison is."""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from audit.stats import unit_laws
from audit.stats.arrays import AnyArray as Array

GRAIN = 2.0**-53  # of what generators draw from 0 to 1: nothing is drawn inside a narrower range
_LEAST_TAIL = math.exp(-45.0)  # no generator of 53 bits draws an exponential farther out than 44.4 scales
_END_OF_NORMALS = 30.0


def ends(law: str, tail: float = 0.0) -> tuple[float, float] | None:
    """Return the ends of a law, beyond each of which it has at most the probability `tail`; None for other laws than these.

    >>> ends("laplace"), ends("uniform", 0.1), ends("sign")
    ((-44.30685281944005, 44.30685281944005), (0.1, 0.9), None)
    """
    share = max(tail, _LEAST_TAIL)
    if law == "uniform":
        return max(tail, GRAIN), 1 - max(tail, GRAIN)
    if law == "exponential":
        return -math.log1p(-share), -math.log(share)
    if law == "gumbel":
        return -math.log(-math.log(share)), -math.log(-math.log1p(-share))
    if law.startswith("geometric "):
        return 1.0, 1.0 + math.floor(-math.log(share) / float(law.partition(" ")[2]))
    if law not in ("normal", "laplace", "logistic"):
        return None
    if law == "normal":
        end = max(0.0, -NormalDist().inv_cdf(tail)) if tail else _END_OF_NORMALS
    else:
        end = max(0.0, -math.log(2 * share) if law == "laplace" else math.log(1 / share - 1))
    return -end, end


def value_beyond(law: str, threshold: float, side: int) -> float | None:
    """Return a value of a draw just beyond a threshold, of side 0 at it, None if it is never drawn."""
    limits = ends(law)
    if limits is None:
        return None
    if not side:
        is_possible = law.startswith("geometric ") and threshold == round(threshold) and limits[0] <= threshold <= limits[1]
        return threshold if is_possible else None
    room = side * (limits[(side + 1) // 2] - threshold)
    if law.startswith("geometric "):  # whole numbers
        value = max(limits[0], math.floor(threshold) + 1.0) if side > 0 else min(limits[1], math.ceil(threshold) - 1.0)
        return value if side * (limits[(side + 1) // 2] - value) >= 0 else None
    # far enough that rounding of the sums does not undo it
    return float(threshold + side * min(1e-7 * (1 + abs(threshold)), room / 2)) if room > GRAIN else None


def other_chances(all_laws: Sequence[str], rows: Any, outputs: Array) -> Array:
    """Return an upper bound of the probability that each row, which is above 0 if its output is true, is not so, `(m,)`.

    Args:
        all_laws: of the base draws.
        rows: noisy numbers (`audit.replays.recording.NoiseRows`).
        outputs: `(m,)`.

    Guarantee: if a sum of k draws crosses a threshold t, one of them crosses t / k.
    """
    signs = np.where(outputs, -1.0, 1.0)
    laws = np.array([*all_laws, ""])[np.where(rows.weight == 0, -1, rows.index)]
    normal = np.sqrt(np.sum(np.where(laws == "normal", rows.weight, 0.0) ** 2, axis=1))
    count = (normal > 0) + np.sum((laws != "normal") & (laws != ""), axis=1)
    margin = -signs * rows.value / np.maximum(count, 1)
    with np.errstate(all="ignore"):
        total = np.where(normal > 0, np.exp(unit_laws.log_above("normal", margin / normal)), 0.0)
        for law in set(laws.ravel().tolist()) - {"normal", ""}:
            weight = signs[:, None] * np.where(laws == law, rows.weight, 0.0)
            if not unit_laws.is_known(law):
                return np.ones(len(signs))
            far = margin[:, None] / weight
            chances = np.exp(np.where(weight > 0, unit_laws.log_above(law, far), unit_laws.log_below(law, far)))
            total = total + np.where(weight == 0, 0.0, chances).sum(axis=1)
    return np.asarray(np.minimum(np.nan_to_num(total, nan=1.0), 1.0))
