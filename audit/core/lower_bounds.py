"""What scores prove, as three types: of any mechanism, inside a family only, and void. Only the first has an `epsilon`.

A report holds each bound under the type of its condition, so that no reader can print one without it: a bound inside a
family has `epsilon_inside`, a void one `void_epsilon`. Estimators return a `LowerBound`, with a family if it needs one;
`audit.experiment.line.judge` gives every bound its type, once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TypeVar

from audit.core.errors import DataError
from audit.core.game import Assumption


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonTerms:
    """What every bound comes with, whatever it holds for.

    Attributes:
        confidence: of this bound on its own, after the report's error budget was split.
        comparisons: size of the family of thresholds or guess counts searched, fixed before the data.
        assumes: what the game had to grant.
        parameter: the family's parameter at the bound (mu of GDP, noise multiplier of DP-SGD), or None.
        selected: what the search ended on, in words.
        seed: of the estimator's own draws, which the numbers of scores fix; None if it draws nothing.
    """

    delta: float
    confidence: float
    estimator: str
    comparisons: int
    assumes: tuple[Assumption, ...]
    parameter: float | None = None
    selected: str = ""
    seed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LowerBound(CommonTerms):
    """What the scores prove: epsilon is at least this, except with probability 1 - confidence.

    Attributes:
        epsilon: the bound, 0 if nothing is proved; never above `ceiling`.
        ceiling: the largest epsilon that scores could prove in this game; perfect ones with a wide gap between the sides do.
        family: None if the bound holds for any mechanism, as it does in every report; else, as an estimator returns it, the
            trade-off family ("gdp", "dp_sgd") inside which it holds. A report holds such a bound as a `FamilyBound`.
    """

    epsilon: float
    ceiling: float
    family: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyBound(CommonTerms):
    """What scores prove, and could have proved, inside one family ("gdp", "dp_sgd"), and nothing of other mechanisms."""

    family: str
    epsilon_inside: float
    ceiling_inside: float


@dataclass(frozen=True, slots=True, kw_only=True)
class VoidBound(CommonTerms):
    """A bound of an audit that failed its own checks: what would have been proved, had they held. It proves nothing."""

    void_epsilon: float
    void_ceiling: float
    family: str | None = None


ReportedBound = LowerBound | FamilyBound | VoidBound  # a bound as a report holds it
Bound = TypeVar("Bound", bound=ReportedBound)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundTrajectory:
    """Proven epsilon over steps (white-box games), beside the accountants' `Trajectory`."""

    label: str
    steps: tuple[int, ...]
    epsilon: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyTrajectory:
    """Epsilon over steps that is proven inside a family only."""

    label: str
    steps: tuple[int, ...]
    family: str
    epsilon_inside: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VoidTrajectory:
    """Epsilon over steps of an audit that failed its own checks; it proves nothing."""

    label: str
    steps: tuple[int, ...]
    void_epsilon: tuple[float, ...]
    family: str | None = None


ReportedTrajectory = BoundTrajectory | FamilyTrajectory | VoidTrajectory  # a course of bounds as a report holds it


def read_epsilon(bound: ReportedBound) -> float:
    """Return the figure of a bound of any type, for order and drawings; whoever prints it names the bound's condition."""
    match bound:
        case FamilyBound():
            return bound.epsilon_inside
        case VoidBound():
            return bound.void_epsilon
    return bound.epsilon


def read_ceiling(bound: ReportedBound) -> float:
    """Return the ceiling of a bound of any type, which holds under the same condition as the bound."""
    match bound:
        case FamilyBound():
            return bound.ceiling_inside
        case VoidBound():
            return bound.void_ceiling
    return bound.ceiling


def largest_bound(bounds: Iterable[Bound]) -> Bound | None:
    """Return the bound with the largest figure, of equal ones that with the highest ceiling; None if there is none."""
    return max(bounds, key=lambda bound: (read_epsilon(bound), read_ceiling(bound)), default=None)


def read_course(curve: ReportedTrajectory) -> tuple[float, ...]:
    """Return the figures of a course of bounds of any type, for drawings; whoever prints one names its condition."""
    match curve:
        case FamilyTrajectory():
            return curve.epsilon_inside
        case VoidTrajectory():
            return curve.void_epsilon
    return curve.epsilon


def report_bound(bound: ReportedBound, *, void: bool = False) -> ReportedBound:
    """Return the bound under the type of its condition; what is void stays void.

    >>> terms = {"delta": 0.0, "confidence": 0.95, "estimator": "e", "comparisons": 1, "assumes": ()}
    >>> report_bound(LowerBound(epsilon=6.58, ceiling=50.2, family="dp_sgd", **terms)).epsilon_inside
    6.58
    >>> type(report_bound(LowerBound(epsilon=3.3, ceiling=5.8, **terms), void=True)).__name__
    'VoidBound'
    """
    terms = {field.name: getattr(bound, field.name) for field in fields(CommonTerms)}
    epsilon, ceiling = read_epsilon(bound), read_ceiling(bound)
    if void or isinstance(bound, VoidBound):
        return VoidBound(void_epsilon=epsilon, void_ceiling=ceiling, family=bound.family, **terms)
    if bound.family is not None:
        return FamilyBound(epsilon_inside=epsilon, ceiling_inside=ceiling, family=bound.family, **terms)
    return LowerBound(epsilon=epsilon, ceiling=ceiling, **terms)


def report_trajectory(curve: ReportedTrajectory, family: str | None, *, void: bool = False) -> ReportedTrajectory:
    """Return the course of bounds under the type of its condition."""
    if void:
        return VoidTrajectory(label=curve.label, steps=curve.steps, void_epsilon=read_course(curve), family=family)
    if family is not None:
        return FamilyTrajectory(label=curve.label, steps=curve.steps, epsilon_inside=read_course(curve), family=family)
    return curve


def require_reported(bounds: tuple[ReportedBound, ...], owner: str, *, void: bool) -> None:
    """Raise `DataError` for a bound of a training that does not have the type of its condition, void or not."""
    type_names = "VoidBound" if void else "LowerBound without a family, or FamilyBound"
    for bound in bounds:
        if isinstance(bound, VoidBound) is void and not (isinstance(bound, LowerBound) and bound.family is not None):
            continue
        raise DataError(
            f"training '{owner}': the bound of {bound.estimator} is a {type(bound).__name__}"
            f"{'' if bound.family is None else f' of the family {bound.family!r}'} in an audit that is "
            f"{'void' if void else 'not void'}; expected {type_names}, as audit.experiment.line.judge.conclude makes them"
        )


def require_courses(curves: tuple[ReportedTrajectory, ...], owner: str, *, void: bool) -> None:
    """Raise `DataError` for a course of bounds that is void where that training's audit is not, or the reverse."""
    for curve in curves:
        if isinstance(curve, VoidTrajectory) is not void:
            raise DataError(
                f"training '{owner}': the course '{curve.label}' is a {type(curve).__name__} in an audit that is "
                f"{'void' if void else 'not void'}; make it by report_trajectory(..., void={void})"
            )
