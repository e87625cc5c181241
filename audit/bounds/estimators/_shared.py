"""What estimators share: checks of options and scores, the claimed curves, and families of symmetric curves."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from audit.core import checks
from audit.core.adjacency import Adjacency
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.game import Assumption
from audit.core.views import Scores
from audit.event_curves import EventCurves, find_curves, signal_noise
from audit.stats.arrays import Counts
from audit.stats.bounds import one_run_guesses, ranks
from audit.stats.bounds.ranks import Memberships
from audit.stats.curves import tradeoff

TRIALS = frozenset({Assumption.INDEPENDENT_TRIALS})  # which are identically distributed, too
COINS = frozenset({Assumption.INDEPENDENT_COINS})  # which are fair


def read_fractions(fractions: Sequence[float]) -> tuple[float, ...]:
    """Return shares of guesses as a tuple; `ConfigError` if there is none, or one outside (0, 1]."""
    shares = tuple(fractions)
    if not shares or not all(0 < share <= 1 for share in shares):
        raise ConfigError(f"guess_fractions is {shares}; expected shares in (0, 1], at least one")
    return shares


def demand_ratio(ratio: float) -> None:
    """Raise `ConfigError` unless the ratio of neighbouring ranks is finite and above 1."""
    if not 1 < ratio < math.inf:
        raise ConfigError(f"ratio is {ratio}; expected a number above 1")


def rank(scores: Scores, name: str, delta: float, confidence: float, *, text: str = "", inside: bool = False) -> Memberships:
    """Return the memberships by rank; `DataError` if one side is empty.

    Args:
        inside: a family, in which every epsilon is infinite at delta 0.
    """
    checks.both_sides(scores.included, name)
    checks.open_probability(confidence, "confidence")
    (checks.open_probability if inside else checks.probability)(delta, text or f"delta of {name}")
    return ranks.by_rank(scores.values, scores.included)


def count_guesses(ranking: Memberships, fractions: tuple[float, ...]) -> tuple[Counts, Counts]:
    """Return numbers of guesses, half of them from either end, and of right ones among them."""
    guesses = one_run_guesses.guess_counts(len(ranking), fractions)
    return guesses, one_run_guesses.correct_guesses(ranking, guesses)


def demand_curves(scores: Scores, name: str, instead: str, *, inside: str = "", replaced: str = "") -> EventCurves:
    """Return the curves of the claimed DP-SGD.

    Args:
        instead: what to use if the scores carry no such mechanism; `replaced` if records are replaced.

    Raises:
        UnsupportedMechanism: in both of these cases.
    """
    curves = find_curves(scores.mechanism)
    if curves is None:
        mechanism = scores.mechanism or "no mechanism"
        raise UnsupportedMechanism(f"{name}{inside} needs scores of a DP-SGD training, got {mechanism}; use {instead}")
    if scores.game.adjacency is Adjacency.REPLACE_ONE:
        raise UnsupportedMechanism(f"{name} knows DP-SGD under adding or removing a record, not under replacing one{replaced}")
    return curves


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Symmetric curves by a parameter: epsilon ("any"), mu ("gdp"), or the inverse noise of a mechanism ("dp_sgd")."""

    name: str
    delta: float
    mechanism: EventCurves | None = None

    def __call__(self, parameter: float) -> tradeoff.TradeoffCurve:
        if self.mechanism is not None:
            return self.mechanism.symmetric(signal_noise(parameter))
        return tradeoff.gdp(parameter) if self.name == "gdp" else tradeoff.epsilon_delta(parameter, self.delta)

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
        return self.mechanism.family if self.mechanism is not None else None if self.name == "any" else self.name


def claimed_family(scores: Scores, name: str, family: str, delta: float, instead: str) -> Family:
    """Return a family by its name; that of "dp_sgd" is made of the claimed curves, with errors as of `demand_curves`."""
    is_claimed = family == "dp_sgd"
    curves = demand_curves(scores, name, instead, inside=" with family 'dp_sgd'") if is_claimed else None
    return Family(name=family, delta=delta, mechanism=curves)
