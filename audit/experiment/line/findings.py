"""What follows from the scores of one game alone: figures, bounds, negative controls, simulations."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from audit.bounds import budget as bounding
from audit.bounds import control, simulation
from audit.bounds.budget import Budget
from audit.core.adjacency import Adjacency
from audit.core.claims import Certificate, Detectable, Estimate
from audit.core.events import Event
from audit.core.game import Game, Inclusion
from audit.core.game_results import AttackResult, GameResult, RocCurve
from audit.core.phrases import phrase
from audit.core.protocols import Estimator
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.experiment.games import stopping
from audit.experiment.games.hypothesis import StatedClaims
from audit.experiment.games.prepared_game import PreparedGame
from audit.experiment.line import figures
from audit.stats.bounds import gaussian_fit


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BoundTerms:
    """On what terms scores are bounded.

    Attributes:
        game: as an adversary with all its access played it.
        planned: target runs at most.
        estimators: of each attack, in the order of the scores.
        mechanism: what is claimed to have been run; None if no one says.
        watch: of a game that stops at the first proof, with estimators that bound all attacks together.
    """

    name: str
    game: Game
    planned: int
    estimators: tuple[tuple[Estimator, ...], ...]
    seed: Seed
    watch: stopping.StoppingRule
    mechanism: Event | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparisons:
    """What the limits of a game's figures hold for at once: each attack, so that the best can be picked, at every look."""

    looks: int
    attacks: int

    @property
    def count(self) -> int:
        return self.looks * self.attacks

    def named(self, curve: RocCurve, confidence: float) -> RocCurve:
        """Return a curve with a band computed at a share of the error rate as one that holds for all."""
        band = curve.band
        if self.attacks > 1:
            band = phrase("{band}, for all {attacks} attacks at once", band=band, attacks=self.attacks)
        if self.looks > 1:
            band = phrase("{band}, at any of {looks} looks", band=band, looks=self.looks)
        return replace(curve, confidence=confidence, band=band)


def make_terms(prepared_game: PreparedGame, watch: stopping.StoppingRule) -> BoundTerms:
    game_design = prepared_game.game_design
    return BoundTerms(
        name=game_design.name,
        game=prepared_game.game,
        planned=game_design.runs,
        estimators=tuple(attack.estimators for attack in game_design.attacks),
        seed=prepared_game.seed,
        watch=watch,
        mechanism=prepared_game.mechanism,
    )


def bound_game(scores: Sequence[Scores], terms: BoundTerms, stated_claims: StatedClaims, budget: Budget) -> GameResult:
    """All that follows from the scores alone: figures, bounds and negative controls, and simulations of this very game."""
    watch = terms.watch
    attacks = [
        _attack(
            score,
            () if watch.ends else estimators,
            stated_claims,
            budget,
            (terms.seed.child("bounds", index), Comparisons(looks=watch.looks, attacks=len(scores))),
        )
        for index, (score, estimators) in enumerate(zip(scores, terms.estimators, strict=True))
    ]
    certificates, detectable = _simulate(terms, stated_claims, budget, scores)
    return GameResult(
        name=terms.name,
        game=terms.game,
        attacks=tuple(attacks),
        certificates=certificates,
        detectable=detectable,
        watched=watch.result(scores, terms.seed.child("watched")) if watch.ends and scores else None,
    )


def _attack(
    scores: Scores,
    estimators: Sequence[Estimator],
    stated_claims: StatedClaims,
    budget: Budget,
    terms: tuple[Seed, Comparisons],
) -> AttackResult:
    seed, comparisons = terms
    by_coins = scores.game.inclusion is Inclusion.COINS
    result = figures.attack_result(
        scores,
        confidence=bounding.share(budget.confidence, comparisons.count),
        bounds=bounding.bounds(scores, estimators, delta=budget.delta, confidence=budget.level, seed=seed),
        control=control.negative_control(scores, estimators, delta=budget.delta, confidence=budget.level, seed=seed)
        if estimators
        else None,
        claim_limits=stated_claims.claim_limits if by_coins else figures.UNCLAIMED,
    )
    result = replace(result, roc=comparisons.named(result.roc, budget.confidence))
    return replace(result, access=scores.game.access, estimates=_estimates(scores, budget.delta))


def _estimates(scores: Scores, delta: float) -> tuple[Estimate, ...]:
    """Return the one-shot estimate of canary clients, as the literature on federated learning prints it; () for other games."""
    game = scores.game
    if game.inclusion is not Inclusion.COINS or game.adjacency is not Adjacency.ZERO_OUT or game.choices > 1:
        return ()
    value = gaussian_fit.epsilon(scores.values[scores.included], scores.values[~scores.included], delta)
    warning = "two normal laws fitted to the scores; no confidence, and biased upward where epsilon is small"
    return () if value is None else (Estimate(epsilon=value, delta=delta, estimator="two_gaussians", warning=warning),)


def _simulate(
    terms: BoundTerms, stated_claims: StatedClaims, budget: Budget, scores: Sequence[Scores]
) -> tuple[tuple[Certificate, ...], tuple[Detectable, ...]]:
    """Return how often the bounds of this game are wrong, and which leaks they would have caught, by simulating it."""
    bounding_attacks = tuple(estimators for estimators in terms.estimators if estimators)
    if not budget.certificates or not bounding_attacks:
        return (), ()
    path = simulation.Path(
        attacks=bounding_attacks,
        game=replace(terms.game, runs=terms.planned),
        mechanism=terms.mechanism,
        delta=budget.delta,
        level=budget.level,
        together=terms.watch.ends,
    )
    path = path.at_size_of(scores[0]) if scores else path
    return simulation.certify(path, budget.certificates), simulation.detectable(path, stated_claims.claims)
