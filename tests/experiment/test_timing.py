"""The time of a run is estimated from its own jobs: extrapolated over steps and jobs, checked against a clock that is ours."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from audit.cli.app import answer
from audit.config import parse
from audit.core import event_reading
from audit.experiment.games.job_specs import JobSpec
from audit.experiment.games.spec import Experiment
from audit.experiment.line.assemble import assemble
from audit.experiment.plan import plan
from tests.tiny import CONFIG

FEDERATED = Path(__file__).resolve().parents[2] / "configs" / "quickstart-federated.yaml"


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return assemble(parse(CONFIG.replace("steps: 12", "steps: 1000")).config)


class Machine:
    """A job takes 0.5 s, and 0.01 s a step for each model."""

    def __init__(self, step: float) -> None:
        self.now, self.step, self.steps_seen = 0.0, step, set[int]()

    def work(self, shared: object, job_spec: JobSpec, progress: object) -> dict[str, object]:
        steps = job_spec.job.keywords["mechanism"].count
        self.steps_seen.add(steps)
        self.now += 0.5 + self.step * steps * len(job_spec.job.keywords["seeds"])
        return {}


def test_time_is_extrapolated_over_steps_and_jobs(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(step=0.01)
    monkeypatch.setattr(plan, "fit_and_observe", machine.work)
    result = plan.estimate(experiment.design, experiment.audit_inputs, experiment.execution, clock=lambda: machine.now)
    assert [(item.mechanism, item.game, item.models) for item in result] == [
        ("plain", "outside", 6),
        ("dp", "outside", 6),
        ("dp", "inside", 1),
    ]
    assert result[0].seconds == pytest.approx(3 * (0.5 + 0.01 * 1000 * 2))
    assert result[2].seconds == pytest.approx(0.5 + 0.01 * 1000)
    assert max(machine.steps_seen) < 1000


def test_a_slow_step_is_not_measured_twice(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(step=60.0)
    monkeypatch.setattr(plan, "fit_and_observe", machine.work)
    result = plan.estimate(experiment.design, experiment.audit_inputs, experiment.execution, clock=lambda: machine.now)
    assert machine.steps_seen == {1}
    assert result[0].seconds == pytest.approx(60.5 * 1000 * 6)
    assert result[0].together == 1


@pytest.mark.slow
def test_the_command_measures_real_jobs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "tiny.yaml"
    config.write_text(CONFIG)
    assert answer(["plan", str(config), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["timing"]
    assert [row["game"] for row in rows] == ["outside", "outside", "inside"]
    assert all(0 < row["seconds"] < 60 for row in rows)
    assert answer(["plan", str(config)]) == 0
    assert "one job after another" in capsys.readouterr().out
    assert answer(["plan", str(config), "--no-measure", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["timing"] == []


def test_a_training_that_several_parties_look_at_is_planned_once() -> None:
    design = assemble(parse(FEDERATED.read_text()).config).design
    (steps,) = {event_reading.steps(training_design.run_event) for training_design, _ in design.pairs}
    assert len(design.pairs) > len(design.trainings)
    models, reported = (sum(game_design.runs for _, game_design in pairs) for pairs in (design.trainings, design.pairs))
    assert (design.models, design.model_steps, design.reported_steps) == (models, models * steps, reported * steps)
