"""Guesses about independent coins from one run, whatever the dependence between scores.

The proofs are in docs/theory/one-run.md, sections "One run" and "Several runs pooled".
"""

import math
from collections.abc import Callable

import numpy as np

from audit.stats.arrays import Counts
from audit.stats.bounds import one_count, roots
from audit.stats.bounds.ranks import Memberships

# the (epsilon, delta) of each parameter from 0 on; neither falls as the parameter grows
Pairs = Callable[[float], tuple[float, float]]
NEVER = 1 / 2  # p-values from here on are not distinguished: below it they are monotone in epsilon


def p_value(epsilon: float, *, guesses: int, correct: int, coins: int, delta: float) -> float:
    """Bounds the chance of at least `correct` right among `guesses` in any (epsilon, delta)-DP mechanism.

    Guarantee: `P[correct guesses >= v] <= p(v)` when memberships are independent fair coins, the mechanism is (epsilon,
        delta)-DP in each, and the number of guesses was fixed before. Non-decreasing in epsilon wherever it is below 1.
    References: docs/theory/one-run.md, "One run, one count"; Steinke, Nasr and Jagielski 2023, arXiv 2305.08846, theorem 5.2.

    >>> round(p_value(0.0, guesses=10, correct=10, coins=10, delta=0.0) * 1024, 9)
    1.0
    """
    return one_count.p_value(correct, guesses, 1 / (1 + math.exp(-epsilon)), escapes=coins * delta)


def guess_counts(coins: int, fractions: tuple[float, ...]) -> Counts:
    """Even numbers of guesses near `fractions` of the coins, without repeats; a single coin gives none but [0].

    >>> guess_counts(1000, (0.02, 0.1, 1.0)).tolist()
    [20, 100, 1000]
    """
    counts = 2 * np.rint(np.asarray(fractions) * coins / 2).astype(np.int64)
    return np.unique(np.clip(counts, 2, max(2 * (coins // 2), 0)))


def refutes(guesses: Counts, correct: Counts, *, coins: int, epsilon: float, delta: float, significance: float) -> bool:
    """True if one of the pre-registered counts refutes (epsilon, delta)-DP: `bound_along` at a single pair.

    Guarantee: refutes a true pair with probability at most `significance` (Bonferroni over the counts).
    """
    level = _level(significance, guesses)
    counts = zip(guesses.tolist(), correct.tolist(), strict=True)
    return any(p_value(epsilon, guesses=count, correct=right, coins=coins, delta=delta) <= level for count, right in counts)


def _level(significance: float, guesses: Counts) -> float:
    return min(significance / max(len(guesses), 1), NEVER / 2)


def bound_along(pairs: Pairs, guesses: Counts, correct: Counts, *, coins: int, significance: float) -> tuple[float, int]:
    """The largest parameter with a pair that one of the pre-registered counts refutes, and that count's index.

    Guarantee: exceeds the least parameter whose pair is true with probability at most `significance`: each count is tested at
        an equal share of it (Bonferroni), and each test is monotone in epsilon and delta, neither of which falls.
    """
    best, index = 0.0, -1
    level = _level(significance, guesses)
    for j, (count, right) in enumerate(zip(guesses.tolist(), correct.tolist(), strict=True)):

        def chance(parameter: float, count: int = count, right: int = right) -> float:
            epsilon, delta = pairs(parameter)
            return p_value(epsilon, guesses=count, correct=right, coins=coins, delta=delta)

        epsilon = roots.last_significant(chance, level, start=best)
        if epsilon > best:
            best, index = epsilon, j
    return best, index


def delta_bound(guesses: Counts, correct: Counts, *, coins: int, epsilon: float, significance: float) -> float:
    """The largest delta such that one of the pre-registered counts refutes (epsilon, delta)-DP: `p_value` inverted in delta.

    Guarantee: exceeds the true delta at `epsilon` with probability at most `significance` (Bonferroni over the counts).

    >>> delta_bound(np.array([10]), np.array([5]), coins=10, epsilon=1.0, significance=0.05)
    0.0
    """
    level, best = significance / max(len(guesses), 1), 0.0
    rate = 1 / (1 + math.exp(-epsilon))
    for count, right in zip(guesses.tolist(), correct.tolist(), strict=True):
        if right <= 0:
            continue
        room = level - one_count.tail(right, count, rate)
        if room > 0:
            best = max(best, room / (coins * one_count.stein_factor(right, count, rate)))
    return min(best, 1.0)


def correct_guesses(ranking: Memberships, guesses: Counts) -> Counts:
    """Return how many of the `guesses[j] // 2` highest are members plus of the as many lowest are not, for each j.

    >>> correct_guesses(np.array([True, False, True, False]), np.array([2, 4])).tolist()
    [2, 2]
    """
    half = np.asarray(guesses) // 2
    from_top = np.concatenate([[0], np.cumsum(ranking, dtype=np.int64)])
    from_bottom = np.concatenate([[0], np.cumsum(~ranking[::-1], dtype=np.int64)])
    return np.asarray(from_top[half] + from_bottom[half])
