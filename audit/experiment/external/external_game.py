"""The game of a model that a user brought: which attacks it and its references can serve."""

from collections.abc import Set

from attacks.signals._nonmember_medians import NonmemberMedians
from audit import plugins
from audit.bounds.granted import granted_estimators
from audit.core.access import Access, smallest_access
from audit.core.adjacency import Adjacency
from audit.core.errors import ConfigError
from audit.core.game import Game, Inclusion
from audit.core.protocols import Attack
from audit.experiment.games.attack import build_attack
from audit.experiment.games.prepared_game import ExternalRecords
from audit.experiment.games.settings import Settings
from audit.experiment.games.spec import GameDesign, PlannedAttack


def external_game(
    settings: Settings, brought_records: ExternalRecords, models: int, signals: Set[str], *, by_coins: bool
) -> GameDesign:
    """The game of a model that a user brought: the attacks asked for, or all that it and its references can serve.

    Args:
        models: number of them, the target among them.
        signals: read off the models.
        by_coins: whether recorded coins decided what the target was trained on; without them nothing is bounded.

    Raises:
        ConfigError: an attack that was asked for cannot be served, or a claim that presence and absence say nothing of.
    """
    if settings.adjacency is not Adjacency.ADD_REMOVE:
        raise ConfigError(
            f"adjacency is '{settings.adjacency.value}', but each record was in or out of this model's training: expected "
            "'add_remove', for a claim about another adjacency is not tested by that"
        )
    provers = settings.proven_by or ()
    game = Game(
        adjacency=Adjacency.ADD_REMOVE, access=Access.FINAL_MODEL, inclusion=Inclusion.COINS, canaries=len(brought_records)
    )
    estimators = granted_estimators(game, settings.estimators) if by_coins else ()
    attacks = []
    for name, scorer in external_scorers(settings).items():
        reason = unserved_reason(scorer, models, signals)
        if reason and (settings.scorers is not None or name in provers):
            advice = "references do not change that: let `audit run` train the models, or use loss"
            if scorer.needs.of(signals) is not None:
                advice = f"give {scorer.needs.references} references or more, or use loss"
            raise ConfigError(f"scorer '{name}' {reason}; {advice}")
        if by_coins and name in provers and NonmemberMedians.key in scorer.needs.keys:
            raise ConfigError(
                f"scorer '{name}' knows which other records are nonmembers, that is, their coins, so no epsilon follows from "
                "it; name another scorer as well, whose scores are bounded (proven_by), or leave the coins out"
            )
        if not reason:
            access = smallest_access(scorer.needs.sources, Access.FINAL_MODEL) or Access.FINAL_MODEL
            own = estimators if name in provers else ()
            attacks.append(PlannedAttack(name=name, attack=scorer, access=access, estimators=own))
    return GameDesign(
        name="membership",
        access=Access.FINAL_MODEL,
        adjacency=Adjacency.ADD_REMOVE,
        runs=1,
        references=models - 1,
        count=len(brought_records),
        maker=brought_records,
        attacks=tuple(attacks),
        estimators=estimators,
    )


def external_scorers(settings: Settings) -> dict[str, Attack]:
    """Return the scorers that were asked for, or all there are, those with bounded scores first."""
    provers, package = settings.proven_by or (), plugins.FOLDERS["scorers"]
    names = settings.scorers or (*provers, *(name for name in plugins.names(package) if name not in provers))
    return {name: build_attack({"kind": name}) for name in names}


def unserved_reason(scorer: Attack, models: int, names: Set[str]) -> str:
    """Return why a scorer cannot be run on so many models, target included, of which so much is released; "" if it can."""
    if scorer.needs.references < models and scorer.needs.of(names) is not None:
        return ""
    if scorer.needs.of(names) is not None:
        return f"needs {scorer.needs.references} reference models and {models - 1} were given"
    signals = ", ".join(sorted(signal.key for signal in scorer.needs.signals))
    sources = ", ".join(sorted(scorer.needs.sources - names))
    return f"reads {signals} and so needs {sources}; recorded answers of models show {', '.join(sorted(names))} alone"
