"""Figures of the external edition with as many digits as its pages print.

A figure with all its digits is an equation for the memberships: whoever can score the records finds by lattice reduction
which of a few dozen of them have that mean, and by trial which have that sum of ranks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from audit.core.claims import Claim
from audit.core.evaluation import Calibrated, Evaluation, Spread, UsageSpread
from audit.core.game_results import AttackResult, GroupResult, GuessResult
from audit.core.lower_bounds import (
    ReportedBound,
    ReportedTrajectory,
    read_ceiling,
    read_course,
    read_epsilon,
    replace_course,
    replace_figures,
)
from reports.editions.thresholds import SMALLEST_GROUP

DIGITS = 3  # decimals of areas and rates
EPSILON_DIGITS = 2  # decimals of an epsilon


def epsilon(value: float, limits: Sequence[float] = ()) -> float:
    """An epsilon cut to the decimals that pages print, so that a bound stays one; to more of them where a limit lies between.

    >>> epsilon(2.0561), epsilon(2.0561, [2.05]), epsilon(2.0561, [2.051])
    (2.05, 2.056, 2.056)
    """
    if not math.isfinite(value):
        return value
    cuts = (_cut(value, digits, ROUND_FLOOR) for digits in range(EPSILON_DIGITS, 2 * EPSILON_DIGITS + 5))
    return next((cut for cut in cuts if not any(cut <= limit < value for limit in limits)), value)


def bound(result: ReportedBound, claims: Sequence[Claim]) -> ReportedBound:
    """The bound with an epsilon and a ceiling that lie on the same sides of all claims."""
    limits = [claim.epsilon for claim in claims]
    figures = (epsilon(read_epsilon(result), limits), epsilon(read_ceiling(result), limits))
    return replace(replace_figures(result, *figures), parameter=None, seed=None)


def trajectory(curve: ReportedTrajectory) -> ReportedTrajectory:
    """The course of bounds with epsilons cut to the decimals that pages print."""
    return replace_course(curve, tuple(epsilon(value) for value in read_course(curve)))


def attack(result: AttackResult, claims: Sequence[Claim]) -> AttackResult:
    """The attack with rounded areas, estimates and bounds."""
    return replace(
        result,
        auc=round(result.auc, DIGITS),
        auc_lower=_down(result.auc_lower),
        auc_upper=_up(result.auc_upper),
        bounds=tuple(bound(lower, claims) for lower in result.bounds),
        estimates=tuple(replace(figure, epsilon=_near(figure.epsilon)) for figure in result.estimates),
        guesses=None if result.guesses is None else _guesses(result.guesses),
    )


def _guesses(result: GuessResult) -> GuessResult:
    """The row with a rounded exposure, the mean of the ranks of secrets."""
    return replace(result, exposure=None if result.exposure is None else _near(result.exposure))


def group(result: GroupResult) -> GroupResult:
    """The row with rounded areas; without them where few pairs of records are in the wrong order, or few in the right one."""
    if result.auc is None:
        return result
    pairs = result.members * result.nonmembers
    if min(result.auc, 1 - result.auc) * pairs < SMALLEST_GROUP:
        return replace(result, auc=None, auc_lower=None, auc_upper=None)
    return replace(
        result,
        auc=round(result.auc, DIGITS),
        auc_lower=None if result.auc_lower is None else _down(result.auc_lower),
        auc_upper=None if result.auc_upper is None else _up(result.auc_upper),
    )


def evaluation(result: Evaluation) -> Evaluation:
    """The figures over all models, rounded; without the answers on members and nonmembers of one of them, which are few."""
    return replace(
        result,
        scorers=tuple(replace(row, figures=_spreads(row.figures)) for row in result.scorers),
        thresholds=tuple(_calibration(row) for row in result.thresholds),
        groups=tuple(replace(row, auc=_spread(row.auc)) for row in result.groups),
        units=tuple(replace(row, figures=_spreads(row.figures)) for row in result.units),
        reproducibility=None if result.reproducibility is None else round(result.reproducibility, DIGITS),
        fidelity=None,
        usage=None if result.usage is None else _usage(result.usage),
    )


def _usage(spread: UsageSpread) -> UsageSpread:
    target = spread.target
    share = None if target.share is None else round(target.share, DIGITS)
    return replace(
        spread,
        target=replace(target, share=share, lower=_down(target.lower), upper=_up(target.upper)),
        truth=round(spread.truth, DIGITS),
        error=None if spread.error is None else round(spread.error, DIGITS),
        covered=round(spread.covered, DIGITS),
    )


def _calibration(row: Calibrated) -> Calibrated:
    precision = None if row.precision is None else round(row.precision, DIGITS)
    return replace(row, realised_fpr=round(row.realised_fpr, DIGITS), tpr=round(row.tpr, DIGITS), precision=precision)


def _spreads(figures: Sequence[Spread]) -> tuple[Spread, ...]:
    return tuple(_spread(figure) for figure in figures)


def _spread(figure: Spread) -> Spread:
    values = {name: round(getattr(figure, name), DIGITS) for name in ("mean", "std", "lowest", "highest")}
    return replace(figure, **values)


def _near(value: float) -> float:
    return round(value, EPSILON_DIGITS) if math.isfinite(value) else value


def _down(value: float) -> float:
    return _cut(value, DIGITS, ROUND_FLOOR)


def _up(value: float) -> float:
    return _cut(value, DIGITS, ROUND_CEILING)


def _cut(value: float, digits: int, rounding: str) -> float:
    """The decimal number beside `value` on one side, or itself where it has no more digits."""
    return float(Decimal(repr(value)).quantize(Decimal(1).scaleb(-digits), rounding=rounding))
