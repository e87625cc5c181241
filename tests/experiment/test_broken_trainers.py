"""Broken DP-SGD is caught: by its own measurements, or, if those are broken too, by the bounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from audit.config import parse
from audit.core.claims import Outcome
from audit.core.results import MechanismResult, Status
from audit.execution.store import Store
from audit.experiment.line import assemble, run

CONFIG = """
version: 1
name: broken
seed: 11
delta: 1e-5
data: {kind: digits, train: 300, pool: 100, test: 100}
model: {kind: mlp, hidden: [16]}
training: {optimizer: sgd, learning_rate: 0.2, batch_size: 60, steps: 20}
mechanisms:
  - {name: dp, kind: dp_sgd, target_epsilon: 2, trainer: {kind: dpsgd}}
games:
  - name: inside
    access: all_steps
    canaries: dirac_gradient
    count: 400
    scorers: [gradient_product]
    estimators: [fdp_rank]
accountants: [pld]
certificates: 0
"""


def audited(folder: Path, *overrides: str) -> MechanismResult:
    resolved = parse(CONFIG, overrides)
    store = Store.start(folder / "run", resolved.sha256)
    results, _ = run.run(assemble.assemble(resolved.config), store)
    return results[0]


def failed(result: MechanismResult) -> set[str]:
    return {check.code for check in result.checks if check.status is Status.FAILED}


@pytest.mark.slow
def test_the_right_trainer_is_not_accused(tmp_path: Path) -> None:
    result = audited(tmp_path)
    assert result.outcome is Outcome.CONSISTENT
    assert failed(result) == set()


@pytest.mark.slow
def test_half_the_noise_is_refuted_even_where_the_log_lies(tmp_path: Path) -> None:
    result = audited(tmp_path, "mechanisms.dp.trainer={kind: 'tests.broken:HalfNoise', admits: false}")
    assert failed(result) == set()
    assert result.outcome is Outcome.VIOLATED
    assert result.verdicts[0].bound is not None and result.verdicts[0].bound.estimator == "fdp_rank"


@pytest.mark.slow
def test_half_the_noise_shows_in_an_honest_log(tmp_path: Path) -> None:
    result = audited(tmp_path, "mechanisms.dp.trainer.kind=tests.broken:HalfNoise")
    assert failed(result) == {"noise"}
    assert result.outcome is Outcome.VIOLATED


@pytest.mark.slow
@pytest.mark.parametrize(("trainer", "check"), [("TwiceTheRate", "sampling"), ("FixedBatches", "sampling-law")])
def test_wrong_batches_are_never_consistent(tmp_path: Path, trainer: str, check: str) -> None:
    result = audited(tmp_path, f"mechanisms.dp.trainer.kind=tests.broken:{trainer}", "training.steps=100")
    assert check in failed(result)
    assert result.outcome in (Outcome.INVALID, Outcome.VIOLATED)
