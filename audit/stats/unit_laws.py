"""Laws of noise with location 0 and scale 1, and the names of expressions that follow them exactly.

References: Devroye 1986, Non-Uniform Random Variate Generation, chapters II and V (inverse transforms, Box-Muller).
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special, stats

from audit.stats.arrays import Array

_NAMES: dict[str, Any] = {
    "normal": stats.norm,
    "laplace": stats.laplace,
    "logistic": stats.logistic,
    "gumbel": stats.gumbel_r,
    "exponential": stats.expon,
    "uniform": stats.uniform,
}
_TOLERANCE = 1e-6  # relative: two forms of one law agree up to rounding in their tails
_FAR = 1e-9  # probability of the tails in which forms are compared


def log_above(law: str, threshold: Array) -> Array:
    """Return the logarithm of the probability that a draw exceeds a threshold."""
    if law == "normal":
        return np.asarray(special.log_ndtr(-threshold))
    if law == "laplace":
        inner = np.log1p(-0.5 * np.exp(np.minimum(threshold, 0.0)))
        return np.where(threshold > 0, -np.abs(threshold) - math.log(2), inner)
    if law == "sign":
        return np.where(threshold < -1, 0.0, np.where(threshold < 1, -math.log(2), -np.inf))
    with np.errstate(divide="ignore"):
        return np.asarray(_NAMES[law].logsf(threshold))


def log_below(law: str, threshold: Array) -> Array:
    """Return the logarithm of the probability that a draw is below a threshold."""
    if law in ("normal", "laplace", "sign"):
        return log_above(law, -threshold)
    with np.errstate(divide="ignore"):
        return np.asarray(_NAMES[law].logcdf(threshold))


def log_density(law: str, place: Array) -> Array:
    """Return the logarithm of the density of a draw."""
    if law == "laplace":
        return np.asarray(-np.abs(place) - math.log(2))
    with np.errstate(divide="ignore"):
        return np.asarray(_NAMES[law].logpdf(place))


def is_known(law: str) -> bool:
    """True if a law has a density of this module."""
    return law in _NAMES


def shift_rate(law: str) -> float:
    """Return the largest log ratio of densities per unit by which a draw is moved; infinite for other laws than these.

    >>> shift_rate("laplace"), shift_rate("normal")
    (1.0, inf)
    """
    if law.startswith("two-sided geometric "):
        return float(law.rpartition(" ")[2])
    return 1.0 if law in ("laplace", "logistic") else math.inf


def pair_law(law: str) -> str | None:
    """Return the law of the difference of two draws of a law, or None if it is none of these.

    >>> pair_law("exponential"), pair_law("gumbel")
    ('laplace', 'logistic')
    """
    if law.startswith("geometric "):
        return f"two-sided {law}"
    return {"exponential": "laplace", "gumbel": "logistic"}.get(law)


def name_expression(laws: tuple[str, ...], function: Callable[..., Any]) -> tuple[str, float] | None:
    """Return the law and the scale of a function of independent draws, or None if it is none of the forms that are known.

    A scale below 0 is that of the negated law.

    Args:
        laws: of the draws that the function takes, in order.
        function: of arrays of their values.

    >>> name_expression(("uniform",), lambda u: -3 * np.sign(u - 0.5) * np.log(1 - 2 * np.abs(u - 0.5)))[0]
    'laplace'
    """
    with np.errstate(all="ignore"):
        if len(laws) == 1 and laws[0] in ("uniform", "exponential"):
            return _inverse_transform(laws[0], function)
        if len(laws) == 2:
            return _product(laws, function)
    return None


def _inverse_transform(law: str, function: Callable[..., Any]) -> tuple[str, float] | None:
    share = np.concatenate([np.geomspace(_FAR, 0.1, 60), np.linspace(0.1, 0.9, 60), 1 - np.geomspace(0.1, 1e-6, 60)])
    source = share if law == "uniform" else -np.log1p(-share)
    output = np.asarray(function(source), dtype=np.float64)
    if not np.all(np.isfinite(output)):
        return None
    for name in ("laplace", "normal", "logistic", "gumbel", "exponential"):
        for probability in (share, 1 - share):
            quantile = np.asarray(_NAMES[name].ppf(probability))
            scale = float(np.dot(output, quantile) / np.dot(quantile, quantile))
            size = abs(scale)
            if size > 0 and np.allclose(output, scale * quantile, rtol=_TOLERANCE, atol=size * _TOLERANCE):
                return name, scale  # below 0: the law of the negated expression
    return None


def _product(laws: tuple[str, ...], function: Callable[..., Any]) -> tuple[str, float] | None:
    """Return the law of products of two draws that are known by form: evaluated on a grid, and equal to it up to rounding."""
    # no round numbers, and both ends: forms that are not equal differ on some pair of them
    near = np.array([1e-9, 1e-4, 0.03, 0.2, 0.41, 0.63, 0.9, 1 - 1e-6])
    plain = {"uniform": near, "exponential": -np.log(near), "normal": special.ndtri(near), "sign": np.array([-1.0, 1.0])}
    if not set(laws) <= plain.keys():
        return None
    first, second = (part.ravel() for part in np.meshgrid(plain[laws[0]], plain[laws[1]]))
    output = np.asarray(function(first, second), dtype=np.float64)
    forms: list[tuple[str, Any]] = []
    for law, x, partner, y in ((laws[0], first, laws[1], second), (laws[1], second, laws[0], first)):
        if (law, partner) == ("uniform", "uniform"):
            angles = (np.cos(2 * math.pi * y), np.sin(2 * math.pi * y))
            forms += [("normal", np.sqrt(-2 * np.log(part)) * angle) for part in (x, 1 - x) for angle in angles]
        if (law, partner) == ("normal", "exponential"):
            forms.append(("laplace", x * np.sqrt(2 * y)))
        if (law, partner) == ("sign", "exponential"):
            forms.append(("laplace", x * y))
    for name, form in forms:
        scale = float(np.dot(output, form) / np.dot(form, form))
        if scale != 0 and np.allclose(output, scale * form, rtol=_TOLERANCE, atol=abs(scale) * 1e-9):
            return name, scale
    return None
