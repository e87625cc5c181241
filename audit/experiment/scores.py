"""A table of scores that any tool made: the line of a run from its bounds on."""

from __future__ import annotations

from audit import plugins
from audit.bounds.budget import Budget
from audit.bounds.granted import granted_estimators
from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.data import Array
from audit.core.game import Assumption, Game, Inclusion
from audit.core.results import AuditReport, Check, Status
from audit.core.views import Scores
from audit.experiment import findings, judge, stopping
from audit.experiment import report as reporting
from audit.experiment.game import Played
from audit.experiment.provenance import of_settings
from audit.experiment.settings import Settings
from audit.experiment.spec import Stated

GAMES = ("one_run", "independent_trials")


def inspect_scores(
    values: Array, included: Array, settings: Settings, *, game: str = "one_run", name: str = "scores"
) -> AuditReport:
    """All lower bounds that the game grants for any mechanism, their ceilings, and the verdict on `settings.claim_epsilon`.

    Args:
        values: `(n,)`, higher for records taken for members.
        included: `(n,)` bool, the coins.
        game: "one_run" (memberships are independent fair coins, scores may depend on each other) or "independent_trials"
            (besides, each score comes from a training of its own, or trainings that do not touch each other).
        name: of the table.

    Raises:
        ConfigError: an unknown game, estimator or setting.
        DataError: NaN, unequal lengths, or one side only.
    """
    rules = rules_of_scores(game, len(values))
    scores = Scores(values=values, included=included, game=rules, attack="scores")
    estimators = granted_estimators(rules, settings.estimators)
    budget = Budget(
        delta=settings.delta,
        confidence=settings.confidence,
        comparisons=len(estimators),
        certificates=settings.certificates,
    )
    terms = findings.Terms(
        name="scores",
        rules=rules,
        planned=rules.runs,
        estimators=(estimators,),
        seed=settings.stream,
        watch=stopping.never(budget, rules.runs),
    )
    stated = Stated(claims=settings.claims)
    played = Played(result=findings.bounded([scores], terms, stated, budget), scores=(scores,))
    training = judge.Training(name=name, mechanism=None, stated=stated, checks=(_declared(game),))
    config = settings.text(scores=name, records=len(scores.values), game=game)
    frame = reporting.Frame(
        kind="scores",
        title=settings.title or name,
        created=settings.timestamp(),
        budget=budget,
        data=None,
        model="not given",
        config=config,
        provenance=of_settings(settings, config),
    )
    return reporting.report([judge.concluded(training, [played])], frame)


def rules_of_scores(game: str, count: int) -> Game:
    """The rules that a table of `count` scores was obtained under.

    Raises:
        ConfigError: no such game.
    """
    canaries, runs = plugins.pick(game, {"one_run": (count, 1), "independent_trials": (1, count)}, "game")
    return Game(
        adjacency=Adjacency.ADD_REMOVE,
        access=Access.FINAL_MODEL,
        inclusion=Inclusion.COINS,
        canaries=max(canaries, 1),
        runs=max(runs, 1),
        canary="scores given",
    )


def _declared(game: str) -> Check:
    granted = [Assumption.INDEPENDENT_COINS.value.replace("_", " ")]
    if game == "independent_trials":
        granted.append(Assumption.INDEPENDENT_TRIALS.value.replace("_", " "))
    return Check(code="game", item="How the scores came about", value=" and ".join(granted), status=Status.DECLARED)
