"""Every script of `examples/` runs from an empty folder, ends with the exit code it promises and prints its result."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.marks import slow

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
LINES = {
    "accountant_regression.py": [r"\b\d\d passed"],
    "any_system.py": [r"group_by .* violated", r"federated_analytics .* consistent"],
    "audit_mechanism.py": ["noisy_count: consistent", "noisy_mean: violated"],
    "audit_pytorch_model.py": ["916 members", r"epsilon: at least 0\.[1-9]", r" loss: AUC 0\.\d", "written: report.pdf"],
    "accelerate_loop.py": [r"196 members, 204 nonmembers", r"epsilon: at least 0\.[1-9]"],
    "export_predictions.py": [],
    "huggingface_trainer.py": [r"196 members, 204 nonmembers", r"epsilon: at least [01]\.[1-9]"],
    "keras_on_torch.py": [r"196 members, 204 nonmembers", r"epsilon: at least [01]\.[1-9]"],
    "lightning_module.py": [r"196 members, 204 nonmembers", r"epsilon: at least [01]\.[1-9]"],
    "ci_gate.py": ["passed  report: PO/min-accuracy", "exit code 0: nothing refuted and the policy is met"],
    "federated_rounds.py": [r"scores.npz: 200 canary clients, mean score \d+\.\d\d where they sent"],
    "own_losses.py": [],
    "opacus_loop.py": [
        r"0 failed, 1 weak\n  clip\.non_finite",
        "loop.steps passed",
        "loop.accountant passed",
        "loop.sampling passed",
    ],
    "trl_adapter.py": [r"99 members, 101 nonmembers", r"epsilon: at least [1-9]"],
    "reference_models.py": [r"the target alone: .* AUC 0\.\d{3}", r"with 16 reference models: .* epsilon >= \d"],
}
"""What each script prints, as regular expressions in this order."""


NEEDS = {
    "accelerate_loop.py": ["accelerate"],
    "huggingface_trainer.py": ["transformers", "accelerate"],
    "keras_on_torch.py": ["keras"],
    "lightning_module.py": ["lightning"],
    "opacus_loop.py": ["opacus"],
    "trl_adapter.py": ["trl", "peft"],
}
"""Libraries without which a script is skipped."""
WITH_FIXED_COINS = """
import functools, runpy, sys
import audit
audit.draw_coins = functools.partial(audit.draw_coins, seed=20260101)
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs a script whose coins fall as in every other run of this test: readers' coins come from the system."""
FIXED_SEEDS = {"ci_gate.py": ["seed=20260103"]}
OWN_TEST = ["export_predictions.py", "own_losses.py"]


def run(name: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script as a reader would, from a folder that does not hold the project."""
    return python(EXAMPLES / name, folder, *arguments)


def python(script: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", WITH_FIXED_COINS, str(script), *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_every_script_is_tested() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(LINES)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    slow(
        sorted(set(LINES) - set(OWN_TEST)),
        ["accountant_regression.py", "audit_pytorch_model.py", "ci_gate.py", "reference_models.py", "trl_adapter.py"],
    ),
)
def test_a_script_runs(name: str, tmp_path: Path) -> None:
    missing = [library for library in NEEDS.get(name, []) if find_spec(library) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    done = run(name, tmp_path, *FIXED_SEEDS.get(name, []))
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(".*".join(LINES[name]), done.stdout, re.DOTALL), done.stdout
    assert "Warning" not in done.stderr
    if name == "reference_models.py":  # references prove more than the target alone
        alone, compared = re.findall(r"AUC (\S+); epsilon >= (\S+)", done.stdout)
        assert float(compared[0]) > float(alone[0])
        assert float(compared[1]) > float(alone[1])


@pytest.mark.slow
def test_a_gate_that_is_not_met_stops_the_release(tmp_path: Path) -> None:
    done = run("ci_gate.py", tmp_path, "policy.min_accuracy=0.99", *FIXED_SEEDS["ci_gate.py"])
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"failed  report: PO/min-accuracy.*exit code 1", done.stdout, re.DOTALL), done.stdout


@pytest.mark.slow
def test_an_accountant_that_forgets_to_compose_fails(tmp_path: Path) -> None:
    """The example's own test file, with an accountant that counts one step, fails."""
    script = (EXAMPLES / "accountant_regression.py").read_text(encoding="utf-8")
    copy = tmp_path / "accountant_regression.py"
    copy.write_text(script.replace("steps * _renyi(", "_renyi("), encoding="utf-8")
    done = python(copy, tmp_path)
    assert done.returncode == 1
    assert "WRONG" in done.stdout


@pytest.mark.parametrize(
    "name", ["accelerate_loop.py", "huggingface_trainer.py", "keras_on_torch.py", "lightning_module.py", "trl_adapter.py"]
)
def test_an_audit_adds_at_most_ten_lines_to_a_training(name: str) -> None:
    lines = (EXAMPLES / name).read_text(encoding="utf-8").splitlines()
    assert 0 < sum(line.endswith("# audit") for line in lines) <= 10


@pytest.mark.slow
@pytest.mark.parametrize("form", ["logits", "probs", "loss"])
def test_predictions_in_the_names_of_tensorflow_privacy_are_audited(form: str, tmp_path: Path) -> None:
    stream = np.random.default_rng(0)
    arrays = {}
    for side, gain in (("train", 3.0), ("test", 0.0)):
        labels = stream.integers(3, size=200)
        logits = stream.normal(size=(200, 3)) + gain * np.eye(3)[labels]
        probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        losses = -np.log(probabilities[np.arange(200), labels])
        arrays |= {f"{form}_{side}": {"logits": logits, "probs": probabilities, "loss": losses}[form], f"labels_{side}": labels}
    done = export(tmp_path, **arrays)
    assert done.returncode == 0, done.stderr
    from audit.subjects.predictions import Predictions

    read = Predictions(path=str(tmp_path / "predictions.npz"))
    assert read.included.tolist() == [True] * 200 + [False] * 200


def export(tmp_path: Path, **arrays: Any) -> subprocess.CompletedProcess[str]:
    """Write the arrays as another framework would, and run the exporter on them."""
    np.savez(tmp_path / "attack_input.npz", **arrays)
    return run("export_predictions.py", tmp_path, "attack_input.npz", "predictions.npz")


@pytest.mark.slow
def test_log_probabilities_of_tokens_become_the_loss_of_a_record(tmp_path: Path) -> None:
    from audit.subjects.predictions import Predictions

    tokens = np.array([-1.0, -3.0, -2.0])
    done = export(
        tmp_path, token_logprobs_train=tokens, token_offsets_train=[0, 2], group_train=["a", "b"],
        token_logprobs_test=tokens, token_offsets_test=[0, 1], group_test=["c", "c"],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    read = Predictions(path=str(tmp_path / "predictions.npz"))
    assert read.view.signals["losses"].tolist() == [2.0, 2.0, 1.0, 2.5]
    assert read.groups is not None and read.groups.tolist() == ["a", "b", "c", "c"]


@pytest.mark.slow
def test_metadata_of_a_training_elsewhere_becomes_the_claim(tmp_path: Path) -> None:
    from audit.cli.app import answer

    stream = np.random.default_rng(0)
    np.savez(tmp_path / "attack_input.npz", loss_train=stream.random(100), loss_test=stream.random(100) + 1)
    reported = {
        "framework": "TensorFlow", "version": "2.14", "unit": "record", "observer": "final model", "adjacency": "add_remove",
        "randomisation": {"seed": 20260101, "commitment": "sha256:12"}, "claimed_epsilon": 2.0,
        "mechanism": {"clip": 1.0, "noise_multiplier": 1.1, "sample_rate": 0.01, "steps": 10, "delta": 1e-5},
    }  # fmt: skip
    (tmp_path / "metadata.json").write_text(json.dumps(reported))
    done = run("export_predictions.py", tmp_path, "attack_input.npz", "predictions.npz", "metadata.json")
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "predictions.npz") as written:
        assert json.loads(written["metadata"].item()) == {"schema": 1, **reported}
    target = ["model", "--target", str(tmp_path / "predictions.npz")]
    assert answer([*target, "--output", str(tmp_path / "report")]) != 2
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    assert report["mechanisms"][0]["claims"][0]["epsilon"] == 2.0
    assert "TensorFlow 2.14, unit record" in report["model"] and "sha256:12" in report["model"]
    assert "20260101" not in report["model"]  # the seed of the coins gives every membership away
    assert answer([*target, "--claim-epsilon", "1"]) == answer([*target, "--delta", "1e-6"]) == 2
    (tmp_path / "metadata.json").write_text(json.dumps({"colour": "red"}))
    done = run("export_predictions.py", tmp_path, "attack_input.npz", "predictions.npz", "metadata.json")
    assert done.returncode == 1 and "metadata holds colour" in done.stderr


@pytest.mark.slow
def test_scores_of_an_attack_elsewhere_are_read_by_audit_scores(tmp_path: Path) -> None:
    stream = np.random.default_rng(0)
    done = export(tmp_path, score_train=stream.normal(3, 1, 200), score_test=stream.normal(0, 1, 200))
    assert done.returncode == 0, done.stderr
    command = [sys.executable, "-m", "audit", "scores", "predictions.npz", "--certificates", "0"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    read = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert read.returncode == 0, read.stdout + read.stderr
    assert "score" in read.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"accuracy_train": [1.0]}, "expected one of logits_train"),
        ({"loss_train": [1.0]}, "loss_test is missing"),
        ({"logits_train": [[1.0, 2.0]], "logits_test": [[1.0, 2.0]]}, "labels_train is missing"),
        ({"loss_train": [1.0], "group_train": ["a", "b"], "loss_test": [1.0], "group_test": ["c"]}, "unequal lengths"),
        ({"token_logprobs_train": [-1.0], "token_logprobs_test": [-1.0]}, "token_offsets_train is missing"),
    ],
)
def test_what_the_exporter_cannot_write_is_named(arrays: dict[str, Any], message: str, tmp_path: Path) -> None:
    done = export(tmp_path, **arrays)
    assert done.returncode == 1 and message in done.stderr


@pytest.mark.slow
def test_the_exporter_needs_numpy_alone_and_an_old_python(tmp_path: Path) -> None:
    import ast

    tree = ast.parse((EXAMPLES / "export_predictions.py").read_text(encoding="utf-8"), feature_version=(3, 8))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert {alias.name for node in imports for alias in node.names} == {"json", "sys", "numpy"}
    done = run("export_predictions.py", tmp_path)
    assert done.returncode == 1 and "attack_input.npz" in done.stderr


def test_no_example_shows_a_seed_that_coins_follow_from() -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in EXAMPLES.iterdir() if path.is_file()}
    shown = {
        name for name, text in texts.items() if re.search(r"draw_coins\([^)\n]*,|(?m:^seed: *\d)|rounds\([^)\n]*seed=\d", text)
    }
    assert shown == set()
