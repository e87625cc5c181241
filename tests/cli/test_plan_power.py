"""What `audit plan` says a planned audit would catch."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from audit import config
from audit.cli import app
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.experiment.games.prepared_game import insert
from audit.experiment.line import assemble
from audit.experiment.plan.plan import PowerStudy
from tests.tiny import CONFIG


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(CONFIG)
    return path


@pytest.mark.slow
def test_the_plan_tells_what_it_would_catch_and_draws_it(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drawing = tiny.with_name("plan.svg")
    assert app.answer(["plan", str(tiny), "--no-measure", "--json", "--plot", str(drawing)]) == 0
    rows = json.loads(capsys.readouterr().out)["power"]
    assert [(row["mechanism"], row["game"], row["estimator"]) for row in rows] == [
        ("plain", "outside", "one_run"),
        ("dp", "outside", "one_run"),
        ("dp", "inside", "one_run"),
    ]
    free, claimed = rows[0], rows[1]
    assert free["claim"] == 0 and free["violation"] is None and 0 < free["epsilon"] < 40
    assert claimed["claim"] > 1 and claimed["violation"] == pytest.approx(2 * claimed["claim"])
    assert all(row["ceiling"] > 0 and row["power"] == 0.8 and row["draws"] >= 10 for row in rows)
    assert drawing.read_bytes().startswith(b"<?xml")
    assert app.answer(["plan", str(tiny), "--no-measure", "--no-power"]) == 0
    assert "caught from" not in capsys.readouterr().out


def test_scores_and_hours_needed_follow_from_the_violation(tiny: Path) -> None:
    experiment = assemble.assemble(config.load(str(tiny), ["games.outside.count=100"]).config)
    audit_inputs = experiment.audit_inputs
    training_design, game_design = next(
        (training_design, game_design)
        for training_design, game_design in experiment.design.pairs
        if training_design.name == "dp"
    )
    game = insert(training_design, game_design, audit_inputs, audit_inputs.seed.child("plan"))
    study = PowerStudy(
        budget=experiment.budget,
        claims={"dp": (Claim(epsilon=0.3, delta=1e-5, adjacency=Adjacency.ADD_REMOVE, source="declared"),)},
        violation=10.0,
        seconds={("dp", "outside"): 7200.0},
        ceilings={("dp", "outside", "one_run"): 5.0},
    )
    (slight,), (gross,) = (replace(study, violation=times).rows(game) for times in (10.0, 60.0))
    assert (slight.mechanism, slight.game, slight.claim, slight.ceiling) == ("dp", "outside", 0.3, 5.0)
    assert slight.violation == pytest.approx(3.0) and gross.violation == pytest.approx(18.0)
    assert gross.needed is not None and slight.needed is not None and gross.needed < slight.needed
    assert slight.draws == 1000, "the printed chance is known to 1.3 % at one standard error"
    assert slight.needed_runs == 2 and slight.hours == pytest.approx(2.0)
    assert slight.needed_hours == pytest.approx(2.0), "more canaries in the same runs cost nothing"
    (unknown,) = replace(study, seconds={}).rows(game)
    assert unknown.hours is None and unknown.needed_hours is None


@pytest.mark.slow
def test_a_drawing_needs_power_and_a_name_that_says_its_form(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--plot", "plan.pdf"], ["--plot", "plan.svg", "--no-power"]):
        assert app.answer(["plan", str(tiny), "--no-measure", *arguments]) == 2
    assert app.answer(["plan", str(tiny), "--no-measure", "--plot", str(tiny / "in" / "plan.svg")]) == 4
    assert "cannot write" in capsys.readouterr().err


@pytest.mark.slow
def test_the_plan_says_of_each_game_whether_it_can_refute_which_claim(capsys: pytest.CaptureFixture[str]) -> None:
    """A ceiling below a claim, one above it inside the family alone, no claim, and a claim that asserts nothing."""
    options = ["--no-measure", "--no-power"]
    assert app.answer(["plan", "quickstart", *options]) == 0
    shown = capsys.readouterr().out
    assert "without-dp, black-box: no claim to refute; could prove epsilon of up to 5.80 (one_run)\n" in shown
    assert re.search(
        r"dp-sgd, black-box: cannot refute 8\.00 \(.*PLD\), .*: the most that perfect scores prove is 5\.80 \(one_run\)", shown
    )
    assert re.search(
        r"dp-sgd, white-box: can refute 8\.00 \(.*PLD\) by [\d.]+ \(fdp_rank inside the family dp_sgd\); cannot", shown
    )
    assert app.answer(["plan", "quickstart", *options, "--set", "games.0.runs=300"]) == 0
    assert re.search(r"dp-sgd, black-box: can refute 8\.00 .* by [\d.]+ \(one_run\)", capsys.readouterr().out)
