"""Evidence that may be looked at at any time: bets against claims, pair after pair of independent trials."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from audit.core import checks
from audit.core.bounds import Claim, LowerBound
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.game import Assumption
from audit.core.mechanism import Adjacency, DpSgd
from audit.core.records import Array, Scores
from audit.core.seeds import Seed
from audit.core.watched import Evidence, Stake
from audit.stats import curves, ranks, sequential, sgd_curve, tradeoff
from audit.stats.curves import Curve

FAMILIES = ("any", "gdp", "dp_sgd")
MOST_POINTS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequential:
    """An e-process over pairs of a member and a nonmember; the largest epsilon refuted at any time.

    A game with `stopping: first_proof` asks it after each job, and trains no more models once a claim is refuted.

    Attributes:
        family: "any" bounds epsilon of (epsilon, delta)-DP for any mechanism; "gdp" bounds mu of mu-GDP and "dp_sgd" the
            effective noise of DP-SGD at the claimed rate and steps. The latter two state an epsilon inside their family.

    Guarantee: what the family bounds is overstated with probability at most `1 - confidence`: by `watch` at every time at
        once, so under any rule of stopping; by `lower_bound` for a number of trials that the scores did not decide. For trials
        independent and identically distributed given membership (docs/statistics.md, "Sequential").
    References:
        Ville 1939; Waudby-Smith and Ramdas 2024, arXiv 2010.09686; Dong, Roth and Su 2019, arXiv 1905.02383.
    """

    family: str = "any"

    def __post_init__(self) -> None:
        if self.family not in FAMILIES:
            raise ConfigError(f"family is '{self.family}'; expected one of {', '.join(FAMILIES)}")

    @property
    def assumes(self) -> frozenset[Assumption]:
        """Independent, identically distributed trials."""
        return frozenset({Assumption.INDEPENDENT_TRIALS})

    def lower_bound(self, scores: Scores, *, delta: float, confidence: float, seed: Seed) -> LowerBound:
        """The largest epsilon of a fixed grid that was refuted, with finished scores paired in random order.

        Raises:
            DataError: one side is empty.
            UnsupportedMechanism: the family is "dp_sgd" and the scores carry no DP-SGD mechanism, or records are replaced.
            ConfigError: delta is 0 inside a family, where every epsilon is infinite.
        """
        pairs, sides = _shuffled(scores, seed)
        against = self._hypotheses(scores, delta, ())
        followed = sequential.follow(against, *sides)
        found = self._bound(followed, against, delta, confidence)
        proved = _first(followed.joint[:, 0], -math.log(1 - confidence))
        when = f"leakage proved after {followed.pairs[proved]} of {pairs} pairs" if proved is not None else ""
        return replace(found, selected=when if found.epsilon > 0 else "", seed=seed.integer())

    def refutes(self, scores: Scores, *, epsilon: float, delta: float, confidence: float, seed: Seed) -> bool:
        """Whether `epsilon` at `delta` was refuted at some time, with finished scores paired in random order."""
        return self._ever(scores, _shuffled(scores, seed)[1], epsilon=epsilon, delta=delta, confidence=confidence)

    def ever_refutes(self, scores: Sequence[Scores], *, epsilon: float, delta: float, confidence: float) -> bool:
        """Whether all attacks together refuted `epsilon` at `delta` at some time; `scores` as for `watch`."""
        return self._ever(scores[0], _in_order(scores)[1], epsilon=epsilon, delta=delta, confidence=confidence)

    def _ever(self, like: Scores, sides: tuple[Array, Array], *, epsilon: float, delta: float, confidence: float) -> bool:
        significance = 1 - checks.open_probability(confidence, "confidence")
        curve = self._curve(like, epsilon, delta)
        if curve is None:
            return False
        return sequential.refuted(sequential.follow(sequential.alone(curve, epsilon), *sides).end, significance) is not None

    def _curve(self, like: Scores, epsilon: float, delta: float) -> Curve | None:
        """What the family's member with this epsilon allows at most; None where it has none."""
        self._check(delta)
        if self.family == "any":
            return curves.epsilon_delta(epsilon, delta)
        if self.family == "gdp":
            return curves.gdp(tradeoff.mu_of_gdp(epsilon, delta))
        mechanism = _dp_sgd(like)
        signal = sgd_curve.signal_of(epsilon, mechanism.sample_rate, mechanism.steps, delta)
        return None if math.isinf(signal) else sgd_curve.sgd(1 / signal, mechanism.sample_rate, mechanism.steps)

    def _check(self, delta: float) -> None:
        (checks.probability if self.family == "any" else checks.open_probability)(delta, "delta of sequential")

    def watch(
        self, scores: Sequence[Scores], claims: Sequence[Claim], *, delta: float, confidence: float
    ) -> tuple[LowerBound, tuple[Evidence, ...]]:
        """The bound of all attacks together on the trials so far, and the evidence against each claim that it can refute.

        Args:
            scores: of each attack on the same trials, in the order in which models were trained.
            claims: stated before the first model was trained.

        Raises:
            UnsupportedMechanism, ConfigError: as `lower_bound`.
        """
        finished, sides = _in_order(scores)
        against = self._hypotheses(scores[0], delta, tuple(sorted({claim.epsilon for claim in claims})))
        followed = sequential.follow(against, *sides)
        bound = self._bound(followed, against, delta, confidence)
        models = np.append(0, finished // scores[0].game.canaries + 1)[list(followed.pairs)]
        attacks = [one.attack for one in scores]
        able = [claim for claim in claims if claim.can_be_refuted_by(bound)]
        found = tuple(
            replace(_evidence(followed, place, claim, (models, attacks, confidence)), family=bound.family)
            for claim in able
            if (place := against.against(claim.epsilon)) is not None
        )
        proved = min((one.proved for one in found if one.proved is not None), default=None)
        told = f"a claim was refuted after {proved} runs" if proved is not None else f"{len(finished)} pairs"
        return replace(bound, selected=told if bound.epsilon > 0 else ""), found

    def _hypotheses(self, scores: Scores, delta: float, claimed: tuple[float, ...]) -> sequential.Hypotheses:
        self._check(delta)
        if self.family == "any":
            return sequential.any_mechanism(delta, claimed)
        if self.family == "gdp":
            return sequential.gaussian(delta, claimed)
        mechanism = _dp_sgd(scores)
        return sequential.dp_sgd(mechanism.noise_multiplier, mechanism.sample_rate, mechanism.steps, delta)

    def _bound(
        self, followed: sequential.Followed, against: sequential.Hypotheses, delta: float, confidence: float
    ) -> LowerBound:
        significance = 1 - checks.open_probability(confidence, "confidence")
        refuted = sequential.refuted(followed.end, significance)
        top = _ceiling(against, followed.end.pairs, significance)
        epsilon = 0.0 if refuted is None else float(against.epsilons[refuted])
        return LowerBound(
            epsilon=epsilon,
            delta=delta,
            confidence=confidence,
            estimator="sequential",
            comparisons=1,
            ceiling=max(epsilon, 0.0 if top is None else float(against.epsilons[top])),
            assumes=(Assumption.INDEPENDENT_TRIALS,),
            family=None if self.family == "any" else self.family,
            parameter=None if self.family == "any" else float(against.parameters[refuted or 0]),
        )


def _dp_sgd(scores: Scores) -> DpSgd:
    mechanism = scores.mechanism
    if not isinstance(mechanism, DpSgd) or scores.game.adjacency is Adjacency.REPLACE_ONE:
        raise UnsupportedMechanism(
            f"sequential with the family 'dp_sgd' needs scores of DP-SGD under adding or removing a record, got "
            f"{type(mechanism).__name__} under '{scores.game.adjacency.value}'; use the family 'any'"
        )
    return mechanism


def _shuffled(scores: Scores, seed: Seed) -> tuple[int, tuple[Array, Array]]:
    """How many pairs finished scores give, and the pairs in random order, ties broken: members and nonmembers `(1, pairs)`."""
    checks.both_sides(scores.included, "sequential")
    ranked = ranks.by_rank(scores.values, scores.included, seed.child("ties").numpy())
    order = seed.child("order").numpy()
    members = order.permutation(-np.flatnonzero(ranked).astype(np.float64))
    nonmembers = order.permutation(-np.flatnonzero(~ranked).astype(np.float64))
    pairs = min(len(members), len(nonmembers))
    return pairs, (members[None, :pairs], nonmembers[None, :pairs])


def _in_order(scores: Sequence[Scores]) -> tuple[Array, tuple[Array, Array]]:
    """Which trial completes each pair, and the pairs in the order of trials: members and nonmembers `(attacks, pairs)`."""
    included = scores[0].included
    members, nonmembers = np.flatnonzero(included), np.flatnonzero(~included)
    pairs = min(len(members), len(nonmembers))
    members, nonmembers = members[:pairs], nonmembers[:pairs]
    sides = (np.stack([one.values[members] for one in scores]), np.stack([one.values[nonmembers] for one in scores]))
    return np.maximum(members, nonmembers), sides


def _evidence(followed: sequential.Followed, place: int, claim: Claim, told: tuple[Array, Sequence[str], float]) -> Evidence:
    """The bets against one claim; `told` are the models at each point, the attacks' names and the confidence."""
    models, attacks, confidence = told
    threshold = -math.log(1 - confidence)
    proved = _first(followed.joint[:, place], threshold)
    keep = _thin(len(models), proved)
    return Evidence(
        estimator="sequential",
        family=None,
        claim=claim,
        models=tuple(models[keep].tolist()),
        log_evidence=tuple(followed.joint[keep, place].tolist()),
        threshold=threshold,
        proved=None if proved is None else int(models[proved]),
        stakes=tuple(
            Stake(attack=name, log_evidence=tuple(followed.each[keep, index, place].tolist()))
            for index, name in enumerate(attacks)
        ),
    )


def _first(path: Array, threshold: float) -> int | None:
    """The first point at or above the threshold."""
    reached = np.flatnonzero(path >= threshold)
    return int(reached[0]) if len(reached) else None


def _thin(points: int, kept: int | None) -> Array:
    """At most `MOST_POINTS` evenly spread points with both ends, and the one that must not be lost."""
    even = np.linspace(0, points - 1, min(points, MOST_POINTS)).round().astype(np.int64)
    return np.unique(even if kept is None else np.append(even, kept))


@functools.lru_cache(maxsize=256)
def _ceiling(against: sequential.Hypotheses, pairs: int, significance: float) -> int | None:
    return sequential.perfect(against, pairs, significance)


PLUGIN = Sequential
