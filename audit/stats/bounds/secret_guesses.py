"""Guesses about secrets of several values, each value with its own prior: right guesses in one run as a walk.

The theorem is that of docs/theory/one-run.md, "One run, all counts together", for secrets: section "Secrets of several values".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from audit.stats.arrays import Array, Counts
from audit.stats.bounds import one_count, roots
from audit.stats.bounds.bernoulli_sums import bernoulli_sum_law, convolve
from audit.stats.bounds.one_run_guesses import NEVER, Pairs

LARGEST_PARAMETER = 32.0  # where a search ends
ROUNDING = 1e-5  # relative, of tails; what is equal up to it counts as surprising
NEGLIGIBLE = 1e-12  # for rounding; added to each p-value
ROOM = 0.9  # of the error rate, that delta may take before single counts are tested instead
PRECISION = 1e-3  # of bounds, relative above 1
NODES, MARGIN = 1024, 1e-4  # of the integral over frequencies, and what is added to it, relative


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Guesses:
    """One guess about each secret, the surest first.

    Attributes:
        right: `(r,)` bool.
        odds: `(r,)` prior odds p / (1 - p) of the value that was guessed; 1 / (k - 1) for k equally likely values.
    """

    right: Array
    odds: Array


def rank_values(values: Array, drawn: Counts) -> Array:
    """`(m,)` rank of each true value by its score, 1 the best; ties count against it.

    >>> rank_values(np.array([[0.0, 3.0, 1.0], [2.0, 2.0, 0.0]]), np.array([2, 0])).tolist()
    [2, 2]
    """
    own_score = np.take_along_axis(values, drawn[:, None], axis=1)
    return np.asarray((values >= own_score).sum(axis=1))


def likeliest_sets(values: Array, drawn: Counts, prior: Array, size: int) -> Guesses:
    """The `size` values with the largest scores of each secret, in the order of the last one's lead over the next;
    `ValueError` for unequal priors, or no value left outside.

    A guess is right if the true value is in the set; ties count against the attack.

    >>> likeliest_sets(np.array([[0.0, 3.0, 1.0, 2.0]]), np.array([3]), np.full((1, 4), 0.25), 2).odds.tolist()
    [1.0]
    """
    choices = values.shape[1]
    if not 1 <= size < choices or np.ptp(prior) > 1e-12:
        raise ValueError(
            f"sets of {size} of {choices} values with priors from {prior.min()} to {prior.max()}; expected equal ones"
        )
    right: Any = rank_values(values, drawn) <= size
    ordered = np.sort(values, axis=1)
    last, following = ordered[:, -size], ordered[:, -size - 1]
    with np.errstate(invalid="ignore"):
        lead = np.where(last == following, 0.0, last - following)
    order = np.lexsort((right, -lead))
    return Guesses(right=right[order], odds=np.full(len(right), size / (choices - size)))


def likeliest_values(values: Array, drawn: Counts, prior: Array) -> Guesses:
    """The value with the largest score of each secret, in the order of its lead over the next one.

    Ties count against the attack: shared largest scores are wrong, with the largest prior, and of equal guesses wrong ones
    come first.

    Args:
        values: `(m, k)` scores, higher = more likely the value; ideally a likelihood, not a posterior (docs/theory/secrets.md).
        drawn: `(m,)` index of the true value.
        prior: `(m, k)` chances with which the values were drawn.

    >>> likeliest_values(np.array([[0.0, 3.0], [2.0, 1.0]]), np.array([1, 1]), np.full((2, 2), 0.5)).right.tolist()
    [True, False]
    """
    sorted_values = np.sort(values, axis=1)
    top, second = sorted_values[:, -1], sorted_values[:, -2]
    with np.errstate(invalid="ignore"):
        lead = np.where(top == second, 0.0, top - second)
    shares_top = values == top[:, None]
    own_score = np.take_along_axis(values, drawn[:, None], axis=1)[:, 0]
    right = (own_score == top) & (shares_top.sum(axis=1) == 1)
    chance = np.where(shares_top, prior, 0.0).max(axis=1)
    with np.errstate(divide="ignore"):
        odds = chance / (1 - chance)
    order = np.lexsort((right, -odds, -lead))
    return Guesses(right=right[order], odds=odds[order])


def guess_counts(secrets: int, fractions: tuple[float, ...]) -> Counts:
    """Numbers of guesses near `fractions` of the secrets, without repeats.

    >>> guess_counts(1000, (0.02, 0.1, 1.0)).tolist()
    [20, 100, 1000]
    """
    return np.unique(np.clip(np.rint(np.asarray(fractions) * secrets).astype(np.int64), 1, secrets))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SecretWalk:
    """What was seen: `correct[j]` of the first `counts[j]` guesses were right.

    Attributes:
        counts: `(J,)` rising, registered beforehand.
        odds: `(r,)` prior odds of the values guessed, in the order of guessing, at least as many as the last count.
        delta: of the claims that are tested; the largest of them on a stretch.
    """

    counts: Counts
    correct: Counts
    odds: Array
    secrets: int
    delta: float

    @classmethod
    def of(cls, guesses: Guesses, counts: Counts, delta: float) -> SecretWalk:
        """The walk of these guesses at these counts; a value that was certain beforehand is no secret and is dropped."""
        secret = np.isfinite(guesses.odds)
        right, odds = guesses.right[secret], guesses.odds[secret]
        numbers = np.unique(counts[counts <= len(odds)])
        numbers = numbers if len(numbers) else np.array([len(odds)])
        correct = np.concatenate([[0], np.cumsum(right, dtype=np.int64)])[numbers]
        return cls(counts=numbers, correct=correct, odds=odds[: numbers[-1]], secrets=len(guesses.odds), delta=delta)

    def perfect(self) -> SecretWalk:
        """The same if every guess is right."""
        return replace(self, correct=self.counts)

    def rates(self, epsilon: float) -> Array:
        """`(r,)` the largest chance of each guess to be right at delta 0."""
        return np.asarray(special.expit(epsilon + np.log(self.odds)))

    def laws(self, epsilon: float) -> list[Array]:
        """The law of the number of right guesses between one count and the next, as probabilities of 0, 1, ..."""
        starts = [0, *self.counts[:-1].tolist()]
        rates = self.rates(epsilon)
        return [bernoulli_sum_law(rates[a:b]) for a, b in zip(starts, self.counts.tolist(), strict=True)]

    def chance(self, epsilon: float, up_to: float | None = None) -> float:
        """The chance that independent steps are as surprising as what was seen, by the least tail at the registered counts;
        with `up_to`, the largest for any epsilon from `epsilon` to that one, or more.
        """
        last = epsilon if up_to is None else up_to
        high = self.laws(last)
        surprise = min(_tail(law, right) for law, right in zip(_sums(high), self.correct.tolist(), strict=True))
        if surprise >= NEVER:
            return 1.0
        low = high if up_to is None else self.laws(epsilon)
        limits = [
            int(np.count_nonzero(np.asarray(np.cumsum(law[::-1])[::-1]) > surprise * (1 + ROUNDING))) for law in _sums(low)
        ]
        return min(1.0, crossing(high, limits) + NEGLIGIBLE)

    def escape(self, epsilon: float, up_to: float | None = None) -> float:
        """Return what delta adds to `chance`, at most, for any epsilon from `epsilon` to `up_to`."""
        if self.delta == 0:
            return 0.0
        low = self.rates(epsilon)
        high = low if up_to is None else self.rates(up_to)
        spread = np.minimum(low * (1 - low), high * (1 - high))  # q (1 - q) has one maximum, so its least value is at an end
        deciding = sum(chance_to_decide(spread[:count]) for count in self.counts.tolist())
        return self.secrets * self.delta * float((1 - low).max()) * deciding

    @property
    def equal(self) -> bool:
        """True if all values guessed had one prior."""
        return bool((self.odds == self.odds[0]).all())


def chance_to_decide(variances: Array) -> float:
    """Bounds the chance that one of r steps, of `variances` `(r,)` or less, decides whether their sum reaches a limit.

    One value has chance at most the mean over angles of the product of moduli `sqrt(1 - 4 v_i sin(angle / 2)^2)`, over random
    subsets of t others at most the t-th power of their average (Maclaurin), t uniform on 0, ..., r - 1.

    >>> round(chance_to_decide(np.array([0.25])), 3), round(chance_to_decide(np.full(400, 0.25)), 3)
    (1.0, 0.078)
    """
    count = len(variances)
    angles = (np.arange(NODES) + 0.5) * np.pi / NODES
    values, numbers = np.unique(variances, return_counts=True)
    moduli = np.sqrt(np.maximum(0.0, 1 - 4 * values[:, None] * np.sin(angles / 2) ** 2))
    if count == 1:
        return 1.0
    remainder = np.minimum((numbers @ moduli - moduli.min(axis=0)) / (count - 1), 1.0)
    gap = np.maximum(1 - remainder, 1e-15)
    powers = np.where(gap * count < 1e-9, 1.0, -np.expm1(count * np.log1p(-np.minimum(gap, 1 - 1e-15))) / (count * gap))
    return min(1.0, float(powers.mean()) * (1 + MARGIN))


def bound_along(walk: SecretWalk, pairs: Pairs, significance: float) -> float:
    """The end of the initial interval of parameters with refuted pairs; `walk.delta` is not used.

    Guarantee: exceeds the least parameter whose pair is true with probability at most `significance`, if each secret was
        drawn independently with its prior, the mechanism satisfies the pair for the replacement of one secret's value by
        another, and the counts were registered beforehand. Never grows with confidence or delta.
    """

    def refute_levels(low: float, high: float) -> bool:
        (first, _), (last, delta) = pairs(low), pairs(high)
        return refutes(replace(walk, delta=delta), first, significance, up_to=last)

    if walk.counts[-1] == 0:
        return 0.0
    return roots.stretches_end(refute_levels, largest=LARGEST_PARAMETER, finest=PRECISION / 2)


def refutes(walk: SecretWalk, epsilon: float, significance: float, *, up_to: float | None = None) -> bool:
    """True if this epsilon is refuted; with `up_to`, each epsilon from it to that one, at each delta up to the walk's.

    If delta would take more than nine tenths of the error rate nine tenths are taken, and one of every second count alone has
    to refute too, at the whole error rate; that test needs equal priors.
    """
    last = epsilon if up_to is None else up_to
    if walk.counts[-1] == 0 or last >= LARGEST_PARAMETER:
        return False
    escaping = walk.escape(epsilon, up_to)
    if escaping > ROOM * significance and not walk.equal:
        return False
    if walk.chance(epsilon, up_to) > significance - min(escaping, ROOM * significance):
        return False
    return escaping <= ROOM * significance or _refuted_by_one_count(walk, last, significance)


def _refuted_by_one_count(walk: SecretWalk, epsilon: float, significance: float) -> bool:
    """True if one of every second count refutes epsilon alone, and so each smaller one."""
    rate, escapes = float(walk.rates(epsilon)[0]), walk.secrets * walk.delta
    pairs = list(zip(walk.correct.tolist(), walk.counts.tolist(), strict=True))[::-1][::2]
    return any(one_count.p_value(*pair, rate, escapes=escapes) <= significance / len(pairs) for pair in pairs)


def crossing(laws: Sequence[Array], limits: Sequence[int]) -> float:
    """The chance that sums of independent steps with these laws are at or above `limits[j]` after step j, for any j.

    >>> crossing([np.array([0.5, 0.5]), np.array([0.5, 0.5])], [1, 2])
    0.5
    """
    alive, crossing_chance = np.ones(1), 0.0
    for law, limit in zip(laws, limits, strict=True):
        alive = convolve(alive, law)
        crossing_chance, alive = crossing_chance + float(alive[limit:].sum()), alive[:limit]
        if not len(alive):
            break
    return crossing_chance


def _sums(laws: Sequence[Array]) -> list[Array]:
    """The law of the sum of the first so many steps, for each number of steps."""
    sums = [np.ones(1)]
    for law in laws:
        sums.append(convolve(sums[-1], law))
    return sums[1:]


def _tail(law: Array, count: int) -> float:
    return 1.0 if count <= 0 else float(law[count:].sum())
