"""All numbers of guesses at once: right guesses in one run as a walk that is held against one boundary.

The theorem and its proof are in docs/statistics.md, section "One run, all counts together".
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from audit.stats.bounds import one_run_guesses, roots
from audit.stats.bounds.convolution import convolved
from audit.stats.bounds.validation import Array, Counts

REACH, MORE = 9.0, 14.0  # standard deviations, and steps, beyond which a binomial has no mass worth counting
LARGEST = 30.0  # epsilon; rates nearer to 1 lose digits
NEVER = 1 / 2  # smallest tails from here on are not told apart
ROUNDING = 1e-6  # relative, of tails of a million steps; what is equal up to it counts as surprising
NEGLIGIBLE = 1e-12  # for rounding; added to each p-value
ROOM = 0.9  # of the error rate, that delta may take
PRECISION = 1e-3  # of bounds, relative above 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Walk:
    """What was seen: `correct[j]` of the first `guesses[j]` guesses about the coins were right.

    Attributes:
        guesses: `(J,)`, rising, registered beforehand; those of a smaller number are among those of a larger.
        coins: independent fair ones, of which some are guessed.
        delta: of the claims that are tested.
    """

    guesses: Counts
    correct: Counts
    coins: int
    delta: float

    def chance(self, epsilon: float, up_to: float | None = None) -> float:
        """The chance that independent Bernoulli steps are as surprising as what was seen; with `up_to`, the largest for any
        epsilon from `epsilon` to that one, or more.

        The surprise of a walk is the least of its binomial tails at the registered counts. Its law is followed exactly, from
        one count to the next.
        """
        low, high = (_rate(one) for one in (epsilon, epsilon if up_to is None else up_to))
        surprise = min(_tail(*pair, high) for pair in zip(self.correct.tolist(), self.guesses.tolist(), strict=True))
        if surprise >= NEVER:
            return 1.0
        limits = [_limit(count, low, surprise) for count in self.guesses.tolist()]
        return min(1.0, crossing(self.guesses, limits, high) + NEGLIGIBLE)

    def escape(self, epsilon: float) -> float:
        """What delta adds to `chance`; falls with epsilon."""
        return escape(self.guesses, _rate(epsilon), self.coins, self.delta)

    def most_surprising(self, epsilon: float) -> int:
        """The index of the count with the least tail."""
        rate = _rate(epsilon)
        pairs = zip(self.correct.tolist(), self.guesses.tolist(), strict=True)
        return int(np.argmin([_tail(*pair, rate) for pair in pairs]))


def bound(walk: Walk, significance: float) -> tuple[float, int]:
    """The end of the initial interval of refuted epsilons, from below, and the index of the count that tells most (or -1).

    An epsilon is refuted where `chance` is at most the error rate less `escape`. Where `escape` would take more than nine
    tenths of it (small epsilons, where coins times delta is large), nine tenths are taken and one of every second count
    alone has to refute that epsilon too, by the published p-value at the whole error rate.

    Guarantee: exceeds a true epsilon with probability at most `significance`, when each of `coins` memberships is an
        independent fair coin and the numbers of guesses were fixed before the coins were looked at, whatever the dependence
        between scores. The tests are nested in `significance` and in delta, so the bound falls with confidence and delta, up
        to the precision of the search.
    References:
        Steinke, Nasr and Jagielski 2023, arXiv 2305.08846, for delta = 0 and for one count.
    """
    if walk.guesses[-1] == 0:
        return 0.0, -1
    found, turn = _followed(walk, significance), _turn(walk, significance)
    if turn > 0 and found > 0:
        picked = _picked(walk)
        guesses, correct = walk.guesses[picked], walk.correct[picked]
        apart, at = one_run_guesses.grid_bound(guesses, correct, coins=walk.coins, delta=walk.delta, significance=significance)
        if apart < min(turn, found):
            return apart, int(picked[at]) if at >= 0 else -1
    return found, walk.most_surprising(found) if found > 0 else -1


def refutes(walk: Walk, epsilon: float, significance: float) -> bool:
    """Whether this epsilon is refuted, by the tests of `bound`."""
    if walk.guesses[-1] == 0 or epsilon >= LARGEST or walk.chance(epsilon) > _left(walk, epsilon, significance):
        return False
    if walk.escape(epsilon) <= ROOM * significance:
        return True
    picked = _picked(walk)
    return one_run_guesses.refutes(
        walk.guesses[picked],
        walk.correct[picked],
        coins=walk.coins,
        epsilon=epsilon,
        delta=walk.delta,
        significance=significance,
    )


def _left(walk: Walk, epsilon: float, significance: float) -> float:
    """What `escape` leaves of the error rate; grows with epsilon."""
    return significance - min(walk.escape(epsilon), ROOM * significance)


def _followed(walk: Walk, significance: float) -> float:
    """The end of the interval of epsilons from 0 whose `chance` is small enough.

    Each stretch of it is refuted as a whole (`chance` with `up_to`), so nothing is assumed about what lies between.
    """

    def ratio(epsilon: float) -> float:
        return walk.chance(epsilon) / _left(walk, epsilon, significance)

    low = 0.0
    end = roots.last_significant(ratio, 1.0, largest=LARGEST, resolution=PRECISION / 4)
    share = 0.6  # of the way to the end that is tried next
    while share * (end - low) > PRECISION / 3 * max(1.0, low):
        further = low + share * (end - low)
        if walk.chance(low, further) <= _left(walk, low, significance):
            low, share = further, min(0.8, 1.25 * share)
        else:
            share *= 0.6
    return low


def _turn(walk: Walk, significance: float) -> float:
    """From here on `escape` takes at most its share of the error rate."""
    if walk.escape(0.0) <= ROOM * significance:
        return 0.0
    found = roots.last_rejected(lambda epsilon: walk.escape(epsilon) > ROOM * significance, largest=LARGEST, resolution=1e-4)
    return found + 2e-4 * max(1.0, found)


def _picked(walk: Walk) -> Counts:
    """Every second count, the largest among them."""
    return np.arange(len(walk.guesses))[::-1][::2][::-1]


def _rate(epsilon: float) -> float:
    return 1 / (1 + math.exp(-epsilon))


def _tail(correct: int, guesses: int, rate: float) -> float:
    return 1.0 if correct <= 0 else float(special.bdtrc(correct - 1, guesses, rate))


def _limit(guesses: int, rate: float, surprise: float) -> int:
    """The least count whose binomial tail is at most `surprise`; one beyond the mass that counts where there is none."""
    first, mass = _binomial(guesses, rate)
    tails = np.cumsum(mass[::-1])[::-1]
    return first + int(np.count_nonzero(tails > surprise * (1 + ROUNDING)))


def _binomial(trials: int, rate: float) -> tuple[int, Array]:
    """The first of the counts that matter, and the probabilities from there on."""
    reach = REACH * math.sqrt(trials * rate * (1 - rate)) + MORE
    first, last = max(0, math.floor(trials * rate - reach)), min(trials, math.ceil(trials * rate + reach))
    count = np.arange(first, last + 1)
    logs = _log_choices(trials)[first : last + 1] + special.xlogy(count, rate) + special.xlog1py(trials - count, -rate)
    return first, np.exp(logs)


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
    done, first, alive, crossed = 0, 0, np.ones(1), 0.0
    for count, limit in zip(guesses.tolist(), limits, strict=True):
        shift, mass = _binomial(count - done, rate)
        alive = convolved(alive, mass)
        first, done = first + shift, count
        cut = min(max(limit - first, 0), len(alive))
        crossed, alive = crossed + float(alive[cut:].sum()), alive[:cut]
        if not len(alive):
            break
    return crossed


def escape(guesses: Counts, rate: float, coins: int, delta: float) -> float:
    """What `delta` adds to the chance of crossing: `coins delta (1 - rate) sum over j of the mean over t < guesses[j] of M(t)`.

    `M(t)` is the largest probability that a Binomial(t, rate) gives to one count, at most `(2 e t rate (1 - rate))^-1/2`. Falls
    as the rate grows.

    References: Herzog 1947, "Upper bounds for terms of the binomial expansion".
    """
    if delta == 0:
        return 0.0
    beyond = np.asarray(guesses) - 1
    sure = np.minimum(beyond, math.floor(1 / (2 * math.e * rate * (1 - rate))))  # steps for which 1 is the better bound on M
    roots_of = _inverse_roots(int(beyond[-1]))
    rest = math.sqrt((1 - rate) / (2 * math.e * rate)) * (roots_of[beyond] - roots_of[sure])
    return float(coins * delta * (((1 - rate) * (1 + sure) + rest) / guesses).sum())
