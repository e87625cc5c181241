"""Two ends around the epsilon of composed DP-SGD in ball arithmetic: every rounding and every cut is bounded, by theorem.

Every number is a ball that holds the true one (Arb, through python-flint), so what is proved on paper is proved of the figure.
Nothing is shared with the oracle: no grid of losses, no FFT, no float.

Let z(x) = 1 - q + q exp((2 x - 1) / (2 sigma^2)) be the likelihood ratio of one step, at x without the record a normal variable
of deviation sigma. The moment of the loss is `M(s) = E z^(1 + s)` if a record is removed, `E z^(-s)` if one is added, and
`h(x) = exp(c x) delta(x)` has the Fourier transform `M(s)^T / (s (s + 1))` at `s = c + i y`, for every c > 0.

1. Trapezoids over y of width eta give `sum_m h(epsilon + m P)`, P = 2 pi / eta (Poisson's summation). All terms are at least 0,
   and `h(x) <= M(t)^T exp((c - t) x)` for every t > 0 (Markov), so two geometric series bound the others.
2. Beyond |y| = Y the integrand is at most `(V / y)^T / y^2`, by parts: V is the variation of
   `g = phi z^(1 + a) exp(-f) sigma^2 / q`, a being the exponent of z. Its critical points solve `(1 + a) r(x) = x + 1` with a
   logistic r: at most three, between -1 and a, so V is at most four times the largest value there.
3. M itself is a sum over nodes of width w: its error is at most `2 N / (exp(2 pi b / w) - 1)` with N at least the integral of
   the modulus on the lines at distance b (z has no zero there for b < pi sigma^2), cut if the terms fall geometrically.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from flint import acb, arb, ctx
from scipy.special import logsumexp

BITS = 160
_NODES_REACH = 16.0  # standard deviations that nodes cover beyond the shift
_LOG_SMALL = 75.0  # e-folds below the whole that nodes miss
_LOG_CUT = 30.0  # e-folds below the whole that the sum over the line misses
_MOST_TERMS = 40_000
_BLOCK = 64
_ABOVE, _BELOW = (1.04, 1.1, 1.2, 1.3), 0.5  # of the tilt: if moments bound the neighbouring periods
Phase = tuple[float, float, int]
"""Noise multiplier, sample rate below 1, steps."""


class NotDecided(ArithmeticError):
    """The balls are too wide, or the sums would be too long."""


@dataclass(frozen=True, slots=True)
class Line:
    """Moments of the composed loss along one line: `values[k]` holds `M(c + i k eta)^T / (s (s + 1))`.

    Attributes:
        log_cut: logarithm of a bound on what is beyond the last term.
        higher, lower: two tilts around c with the logarithm of the moment at each.
    """

    tilt: arb
    step: arb
    values: tuple[acb, ...]
    cut: arb
    higher: tuple[arb, arb]
    lower: tuple[arb, arb]


def _exact(value: float) -> arb:
    return arb(value)


@dataclass(frozen=True, slots=True)
class Mixture:
    """Nodes of one step: if they are, what z is there, and the density times the width."""

    noise: arb
    rate: arb
    width: arb
    logs: tuple[arb, ...]
    weights: tuple[arb, ...]
    reach: float

    @classmethod
    def of(cls, noise: float, rate: float, width: float, reach: float) -> Mixture:
        sigma, q, w = _exact(noise), _exact(rate), _exact(width)
        count = math.ceil(reach / width)
        logs, weights = [], []
        scale = w / (sigma * (2 * arb.pi()).sqrt())
        for place in range(-count, count + 1):
            x = w * place
            f = (2 * x - 1) / (2 * sigma * sigma)
            logs.append(_log_ratio(q, f))
            weights.append(scale * (-(x * x) / (2 * sigma * sigma)).exp())
        return cls(sigma, q, w, tuple(logs), tuple(weights), float(count * width))

    def real(self, power: float) -> arb:
        """`E z^power`, cut and error included."""
        terms = [weight * (power * log).exp() for weight, log in zip(self.weights, self.logs, strict=True)]
        total = sum(terms, arb(0))
        return total + arb(0, float(self._error(power, 0.0, terms).upper()))

    def _error(self, power: float, frequency: float, terms: Sequence[arb]) -> arb:
        """A bound on what the nodes miss of `E z^(power + i frequency)`: beyond the ends, and between the nodes."""
        sigma2 = self.noise * self.noise
        fall = (-(_exact(self.reach) - abs(power)) * self.width / sigma2).exp()
        ends = (terms[0] + terms[-1]) * fall / (1 - fall)
        b = arb.pi() * sigma2 / 2
        share = 2 * arb.pi() * b / self.width
        modulus = self._modulus(power, frequency, terms, fall) * (b * b / (2 * sigma2)).exp()
        if power < 0:
            modulus *= arb(2) ** (arb(-power) / 2)
        return ends + 2 * modulus / (share.exp() - 1)

    def _modulus(self, power: float, frequency: float, terms: Sequence[arb], fall: arb) -> arb:
        """At least the integral of `phi z^power exp(frequency * angle)`; the angle is at most `min(pi / 2, q e^f / (1 - q))`.

        Between two nodes each factor is at most its larger end times what one step of w can add to it.
        """
        sigma2 = self.noise * self.noise
        rise = ((abs(power) + self.reach) * self.width / sigma2 + self.width * self.width / sigma2).exp()
        total = arb(0)
        for place, term in enumerate(terms):
            ratio = (self.logs[min(place + 1, len(terms) - 1)]).exp()
            angle = (ratio - 1 + self.rate) / (1 - self.rate)
            angle = angle if float(angle.upper()) < math.pi / 2 else arb.pi() / 2
            total += term * (frequency * angle).exp()
        far = (terms[0] + terms[-1]) * fall / (1 - fall) * (frequency * arb.pi() / 2).exp()
        return rise * (total + far)


def _log_ratio(q: arb, f: arb) -> arb:
    """`log(1 - q + q exp(f))`, narrow if it is small."""
    if float(f.mid()) < 30:
        return (q * f.expm1()).log1p()
    return f + q.log() + ((1 - q) / q * (-f).exp()).log1p()


def _variation(mixture: Mixture, power: float) -> arb:
    """A bound on V: four times the largest value of g between its outermost critical points."""
    low, high = min(-1.0, power), max(-1.0, power)
    sigma2, q = mixture.noise * mixture.noise, mixture.rate
    cells = max(200, math.ceil((high - low) / (0.02 * float(mixture.noise.mid()) * min(1.0, float(mixture.noise.mid())))))
    half = (high - low) / cells / 2
    best = arb(0)
    for place in range(cells):
        x = arb(low + (2 * place + 1) * half, half * 1.0000001)
        f = (2 * x - 1) / (2 * sigma2)
        log_value = -(x * x) / (2 * sigma2) + (1 + power) * _log_ratio(q, f) - f
        value = log_value.exp()
        best = best.max(arb(value.upper()))
    return 4 * best * sigma2 / q / (mixture.noise * (2 * arb.pi()).sqrt())


def _power(tilt: float, is_removed: bool) -> float:
    return 1 + tilt if is_removed else -tilt


def line(phases: Sequence[Phase], *, is_removed: bool, tilt: float, spread: float) -> Line:
    """Return the moments along `Re s = tilt`; `spread` is about the standard deviation of the tilted composed loss.

    Raises:
        NotDecided: the line would need too many terms.
    """
    ctx.prec = BITS
    power = _power(tilt, is_removed)
    rough = [_rough(noise, rate, power) for noise, rate, _ in phases]
    steps = sum(count for *_, count in phases)
    coarse = [Mixture.of(noise, rate, width, reach) for (noise, rate, _), (width, reach) in zip(phases, rough, strict=True)]
    period, above = min(_period(coarse, phases, (tilt, factor), is_removed=is_removed, spread=spread) for factor in _ABOVE)
    eta = 2 * math.pi / period
    variations = [_variation(mixture, power) for mixture in coarse]
    log_whole = sum((count * mixture.real(power).log() for mixture, (*_, count) in zip(coarse, phases, strict=True)), arb(0))
    log_v = sum((count * variation.log() for variation, (*_, count) in zip(variations, phases, strict=True)), arb(0))
    # (V / Y)^T / (T + 1) / Y below the whole by so many e-folds
    wanted = float((log_v - log_whole).mid()) + _LOG_CUT
    end = math.exp(wanted / (steps + 1))
    terms = math.ceil(end / eta) + 1
    if terms > _MOST_TERMS:
        raise NotDecided(f"{terms} terms of width {eta:g}")
    fine = [_mixture(noise, rate, power, terms * eta) for noise, rate, _ in phases]
    sign = 1 if is_removed else -1
    sums = [_moments(mixture, power, sign * eta, terms) for mixture in fine]
    c = _exact(tilt)
    values = []
    for place in range(terms):
        s = acb(c, _exact(eta) * place)
        value = acb(1)
        for row, (*_, count) in zip(sums, phases, strict=True):
            value *= row[place] ** count
        values.append(value / (s * (s + 1)))
    last = _exact(eta) * (terms - 1)
    cut = (log_v - (steps + 1) * last.log()).exp() / (steps + 1) / arb.pi()
    around = [_around(fine, phases, tilt * factor, is_removed) for factor in (above, _BELOW)]
    return Line(tilt=c, step=_exact(eta), values=tuple(values), cut=cut, higher=around[0], lower=around[1])


def _period(
    mixtures: Sequence[Mixture], phases: Sequence[Phase], tilts: tuple[float, float], *, is_removed: bool, spread: float
) -> tuple[float, float]:
    """The period at which a tilt so much higher makes the neighbouring terms negligible, and the factor."""
    tilt, factor = tilts
    _, log_here = _around(mixtures, phases, tilt, is_removed)
    _, log_above = _around(mixtures, phases, tilt * factor, is_removed)
    excess = max(float((log_above - log_here).upper()), 0.0)
    return max(16 * spread, (_LOG_CUT + excess) / (tilt * (factor - 1)), _LOG_CUT / (tilt * (1 - _BELOW))), factor


def _around(mixtures: Sequence[Mixture], phases: Sequence[Phase], tilt: float, is_removed: bool) -> tuple[arb, arb]:
    power = _power(tilt, is_removed)
    logs = (count * mixture.real(power).log() for mixture, (*_, count) in zip(mixtures, phases, strict=True))
    return _exact(tilt), sum(logs, arb(0))


def _rough(noise: float, rate: float, power: float) -> tuple[float, float]:
    """Width and reach of nodes for real moments."""
    width = math.pi**2 * noise**2 / (math.pi**2 * noise**2 / 8 + _LOG_SMALL + 2 * abs(power) + 20)
    return min(width, noise / 3), 1.5 * abs(power) + 1 + _NODES_REACH * noise


def _mixture(noise: float, rate: float, power: float, frequency: float) -> Mixture:
    """Nodes close enough for moments up to a frequency: their number follows the growth of the modulus on the shifted line."""
    width, reach = _rough(noise, rate, power)
    probe = Mixture.of(noise, rate, noise / 8, reach)
    terms = [weight * (power * log).exp() for weight, log in zip(probe.weights, probe.logs, strict=True)]
    fall = (-(_exact(probe.reach) - abs(power)) * probe.width / (probe.noise * probe.noise)).exp()
    growth = float(probe._modulus(power, frequency, terms, fall).log().upper()) + 0.5 * abs(power) + 5
    width = min(width, math.pi**2 * noise**2 / (math.pi**2 * noise**2 / 8 + _LOG_SMALL + max(growth, 0.0)))
    return Mixture.of(noise, rate, width, reach)


def _moments(mixture: Mixture, power: float, eta: float, terms: int) -> list[acb]:
    """`E z^(power + i k eta)` for k = 0 ... terms - 1; eta is negative if z is in the denominator."""
    start = [weight * (power * log).exp() for weight, log in zip(mixture.weights, mixture.logs, strict=True)]
    error = float(mixture._error(power, abs(eta) * terms, start).upper())
    bound = float(mixture.real(power).upper()) * 2.0**-BITS
    heavy = [(value, log) for value, log in zip(start, mixture.logs, strict=True) if float(value.upper()) > bound / len(start)]
    turns = [acb(0, _exact(eta) * log).exp() for _, log in heavy]
    fuzz = acb(arb(0, error + bound), arb(0, error + bound))
    result: list[acb] = []
    while len(result) < terms:  # balls widen by the root of two with every turn, so each block begins anew
        values = [value * acb(0, _exact(eta) * len(result) * log).exp() for value, log in heavy]
        for _ in range(min(_BLOCK, terms - len(result))):
            result.append(sum(values, acb(0)) + fuzz)
            values = [value * turn for value, turn in zip(values, turns, strict=True)]
    return result


def delta_ends(line_: Line, epsilon: float) -> tuple[arb, arb]:
    """Return balls that are below and above the true delta at `epsilon` in this direction."""
    ctx.prec = BITS
    e, eta = _exact(epsilon), line_.step
    total = arb(0)
    for place, value in enumerate(line_.values):
        term = (value * acb(0, -eta * e * place).exp()).real
        total += term / 2 if place == 0 else term
    full = eta / arb.pi() * total
    period = 2 * arb.pi() / eta
    cut = line_.cut + arb(0)
    (high, log_high), (low, log_low) = line_.higher, line_.lower
    fall = (-(high - line_.tilt) * period).exp()
    beyond = (log_high - (high - line_.tilt) * e).exp() * fall / (1 - fall)
    rise = (-(line_.tilt - low) * period).exp()
    before = (log_low + (line_.tilt - low) * e).exp() * rise / (1 - rise)
    scale = (-line_.tilt * e).exp()
    return scale * (full - cut - beyond - before), scale * (full + cut)


# ---- the two ends of epsilon; floats only choose where to look ----------------------------------------------------------


def epsilon_ends(phases: Sequence[Phase], delta: float, near: float) -> tuple[float, float]:
    """Return two ends around the epsilon of a training at `delta`, given about if it is.

    Raises:
        NotDecided: no ends within a thousandth of `near` on either side.
    """
    largest = -sum(count * math.log1p(-rate) for _, rate, count in phases)  # loss of an added record
    # beyond it, with room for the 1e-3 that ends are moved, an added record costs nothing
    ways = (True, False) if near < 1.01 * largest else (True,)
    lines = [line(phases, is_removed=is_removed, **_place(phases, near, is_removed)) for is_removed in ways]

    def ends(epsilon: float) -> tuple[arb, arb]:
        both = [delta_ends(one_line, epsilon) for one_line in lines]
        low, high = both[0]
        for other_low, other_high in both[1:]:
            low, high = low.max(other_low), high.max(other_high)
        return low, high

    target = _exact(delta)
    for width in (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3):
        low, high = near * (1 - width), near * (1 + width)
        if ends(low)[0] > target and ends(high)[1] < target:
            return low, high
    raise NotDecided(f"delta at {near:g} is {[end.str(6) for end in ends(near)]}, not {delta:g}")


def _place(phases: Sequence[Phase], near: float, is_removed: bool) -> dict[str, float]:
    """The saddle point of delta at `near`, and the spread there."""
    logs = {tilt: _log_moment(phases, tilt, is_removed) for tilt in np.exp(np.linspace(math.log(0.05), math.log(400.0), 160))}
    tilt = min(logs, key=lambda t: logs[t] - t * near - math.log(t * (t + 1)))
    around = [_log_moment(phases, tilt * (1 + shift), is_removed) for shift in (-1e-3, 0.0, 1e-3)]
    curvature = (around[0] - 2 * around[1] + around[2]) / (tilt * 1e-3) ** 2
    return {"tilt": float(tilt), "spread": math.sqrt(max(curvature, 1e-12))}


def _log_moment(phases: Sequence[Phase], tilt: float, is_removed: bool) -> float:
    total, power = 0.0, _power(tilt, is_removed)
    for noise, rate, count in phases:
        x = np.linspace(-10 * noise - 1.5 * abs(power), 10 * noise + 1.5 * abs(power), 6001)
        log_ratio = np.logaddexp(math.log1p(-rate), math.log(rate) + (2 * x - 1) / (2 * noise**2))
        log_terms = -x * x / (2 * noise**2) + power * log_ratio
        total += count * float(logsumexp(log_terms) + math.log((x[1] - x[0]) / (noise * math.sqrt(2 * math.pi))))
    return total
