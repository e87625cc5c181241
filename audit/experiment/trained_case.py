"""One audit of a trained model: its outputs, its records, the game, and every attack that outputs alone can serve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attacks.signals import _reading as reading
from audit import plugins
from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.data import Array
from audit.core.errors import ConfigError
from audit.core.game import Game, Inclusion
from audit.core.protocols import Attack
from audit.core.results import AttackResult
from audit.core.views import Scores, View
from audit.data.members import Evidence
from audit.experiment import figures
from audit.experiment.scores import granted_estimators, proven
from audit.experiment.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Case:
    """All that one audit of a trained model works on."""

    view: View
    evidence: Evidence
    game: Game
    settings: Settings

    @property
    def by_coins(self) -> bool:
        return self.game.inclusion is Inclusion.COINS

    @property
    def correct(self) -> Array | None:
        """`(n,)` bool, which records the model predicts rightly; None where only losses are known."""
        logits = self.view.get("logits")
        return None if logits is None else np.asarray(np.argmax(logits, axis=1) == self.evidence.labels)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.settings.names.names(self.evidence.rows.tolist()))

    def scored(self, name: str, scorer: Attack) -> Scores:
        seed = self.settings.stream.child("scorer").child(name)
        values = scorer.score(self.view, reading.NO_REFERENCE, seed)
        return Scores(values=values, included=self.evidence.included, game=self.game, attack=name)


def game_of(evidence: Evidence, by_coins: bool) -> Game:
    return Game(
        adjacency=Adjacency.ADD_REMOVE,
        access=Access.FINAL_MODEL,
        inclusion=Inclusion.COINS if by_coins else Inclusion.SPLIT,
        canaries=len(evidence.included),
        canary="records given as members and nonmembers",
    )


def scored(case: Case) -> tuple[Scores, ...]:
    """The scores of every attack; of attacks that nobody asked for by name, those that rank the records in a new way."""
    found: list[Scores] = []
    seen: set[bytes] = set()
    for name, scorer in _scorers(case.settings, case.view):
        scores = case.scored(name, scorer)
        order = np.unique(scores.values, return_inverse=True)[1].tobytes()
        if order not in seen or case.settings.scorers is not None or name in case.settings.proven_by:
            found.append(scores)
        seen.add(order)
    return tuple(found)


def attack_results(case: Case, scored: Sequence[Scores]) -> tuple[tuple[AttackResult, ...], int]:
    """Every attack's result, and among how many bounds the error budget was split."""
    settings = case.settings
    estimators = granted_estimators(case.game, settings.estimators) if case.by_coins else ()
    comparisons = len(estimators) * sum(scores.attack in settings.proven_by for scores in scored)
    found = []
    for scores in scored:
        if estimators and scores.attack in settings.proven_by:
            found.append(proven(scores, estimators, settings, comparisons=comparisons))
        else:
            claim = next(iter(settings.claims), None) if case.by_coins else None
            seed = settings.stream.child(scores.attack)
            found.append(figures.attack_result(scores, confidence=settings.confidence, seed=seed, claim=claim))
    return tuple(found), comparisons


def _scorers(settings: Settings, view: View) -> list[tuple[str, Attack]]:
    """The attacks asked for, or all that need nothing but these outputs; `proven_by` first."""
    if settings.scorers is None:
        offered = plugins.names("attacks.scorers") if "logits" in view.signals else ("loss",)
        names = [*settings.proven_by, *(name for name in offered if name not in settings.proven_by)]
    else:
        names = list(settings.scorers)
    built = [(name, plugins.build("attacks.scorers", {"kind": name})) for name in names]
    for name, one in built:
        if (settings.scorers is not None or name in settings.proven_by) and not _outputs_suffice(one):
            raise ConfigError(
                f"scorer '{name}' needs {one.needs.references} reference models or the training itself; a trained model alone "
                "has neither: use loss, or `audit run`"
            )
    return [(name, one) for name, one in built if _outputs_suffice(one)]


def _outputs_suffice(scorer: Attack) -> bool:
    return not scorer.needs.references and scorer.needs.of(frozenset({"labels", "losses", "outputs"})) is not None
