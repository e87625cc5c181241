"""A lower bound in English words, always with the condition that it holds under."""

from __future__ import annotations

from audit.core.lower_bounds import FamilyBound, LowerBound, ReportedBound, VoidBound, read_ceiling
from audit.core.rounding import down


def name_condition(bound: ReportedBound) -> str:
    """Return for which mechanisms a bound holds."""
    if isinstance(bound, VoidBound):
        return "none: void"
    return "any mechanism" if bound.family is None else f"the family {bound.family} only"


def show_figure(bound: ReportedBound) -> str:
    """Return the figure of a bound with its condition."""
    match bound:
        case VoidBound():
            return f"void: {down(bound.void_epsilon)}"
        case FamilyBound():
            return f"{down(bound.epsilon_inside)} inside {bound.family} only"
    return down(bound.epsilon)


def show_proof(bound: ReportedBound) -> str:
    """Return a bound with its condition and its ceiling, in words."""
    ending = f"by {bound.estimator}; ceiling {down(read_ceiling(bound))}"
    match bound:
        case VoidBound():
            return f"void, nothing is proven: the figure is {down(bound.void_epsilon)} {ending}"
        case FamilyBound():
            return f"inside the family {bound.family} only, epsilon at least {down(bound.epsilon_inside)} {ending}"
    return f"epsilon at least {down(bound.epsilon)} for any mechanism {ending}"


def split_by_condition(bound: ReportedBound | None) -> tuple[float | None, float | None, str | None]:
    """Return what is proven for any mechanism, what inside a family, and that family; nothing of a void bound."""
    match bound:
        case LowerBound():
            return bound.epsilon, None, None
        case FamilyBound():
            return None, bound.epsilon_inside, bound.family
    return None, None, None
