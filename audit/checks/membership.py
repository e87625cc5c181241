"""Membership by recorded coins: what an epsilon from a single trained model is on."""

import math

import numpy as np

from audit.core import checks
from audit.core.data import Array
from audit.core.errors import DataError
from audit.core.phrases import phrase
from audit.core.results import Check, Status
from audit.core.seeds import Seed, new_seed

IMPLAUSIBLE = 1e-6  # probability below which coins are not believed to be fair and independent


def draw_coins(count: int, seed: int | None = None) -> Array:
    """Return `(count,)` independent fair coins: train on the records whose coin is True; keep coins secret until the audit.

    Args:
        count: one per audited record, at least 2.
        seed: None draws one of 128 bits from the system; then the coins have to be stored. A short seed, or a date, can be
            found by trying all, and the coins with it.

    Raises:
        DataError: fewer than 2 coins.

    >>> draw_coins(6, 7).dtype
    dtype('bool')
    """
    if count < 2:
        raise DataError(f"count is {count}; expected at least 2 coins, one per audited record")
    return np.asarray(Seed(new_seed() if seed is None else seed).child("membership").numpy().random(count) < 0.5)


def membership_check(stored_coins: Array | None, seed: int | None, included: Array, index: Array | None) -> tuple[Check, bool]:
    """Return the row on how membership was decided, and whether it was by coins; `DataError` if they are not these records'.

    Args:
        stored_coins: `(n,)` bool, the coins as they were recorded, or None.
        seed: in place of `stored_coins`, the seed that `draw_coins` drew them with, or None.
        included: `(n,)` bool of the audited records.
        index: `(n,)` position of each record among the coins, or None if members and nonmembers are merely in the order of
            their coins.
    """
    if seed is not None:
        coins, source = draw_coins(len(included), seed), "the given seed"
    elif stored_coins is not None:
        coins, source = np.asarray(stored_coins), "the recorded file"
    else:
        value = "a data split, not recorded coins: no epsilon follows"
        return Check(code="membership", item="Membership decided by", value=value, status=Status.DECLARED), False
    coins = _check_coins(coins, len(included), source)
    if index is None:
        _same_counts(coins, included, source)
        value = phrase(
            "{coins} coins from {source}; their counts agree with the files, records carry no index",
            coins=len(coins),
            source=source,
        )
        return Check(code="membership", item="Membership decided by", value=value, status=Status.DECLARED), True
    _same_records(coins, included, index, source)
    value = phrase("{coins} coins from {source}; each record agrees with its coin", coins=len(coins), source=source)
    return Check(code="membership", item="Membership decided by", value=value, status=Status.CHECKED), True


def dependence_tail(coins: Array, references: Array) -> float:
    """Upper bound on the probability that fair coins follow what the reference models were trained on as closely as these do.

    Looked at are each reference's memberships and their number by record, as weights of the coins' signs: whoever trains every
    record in exactly half of the models fixes the sum of a coin and the references' number.

    Args:
        coins: `(n,)` bool, which records the target was trained on.
        references: `(k, n)` bool, which records each reference was trained on.

    References:
        Hoeffding 1963, "Probability inequalities for sums of bounded random variables", theorem 2; union over the k + 1 sums.
    """
    weights = np.vstack([references.sum(axis=0), references]).astype(np.float64)
    weights -= weights.mean(axis=1, keepdims=True)
    energies = (weights**2).sum(axis=1)
    weights, energies = weights[energies > 0], energies[energies > 0]
    sums = weights @ np.where(coins, 1.0, -1.0)
    largest = float(np.max(sums**2 / (2 * energies), initial=0.0))
    return min(1.0, 2 * len(weights) * math.exp(-largest)) if len(weights) else 1.0


def _check_coins(coins: Array, count: int, source: str) -> Array:
    if coins.ndim != 1 or coins.dtype.kind not in "biu" or not np.isin(coins, (0, 1)).all():
        raise DataError(f"coins of {source} have shape {coins.shape} and type {coins.dtype}; expected true or false per record")
    if len(coins) != count:
        raise DataError(
            f"{len(coins)} coins from {source} but {count} members and nonmembers; expected one coin per record and every "
            "record for which a coin was tossed (leaving some out afterwards would bias the audit)"
        )
    flags = coins.astype(bool)
    checks.both_sides(flags, "the coins")
    tail = min(_heads_tail(flags), _runs_tail(flags))
    if tail < IMPLAUSIBLE:
        raise DataError(
            f"the coins of {source} ({int(flags.sum())} of {count} true, {_runs(flags)} runs) are not independent fair coins "
            f"(probability {tail:.1g}); expected one toss per record with probability 1/2, in the order of the records. "
            "A split that was chosen in another way gives no epsilon: leave the coins out"
        )
    return flags


def _same_counts(coins: Array, included: Array, source: str) -> None:
    if coins.sum() != included.sum():
        raise DataError(
            f"the coins of {source} make {int(coins.sum())} members and {int((~coins).sum())} nonmembers, the files hold "
            f"{int(included.sum())} and {int((~included).sum())}; these are not the coins of these records"
        )


def _same_records(coins: Array, included: Array, index: Array, source: str) -> None:
    if not np.array_equal(np.sort(index), np.arange(len(coins))):
        raise DataError(
            f"'index' does not run over 0 .. {len(coins) - 1} once each; expected each record's position among the coins"
        )
    wrong = np.flatnonzero(coins[index] != included)
    if len(wrong):
        first = int(index[wrong[0]])
        side = "member" if included[wrong[0]] else "nonmember"
        raise DataError(
            f"{len(wrong)} records contradict the coins of {source}, the first at index {first} (coin {bool(coins[first])}, "
            f"given as {side}); these are not the coins of these records"
        )


def order_tail(coins: Array) -> float:
    """Return how often independent fair coins have as uneven a number of heads, or of runs, as these; twice the smaller."""
    return min(1.0, 2 * min(_heads_tail(coins), _runs_tail(coins)))


def _heads_tail(coins: Array) -> float:
    """Two-sided normal tail of the number of heads (the exact tail is smaller)."""
    return _two_sided((coins.sum() - len(coins) / 2) / math.sqrt(len(coins) / 4))


def _runs(coins: Array) -> int:
    return int(np.count_nonzero(coins[1:] != coins[:-1])) + 1


def _runs_tail(coins: Array) -> float:
    """Two-sided normal tail of the number of changes, binomial(n - 1, 1/2) for independent fair coins."""
    changes = _runs(coins) - 1
    return _two_sided((changes - (len(coins) - 1) / 2) / math.sqrt((len(coins) - 1) / 4))


def _two_sided(z: float) -> float:
    return math.erfc(abs(z) / math.sqrt(2))
