"""Numbers as readers of the document see them: the rounding of `audit.core.rounding`, with words of its language."""

from audit.core import rounding
from audit.core.game_results import AttackResult
from audit.core.rounding import SPACE, confidence, count, elide, power, target
from reports.words.language import say

__all__ = [
    "SPACE",
    "at_delta",
    "at_least",
    "at_most",
    "confidence",
    "count",
    "down",
    "elide",
    "epsilon",
    "figure",
    "near",
    "not_measured",
    "percent",
    "power",
    "rate",
    "significant",
    "target",
    "up",
]

_WORDS = {
    rounding.DASH: "number.not_measured",
    rounding.NO_GUARANTEE: "number.no_guarantee",
}


def _in_words(text: str) -> str:
    """A number as it is, and what represents none in words."""
    return say(_WORDS[text]) if text in _WORDS else text


def not_measured() -> str:
    """Return what is instead of a number that there is not."""
    return say("number.not_measured")


def area(attack: AttackResult) -> str:
    """Return the AUC, unless one side has a single record."""
    return not_measured() if attack.auc is None else near(attack.auc, 3)


def down(value: float, digits: int | None = None) -> str:
    """A lower bound or a ceiling: never above `value`."""
    return _in_words(rounding.down(value, digits))


def up(value: float, digits: int | None = None) -> str:
    """A claim: never below `value`."""
    return _in_words(rounding.up(value, digits))


def near(value: float, digits: int = 2) -> str:
    """A figure without a direction, to the nearest."""
    return _in_words(rounding.near(value, digits))


def significant(value: float, digits: int = 4) -> str:
    """`value` with that many significant digits and no exponent if it reads well."""
    return _in_words(rounding.significant(value, digits))


def figure(value: float) -> str:
    """A utility figure."""
    return _in_words(rounding.figure(value))


def percent(rate: float | None, digits: int = 1, side: str = "near") -> str:
    """A rate in per cent; `side` is "down", "up" or "near"."""
    return _in_words(rounding.percent(rate, digits, side))


def rate(value: float | None, size: int, side: str = "near") -> str:
    """A rate out of `size` records, with as many digits as one record is worth."""
    return _in_words(rounding.rate(value, size, side))


def at_least(value: float) -> str:
    """A proven epsilon as a phrase."""
    return f"ε{SPACE}≥{SPACE}{down(value)}"


def at_most(value: float) -> str:
    """A claimed epsilon as a phrase."""
    return say("number.no_finite_epsilon") if value == float("inf") else f"ε{SPACE}≤{SPACE}{up(value)}"


def at_delta(delta: float) -> str:
    """The delta that a figure belongs to, as a phrase."""
    return say("number.at_delta", delta=power(delta))


def epsilon(value: str) -> str:
    """A figure that is already rounded, named as an epsilon."""
    return rounding.epsilon(value)
