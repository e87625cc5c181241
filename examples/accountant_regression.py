"""Regression-test an accountant: hold its claims against proven brackets, one pytest test per case.

    python examples/accountant_regression.py
    cd examples && audit accountant check -a accountant_regression:epsilon --group rates      # the same, as a table

`epsilon` below is the accountant of this example: Renyi DP of the subsampled Gaussian at integer orders (Mironov, Talwar and
Zhang 2019, arXiv 1908.10530). Name your own in its place: any function of these four numbers, or an object with `claim`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

ORDERS = range(2, 257)
GROUPS = ["rates", "steps", "noise", "published settings"]


def epsilon(noise_multiplier: float, sample_rate: float, steps: int, delta: float) -> float:
    """Return an upper bound on the epsilon of DP-SGD with Poisson sampling, neighbours by adding or removing one record."""
    if sample_rate == 0 or steps == 0:
        return 0.0
    if noise_multiplier == 0 or delta == 0:
        return np.inf
    return min(_converted(order, steps * _renyi(order, noise_multiplier, sample_rate), delta) for order in ORDERS)


def _renyi(order: int, noise_multiplier: float, sample_rate: float) -> float:
    """Return the Renyi divergence of one step at an integer order: a binomial sum, in log space."""
    if sample_rate == 1:
        return order / (2 * noise_multiplier**2)
    k: NDArray[np.float64] = np.arange(order + 1.0)
    choices = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
    weights = k * np.log(sample_rate) + (order - k) * np.log1p(-sample_rate)
    return float(logsumexp(choices + weights + k * (k - 1) / (2 * noise_multiplier**2))) / (order - 1)


def _converted(order: int, divergence: float, delta: float) -> float:
    """Return the epsilon at delta of one order (Canonne, Kamath and Steinke 2020, arXiv 2004.00010)."""
    return max(0.0, divergence + np.log1p(-1 / order) - np.log(delta * order) / (order - 1))


@pytest.mark.accountant("accountant_regression:epsilon", groups=GROUPS, require=10)
def test_accountant(accountant_case) -> None:
    """Fail if a claim is below the truth. `loosest=1.5` in the marker also fails claims above 1.5 times the upper end."""
    accountant_case()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))  # so that the marker's module is found
    sys.exit(pytest.main([__file__, "-p", "no:cacheprovider", "--import-mode=importlib"]))
