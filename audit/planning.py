"""Before a run: what it could show, what it would catch, and how much it takes to catch more.

Power is that of the estimator against ideal scores of a Gaussian mechanism; a real attack reaches at most that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from audit.core import checks
from audit.core.errors import ConfigError
from audit.core.game import Game, Inclusion
from audit.core.mechanism import Mechanism
from audit.core.protocols import Estimator
from audit.core.records import Scores
from audit.core.seeds import Seed
from audit.stats import tradeoff

POWER = 0.8
DRAWS = 25
LARGEST_MU = 40.0
MOST_SCORES = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a plan is asked about.

    Attributes:
        claim: the epsilon that the audit sets out to refute; 0 asks for the proof of any leakage at all.
        power: wanted chance that the bound lies above the claim.
        draws: simulated audits behind each estimate of that chance.
    """

    delta: float
    confidence: float = 0.95
    claim: float = 0.0
    power: float = POWER
    draws: int = DRAWS

    def __post_init__(self) -> None:
        checks.open_probability(self.delta, "delta")
        checks.open_probability(self.confidence, "confidence")
        checks.open_probability(self.power, "power")
        checks.nonnegative(self.claim, "claim")
        if self.draws < 1:
            raise ConfigError(f"draws is {self.draws}; expected at least one simulated audit")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """What one estimator can do in one game.

    Attributes:
        ceiling: the epsilon that perfect scores would prove.
        detectable: the smallest true epsilon at which the bound exceeds the claim with the wanted power; infinite where
            even an almost unprotected mechanism would not be caught.
        typical: median bound at that epsilon.
        family: None, or the trade-off family inside which these figures hold.
        hours: of training on one device, or None where the cost of a model is not given.
    """

    estimator: str
    canaries: int
    runs: int
    ceiling: float
    detectable: float
    typical: float
    family: str | None
    hours: float | None = None


def ideal_scores(game: Game, mu: float, seed: Seed, mechanism: Mechanism | None = None) -> Scores:
    """Scores as the best attack on a mu-GDP mechanism would give them in `game`, coins and all."""
    count = game.canaries * game.runs
    coins = seed.child("coins").numpy().random(count) < game.inclusion_probability
    if count > 1 and (coins.all() or not coins.any()):
        coins[0] = not coins[0]
    values = seed.child("scores").numpy().normal(size=count) + mu * coins
    return Scores(values=values, included=coins, game=game, attack="ideal", mechanism=mechanism)


def ceiling(estimator: Estimator, game: Game, question: Question, mechanism: Mechanism | None = None) -> float:
    """The epsilon that perfect scores would prove with half of the canaries planted."""
    count = max(2, game.canaries * game.runs)
    included = np.arange(count) < count // 2
    perfect = Scores(values=included.astype(float), included=included, game=game, attack="perfect", mechanism=mechanism)
    return estimator.lower_bound(perfect, delta=question.delta, confidence=question.confidence, seed=Seed(0)).ceiling


def bounds_at(
    estimator: Estimator, game: Game, epsilon: float, question: Question, mechanism: Mechanism | None = None
) -> tuple[float, ...]:
    """Bounds of `question.draws` simulated audits of a Gaussian mechanism whose true epsilon is `epsilon`, sorted."""
    mu = tradeoff.mu_of_gdp(epsilon, question.delta)
    draws = range(question.draws)
    found = [_simulated_bound(estimator, game, mu, draw, question=question, mechanism=mechanism) for draw in draws]
    return tuple(sorted(found))


def _simulated_bound(
    estimator: Estimator, game: Game, mu: float, draw: int, *, question: Question, mechanism: Mechanism | None
) -> float:
    seed = Seed(0).child("plan", draw)
    scores = ideal_scores(game, mu, seed, mechanism)
    return estimator.lower_bound(scores, delta=question.delta, confidence=question.confidence, seed=seed).epsilon


def power_at(estimator: Estimator, game: Game, epsilon: float, question: Question, mechanism: Mechanism | None = None) -> float:
    """The share of simulated audits that refute `question.claim` when the true epsilon is `epsilon`."""
    found = bounds_at(estimator, game, epsilon, question, mechanism)
    return sum(bound > question.claim for bound in found) / len(found)


def catches(estimator: Estimator, game: Game, epsilon: float, question: Question, mechanism: Mechanism | None = None) -> bool:
    """Whether the claim is refuted with the wanted power; stops simulating as soon as that is settled."""
    mu = tradeoff.mu_of_gdp(epsilon, question.delta)
    needed, missed = math.ceil(question.power * question.draws - 1e-9), 0
    for draw in range(question.draws):
        found = _simulated_bound(estimator, game, mu, draw, question=question, mechanism=mechanism)
        missed += found <= question.claim
        if missed > question.draws - needed:
            return False
        if draw + 1 - missed >= needed:
            return True
    return False


def detectable(
    estimator: Estimator, game: Game, question: Question, mechanism: Mechanism | None = None, *, tolerance: float = 0.05
) -> float:
    """The smallest true epsilon that this audit catches with the wanted power, from above to `tolerance`; infinite if none.

    Caught means that the bound lies above `question.claim`.
    """
    game.require(estimator.assumes, type(estimator).__name__)
    low, high = question.claim, max(2 * question.claim, 1.0)
    largest = tradeoff.epsilon_of_gdp(LARGEST_MU, question.delta)
    while not catches(estimator, game, high, question, mechanism):
        if high >= largest:
            return math.inf
        low, high = high, min(2 * high, largest)
    while high > low * (1 + tolerance) + 0.01:
        middle = (low + high) / 2
        caught = catches(estimator, game, middle, question, mechanism)
        low, high = (low, middle) if caught else (middle, high)
    return high


def scores_needed(
    estimator: Estimator, game: Game, truth: float, question: Question, mechanism: Mechanism | None = None
) -> int | None:
    """How many scores (runs where a run has one canary, else canaries) catch a mechanism of true epsilon `truth`.

    To ten per cent from above; None where 200,000 do not suffice.
    """
    low, high = 1, 16
    while not catches(estimator, resized(game, high), truth, question, mechanism):
        if high >= MOST_SCORES:
            return None
        low, high = high, min(2 * high, MOST_SCORES)
    while high > 1.1 * low + 1:
        middle = (low + high) // 2
        caught = catches(estimator, resized(game, middle), truth, question, mechanism)
        low, high = (low, middle) if caught else (middle, high)
    return high


def resized(game: Game, scores: int) -> Game:
    """The same game with so many scores in all: more runs where a run has one canary, else more canaries."""
    if game.canaries == 1:
        return replace(game, runs=scores)
    return replace(game, canaries=max(1, scores // game.runs))


def plan(
    estimators: Mapping[str, Estimator],
    games: Sequence[Game],
    question: Question,
    *,
    mechanism: Mechanism | None = None,
    seconds_per_model: float | None = None,
) -> tuple[PlanRow, ...]:
    """One row for each game and each estimator whose assumptions that game grants."""
    rows = []
    for game in games:
        if game.inclusion is not Inclusion.COINS:
            raise ConfigError("a plan needs memberships decided by coins; without them no epsilon follows from scores")
        models = game.runs + game.references
        hours = None if seconds_per_model is None else models * seconds_per_model / 3600
        for name, estimator in estimators.items():
            if estimator.assumes <= game.grants:
                rows.append(_row(name, estimator, game, question, mechanism=mechanism, hours=hours))
    return tuple(rows)


def _row(
    name: str, estimator: Estimator, game: Game, question: Question, *, mechanism: Mechanism | None, hours: float | None
) -> PlanRow:
    found = detectable(estimator, game, question, mechanism)
    probe = found if math.isfinite(found) else max(question.claim, 1.0)
    typical = bounds_at(estimator, game, probe, question, mechanism)
    family = estimator.lower_bound(
        ideal_scores(game, 1.0, Seed(0), mechanism), delta=question.delta, confidence=question.confidence, seed=Seed(0)
    ).family
    return PlanRow(
        estimator=name,
        canaries=game.canaries,
        runs=game.runs,
        ceiling=ceiling(estimator, game, question, mechanism),
        detectable=found,
        typical=typical[len(typical) // 2],
        family=family,
        hours=hours,
    )
