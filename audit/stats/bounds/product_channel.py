"""Right guesses in one run with canaries that do not touch each other: the exact law under the least favourable channel.

The proof is in docs/theory/one-run.md, section "Product channel"; without independence between canaries it does not hold.
"""

import numpy as np
from scipy import special

from audit.stats.arrays import Array, Counts
from audit.stats.bounds import roots
from audit.stats.curves.tradeoff import Family, TradeoffCurve

NODES, WEIGHTS = np.polynomial.legendre.leggauss(160)
NEGLIGIBLE = 1e-7  # share of a test's level that the quadrature may leave out; added to the p-value
HALVINGS = 60


def p_value(curve: TradeoffCurve, *, guesses: int, correct: int, coins: int, resolution: float = 1e-12) -> float:
    """The largest chance of at least `correct` right among `guesses`, over all channels that satisfy a symmetric curve.

    Guarantee: valid when the coins are fair and independent, each score depends on its own coin alone (independent
        noise), and the number of guesses was fixed beforehand. Non-decreasing as the curve grows.
    References: Xiang et al. 2025, "Tight privacy audit in one run", arXiv 2509.08704, for the formula.
    """
    if correct <= 0:
        return 1.0
    wrong = guesses - correct
    if guesses == coins:
        return float(special.bdtr(wrong, guesses, error_rate(curve, np.ones(1))[0]))
    # the share of the channel's outputs that are at least as telling as the last one guessed on
    first, second = float(guesses + 1), float(coins - guesses)
    low, high = special.betaincinv(first, second, resolution / 2), special.betainccinv(first, second, resolution / 2)
    share = (high - low) / 2 * NODES + (high + low) / 2
    density = np.exp(special.xlogy(first - 1, share) + special.xlog1py(second - 1, -share) - special.betaln(first, second))
    chance = special.bdtr(wrong, guesses, error_rate(curve, share))
    return float(min(1.0, np.sum((high - low) / 2 * WEIGHTS * density * chance) + resolution))


def error_rate(curve: TradeoffCurve, share: Array) -> Array:
    """The chance that the best guess is wrong, averaged over the most telling `share` of the outputs, beyond FPR u on either
    side.

    >>> from audit.stats.curves.tradeoff import epsilon_delta
    >>> error_rate(epsilon_delta(np.log(3), 0.0), np.array([0.5, 1.0])).round(9).tolist()
    [0.25, 0.25]
    """
    low, high = np.zeros_like(share), np.ones_like(share)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        within = middle + curve.tpr(middle) <= share
        low, high = np.where(within, middle, low), np.where(within, high, middle)
    return np.asarray(low / np.maximum(share, 1e-300))  # from below: fewer errors only raise the p-value


def refutes(curve: TradeoffCurve, guesses: Counts, correct: Counts, *, coins: int, significance: float) -> bool:
    """True if one of the pre-registered counts refutes `curve`: `bound` at a single parameter.

    Guarantee: refutes a true curve with probability at most `significance` (Bonferroni over the counts).
    """
    level = significance / max(len(guesses), 1)
    counts = zip(guesses.tolist(), correct.tolist(), strict=True)
    return any(
        p_value(curve, guesses=count, correct=right, coins=coins, resolution=level * NEGLIGIBLE) <= level
        for count, right in counts
    )


def bound(
    family: Family,
    guesses: Counts,
    correct: Counts,
    *,
    coins: int,
    significance: float,
    largest: float = 1e4,
    resolution: float = 1e-5,
) -> tuple[float, int]:
    """The largest parameter that one of the pre-registered counts refutes, and that count's index (-1 for none).

    Guarantee: exceeds the true parameter with probability at most `significance` (Bonferroni over the counts).
    """
    level, best, index = significance / max(len(guesses), 1), 0.0, -1
    for j, (count, right) in enumerate(zip(guesses.tolist(), correct.tolist(), strict=True)):

        def chance(parameter: float, count: int = count, right: int = right) -> float:
            curve = family(parameter)
            return p_value(curve, guesses=count, correct=right, coins=coins, resolution=level * NEGLIGIBLE)

        statistic = roots.last_significant(chance, level, start=best, largest=largest, resolution=resolution)
        if statistic > best:
            best, index = statistic, j
    return best, index
