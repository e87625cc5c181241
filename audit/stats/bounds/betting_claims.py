"""Ordered claims as bets need them: lines that are nowhere below what each claim allows a threshold test."""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from audit.stats.arrays import Array
from audit.stats.curves import dp_sgd_curve, tradeoff
from audit.stats.curves.tradeoff import Rate, TradeoffCurve

RATES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5)  # where the lines touch the curve
EPSILON_STEP, LARGEST_EPSILON = 0.05, 12.0
MU_STEP, LARGEST_MU = 0.02, 8.0
NOISE_FACTORS = np.unique(
    np.concatenate([[1.0, 1.005, 1.01], 1.02 ** np.arange(1, 12), 1.05 ** np.arange(5, 15), 1.15 ** np.arange(5, 16)])
)
ABOVE = 1e-6  # relative distance of the claim that is bet against from the one that it refutes
OUTLINE = np.concatenate([[0.0], np.geomspace(1e-9, 0.5, 200), 1 - np.geomspace(0.5, 1e-9, 200)[1:], [1.0]])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hypotheses:
    """Ever weaker claims that are bet against side by side. They have to be fixed before the data.

    Attributes:
        epsilons: `(claims,)` what each proves when it is refuted, ascending.
        parameters: `(claims,)` of the family at each; `epsilons` again for (epsilon, delta)-DP.
        lines: `(2, 2, rates, claims)` slopes and intercepts of lines above each claim's curve, from either end of it.
    """

    epsilons: Array
    parameters: Array
    lines: Array

    def against(self, epsilon: float) -> int | None:
        """The first claim that, once refuted, proves more than `epsilon`; None if there is no such claim."""
        place = int(np.searchsorted(self.epsilons, epsilon, side="right"))
        return place if place < len(self.epsilons) else None


@functools.lru_cache(maxsize=16)
def any_mechanism(delta: float, claims: tuple[float, ...] = ()) -> Hypotheses:
    """(epsilon, delta)-DP for each epsilon of a grid, and just above each of those that are `claims`."""
    return pairs(_with(np.arange(0.0, LARGEST_EPSILON + 1e-9, EPSILON_STEP), claims), delta)


@functools.lru_cache(maxsize=16)
def along(path: Callable[[float], tuple[float, float]]) -> Hypotheses:
    """The pair of each parameter on a path of ever weaker (epsilon, delta) pairs, over the grid's epsilons at parameter 1."""
    parameters = np.arange(0.0, LARGEST_EPSILON + 1e-9, EPSILON_STEP) / max(path(1.0)[0], 1.0)
    epsilons, deltas = np.array([path(parameter) for parameter in parameters.tolist()]).T
    return replace(pairs(epsilons, deltas), epsilons=parameters, parameters=parameters)


def pairs(epsilons: Array, delta: float | Array) -> Hypotheses:
    """(epsilon, delta)-DP for each epsilon (and its delta); its curve is two lines, chosen at a rate as if delta were 0."""
    # left of 1 / (1 + e^epsilon), where both lines meet at delta 0
    steep = np.array(RATES)[:, None] * (1 + np.exp(epsilons)) <= 1
    odds = np.exp(-epsilons)
    slopes = np.where(steep, np.exp(epsilons), odds)
    intercepts = np.where(steep, delta, 1 - odds * (1 - delta))
    lines = np.stack([slopes, intercepts])[:, None].repeat(2, axis=1)
    return Hypotheses(epsilons=epsilons, parameters=epsilons, lines=lines)


@functools.lru_cache(maxsize=16)
def gaussian(delta: float, claims: tuple[float, ...] = ()) -> Hypotheses:
    """mu-GDP for each mu of a grid, and just above what each of the epsilons that are `claims` at delta leaves."""
    limits = tuple(tradeoff.gdp_mu(epsilon, delta) for epsilon in claims if math.isfinite(epsilon))
    mus = _with(np.arange(0.0, LARGEST_MU + 1e-9, MU_STEP), limits)
    epsilons = np.array([tradeoff.gdp_epsilon(mu, delta) for mu in mus.tolist()])
    return _hypotheses([tradeoff.gdp(mu) for mu in mus.tolist()], epsilons, mus)


@functools.lru_cache(maxsize=16)
def dp_sgd(noise_multiplier: float, sample_rate: float, steps: int, delta: float) -> Hypotheses:
    """DP-SGD with noise above and below the given one, which `parameters` are, from infinity (nothing leaks) down."""
    middle = max(noise_multiplier, dp_sgd_curve.LEAST_NOISE)
    noises = {*(middle * NOISE_FACTORS).tolist(), *(middle / NOISE_FACTORS).tolist()}
    usable_noises = sorted((noise for noise in noises if noise >= dp_sgd_curve.LEAST_NOISE), reverse=True)
    parameters = np.array([math.inf, *usable_noises])
    curves = [dp_sgd_curve.sgd(noise, sample_rate, steps) for noise in parameters.tolist()]
    floors = np.array([dp_sgd_curve.epsilon_floor(noise, sample_rate, steps, delta) for noise in parameters.tolist()])
    # `against` searches them, so they must not fall, though each is rounded alone
    return _hypotheses(curves, np.maximum.accumulate(floors), parameters)


def alone(curve: TradeoffCurve, epsilon: float) -> Hypotheses:
    """One claim; its refutation proves `epsilon`."""
    return _hypotheses([curve], np.array([epsilon]), np.array([epsilon]))


def _with(grid: Array, claims: Sequence[float]) -> Array:
    above = [epsilon * (1 + ABOVE) + ABOVE**2 for epsilon in claims if math.isfinite(epsilon)]
    return np.unique(np.concatenate([grid, above]))


def _hypotheses(curves: Sequence[TradeoffCurve], epsilons: Array, parameters: Array) -> Hypotheses:
    lines = np.array([[supporting_lines(curve.tpr), supporting_lines(curve.tnr)] for curve in curves])
    return Hypotheses(epsilons=epsilons, parameters=parameters, lines=lines.transpose(2, 1, 3, 0))


def supporting_lines(rate: Rate) -> Array:
    """`(2, rates)` slopes and intercepts of lines nowhere below a concave non-decreasing curve, close to it at each of
    `RATES`.

    A concave curve is below both neighbouring chords carried on, so the corners where these meet outline it from above.

    >>> supporting_lines(tradeoff.epsilon_delta(1.0, 1e-3).tpr)[:, 0].round(6).tolist()
    [2.718282, 0.001]
    """
    y = np.clip(rate(OUTLINE), 0.0, 1.0)
    x = OUTLINE
    chord = np.diff(y) / np.diff(x)
    before, after = chord[:-2], chord[2:]  # of the cells that have neighbours on both sides
    first, right = x[1:-2], x[2:-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        meet = (y[2:-1] - after * right - y[1:-2] + before * first) / (before - after)
    meet = np.clip(np.where(np.isfinite(meet), meet, right), first, right)
    above = np.maximum(y[1:-2] + before * (meet - first), y[2:-1] + after * (meet - right))
    ends = [y[1] - chord[1] * x[1], min(1.0, y[-2] + chord[-2] * (1 - x[-2]))]
    corners_x = np.concatenate([x, meet, [0.0, 1.0]])
    corners_y = np.concatenate([y, np.minimum(above, y[2:-1]), [min(ends[0], y[1]), ends[1]]])
    slopes = np.maximum(chord[np.searchsorted(x, RATES, side="right") - 1], 0.0)
    # the outline's highest corner along each slope: no line cuts the curve, however its slope was found
    intercepts = np.max(corners_y[:, None] - corners_x[:, None] * slopes, axis=0)
    return np.stack([slopes, np.maximum(intercepts, 0.0)])
