"""How near a reconstruction comes to the truth: PSNR, SSIM, the best match within a batch, identification among candidates."""

import math

import numpy as np
from scipy import ndimage, optimize

from audit.stats.arrays import Array, Counts

WINDOW = 7  # pixels of the uniform window of SSIM
STABLE = (0.01, 0.03)  # K1 and K2 of SSIM


def psnr(reconstructed: Array, original: Array, data_range: float) -> Array:
    """Peak signal-to-noise ratio in dB of each record `(n, ...)`, `(n,)`; infinite if they are equal.

    Args:
        data_range: largest less smallest value that a record may have. A figure without it means nothing.

    Raises:
        ValueError: the data range is not above 0.

    >>> psnr(np.zeros((1, 4)), np.full((1, 4), 0.1), 1.0).round(6).tolist()
    [20.0]
    """
    if not data_range > 0:
        raise ValueError(f"data_range is {data_range}; expected a number above 0")
    errors = ((np.asarray(reconstructed, float) - np.asarray(original, float)) ** 2).reshape(len(original), -1).mean(axis=1)
    with np.errstate(divide="ignore"):
        return np.asarray(10 * (2 * math.log10(data_range) - np.log10(errors)))


def ssim(reconstructed: Array, original: Array, data_range: float) -> Array:
    """Structural similarity of each image `(n, channels, rows, columns)`, the mean over channels and windows, `(n,)`.

    Raises:
        ValueError: images of fewer than 7 pixels a side.

    References: Wang et al. 2004; uniform windows of 7 x 7 and the sample covariance, as scikit-image's default.
    """
    if min(original.shape[-2:]) < WINDOW:
        raise ValueError(f"images of {original.shape[-2:]} pixels; SSIM needs at least {WINDOW} a side")
    size = (1, 1, WINDOW, WINDOW)
    x, y = np.asarray(reconstructed, float), np.asarray(original, float)
    mean_x, mean_y = (ndimage.uniform_filter(part, size) for part in (x, y))
    correction = WINDOW**2 / (WINDOW**2 - 1)
    var_x, var_y, stack = (
        correction * (ndimage.uniform_filter(a * b, size) - mean_a * mean_b)
        for a, b, mean_a, mean_b in ((x, x, mean_x, mean_x), (y, y, mean_y, mean_y), (x, y, mean_x, mean_y))
    )
    first, second = ((k * data_range) ** 2 for k in STABLE)
    similar = (2 * mean_x * mean_y + first) * (2 * stack + second)
    values = similar / ((mean_x**2 + mean_y**2 + first) * (var_x + var_y + second))
    edge = WINDOW // 2  # windows beyond the border hold reflected pixels
    return np.asarray(values[..., edge:-edge, edge:-edge].mean(axis=(1, 2, 3)))


def best_match(reconstructed: Array, original: Array) -> Counts:
    """For each original of a batch `(b, ...)` the reconstruction that it is matched with, by least total squared error, `(b,)`.

    >>> best_match(np.array([[1.0], [0.0]]), np.array([[0.1], [0.9]])).tolist()
    [1, 0]
    """
    x, y = (np.asarray(part, float).reshape(len(part), -1) for part in (reconstructed, original))
    errors = ((y[:, None] - x[None, :]) ** 2).sum(axis=2)
    _, columns = optimize.linear_sum_assignment(errors)
    return np.asarray(columns)


def nearest(reconstructed: Array, candidates: Array) -> Counts:
    """The candidate `(k, ...)` with the least squared error of each reconstruction `(n, ...)`, `(n,)`."""
    x, y = (np.asarray(part, float).reshape(len(part), -1) for part in (reconstructed, candidates))
    return np.asarray(((x[:, None] - y[None, :]) ** 2).sum(axis=2).argmin(axis=1))
