"""What may leave the house: figures computed from memberships of which chance has turned some over, tried by an attacker.

Each membership is turned over alone with a small chance before anything of an external edition is computed from it (randomised
response), so no reader learns more of a membership than the edition's own epsilon allows, and a lower bound on epsilon from
turned memberships is one of the training as well (docs/theory/editions.md, "What an external edition tells").
"""

import hmac
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from audit.bounds import budget as bounding
from audit.bounds.granted import granted_estimators
from audit.checks.editions import attack, constraints
from audit.checks.editions.constraints import Constraints
from audit.core.claims import Outcome
from audit.core.data import Array
from audit.core.errors import AssumptionError
from audit.core.game_results import AttackResult, GameResult
from audit.core.lower_bounds import LowerBound
from audit.core.results import AuditReport, MechanismResult, Status
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.experiment.line import findings, judge
from audit.experiment.line.findings import Comparisons

EPSILON = 6.0  # of an edition: the log of the most that it changes the odds of a membership
FLIP_RATE = 1 / (1 + math.exp(EPSILON))
STEP = 0.05  # width of the steps that editions state areas and rates in
GAIN = 0.01  # area that the ranking of the shipped attacker may gain by an edition

# checks that memberships decide; of one that failed no edition is written, so that an edition shows one status of them
OF_COINS = ("blind", "order", "decoys", "twin", "references")

Place = tuple[str, str]  # names of a training and of a game


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoredGame:
    """What an attacker on an edition computes of a game, scores `(n,)` by attack, and the memberships `(n,)` to keep secret."""

    columns: Mapping[str, Array]
    included: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Leak:
    """What the shipped attacker got of one game.

    Attributes:
        records: with memberships that the game decided; `certain_records` of them follow with certainty.
        alone, together: area under the ROC of the best attack on the model alone, and of the ranking with the edition.
        seed: a number that can be guessed and draws the memberships, or None.
    """

    game: str
    records: int
    certain_records: int
    alone: float
    together: float
    seed: int | None

    @property
    def problem(self) -> str:
        """Return why the edition may not leave, "" if it may."""
        if self.seed is not None:
            return f"game '{self.game}': the seed {self.seed}, which can be guessed, draws all {self.records} memberships again"
        if self.certain_records:
            return f"game '{self.game}': {self.certain_records} of {self.records} memberships follow with certainty"
        if self.together > self.alone + GAIN:
            return f"game '{self.game}': memberships are ranked with AUC {self.together:.3f}, without it {self.alone:.3f}"
        return ""


def flip_memberships(included: Array, key: bytes, place: Place) -> Array:
    """Return memberships `(n,)` of which each is turned over alone with chance `FLIP_RATE`.

    The run's secret `key` turns the same ones over in each of its editions, so that no two can be averaged.
    """
    digest = hmac.digest(key, "\0".join(("edition", *place)).encode(), "sha256")
    draws = Seed(int.from_bytes(digest, "big")).child("turned").numpy().random(len(included))
    return np.asarray(included ^ (draws < FLIP_RATE))


def noisy_report(report: AuditReport, games: Mapping[Place, ScoredGame], key: bytes) -> AuditReport:
    """Return the report with all figures about members computed from memberships that chance has turned over in part.

    Games that cannot be computed again from scores (of secrets, or stopped at the first proof) are left out. `AssumptionError`
    if no game is left, a check that memberships decide has failed, or the verdict would be another one.
    """
    rows = [check for result in report.mechanisms for check in result.checks if check.code in OF_COINS]
    failed = [check.item for check in rows if check.status is Status.FAILED]
    if failed:
        raise AssumptionError(
            f"no external edition of an audit whose own checks of its memberships failed ({', '.join(failed)}): that they "
            "failed tells of who was a member. Draw coins anew, then audit again"
        )
    results = tuple(_noisy_result(result, games, key) for result in report.mechanisms)
    if not any(game.attacks for result in results for game in result.games):
        raise AssumptionError(
            "an external edition needs scores.parquet with the scores of a game about membership; there is no such game here"
        )
    changes = [
        f"'{old.name}' ({_word(old)}, there {_word(new)})"
        for old, new in zip(report.mechanisms, results, strict=True)
        if old.outcome is not new.outcome
    ]
    if changes:
        raise AssumptionError(
            f"an external edition with epsilon {EPSILON:g} of its own would not show the verdict on {', '.join(changes)}: its "
            "figures are computed from memberships of which some were turned over; give the internal edition to those who may "
            "read it"
        )
    return replace(report, mechanisms=results)


def _word(result: MechanismResult) -> str:
    return "no claim" if result.outcome is None else result.outcome.value


def _noisy_result(result: MechanismResult, games: Mapping[Place, ScoredGame], key: bytes) -> MechanismResult:
    """Return one training with its games computed again, and the verdicts that follow from those."""
    noisy_games = []
    for game in result.games:
        game_scores = games.get((result.name, game.name))
        if game_scores is not None and game.game.choices == 1 and game.watched is None:
            noisy_games.append(_noisy_game(result, game, game_scores, key))
    executed = all(check.status is not Status.FAILED for check in result.checks)
    evidence = not result.is_void or not executed
    inside = not judge.outside_families(result.checks)
    bounds = [bound for game in noisy_games for bound in game.bounds]
    verdicts = tuple(
        judge.judge(claim, bounds, evidence_valid=evidence, execution_valid=executed, inside=inside) for claim in result.claims
    )
    outcome = judge.conclude_mechanism(verdicts) if bounds and verdicts else result.outcome
    void = outcome is Outcome.INVALID or result.is_void
    return replace(
        result,
        games=tuple(game.type_bounds(void=void) for game in noisy_games),
        verdicts=judge.type_bounds(verdicts, void=void),
        outcome=outcome,
        bound_trajectories=(),
    )


def _noisy_game(result: MechanismResult, game: GameResult, game_scores: ScoredGame, key: bytes) -> GameResult:
    included = flip_memberships(game_scores.included, key, (result.name, game.name))
    attacks = []
    for old in game.attacks:
        rules, values = game.game.at(old.access or game.game.access), game_scores.columns[old.scorer]
        scores = Scores(values=values, included=included, game=rules, attack=old.scorer, mechanism=result.mechanism)
        attacks.append(_noisy_attack(game, old, scores))
    return replace(game, attacks=tuple(attacks), records=(), groups=(), evaluation=None, trigger=None)


def _noisy_attack(game: GameResult, old: AttackResult, scores: Scores) -> AttackResult:
    """Return figures and bounds of an attack for other memberships of the same records."""
    stream = Seed(0).child(game.name).child(old.scorer)
    bounds: list[LowerBound] = []
    for lower in old.bounds:
        (estimator,) = granted_estimators(scores.game, (lower.estimator,))
        bounds += bounding.bounds(scores, (estimator,), delta=lower.delta, confidence=lower.confidence, seed=stream)
    confidence, comparisons = old.roc.confidence, Comparisons(looks=1, attacks=len(game.attacks))
    share = bounding.share(confidence, comparisons.count)
    new = findings.attack_result(scores, confidence=share, bounds=tuple(bounds), control=old.control)
    new = replace(new, roc=comparisons.named(new.roc, confidence))
    limits = {row.target_fpr: row.allowed for row in old.tpr_at}
    rates = tuple(replace(row, allowed=limits.get(row.target_fpr)) for row in new.tpr_at)
    return replace(new, access=old.access, tpr_at=rates)


def leaks(editions: Sequence[AuditReport], report: AuditReport, games: Mapping[Place, ScoredGame], key: bytes) -> list[Leak]:
    """Return what the shipped attacker gets of each game from editions of one report, the model, the records and all scores.

    `editions` are all that were given away or are to be, with trainings in the order of `report`; what follows of the
    memberships that `key` turned over counts as recovered.
    """
    leak_rows = []
    for index, result in enumerate(report.mechanisms):
        for game in result.games:
            game_scores = games.get((result.name, game.name))
            if game_scores is not None and game.game.choices == 1:
                rows = [row for edition in editions for row in _same_game(edition, index, result, game)]
                noisy = flip_memberships(game_scores.included, key, (result.name, game.name))
                leak_rows.append(_leak(game.name, rows, game_scores, noisy))
    return leak_rows


def _same_game(edition: AuditReport, index: int, result: MechanismResult, game: GameResult) -> list[GameResult]:
    if index >= len(edition.mechanisms):
        return []
    alone = len(result.games) == 1
    return [row for row in edition.mechanisms[index].games if row.name == game.name or alone]


def _leak(name: str, editions: Sequence[GameResult], game_scores: ScoredGame, noisy: Array) -> Leak:
    members = int(noisy.sum())
    areas = {attack_name: attack.area(values, game_scores.included) for attack_name, values in game_scores.columns.items()}
    best = max(areas, key=lambda attack_name: areas[attack_name])
    equations = Constraints.of([], len(game_scores.included))
    for edition in editions:
        equations = equations.join(constraints.read(edition, game_scores.columns, members, STEP))
        equations = equations.join(constraints.guesses(edition, game_scores.columns))
    stated_area = max((row.auc for edition in editions for row in edition.attacks if row.auc is not None), default=1.0)
    recovery = attack.recover(equations, attack.chances(game_scores.columns[best], members, stated_area))
    return Leak(
        game=name,
        records=len(game_scores.included),
        certain_records=int((recovery.certain >= 0).sum()),
        alone=areas[best],
        together=attack.area(recovery.ranking, game_scores.included),
        seed=attack.guessed_seed(game_scores.included),
    )
