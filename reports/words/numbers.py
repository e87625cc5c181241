"""Numbers as readers of the document see them: the rounding of `audit.core.rounding`, with words of its language."""

import functools
from collections.abc import Callable
from typing import ParamSpec

from audit.core import rounding
from audit.core.game_results import AttackResult
from reports.words.language import say

Arguments = ParamSpec("Arguments")
SPACE, confidence, count = rounding.SPACE, rounding.confidence, rounding.count
elide, power, target = rounding.elide, rounding.power, rounding.target
_WORDS = {rounding.DASH: "number.not_measured", rounding.NO_GUARANTEE: "number.no_guarantee"}


def _in_words(function: Callable[Arguments, str]) -> Callable[Arguments, str]:
    """The same function, with words of the language for what is no number."""

    @functools.wraps(function)
    def in_words(*args: Arguments.args, **options: Arguments.kwargs) -> str:
        text = function(*args, **options)
        return say(_WORDS[text]) if text in _WORDS else text

    return in_words


down, up, near = _in_words(rounding.down), _in_words(rounding.up), _in_words(rounding.near)
percent, rate = _in_words(rounding.percent), _in_words(rounding.rate)
significant, figure = _in_words(rounding.significant), _in_words(rounding.figure)


def not_measured() -> str:
    """Return what is instead of a number that there is not."""
    return say("number.not_measured")


def area(attack: AttackResult) -> str:
    """Return the AUC, unless one side has a single record."""
    return not_measured() if attack.auc is None else near(attack.auc, 3)


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
    return f"ε{SPACE}={SPACE}{value}"
