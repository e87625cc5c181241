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
from audit.stats import ranks, sequential

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
        checks.both_sides(scores.included, "sequential")
        ranked = ranks.by_rank(scores.values, scores.included, seed.child("ties").numpy())
        order = seed.child("order").numpy()
        members = order.permutation(-np.flatnonzero(ranked).astype(np.float64))
        nonmembers = order.permutation(-np.flatnonzero(~ranked).astype(np.float64))
        pairs = min(len(members), len(nonmembers))
        against = self._hypotheses(scores, delta, ())
        followed = sequential.follow(against, members[None, :pairs], nonmembers[None, :pairs])
        found = self._bound(followed, against, delta, confidence)
        proved = _first(followed.joint[:, 0], -math.log(1 - confidence))
        when = f"leakage proved after {followed.pairs[proved]} of {pairs} pairs" if proved is not None else ""
        return replace(found, selected=when if found.epsilon > 0 else "", seed=seed.integer())

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
        first = scores[0]
        sides = [np.flatnonzero(first.included), np.flatnonzero(~first.included)]
        pairs = min(len(side) for side in sides)
        members, nonmembers = (np.stack([one.values[side[:pairs]] for one in scores]) for side in sides)
        finished = np.maximum(sides[0][:pairs], sides[1][:pairs]) // first.game.canaries + 1
        against = self._hypotheses(first, delta, tuple(sorted({claim.epsilon for claim in claims})))
        followed = sequential.follow(against, members, nonmembers)
        bound = self._bound(followed, against, delta, confidence)
        models = np.append(0, finished)[list(followed.pairs)]
        attacks = [one.attack for one in scores]
        able = [claim for claim in claims if claim.can_be_refuted_by(bound)]
        found = tuple(
            _evidence(followed, place, claim, (models, attacks, confidence))
            for claim in able
            if (place := against.against(claim.epsilon)) is not None
        )
        proved = min((one.proved for one in found if one.proved is not None), default=None)
        told = f"a claim was refuted after {proved} runs" if proved is not None else f"{pairs} pairs of runs"
        return replace(bound, selected=told if bound.epsilon > 0 else ""), found

    def _hypotheses(self, scores: Scores, delta: float, claimed: tuple[float, ...]) -> sequential.Hypotheses:
        checks.probability(delta, "delta")
        if self.family == "any":
            return sequential.any_mechanism(delta, claimed)
        checks.open_probability(delta, f"delta of sequential inside the family '{self.family}'")
        if self.family == "gdp":
            return sequential.gaussian(delta, claimed)
        mechanism = scores.mechanism
        if not isinstance(mechanism, DpSgd) or scores.game.adjacency is Adjacency.REPLACE_ONE:
            raise UnsupportedMechanism(
                f"sequential with the family 'dp_sgd' needs scores of DP-SGD under adding or removing a record, got "
                f"{type(mechanism).__name__} under '{scores.game.adjacency.value}'; use the family 'any'"
            )
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


def _evidence(followed: sequential.Followed, place: int, claim: Claim, told: tuple[Array, Sequence[str], float]) -> Evidence:
    """The bets against one claim; `told` are the models at each point, the attacks' names and the confidence."""
    models, attacks, confidence = told
    threshold = -math.log(1 - confidence)
    proved = _first(followed.joint[:, place], threshold)
    keep = _thin(len(models), proved)
    return Evidence(
        estimator="sequential",
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
