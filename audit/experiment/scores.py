"""Scores that any tool made, held against a claim."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from audit import plugins
from audit.bounds import simulation as certificates
from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.claims import Certificate, Detectable, LowerBound, Verdict
from audit.core.data import Array
from audit.core.errors import UnsupportedMechanism
from audit.core.game import Assumption, Game, Inclusion
from audit.core.protocols import Estimator
from audit.core.results import AttackResult, AuditReport, Check, GameResult, MechanismResult, Status
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.experiment import figures, judge, trained_report
from audit.experiment.settings import Settings

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
    rules = game_of(game, len(np.asarray(values)))
    scores = Scores(values=values, included=included, game=rules, attack="scores")
    estimators = granted_estimators(rules, settings.estimators)
    certified, detectable = simulated(rules, estimators, settings, attacks=1)
    attack = proven(scores, estimators, settings, comparisons=len(estimators))
    verdicts = tuple(judged(settings, (attack,), sound=True))
    result = MechanismResult(
        name=name,
        mechanism=None,
        claims=settings.claims,
        trajectories=(),
        bound_trajectories=(),
        games=(GameResult(name="scores", game=rules, attacks=(attack,), certificates=certified, detectable=detectable),),
        verdicts=verdicts,
        outcome=judge.of_mechanism(verdicts),
        utility=(),
        checks=(_declared(game),),
    )
    notes = tuple(note for note in (inverted(attack),) if note)
    return trained_report.report(
        settings,
        kind="scores",
        title=settings.title or name,
        model="not given",
        data=None,
        result=result,
        notes=notes,
        comparisons=len(estimators),
        config=settings.text(scores=name, records=len(scores.values), game=game),
    )


def game_of(game: str, count: int) -> Game:
    """The rules that a table of `count` scores was obtained under."""
    shapes = {"one_run": (count, 1), "independent_trials": (1, count)}
    canaries, runs = trained_report.pick(game, shapes, "game")
    return Game(
        adjacency=Adjacency.ADD_REMOVE,
        access=Access.FINAL_MODEL,
        inclusion=Inclusion.COINS,
        canaries=max(canaries, 1),
        runs=max(runs, 1),
        canary="scores given",
    )


def granted_estimators(game: Game, names: Sequence[str] | None = None) -> tuple[Estimator, ...]:
    """The estimators called `names`; or all, with default options, that assume no more than the game grants and no mechanism.

    Those whose bounds hold inside a trade-off family only have to be named: they cannot refute a bare claim, and would take
    their share of the error budget.

    Raises:
        ConfigError: there is no estimator of that name.
    """
    if names is not None:
        return tuple(plugins.build("audit.bounds.estimators", {"kind": name}) for name in names)
    offered = [plugins.build("audit.bounds.estimators", {"kind": name}) for name in plugins.names("audit.bounds.estimators")]
    granted = [(one, _probed(one, game)) for one in offered if one.assumes <= game.grants]
    return tuple(one for one, bound in granted if bound is not None and bound.family is None)


def _probed(estimator: Estimator, game: Game) -> LowerBound | None:
    """A bound on two made-up scores, None where the estimator needs a mechanism that a bare table of scores does not name."""
    probe = Scores(values=np.array([1.0, 0.0]), included=np.array([True, False]), game=game)
    try:
        return estimator.lower_bound(probe, delta=0.1, confidence=0.5, seed=Seed(0))
    except UnsupportedMechanism:
        return None


def simulated(
    game: Game, estimators: tuple[Estimator, ...], settings: Settings, *, attacks: int
) -> tuple[tuple[Certificate, ...], tuple[Detectable, ...]]:
    """How often the bounds of this audit are wrong, and what they would have caught, by simulating it."""
    if not settings.certificates or not estimators or not attacks:
        return (), ()
    path = certificates.Path(
        attacks=(estimators,) * attacks,
        game=game,
        mechanism=None,
        delta=settings.delta,
        level=figures.share(settings.confidence, attacks * len(estimators)),
    )
    return certificates.certify(path, settings.certificates), certificates.detectable(path, settings.claims)


def proven(scores: Scores, estimators: Sequence[Estimator], settings: Settings, *, comparisons: int) -> AttackResult:
    """One attack with its bounds, at the share of the error budget that `comparisons` leave, and its negative control."""
    seed = settings.stream.child(scores.attack)
    level = figures.share(settings.confidence, comparisons)
    found = figures.bounds(scores, estimators, delta=settings.delta, confidence=level, seed=seed.child("bounds"))
    control = figures.negative_control(scores, estimators, delta=settings.delta, confidence=level, seed=seed)
    claim = next(iter(settings.claims), None)
    return figures.attack_result(scores, confidence=settings.confidence, seed=seed, bounds=found, control=control, claim=claim)


def judged(settings: Settings, attacks: Sequence[AttackResult], *, sound: bool) -> list[Verdict]:
    """A verdict for the claim, if there is one."""
    bounds: list[LowerBound] = [bound for attack in attacks for bound in attack.bounds]
    trusted = all(attack.control is None or attack.control.passed for attack in attacks)
    return [judge.judge(claim, bounds, trusted=trusted and sound) for claim in settings.claims]


def inverted(attack: AttackResult) -> str:
    """A remark where scores point the wrong way, else nothing."""
    if attack.auc_upper >= 0.5:
        return ""
    return (
        f"Members score lower than nonmembers (AUC {attack.auc:.3f}): higher must mean more likely a member. "
        "If these are losses or p-values, give their negatives."
    )


def _declared(game: str) -> Check:
    granted = [Assumption.INDEPENDENT_COINS.value.replace("_", " ")]
    if game == "independent_trials":
        granted.append(Assumption.INDEPENDENT_TRIALS.value.replace("_", " "))
    return Check(code="game", item="How the scores came about", value=" and ".join(granted), status=Status.DECLARED)
