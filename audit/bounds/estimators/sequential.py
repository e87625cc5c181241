"""Evidence that may be looked at at any time: bets against claims, one independent trial after another."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from audit.bounds.estimators._shared import TRIALS
from audit.core import checks, score_values
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.data import Array
from audit.core.errors import UnsupportedMechanism
from audit.core.evidence import BetWeight, Evidence
from audit.core.game import Assumption
from audit.core.lower_bounds import LowerBound
from audit.core.phrases import phrase
from audit.core.protocols import Pairs
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.event_curves import EventCurves, find_curves
from audit.stats.bounds import betting_claims, sequential
from audit.stats.curves import tradeoff
from audit.stats.spread import evenly

FAMILIES = ("any", "gdp", "dp_sgd")
MOST_POINTS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequential:
    """An e-process of bets on coins, score by score; the largest epsilon refuted at any time.

    A game with `stopping: first_proof` asks it after each job, and trains no more models once a claim is refuted.

    Attributes:
        family: "any" bounds epsilon of (epsilon, delta)-DP for any mechanism; "gdp" bounds mu of mu-GDP and "dp_sgd" the
            effective noise of DP-SGD at the claimed rate and steps. The latter two state an epsilon inside their family.

    Guarantee: what the family bounds is overstated with probability at most `1 - confidence`: by `watch` at every time at
        once, so under any rule of stopping; by `lower_bound` for a number of trials that the scores did not decide. For trials
        independent given membership, and for `lower_bound` identically distributed (docs/theory/anytime.md, "Sequential").
    References: Ville 1939; Waudby-Smith and Ramdas 2024, arXiv 2010.09686; Dong, Roth and Su 2019, arXiv 1905.02383.
    """

    assumes: ClassVar[frozenset[Assumption]] = TRIALS

    family: str = "any"

    def __post_init__(self) -> None:
        checks.choice(self.family, "family", FAMILIES)

    def lower_bound(self, scores: Scores, *, delta: float, confidence: float, seed: Seed) -> LowerBound:
        """The largest epsilon of a fixed grid that was refuted, by the rows of each side in their order.

        Raises:
            DataError: one side is empty, or the rows of a side are sorted by score.
            UnsupportedMechanism: the family is "dp_sgd" and the scores carry no DP-SGD mechanism, or records are replaced.
            ConfigError: delta is 0 inside a family, in which every epsilon is then infinite.
        """
        against = self._hypotheses(scores, delta, ())
        bound = self._bound(against, _finish(against, scores, confidence), delta, confidence, scores)
        return replace(bound, selected=f"{len(scores.values)} trials" if bound.epsilon > 0 else "")

    def refutes(self, scores: Scores, *, epsilon: float, delta: float, confidence: float, seed: Seed) -> bool:
        """True if `epsilon` at `delta` is refuted, by the rows of each side in their order."""
        return self.refutes_tables([scores], epsilon=epsilon, delta=delta, confidence=confidence)[0]

    def refutes_tables(self, tables: Sequence[Scores], *, epsilon: float, delta: float, confidence: float) -> list[bool]:
        """`refutes` for audits of one game, those of equal sizes played at once: each with its fortune."""
        against = self._alone(tables[0], epsilon, delta)
        if against is None:
            return [False] * len(tables)
        sides = [_check_sides(scores) for scores in tables]
        sizes = np.array([(len(members), len(nonmembers)) for members, nonmembers in sides])
        is_refuted = np.zeros(len(tables), dtype=bool)
        for size in np.unique(sizes, axis=0):
            (places,) = np.nonzero((sizes == size).all(axis=1))
            members, nonmembers = (np.stack([sides[place][side] for place in places]) for side in (0, 1))
            wealth = sequential.finished_wealth(against, members, nonmembers, 1 - confidence)
            is_refuted[places] = wealth[:, 0] >= _threshold(confidence)
        return is_refuted.tolist()

    def bound_along(self, scores: Scores, pairs: Pairs, *, confidence: float, seed: Seed) -> tuple[float, float]:
        """The largest parameter of a fixed grid such that it and all below were refuted at some time, and the ceiling;
        `UnsupportedMechanism` if the family is not "any".
        """
        if self.family != "any":
            raise UnsupportedMechanism(f"sequential with the family '{self.family}' bounds no path of (epsilon, delta) pairs")
        against = betting_claims.along(pairs)
        bound = self._bound(against, _finish(against, scores, confidence), pairs(0.0)[1], confidence, scores)
        return bound.epsilon, bound.ceiling

    def ever_refutes(self, scores: Sequence[Scores], *, epsilon: float, delta: float, confidence: float) -> bool:
        """True if all attacks together refuted `epsilon` at `delta` at some time; `scores` as for `watch`."""
        against = self._alone(scores[0], epsilon, delta)
        return against is not None and bool((_follow(against, scores).joint >= _threshold(confidence)).any())

    def _alone(self, like: Scores, epsilon: float, delta: float) -> betting_claims.Hypotheses | None:
        """The family's member with this epsilon; None if it has none."""
        self._check(delta)
        if self.family == "any":
            return betting_claims.pairs(np.array([epsilon]), delta)
        if self.family == "gdp":
            return betting_claims.alone(tradeoff.gdp(tradeoff.gdp_mu(epsilon, delta)), epsilon)
        mechanism = _dp_sgd(like)
        signal = mechanism.signal_of(epsilon, delta)
        if math.isinf(signal):
            return None
        return betting_claims.alone(mechanism.at(1 / signal), epsilon)

    def _check(self, delta: float) -> None:
        (checks.probability if self.family == "any" else checks.open_probability)(delta, "delta of sequential")

    def watch(
        self, scores: Sequence[Scores], claims: Sequence[Claim], *, delta: float, confidence: float, attacks: int
    ) -> tuple[LowerBound, tuple[Evidence, ...]]:
        """The bound of all attacks together on the trials so far, and the evidence against each claim that it can refute;
        errors as of `lower_bound`.

        Args:
            scores: of each attack on the same trials, in the order in which models were trained.
            claims: stated before the first model was trained.
            attacks: planned before the first model was trained; those of them without scores have lost their stakes.
        """
        against = self._hypotheses(scores[0], delta, tuple(sorted({claim.epsilon for claim in claims})))
        path, significance = _follow(against, scores, attacks), 1 - checks.open_probability(confidence, "confidence")
        top = _ceiling(against, path.end.trials, significance, path.end.chance)
        places = sequential.largest_refuted(path.end, significance), top
        bound = self._bound(against, places, delta, confidence, scores[0])
        models = -(-np.array(path.trials) // scores[0].game.canaries)
        names = [score.attack for score in scores]
        able = [claim for claim in claims if claim.can_be_refuted_by(bound)]
        evidence = tuple(
            replace(_evidence(path, place, claim, (models, names, confidence)), family=bound.family)
            for claim in able
            if (place := against.against(claim.epsilon)) is not None
        )
        first_proof = min((process.proved for process in evidence if process.proved is not None), default=None)
        description = (
            phrase("a claim was refuted after {runs} runs", runs=first_proof)
            if first_proof is not None
            else f"{len(scores[0].values)} trials"
        )
        return replace(bound, selected=description if bound.epsilon > 0 else ""), evidence

    def _hypotheses(self, scores: Scores, delta: float, claims: tuple[float, ...]) -> betting_claims.Hypotheses:
        self._check(delta)
        if self.family == "any":
            return betting_claims.any_mechanism(delta, claims)
        if self.family == "gdp":
            return betting_claims.gaussian(delta, claims)
        return _dp_sgd(scores).hypotheses(delta)

    def _parameter(self, parameter: float, mechanism: EventCurves | None) -> float | None:
        """Return what a report names: mu, the noise multiplier, or nothing."""
        if mechanism is not None:
            return mechanism.parameter(1 / parameter)
        return None if self.family == "any" else parameter

    def _bound(
        self,
        against: betting_claims.Hypotheses,
        places: tuple[int | None, int | None],
        delta: float,
        confidence: float,
        like: Scores,
    ) -> LowerBound:
        """The bound of the weakest claim that is refuted, and of the one that perfect scores refute."""
        mechanism, (index, top) = _dp_sgd(like) if self.family == "dp_sgd" else None, places
        epsilon = 0.0 if index is None else float(against.epsilons[index])
        return LowerBound(
            epsilon=epsilon,
            delta=delta,
            confidence=confidence,
            estimator="sequential",
            comparisons=1,
            ceiling=max(epsilon, 0.0 if top is None else float(against.epsilons[top])),
            assumes=tuple(self.assumes),
            family=mechanism.family if mechanism is not None else None if self.family == "any" else self.family,
            parameter=self._parameter(float(against.parameters[index or 0]), mechanism),
        )


def _dp_sgd(scores: Scores) -> EventCurves:
    curves = find_curves(scores.mechanism)
    if curves is None or scores.game.adjacency is Adjacency.REPLACE_ONE:
        raise UnsupportedMechanism(
            f"sequential with the family 'dp_sgd' needs scores of DP-SGD under adding or removing a record, got "
            f"{scores.mechanism or 'no mechanism'} under '{scores.game.adjacency.value}'; use the family 'any'"
        )
    return curves


def _finish(against: betting_claims.Hypotheses, scores: Scores, confidence: float) -> tuple[int | None, int | None]:
    """The weakest claims that finished scores refute, and that perfect ones would: of the rows of each side in their order;
    `DataError` if one side is empty, or the rows of a side are sorted by score.

    No coins are needed, how members and nonmembers came to be so many may be unknown, and how the two sides are mixed in the
    table changes nothing (docs/theory/anytime.md, "Sequential").
    """
    members, nonmembers = _check_sides(scores)
    significance = 1 - checks.open_probability(confidence, "confidence")
    (wealth,) = sequential.finished_wealth(against, members[None], nonmembers[None], significance)
    return sequential.weakest(wealth, significance), _finished_ceiling(against, len(members), len(nonmembers), significance)


def _check_sides(scores: Scores) -> tuple[Array, Array]:
    checks.both_sides(scores.included, "sequential")
    nonmembers = score_values.check_order(scores.nonmembers, "nonmembers", "sequential")
    return score_values.check_order(scores.members, "members", "sequential"), nonmembers


def _follow(against: betting_claims.Hypotheses, scores: Sequence[Scores], attacks: int | None = None) -> sequential.BettingPath:
    """The game on trials in their order, with the game's own coins."""
    values, included = np.stack([score.values for score in scores]), np.asarray(scores[0].included)
    return sequential.follow(against, values, included, scores[0].game.inclusion_probability, attacks)


def _threshold(confidence: float) -> float:
    return -math.log(1 - checks.open_probability(confidence, "confidence"))


def _evidence(
    path: sequential.BettingPath, place: int, claim: Claim, measurements: tuple[Array, Sequence[str], float]
) -> Evidence:
    """The bets against one claim; `measurements` are the models at each point, the attacks' names and the confidence."""
    models, attacks, confidence = measurements
    threshold = _threshold(confidence)
    first_proof = _first(path.joint[:, place], threshold)
    keep = _thin(len(models), first_proof)
    return Evidence(
        estimator="sequential",
        family=None,
        claim=claim,
        models=tuple(models[keep].tolist()),
        log_evidence=tuple(path.joint[keep, place].tolist()),
        threshold=threshold,
        proved=None if first_proof is None else int(models[first_proof]),
        stakes=tuple(
            BetWeight(attack=name, log_evidence=tuple(path.separate[keep, index, place].tolist()))
            for index, name in enumerate(attacks)
        ),
    )


def _first(path: Array, threshold: float) -> int | None:
    """The first point at or above the threshold."""
    crossings = np.flatnonzero(path >= threshold)
    return int(crossings[0]) if len(crossings) else None


def _thin(points: int, proof: int | None) -> Array:
    """At most `MOST_POINTS` evenly spread points with both ends, and the one that must not be lost."""
    grid = evenly(points, MOST_POINTS)
    return np.unique(grid if proof is None else np.append(grid, proof))


@functools.lru_cache(maxsize=256)
def _ceiling(against: betting_claims.Hypotheses, trials: int, significance: float, chance: float) -> int | None:
    return sequential.perfect(against, trials, significance, chance)


@functools.lru_cache(maxsize=256)
def _finished_ceiling(against: betting_claims.Hypotheses, members: int, nonmembers: int, significance: float) -> int | None:
    return sequential.perfect_sides(against, members, nonmembers, significance)


PLUGIN = Sequential
