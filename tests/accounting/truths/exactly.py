"""Truths at fifty digits: integrals of densities, exact compositions of atoms, and Laplace releases as truncated powers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise

from mpmath import mp, mpc, mpf

DIGITS = 50
Atoms = Mapping[mpf, mpf]
"""P-mass by loss; an infinite loss is a key as any other."""


def hockey_stick(p: Callable[[mpf], mpf], q: Callable[[mpf], mpf], epsilon: mpf, points: Sequence[mpf]) -> mpf:
    """Integral of the positive part of `p - exp(epsilon) q` over pieces on each of which it has one sign at most once."""
    grown = mp.exp(epsilon)
    excess = lambda x: p(x) - grown * q(x)  # noqa: E731
    total = mpf(0)
    for first, right in pairwise(points):
        a, b = excess(first + (right - first) * mpf("1e-30")), excess(right - (right - first) * mpf("1e-30"))
        if a <= 0 and b <= 0:
            continue
        if a * b < 0:
            root = _root(excess, first, right, a > 0)
            total += mp.quad(excess, mp.linspace(*((first, root) if a > 0 else (root, right)), 9))
        else:
            total += mp.quad(excess, mp.linspace(first, right, 9))
    return total


def _root(function: Callable[[mpf], mpf], start: mpf, stop: mpf, falls: bool) -> mpf:
    for _ in range(int(mp.prec) + 10):
        middle = (start + stop) / 2
        if (function(middle) > 0) == falls:
            start = middle
        else:
            stop = middle
    return (start + stop) / 2


def normal_mixtures(noise: float, members: Mapping[float, float], nonmembers: Mapping[float, float], epsilon: float) -> mpf:
    """Hockey-stick divergence of two mixtures of normal distributions if their likelihood ratio is monotone."""
    with mp.workdps(DIGITS):
        s = mpf(noise)
        density = lambda x, weights: mp.fsum(mpf(w) * mp.npdf(x, mpf(m), s) for m, w in weights.items())  # noqa: E731
        reach = 26 * s
        means = [mpf(m) for m in (*members, *nonmembers)]
        points = [min(means) - reach, max(means) + reach]
        return hockey_stick(lambda x: density(x, members), lambda x: density(x, nonmembers), mpf(epsilon), points)


def laplace_mixtures(scale: float, members: Mapping[float, float], nonmembers: Mapping[float, float], epsilon: float) -> mpf:
    """The same for Laplace noise: its densities have a corner at each mean."""
    with mp.workdps(DIGITS):
        b = mpf(scale)
        density = lambda x, weights: mp.fsum(  # noqa: E731
            mpf(w) * mp.exp(-abs(x - mpf(m)) / b) / (2 * b) for m, w in weights.items()
        )
        means = sorted({mpf(m) for m in (*members, *nonmembers)})
        points = [means[0] - 240 * b, *means, means[-1] + 240 * b]
        return hockey_stick(lambda x: density(x, members), lambda x: density(x, nonmembers), mpf(epsilon), points)


def sampled_gaussian_composed(
    noise: float, rate: float, steps: int, direction: str, epsilon: float, *, tilt: float, spread: float, log_size: float
) -> mpf:
    """The contour integral of `contour` at fifty digits: both integrals by trapezoids, converged far below 1e-40.

    Args:
        tilt, spread, log_size: of the saddle, to place nodes; they do not enter the result.
    """
    with mp.workdps(DIGITS):
        sigma, q, c, e = mpf(noise), mpf(rate), mpf(tilt), mpf(epsilon)
        span = 16 * mpf(spread) + (110 - mpf(log_size)) / c
        step = 2 * mp.pi / span
        last = int(20 / (mpf(spread) * step)) + 1
        width = sigma * min(sigma, 1) / (12 + last * step / 40)
        sign = 1 if direction == "remove" else -1
        nodes = []
        reach = int((16 * sigma + 1 + (c + 1 if sign > 0 else 0)) / width) + 1
        for place in range(-int(16 * sigma / width) - (0 if sign > 0 else int((c + 1) / width)), reach):
            x = place * width
            loss = mp.log1p(q * mp.expm1((2 * x - 1) / (2 * sigma**2)))
            density = mp.npdf(x, 0, sigma) * width
            nodes.append((sign * loss, density * mp.exp(loss) if sign > 0 else density))
        total = mpf(0)
        for place in range(last + 1):
            s = mpc(c, place * step)
            moment = mp.fsum(mass * mp.expm1(s * loss) for loss, mass in nodes)
            term = mp.exp(steps * mp.log(1 + moment) - s * e) / (s * (s + 1))
            total += term.real / (2 if place == 0 else 1)
        return total * step / mp.pi


def composed(parts: Sequence[tuple[Atoms, int]]) -> dict[mpf, mpf]:
    """Masses of the sum of independent atoms, by repeated squaring; equal losses (to 40 digits) are one."""
    total: dict[mpf, mpf] = {mpf(0): mpf(1)}
    for atoms, count in parts:
        square, remaining = dict(atoms), count
        while remaining:
            if remaining & 1:
                total = _sum_of(total, square)
            remaining >>= 1
            if remaining:
                square = _sum_of(square, square)
    return total


def _sum_of(first: Atoms, second: Atoms) -> dict[mpf, mpf]:
    result: dict[str, tuple[mpf, mpf]] = {}
    for loss, mass in first.items():
        for peer, weight in second.items():
            key = mp.nstr(loss + peer, 40) if abs(loss + peer) > mpf("1e-40") else "0"
            retained = result.get(key, (loss + peer, mpf(0)))
            result[key] = (retained[0], retained[1] + mass * weight)
    return dict(result.values())


def shifted_integers(log_mass: Callable[[int], mpf], change: int, reach: int) -> dict[mpf, mpf]:
    """Losses of noise on an integer against the same noise moved by `change`, each integer up to `reach` counted.

    Args:
        log_mass: logarithm of the chance of an integer, up to one constant; chances are summed to 1.
        reach: beyond which the mass is below 1e-50.
    """
    logs = {place: log_mass(place) for place in range(-reach - change, reach + 1)}
    total = mp.fsum(map(mp.exp, logs.values()))
    atoms: dict[str, tuple[mpf, mpf]] = {}
    for place in range(-reach, reach + 1):
        loss = logs[place] - logs[place - change]
        key = mp.nstr(loss, 40) if abs(loss) > mpf("1e-40") else "0"
        retained = atoms.get(key, (loss, mpf(0)))
        atoms[key] = (retained[0], retained[1] + mp.exp(logs[place]) / total)
    return dict(atoms.values())


def binomial_atoms(high: mpf, loss: mpf, count: int, low_loss: mpf | None = None) -> dict[mpf, mpf]:
    """Losses after `count` runs of a mechanism with two outcomes, `loss` with P-mass `high`."""
    peer = -loss if low_loss is None else low_loss
    return {
        k * loss + (count - k) * peer: mp.binomial(count, k) * high**k * (1 - high) ** (count - k) for k in range(count + 1)
    }


def delta_of_atoms(atoms: Atoms, epsilon: mpf) -> mpf:
    """Delta at `epsilon`: what each loss above it contributes."""
    return mp.fsum(
        mass * (-mp.expm1(epsilon - loss) if mp.isfinite(loss) else 1) for loss, mass in atoms.items() if loss > epsilon
    )


def group_curve(epsilon: float, delta: float, size: int) -> dict[mpf, mpf]:
    """Atoms of the curve of an (epsilon, delta)-DP mechanism under `size` changes: its power applied again and again.

    `g(a) = 1 - f(a)`, the largest power at level a, is concave and piecewise linear; `size` changes have the power
    `g(g(...g(a)))` (Dong, Roth, Su 2022, Theorem 2.14). Slopes are likelihood ratios, rises P-masses.
    """
    e, d = mpf(epsilon), mpf(delta)

    def power(a: mpf) -> mpf:
        return min(mpf(1), d + mp.exp(e) * a, 1 - mp.exp(-e) * (1 - d - a))

    def level(b: mpf) -> mpf:
        return max(mpf(0), (b - d) * mp.exp(-e), 1 - d - mp.exp(e) * (1 - b))

    kink = (1 - d) / (1 + mp.exp(e))
    corners = {mpf(0), mpf(1)}
    for start in (kink, 1 - d, mpf(0)):
        point = start
        for _ in range(size):
            if 0 <= point <= 1:
                corners.add(point)
            point = level(point)

    def all_changes(a: mpf) -> mpf:
        for _ in range(size):
            a = power(a)
        return a

    ordered = sorted(corners)
    atoms: dict[mpf, mpf] = {}
    if all_changes(mpf(0)) > 0:
        atoms[mp.inf] = all_changes(mpf(0))
    for first, right in pairwise(ordered):
        rise, run = all_changes(right) - all_changes(first), right - first
        if run > mpf("1e-45") and rise > mpf("1e-45"):
            loss = mp.log(rise / run)
            near = next((retained for retained in atoms if mp.isfinite(retained) and abs(retained - loss) < mpf("1e-30")), loss)
            atoms[near] = atoms.get(near, mpf(0)) + rise
    return atoms


def laplace_composed(parts: Sequence[tuple[Fraction, int]], epsilon: float, digits: int) -> mpf:
    """Delta of Laplace releases, each with its largest loss and a count, by an expansion into truncated powers.

    The loss of one release has P-mass `exp(loss / 2)` times a symmetric measure: atoms at both ends L and -L of weight
    `exp(-L / 2) / 2`, and density `exp(-L / 2) / 4` between. Sums of such measures are sums of `(loss - a)_+^(j - 1)`.
    """
    with mp.workdps(digits):
        terms: dict[tuple[Fraction, int], mpf] = {(Fraction(0), 0): mpf(1)}
        largest = Fraction(0)
        for top, count in parts:
            weight = mp.exp(-mpf(top.numerator) / top.denominator / 2)
            step = ((top, 0, weight / 2), (-top, 0, weight / 2), (-top, 1, weight / 4), (top, 1, -weight / 4))
            for _ in range(count):
                grown: dict[tuple[Fraction, int], mpf] = {}
                for (shift, order), value in terms.items():
                    for more, higher, factor in step:
                        key = (shift + more, order + higher)
                        grown[key] = grown.get(key, mpf(0)) + value * factor
                terms = grown
            largest += top * count
        end, e = mpf(largest.numerator) / largest.denominator, mpf(epsilon)
        total = mpf(0)
        for shift in {place for place, _ in terms}:
            start = mpf(shift.numerator) / shift.denominator
            orders = {order: value for (place, order), value in terms.items() if place == shift}
            if 0 in orders and start > e:
                total += orders[0] * (mp.exp(start / 2) - mp.exp(e - start / 2))
            rising, falling = (
                _power_integrals(start, max(start, e), end, rate, max(orders)) for rate in (mpf(1) / 2, -mpf(1) / 2)
            )
            total += mp.fsum(value * (rising[j] - mp.exp(e) * falling[j]) for j, value in orders.items() if j)
        return total


def _power_integrals(start: mpf, low: mpf, high: mpf, rate: mpf, most: int) -> list[mpf]:
    """Integrals of `exp(rate l) (l - start)^(j - 1) / (j - 1)!` from `low` to `high`, by parts; entry 0 is unused."""
    result = [mpf(0)]
    if low >= high:
        return [mpf(0)] * (most + 1)
    at_low, at_high, factorial = mpf(1), mpf(1), mpf(1)
    for j in range(1, most + 1):
        if j > 1:
            at_low, at_high, factorial = at_low * (low - start), at_high * (high - start), factorial * (j - 1)
        ends = (mp.exp(rate * high) * at_high - mp.exp(rate * low) * at_low) / factorial
        result.append((ends - (result[-1] if j > 1 else 0)) / rate)
    return result
