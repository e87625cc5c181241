"""The method that answers fit: one of known orders, of orders of its own, or a known one up to a factor or a slow drift.

Releases without sampling are looked at first, since their figure depends on one number; sampled ones if those fit nothing.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from statistics import median

import numpy as np
from numpy.typing import NDArray

from audit.accounting.regression import methods
from audit.accounting.regression.methods import CONVERSIONS, EXACT, GRIDS, Method
from audit.accounting.regression.suite import ClaimQuestion, Result
from audit.core.adjacency import Adjacency
from audit.core.errors import UnsupportedMechanism
from audit.core.event_reading import phases
from audit.stats.curves import renyi

_SAMPLES, _CANDIDATES = 10, 5  # questions about sampled releases by which the lists of orders that fit best are told apart
_FEWEST, _SHARE = 8, 0.1  # answers that have to agree before a method is taken for recognised
_NEAR = 3e-3  # what a list of orders that we do not know may cost
_BELOW = 1e-4  # what our own list of every order may cost for a sampled release
_LEAST_FACTOR, _FACTORS = 1e-5, 24
_SLIGHT = 0.6  # of the answers, that have to fit if none of them agrees
_DRIFT, _EVENLY, _NEAR_SHARE = 0.04, 0.3, 0.8  # logarithm of a drift; its spread over that to the truth; of the answers
_PROBES = 48  # sampled releases that are looked at
_FRACTIONS = (1 + np.exp(np.linspace(math.log(1e-2), math.log(60), 120))).tolist()
_WHOLE = np.round(np.exp(np.linspace(math.log(60), math.log(4096), 80))).tolist()
ORDERS = tuple(sorted({*_FRACTIONS, *_WHOLE, *renyi.WHOLE_ORDERS}))
"""Every order, as far as sampled releases need it."""


@dataclass(frozen=True, slots=True)
class _Probe:
    """An answer about Gaussian releases: what was asked and claimed, the truth, and zCDP's rho if nothing is sampled."""

    question: ClaimQuestion
    epsilon: float
    truth: float
    rho: float | None

    def by_orders(self, method: Method, times: float = 1.0, delta: float | None = None) -> float:
        """Epsilon of a method with orders, of a release of so many times the divergences."""
        curve = times * (np.array(method.orders) * self.rho if self.rho is not None else _curve(self.question, method.orders))
        return CONVERSIONS[method.conversion](method.orders, curve.tolist(), delta or self.question.delta)[0]

    def by(self, method: Method, times: float = 1.0, delta: float | None = None) -> float:
        if method.orders:
            return self.by_orders(method, times, delta)
        if self.rho is None:
            return self.by_orders(dataclasses.replace(method, orders=ORDERS), times, delta)
        rho, delta = times * self.rho, delta or self.question.delta
        classic = rho + 2 * math.sqrt(rho * -math.log(delta))
        return classic if method.conversion == "classic" else renyi.zcdp_epsilon(rho, delta)


@lru_cache(maxsize=2048)
def _curve(question: ClaimQuestion, orders: tuple[float, ...]) -> NDArray[np.float64]:
    return methods.total_curve(question, orders)


def is_sampled(question: ClaimQuestion) -> bool:
    """Return whether a question is about one phase of Poisson batches; False also for what is no DP-SGD."""
    try:
        parts = phases(question.event)
    except UnsupportedMechanism:
        return False
    return any(rate < 1 for _, rate, _ in parts)


def recognise(results: Sequence[Result]) -> tuple[Method | None, bool]:
    """Return the method that the answers agree with, in most cases or up to a factor or drift; None if there is none.

    Also whether only answers about sampled releases do.
    """
    full, samples = _split(results)
    groups = [group for group in (full, samples) if len(group) >= _FEWEST]
    for find in (_match_listed_orders, _match_own_orders, _find_factor, _find_drift):
        for group in groups:
            method = find(group, samples if group is full else [])
            if method is not None:
                return method, group is samples
    return None, False


def _split(results: Sequence[Result]) -> tuple[list[_Probe], list[_Probe]]:
    full, samples = [], []
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
            full.append(_Probe(ask, result.epsilon, result.case.upper, rho))
        elif len(parts) == 1 and 0.3 <= parts[0][0] <= 20 and parts[0][1] >= 1e-4:
            samples.append(_Probe(ask, result.epsilon, result.case.upper, None))
    return full, samples


def _spread_over(probes: Sequence[_Probe], count: int) -> Sequence[_Probe]:
    return probes[:: max(1, len(probes) // count)]


def _match_listed_orders(group: Sequence[_Probe], samples: Sequence[_Probe]) -> Method | None:
    probes = group if group[0].rho is not None else _spread_over(group, _PROBES)
    ranking = sorted(_agreements(probes, _spread_over(samples, _SAMPLES)), key=lambda row: -row[0])
    return ranking[0][1] if ranking and ranking[0][0] >= max(_FEWEST, _SHARE * len(probes)) else None


def _agreements(probes: Sequence[_Probe], samples: Sequence[_Probe]) -> Iterator[tuple[int, Method]]:
    """Yield how many answers are those of each list of orders and conversion; `samples` only of lists that agree without."""
    candidates = []
    for conversion, (name, orders) in product(CONVERSIONS, GRIDS.items()):
        kind = "moments" if (name, conversion) == ("2..33", "classic") else "rdp"
        method = Method(name=kind, orders=tuple(orders), conversion=conversion, note="recognised by its answers")
        candidates.append((sum(map(method_fits(method), probes)), method))
    for count, method in sorted(candidates, key=lambda row: -row[0])[:_CANDIDATES]:
        if count < _FEWEST:
            return
        yield count + sum(map(method_fits(method), samples)), method


def method_fits(method: Method) -> Callable[[_Probe], bool]:
    def fits(probe: _Probe) -> bool:
        figure = probe.by_orders(method)
        return abs(probe.epsilon - figure) <= EXACT * figure

    return fits


def _match_own_orders(group: Sequence[_Probe], _: Sequence[_Probe]) -> Method | None:
    probes = _spread_over(group, _PROBES)
    for conversion in CONVERSIONS:
        method = Method(name="rdp", conversion=conversion, note="recognised by its answers, with orders of its own")
        ratios = [probe.epsilon / figure for probe in probes if (figure := probe.by(method)) > 0]
        if len(ratios) >= _FEWEST and sum(1 - _BELOW <= ratio <= 1 + _NEAR for ratio in ratios) >= _SLIGHT * len(ratios):
            return method
    return None


def _find_drift(group: Sequence[_Probe], _: Sequence[_Probe]) -> Method | None:
    """Return a method near which the answers stay, while what it gives moves away from the truth by more."""
    fits = []
    for conversion in CONVERSIONS:
        method = Method(name="rdp", conversion=conversion)
        rows = [(probe, probe.by(method)) for probe in _spread_over(group, _PROBES) if probe.truth > 0]
        drifts = np.array([math.log(probe.epsilon / figure) for probe, figure in rows if figure > 0])
        looseness = np.array([math.log(probe.epsilon / probe.truth) for probe, figure in rows if figure > 0])
        near = abs(drifts) <= _DRIFT
        if near.sum() < max(_FEWEST, _NEAR_SHARE * len(drifts)):
            continue
        spread, ends = float(np.std(drifts[near])), np.expm1(drifts[near])
        if spread <= _EVENLY * float(np.std(looseness[near])):
            note = f"recognised: its answers are {ends.min():+.2%} to {ends.max():+.2%} from it"
            fits.append((spread, dataclasses.replace(method, note=note)))
    return min(fits, key=lambda fit: fit[0])[1] if fits else None


def _find_factor(group: Sequence[_Probe], _: Sequence[_Probe]) -> Method | None:
    bases = [Method(name="rdp"), Method(name="rdp", conversion="classic"), methods.make("moments")]
    fits = [fit for base in bases if (fit := _fit_factor(group, base)) is not None]
    return min(fits, key=lambda fit: fit[0])[1] if fits else None


def _fit_factor(group: Sequence[_Probe], method: Method) -> tuple[float, Method] | None:
    """Return a method with noise, delta or epsilon a constant factor from the question, and how far answers are from it.

    None if no factor fits most answers.
    """
    kinds: tuple[tuple[str, float, Callable[[_Probe, float], float]], ...] = (
        # divergences fall with the square of the noise
        ("noise", 1.0, lambda probe, log: probe.by(method, times=math.exp(-2 * log))),
        ("delta", 3.0, lambda probe, log: probe.by(method, delta=min(probe.question.delta * math.exp(log), 1 - 1e-9))),
        ("epsilon", 1.0, lambda probe, log: probe.by(method) * math.exp(-log)),
    )
    usual = [probe for probe in _spread_over(group, _PROBES) if probe.rho is None or probe.rho < 50][:_FACTORS]
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
