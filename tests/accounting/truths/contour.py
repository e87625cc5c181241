"""Delta of composed losses as a contour integral of their moment generating function: no grid of losses, no convolution.

With `K` the logarithm of `E_P exp(s loss)` of everything composed, and any real c above 0,

    delta(epsilon) = 1 / (2 pi i) * integral over Re s = c of exp(K(s) - s epsilon) / (s (s + 1)) ds,

because `(1 - exp(-x))_+` is the inverse Laplace transform of `1 / (s (s + 1))`. At the saddle point c nothing cancels, and the
trapezoid rule converges exponentially if the losses have a smooth density. Agreement of a coarse and a fine rule is
demanded; if there is none (atoms that no density smooths), `NotConverged` is raised and another method has to judge.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar

from tests.accounting.truths.losses import Losses

Complex = NDArray[np.complex128]
Parts = Sequence[tuple[Losses, int]]
_AGREEMENT = 1e-7  # of two rules, relative to delta
_BLOCK, _MOST = 256, 1 << 14
_NEGLIGIBLE = 1e-13
_SPANS = (1.0, 1.45, 3.1, 7.3)  # of the window of losses that a rule resolves: rare large losses want wide ones
_LOG_NOTHING = -120.0


class NotConverged(ArithmeticError):
    """Two rules of integration disagree, or the integrand does not fade."""


def cumulant(parts: Parts, s: Complex) -> Complex:
    """`K(s)`, accurate if it is small."""
    total = np.zeros(len(s), dtype=np.complex128)
    with np.errstate(all="ignore"):  # a tilt far off overflows, and is then not the saddle
        for losses, count in parts:
            total += count * _log1p(_moment_less_one(losses, s))
    return total


def _moment_less_one(losses: Losses, s: Complex) -> Complex:
    result = np.zeros(len(s), dtype=np.complex128)
    heavy = (losses.log_mass + float(s[0].real) * losses.loss > -60) | (losses.log_mass > -60)
    loss, log_mass = losses.loss[heavy], losses.log_mass[heavy]
    mass = np.exp(log_mass)
    small = np.abs(loss) * float(np.abs(s).max()) < 1
    if small.any():
        result += np.expm1(s[:, None] * loss[small]) @ mass[small]
    if not small.all():
        result += np.exp(log_mass[~small] + s[:, None] * loss[~small]).sum(axis=1) - mass[~small].sum()
    return result


def _log1p(z: Complex) -> Complex:
    return np.asarray(0.5 * np.log1p(2 * z.real + z.real**2 + z.imag**2) + 1j * np.arctan2(z.imag, 1 + z.real))


def saddle(parts: Parts, epsilon: float) -> tuple[float, float]:
    """The tilt at which nothing cancels, and the logarithm of the integrand's size there."""

    def size(log_tilt: float) -> float:
        tilt = math.exp(log_tilt)
        value = float(cumulant(parts, np.array([tilt + 0j]))[0].real) - tilt * epsilon - math.log(tilt * (tilt + 1))
        return value if math.isfinite(value) else 1e300

    best = minimize_scalar(size, bounds=(math.log(1e-7), math.log(1e6)), method="bounded", options={"xatol": 1e-4})
    return math.exp(best.x), float(best.fun)


def delta_at(parts: Parts, epsilon: float) -> float:
    """Delta of the composition.

    Raises:
        NotConverged: no two rules agree.
    """
    retained = math.exp(sum(count * math.log1p(-losses.infinite) for losses, count in parts))
    tilt, log_size = saddle(parts, epsilon)
    if log_size < _LOG_NOTHING:  # of the order of delta itself: epsilon is beyond every loss that matters
        return 1 - retained + retained * math.exp(log_size)
    spread = _spread(parts, tilt)
    span = 16 * spread + (36 - log_size) / tilt
    result: list[float] = []
    for reach in _SPANS:
        result.append(_trapezoid(parts, epsilon, tilt, reach * span))
        if len(result) > 1 and abs(result[-1] - result[-2]) <= _AGREEMENT * abs(result[-1]):
            return 1 - retained + retained * result[-1]
    raise NotConverged(f"{result} at epsilon {epsilon:g}")


def _spread(parts: Parts, tilt: float) -> float:
    width = 1e-3 * tilt
    low, middle, high = cumulant(parts, np.array([tilt - width, tilt, tilt + width], dtype=np.complex128)).real
    return math.sqrt(max((high - 2 * middle + low) / width**2, 1e-300))


def _trapezoid(parts: Parts, epsilon: float, tilt: float, span: float) -> float:
    step = 2 * math.pi / span
    at_saddle = float(cumulant(parts, np.array([tilt + 0j]))[0].real)
    total, largest = 0.0, 0.0
    for first in range(0, _MOST, _BLOCK):
        s = tilt + 1j * step * np.arange(first, first + _BLOCK)
        term = np.exp(cumulant(parts, s) - at_saddle - 1j * s.imag * epsilon) / (s * (s + 1))
        if first == 0:
            term[0] /= 2
            largest = float(np.abs(term).max())
        total += float(term.real.sum())
        if float(np.abs(term).max()) < _NEGLIGIBLE * largest:
            return step / math.pi * total * math.exp(at_saddle - tilt * epsilon)
    raise NotConverged(f"after {_MOST} terms the integrand is still {float(np.abs(term).max()) / largest:.1g} of its largest")


def chernoff(parts: Parts, concentrated: float, delta: float) -> float:
    """An epsilon that is enough at `delta`, by the moment generating function; zCDP adds `rho t (1 + t)` at each tilt t."""

    def bound(log_tilt: float) -> float:
        tilt = math.exp(log_tilt)
        moment = float(cumulant(parts, np.array([tilt + 0j]))[0].real) + concentrated * tilt * (1 + tilt)
        concession = tilt * math.log(tilt) - (1 + tilt) * math.log1p(tilt)
        return (moment + concession - math.log(delta)) / tilt

    tilts = np.linspace(math.log(1e-3), math.log(1e5), 400)
    values = [bound(tilt) for tilt in tilts]
    best = int(np.nanargmin(values))
    near = (tilts[max(best - 1, 0)], tilts[min(best + 1, len(tilts) - 1)])
    return float(minimize_scalar(bound, bounds=near, method="bounded").fun)


def epsilon_at(read_delta: Callable[[float], float], delta: float, near: tuple[float, float]) -> float:
    """Least epsilon with at most `delta`, searched around a guess; its ends need not contain the answer."""
    low, high = near
    width = max(high - low, 1e-6 * high, 1e-9)
    for _ in range(60):
        first, right = max(low - width, 0.0), high + width
        if read_delta(first) <= delta:
            if first == 0.0:
                return 0.0
        elif read_delta(right) <= delta:
            return float(brentq(lambda e: math.log(max(read_delta(e), 1e-300) / delta), first, right, xtol=1e-300, rtol=1e-10))
        width *= 3
    raise NotConverged("no epsilon with this delta")
