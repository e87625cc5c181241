"""Exact levels of tests of guesses: the largest chance that a claim is refuted which randomised response meets, by enumeration.

    python benchmarks/worst_sizes.py [--sizes 40:300]      the sizes at which each test's level is largest

Every guess of randomised response is right with the chance that the claim allows, so the number of right ones at each
registered count is a walk, and the level of a test is the largest attainable chance that it allows.
"""

from __future__ import annotations

import argparse
import bisect
import math
from collections.abc import Callable, Iterable

import numpy as np
from scipy import stats

import audit
from audit.bounds.estimators.one_run_secrets import OneRunSecrets
from audit.stats.bounds import guess_split, one_run_all_counts, secret_guesses

DELTA, ALPHA = 1e-5, 0.05
VALUES, CANDIDATES = 5, 4  # of a secret, and of a reconstruction
RARE = 1e-9
EPSILONS = (0.0, 0.5, 1.0, 2.5)


def of_one_run(count: int, epsilon: float, alpha: float = ALPHA) -> float:
    """Level of `one_run` with so many canaries."""
    guesses = guess_split.guess_numbers(count, guess_split.shares_for(count))
    rate = 1 / (1 + math.exp(-epsilon))
    walk = one_run_all_counts.Walk(guesses=guesses, correct=guesses, coins=count, delta=DELTA)
    tails = [one_run_all_counts._tails(number, rate)[1] for number in guesses.tolist()]

    def chance(surprise: float) -> float:
        limits = [one_run_all_counts._limit(number, rate, surprise) for number in guesses.tolist()]
        return one_run_all_counts.crossing(guesses, limits, rate)

    return largest(chance, tails, alpha - min(walk.escape(epsilon), one_run_all_counts.ROOM * alpha))


def of_secrets(count: int, epsilon: float, alpha: float = ALPHA) -> float:
    """Level of `one_run_secrets` with so many secrets of five equally likely values."""
    counts = secret_guesses.guess_counts(count, OneRunSecrets().guess_fractions)
    odds = np.full(count, 1 / (VALUES - 1))
    walk = secret_guesses.SecretWalk(counts=counts, correct=counts, odds=odds, secrets=count, delta=DELTA)
    laws = walk.laws(epsilon)
    tails = [np.cumsum(law[::-1])[::-1] for law in secret_guesses._sums(laws)]

    def chance(surprise: float) -> float:
        limits = [int(np.count_nonzero(tail > surprise * (1 + secret_guesses.ROUNDING))) for tail in tails]
        return secret_guesses.crossing(laws, limits)

    return largest(chance, tails, alpha - min(walk.escape(epsilon), secret_guesses.ROOM * alpha))


def of_reconstruction(count: int, epsilon: float, alpha: float = ALPHA) -> float:
    """Level of `audit.reconstruction_bound` of so many answers to four equally likely candidates."""
    rate = math.exp(epsilon) / (math.exp(epsilon) + CANDIDATES - 1)
    right = int(stats.binom.isf(2 * alpha, count, rate))
    options = {"delta": DELTA, "confidence": 1 - alpha, "adjacency": "replace_one"}
    while right <= count and audit.reconstruction_bound(right, count, 1 / CANDIDATES, **options).epsilon <= epsilon:
        right += 1
    return float(stats.binom.sf(right - 1, count, rate))


def largest(chance: Callable[[float], float], tails: Iterable[np.ndarray], budget: float) -> float:
    """Return the largest chance within a budget that one of the tails as a surprise has; the chance rises with the surprise."""
    surprises = sorted({tail for law in tails for tail in law.tolist() if RARE < tail < one_run_all_counts.NEVER})
    first_beyond = bisect.bisect_right(surprises, budget, key=chance)
    return chance(surprises[first_beyond - 1]) if first_beyond else 0.0


LEVELS = {"one_run": of_one_run, "one_run_secrets": of_secrets, "reconstruction": of_reconstruction}


def main() -> None:
    """Print the worst sizes of each test at each claim."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="40:300", help="first:last, inclusive")
    first, last = (int(part) for part in parser.parse_args().sizes.split(":"))
    for name, level in LEVELS.items():
        for epsilon in EPSILONS:
            found = sorted(((level(size, epsilon), size) for size in range(first, last + 1)), reverse=True)
            print(
                name, epsilon, [(size, round(value, 5)) for value, size in found[:5]], f"mean {np.mean(found, axis=0)[0]:.4f}"
            )


if __name__ == "__main__":
    main()
