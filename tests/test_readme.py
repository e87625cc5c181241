"""What the README promises is run: its commands' inner parts, its code, and the figures the quickstart has to reach."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from sklearn.datasets import load_digits
from typer.testing import CliRunner

from audit.cli.app import answer, app
from audit.core.results import USUAL_FORMATS
from audit.execution.run_folder import verify_folder

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


COMMANDS = (ROOT / "docs/use/commands.md").read_text(encoding="utf-8")
GATE = (ROOT / "docs/start/gate-a-release.md").read_text(encoding="utf-8")
ACCOUNTANT = (ROOT / "docs/start/test-an-accountant.md").read_text(encoding="utf-8")


def block(heading: str, language: str, index: int = 0, page: str = README) -> str:
    """The code block number `index` of a language under a heading of a page."""
    section = re.split(r"^## ", page, flags=re.MULTILINE)
    text = next(part for part in section if part.startswith(heading))
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)[index].strip()


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The inner part of the first command, run from an empty folder."""
    inner = block("Run the main job", "bash").split("&&")[-1].split()
    assert inner[0] == ".venv/bin/audit"
    folder = tmp_path_factory.mktemp("elsewhere")
    done = subprocess.run([sys.executable, "-m", "audit", *inner[1:]], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the claim was not contradicted" in done.stdout
    return folder / inner[inner.index("-o") + 1]


def test_there_are_exactly_two_set_up_commands() -> None:
    assert README.count("python3 -m venv") == 2
    assert block("Pass the tests", "bash").endswith(".venv/bin/python -m pytest -n 2")


@pytest.mark.slow
def test_the_main_job_leaves_a_verified_report(quickstart: Path) -> None:
    assert verify_folder(quickstart) == []
    assert (quickstart / "report.pdf").read_bytes().startswith(b"%PDF-")


@pytest.mark.slow
def test_the_quickstart_reaches_what_it_must(quickstart: Path) -> None:
    report = json.loads((quickstart / "report.json").read_text())
    results = {result["name"]: result for result in report["mechanisms"]}
    assert sum(result["models"] for result in results.values()) >= 64
    outside = bounds(results["without-dp"], "black-box")
    assert max(bound["epsilon"] for bound in outside if bound["type"] == "LowerBound") >= 2
    pld = next(claim["epsilon"] for claim in results["dp-sgd"]["claims"] if "PLD" in claim["source"])
    assert 7.9 < pld <= 8
    inside = bounds(results["dp-sgd"], "white-box")
    assert max(bound["epsilon_inside"] for bound in inside if bound["type"] == "FamilyBound") >= pld / 2
    assert any(bound["type"] == "LowerBound" and bound["epsilon"] > 1 for bound in inside)
    everything = [bound for result in results.values() for game in result["games"] for bound in bounds(result, game["name"])]
    assert all(figure(bound, "ceiling") >= figure(bound, "epsilon") for bound in everything)


@pytest.mark.slow
def test_curves_over_the_steps_end_at_the_bounds_of_the_tables(quickstart: Path) -> None:
    report = json.loads((quickstart / "report.json").read_text())
    trained = next(result for result in report["mechanisms"] if result["name"] == "dp-sgd")
    ends = {
        curve["label"].split(", ")[1].split(" ")[0]: figure(curve, "epsilon")[-1] for curve in trained["bound_trajectories"]
    }
    assert ends == {bound["estimator"]: figure(bound, "epsilon") for bound in bounds(trained, "white-box")}


def figure(row: dict, name: str) -> Any:
    return row[name if name in row else f"{name}_inside"]


def bounds(result: dict, game: str) -> list[dict]:
    attacks = next(item for item in result["games"] if item["name"] == game)["attacks"]
    return [bound for attack in attacks for bound in attack["bounds"]]


@pytest.mark.slow
def test_the_wrong_claim_is_contradicted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(["run", "quickstart-wrong-claim", "-q", "-o", str(tmp_path / "run")]) == 1
    assert "the claim is contradicted" in capsys.readouterr().out


def test_the_code_for_your_own_model_runs_and_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = block("Audit a model you have already trained", "python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    inputs, labels = load_digits(return_X_y=True)
    inputs = (inputs / 16).astype(np.float32)
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    names = {
        "model": model,
        "x_train": inputs[:300],
        "y_train": labels[:300],
        "x_test": inputs[300:600],
        "y_test": labels[300:600],
    }
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), names)
    assert (tmp_path / "report.pdf").stat().st_size > 10_000


def test_every_command_of_the_table_exists() -> None:
    known = {command.name for command in app.registered_commands} | {group.name for group in app.registered_groups}
    shared = re.findall(r"^\| `audit \w+`, (`\w+`(?:, `\w+`)*) \|", COMMANDS, re.MULTILINE)  # rows of several commands
    named = set(re.findall(r"`audit ([a-z]+)", COMMANDS)) | {name for row in shared for name in re.findall(r"\w+", row)}
    assert named == known
    assert set(re.findall(r"`audit ([a-z]+)", README)) <= known


def test_links_and_files_exist() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_the_readme_takes_at_most_130_lines() -> None:
    assert len(README.splitlines()) <= 130


@pytest.mark.parametrize("page", [GATE, ACCOUNTANT])
def test_jobs_of_ci_are_yaml_and_call_commands_with_options_that_exist(page: str) -> None:
    (job,) = yaml.safe_load(block("A job for GitHub Actions", "yaml", page=page))["jobs"].values()
    install = next(step["run"] for step in job["steps"] if step.get("run", "").startswith("pip install"))
    checkout = next(step["with"]["path"] for step in job["steps"] if "repository" in step.get("with", {}))
    assert f"./{checkout}" in install.split()  # the package is on no index
    calls = [step["run"].split() for step in job["steps"] if step.get("run", "").startswith("audit ")]
    assert calls
    for call in calls:
        words = [word for word in call[1:] if not word.startswith("-")]
        done = CliRunner().invoke(app, [*words[: 2 if call[1] == "accountant" else 1], "--help"])
        assert done.exit_code == 0, done.output
        assert all(option in done.output for option in call if option.startswith("--"))


def test_the_job_uploads_what_the_run_writes() -> None:
    (job,) = yaml.safe_load(block("A job for GitHub Actions", "yaml", page=GATE))["jobs"].values()
    run = next(step["run"].split() for step in job["steps"] if step.get("run", "").startswith("audit run"))
    (sent,) = [step["with"]["sarif_file"] for step in job["steps"] if "upload-sarif" in step.get("uses", "")]
    assert sent == f"{run[run.index('--output') + 1]}/results.sarif"
    assert "sarif" in USUAL_FORMATS
