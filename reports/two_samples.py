"""Whether a figure of one audit is above that of another by more than chance, from the two figures and their intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

LEVEL = 0.05  # of a comparison of two audits: the chance that any figure is named although none changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A figure with a two-sided interval of stated confidence, or a band's, which is wider: the careful side."""

    value: float
    lower: float
    upper: float
    confidence: float


def p_value(old: Measured, new: Measured) -> float:
    """One-sided p-value of "the new figure is not above the old one".

    Guarantee: the square-and-add rule for differences (Newcombe 1998, method 10; Zou and Donner 2008): the deviation of a
        difference is that of each figure towards the other, recovered from its own interval. For independent figures with
        intervals that hold, it is right to the order of the normal approximation; figures that share data vary together, which
        makes it careful.

    >>> low = Measured(value=0.10, lower=0.08, upper=0.12, confidence=0.95)
    >>> high = Measured(value=0.13, lower=0.11, upper=0.15, confidence=0.95)
    >>> round(p_value(low, high), 3), p_value(high, low) > 0.5
    (0.019, True)
    """
    difference = new.value - old.value
    if difference <= 0:
        return 1.0 if difference < 0 else 0.5
    # the sides that face each other: how far the new figure may be lower, and the old one higher
    below = (new.value - new.lower) / _width(new.confidence)
    above = (old.upper - old.value) / _width(old.confidence)
    deviation = math.hypot(below, above)
    # intervals without width leave nothing to chance
    return 0.5 * math.erfc(difference / deviation / math.sqrt(2)) if deviation > 0 else 0.0


def means_p_value(means: tuple[float, float], deviations: tuple[float, float], sizes: tuple[int, int]) -> float:
    """Two-sided p-value of equal means, from sample deviations over models; 1 if either side has a single model.

    Guarantee: Welch's statistic against Student's t with n - 1 degrees of freedom for the smaller side n, however unequal the
        deviations are: for normal figures its tail is the widest that the statistic can have (Mickey and Brown 1966). Sides of
        two or three models answer 1: they cannot decide.

    >>> round(means_p_value((0.90, 0.95), (0.01, 0.01), (16, 16)), 6), means_p_value((0.9, 0.95), (0.0, 0.0), (1, 1))
    (0.0, 1.0)
    """
    smallest = min(sizes)
    if means[0] == means[1] or smallest <= 3:
        return 1.0
    error = math.hypot(deviations[0] / math.sqrt(sizes[0]), deviations[1] / math.sqrt(sizes[1]))
    if error == 0:
        return 0.0
    return _student_tail(abs(means[1] - means[0]) / error, smallest - 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values of many tests at once: naming those of at most `LEVEL` errs with at most that probability.

    References:
        Holm 1979.

    >>> [round(value, 3) for value in holm([0.01, 0.5, 0.02])]
    [0.03, 0.5, 0.04]
    """
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    corrections = [1.0] * len(p_values)
    largest = 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))  # never below that of a smaller p-value
        corrections[place] = largest
    return corrections


def _student_tail(statistic: float, freedom: int) -> float:
    """Two-sided tail of Student's t, by its finite sum for whole degrees of freedom (Abramowitz and Stegun, 26.7.3 and 26.7.4).

    >>> round(_student_tail(3.182446, 3), 6), round(_student_tail(2.776445, 4), 6)
    (0.05, 0.05)
    """
    angle = math.atan(statistic / math.sqrt(freedom))
    odd, square = freedom % 2, math.cos(angle) ** 2
    term = math.cos(angle) if odd else 1.0
    total = term if freedom > 1 else 0.0
    for power in range(2 + odd, freedom - 1, 2):
        term *= square * (power - 1) / power
        total += term
    inside = math.sin(angle) * total
    return max(0.0, 1 - (2 * (angle + inside) / math.pi if odd else inside))


def _width(confidence: float) -> float:
    """The half-width of a two-sided normal interval, in deviations."""
    return NormalDist().inv_cdf((1 + confidence) / 2)
