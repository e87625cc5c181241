"""Log densities and log odds of the normal and Student-t families, and of the subsampled Gaussian mechanism."""

import numpy as np
from scipy import special

from audit.stats.arrays import AnyArray


def log_normal_density(x: AnyArray, mean: AnyArray | float, std: AnyArray | float) -> AnyArray:
    """Log density of N(mean, std^2) at `x`, broadcast.

    >>> round(float(log_normal_density(np.array(0.0), 0.0, 1.0)), 4)
    -0.9189
    """
    return np.asarray(-0.5 * ((x - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi))


def log_student_density(x: AnyArray, dof: AnyArray | float, mean: AnyArray | float, scale: AnyArray | float) -> AnyArray:
    """Log density of the Student-t law with `dof` degrees of freedom, shifted and scaled, broadcast.

    >>> round(float(log_student_density(np.array(0.0), 1.0, 0.0, 1.0)), 4)  # Cauchy: log(1 / pi)
    -1.1447
    """
    dof = np.asarray(dof, dtype=np.float64)
    z = (x - mean) / scale
    constant = special.gammaln((dof + 1) / 2) - special.gammaln(dof / 2) - 0.5 * np.log(dof * np.pi)
    return np.asarray(constant - np.log(scale) - (dof + 1) / 2 * np.log1p(z * z / dof))


def student_score(z: AnyArray, dof: AnyArray | float) -> AnyArray:
    """The normal quantile with the same upper tail as `z` has under Student-t with `dof` degrees of freedom.

    Puts one-sided tests with different degrees of freedom on one scale without saturating.

    >>> student_score(np.array([-1.0, 0.5, 1.0]), 1e9).round(6).tolist()
    [-1.0, 0.5, 1.0]
    """
    tail = special.stdtr(dof, -np.abs(z))
    return np.asarray(-np.sign(z) * special.ndtri(np.maximum(tail, np.finfo(np.float64).tiny)))


def log_likelihood_ratio_subsampled_gaussian(x: AnyArray, noise_multiplier: float, sample_rate: float) -> AnyArray:
    """Log ratio of `(1 - q) N(0, s^2) + q N(1, s^2)` to `N(0, s^2)` at each `x`.

    The optimal statistic for one step of Poisson-subsampled DP-SGD when the canary's unit gradient is
    known: present and sampled it adds 1 (in units of the clip norm) to noise of standard deviation `s`.

    Args:
        x: inner products in units of the clip norm, any shape.
        noise_multiplier: `s`, above 0.
        sample_rate: `q` in [0, 1].

    References: Nasr et al. 2023, arXiv 2302.07956, section 4; Abadi et al. 2016, arXiv 1607.00133.

    >>> log_likelihood_ratio_subsampled_gaussian(np.array([0.5]), 1.0, 0.3).tolist()
    [0.0]
    """
    shift = (np.asarray(x, dtype=np.float64) - 0.5) / noise_multiplier**2
    with np.errstate(divide="ignore"):
        absent, present = np.log1p(-sample_rate), np.log(sample_rate)
    return np.asarray(np.logaddexp(absent, present + shift))
