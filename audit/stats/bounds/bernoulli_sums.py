"""The law of the number of successes of independent trials, each with its own rate."""

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from audit.stats.arrays import Array
from audit.stats.bounds import one_count

DIRECT = 200_000  # products up to which the direct sum is quicker than a transform


def convolve(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the convolution `(len(left) + len(right) - 1,)` of two non-negative sequences, never below 0.

    By the transform that `scipy.signal.fftconvolve` takes, with the same bits, without the import that takes longer than
    bounds.
    """
    if len(left) * len(right) <= DIRECT or min(len(left), len(right)) == 1:
        return np.convolve(left, right)
    length = len(left) + len(right) - 1
    size = fft.next_fast_len(length, real=True)
    products = fft.irfft(fft.rfft(left, size) * fft.rfft(right, size), size)[:length]
    return np.asarray(np.maximum(products, 0.0))


BLOCK = 128  # distinct rates that are multiplied at once


def bernoulli_sum_law(rates: Array) -> Array:
    """`(n + 1,)` law of the number of successes of independent trials with these rates.

    >>> bernoulli_sum_law(np.array([0.5, 0.5])).tolist()
    [0.25, 0.5, 0.25]
    """
    values, numbers = np.unique(rates, return_counts=True)
    several = numbers > 1
    laws = [
        np.exp(one_count.log_binomial(np.arange(number + 1.0), number, rate))
        for rate, number in zip(values[several].tolist(), numbers[several].tolist(), strict=True)
    ]
    alone = values[~several]
    laws += [_product(alone[start : start + BLOCK]) for start in range(0, len(alone), BLOCK)]
    while len(laws) > 1:
        laws = [convolve(*laws[i : i + 2]) if i + 1 < len(laws) else laws[i] for i in range(0, len(laws), 2)]
    return laws[0]


def _product(rates: Array) -> Array:
    """`bernoulli_sum_law` of a few distinct rates, by the values of its generating function on the unit circle."""
    size = len(rates) + 1
    circle = np.exp(-2j * np.pi * np.arange(size // 2 + 1) / size)
    values = np.prod(1 - rates[:, None] + rates[:, None] * circle, axis=0)
    return np.asarray(np.maximum(np.fft.irfft(values, size), 0.0))
