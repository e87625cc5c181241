"""How many guesses are "member" and how many "nonmember", chosen from the scores alone: memberships take no part.

The theorem allows that (docs/theory/one-run.md, "One run, all counts together").
"""

import math

import numpy as np

from audit.stats.arrays import Array, Counts
from audit.stats.bounds.ranks import Memberships

DEVIATIONS = 6.5  # of the number of members among fair coins from its mean: fewer than one game in 10^10 is beyond
EQUAL = 1e-9  # relative; of variances
QUARTER = 0.25  # of the scores at either end, at most, are taken for the next one, so that a few huge ones do not decide
USUAL = 4.0  # deviations; so many scores at least remain as they are on either side
TAIL_SHARE, TAIL_RATIO = 0.02, 3.0  # where a tail ends, and how much longer that of low scores has to be
LARGE, SHRUNK = 1e300, 2.0**-8  # larger scores are shrunk first, exactly: no difference overflows

SHARES = (0.01, 0.018, 0.032, 0.056, 0.1, 0.18, 0.32, 0.56, 1.0)
TEN_SHARES = (*SHARES[:-1], 0.86, 1.0)  # one more count costs below 1 % from so many coins on
TEN_COUNTS_FROM = 400


def shares_for(coins: int) -> tuple[float, ...]:
    """Return the shares of the coins that are guessed by default; 86 % helps if scores separate the sides without a gap."""
    return TEN_SHARES if coins >= TEN_COUNTS_FROM else SHARES


def cut_between_sides(values: Array) -> int:
    """Return how many of the highest scores look like members': the cut that leaves the least variance within the groups (Otsu
    1979).

    The outermost scores are taken for the quartiles. It never parts equal scores and is within `DEVIATIONS` standard
    deviations of the number of fair coins on either side; half of the scores if no such cut exists, and of equally good cuts
    the one nearest to half. Two distinct scores are parted between them. Changes of scale and origin change nothing.

    >>> cut_between_sides(np.array([1.0, 1.0, 0.0, 0.0, 0.0]))
    2
    >>> cut_between_sides(np.zeros(6))
    3
    """
    falling = -np.sort(-np.asarray(values, dtype=np.float64))
    size = len(falling)
    reach = math.floor(DEVIATIONS * math.sqrt(size))
    cuts = np.arange(max(1, (size - reach + 1) // 2), min(size - 1, (size + reach) // 2) + 1)
    eligible = falling[cuts - 1] > falling[cuts]
    if not eligible.any():
        return size // 2
    sums = np.cumsum(_without_tails(falling))
    between = (sums[-1] * cuts / size - sums[cuts - 1]) ** 2 / (cuts * (size - cuts))
    best = eligible & (between >= (1 - EQUAL) * between[eligible].max())
    return int(cuts[np.argmin(np.where(best, np.abs(2 * cuts - size), size + 1))])


def _without_tails(falling: Array) -> Array:
    """Falling scores as shares of the way between quartiles (further out if few), or between the ends if those are equal."""
    finite = falling
    if max(abs(falling[0]), abs(falling[-1])) > LARGE:
        finite = np.clip(falling, -np.finfo(np.float64).max, np.finfo(np.float64).max) * SHRUNK
    size = len(finite)
    reach = max(0, min(int(QUARTER * size), math.floor((size - USUAL * math.sqrt(size)) / 2)))
    top, bottom = finite[reach], finite[-1 - reach]
    if top == bottom:
        top, bottom = finite[0], finite[-1]
    return np.asarray((np.clip(finite, bottom, top) - bottom) / (top - bottom))


def has_long_lower_tail(values: Array) -> bool:
    """Return whether low values spread much more than high ones, as minus losses do: there the lowest tell of hard records.

    If not, guesses are made by distance from the cut, so that a system that is sure of some records is judged by these; where
    long tails of high scores tell nothing, that proves up to a third less. If more than half of the scores are equal, those
    are what the system says of records that it does not know, and no tail.

    >>> has_long_lower_tail(np.array([-9.0, -5.0, -3.0, -1.0, -0.8, -0.7]))
    True
    """
    if np.unique(values, return_counts=True)[1].max() > len(values) / 2:
        return False
    low, middle, high = np.quantile(np.clip(values, -LARGE, LARGE), [TAIL_SHARE, 0.5, 1 - TAIL_SHARE])
    return bool(middle - low > TAIL_RATIO * (high - middle) and high > low)


def guess_numbers(coins: int, shares: tuple[float, ...]) -> Counts:
    """Numbers of guesses near `shares` of the coins, ascending, without repeats; a single coin gives none but [0].

    >>> guess_numbers(25, (0.01, 0.5, 1.0)).tolist()
    [2, 12, 25]
    """
    counts = np.rint(np.asarray(shares) * coins).astype(np.int64)
    return np.unique(np.clip(counts, 2, coins if coins > 1 else 0))


def correct_guesses(ranking: Memberships, guesses: Counts, cut: int) -> Counts:
    """Return how many of the `guesses[j]` surest guesses are right, for each j.

    They come from both ends of the ranking in turn until one side of the cut is used up; the `cut` highest are guessed
    members.

    >>> correct_guesses(np.array([True, False, False, False]), np.array([2, 4]), 1).tolist()
    [2, 4]
    """
    counts, members = np.asarray(guesses), np.flatnonzero(ranking)
    top = np.clip(counts // 2, counts - (len(ranking) - cut), cut)
    bottom = counts - top
    members_below = len(members) - np.searchsorted(members, len(ranking) - bottom)
    return np.asarray(np.searchsorted(members, top) + bottom - members_below)


def correct_farthest(values: Array, included: Memberships, guesses: Counts, cut: int) -> Counts:
    """Return how many of the `guesses[j]` guesses farthest from the cut are right, for each j: for scores such as log odds.

    Of equally far guesses wrong ones come first, against the attack, and of equal scores at the cut nonmembers are those
    guessed to be members: the order of rows decides nothing.

    >>> member = np.array([True, True, False, True])
    >>> correct_farthest(np.array([9.0, 8.0, -0.1, -0.2]), member, np.array([2, 4]), 2).tolist()
    [1, 3]
    """
    order = np.lexsort((included, -values))
    falling = values[order]
    edge = falling[cut - 1] / 2 + falling[cut] / 2 if 0 < cut < len(falling) else 0.0
    is_right = np.asarray(included, dtype=bool)[order] == (np.arange(len(falling)) < cut)
    surest = np.lexsort((is_right, -np.abs(falling - edge)))
    return np.asarray(np.concatenate([[0], np.cumsum(is_right[surest], dtype=np.int64)])[np.asarray(guesses)])
