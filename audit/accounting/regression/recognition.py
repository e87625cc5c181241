"""Which method an accountant follows, by its answers; and its answers held to that method.

A method that was named is held to on both sides. One that was recognised is only held to from below, and only if the answer is
not within a case's tolerance of the truth: an accountant may be better than its method, and take the better of two.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import median

import numpy as np

from audit.accounting.regression import methods
from audit.accounting.regression.methods import EXACT, GRIDS, Method
from audit.accounting.regression.suite import CaseFinding, Result
from audit.core.adjacency import Adjacency
from audit.core.errors import UnsupportedMechanism
from audit.core.event_reading import phases
from audit.core.rounding import plural
from audit.stats.curves import renyi

_SAMPLED, _CANDIDATES = 10, 5  # questions about sampled releases by which the lists of orders that fit best are told apart
_FEWEST, _SHARE = 8, 0.1  # answers that have to agree before a method is taken for recognised
_NEAR = 3e-3  # what a list of orders that we do not know may cost
_LEAST_FACTOR, _FACTORS = 1e-5, 24
_FARTHEST = 0.8  # of the figure of a recognised method: what is lower was computed in another way
_SLIGHT = 0.6  # of the answers, that have to fit if none of them agrees


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodReport:
    """What the answers of an accountant are beside those of its method.

    Attributes:
        method: named, or recognised; None if neither.
        compared: answers for which the method says something.
        results: the answers that are not the method's, as findings of cases of the kind "method".
        remark: one sentence for the reader.
    """

    method: Method | None
    compared: int = 0
    results: tuple[Result, ...] = ()
    remark: str = ""


def compare(results: Sequence[Result], method: Method | None) -> MethodReport:
    """Return the answers of an accountant held to its method; to the one recognised if `method` is None."""
    answered = [result for result in results if _is_informative(result)]
    is_named = method is not None
    if method is None:
        method = recognise(answered)
    elif method.name == "rdp" and not method.orders:
        known = recognise(answered)
        if known is not None and known.orders and not known.note and known.conversion == method.conversion:
            method = dataclasses.replace(method, orders=known.orders, note="orders by its answers")
    if method is None:
        remark = "no method was recognised in its answers; name it to have them held to what that method gives: --method rdp"
        return MethodReport(method=None, remark=remark if answered else "")
    intervals = [(result, _interval(method, result, is_named)) for result in answered]
    compared = [(result, ends) for result, ends in intervals if ends is not None]
    floor = 0.0 if is_named else _FARTHEST  # further below is another method, of which an accountant may take the better one
    below = [
        (result, ends)
        for result, ends in compared
        if not ends[0] <= result.epsilon <= ends[1] and result.epsilon > floor * ends[0]
    ]
    if not is_named and (_is_beside_the_truth(below) or _is_mostly_true(method, answered, len(below))):
        below = []
    off = tuple(_finding(result, ends, method) for result, ends in below)
    return MethodReport(
        method=method, compared=len(compared), results=off, remark=_remark(method, is_named, len(compared), off)
    )


def _is_beside_the_truth(below: Sequence[tuple[Result, methods.Interval]]) -> bool:
    """True if answers below a recognised method keep their distance to the truth more evenly than to the method.

    A mistake moves the method's own figures by about as much everywhere; the better of two methods follows the second one.
    """
    from_truth = [math.log(result.epsilon / result.case.upper) for result, _ in below if 0 < result.case.upper < math.inf]
    from_method = [math.log(result.epsilon / ends[0]) for result, ends in below]
    return len(from_truth) > 1 and float(np.std(from_truth)) < float(np.std(from_method))


def _is_mostly_true(method: Method, answered: Sequence[Result], count: int) -> bool:
    """True if more answers than `count` lie below a recognised method because they are the truth: those of another method."""
    exact = (result for result in answered if count and result.finding is CaseFinding.EXACT)
    ends = ((result, methods.expected(method, result.case.asks[0], (0.0, math.inf))) for result in exact)
    return sum(pair is not None and result.epsilon < pair[0] for result, pair in ends) > count


def _remark(method: Method, is_named: bool, compared: int, off: Sequence[Result]) -> str:
    if is_named:
        note = f" ({method.note})" if method.note else ""
        alternatives = (
            f"{len(off)} of {plural(compared, 'answer')} are not what it gives"
            if off
            else f"{plural(compared, 'answer')} are what it gives"
        )
        return f"held to {method}{note}: {alternatives}"
    part = f"{len(off)} are below what it can give" if off else "none is below what it can give"
    return (
        f"{method.note}: {method}; of {plural(compared, 'answer')} {part}. Name it (--method) to hold them to it on both sides"
    )


def _is_informative(result: Result) -> bool:
    return result.case.kind == "bracket" and 0 < result.epsilon < math.inf


def _interval(method: Method, result: Result, is_named: bool) -> methods.Interval | None:
    case = result.case
    truth = case.lower, case.upper
    if is_named:
        return methods.expected(method, case.asks[0], truth, result.epsilon)
    if result.finding is CaseFinding.EXACT:
        return None
    usual = dataclasses.replace(method, orders=method.orders or renyi.ORDERS)
    ends = methods.expected(usual, case.asks[0], truth)
    if ends is None or result.epsilon >= ends[0]:
        return ends if ends is None else (ends[0], math.inf)
    return methods.expected(dataclasses.replace(method, orders=()), case.asks[0], truth)  # better orders than listed are right


def _finding(result: Result, ends: methods.Interval, method: Method) -> Result:
    nearest = ends[0] if result.epsilon < ends[0] else ends[1]
    difference = result.epsilon / nearest - 1
    bound = "at least " if math.isinf(ends[1]) else ""
    case = result.case
    case = dataclasses.replace(
        case,
        id=f"method-{result.case.id}",
        kind="method",
        group=f"method {method.name}",
        reason=f"{method} gives {bound}{nearest:.9g} here; the truth is in [{case.lower:.9g}, {case.upper:.9g}]",
        catches="an accountant that does not compute what its method gives",
        lower=ends[0],
        upper=ends[1],
    )
    message = f"claims {result.epsilon:.9g}; {method} gives {bound}{nearest:.9g} ({100 * difference:+.3g} %)"
    return dataclasses.replace(result, case=case, finding=CaseFinding.WRONG, factor=1 + difference, message=message)


@dataclass(frozen=True, slots=True)
class _Probe:
    """An answer to a question about Gaussian releases without sampling: their zCDP parameter, and what was claimed."""

    rho: float
    delta: float
    epsilon: float


def recognise(results: Sequence[Result]) -> Method | None:
    """Return the method that the answers agree with, in most cases or up to one constant factor; None if there is none."""
    full, subsampling = _split(results)
    ranking = sorted(_agreements(full, subsampling), key=lambda row: -row[0])
    if ranking and ranking[0][0] >= max(_FEWEST, _SHARE * len(full)):
        return ranking[0][1]
    for conversion in ("improved", "classic"):
        ratios = [probe.epsilon / epsilon for probe in full if (epsilon := _limit(probe, conversion)) > 0]
        if len(ratios) >= _FEWEST and sum(1 - 1e-7 <= ratio <= 1 + _NEAR for ratio in ratios) >= _SLIGHT * len(ratios):
            return Method(name="rdp", conversion=conversion, note="recognised by its answers, with orders of its own")
    bases = [Method(name="rdp"), Method(name="rdp", conversion="classic"), methods.make("moments")]
    scaling = [fit for base in bases if (fit := _find_factor(full, base)) is not None]
    return min(scaling, key=lambda fit: fit[0])[1] if scaling else None


def _split(results: Sequence[Result]) -> tuple[list[_Probe], list[Result]]:
    full, subsampling = [], []
    for result in results:
        ask = result.case.asks[0]
        try:
            parts = phases(ask.event)
        except UnsupportedMechanism:
            continue
        if ask.adjacency is Adjacency.REPLACE_ONE or any(steps == 0 or noise == 0 for noise, _, steps in parts):
            continue
        if all(rate == 1 for _, rate, _ in parts):
            rho = sum(steps / (2 * float(noise) ** 2) for noise, _, steps in parts)
            full.append(_Probe(rho, ask.delta, result.epsilon))
        elif len(parts) == 1 and 0.3 <= parts[0][0] <= 20 and parts[0][1] >= 1e-4:
            subsampling.append(result)
    return full, subsampling


def _agreements(full: Sequence[_Probe], samples: Sequence[Result]) -> Iterator[tuple[int, Method]]:
    """Yield how many answers are those of each list of orders and conversion; sampled ones only of lists that agree without."""
    candidates = []
    for conversion, (name, orders) in product(("improved", "classic"), GRIDS.items()):
        kind = "moments" if (name, conversion) == ("2..33", "classic") else "rdp"
        method = Method(name=kind, orders=tuple(orders), conversion=conversion, note="recognised by its answers")
        candidates.append((sum(_is_same(probe.epsilon, _by_orders(probe, method)) for probe in full), method))
    probes = samples[:: max(1, len(samples) // _SAMPLED)]
    for count, method in sorted(candidates, key=lambda row: -row[0])[:_CANDIDATES]:
        if count < _FEWEST:
            return
        ends = (methods.expected(method, result.case.asks[0], (0.0, math.inf)) for result in probes)
        matches = (pair is not None and pair[0] <= result.epsilon <= pair[1] for result, pair in zip(probes, ends, strict=True))
        yield count + sum(matches), method


def _is_same(first: float, second: float) -> bool:
    return abs(first - second) <= EXACT * second


def _by_orders(probe: _Probe, method: Method) -> float:
    convert: Callable[..., tuple[float, float]] = (
        renyi.epsilon_improved if method.conversion == "improved" else renyi.epsilon_classic
    )
    return convert(method.orders, (probe.rho * np.array(method.orders)).tolist(), probe.delta)[0]


def _limit(probe: _Probe, conversion: str) -> float:
    """The epsilon of zCDP: of every order."""
    if conversion == "classic":
        return probe.rho + 2 * math.sqrt(probe.rho * -math.log(probe.delta))
    return renyi.zcdp_epsilon(probe.rho, probe.delta)


def _find_factor(full: Sequence[_Probe], method: Method) -> tuple[float, Method] | None:
    """Return a method with noise, delta or epsilon a constant factor from the question, and how far answers are from it.

    None if no factor fits most answers.
    """

    def epsilon(probe: _Probe) -> float:
        return _by_orders(probe, method) if method.orders else _limit(probe, method.conversion)

    kinds: tuple[tuple[str, float, Callable[[_Probe, float], float]], ...] = (
        ("noise", 1.0, lambda probe, log: epsilon(dataclasses.replace(probe, rho=probe.rho * math.exp(-2 * log)))),
        (
            "delta",
            3.0,
            lambda probe, log: epsilon(dataclasses.replace(probe, delta=min(probe.delta * math.exp(log), 1 - 1e-9))),
        ),
        ("epsilon", 1.0, lambda probe, log: epsilon(probe) * math.exp(-log)),
    )
    usual = [probe for probe in full if probe.rho < 50][:_FACTORS]
    fits = []
    for name, limit, change in kinds:
        factors = [factor for probe in usual if (factor := _solve(change, probe, limit)) is not None]
        if len(factors) < max(_FEWEST, _SLIGHT * len(usual)):
            continue
        middle = median(factors)
        residuals = [abs(probe.epsilon / change(probe, middle) - 1) for probe in usual if change(probe, middle) > 0]
        if sum(residual <= _NEAR for residual in residuals) >= _SLIGHT * len(usual) and middle > _LEAST_FACTOR:
            times = math.exp(-middle if name == "epsilon" else middle)
            alternative = f", or {1 / times**2:.4g} times the steps" if name == "noise" else ""
            note = f"recognised: its answers are those at about {times:.4g} times the {name}{alternative}"
            fits.append((median(residuals), dataclasses.replace(method, note=note)))
    return min(fits, key=lambda fit: fit[0], default=None)


def _solve(change: Callable[[_Probe, float], float], probe: _Probe, limit: float) -> float | None:
    low, high = -limit, limit
    if not change(probe, high) <= probe.epsilon <= change(probe, low):
        return None
    for _ in range(24):
        middle = (low + high) / 2
        low, high = (middle, high) if change(probe, middle) > probe.epsilon else (low, middle)
    return (low + high) / 2
