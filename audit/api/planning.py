"""Before an audit: the result it could show, and how often it would be wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from audit.core import checks
from audit.core.errors import ConfigError
from audit.core.game import Game
from audit.core.tables import Table

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from audit.bounds.power import PlanRow
    from audit.core.claims import Certificate
    from audit.core.events import Event
    from audit.core.plans import RunPlan


def plan(
    *,
    delta: float,
    claim: float = 0.0,
    scores: int = 1000,
    game: Game | str = "one_run",
    confidence: float = 0.95,
    power: float = 0.8,
    estimators: Sequence[str] | None = None,
    mechanism: Event | None = None,
) -> Table[PlanRow]:
    """Return what an audit with so many scores could show, and the smallest true epsilon it would catch with chance `power`.

    Args:
        claim: the epsilon to be refuted; 0 asks for the proof of any leakage.
        scores: members and nonmembers together.
        estimators: names; None for all that the game's grants and `mechanism` allow.

    >>> rows = plan(delta=1e-5, claim=1.0, scores=200, game="independent_trials", estimators=("rank_exact",))
    >>> rows[0].estimator, 1 < rows[0].detectable < rows[0].ceiling * 4
    ('rank_exact', True)
    """
    from audit import plugins
    from audit.bounds import power as planning

    checks.confidence(confidence)
    planned_game = Game.of_scores(game, scores) if isinstance(game, str) else game
    package = plugins.FOLDERS["estimators"]
    names = plugins.names(package) if estimators is None else estimators
    if mechanism is None and estimators is None:
        names = tuple(name for name in names if name != "fdp_rank")
    estimators_by_name = {name: plugins.build(package, {"kind": name}) for name in names}
    question = planning.Question(delta=delta, confidence=confidence, claim=claim, power=power)
    return Table(planning.plan(estimators_by_name, [planned_game], question, mechanism=mechanism))


def plan_run(
    config: str | Path | Mapping[str, Any],
    *,
    overrides: Mapping[str, Any] | None = None,
    measure: bool = False,
    violation: float | None = 2.0,
) -> RunPlan:
    """Return what `audit.run` would do with a config, the most it could show, the leak it would catch and its cost.

    Args:
        config: a YAML file, the name of a shipped config ("quickstart"), or the same as a mapping.
        overrides: values by dotted path, such as `{"training.steps": 100}`.
        measure: train a few steps of each game to estimate the time (seconds).
        violation: true epsilon to be caught, as a multiple of the claim, at least 1; None simulates no power.

    Returns:
        tables of ceilings, power and costs; `audit.plot` draws the power.

    Raises:
        ConfigError: the config cannot be used, or a game cannot be played.
        DataError: the data cannot be read or are too few.
    """
    from audit.api.configs import resolve
    from audit.experiment.line.assemble import assemble
    from audit.experiment.plan.plan import make_plan

    if violation is not None and not 1 <= violation < float("inf"):
        raise ConfigError(f"violation is {violation!r}; expected at least 1, a multiple of the claimed epsilon, or None")
    return make_plan(assemble(resolve(config, overrides or {}).config, seed=0), measure=measure, violation=violation)


def certify(
    *,
    delta: float,
    scores: int = 1000,
    attacks: int = 1,
    confidence: float = 0.95,
    game: Game | str = "one_run",
    estimators: Sequence[str] | None = None,
    mechanism: Event | None = None,
    repetitions: int = 200,
) -> Table[Certificate]:
    """Return how often "the largest of these bounds over so many attacks" is wrong, by simulating that very path at this size.

    Args:
        scores: members and nonmembers together.
        attacks: among which, with the estimators, the error rate `1 - confidence` is split.
        estimators: names; None for the default of the game.

    >>> [row.epsilon for row in certify(delta=1e-5, scores=100, repetitions=20)]
    [0.0, 1.0]
    """
    from audit import plugins
    from audit.bounds import granted, simulation

    planned_game = Game.of_scores(game, scores) if isinstance(game, str) else game
    package = plugins.FOLDERS["estimators"]
    instances = [plugins.build(package, {"kind": name}) for name in estimators or (granted.for_epsilon(planned_game),)]
    for estimator in instances:
        planned_game.require(estimator.assumes, type(estimator).__name__)
    level = 1 - (1 - checks.confidence(confidence)) / (attacks * len(instances))
    path = simulation.Path(
        attacks=(tuple(instances),) * attacks, game=planned_game, mechanism=mechanism, delta=delta, level=level
    )
    return Table(simulation.certify(path, repetitions))
