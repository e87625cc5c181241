"""Examples of selections and of tests: how likely one answer is on two neighbouring data sets, for ends from below."""

import math
from functools import partial

import numpy as np
from numpy.typing import NDArray

from audit.core.deployed_events import NoisyMax, SparseVector

LEAST_COUNT = 2.0  # a share from here on is a number: of candidates that are behind, or of tests before those that say yes
# examples that are tried: one from below is as true as another
SHARES = (0.5, 0.45, 0.4, 0.3, 0.8, 0.95, 0.999, 3.0, 10.0, 30.0, 100.0)
_MOST_AHEAD = 30.0  # scales of noise: beyond, a chance is 1 in floats
_SCALES = 40.0  # of the noise of a threshold that are integrated over; what is beyond is added to the smaller chance
_PANELS = 4  # a scale
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_ROUNDING = 1e-9  # relative, of an integral: the larger chance is stated so much smaller, the smaller one larger


def chances(event: NoisyMax | SparseVector, share: float) -> tuple[float, float]:
    """Return how likely one answer is on two neighbouring data sets, in an example that `share` chooses.

    Shares up to 1: of a selection the worse of two candidates is named, and both scores move against each other; of tests the
    only query is above the threshold. At 0.5 the two data sets are mirror images, at 1 the answer is a toss-up on the first.

    Shares from `LEAST_COUNT` on: of a selection with Laplace noise one of so many equal candidates and one more is named, then
    with its score and theirs moved against each other. Of tests, so many queries at the threshold say no and then all positives
    say yes, then with those queries moved up and these down. With many, the noise that the others are compared with is almost
    surely above 0, where moving it costs its whole epsilon; so both guarantees are met in the limit.

    References:
        McKenna, Sheldon 2020, arXiv 2010.12603 (exponential noise: the smaller of two chances is `exp(-gap) / 2`).
        Lyu, Su, Li 2017, arXiv 1603.01699 (tests).
    """
    if share >= LEAST_COUNT:
        return _with_rivals(event, int(share))
    if isinstance(event, NoisyMax):
        gap, tail = float(event.epsilon), _exponential_tail if event.noise == "exponential" else partial(laplace_tail, 1.0, 1.0)
        start = max(gap * (share - 1), -_MOST_AHEAD)
        return tail(start), tail(start + gap)
    scales = 1 / float(event.threshold_epsilon), 2 * event.positives / float(event.query_epsilon)
    start = max(share - 1, -_MOST_AHEAD * max(scales))
    return laplace_tail(*scales, start), laplace_tail(*scales, start + 1)


def _with_rivals(event: NoisyMax | SparseVector, rivals: int) -> tuple[float, float]:
    """The chances with that many others; two candidates of the same if noise is not Laplace."""
    if isinstance(event, SparseVector):
        scales = 1 / float(event.threshold_epsilon), 2 * event.positives / float(event.query_epsilon)
        first, second = (_yes_after_no(scales, (rivals, event.positives), (gap, -gap)) for gap in (0.0, 1.0))
    elif event.noise == "exponential":
        return chances(event, SHARES[0])
    else:
        first, second = (_yes_after_no((1.0, 1.0), (rivals, 0), (gap, 0.0)) for gap in (0.0, float(event.epsilon)))
    larger, smaller = first * (1 - _ROUNDING), second * (1 + _ROUNDING) + math.exp(-_SCALES)
    return (larger, smaller) if smaller < larger else (0.5, 0.5)  # too rare an answer shows nothing


def _yes_after_no(scales: tuple[float, float], counts: tuple[int, int], places: tuple[float, float]) -> float:
    """Return the chance that so many noisy queries stay below a noisy threshold and so many exceed it.

    Args:
        scales: of the Laplace noise of the threshold and of a query.
        counts: of queries that say no, and yes.
        places: of the former and the latter above the threshold.
    """
    around = (0.0, scales[0]), *((place, scales[1]) for place in places)
    edges = np.unique(np.concatenate([_spread(place, scale, scales[0]) for place, scale in around]))
    middles, halves = (edges[1:] + edges[:-1]) / 2, (edges[1:] - edges[:-1]) / 2
    noise = (middles[:, None] + halves[:, None] * _NODES).ravel()
    weights = (halves[:, None] * _WEIGHTS).ravel()
    logs = -np.abs(noise) / scales[0] - math.log(2 * scales[0])
    for count, sign, place in zip(counts, (1, -1), places, strict=True):
        logs = logs + count * _log_below(sign * (noise - place) / scales[1])
    return float(weights @ np.exp(logs))


def _spread(middle: float, scale: float, reach: float) -> NDArray[np.float64]:
    """Return ends of panels around a place where the integrand has a kink, some a scale, within what is integrated over."""
    ends = middle + scale * np.arange(-_SCALES * _PANELS, _SCALES * _PANELS + 1) / _PANELS
    return np.asarray(np.clip(ends, -_SCALES * reach, _SCALES * reach), dtype=np.float64)


def _log_below(value: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log chance that standard Laplace noise is below a value."""
    tail = -np.abs(value)
    return np.asarray(np.where(value < 0, tail - math.log(2), np.log1p(-np.exp(tail) / 2)), dtype=np.float64)


def _exponential_tail(gap: float) -> float:
    """Chance that a candidate wins that is `gap` scales of exponential noise behind."""
    return math.exp(-gap) / 2 if gap >= 0 else 1 - math.exp(gap) / 2


def laplace_tail(first: float, second: float, gap: float) -> float:
    """Return the chance that the sum of two Laplace variables of these scales exceeds `gap`.

    With the larger scale b, the ratio r of the smaller one to it, and t = gap / b:
    `exp(-t) / 2 * (1 + r / (1 + r) * t * (1 - exp(-d)) / d)` with `d = t (1 - r) / r`; nothing cancels at equal scales.

    >>> round(laplace_tail(1.0, 1.0, 2.0), 12), round(0.5 * math.exp(-2) * 2, 12)
    (0.135335283237, 0.135335283237)
    """
    if gap < 0:
        return 1 - laplace_tail(first, second, -gap)
    scale, smaller = max(first, second), min(first, second)
    t, ratio = gap / scale, smaller / scale
    if ratio == 0:
        return math.exp(-t) / 2
    ahead = t * (1 - ratio) / ratio
    share = -math.expm1(-ahead) / ahead if ahead else 1.0
    return math.exp(-t) / 2 * (1 + ratio / (1 + ratio) * t * share)
