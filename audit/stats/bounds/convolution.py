"""Convolutions of probabilities, direct if that is quicker."""

import numpy as np
from numpy.typing import NDArray
from scipy import fft

DIRECT = 200_000  # products up to which the direct sum is quicker than a transform


def convolve(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the convolution `(len(left) + len(right) - 1,)` of two non-negative sequences, never below 0.

    The transform has the length that `scipy.signal.fftconvolve` takes and gives the same bits; importing `scipy.signal` alone
    would take longer than most bounds do.
    """
    if len(left) * len(right) <= DIRECT or min(len(left), len(right)) == 1:
        return np.convolve(left, right)
    length = len(left) + len(right) - 1
    size = fft.next_fast_len(length, real=True)
    products = fft.irfft(fft.rfft(left, size) * fft.rfft(right, size), size)[:length]
    return np.asarray(np.maximum(products, 0.0))
