"""One run, a whole trade-off function: right guesses compared with the Gaussian curve or that of DP-SGD."""

import functools
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from audit.bounds.estimators import _shared
from audit.bounds.estimators._shared import COINS, Family
from audit.core import checks
from audit.core.game import Assumption
from audit.core.lower_bounds import LowerBound
from audit.core.phrases import phrase
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.event_curves import MOST_SIGNAL
from audit.stats.arrays import Counts
from audit.stats.bounds import one_run_fdp, one_run_guesses

FAMILIES = ("gdp", "dp_sgd")


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRunFdp:
    """Refutes trade-off functions by the number of right guesses, for guess counts registered beforehand.

    Attributes:
        family: "gdp" bounds mu; "dp_sgd" bounds the effective noise multiplier at the claimed sample rate and steps.
        guess_fractions: shares of the coins that are guessed, half from either end; the error rate is split over them.

    Guarantee: the family's parameter is overstated (noise understated) with probability at most `1 - confidence`, when
        memberships are independent fair coins, for any dependence between scores. `epsilon` is the family's at `delta` and
        holds inside the family only.
    References: Mahloujifar, Melis and Chaudhuri 2024, arXiv 2410.22235.
    """

    assumes: ClassVar[frozenset[Assumption]] = COINS

    family: str = "gdp"
    guess_fractions: tuple[float, ...] = (0.05, 0.2)

    def __post_init__(self) -> None:
        checks.choice(self.family, "family", FAMILIES)
        object.__setattr__(self, "guess_fractions", _shared.read_fractions(self.guess_fractions))

    def lower_bound(self, scores: Scores, *, delta: float, confidence: float, seed: Seed) -> LowerBound:
        """The epsilon at `delta` of the most private curve not refuted.

        Raises:
            DataError: one side is empty.
            UnsupportedMechanism: family "dp_sgd" without a DP-SGD mechanism in the scores.
            ConfigError: delta is 0, at which every epsilon is infinite.
        """
        family, coins = self._family(scores, delta), len(scores.values)
        guesses, correct = self._counts(scores, delta, confidence)
        parameter, at = _search(family, guesses, correct, coins, 1 - confidence)
        top = _ceiling(family, tuple(guesses.tolist()), coins, len(scores.members), confidence)
        epsilon = family.epsilon(parameter)
        return LowerBound(
            epsilon=epsilon,
            delta=delta,
            confidence=confidence,
            estimator="one_run_fdp",
            comparisons=len(guesses),
            ceiling=max(epsilon, family.epsilon(top)),
            assumes=tuple(self.assumes),
            family=family.family,
            parameter=family.parameter(parameter),
            selected=phrase("{right} of {guesses} guesses right", right=correct[at], guesses=guesses[at]) if at >= 0 else "",
        )

    def refutes(self, scores: Scores, *, epsilon: float, delta: float, confidence: float, seed: Seed) -> bool:
        """True if one of the registered counts refutes the member of the family that has `epsilon` at `delta`."""
        family = self._family(scores, delta)
        guesses, correct = self._counts(scores, delta, confidence)
        at = family.with_epsilon(epsilon)
        return math.isfinite(at) and one_run_fdp.refutes(
            _inverse(family), guesses, correct, coins=len(scores.values), significance=1 - confidence, parameter=at
        )

    def _family(self, scores: Scores, delta: float) -> Family:
        return _shared.claimed_family(scores, "one_run_fdp", self.family, delta, "family 'gdp' or one_run")

    def _counts(self, scores: Scores, delta: float, confidence: float) -> tuple[Counts, Counts]:
        """Numbers of guesses, and of right ones among them."""
        ranking = _shared.rank(scores, "one_run_fdp", delta, confidence, inside=True)
        guesses = np.minimum(one_run_guesses.guess_counts(len(ranking), self.guess_fractions), one_run_fdp.MOST_GUESSES)
        return guesses, one_run_guesses.correct_guesses(ranking, guesses)


def _inverse(family: Family) -> one_run_fdp.Inverse:
    """Of the curves by mu, or by signal (inverse noise)."""
    return one_run_fdp.gdp_inverse if family.mechanism is None else one_run_fdp.curve_inverse(family)


def _search(family: Family, guesses: Counts, correct: Counts, coins: int, significance: float) -> tuple[float, int]:
    """The largest mu or signal (inverse noise) refuted, and the index of the count that does it."""
    largest = 40.0 if family.mechanism is None else MOST_SIGNAL
    return one_run_fdp.bound(_inverse(family), guesses, correct, coins=coins, significance=significance, largest=largest)


@functools.lru_cache(maxsize=256)
def _ceiling(family: Family, guesses: tuple[int, ...], coins: int, members: int, confidence: float) -> float:
    """Return the parameter that scores refute which separate both sides perfectly."""
    counts = np.array(guesses)
    right = one_run_guesses.correct_guesses(np.arange(coins) < members, counts)
    return _search(family, counts, right, coins, 1 - confidence)[0]


PLUGIN = OneRunFdp
