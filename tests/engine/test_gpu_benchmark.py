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
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # as for a script: peers and their models stand beside it
    spec = importlib.util.spec_from_file_location("gpu_benchmark", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def small_benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = benchmark()
    small = module.Problem(name="small", model={"kind": "mlp", "hidden": [4]}, shape=(5,), models=2, batch=8, steps=2)
    monkeypatch.setattr(module, "PROBLEMS", (small,))
    monkeypatch.setattr(module, "_SECONDS", 0.01)
    monkeypatch.setattr(module, "_MOST", 2)
    monkeypatch.setattr(module, "_WINDOW", 0.2)
    return module


def read_rows(module: Any, monkeypatch: pytest.MonkeyPatch, out: Path, *options: str) -> tuple[int, dict[str, Any]]:
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--device", "cpu", "--out", str(out), *options])
    return module.main(), json.loads(out.read_text())


@pytest.mark.slow
@pytest.mark.parametrize("small", [False, True])
def test_the_gpu_benchmark_runs_on_a_cpu(
    small_benchmark: Any, small: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, result = read_rows(small_benchmark, monkeypatch, tmp_path / "gpu.json", *(["--small"] if small else []))
    (row,) = result["rows"]
    assert code == 0 and result["measurement"] == (not small) and row["errors"] == {} and row["not_run"] == []
    assert row["problem"] == "small" and row["disagreement"] < 1e-6 and row["graph_disagreement"] == 0.0
    assert len(row["private_ms_all"]) == (1 if small else 2)
    printed = capsys.readouterr().out
    assert "small" in printed and ("no measurement" in printed) == small


@pytest.mark.slow
def test_what_fails_or_no_longer_fits_into_the_time_is_named_and_the_rest_goes_on(
    small_benchmark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(*_: Any) -> dict[str, Any]:
        raise RuntimeError("no kernel image")

    monkeypatch.setattr(small_benchmark, "PARTS", (failing, *small_benchmark.PARTS[1:]))
    code, result = read_rows(small_benchmark, monkeypatch, tmp_path / "gpu.json")
    (row,) = result["rows"]
    assert code == 1 and row["errors"] == {"failing": "RuntimeError: no kernel image"} and row["disagreement"] < 1e-6
    assert "failing: RuntimeError: no kernel image" in capsys.readouterr().out
    code, result = read_rows(small_benchmark, monkeypatch, tmp_path / "gpu.json", "--minutes", "0")
    assert code == 1 and result["rows"][0]["not_run"] == ["plain", "peers", "uncaptured", "shorter", "agreement"]
    assert "uncaptured: not run, the time is over" in capsys.readouterr().out


def test_time_that_is_over_ends_a_training(small_benchmark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = small_benchmark.Clock("cpu", 3600.0, small=True)
    job = small_benchmark.make_job(small_benchmark.PROBLEMS[0], small_benchmark._PRIVATE, "cpu")
    clock.train(job)
    calls = iter(range(100))
    monkeypatch.setattr(small_benchmark.time, "monotonic", lambda: 1e9 if next(calls) else 0.0)
    with pytest.raises(small_benchmark.OutOfTimeError):
        clock.train(job)


@pytest.mark.slow
def test_every_row_runs_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, result = read_rows(benchmark(), monkeypatch, tmp_path / "gpu.json", "--small", "--minutes", "30")
    assert code == 0 and len(result["rows"]) == 8
