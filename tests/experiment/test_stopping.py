"""Training that may stop at the first proof: if it stops, that only the order of jobs decides it, what is refused."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit import plugins
from audit.bounds import power, simulation
from audit.bounds.budget import share
from audit.cli.app import answer
from audit.config import parse
from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim, Outcome
from audit.core.errors import ObservationError
from audit.core.evidence import Watched
from audit.core.game import Game, Inclusion
from audit.core.game_results import GameResult
from audit.core.lower_bounds import read_ceiling, read_epsilon
from audit.core.protocols import AnytimeEstimator, Work
from audit.core.results import AuditReport, MechanismResult
from audit.core.seeds import Seed
from audit.core.training import Progress
from audit.core.views import Scores
from audit.execution.store import Store
from audit.experiment.games import attack, hypothesis, prepared_game, stopping
from audit.experiment.games.spec import Experiment, PlannedAttack
from audit.experiment.line import assemble, run
from audit.experiment.line import game as rounds
from audit.experiment.line import report as summary
from audit.experiment.line.train import Resources
from audit.stats.bounds.score_distributions import ScoreLaw
from reports.figures import _evidence as evidence
from reports.formats import figures
from reports.formats import json as report_json
from tests.marks import slow, slow_rows
from tests.reports import sample

CONFIG = """
version: 1
name: stops
seed: 8
delta: 1e-5
data: {kind: digits, train: 120, pool: 40, test: 40}
model: {kind: mlp, hidden: [4]}
training: {optimizer: sgd, learning_rate: 0.2, batch_size: 24, steps: 20}
mechanisms:
  - {name: dp, kind: dp_sgd, noise_multiplier: 0.5, claim: {epsilon: 0.5, source: wishful}}
games:
  - name: one
    access: all_steps
    canaries: dirac_gradient
    count: 1
    runs: 160
    stopping: first_proof
    scorers: [gradient_product, weight_difference]
    estimators: [sequential]
accountants: [pld]
certificates: 0
execution: {models_per_job: 8}
output: {formats: [json]}
"""
MODELS_PER_JOB = 8


def built(*overrides: str) -> Experiment:
    return assemble.assemble(parse(CONFIG, overrides).config)


def on(item: Experiment, executor: Any) -> Experiment:
    return dataclasses.replace(item, execution=dataclasses.replace(item.execution, executor=executor))


def played(item: Experiment, folder: Path, *, resume: bool = False) -> GameResult:
    """The only game of the experiment."""
    store = Store.start(folder / "run", "0" * 64, resume=resume)
    try:
        (game,) = prepared_game.prepare_games(item.design, item.audit_inputs, item.budget.delta)
        stated = hypothesis.state(game.training, item.budget.delta)
        dataset = item.audit_inputs.dataset
        resources = Resources(dataset=dataset, execution=item.execution, store=store)
        return rounds.play_game(game, stated, item.budget, resources).result
    finally:
        store._lock.close()


def audited(item: Experiment, folder: Path) -> MechanismResult:
    """The whole result of the only mechanism."""
    results, _ = run.run(item, Store.start(folder / "run", "0" * 64))
    return results[0]


def watched(game: GameResult) -> Watched:
    actual = game.watched
    assert actual is not None
    return actual


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> MechanismResult:
    return audited(built(), tmp_path_factory.mktemp("stopped"))


@pytest.fixture(scope="module")
def stopped(result: MechanismResult) -> GameResult:
    return result.games[0]


def test_a_wrong_claim_ends_training_early(result: MechanismResult) -> None:
    game = result.games[0]
    actual = watched(game)
    assert result.outcome is Outcome.VIOLATED
    assert actual.planned == 160 and actual.looks == 20
    assert actual.proved is not None and actual.used == -(-actual.proved // MODELS_PER_JOB) * MODELS_PER_JOB <= 80
    assert game.game.runs == game.models == result.models == actual.used
    assert all(attack.roc.members + attack.roc.nonmembers == actual.used for attack in game.attacks)
    refuted = [verdict for verdict in result.verdicts if verdict.outcome is Outcome.VIOLATED]
    assert [verdict.claim.source for verdict in refuted] == ["declared (wishful)"]
    assert refuted[0].bound == actual.bounds[0] == game.bounds[0]
    assert 0.5 < read_epsilon(actual.bounds[0]) <= read_ceiling(actual.bounds[0])
    assert actual.bounds[0].confidence == 0.95, "one bound of all attacks together takes the whole error budget"
    assert actual.control is not None and actual.control.passed


@pytest.mark.slow
def test_an_attack_that_fails_at_a_later_look_has_lost_its_stake(
    tmp_path: Path, stopped: GameResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The game continues without it, and the others' evidence counts for no more than if it had bet on and lost."""
    full = attack.score

    def failing(models: attack.GameModels, planned: PlannedAttack, steps: int | None = None) -> Scores:
        if planned.name == "weight_difference" and models.first + models.prepared_game.assignment.runs > 2 * MODELS_PER_JOB:
            raise ObservationError("weights of a later model cannot be read")
        return full(models, planned, steps)

    monkeypatch.setattr(attack, "score", failing)
    item = built()
    game = played(item, tmp_path)
    assert [actual.scorer for actual in game.attacks] == ["gradient_product"]
    for process in watched(game).evidence:
        assert [stake.attack for stake in process.stakes] == ["gradient_product"]
        assert process.log_evidence[0] == pytest.approx(-math.log(2))
        assert (np.array(process.log_evidence) <= np.array(process.stakes[0].log_evidence) - math.log(2) + 1e-9).all()
    proofs = watched(stopped).proved, watched(game).proved
    assert proofs[0] is not None and proofs[1] is not None and proofs[0] <= proofs[1]


def test_evidence_reaches_the_threshold_where_it_says(stopped: GameResult) -> None:
    actual = watched(stopped)
    (wishful, computed) = actual.evidence
    assert wishful.claim.source == "declared (wishful)" and computed.proved is None
    assert wishful.threshold == pytest.approx(math.log(20))
    assert wishful.models[0] == 0 and wishful.log_evidence[0] == 0 and wishful.models[-1] <= actual.used
    crossing = [
        models for models, value in zip(wishful.models, wishful.log_evidence, strict=True) if value >= wishful.threshold
    ]
    assert crossing[0] == wishful.proved == actual.proved
    assert crossing[0] > actual.used - MODELS_PER_JOB, "the job before the last one proved nothing"
    assert max(computed.log_evidence) < computed.threshold
    assert [stake.attack for stake in wishful.stakes] == ["gradient_product", "weight_difference"]
    average = np.log(np.mean(np.exp([stake.log_evidence for stake in wishful.stakes]), axis=0))
    assert np.asarray(wishful.log_evidence) == pytest.approx(average, abs=0.05)  # the least over stronger claims as well


@pytest.mark.slow
def test_intervals_pay_for_every_look(stopped: GameResult, tmp_path: Path) -> None:
    assert all(attack.bounds == () and attack.control is None for attack in stopped.attacks)
    assert all(attack.roc.confidence == 0.95 and "any of 20 looks" in attack.roc.band for attack in stopped.attacks)
    plain = audited(built(f"games.one.runs={stopped.models}", "games.one.stopping=never"), tmp_path)
    for fixed, early in zip(plain.games[0].attacks, stopped.attacks, strict=True):
        assert fixed.auc == early.auc, "the same models, seeds and scores"
        assert early.auc_lower < fixed.auc_lower <= fixed.auc_upper < early.auc_upper
    assert plain.games[0].watched is None and plain.bound_trajectories


@dataclasses.dataclass(frozen=True, kw_only=True)
class Backwards:
    """Does all jobs but the first few before those, so that results of later ones are there when the proof comes."""

    ahead: int

    def map(
        self, work: Work[Any], shared: tuple[Any, ...], jobs: Sequence[Any], progress: Progress
    ) -> Generator[tuple[int, Any], None, None]:
        order = [*range(self.ahead, min(self.ahead + 6, len(jobs))), *range(self.ahead), *range(self.ahead + 6, len(jobs))]
        for index in order:
            yield index, work(shared, jobs[index], progress)


@pytest.mark.slow
@pytest.mark.parametrize("ahead", [1, 4])
def test_jobs_that_finish_out_of_turn_change_nothing(stopped: GameResult, tmp_path: Path, ahead: int) -> None:
    item = on(built(), Backwards(ahead=ahead))
    assert played(item, tmp_path) == stopped
    assert len(list((tmp_path / "run.partial" / "models").glob("*"))) > watched(stopped).used // MODELS_PER_JOB + 1


@pytest.mark.slow
def test_the_shipped_config_stops_early(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(["run", "quickstart-early-stop", "-q", "-o", str(tmp_path / "run")]) == 1
    message = capsys.readouterr().out
    assert "the claim is contradicted" in message and "of 240 trained" in message


@pytest.mark.slow
def test_processes_stop_where_one_process_does(stopped: GameResult, tmp_path: Path) -> None:
    actual = played(built("execution.kind=processes", "execution.workers=2"), tmp_path)
    assert watched(actual) == watched(stopped)


class Killed(Exception):
    """In place of the end of the process."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dies:
    """Ends after some jobs."""

    after: int

    def map(
        self, work: Work[Any], shared: tuple[Any, ...], jobs: Sequence[Any], progress: Progress
    ) -> Generator[tuple[int, Any], None, None]:
        for index, job in enumerate(jobs):
            if index == self.after:
                raise Killed
            yield index, work(shared, job, progress)


@pytest.mark.slow
@pytest.mark.parametrize("after", slow([1, 3], [1]))
def test_a_resumed_game_stops_at_the_same_model(stopped: GameResult, tmp_path: Path, after: int) -> None:
    with pytest.raises(Killed):
        played(on(built(), Dies(after=after)), tmp_path)
    retained = {path: path.stat().st_mtime_ns for path in (tmp_path / "run.partial" / "models").glob("*")}
    assert played(built(), tmp_path, resume=True) == stopped
    assert all(path.stat().st_mtime_ns == written for path, written in retained.items())
    unneeded = on(built(), Dies(after=0))
    assert played(unneeded, tmp_path, resume=True) == stopped, "a game that had ended trains nothing"


@pytest.mark.slow
def test_a_run_killed_in_the_middle_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    config = tmp_path / "stops.yaml"
    config.write_text(CONFIG)
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1767225600", "OMP_NUM_THREADS": "1"}

    def line(name: str, *more: str) -> list[str]:
        return [sys.executable, "-m", "audit", "run", str(config), "-o", str(tmp_path / name), *more]

    full = subprocess.run(line("whole"), env=environment, capture_output=True, text=True, check=False, timeout=200)
    assert full.returncode == 1, full.stderr
    assert "stopped early" in full.stderr and "of 160 trained" in full.stdout
    process = subprocess.Popen(line("killed", "-q"), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    models, deadline = tmp_path / "killed.partial" / "models", time.monotonic() + 100
    while len(list(models.glob("*.safetensors"))) < 3 and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "killed").exists()
    resumed = subprocess.run(line("killed", "--resume", "-q"), env=environment, check=False)
    assert resumed.returncode == 1
    for name in ("report.json", "scores.parquet"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.slow
def test_the_command_says_that_it_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "stops.yaml"
    config.write_text(CONFIG)
    assert answer(["run", str(config), "-o", str(tmp_path / "run"), "--json"]) == 1
    (reported,) = json.loads(capsys.readouterr().out)["mechanisms"][0]["stopping"]
    assert reported["planned_runs"] == 160 and reported["proved_after"] <= reported["runs"] < 160
    assert reported["evidence"][0]["log_e_value"][-1] >= reported["evidence"][0]["log_threshold"]
    assert "dp, game one: stopped early" in (tmp_path / "run" / "audit.log").read_text()


HALF = "mechanisms.dp.trainer={kind: 'tests.broken:HalfNoise', admits: false}"
INSIDE = (
    "mechanisms.dp.claim=null",
    "mechanisms.dp.noise_multiplier=2",
    "games.one.estimators=[{kind: sequential, family: dp_sgd}]",
)


@pytest.mark.slow
def test_broken_dp_sgd_is_caught_inside_the_family_that_it_claims(tmp_path: Path) -> None:
    """No noise but half of the accounted noise, in a log that claims otherwise: only the models can show it."""
    actual = watched(played(built(*INSIDE, HALF, "training.steps=60"), tmp_path))
    assert actual.proved is not None and actual.used < 160
    assert actual.bounds[0].family == actual.evidence[0].family == "dp_sgd"
    assert read_epsilon(actual.bounds[0]) > actual.evidence[0].claim.epsilon


@pytest.mark.slow
def test_right_dp_sgd_is_trained_to_the_end(tmp_path: Path) -> None:
    game = played(built(*INSIDE, "games.one.runs=40"), tmp_path)
    assert watched(game).proved is None and watched(game).used == 40 == game.models
    assert watched(game).evidence and read_epsilon(watched(game).bounds[0]) < watched(game).evidence[0].claim.epsilon


@pytest.mark.slow
def test_without_a_claim_to_refute_all_runs_are_trained(tmp_path: Path) -> None:
    actual = played(built("mechanisms.dp.kind=non_private", "mechanisms.dp.noise_multiplier=null", "mechanisms.dp.claim=null",
                         "games.one.runs=24", "games.one.access=final_model", "games.one.canaries=mislabelled",
                         "games.one.scorers=[loss, lira]", "games.one.references=8"), tmp_path)  # fmt: skip
    assert watched(actual).evidence == () and watched(actual).used == 24
    assert "Nothing is claimed" in evidence.sentence(watched(actual))


def test_references_are_trained_first_and_in_jobs_of_their_own(tmp_path: Path) -> None:
    item = built("games.one.references=12", "games.one.runs=20")
    game_design = item.design.game_designs[0]
    assert game_design.portions(8) == [range(20, 28), range(28, 32), range(0, 8), range(8, 16), range(16, 20)]
    assert dataclasses.replace(game_design, stops=False).portions(8)[:3] == [range(0, 8), range(8, 16), range(16, 24)]
    assert game_design.looks(8) == 3 and dataclasses.replace(game_design, stops=False).looks(8) == 1


@pytest.mark.slow
def test_a_scorer_with_references_stops_as_well(tmp_path: Path) -> None:
    claims = (
        "mechanisms.dp.kind=non_private",
        "mechanisms.dp.noise_multiplier=null",
        "training.steps=150",
        "model.hidden=[32]",
    )
    game = ("games.one.access=final_model", "games.one.canaries=mislabelled", "games.one.references=16")
    actual = played(built(*claims, *game, "games.one.scorers=[lira]", "training.learning_rate=0.5"), tmp_path)
    assert watched(actual).proved is not None and watched(actual).used < 160
    assert actual.models == watched(actual).used + 16


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        (["games.one.estimators=[sequential, rank_exact, gaussian]"], ["rank_exact, gaussian", "fixed in advance"]),
        (["games.one.runs=8"], ["all 8 target runs", "execution.models_per_job", "stopping: never"]),
        (["games.one.stopping=sometimes"], ["stopping", "first_proof"]),
        ([*INSIDE, "mechanisms.dp.kind=non_private", "mechanisms.dp.noise_multiplier=null"], ["without noise", "family 'any'"]),
        (["games.one.access=final_model", "games.one.scorers=[loss]", "games.one.canaries={kind: duplicated, copies: 3}"],
         ["3 copies", "without copies"]),
        (["games.one.count=20", "games.one.access=final_model", "games.one.scorers=[loss]", "games.one.canaries=mislabelled"],
         ["independent_trials", "does not grant"]),
    ],
)  # fmt: skip
def test_what_cannot_stop_early_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: list[str], parts: list[str]
) -> None:
    config = tmp_path / "stops.yaml"
    config.write_text(CONFIG)
    words = [word for change in changes for word in ("--set", change)]
    assert answer(["run", str(config), "-o", str(tmp_path / "run"), "-q", *words]) == 2
    message = capsys.readouterr().err
    for part in parts:
        assert part in message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["stops.yaml"]


def test_only_estimators_that_declare_it_are_anytime_valid() -> None:
    actual = {name for name in plugins.names("audit.bounds.estimators")
             if isinstance(plugins.build("audit.bounds.estimators", {"kind": name}), AnytimeEstimator)}  # fmt: skip
    assert actual == {"sequential"}


GAME = Game(adjacency=Adjacency.ADD_REMOVE, access=Access.ALL_STEPS, inclusion=Inclusion.COINS, canaries=1, runs=120)


def simulated(law: ScoreLaw, seed: Seed, runs: int, attacks: int) -> list[Scores]:
    """Scores of several attacks on one simulated game, the later ones ever noisier."""
    included = seed.child("coins").numpy().random(runs) < 0.5
    best, noise = law.draw(included, seed.child("scores").numpy()), seed.child("noise").numpy()
    game = dataclasses.replace(GAME, runs=runs)
    return [
        Scores(values=best + index * noise.normal(size=runs), included=included, game=game, attack=f"attack {index}")
        for index in range(attacks)
    ]


def stops(law: ScoreLaw, claimed: float, seed: Seed, *, family: str = "any", runs: int = 64, together: int = 16) -> int | None:
    """After how many runs a game with this true claim is stopped, looking after every job; None if it goes to its end."""
    claim = Claim(epsilon=claimed, delta=law.delta, adjacency=Adjacency.ADD_REMOVE, source="true", family="gdp")
    estimator: Any = plugins.build("audit.bounds.estimators", {"kind": "sequential", "family": family})
    watch = stopping.StoppingRule(
        estimators=(estimator,),
        claims=(claim,),
        delta=law.delta,
        confidence=0.95,
        planned=runs,
        attacks=2,
        looks=runs // together,
    )
    full = simulated(law, seed, runs, attacks=2)
    looks: list[list[Scores]] = []
    for first in range(0, runs, together):
        part = slice(first, first + together)
        game = dataclasses.replace(GAME, runs=together)
        looks.append(
            [dataclasses.replace(item, values=item.values[part], included=item.included[part], game=game) for item in full]
        )
        if watch.proves(stopping.join(looks)):
            return first + together
    return None


TRUE = [
    (ScoreLaw(kind="null", delta=1e-5), 0.0, "any"),
    (ScoreLaw(kind="flat", parameter=1.0, delta=1e-5), 1.0, "any"),
    (ScoreLaw(kind="gaussian", parameter=1.0, delta=1e-5), 4.3772, "gdp"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("law", "claimed", "family"), slow_rows(TRUE, TRUE[1:2]))
def test_a_true_claim_is_rarely_refuted_however_often_one_looks(law: ScoreLaw, claimed: float, family: str) -> None:
    """Type-I error with optional stopping: of 20 games at 5 %, more than 5 have chance below 1e-3."""
    ends = [stops(law, claimed, Seed(1).child("game", draw), family=family) for draw in range(20)]
    assert sum(end is not None for end in ends) <= 5


@pytest.mark.calibration
@pytest.mark.parametrize(("law", "claimed", "family"), TRUE)
def test_calibration_of_games_that_stop(law: ScoreLaw, claimed: float, family: str) -> None:
    trials = 400
    ends = [stops(law, claimed, Seed(2).child("game", draw), family=family, runs=240, together=40) for draw in range(trials)]
    alarms = sum(end is not None for end in ends)
    print(f"{law.name}, {family}: {alarms} of {trials} true claims refuted within 240 runs")
    assert alarms <= 0.05 * trials + 3 * math.sqrt(0.05 * 0.95 * trials)


@pytest.mark.slow
def test_a_false_claim_is_refuted_and_sooner_where_it_is_more_wrong() -> None:
    ends = {
        mu: [
            stops(ScoreLaw(kind="gaussian", parameter=mu, delta=1e-5), 1.0, Seed(3).child("game", draw), family="gdp")
            for draw in range(6)
        ]
        for mu in (1.5, 3.0)
    }
    assert all(end is not None for end in ends[3.0])
    late = [end or 200 for end in ends[1.5]]
    assert np.median([end or 200 for end in ends[3.0]]) < np.median(late)


@pytest.mark.slow
def test_one_certificate_covers_stopping_at_the_worst_time() -> None:
    estimator: Any = plugins.build("audit.bounds.estimators", {"kind": "sequential"})
    path = simulation.Path(
        attacks=((estimator,), (estimator,)), game=GAME, mechanism=None, delta=1e-5, level=0.95, together=True
    )
    actual = simulation.certify(path, 40)
    assert [item.epsilon for item in actual] == [0.0, 1.0, 2.5]
    assert all(item.nominal == pytest.approx(0.05) and item.kept and item.repetitions == 40 for item in actual)
    apart = dataclasses.replace(path, together=False)
    assert all(item.nominal == pytest.approx(0.1) for item in simulation.certify(apart, 20))
    loose = dataclasses.replace(path, level=0.05)
    assert simulation.certify(loose, 40)[0].wrong > 4, "a level that promises little is often wrong"


@pytest.mark.slow
def test_the_plan_tells_after_how_many_runs_a_game_stops() -> None:
    estimator: Any = plugins.build("audit.bounds.estimators", {"kind": "sequential", "family": "gdp"})
    claim = Claim(epsilon=1.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE, source="stated", family="gdp")
    question = power.Question(delta=1e-5, claim=1.0, draws=11)
    game = dataclasses.replace(GAME, runs=300)
    requested = power.PowerQuery(estimator=estimator, game=game, question=question)
    soon, later = (power.runs_to_proof(requested, truth, claim) for truth in (20.0, 4.4))
    assert 8 < soon < later < 300
    assert power.runs_to_proof(requested, 1.1, claim) == math.inf
    fixed = dataclasses.replace(requested, estimator=plugins.build("audit.bounds.estimators", {"kind": "rank_exact"}))
    assert power.runs_to_proof(fixed, 20.0, claim) == math.inf


def report_of(result: MechanismResult) -> AuditReport:
    item = built()
    frame = summary.Frame(
        kind="run",
        title="stopped early",
        created="2026-01-01T00:00:00Z",
        budget=item.budget,
        data=summary.data_summary(item.audit_inputs.dataset),
        model=summary.model_name(item.design.training_designs[0].model, item.audit_inputs.parameters),
        config="",
        provenance=sample.run().provenance,
    )
    return summary.report([result], frame)


def test_the_report_says_and_draws_when_training_stopped(result: MechanismResult) -> None:
    report, actual = report_of(result), watched(result.games[0])
    assert report_json.from_json(report_json.to_json(report)) == report
    assert any(f"refuted after {actual.proved} runs; {actual.used} of at most 160" in note for note in report.notes)
    assert f"{actual.used} canaries over {actual.used} training run" in " ".join(row.done for row in report.coverage)
    message = evidence.sentence(actual)
    assert f"refuted after {actual.proved} runs" in message and f"{160 - actual.used} spared" in message
    drawing = figures.drawings(report)["evidence.dp.one"]
    assert "logarithmic axis" in drawing.alt and f"refuted after {actual.proved} models" in drawing.alt
    none = dataclasses.replace(actual, used=160, evidence=(actual.evidence[1],))
    assert "No proof within 160 runs" in evidence.sentence(none)
    assert share(0.95, 20) == pytest.approx(0.9975)
