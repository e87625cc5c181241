"""How large the median bound of any valid estimator can be, given the scores' law and their number.

Each limit is the largest claim that the most powerful test of one simple alternative refutes with chance one half: the true
law against a law near it that satisfies the claim. A test that is valid for all laws satisfying the claim does no better.
"""

import math

import numpy as np
from scipy import special

from audit.stats.arrays import Array
from audit.stats.bounds import roots
from audit.stats.bounds.binomial import rate_lower
from audit.stats.bounds.score_distributions import ScoreLaw
from audit.stats.curves import tradeoff

CELLS = 100_001


def claim_limit(law: ScoreLaw, members: int, nonmembers: int, significance: float = 0.05) -> float:
    """The limit for claims of (epsilon, delta)-DP; by the normal approximation for continuous laws.

    The alternative clips the true likelihood ratio so that the claim just holds, keeping the mixture of both sides.

    >>> round(claim_limit(ScoreLaw(kind="flat", parameter=1.0), 100, 100), 2)
    0.72
    """
    if law.kind == "null":
        return 0.0
    if law.kind == "flat":
        trials = members + nonmembers
        right = round(trials / (1 + math.exp(-law.parameter)))
        rate = float(rate_lower(right, trials, significance))
        return max(0.0, math.log(rate / (1 - rate)))
    member, nonmember = _cells(law)
    epsilon = roots.last_rejected(
        lambda epsilon: _refutes(member, nonmember, epsilon, law.delta, sizes=(members, nonmembers), significance=significance),
        largest=law.epsilon,
        resolution=1e-3,
    )
    return min(epsilon, law.epsilon)


def gdp_limit(mu: float, delta: float, members: int, nonmembers: int, significance: float = 0.05) -> float:
    """The limit for claims of mu-GDP: the epsilon of what the z-test with known variance refutes.

    >>> round(gdp_limit(1.0, 1e-5, 1000, 1000), 2)
    4.01
    """
    shift = mu + float(special.ndtri(significance)) * math.sqrt(1 / members + 1 / nonmembers)
    return tradeoff.gdp_epsilon(max(0.0, shift), delta)


def _cells(law: ScoreLaw) -> tuple[Array, Array]:
    """Masses of members and nonmembers on a common grid, mirror images of each other."""
    half = law.parameter / 2
    points = np.linspace(-13 - half, 13 + half, CELLS)
    if law.kind == "gaussian":
        member, nonmember = np.exp(-((points - half) ** 2) / 2), np.exp(-((points + half) ** 2) / 2)
    else:
        member, nonmember = np.exp(-np.abs(points - half)), np.exp(-np.abs(points + half))
    return member / member.sum(), nonmember / nonmember.sum()


def _refutes(
    member: Array, nonmember: Array, epsilon: float, delta: float, *, sizes: tuple[int, int], significance: float
) -> bool:
    """True if the likelihood-ratio test of the true pair against the clipped one has at least an even chance."""
    near = _clip(member, nonmember, _clip_for(member, nonmember, epsilon, delta))
    lead = variance = 0.0
    for count, true, close in zip(sizes, (member, nonmember), near, strict=True):
        score = np.log(true) - np.log(close)
        mean = float(close @ score)
        lead += count * (float(true @ score) - mean)
        variance += count * float(close @ (score - mean) ** 2)
    return lead > -float(special.ndtri(significance)) * math.sqrt(variance)


def _clip(member: Array, nonmember: Array, clip: float) -> tuple[Array, Array]:
    total = member + nonmember
    ratio = np.clip(np.log(member) - np.log(nonmember), -clip, clip)
    return total * special.expit(ratio), total * special.expit(-ratio)


def _clip_for(member: Array, nonmember: Array, epsilon: float, delta: float) -> float:
    """The largest clip at which the clipped pair satisfies (epsilon, delta)-DP, to a millionth."""

    def satisfies(clip: float) -> bool:
        near_member, near_nonmember = _clip(member, nonmember, clip)
        return float(np.maximum(near_member - math.exp(epsilon) * near_nonmember, 0).sum()) <= delta

    return roots.last_rejected(satisfies, start=epsilon, largest=40.0, resolution=1e-5)  # ratios within e^epsilon need no delta
