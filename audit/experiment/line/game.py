"""One game, from coins to results."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from attacks.signals._rounds import ModelProducts, SumProducts, UpdateProducts
from attacks.signals.logits import Logits
from audit.bounds.budget import Budget, share
from audit.checks.execution import check_executed, check_finite, own_modules
from audit.core import training
from audit.core.access import Access
from audit.core.coins import Coins
from audit.core.data import Array
from audit.core.event_reading import noisy_steps
from audit.core.game_results import GameResult
from audit.core.lower_bounds import BoundTrajectory, ReportedBound
from audit.core.phrases import join_clauses, phrase
from audit.core.preflight import Preflight
from audit.core.protocols import ExecutionCheck
from audit.core.results import Check, Status
from audit.core.views import Scores
from audit.execution.store import Store
from audit.experiment.describe import description
from audit.experiment.games import attack, stopping
from audit.experiment.games.hypothesis import StatedClaims
from audit.experiment.games.job_specs import JobSpec, make_job_specs
from audit.experiment.games.observed import GameModels, Observations, load_models
from audit.experiment.games.prepared_game import PreparedGame
from audit.experiment.line import findings, preflight
from audit.experiment.line.side_agreement import ReadRecords
from audit.experiment.line.train import Resources, train
from audit.stats import whitening
from audit.stats.scoring.signals import cross_entropy
from audit.stats.sign_test import lower_tail
from audit.stats.whitening import energy_tail

_MOST_ANSWERS = 20_000


def look_at_targets(models: GameModels, scores: Sequence[Scores], *, games: int) -> Preflight | None:
    """Return the preflight of a game's targets; None if its scores are not of members and nonmembers.

    Verdicts rest on the best of several attacks, so the sign test, at a level that all `games` share, is of the scores with the
    largest tail.
    """
    bound_attacks = {plan.name for plan in models.prepared_game.game_design.attacks if plan.estimators}
    score_tables = [score for score in scores if score.attack in bound_attacks and score.game.choices == 1]
    score_tables = [score for score in score_tables if 0 < score.included.sum() < len(score.included)]
    if not score_tables:
        return None
    best = max(score_tables, key=lambda score: lower_tail(score.values, score.included))
    records = _read_answers(models) or ReadRecords(
        losses=-best.values, included=best.included, reading="scores of attacks, higher for members"
    )
    return preflight.look_at_signs(records, best, games=games)


def _read_answers(models: GameModels) -> ReadRecords | None:
    """Return the answers of targets, evenly chosen, for the canaries; None if these are not records of classes."""
    logits, labels, assignment = models.observed.signals.get(Logits.key), models.labels, models.prepared_game.assignment
    if logits is None or labels is None or labels.dtype.kind not in "iu" or not models.are_classified:
        return None
    targets = np.flatnonzero(~models.observed.diverged[: assignment.runs])
    targets = targets[:: max(1, -(-len(targets) * len(labels) // _MOST_ANSWERS))]
    if not len(targets):
        return None
    answers = np.concatenate([np.asarray(logits[target]) for target in targets])
    truths = np.tile(labels, len(targets)).astype(np.int64)
    included = np.concatenate([np.asarray(assignment.included[target : target + 1])[0] for target in targets]).astype(bool)
    if answers.ndim != 2 or answers.shape[1] < 2 or not 0 < included.sum() < len(included):
        return None
    return ReadRecords(
        losses=cross_entropy(answers, truths),
        included=included,
        reading=phrase("outputs are {form} of {count} classes, y holds classes", form="logits", count=answers.shape[1]),
        logits=answers,
        labels=truths,
    )


# The noise of a federation as a party sees it, whatever the trainer's log says of it.
_SIGNALS = {
    Access.EACH_UPDATE: UpdateProducts.key,
    Access.SECURE_SUM: SumProducts.key,
    Access.RELEASED_MODELS: ModelProducts.key,
}
_LEVEL = 1e-9  # of a false alarm, in each of six tests
_PAIRED = 1000  # canaries of a training whose pairs are looked at


def look_at_noise(models: GameModels) -> tuple[Check, ...]:
    """Return whether canaries that sent nothing meet the noise that is accounted for, over all rounds, in each, and each alone.

    And whether they meet other noise in each training: a draw that trainings share is known to all who can train. Along
    orthogonal directions their inner products are independent normal draws with the deviation of the noise, so their squares
    add up to a chi-square number. Less than chance allows fails. No row without a claim before that party, or orthogonal
    updates.
    """
    game = models.prepared_game
    design, canaries = game.training_design, game.assignment.canaries
    noise = None if design is None else noisy_steps(design.mechanism)
    key = _SIGNALS.get(game.game_design.access, "")
    values = models.observed.signals.get(key)
    if noise is None or not noise.noise_multiplier or values is None or not canaries.payload.orthogonal:
        return ()
    targets = np.flatnonzero(~models.observed.diverged[: game.assignment.runs])
    silent = ~np.asarray(game.assignment.included)[targets].astype(bool)
    draws = np.where(silent[..., None], np.asarray(values[targets], dtype=np.float64) / noise.noise_multiplier, np.nan)
    counts, energies = silent.sum(axis=0), np.where(silent[..., None], np.square(draws), 0.0).sum(axis=0)
    energies, counts = energies[counts > 0], counts[counts > 0]
    if not len(counts):
        return ()
    rounds, total = int(energies.shape[-1]), int(counts.sum())
    change = (draws[1::2] - draws[: len(draws) // 2 * 2 : 2]) / math.sqrt(2)  # each training is in one pair
    change = change[(silent[1::2] & silent[: len(silent) // 2 * 2 : 2])]
    by_round, by_canary = energies.sum(axis=0), energies.sum(axis=1) / (counts * rounds)
    quietest = int(np.argmin(by_canary))
    tails = (
        energy_tail(float(energies.sum()), total * rounds),
        energy_tail(float(by_round.min()), total) * rounds,
        energy_tail(float(energies[quietest].sum()), int(counts[quietest]) * rounds) * len(counts),
        energy_tail(float(np.square(change).sum()), change.size) if change.size else 1.0,
        len(draws) * min(whitening.pair_tail(own[mask][:_PAIRED]) for own, mask in zip(draws, silent, strict=True)),
        whitening.dependence_tail(draws[silent], np.random.default_rng(rounds)),
    )
    ratios = [math.sqrt(ratio) for ratio in (energies.sum() / (total * rounds), by_round.min() / total, by_canary[quietest])]
    value = (
        f"{ratios[0]:.4f} of the accounted for {total} canaries that sent nothing, {ratios[1]:.4f} in the quietest of {rounds} "
        f"rounds, {ratios[2]:.4f} along the quietest direction"
    )
    if tails[-1] <= _LEVEL:
        value += ", and noise of one round follows from that of others"
    if tails[-2] <= _LEVEL:
        value += ", and noise along one direction follows from that along another"
    if change.size:
        value += f", {math.sqrt(np.square(change).mean()):.4f} from one training to the next"
    status = Status.CHECKED if min(tails) > _LEVEL else Status.FAILED
    return (Check(code="noise-seen", item="Noise in what was seen", value=value, status=status),)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GameOutcome:
    """What came of one game; a failed one of `noise_checks`, on what a party saw, decides if no bound refutes the claim."""

    result: GameResult
    scores: tuple[Scores, ...]
    trajectories: tuple[tuple[str | None, BoundTrajectory], ...] = ()  # with the family inside which each holds
    checks: tuple[Check, ...] = ()
    noise_checks: tuple[Check, ...] = ()
    observed: Observations | None = None
    preflight: Preflight | None = None

    @property
    def bounds(self) -> tuple[ReportedBound, ...]:
        return self.result.bounds


def play_game(
    prepared_game: PreparedGame, stated_claims: StatedClaims, budget: Budget, resources: Resources, games: int = 1
) -> GameOutcome:
    """Train the models of a game, as many as it takes, and conclude; all `games` of the audit share the preflight's level.

    An attack is left out, with the reason, if the trained models cannot serve it since references diverged.
    """
    training_design, game = prepared_game.training, prepared_game.game_design
    store, execution = resources.store, resources.execution
    # each time: a folder that is resumed may hold coins of another run under this name
    store.private.put(f"coins-{training_design.name}-{game.name}", _stored_coins(prepared_game.assignment.included))
    jobs = make_job_specs(prepared_game, resources.dataset, execution)
    watch = stopping.make_stopping_rule(game, stated_claims.claims, budget, game.looks(execution.models_per_job))
    looks = _InterimAnalyses(prepared_game=prepared_game, jobs=jobs, watch=watch, store=store)
    count = train(jobs, prepared_game.assignment.canaries, resources, looks.prove)
    if count < len(jobs):
        spared = sum(job.models for job in jobs[count:])
        training.LOG.info(
            "%s, game %s: stopped early, a claim is refuted; %d runs spared", training_design.name, game.name, spared
        )
    models = load_models(looks.prepared_game, jobs[:count], store)
    if models.observed.executed is not None:
        for check in own_modules(models.observed.executed):
            training.LOG.warning("%s, game %s: %s", training_design.name, game.name, check.value)
    training.LOG.info("%s, game %s: attacks and statistics", training_design.name, game.name)
    scores, left_out = attack.attempt_whole_game(models)
    models = replace(models, prepared_game=models.prepared_game.without(left_out))
    outcome = conclude(models, scores, stated_claims, budget, watch)
    trigger = description.trigger_result(models, resources.dataset, stated_claims.claim_limits)
    outcome = replace(
        outcome,
        result=replace(outcome.result, trigger=trigger),
        preflight=look_at_targets(models, scores, games=games),
        noise_checks=look_at_noise(models),
    )
    return replace(outcome, checks=(*_execution_checks(models, execution.checks), *outcome.checks))


def _stored_coins(included: Any) -> dict[str, Array]:
    """Coins of a game as its run keeps them: a bit for each model and canary, and the number of canaries."""
    bits = included.bits if isinstance(included, Coins) else np.packbits(included, axis=1)
    return {"bits": np.asarray(bits), "canaries": np.asarray(included.shape[1])}


def conclude(
    models: GameModels, scores: Sequence[Scores], stated_claims: StatedClaims, budget: Budget, watch: stopping.StoppingRule
) -> GameOutcome:
    """All that statistics find in the models of a game, trained here or brought by a user, and in the attacks' scores."""
    prepared_game = models.prepared_game
    checks: tuple[Check, ...] = ()
    if prepared_game.notes:
        name = prepared_game.game_design.name
        value = phrase("game {game}: {note}", game=name, note=join_clauses(prepared_game.notes))
        checks = (Check(code=f"left-out-{name}", item="Attacks left out", value=value, status=Status.GAP),)
    result = findings.bound_game(scores, findings.make_terms(prepared_game, watch), stated_claims, budget)
    return GameOutcome(
        result=description.describe(result, models, scores, share(budget.confidence, watch.looks)),
        scores=tuple(scores),
        trajectories=description.trajectories(models, budget),
        checks=checks,
        observed=models.observed,
    )


def _execution_checks(models: GameModels, foreign: Sequence[ExecutionCheck]) -> tuple[Check, ...]:
    observed = models.observed
    if observed.executed is None:
        return ()
    rows = check_executed(models.prepared_game.training.run_event, observed.executed, foreign)
    return (*rows, check_finite(observed.diverged))


@dataclass(slots=True, kw_only=True)
class _InterimAnalyses:
    """The looks at a game with training that may stop: after each job of targets, with the references that all looks share.

    `prepared_game` is without attacks that failed at some look; `jobs` are all in order of training, those of references first.
    """

    prepared_game: PreparedGame
    jobs: Sequence[JobSpec]
    watch: stopping.StoppingRule
    store: Store
    scores: list[list[Scores]] = field(default_factory=list)

    def prove(self, count: int) -> bool:
        last, runs = self.jobs[count - 1], self.prepared_game.game_design.runs
        if not self.watch.ends or last.rows.start >= runs:
            return False
        references = [job for job in self.jobs if job.rows.start >= runs]
        models = load_models(self.prepared_game, [*references, last], self.store)
        scores, left_out = attack.attempt(models)
        self.prepared_game = self.prepared_game.without(left_out)  # for good: what it won at earlier looks is lost
        self.scores.append(scores)
        return bool(scores) and self.watch.proves(stopping.join(self.scores))
