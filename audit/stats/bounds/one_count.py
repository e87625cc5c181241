"""What delta adds to the chance of one registered number of right guesses: the sharp term, by Stein's equation.

The theorem and its proof are in docs/theory/one-run.md, section "One run, one count".
"""

import math

import numpy as np
from scipy import special

from audit.stats.arrays import Array

SMALLEST = 1e-280  # of probabilities whose ratio is taken directly


def log_binomial(count: Array, trials: int, rate: float) -> Array:
    """Logarithms of the binomial probabilities of `count`."""
    with np.errstate(divide="ignore"):
        return np.asarray(
            special.gammaln(trials + 1)
            - special.gammaln(count + 1)
            - special.gammaln(trials - count + 1)
            + special.xlogy(count, rate)
            + special.xlog1py(trials - count, -rate)
        )


def tail(correct: int, guesses: int, rate: float) -> float:
    """The chance of at least `correct` successes of `guesses`, each with chance `rate`."""
    if correct <= 0:
        return 1.0
    return float(special.bdtrc(correct - 1, guesses, rate)) if correct <= guesses else 0.0


def stein_factor(correct: int, guesses: int, rate: float) -> float:
    """The largest value `T (1 - T) / (c b)` of the solution of Stein's equation; `ValueError` for no guess right, or more than
    all.

    With T the chance of at least `correct` successes, b that of exactly so many. A unit of delta adds at most so much to the
    chance. If both are too small for floats, T / b is replaced by its bound `(c + 1)(1 - q) / (c + 1 - (r + 1) q)`.

    >>> round(stein_factor(3, 3, 0.5), 9)  # T = b = 1/8
    0.291666667
    """
    if not 1 <= correct <= guesses:
        raise ValueError(f"{correct} of {guesses} guesses right; expected at least 1 and at most all")
    full, mass = tail(correct, guesses, rate), math.exp(float(log_binomial(np.array(float(correct)), guesses, rate)))
    if min(full, mass) > SMALLEST:
        return full * (1 - full) / (correct * mass)
    if correct <= guesses * rate:  # all but certain, and as far from the mode on the other side
        return math.inf
    return (correct + 1) * (1 - rate) / (correct + 1 - (guesses + 1) * rate) / correct


def p_value(correct: int, guesses: int, rate: float, *, escapes: float) -> float:
    """The largest chance of at least `correct` right of `guesses`, each right at most at `rate`; `escapes`: secrets times
    delta.

    The rate is `q = e^epsilon p / (e^epsilon p + 1 - p)`, p the prior of the value guessed.

    Guarantee: theorem of docs/theory/one-run.md, "One run, one count". Does not fall as the rate grows, wherever it is below 1.

    >>> round(p_value(3, 3, 0.5, escapes=0.3), 9)
    0.2125
    """
    if correct <= 0:
        return 1.0
    if correct > guesses:
        return 0.0
    full = tail(correct, guesses, rate)
    if escapes == 0 or full >= 1:
        return min(full, 1.0)
    return min(1.0, full + escapes * stein_factor(correct, guesses, rate))
