"""Convolutions of probabilities, direct if that is quicker."""

import numpy as np
from numpy.typing import NDArray
from scipy import fft

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
