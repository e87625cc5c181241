"""The word of an answer: one rule over the proof, the rate and its interval. Pure functions (docs/use/report.md)."""

import math
from dataclasses import dataclass
from enum import StrEnum

from reports import headline

CLEAR = 1.0  # an epsilon from which on the answer is a plain yes; NIST SP 800-226, 2.2, calls epsilon of at most 1 conservative

LEAST_PRINTED = 0.01  # the least epsilon that prints as more than 0.00


class Strength(StrEnum):
    """The answer in a word, from the strongest on. There is none for "it does not leak"."""

    YES = "yes"
    AT_LEAST = "at least a little"
    LITTLE = "a little"
    TOO_FEW = "too few to say"
    NOT_SHOWN = "not shown"
    VOID = "no answer"


# what an edition with coarser figures may say in place of each word: the same, or a word that says less and is true as well
ALLOWED_WORDS = {
    Strength.YES: (Strength.YES, Strength.AT_LEAST, Strength.TOO_FEW),
    Strength.AT_LEAST: (Strength.AT_LEAST, Strength.TOO_FEW),
    Strength.LITTLE: (Strength.LITTLE, Strength.AT_LEAST, Strength.TOO_FEW),
    Strength.TOO_FEW: (Strength.TOO_FEW,),
    Strength.NOT_SHOWN: (Strength.NOT_SHOWN, Strength.TOO_FEW),
    Strength.VOID: (Strength.VOID,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Limits on how often an attack is right, beside guessing; `clear` is how often it can be if epsilon is `CLEAR`."""

    lower: float
    upper: float
    chance: float
    clear: float


def bracket_rate(lower: float, upper: float, fpr: float) -> Interval:
    """Return the interval of a true positive rate at a false positive rate, which is what guessing finds."""
    return Interval(lower=lower, upper=upper, chance=fpr, clear=headline.allowed_tpr(fpr, CLEAR, 0.0))


def bracket_guesses(lower: float, upper: float, baseline: float) -> Interval:
    """Return the interval of the share of right guesses of a secret; its likeliest value is right with chance `baseline`.

    Guarantee: epsilon multiplies the odds of a right guess by at most e^epsilon.
    """
    odds = math.exp(CLEAR) * baseline
    return Interval(lower=lower, upper=upper, chance=baseline, clear=odds / (1 - baseline + odds))


def choose_strength(proven: float, interval: Interval | None) -> Strength:
    """Return the word for a proof and the interval of the same attack.

    Args:
        proven: the epsilon that is proven for any mechanism; 0 if nothing is, or where no bound follows.
        interval: None if no rate was measured.

    >>> choose_strength(0.34, bracket_rate(0.10, 0.219, 0.1)).value, choose_strength(0.55, bracket_rate(0.0, 0.64, 0.1)).value
    ('a little', 'at least a little')
    >>> choose_strength(0.0, bracket_rate(0.0, 1.0, 0.1)).value, choose_strength(0.0, bracket_rate(0.08, 0.12, 0.1)).value
    ('too few to say', 'not shown')
    """
    if proven >= CLEAR or (interval is not None and interval.lower >= interval.clear):
        return Strength.YES
    is_narrow = interval is not None and interval.upper < interval.clear
    if proven >= LEAST_PRINTED or (interval is not None and interval.lower > interval.chance):
        return Strength.LITTLE if is_narrow else Strength.AT_LEAST
    return Strength.NOT_SHOWN if is_narrow else Strength.TOO_FEW
