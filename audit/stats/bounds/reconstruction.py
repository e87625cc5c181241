"""What right answers of independent trials prove, against the success of an attack that sees no release.

The theorems and their proofs are in docs/theory/secrets.md, section "Reconstruction".
"""

import math

from scipy import optimize, special

from audit.stats.bounds import binomial
from audit.stats.curves.tradeoff import TradeoffCurve


def success_epsilon(success: float, baseline: float, delta: float, *, replace: bool) -> float:
    """The least epsilon at `delta` with which a guess of baseline `baseline` can be right with chance `success`.

    The baseline is the largest prior chance of any answer; `replace`: the claim is about replacing the secret by another.

    >>> round(math.exp(success_epsilon(0.5, 0.25, 0.0, replace=True)), 9)  # 3 (L - delta) / (1 - L)
    3.0
    >>> round(math.exp(success_epsilon(0.5, 0.25, 0.0, replace=False)), 9)  # max of 4 L and 0.75 / (1 - L)
    2.0
    """
    if success <= baseline + delta * (1 - baseline if replace else 1):
        return 0.0
    if success >= 1:
        return math.inf
    if replace:
        factors = [(success - delta) * (1 - baseline) / (baseline * (1 - success))]
    else:
        factors = [(success - delta) / baseline, (1 - delta - baseline) / (1 - success)]
    return max(0.0, *(math.log(factor) for factor in factors if factor > 0))


def success_mu(success: float, baseline: float, *, replace: bool) -> float:
    """The least mu of a Gaussian-DP mechanism with which a guess of baseline `baseline` can be right with chance `success`.

    The better of `1 - f(baseline)` and, for a replacement (add/remove allows it at twice its mu), `1 - f` at the average
    chance of the same guess under other values.

    >>> round(success_mu(0.3891, 0.1, replace=False), 3)  # ten orthogonal candidates: 1 - f(1/10) at mu = 1
    1.0
    """
    if success <= baseline:
        return 0.0
    if success >= 1:
        return math.inf
    quantile = float(special.ndtri(success))
    lead = quantile - float(special.ndtri((1 - success) * baseline / (1 - baseline)))
    return max(0.0, quantile - float(special.ndtri(baseline)), lead if replace else lead / 2)


def success_allowed(curve: TradeoffCurve, choices: int, *, replace: bool) -> float:
    """The largest chance of naming one of `choices` equally likely values that a guarantee with this curve allows.

    For adding or removing `1 - f(1/k)`; for replacing the s with `s = 1 - f((1 - s) / (k - 1))` of k-ary randomised response.

    >>> from audit.stats.curves import tradeoff
    >>> round(success_allowed(tradeoff.epsilon_delta(math.log(3), 0.0), 4, replace=True), 9)  # e^eps / (e^eps + k - 1)
    0.5
    >>> round(success_allowed(tradeoff.gdp(1.0), 2, replace=False), 4)
    0.8413
    """
    if not replace:
        return float(curve.tpr(1 / choices))

    def excess(success: float) -> float:
        return success - float(curve.tpr((1 - success) / (choices - 1)))

    return 1.0 if excess(1.0) <= 0 else float(optimize.brentq(excess, 0.0, 1.0, xtol=1e-14))


def success_lower(successes: int, trials: int, significance: float) -> float:
    """The Clopper-Pearson lower limit on the chance of a right answer.

    Guarantee: exceeds the mean chance with probability at most `significance` if trials are independent with equal chances.
    """
    return float(binomial.rate_lower(successes, trials, significance)) if successes else 0.0
