"""The command that waits for a GPU runs: on a CPU, with a small problem, so that it does not fail on the day."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest


def benchmark() -> Any:
    path = Path(__file__).parents[2] / "benchmarks" / "gpu.py"
    spec = importlib.util.spec_from_file_location("gpu_benchmark", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_gpu_benchmark_runs_on_a_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = benchmark()
    small = module.Problem(name="small", model={"kind": "mlp", "hidden": [4]}, shape=(5,), models=2, batch=8, steps=2)
    monkeypatch.setattr(module, "PROBLEMS", (small,))
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--device", "cpu", "--out", str(tmp_path / "gpu.json")])
    assert module.main() == 0
    (row,) = json.loads((tmp_path / "gpu.json").read_text())["rows"]
    assert row["problem"] == "small" and row["disagreement"] < 1e-6 and "small" in capsys.readouterr().out
