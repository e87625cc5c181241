"""All numbers of guesses at once: right guesses in one run as a walk that is compared with one boundary.

The theorem and its proof are in docs/theory/one-run.md, section "One run, all counts together".
"""

import functools
import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from audit.stats.arrays import Array, Counts
from audit.stats.bounds import one_run_guesses, roots
from audit.stats.bounds.bernoulli_sums import convolve
from audit.stats.bounds.one_run_guesses import Pairs

REACH, MORE_COUNTS = 9.0, 14.0  # standard deviations, and steps, beyond which a binomial has no mass worth counting
LARGEST = 30.0  # epsilon; rates nearer to 1 lose digits
LARGEST_PARAMETER = 32.0  # where a search ends: no epsilon from `LARGEST` on is refuted
NEVER = 1 / 2  # smallest tails from here on are not distinguished
ROUNDING = 1e-5  # relative, of tails of millions of steps; what is equal up to it counts as surprising
NEGLIGIBLE = 1e-12  # for rounding; added to each p-value
ROOM = 0.9  # of the error rate, that delta may take
_SURE = 0.99  # of a budget, which sums of tails have to keep for their rounding not to matter
CACHE_SIZE = 1024  # binomials of one rate: searches visit the same rates for all data
PRECISION = 1e-3  # of bounds, relative above 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Walk:
    """What was seen: `correct[j]` of the first `guesses[j]` guesses about the coins were right.

    Attributes:
        guesses: `(J,)`, rising, registered beforehand; those of a smaller number are among those of a larger.
        coins: independent fair ones, of which some are guessed.
        delta: of the claims that are tested; the largest of them on a stretch.
    """

    guesses: Counts
    correct: Counts
    coins: int
    delta: float

    def chance(self, epsilon: float, up_to: float | None = None) -> float:
        """The chance that independent Bernoulli steps are as surprising as what was seen, their least binomial tail being the
        surprise; with `up_to`, the largest for any epsilon from `epsilon` to that one, or more.
        """
        last = epsilon if up_to is None else up_to
        low, high, surprise = _rate(epsilon), _rate(last), self.surprise(last)
        if surprise >= NEVER:
            return 1.0
        limits = [_limit(count, low, surprise) for count in self.guesses.tolist()]
        return min(1.0, crossing(self.guesses, limits, high) + NEGLIGIBLE)

    def exceeds(self, budget: float, epsilon: float, up_to: float) -> bool:
        """True if `chance` is above `budget`. Most often the surprise or the largest count alone says that it is, or the sum of
        what each count has alone that it is not, in far less time.
        """
        low, high, surprise = _rate(epsilon), _rate(up_to), self.surprise(up_to)
        if surprise > budget:
            return True
        if surprise < NEVER:
            counts = self.guesses.tolist()
            tails = (_tail(_limit(count, low, surprise), count, high) for count in (counts[-1], *counts))
            if next(tails) > budget:
                return True
            if sum(tails) + NEGLIGIBLE <= _SURE * budget:
                return False
        return self.chance(epsilon, up_to) > budget

    def surprise(self, epsilon: float) -> float:
        """The least binomial tail of what was seen, over all counts; never above `chance`."""
        return float(self._tails_seen(epsilon).min())

    def escape(self, epsilon: float) -> float:
        """Return what delta adds to `chance`; falls with epsilon."""
        return escape(self.guesses, _rate(epsilon), self.coins, self.delta)

    def most_surprising(self, epsilon: float) -> int:
        """The index of the count with the least tail."""
        return int(np.argmin(self._tails_seen(epsilon)))

    def _tails_seen(self, epsilon: float) -> Array:
        """`(J,)` the binomial tail of what was seen at each count."""
        tails = special.bdtrc(self.correct - 1.0, self.guesses, _rate(epsilon))
        return np.asarray(np.where(self.correct <= 0, 1.0, tails))


def bound(walk: Walk, significance: float) -> tuple[float, int]:
    """The end of the initial interval of refuted epsilons, from below, and the index of the most informative count (or -1).

    Guarantee: exceeds a true epsilon with probability at most `significance`, when memberships are independent fair coins and
        the numbers of guesses were fixed before, whatever the dependence between scores. Never grows with confidence or delta.
    References: Steinke, Nasr and Jagielski 2023, arXiv 2305.08846, for delta = 0 and for one count.
    """
    epsilon = bound_along(walk, lambda epsilon: (epsilon, walk.delta), significance)
    return epsilon, walk.most_surprising(epsilon) if epsilon > 0 else -1


def bound_along(walk: Walk, pairs: Pairs, significance: float) -> float:
    """The end of the initial interval of parameters with refuted pairs; `walk.delta` is not used.

    The tests are not monotone along the way, so whole stretches are refuted, those of `roots.stretches_end`, the same for all
    data: less delta or more significance never lowers the result.

    Guarantee: as `bound`, for the parameter of the least pair that is true.
    """

    def refute_levels(low: float, high: float) -> bool:
        (first, _), (last, delta) = pairs(low), pairs(high)
        return refutes(replace(walk, delta=delta), first, significance, up_to=last)

    return roots.stretches_end(refute_levels, largest=LARGEST_PARAMETER, finest=PRECISION / 2)


def refutes(walk: Walk, epsilon: float, significance: float, *, up_to: float | None = None) -> bool:
    """True if this epsilon is refuted; with `up_to`, each epsilon from it to that one, at each delta up to the walk's.

    It is if `chance` is at most the error rate less `escape`. If that would take more than nine tenths of it, nine tenths are
    taken, and one of every second count alone has to refute too, at the whole error rate.
    """
    last = epsilon if up_to is None else up_to
    if walk.guesses[-1] == 0 or last >= LARGEST:
        return False
    escaping = walk.escape(epsilon)
    budget = significance - min(escaping, ROOM * significance)
    if walk.exceeds(budget, epsilon, last):
        return False
    if escaping <= ROOM * significance:
        return True
    subset = np.arange(len(walk.guesses))[::-1][::2][::-1]
    return one_run_guesses.refutes(
        walk.guesses[subset], walk.correct[subset], coins=walk.coins, epsilon=last, delta=walk.delta, significance=significance
    )


def _rate(epsilon: float) -> float:
    return 1 / (1 + math.exp(-epsilon))


def _tail(correct: int, guesses: int, rate: float) -> float:
    return 1.0 if correct <= 0 else float(special.bdtrc(correct - 1, guesses, rate))


def _limit(guesses: int, rate: float, surprise: float) -> int:
    """The least count with a binomial tail of at most `surprise`; one beyond the mass that counts if there is none."""
    first, tails = _tails(guesses, rate)
    return first + int(np.count_nonzero(tails > surprise * (1 + ROUNDING)))


@functools.lru_cache(maxsize=CACHE_SIZE)
def _tails(trials: int, rate: float) -> tuple[int, Array]:
    """The first of the counts that matter, and the binomial tails from there on."""
    first, mass = _binomial(trials, rate)
    return first, np.cumsum(mass[::-1])[::-1]


@functools.lru_cache(maxsize=CACHE_SIZE)
def _binomial(trials: int, rate: float) -> tuple[int, Array]:
    """The first of the counts that matter, and the probabilities from there on."""
    reach = REACH * math.sqrt(trials * rate * (1 - rate)) + MORE_COUNTS
    first, last = max(0, math.floor(trials * rate - reach)), min(trials, math.ceil(trials * rate + reach))
    count = np.arange(first, last + 1)
    right, wrong = special.xlogy(1.0, rate), special.xlog1py(1.0, -rate)  # finite, for rates between 0 and 1
    return first, np.exp(_log_choices(trials)[first : last + 1] + count * right + (trials - count) * wrong)


@functools.lru_cache(maxsize=64)
def _log_choices(trials: int) -> Array:
    """`(trials + 1,)` logarithms of the binomial coefficients."""
    logs = special.gammaln(np.arange(1, trials + 2, dtype=np.float64))
    return np.asarray(logs[-1] - logs - logs[::-1])


@functools.lru_cache(maxsize=8)
def _inverse_roots(count: int) -> Array:
    """`(count + 1,)` sums of `t^-1/2` over t = 1 ... k, at index k."""
    return np.concatenate([[0.0], np.cumsum(np.arange(1, count + 1, dtype=np.float64) ** -0.5)])


def crossing(guesses: Counts, limits: list[int], rate: float) -> float:
    """The chance that a Bernoulli walk is at or above `limits[j]` after `guesses[j]` steps, for any j.

    >>> crossing(np.array([1, 2]), [1, 2], 0.5)
    0.5
    """
    trials, first, alive, crossing_chance = 0, 0, np.ones(1), 0.0
    for count, limit in zip(guesses.tolist(), limits, strict=True):
        shift, mass = _binomial(count - trials, rate)
        alive = convolve(alive, mass)
        first, trials = first + shift, count
        boundary = min(max(limit - first, 0), len(alive))
        crossing_chance, alive = crossing_chance + float(alive[boundary:].sum()), alive[:boundary]
        if not len(alive):
            break
    return crossing_chance


def escape(guesses: Counts, rate: float, coins: int, delta: float) -> float:
    """Chance of crossing that `delta` adds: `coins delta (1 - rate) sum over j of the mean over t < guesses[j] of M(t)`.

    `M(t)`, the largest probability of one count, is at most `(2 e t rate (1 - rate))^-1/2`. Falls as the rate grows.

    References: Herzog 1947, "Upper bounds for terms of the binomial expansion".
    """
    if delta == 0:
        return 0.0
    beyond = np.asarray(guesses) - 1
    sure = np.minimum(beyond, math.floor(1 / (2 * math.e * rate * (1 - rate))))  # steps for which 1 is the better bound on M
    roots_of = _inverse_roots(int(beyond[-1]))
    remainder = math.sqrt((1 - rate) / (2 * math.e * rate)) * (roots_of[beyond] - roots_of[sure])
    return float(coins * delta * (((1 - rate) * (1 + sure) + remainder) / guesses).sum())
