"""One run with independent noise on its canaries: right guesses compared with the exact law of the least favourable channel."""

import functools
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from audit.bounds.estimators import _shared
from audit.bounds.estimators._shared import COINS, TRIALS, Family
from audit.core import checks
from audit.core.game import Assumption
from audit.core.lower_bounds import LowerBound
from audit.core.phrases import phrase
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.event_curves import MOST_SIGNAL
from audit.stats.arrays import Counts
from audit.stats.bounds import one_run_guesses, product_channel

FAMILIES = ("any", "gdp", "dp_sgd")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductChannel:
    """Refutes a privacy curve by the number of right guesses, each canary being its own channel.

    Attributes:
        family: "gdp" bounds mu, "dp_sgd" the effective noise multiplier at the claimed sample rate and steps, "any" epsilon
            of (epsilon, delta)-DP itself.
        guess_fractions: shares of the coins that are guessed, half from either end; the error rate is split over them.

    Guarantee: the family's parameter is overstated (noise understated) with probability at most `1 - confidence`, when
        memberships are independent fair coins and canaries receive independent noise and do not touch each other. In a run
        with shared randomness it does not hold, which is why independent trials are demanded of the game.
    References: Xiang et al. 2025, arXiv 2509.08704.
    """

    assumes: ClassVar[frozenset[Assumption]] = COINS | TRIALS

    family: str = "gdp"
    guess_fractions: tuple[float, ...] = (0.5,)

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
        guesses, correct = self._counts(scores, delta, confidence)
        family, coins = self._family(scores, delta), len(scores.values)
        statistic, at = _search(family, guesses, correct, coins, 1 - confidence)
        epsilon = family.epsilon(statistic)
        top = _ceiling(family, tuple(guesses.tolist()), coins, len(scores.members), confidence)
        return LowerBound(
            epsilon=epsilon,
            delta=delta,
            confidence=confidence,
            estimator="product_channel",
            comparisons=len(guesses),
            ceiling=max(epsilon, family.epsilon(top)),
            assumes=tuple(sorted(self.assumes)),
            family=family.family,
            parameter=family.parameter(statistic),
            selected=phrase("{right} of {guesses} guesses right", right=correct[at], guesses=guesses[at]) if at >= 0 else "",
        )

    def refutes(self, scores: Scores, *, epsilon: float, delta: float, confidence: float, seed: Seed) -> bool:
        """True if one of the registered counts refutes the member of the family that has `epsilon` at `delta`."""
        guesses, correct = self._counts(scores, delta, confidence)
        family = self._family(scores, delta)
        at = family.with_epsilon(epsilon)
        return math.isfinite(at) and product_channel.refutes(
            family(at), guesses, correct, coins=len(scores.values), significance=1 - confidence
        )

    def _family(self, scores: Scores, delta: float) -> Family:
        return _shared.claimed_family(scores, "product_channel", self.family, delta, "family 'gdp' or 'any'")

    def _counts(self, scores: Scores, delta: float, confidence: float) -> tuple[Counts, Counts]:
        """Numbers of guesses, and of right ones among them."""
        ranking = _shared.rank(scores, "product_channel", delta, confidence, inside=self.family != "any")
        return _shared.count_guesses(ranking, self.guess_fractions)


def _search(family: Family, guesses: Counts, correct: Counts, coins: int, significance: float) -> tuple[float, int]:
    """The largest parameter refuted, and the index of the count that does it."""
    largest = 60.0 if family.mechanism is None else MOST_SIGNAL
    return product_channel.bound(family, guesses, correct, coins=coins, significance=significance, largest=largest)


@functools.lru_cache(maxsize=256)
def _ceiling(family: Family, guesses: tuple[int, ...], coins: int, members: int, confidence: float) -> float:
    """Return the parameter that scores refute which separate both sides perfectly."""
    counts = np.array(guesses)
    right = one_run_guesses.correct_guesses(np.arange(coins) < members, counts)
    return _search(family, counts, right, coins, 1 - confidence)[0]


PLUGIN = ProductChannel
