"""The public names: complete, importable, typed, and cheap to import."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import audit

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("name", audit.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(audit, name) is not None
    assert name in dir(audit)


def test_type_checkers_read_the_same_names_from_the_same_modules() -> None:
    tree = ast.parse((ROOT / "audit" / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If) and isinstance(node.test, ast.Name))
    imports = {(node.module, alias.name) for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert imports == {(module, name) for name, module in audit._HOME.items()}


def test_names_that_are_not_there_say_so() -> None:
    with pytest.raises(AttributeError, match="lower_bund"):
        _ = audit.lower_bund  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "name", ["lower_bound", "delta_lower_bound", "step_bound", "roc", "plan", "plan_run", "certify", "accountant"]
)
def test_a_name_alone_imports_nothing_heavy(name: str) -> None:
    heavy = {"torch", "scipy", "sklearn", "pandas", "matplotlib", "pydantic", "yaml"}
    code = f"import sys, audit; audit.{name}; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_a_wrong_argument_is_an_error_to_a_type_checker(tmp_path: Path) -> None:
    user = tmp_path / "user.py"
    user.write_text(
        "import audit\n"
        "audit.lower_bound([1.0, 2.0], [0.0, 0.5], delta=1e-5)\n"
        "audit.run({'version': 1}, output='here').to_pandas('bounds')\n"
        "audit.accountant.epsilon(audit.sgd(sample_rate=0.1, steps=3), delta=1e-5).rows[0].note\n"
        "audit.check(lambda x: x, ([1], [0]), 'file.npz').save('file.pdf')\n"
        "audit.plan_run('quickstart', violation=None).to_pandas('power')\n"
        "audit.lower_bound([1.0, 2.0], [0.0, 0.5], delta=1e-5, wrong=True)\n"
        "audit.lower_bund\n"
        "audit.run(3)\n"
        "audit.run('quickstart').to_pandas('bonds')\n"
        "audit.accountant.noise(target_epsilon='2', sample_rate=0.1, steps=3)\n"
        "audit.check(3, 'members.npz', 'nonmembers.npz')\n"
        "audit.check(lambda x: x, 'members.npz', 'nonmembers.npz', claim_epsilon='2')\n"
        "audit.plot('report.json')\n"
        "audit.plan_run('quickstart', violation='2')\n"
        "audit.plan_run('quickstart').to_pandas('roofs')\n"
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir", str(tmp_path), str(user)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    lines = [line for line in done.stdout.splitlines() if "user.py" in line and "error:" in line]
    assert [int(line.split(":")[1]) for line in lines] == list(range(7, 17)), done.stdout


def test_accountants_side_by_side() -> None:
    event = audit.dp_sgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=0.01, steps=100)
    costs = audit.accountant.epsilon(event, delta=1e-5, accountants=["rdp", {"kind": "pld"}, "classical_gaussian"])
    rdp, pld, classical = costs.rows
    assert costs.lower <= costs.upper <= pld.epsilon * (1 + 1e-6) and pld.epsilon < rdp.epsilon
    assert classical.epsilon is None and classical.note.startswith("unsupported")
    assert costs.to_pandas()["accountant"].tolist() == ["rdp", "pld", "classical_gaussian"]
    (noise,) = audit.accountant.noise(target_epsilon=2.0, sample_rate=0.01, steps=100, accountants=["rdp"])
    (steps,) = audit.accountant.steps(
        target_epsilon=2.0, noise_multiplier=noise.noise_multiplier, sample_rate=0.01, released=40, accountants=["rdp"]
    )
    assert noise.epsilon <= 2.0 and steps.steps >= 100 and steps.left == steps.steps - 40


class Nothing:
    """An accountant that charges nothing."""

    def claim(self, mechanism: audit.Event, *, delta: float, adjacency: audit.Adjacency) -> audit.Claim:
        return audit.Claim(epsilon=0.0, delta=delta, adjacency=adjacency, source="nothing")


def test_an_accountant_of_ones_own_is_held_against_the_battery() -> None:
    battery = audit.accountant.check(Nothing(), groups=["gaussian"])
    assert not battery.passed and "wrong side of the truth" in battery.conclusion.sentence
    table = battery.to_pandas()
    assert set(table["finding"]) & {"WRONG"} and len(table) == len(battery.results)
    with pytest.raises(audit.ConfigError, match="no group 'gausian'"):
        audit.accountant.check(Nothing(), groups=["gausian"])


def test_a_mistaken_argument_is_named() -> None:
    event = audit.dp_sgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=0.01, steps=100)
    with pytest.raises(audit.ConfigError, match=r"accountants is .rdp.; expected a list"):
        audit.accountant.epsilon(event, accountants="rdp")
    with pytest.raises(audit.ConfigError, match="adjacency is 'swap'"):
        audit.accountant.epsilon(event, adjacency="swap")
    with pytest.raises(audit.ConfigError, match="sample_rate is 0"):
        audit.accountant.steps(target_epsilon=1.0, noise_multiplier=1.0, sample_rate=0)


@pytest.mark.slow
def test_tables_become_data_frames() -> None:
    plan = audit.plan(delta=1e-5, claim=1.0, scores=50, estimators=["one_run"])
    assert plan.to_pandas()["estimator"].tolist() == ["one_run"]
    assert audit.certify(delta=1e-5, scores=50, repetitions=5).to_pandas()["repetitions"].tolist() == [5, 5]
    assert audit.roc([2.0, 3.0], [1.0, 2.0]).to_pandas().columns.tolist() == ["fpr", "tpr", "lower", "upper"]
