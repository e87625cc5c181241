"""One run with independent noise on its canaries: right guesses compared with the exact law of the least favourable channel."""

import functools
import math
from dataclasses import dataclass

import numpy as np

from audit.core import checks
from audit.core.adjacency import Adjacency
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.game import Assumption
from audit.core.lower_bounds import LowerBound
from audit.core.phrases import phrase
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.event_curves import MOST_SIGNAL, EventCurves, find_curves, signal_noise
from audit.stats.bounds import one_run_guesses, product_channel, ranks
from audit.stats.bounds.validation import Counts
from audit.stats.curves import tradeoff, tradeoff_curves

ASSUMES = frozenset({Assumption.INDEPENDENT_COINS, Assumption.INDEPENDENT_TRIALS})
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
    References:
        Xiang et al. 2025, arXiv 2509.08704.
    """

    family: str = "gdp"
    guess_fractions: tuple[float, ...] = (0.5,)

    def __post_init__(self) -> None:
        object.__setattr__(self, "guess_fractions", tuple(self.guess_fractions))
        checks.choice(self.family, "family", FAMILIES)
        if not self.guess_fractions or not all(0 < share <= 1 for share in self.guess_fractions):
            raise ConfigError(f"guess_fractions is {self.guess_fractions}; expected shares in (0, 1], at least one")

    @property
    def assumes(self) -> frozenset[Assumption]:
        """Independent fair coins, and scores that depend on their own coin alone."""
        return ASSUMES

    def lower_bound(self, scores: Scores, *, delta: float, confidence: float, seed: Seed) -> LowerBound:
        """The epsilon at `delta` of the most private curve not refuted.

        Raises:
            DataError: one side is empty.
            UnsupportedMechanism: family "dp_sgd" without a DP-SGD mechanism in the scores.
            ConfigError: delta is 0, at which every epsilon is infinite.
        """
        coins = len(scores.values)
        guesses, correct = self._counts(scores, delta, confidence)
        curve = _Family(name=self.family, mechanism=_mechanism(self.family, scores), delta=delta)
        statistic, at = product_channel.bound(
            curve, guesses, correct, coins=coins, significance=1 - confidence, largest=curve.largest
        )
        epsilon = curve.epsilon(statistic)
        top = _ceiling(curve, tuple(guesses.tolist()), coins, len(scores.members), confidence)
        return LowerBound(
            epsilon=epsilon,
            delta=delta,
            confidence=confidence,
            estimator="product_channel",
            comparisons=len(guesses),
            ceiling=max(epsilon, curve.epsilon(top)),
            assumes=tuple(sorted(ASSUMES)),
            family=curve.family,
            parameter=curve.parameter(statistic),
            selected=phrase("{right} of {guesses} guesses right", right=correct[at], guesses=guesses[at]) if at >= 0 else "",
        )

    def refutes(self, scores: Scores, *, epsilon: float, delta: float, confidence: float, seed: Seed) -> bool:
        """True if one of the registered counts refutes the member of the family that has `epsilon` at `delta`."""
        guesses, correct = self._counts(scores, delta, confidence)
        curve = _Family(name=self.family, mechanism=_mechanism(self.family, scores), delta=delta)
        at = curve.with_epsilon(epsilon)
        return math.isfinite(at) and product_channel.refutes(
            curve(at), guesses, correct, coins=len(scores.values), significance=1 - confidence
        )

    def _counts(self, scores: Scores, delta: float, confidence: float) -> tuple[Counts, Counts]:
        """Numbers of guesses, and of right ones among them."""
        checks.both_sides(scores.included, "product_channel")
        checks.open_probability(confidence, "confidence")
        (checks.probability if self.family == "any" else checks.open_probability)(delta, "delta of product_channel")
        ranking = ranks.by_rank(scores.values, scores.included)
        guesses = one_run_guesses.guess_counts(len(ranking), self.guess_fractions)
        return guesses, one_run_guesses.correct_guesses(ranking, guesses)


def _mechanism(family: str, scores: Scores) -> EventCurves | None:
    if family != "dp_sgd":
        return None
    if scores.game.adjacency is Adjacency.REPLACE_ONE:
        raise UnsupportedMechanism("product_channel knows DP-SGD under adding or removing a record, not under replacing one")
    curves = find_curves(scores.mechanism)
    if curves is not None:
        return curves
    raise UnsupportedMechanism(
        f"product_channel with family 'dp_sgd' needs scores of a DP-SGD training, got {scores.mechanism or 'no mechanism'}; "
        "use family 'gdp' or 'any'"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Family:
    """Symmetric curves by a parameter: epsilon, mu, or the inverse of the noise multiplier."""

    name: str
    mechanism: EventCurves | None
    delta: float

    def __call__(self, parameter: float) -> tradeoff_curves.TradeoffCurve:
        if self.mechanism is not None:
            return self.mechanism.symmetric(signal_noise(parameter))
        return tradeoff_curves.gdp(parameter) if self.name == "gdp" else tradeoff_curves.epsilon_delta(parameter, self.delta)

    @property
    def largest(self) -> float:
        """Return where a search ends."""
        return MOST_SIGNAL if self.mechanism is not None else 60.0

    def epsilon(self, parameter: float) -> float:
        """The epsilon at delta of the curve."""
        if self.mechanism is not None:
            return self.mechanism.epsilon(signal_noise(parameter), self.delta)
        return tradeoff.gdp_epsilon(parameter, self.delta) if self.name == "gdp" else parameter

    def with_epsilon(self, epsilon: float) -> float:
        """The parameter of the curve with this epsilon at delta."""
        if self.mechanism is not None:
            return self.mechanism.signal_of(epsilon, self.delta)
        return tradeoff.gdp_mu(epsilon, self.delta) if self.name == "gdp" else epsilon

    def parameter(self, parameter: float) -> float | None:
        """Return what a report names: mu, the noise multiplier, or nothing."""
        if self.mechanism is not None:
            return self.mechanism.parameter(parameter)
        return parameter if self.name == "gdp" else None

    @property
    def family(self) -> str | None:
        """Return what a report names: the family, None for any mechanism."""
        if self.mechanism is not None:
            return self.mechanism.family
        return None if self.name == "any" else self.name


@functools.lru_cache(maxsize=256)
def _ceiling(family: _Family, guesses: tuple[int, ...], coins: int, members: int, confidence: float) -> float:
    """Return the parameter that scores refute which separate both sides perfectly."""
    counts = np.array(guesses)
    right = one_run_guesses.correct_guesses(np.arange(coins) < members, counts)
    return product_channel.bound(family, counts, right, coins=coins, significance=1 - confidence, largest=family.largest)[0]


PLUGIN = ProductChannel
