"""One game on one recipe, from coins to what it showed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from audit.bounds.budget import Budget, share
from audit.checks.execution import check_executed, check_finite
from audit.core.claims import LowerBound
from audit.core.game_results import GameResult
from audit.core.protocols import ExecutionCheck
from audit.core.results import BoundTrajectory, Check, Status
from audit.core.views import Scores
from audit.experiment import attack, findings, stopping
from audit.experiment.attack import GameModels
from audit.experiment.insertion import Insertion
from audit.experiment.job import Order
from audit.experiment.observed import Observations, gather
from audit.experiment.records import RecordTable
from audit.experiment.spec import Recipe, StatedClaims
from audit.experiment.train import Resources, orders, train


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GameOutcome:
    """What came of one game."""

    result: GameResult
    scores: tuple[Scores, ...]
    trajectories: tuple[tuple[str | None, BoundTrajectory], ...] = ()  # with the family inside which each holds
    checks: tuple[Check, ...] = ()
    observed: Observations | None = None

    @property
    def bounds(self) -> tuple[LowerBound, ...]:
        """All bounds of the game."""
        return self.result.bounds


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rules:
    """What is fixed before a game is played.

    Attributes:
        stated: the claims it may refute.
        budget: its share of the error.
        records: their names.
        checks: of what was run, by third parties, after our own.
    """

    stated: StatedClaims
    budget: Budget
    records: RecordTable
    checks: tuple[ExecutionCheck, ...] = ()


def play(insertion: Insertion, recipe: Recipe, rules: Rules, resources: Resources) -> GameOutcome:
    """Train the models of a game, as many as it takes, and conclude from them.

    An attack that what was trained cannot serve, since references diverged, is left out with the reason.
    """
    store, game, together = resources.store, insertion.play, resources.execution.models_per_job
    store.private.arrays(f"coins-{recipe.name}-{game.name}", lambda: {"included": insertion.planting.included})
    order_list = orders(insertion, recipe, resources.dataset, resources.execution)
    jobs = list(zip(game.portions(together), order_list, strict=True))
    watch = stopping.watch_of(game, rules.stated.claims, rules.budget, game.looks(together))
    scores: list[list[Scores]] = []

    def enough(count: int) -> bool:
        nonlocal insertion
        rows = jobs[count - 1][0]
        if not watch.ends or rows.start >= game.runs:
            return False
        references = [job for job in jobs if job[0].start >= game.runs]
        look = part(insertion, [*references, jobs[count - 1]], resources)
        scored, left_out = attack.attempt(look)
        insertion = insertion.without(left_out)  # for good: what it won at earlier looks is lost
        scores.append(scored)
        return bool(scored) and watch.proves(stopping.join(scores))

    count = train(order_list, insertion.planting.canaries, resources, enough)
    if count < len(jobs):
        spared_runs = sum(len(rows) for rows, _ in jobs[count:])
        stopping.LOG.info("%s, game %s: stopped early, a claim is refuted; %d runs spared", recipe.name, game.name, spared_runs)
    models = part(insertion, jobs[:count], resources)
    loss = attack.lost_reason(models)
    last, left_out = ([], {attack.name: loss for attack in insertion.play.attacks}) if loss else attack.attempt(models)
    return concluded(replace(models, insertion=models.insertion.without(left_out)), last, rules, watch)


def part(insertion: Insertion, jobs: Sequence[tuple[range, Order]], resources: Resources) -> GameModels:
    """The game as far as these jobs, with the models that each trained, show it."""
    by_start = sorted(jobs, key=lambda job: job[0].start)
    rows = np.concatenate([np.arange(rows.start, rows.stop) for rows, _ in by_start])
    planting = insertion.planting
    runs = int(np.sum(rows < insertion.play.runs))
    records = planting.canaries.records
    return GameModels(
        insertion=replace(insertion, planting=replace(planting, included=planting.included[rows], runs=runs)),
        observed=gather([order.key for _, order in by_start], resources.store),
        labels=None if records is None else records.labels,
        first=int(rows[0]),
    )


def concluded(models: GameModels, scores: Sequence[Scores], rules: Rules, watch: stopping.Watch) -> GameOutcome:
    """All that statistics find in the models of a game, trained here or brought by somebody, and in the attacks' scores."""
    game, observation = models.insertion, models.observed
    result = findings.bound_game(scores, findings.terms_of(game, watch), rules.stated, rules.budget)
    checks: tuple[Check, ...] = ()
    if observation.executed is not None and game.run_event is not None:
        checks = (*check_executed(game.run_event, observation.executed, rules.checks), check_finite(observation.diverged))
    if game.notes:
        value = f"game {game.play.name}: {'; '.join(game.notes)}"
        checks = (*checks, Check(code=f"left-out-{game.play.name}", item="Attacks left out", value=value, status=Status.GAP))
    return GameOutcome(
        result=findings.describe(result, models, scores, rules.records, share(rules.budget.confidence, watch.looks)),
        scores=tuple(scores),
        trajectories=findings.trajectories(models, rules.budget),
        checks=checks,
        observed=observation,
    )
