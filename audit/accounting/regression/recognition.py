"""Answers of an accountant held to its method, named or recognised by them (`fitting`).

A method that was named is held to on both sides. One that was recognised is only held to from below, and only if the answer is
not within a case's tolerance of the truth: an accountant may be better than its method, and take the better of two.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from audit.accounting.regression import methods
from audit.accounting.regression.fitting import ORDERS, is_sampled, recognise
from audit.accounting.regression.methods import EXACT, Method
from audit.accounting.regression.suite import CaseFinding, Result
from audit.core.errors import UnsupportedMechanism
from audit.core.rounding import plural
from audit.stats.curves import renyi

_FARTHEST = 0.8  # of the figure of a recognised method: what is lower was computed in another way
_SAME_MARGIN = 0.1  # spread of distances over their mean, if they are one margin above the truth
_CLEARLY = 0.5  # of the spread around a method: where answers follow another conversion and not that method
_CONVERSIONS_TRIED = 24  # answers by which other conversions are tried, each at so many chances of an outcome
_CHANCES, _HALVINGS = 160, 22


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodReport:
    """What the answers of an accountant are beside those of its method.

    Attributes:
        compared: answers for which the method says something.
        results: the answers that are not the method's, as findings of cases of the kind "method".
    """

    method: Method | None
    compared: int = 0
    results: tuple[Result, ...] = ()
    remark: str = ""


def compare(results: Sequence[Result], method: Method | None) -> MethodReport:
    """Return the answers of an accountant held to its method; to the one recognised if `method` is None.

    "rdp" without orders bounds answers from below only: what is recognised in them counts too, as if nothing were named.
    """
    answered = [result for result in results if _is_informative(result)]
    is_named = method is not None
    if method is None:
        method, is_partial = recognise(answered)
        answered = [result for result in answered if not is_partial or is_sampled(result.case.asks[0])]
    elif method.name == "rdp" and not method.orders:
        return _join(_compare(answered, method, is_named), compare(results, None))
    if method is None:
        remark = "no method was recognised in its answers; name it to have them held to what that method gives: --method rdp"
        return MethodReport(method=None, remark=remark if answered else "")
    return _compare(answered, method, is_named)


def _join(report: MethodReport, second: MethodReport) -> MethodReport:
    """Return what either finds, each answer once."""
    cases = {result.case.id for result in report.results}
    further = tuple(result for result in second.results if result.case.id not in cases)
    remark = f"{report.remark}; name orders= and conversion= to hold them to it on both sides"
    return dataclasses.replace(
        report, results=report.results + further, remark=f"{remark}. {second.remark}" if further else remark
    )


def _compare(answered: Sequence[Result], method: Method, is_named: bool) -> MethodReport:
    intervals = [(result, _interval(method, result, is_named)) for result in answered]
    compared = [(result, ends) for result, ends in intervals if ends is not None]
    floor = 0.0 if is_named else _FARTHEST  # further below is another method, of which an accountant may take the better one
    below = [
        (result, ends)
        for result, ends in compared
        if not ends[0] <= result.epsilon <= ends[1] and result.epsilon > floor * ends[0]
    ]
    if not is_named and (_follows_another_law(below, method.orders or ORDERS) or _is_mostly_true(method, answered, len(below))):
        below = []
    off = tuple(_finding(result, ends, method) for result, ends in below)
    return MethodReport(
        method=method, compared=len(compared), results=off, remark=_remark(method, is_named, len(compared), off)
    )


def _follows_another_law(below: Sequence[tuple[Result, methods.Interval]], orders: tuple[float, ...]) -> bool:
    """True if answers below a recognised method follow something else that is right.

    A mistake moves the method's own figures by about as much everywhere. The better of two methods keeps a share or a margin
    above the truth, and a better conversion follows the least epsilon that the divergences imply.
    """
    rows = [(result, ends[0]) for result, ends in below if 0 < result.case.upper < math.inf]
    if len(rows) < 2:
        return False
    from_method = float(np.std([math.log(result.epsilon / figure) for result, figure in rows]))
    from_truth = float(np.std([math.log(result.epsilon / result.case.upper) for result, _ in rows]))
    margins = np.array([result.epsilon - result.case.upper for result, _ in rows])
    if from_truth < from_method or np.std(margins) < _SAME_MARGIN * np.mean(margins):
        return True
    subset = [result for result, _ in rows][:: max(1, len(rows) // _CONVERSIONS_TRIED)]
    ratios = [math.log(result.epsilon / figure) for result in subset if (figure := _conversion_limit(result, orders)) > 0]
    return len(ratios) > 1 and float(np.std(ratios)) < _CLEARLY * from_method


def _conversion_limit(result: Result, order_list: tuple[float, ...]) -> float:
    """Return the least epsilon that divergences at these orders imply, by whatever conversion; 0 if they have no formula.

    Of two outcomes with chances p and q, all whose divergences are at most the release's, `log((p - delta) / q)` is needed.

    References: Asoodeh et al. 2020, arXiv 2008.06529.
    """
    question = result.case.asks[0]
    orders = np.array(order_list)[:, None]
    try:
        limits = (orders - 1) * methods.total_curve(question, order_list)[:, None]
    except (UnsupportedMechanism, ValueError):
        return 0.0
    delta = question.delta
    chances = delta + (1 - delta) * np.exp(np.linspace(math.log(delta / 100), -1e-9, _CHANCES))
    low, high = np.zeros(len(chances)), np.full(len(chances), 2 * result.epsilon + 1)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        log_seconds = np.log(chances - delta) - middle
        moments = np.logaddexp(
            orders * np.log(chances) + (1 - orders) * log_seconds,
            orders * np.log1p(-chances) + (1 - orders) * np.log1p(-np.exp(log_seconds)),
        )
        is_allowed = (moments <= limits).all(axis=0)
        low, high = np.where(is_allowed, middle, low), np.where(is_allowed, high, middle)
    return float(low.max())


def _is_mostly_true(method: Method, answered: Sequence[Result], count: int) -> bool:
    """True if more answers than `count` lie below a recognised method because they are the truth: those of another method."""
    exact = (result for result in answered if count and result.finding is CaseFinding.EXACT)
    ends = ((result, methods.expected(method, result.case.asks[0], (0.0, math.inf))) for result in exact)
    return sum(pair is not None and result.epsilon < pair[0] for result, pair in ends) > count


def _remark(method: Method, is_named: bool, compared: int, off: Sequence[Result]) -> str:
    if is_named and method.name == "none":
        return "no method was tested, as --method none asks: the answers are compared with the brackets alone"
    if is_named:
        figure = "at least what it gives" if method.name == "rdp" and not method.orders else "what it gives"
        part = f"{len(off)} of {plural(compared, 'answer')} are not" if off else f"{plural(compared, 'answer')} are"
        return f"held to {method}: {part} {figure}"
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
    ends = methods.expected(dataclasses.replace(method, orders=()), case.asks[0], truth)  # better orders than listed are right
    if ends is None or method.conversion == "improved" or is_sampled(case.asks[0]):
        return ends
    rho = float(methods.total_curve(case.asks[0], (2.0,))[0]) / 2
    return min(ends[0], _lemma_epsilon(rho, case.asks[0].delta)), math.inf


def _lemma_epsilon(rho: float, delta: float) -> float:
    """Return an epsilon of rho-zCDP that is below the classic conversion for small rho.

    References: Bun, Steinke 2016, arXiv 1605.02065, Lemma 3.6.
    """
    excess = math.log(math.pi * rho) / 2 - math.log(delta)
    return (rho + 2 * math.sqrt(rho * excess)) * (1 - EXACT) if excess > 0 else math.inf


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
