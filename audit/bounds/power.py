"""Before a run: the epsilon it could show, the leak it would catch, and how much it takes to catch more.

Power is that of the estimator against ideal scores of a Gaussian mechanism; a real attack reaches at most that.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from audit.bounds import claim_test, simulation_costs
from audit.core import checks
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.data import Array
from audit.core.errors import ConfigError
from audit.core.events import Event
from audit.core.game import Assumption, Game, Inclusion
from audit.core.protocols import AnytimeEstimator, Estimator
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.stats.bounds import binomial
from audit.stats.curves import tradeoff

POWER = 0.8
DRAWS = 1000  # a rate of 80 % is then known to 1.3 %
DRAW_CHOICES = (1000, 500, 200, 100)  # where as many take long
LOOKS, PATIENCE = 2.5, 12.5  # tests of each draw, about, and seconds that they may take together
PILOT, PILOT_DEFICIT, PILOT_TOLERANCE = 100, 0.1, 0.03  # draws that say where the search begins, at so much less power
BALANCES = 5  # numbers of members that represent all, if the coins are not what is tested: nulls are simulated for each
TOLERANCE = 0.01  # of the least epsilon that is caught, relative
FEWER_DRAWS = 25  # where whole bounds are simulated
NULLS = 4  # streams that simulating estimators share over simulated audits, so that what they simulate is made once
LARGEST_MU = 40.0
MOST_SCORES = 200_000
MOST_TOGETHER = 1_000_000  # scores of simulated audits that are tested at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a plan is asked about.

    Attributes:
        claim: the epsilon that the audit sets out to refute; 0 asks for the proof of any leakage.
        power: wanted chance that the bound is above the claim.
        draws: simulated audits behind each estimate of that chance, at most.
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

    @property
    def quota(self) -> int:
        """Return how many of the simulated audits have to catch for the wanted power."""
        return math.ceil(self.power * self.draws - 1e-9)  # 0.07 * 100 is 7.000000000000001: it asks for 7, not 8


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """What one estimator can do in one game.

    Attributes:
        detectable: the smallest true epsilon at which the bound exceeds the claim with the wanted power; infinite if
            even an almost unprotected mechanism would not be caught.
        family: None, or the trade-off family inside which these figures hold.
        hours: of training on one device, or None if the cost of a model is not given.
    """

    estimator: str
    canaries: int
    runs: int
    ceiling: float
    detectable: float
    typical: float
    family: str | None
    hours: float | None = None


def ideal_scores(
    game: Game, mu: float, seed: Seed, mechanism: Event | None = None, *, each_coin: bool = True, members: int | None = None
) -> Scores:
    """Scores as the best attack on a mu-GDP mechanism would give them in `game`, under coins that are drawn as the game does.

    Copies of a canary show as many times mu.

    Args:
        each_coin: draw each of the coins; False takes one of five numbers of members that are as likely as one another, so that
            estimators that simulate their null for each number need few.
        members: taken instead of those five, if their number is known.
    """
    count = max(game.canaries * game.runs, 2)
    if game.choices > 1:  # candidates at right angles: a replacement moves by sqrt(2) mu
        distance = mu / math.sqrt(2) if game.adjacency is Adjacency.REPLACE_ONE else mu
        drawn = seed.child("secrets").numpy().integers(game.choices, size=count)
        shift = distance * (np.arange(game.choices) == drawn[:, None])
        values = seed.child("scores").numpy().normal(size=(count, game.choices)) + shift
        return claim_test.secret_scores(game, values, drawn, mechanism)
    included = _coins(game, count, seed.child("coins"), each_coin, members)
    values = seed.child("scores").numpy().normal(size=count) + mu * game.copies * included
    return Scores(values=values, included=included, game=game, attack="ideal", mechanism=mechanism)


def _coins(game: Game, count: int, seed: Seed, each_coin: bool, known: int | None) -> Array:
    """`(count,)` memberships with at least one on either side, which estimators ask for."""
    draws = seed.numpy().random(count)
    chance = game.inclusion_probability
    if each_coin:
        members = int((draws < chance).sum())
    elif known is not None:
        members = known
    else:
        level = (math.floor(draws[0] * BALANCES) + 0.5) / BALANCES
        members = binomial.quantile(level, count, chance)
    return np.asarray(np.argsort(draws) < min(max(members, 1), count - 1))


def ceiling(estimator: Estimator, game: Game, question: Question, mechanism: Event | None = None) -> float:
    """The epsilon that perfect scores would prove with half of the canaries planted."""
    count = max(2, game.canaries * game.runs)
    if game.choices > 1:
        certain = np.tile(np.arange(game.choices) == 0, (count, 1)).astype(float)
        scores = claim_test.secret_scores(game, certain, np.zeros(count, dtype=int), mechanism)
        return estimator.lower_bound(scores, delta=question.delta, confidence=question.confidence, seed=Seed(0)).ceiling
    included = np.arange(count) < count // 2
    perfect = Scores(values=included.astype(float), included=included, game=game, attack="perfect", mechanism=mechanism)
    return estimator.lower_bound(perfect, delta=question.delta, confidence=question.confidence, seed=Seed(0)).ceiling


def bounds_at(
    estimator: Estimator, game: Game, epsilon: float, question: Question, mechanism: Event | None = None
) -> tuple[float, ...]:
    """Bounds of `question.draws` simulated audits of a Gaussian mechanism with true epsilon `epsilon`, sorted."""
    mu = tradeoff.gdp_mu(epsilon, question.delta)
    bounds = []
    for draw in range(question.draws):
        scores = ideal_scores(game, mu, _score_power(draw), mechanism, each_coin=asks_coins(estimator))
        bound = estimator.lower_bound(scores, delta=question.delta, confidence=question.confidence, seed=_estimator_power(draw))
        bounds.append(bound.epsilon)
    return tuple(sorted(bounds))


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerQuery:
    """A question put to one estimator in one game, of so many members where they are known and coins do not have to decide."""

    estimator: Estimator
    game: Game
    question: Question
    mechanism: Event | None = None
    members: int | None = None

    def catches_draw(self, epsilon: float, draw: int) -> bool:
        """True if simulated audit number `draw` of a Gaussian mechanism with this true epsilon refutes the claim."""
        return bool(self.find_catches(epsilon, [draw]))

    def find_catches(self, epsilon: float, draws: Sequence[int]) -> list[int]:
        """Return those of some simulated audits that refute the claim, in their order."""
        question, mu = self.question, tradeoff.gdp_mu(epsilon, self.question.delta)
        catches = []
        ideal = functools.partial(ideal_scores, self.game, mu, mechanism=self.mechanism, members=self.members)
        is_coin = asks_coins(self.estimator)
        step = max(1, MOST_TOGETHER // (self.game.canaries * self.game.runs))
        for part in (draws[begin : begin + step] for begin in range(0, len(draws), step)):
            answers = claim_test.refutes_tables(
                self.estimator,
                [ideal(_score_power(draw), each_coin=is_coin) for draw in part],
                epsilon=question.claim,
                delta=question.delta,
                confidence=question.confidence,
                seeds=[_estimator_power(draw) for draw in part],
            )
            catches += [draw for draw, is_refuted in zip(part, answers, strict=True) if is_refuted]
        return catches

    def catches(self, epsilon: float) -> bool:
        """True if the claim is refuted with the wanted power; stops simulating as soon as that is settled."""
        draws, quota, misses = self.question.draws, self.question.quota, 0
        for draw in range(draws):
            misses += not self.catches_draw(epsilon, draw)
            if misses > draws - quota:
                return False
            if draw + 1 - misses >= quota:
                return True
        return False


def asks_coins(estimator: Estimator) -> bool:
    """Return whether an estimator is about coins that decide how many members there are."""
    return Assumption.INDEPENDENT_COINS in estimator.assumes


def _score_power(draw: int) -> Seed:
    return Seed(0).child("plan", draw)


def _estimator_power(draw: int) -> Seed:
    return Seed(0).child("plan estimator", draw % NULLS)


def detectable(
    estimator: Estimator,
    game: Game,
    question: Question,
    mechanism: Event | None = None,
    *,
    members: int | None = None,
    tolerance: float = TOLERANCE,
) -> float:
    """The smallest true epsilon that this audit catches with the wanted power, from above to `tolerance`; infinite if none.

    Caught means that the bound is above `question.claim`. A simulated audit sees the same noise at every epsilon, so one
    that catches an epsilon is taken to catch all larger ones, and is simulated only where the search does not know it.
    """
    game.require(estimator.assumes, type(estimator).__name__)
    query = PowerQuery(estimator=estimator, game=game, question=question, mechanism=mechanism, members=members)
    first = max(2 * question.claim, 1.0)
    if question.draws <= PILOT:
        return _search(query, first, first, tolerance)
    # a few draws find an epsilon that is caught a little too rarely: there most draws catch, and need no further test
    rarely = replace(question, draws=PILOT, power=max(question.power - PILOT_DEFICIT, question.power / 2))
    first = _search(replace(query, question=rarely), first, first, PILOT_TOLERANCE)
    return first if math.isinf(first) else _search(query, first, first / 10, tolerance)


def _search(query: PowerQuery, first: float, stride: float, tolerance: float) -> float:
    """`detectable` from a first epsilon to try on, upwards by strides that double until enough is caught, then by halving."""
    question = query.question
    low, high = question.claim, first
    largest = tradeoff.gdp_epsilon(LARGEST_MU, question.delta)
    # `sure`: how many draws catch `low` already; `unsure`: those that may still decide; `beyond`: `high` is caught often enough
    sure, unsure, beyond = 0, list(range(question.draws)), False
    while not beyond or high > low * (1 + tolerance) + tolerance / 5:
        at = (low + high) / 2 if beyond else high
        detections = query.find_catches(at, unsure)
        if sure + len(detections) >= question.quota:
            high, unsure, beyond = at, detections, True
            continue
        if not beyond and high >= largest:
            return math.inf
        low, sure, unsure = at, sure + len(detections), [draw for draw in unsure if draw not in set(detections)]
        if not beyond:
            high, stride = min(high + stride, largest), 2 * stride
    return high


def scores_needed(
    estimator: Estimator, game: Game, truth: float, question: Question, mechanism: Event | None = None, *, start: int = 16
) -> int | None:
    """Return how many scores (runs if a run has one canary, else canaries) catch a mechanism of true epsilon `truth`.

    To ten per cent from above; None if 200,000 do not suffice. The search begins at `start`.
    """

    @functools.cache
    def suffices(scores: int) -> bool:
        resize = with_scores(game, scores)
        return PowerQuery(estimator=estimator, game=resize, question=question, mechanism=mechanism).catches(truth)

    low = high = start
    while not suffices(high):
        if high >= MOST_SCORES:
            return None
        low, high = high, min(2 * high, MOST_SCORES)
    while low > 1 and suffices(low):
        low, high = low // 2, low
    while high > 1.1 * low + 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high


def runs_to_proof(query: PowerQuery, truth: float, claim: Claim) -> float:
    """After how many runs a game that stops at the first proof would refute `claim`: the median over simulated audits.

    Infinite if half of them find no proof within the runs of the game, or the estimator is not one for such games.
    """
    run_counts = proofs(query, truth, claim)
    return run_counts[len(run_counts) // 2]


def proofs(query: PowerQuery, truth: float, claim: Claim) -> list[float]:
    """After how many runs each simulated audit refutes `claim`, ascending; infinite if it does not.

    Scores are those of the best attack on a Gaussian mechanism of true epsilon `truth`.
    """
    estimator, question = query.estimator, query.question
    if not isinstance(estimator, AnytimeEstimator):
        return [math.inf]
    mu, run_counts = tradeoff.gdp_mu(truth, question.delta), []
    for draw in range(question.draws):
        ideal = ideal_scores(query.game, mu, _score_power(draw), query.mechanism)
        order = _score_power(draw).child("order").numpy().permutation(len(ideal.values))
        scores = replace(ideal, values=ideal.values[order], included=ideal.included[order])
        _, evidence = estimator.watch([scores], [claim], delta=question.delta, confidence=question.confidence, attacks=1)
        run_counts += [math.inf if process.proved is None else process.proved for process in evidence] or [math.inf]
    return sorted(run_counts)


def with_scores(game: Game, scores: int) -> Game:
    """The same game with so many scores in all: more runs if a run has one canary, else more canaries."""
    if game.canaries == 1:
        return replace(game, runs=scores)
    return replace(game, canaries=max(1, scores // game.runs))


def plan(
    estimators: Mapping[str, Estimator],
    games: Sequence[Game],
    question: Question,
    *,
    mechanism: Event | None = None,
    seconds_per_model: float | None = None,
) -> tuple[PlanRow, ...]:
    """One row per game and estimator, if the game grants the estimator's assumptions; `ConfigError` for a game in which no
    coins decide memberships.
    """
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
    name: str, estimator: Estimator, game: Game, question: Question, *, mechanism: Event | None, hours: float | None
) -> PlanRow:
    seconds = LOOKS * simulation_costs.claim_seconds(estimator, game.canaries * game.runs, together=True)
    draws = simulation_costs.affordable(question.draws, seconds, DRAW_CHOICES, PATIENCE) or min(
        question.draws, DRAW_CHOICES[-1]
    )
    epsilon = detectable(estimator, game, replace(question, draws=draws), mechanism)
    probe = epsilon if math.isfinite(epsilon) else max(question.claim, 1.0)
    typical = bounds_at(estimator, game, probe, replace(question, draws=min(question.draws, FEWER_DRAWS)), mechanism)
    family = claim_test.find_family(estimator, game, mechanism, question.delta)
    return PlanRow(
        estimator=name,
        canaries=game.canaries,
        runs=game.runs,
        ceiling=ceiling(estimator, game, question, mechanism),
        detectable=epsilon,
        typical=typical[len(typical) // 2],
        family=family,
        hours=hours,
    )
