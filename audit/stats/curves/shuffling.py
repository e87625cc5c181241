"""Pairs of shuffled answers of local randomisers, by the clones of a record among all others.

Of the answers of two inputs, an epsilon-locally private randomiser is a mixture: `exp(epsilon) p` of Q0, `p` of Q1 (the other
way round for the second input), and a rest that does not distinguish them. Every other record answers Q0 or Q1 with probability
`q` each, whatever it holds, and its rest may be known. So what is left of the record is a count of Q0 among the answers that
are Q0 or Q1: `A + D0` of `C + D0 + D1`, `C` being binomial (n - 1, 2 q) and `A` binomial (C, 1/2). From above, whoever looks
learns in addition whether the record's answer came from its rest: the rests of other records may differ from it, and would show
it. From below that is not revealed, which is the truth if all others hold a third value of three.

References:
    Feldman, McMillan, Talwar 2021, arXiv 2012.12803, and 2022, arXiv 2208.04591.
    Kairouz, Oh, Viswanath 2015, arXiv 1311.0776 (p is `1 / (1 + exp(epsilon))` for any such randomiser).
"""

import math
from collections.abc import Iterator

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

from audit.stats.arrays import Array
from audit.stats.curves.loss_pairs import LossPair
from audit.stats.curves.outcome_cells import OutcomeCells

MOST_OUTCOMES = 100_000_000
_REACH = 9.0  # standard deviations of counts, beyond which outcomes are counted apart


def clones(epsilon: float, records: int, own: float, clone_chance: float, side: str) -> LossPair:
    """Return a pair on one side of that of the counts above; `MemoryError` for more than a hundred million outcomes.

    Args:
        records: answers that are shuffled together.
        own: p, at most `1 / (1 + exp(epsilon))`.
        clone_chance: q, at most 1/2.
        side: "above" dominates, "below" is dominated.
    """
    tie = max(0.0, 1 - own * (1 + math.exp(epsilon)))
    cells, total = OutcomeCells(-epsilon, epsilon), 0.0
    if side == "above":
        cells.add(np.zeros(1), np.array([tie]))
        total, tie = tie, 0.0
    for losses, masses in _outcomes(epsilon, records, (own, tie), clone_chance):
        cells.add(losses, masses)
        total += float(masses.sum())
    end = epsilon if side == "above" else -epsilon
    cells.add(np.array([end]), np.array([max(0.0, 1 - total)]))
    return cells.above() if side == "above" else cells.below()


def binary(epsilon: float, records: int) -> LossPair:
    """Return the pair of shuffled binary randomised response, all others holding the same input: not always the worst."""
    low = 1 / (1 + math.exp(epsilon))
    counts = np.arange(records + 1, dtype=np.float64)
    log_crowd = np.append(_log_binomial(records - 1.0, counts[:-1], low), -np.inf)
    log_before = np.concatenate([[-np.inf], log_crowd[:-1]])
    member = np.logaddexp(log_crowd + math.log(low), log_before + math.log1p(-low))
    absent = np.logaddexp(log_crowd + math.log1p(-low), log_before + math.log(low))
    positive = member > -700
    cells = OutcomeCells(-epsilon, epsilon)
    cells.add(np.clip((member - absent)[positive], -epsilon, epsilon), np.exp(member[positive]))
    return cells.below()


def _outcomes(epsilon: float, records: int, shares: tuple[float, float], clone_chance: float) -> Iterator[tuple[Array, Array]]:
    """Losses and masses of the counts of Q0, for each number of answers that are Q0 or Q1; shares: p and the record's rest."""
    chance = min(2 * clone_chance, 1.0)
    first, last = _window(records - 1, chance)
    outcomes = (last - first + 2) * 2 * (_REACH * math.sqrt(last + 1) / 2 + 20)
    if outcomes > MOST_OUTCOMES:
        raise MemoryError(f"about {outcomes:.2g} outcomes of shuffled answers; at most {MOST_OUTCOMES:.0e} are added up here")
    grow, (own, tie) = math.exp(epsilon), shares
    sizes = np.arange(first, last + 2, dtype=np.float64)
    with np.errstate(divide="ignore"):
        weights = np.exp(_log_binomial(records - 1.0, sizes, chance))
        before = np.exp(_log_binomial(records - 1.0, sizes - 1, chance))
    for size, weight, weight_before in zip(sizes.tolist(), weights.tolist(), before.tolist(), strict=True):
        low, high = _window(int(size), 0.5)
        count = np.arange(low, high + 1, dtype=np.float64)
        chances = np.exp(_log_binomial(size, count, 0.5))
        # of the orders of `size` answers, the part in which the record's is one of the `count` Q0
        share = count / size if size else count
        record = 2 * own * weight_before
        member = record * (grow * share + (1 - share)) + tie * weight
        absent = record * (share + grow * (1 - share)) + tie * weight
        if size == 0:
            member = absent = np.array([tie * weight])
        positive = (member > 0) & (chances > 0)
        losses = np.log(member[positive] / absent[positive])
        yield np.clip(losses, -epsilon, epsilon), (chances * member)[positive]


def _window(trials: int, chance: float) -> tuple[int, int]:
    """Counts within reach of the mean."""
    reach = _REACH * math.sqrt(trials * chance * (1 - chance)) + 20
    return max(0, math.floor(trials * chance - reach)), min(trials, math.ceil(trials * chance + reach))


def _log_binomial(trials: float, counts: Array, chance: float) -> Array:
    """Logarithm of the chance of each count, minus infinity if there is no such count."""
    inside = (counts >= 0) & (counts <= trials)
    places = np.where(inside, counts, 0.0)
    logs = gammaln(trials + 1) - gammaln(places + 1) - gammaln(trials - places + 1)
    logs = logs + xlogy(places, chance) + xlog1py(trials - places, -chance)
    return np.asarray(np.where(inside, logs, -np.inf), dtype=np.float64)
