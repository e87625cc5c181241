"""Renyi divergences at many orders by a second way, stored as data: the trapezoidal rule at 50 digits, no code of ours.

    python -m tests.accounting.truths.orders tests/accounting/truths/orders.json

The trapezoidal rule over the whole line converges exponentially for the Gaussian's integrand; its step follows from the
nearest zero of the likelihood ratio, `pi * noise**2` off the line. Kinks of the Laplace density are ends of tanh-sinh panels.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import mpmath
from mpmath import mpf

ORDERS = (1.01, 1.1, 1.25, 1.5, 1.9, 2.0, 2.5, 3.0, 4.5, 8.0, 10.9, 16.0, 33.0)
GAUSSIANS = tuple(product((0.6, 1.0, 4.0), (1e-6, 0.01, 0.4)))
LAPLACES = tuple(product((0.5, 2.0), (0.01, 0.4)))
RESPONSES = ((0.1, 2), (0.5, 2), (0.37, 5), (0.9, 300))


def line_integral(noise: Any, order: float, far: float, integrand: Callable[[Any], Any]) -> Any:
    """The integral over the whole line of what falls like a Gaussian around places between 0 and `far`."""
    step = min(noise / 3, mpf("0.2") * noise**2, mpf("0.2") * noise**2 * 4 / max(mpf(order) / 4, 1))
    first = -18 * noise
    return step * mpmath.fsum(integrand(first + step * place) for place in range(int((far + 36 * noise) / step) + 1))


def gaussian(noise: float, rate: float, order: float, size: int = 1) -> float:
    """Divergence of a Poisson sample of `size` records from none of them, each moving a Gaussian sum by 1."""
    s, q, a = mpf(noise), mpf(rate), mpf(order)
    chances = [mpmath.binomial(size, k) * q**k * (1 - q) ** (size - k) for k in range(size + 1)]

    def integrand(x: Any) -> Any:
        ratio = mpmath.fsum(chance * mpmath.exp((2 * k * x - k * k) / (2 * s * s)) for k, chance in enumerate(chances))
        return mpmath.npdf(x, 0, s) * (ratio**a - 1 - a * (ratio - 1))

    return float(mpmath.log1p(line_integral(s, order, order * size, integrand)) / (a - 1))


def laplace(scale: float, rate: float, order: float) -> float:
    """The larger divergence, of the two directions, of a Poisson-sampled Laplace release."""
    b, q, a = mpf(scale), mpf(rate), mpf(order)

    def both(x: Any) -> tuple[Any, Any]:
        absent = mpmath.exp(-abs(x) / b) / (2 * b)
        return (1 - q) * absent + q * mpmath.exp(-abs(x - 1) / b) / (2 * b), absent

    def power(x: Any, swap: bool) -> Any:
        first, second = both(x)[::-1] if swap else both(x)
        return first**a * second ** (1 - a)

    ends = [-mpmath.inf, 0, 1, mpmath.inf]
    return max(float(mpmath.log(mpmath.quad(lambda x, swap=swap: power(x, swap), ends)) / (a - 1)) for swap in (False, True))


def response(parameter: float, buckets: int, order: float) -> float:
    """Divergence of randomised response when one record changes its category."""
    low, a = mpf(parameter) / buckets, mpf(order)
    high = 1 - mpf(parameter) + low
    return float(mpmath.log(high**a * low ** (1 - a) + low**a * high ** (1 - a) + (buckets - 2) * low) / (a - 1))


def table() -> dict[str, Any]:
    """Every divergence, by mechanism, its parameters and the order."""
    with mpmath.workdps(50):
        rows = [
            ["gaussian", noise, rate, order, gaussian(noise, rate, order)]
            for (noise, rate), order in product(GAUSSIANS, ORDERS)
        ]
        rows += [
            ["laplace", scale, rate, order, laplace(scale, rate, order)] for (scale, rate), order in product(LAPLACES, ORDERS)
        ]
        rows += [["response", *pair, order, response(*pair, order)] for pair, order in product(RESPONSES, ORDERS)]
        rows += [
            ["group of 3", noise, 0.1, order, gaussian(noise, 0.1, order, 3)]
            for noise, order in product((1.0, 4.0), ORDERS[::3])
        ]
    return {"columns": ["mechanism", "noise or parameter", "rate or buckets", "order", "divergence"], "rows": rows}


if __name__ == "__main__":
    lines = table()
    body = ",\n".join(json.dumps(row) for row in lines["rows"])
    Path(sys.argv[1]).write_text(f'{{"columns": {json.dumps(lines["columns"])}, "rows": [\n{body}\n]}}\n')
