"""`audit run` from config to folder: its files and answers, and that a killed run loses nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from audit.cli.app import answer
from audit.execution.run_folder import verify_folder
from tests.tiny import CONFIG

SAME = ("report.json", "report.pdf", "scores.parquet", "config.resolved.yaml", "junit.xml", "results.sarif")
DATE = "1767225600"  # of all reports, so that they can be equal


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("config") / "tiny.yaml"
    path.write_text(CONFIG)
    path.with_name("key").write_text("5e" * 16)  # names of records are equal in runs of one key alone
    return path


@pytest.fixture(scope="module")
def finished(config: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the command in its own process."""
    folder = tmp_path_factory.mktemp("run") / "done"
    code = "import sys; from audit.cli.app import answer; end = answer(sys.argv[1:]); print('pandas' in sys.modules); exit(end)"
    line = [sys.executable, "-c", code, *arguments(config, folder)]
    done = subprocess.run(line, capture_output=True, text=True, env=environment(), check=False, timeout=300)
    assert done.returncode in (0, 3), done.stderr
    assert done.stdout.endswith("False\n"), "a run imports pandas, which takes half a second"
    return folder


def environment() -> dict[str, str]:
    return {**os.environ, "SOURCE_DATE_EPOCH": DATE, "OMP_NUM_THREADS": "1"}


def keyed(config: Path) -> list[str]:
    return ["--record-key", str(config.with_name("key"))]


def arguments(config: Path, folder: Path, *more: str) -> list[str]:
    return ["run", str(config), "-o", str(folder), *keyed(config), *more]


def test_a_run_leaves_a_whole_folder(finished: Path) -> None:
    assert verify_folder(finished) == []
    assert {path.name for path in finished.iterdir()} >= {
        *SAME,
        "environment.json",
        "figures",
        "models",
        "SHA256SUMS",
        "audit.log",
    }
    scores = pd.read_parquet(finished / "scores.parquet")
    assert len(scores) == 2 * 2 * 2 * 20 + 60
    report = json.loads((finished / "report.json").read_text())
    assert [result["name"] for result in report["mechanisms"]] == ["plain", "dp"]
    assert report["comparisons"] == 5
    assert report["mechanisms"][0]["claims"] == []
    assert {check["code"] for check in report["mechanisms"][1]["checks"]} >= {
        "steps",
        "sampling",
        "sampling-law",
        "noise",
        "clipping",
    }
    assert all(check["status"] != "failed" for result in report["mechanisms"] for check in result["checks"])


def test_the_error_budget_is_split_over_all_bounds(finished: Path) -> None:
    report = json.loads((finished / "report.json").read_text())
    bounds = [
        bound
        for result in report["mechanisms"]
        for game in result["games"]
        for attack in game["attacks"]
        for bound in attack["bounds"]
    ]
    assert len(bounds) == report["comparisons"]
    for bound in bounds:
        assert bound["confidence"] == pytest.approx(1 - 0.05 / 5)
        inside = "_inside" if bound["type"] == "FamilyBound" else ""
        assert 0 <= bound[f"epsilon{inside}"] <= bound[f"ceiling{inside}"]


@pytest.mark.slow
@pytest.mark.parametrize("killed_after", [1, 3])
def test_a_killed_run_goes_on_to_the_same_bits(
    config: Path, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_after: int
) -> None:
    folder = tmp_path / "killed"
    line = [sys.executable, "-m", "audit", *arguments(config, folder, "-q")]
    process = subprocess.Popen(line, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    models = tmp_path / "killed.partial" / "models"
    deadline = time.monotonic() + 120
    while len(list(models.glob("*.safetensors"))) < killed_after and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not folder.exists()
    retained = {path: path.stat().st_mtime_ns for path in models.glob("*.safetensors")}
    assert len(retained) >= killed_after
    monkeypatch.setenv("SOURCE_DATE_EPOCH", DATE)
    assert answer(arguments(config, folder, "--resume")) in (0, 3)
    for path, written in retained.items():
        assert (folder / "models" / path.name).stat().st_mtime_ns == written, "a finished model was trained again"
    for name in SAME:
        assert (folder / name).read_bytes() == (finished / name).read_bytes(), f"{name} differs after the interruption"


def test_an_unfinished_run_is_not_overwritten(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.partial").mkdir()
    assert answer(arguments(config, tmp_path / "run")) == 2
    assert "--resume" in capsys.readouterr().err


@pytest.mark.slow
def test_json_is_one_object_on_stdout(config: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    changes = ["--set", "games.outside.mechanisms=[plain]", "--set", "seed=6"]
    code = answer(arguments(config, tmp_path / "run", "--json", *changes))
    value = json.loads(capfd.readouterr().out)
    assert value["exit_code"] == code
    assert [entry["name"] for entry in value["mechanisms"]] == ["plain", "dp"]
    assert value["folder"] == str(tmp_path / "run")


def test_a_false_claim_is_contradicted_with_exit_code_1(
    config: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    outside = (
        "{name: outside, canaries: mislabelled, count: 100, runs: 4, references: 8, scorers: [lira], estimators: [one_run]}"
    )
    changes = [
        "mechanisms=[{name: plain, kind: non_private, claim: {epsilon: 0.1}}]",
        f"games=[{outside}]",
        "training.steps=150",
        "model.hidden=[32]",
    ]
    false = [word for change in changes for word in ("--set", change)]
    assert answer(arguments(config, tmp_path / "run", "--json", *false)) == 1
    assert json.loads(capfd.readouterr().out)["outcome"] == "violated"


@pytest.mark.slow
def test_a_policy_gate_decides_the_exit_code(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(arguments(config, tmp_path / "run", "--set", "policy.max_claimed_epsilon=0.01")) == 1
    assert "max_claimed_epsilon not met" in capsys.readouterr().out


def test_a_dry_run_trains_nothing(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(["run", str(config), "-o", str(tmp_path / "run"), "--dry-run", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["models"] == 2 * 6 + 1
    assert not list(tmp_path.iterdir())
    ceilings = {row["game"]: row["ceiling"] for row in plan["ceilings"]}
    assert 0 < ceilings["outside"] < ceilings["inside"] < 6
    assert sum(row["bounds"] for row in plan["ceilings"]) == plan["bounds"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ("games.outside.count=500", ["500", "200"]),
        ("games.inside.count=100000", ["100000"]),
        ("training.batch_size=500", ["batch_size is 500", "200 training records"]),
        ("training.epochs=3", ["exactly one of steps and epochs"]),
        ("games.outside.references=0", ["needs", "reference models"]),
        ("games.outside.estimators=[clopper_pearson]", ["independent_trials", "does not grant"]),
        ("games.outside.scorers=[lirra]", ["Did you mean 'lira'"]),
        (
            "games.outside.scorers=[{kind: lira, onlin: true}]",
            ["unknown key 'games.0.scorers.0.onlin'", "Did you mean 'online'"],
        ),
        ("data.train=5000", ["5000"]),
        ("data.kind=digit", ["digits"]),
        ("model.kind=mpl", ["mlp"]),
        ("accountants=[rdpp]", ["Did you mean 'rdp'"]),
        ("execution.kind=cloud", ["audit.execution.executors has no 'cloud'", "processes"]),
        ("execution.worker=2", ["unknown key 'worker'", "no keys"]),
        ("device=cuda", ["CUDA"]),
        ("device=tpu", ["device is 'tpu'"]),
    ],
)
def test_what_cannot_be_run_is_said_with_exit_code_2(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: str, parts: list[str]
) -> None:
    code = answer(["run", str(config), "-o", str(tmp_path / "run"), "-q", "--set", change])
    message = capsys.readouterr().err
    assert code == 2, message
    for part in parts:
        assert part in message
    assert not list(tmp_path.iterdir()), "a refused run left something behind"


@pytest.mark.slow
def test_bad_usage_is_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(["rum"]) == 2
    assert answer(["run"]) == 2
    assert answer(["run", "quickstart", "--no-such-option"]) == 2
    assert answer(["ls", "nothing"]) == 2
    capsys.readouterr()


def test_an_unwritable_output_is_exit_code_4_before_any_work(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("x")
    assert answer(["run", str(config), "-q", "-o", str(tmp_path / "file" / "run")]) == 4
    assert "choose another --output" in capsys.readouterr().err


@pytest.mark.slow
def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from audit.cli.app import answer; answer(['--help']); "
        "print([m for m in ('torch', 'scipy', 'matplotlib', 'pandas', 'dp_accounting') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.slow
def test_the_small_verbs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(["ls", "scorers", "--json"]) == 0
    assert {"loss", "lira", "gradient_product"} <= set(json.loads(capsys.readouterr().out))
    assert answer(["init", str(tmp_path / "a.yaml")]) == 0
    assert answer(["init", str(tmp_path / "a.yaml")]) == 2
    assert answer(["run", str(tmp_path / "a.yaml"), "--dry-run", "--json"]) == 0
    capsys.readouterr()
    assert answer(["doctor", "--json"]) == 0
    rows = {row["what"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert rows["packages"]["ok"] and rows["torch"]["ok"] and rows["PDF"]["ok"]
