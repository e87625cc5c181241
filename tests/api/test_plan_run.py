"""`audit.plan_run`: the plan of `audit plan` as a function, with its tables and its figure."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

import audit
from audit.cli.app import answer
from tests.tiny import CONFIG


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "tiny.yaml"
    path.write_text(CONFIG)
    return path


@pytest.fixture(scope="module")
def plan(file: Path) -> audit.RunPlan:
    return audit.plan_run(file, overrides={"games.outside.count": 30})


@pytest.mark.slow
def test_the_command_prints_what_the_function_returns(
    file: Path, plan: audit.RunPlan, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answer(["plan", str(file), "--no-measure", "--json", "--set", "games.outside.count=30"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(plan.to_dict()))


@pytest.mark.slow
def test_its_tables_are_data_frames(plan: audit.RunPlan) -> None:
    ceilings = plan.to_pandas()
    assert ceilings["scores"].tolist() == [60, 60, 60] and (ceilings["ceiling"] > 0).all()
    power = plan.to_pandas("power")
    assert power["game"].tolist() == ["outside", "outside", "inside"]
    assert power["needed"].isna().tolist() == [True, False, False]
    claims = plan.to_pandas("claims")
    assert set(claims["mechanism"]) == {"dp"} and (claims["delta"] == 1e-5).all()
    assert plan.to_pandas("timing").empty and plan.to_pandas("stopping").empty
    with pytest.raises(audit.ConfigError, match="table is 'ceiling'"):
        plan.to_pandas("ceiling")  # type: ignore[arg-type]


@pytest.mark.slow
def test_its_power_is_drawn(plan: audit.RunPlan, file: Path) -> None:
    (axes,) = audit.plot(plan).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "plain, outside: one_run",
        "dp, outside: one_run",
        "dp, inside: one_run",
    ]
    with pytest.raises(audit.ConfigError, match="it has: power"):
        audit.plot(plan, "roc")
    without = audit.plan_run(file, violation=None)
    assert without.power == () and without.ceilings
    with pytest.raises(audit.ConfigError, match="no power to draw"):
        audit.plot(without)


@pytest.mark.parametrize("violation", [0.5, math.nan, math.inf])
def test_a_violation_below_the_claim_is_refused(file: Path, violation: float) -> None:
    with pytest.raises(audit.ConfigError, match="expected at least 1"):
        audit.plan_run(file, violation=violation)
