"""One run, a whole trade-off function: right guesses compared with the Gaussian curve or that of DP-SGD."""

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
from audit.stats.bounds import one_run_fdp, one_run_guesses, ranks
from audit.stats.bounds.validation import Counts
from audit.stats.curves import tradeoff

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
    References:
        Mahloujifar, Melis and Chaudhuri 2024, arXiv 2410.22235.
    """

    family: str = "gdp"
    guess_fractions: tuple[float, ...] = (0.05, 0.2)

    def __post_init__(self) -> None:
        object.__setattr__(self, "guess_fractions", tuple(self.guess_fractions))
        checks.choice(self.family, "family", FAMILIES)
        if not self.guess_fractions or not all(0 < share <= 1 for share in self.guess_fractions):
            raise ConfigError(f"guess_fractions is {self.guess_fractions}; expected shares in (0, 1], at least one")

    @property
    def assumes(self) -> frozenset[Assumption]:
        """Independent fair coins."""
        return frozenset({Assumption.INDEPENDENT_COINS})

    def lower_bound(self, scores: Scores, *, delta: float, confidence: float, seed: Seed) -> LowerBound:
        """The epsilon at `delta` of the most private curve not refuted.

        Raises:
            DataError: one side is empty.
            UnsupportedMechanism: family "dp_sgd" without a DP-SGD mechanism in the scores.
            ConfigError: delta is 0, at which every epsilon is infinite.
        """
        mechanism = self._mechanism(scores)
        coins = len(scores.values)
        guesses, correct = self._counts(scores, delta, confidence)
        parameter, at = _search(mechanism, guesses, correct, coins, 1 - confidence)
        top = _ceiling(mechanism, tuple(guesses.tolist()), coins, len(scores.members), confidence)
        epsilon = _epsilon(parameter, mechanism, delta)
        return LowerBound(
            epsilon=epsilon,
            delta=delta,
            confidence=confidence,
            estimator="one_run_fdp",
            comparisons=len(guesses),
            ceiling=max(epsilon, _epsilon(top, mechanism, delta)),
            assumes=(Assumption.INDEPENDENT_COINS,),
            family=self.family if mechanism is None else mechanism.family,
            parameter=_parameter(parameter, mechanism),
            selected=phrase("{right} of {guesses} guesses right", right=correct[at], guesses=guesses[at]) if at >= 0 else "",
        )

    def refutes(self, scores: Scores, *, epsilon: float, delta: float, confidence: float, seed: Seed) -> bool:
        """True if one of the registered counts refutes the member of the family that has `epsilon` at `delta`."""
        mechanism = self._mechanism(scores)
        guesses, correct = self._counts(scores, delta, confidence)
        at = tradeoff.gdp_mu(epsilon, delta)
        if mechanism is not None:
            at = mechanism.signal_of(epsilon, delta)
        return math.isfinite(at) and one_run_fdp.refutes(
            _inverse(mechanism), guesses, correct, coins=len(scores.values), significance=1 - confidence, parameter=at
        )

    def _mechanism(self, scores: Scores) -> EventCurves | None:
        if self.family != "dp_sgd":
            return None
        curves = find_curves(scores.mechanism)
        if curves is None:
            raise UnsupportedMechanism(
                f"one_run_fdp with family 'dp_sgd' needs scores of a DP-SGD training, got "
                f"{scores.mechanism or 'no mechanism'}; use family 'gdp' or one_run"
            )
        if scores.game.adjacency is Adjacency.REPLACE_ONE:
            raise UnsupportedMechanism("one_run_fdp knows DP-SGD under adding or removing a record, not under replacing one")
        return curves

    def _counts(self, scores: Scores, delta: float, confidence: float) -> tuple[Counts, Counts]:
        """Numbers of guesses, and of right ones among them."""
        checks.both_sides(scores.included, "one_run_fdp")
        checks.open_probability(confidence, "confidence")
        checks.open_probability(delta, "delta of one_run_fdp")
        ranking = ranks.by_rank(scores.values, scores.included)
        guesses = np.minimum(one_run_guesses.guess_counts(len(ranking), self.guess_fractions), one_run_fdp.MOST_GUESSES)
        return guesses, one_run_guesses.correct_guesses(ranking, guesses)


def _inverse(mechanism: EventCurves | None) -> one_run_fdp.Inverse:
    """Of the curves by mu, or by signal (inverse noise)."""
    if mechanism is None:
        return one_run_fdp.gdp_inverse
    return one_run_fdp.curve_inverse(lambda signal: mechanism.symmetric(signal_noise(signal)))


def _search(
    mechanism: EventCurves | None, guesses: Counts, correct: Counts, coins: int, significance: float
) -> tuple[float, int]:
    """The largest mu or signal (inverse noise) refuted, and the index of the count that does it."""
    inverse, largest = _inverse(mechanism), 40.0 if mechanism is None else MOST_SIGNAL
    return one_run_fdp.bound(inverse, guesses, correct, coins=coins, significance=significance, largest=largest)


def _epsilon(parameter: float, mechanism: EventCurves | None, delta: float) -> float:
    if mechanism is None:
        return tradeoff.gdp_epsilon(parameter, delta)
    return mechanism.epsilon(signal_noise(parameter), delta)


def _parameter(parameter: float, mechanism: EventCurves | None) -> float:
    if mechanism is None:
        return parameter
    return mechanism.parameter(parameter)


@functools.lru_cache(maxsize=256)
def _ceiling(mechanism: EventCurves | None, guesses: tuple[int, ...], coins: int, members: int, confidence: float) -> float:
    """Return the parameter that scores refute which separate both sides perfectly."""
    counts = np.array(guesses)
    right = one_run_guesses.correct_guesses(np.arange(coins) < members, counts)
    return _search(mechanism, counts, right, coins, 1 - confidence)[0]


PLUGIN = OneRunFdp
