"""Page, log, witness and fixture of a replay; which programs are handed a generator."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import audit
from audit.core.errors import ConfigError, OutputError
from audit.replays import witness
from audit.replays.run import Program

GENERATOR = np.random.default_rng(0)
ROOT = Path(__file__).resolve().parents[2]
SUITE = """
import os, numpy as np, pytest
DATA = np.array([1.0, 4.0, 9.0])

def noisy_sum(data, scale):
    return np.clip(np.nan_to_num(data), 0, 10).sum() + np.random.default_rng().laplace(0, scale)

def right(data): return noisy_sum(data, 10)
def wrong(data): return noisy_sum(data, 5)
def hidden(data): return len(data) + int.from_bytes(os.urandom(4), "big")

@pytest.mark.replay(DATA, epsilon=1.0, high=10.0, sampling_seconds=0)
@pytest.mark.parametrize("program", [right, wrong, hidden])
def test_program(program, check_replay): check_replay(program)

@pytest.mark.replay(DATA, epsilon=1.0, high=10.0, sampling_seconds=0, undecided="fail")
def test_strict(check_replay): check_replay(hidden)

def test_without_marker(check_replay): assert check_replay(wrong, DATA, epsilon=2.0, high=10.0).verdict.value == "proved"
"""


@pytest.mark.slow
def test_a_marked_test_fails_with_line_pair_and_loss(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(SUITE)
    code = f"import sys; sys.path[:0] = [{str(ROOT)!r}]; import pytest; sys.exit(pytest.main(sys.argv[1:]))"
    options = ["-p", "audit.api.replay_fixture", "-p", "no:cacheprovider", "--strict-markers", "-rA", "--basetemp", "made"]
    run = subprocess.run(
        [sys.executable, "-c", code, *options, "test_mine.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 failed, 2 passed, 1 skipped" in run.stdout, run.stdout
    assert f"{tmp_path / 'test_mine.py'}:6: the loss of what is returned is epsilon 1.8" in run.stdout
    failing = next((tmp_path / "made").glob("**/test_witness.py"))
    assert "DATA = array([" in failing.read_text() and str(failing) in run.stdout


def test_the_plugin_loads_nothing_heavy() -> None:
    code = "import sys, audit.api.replay_fixture; print([name for name in ('numpy', 'torch', 'pandas') if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


MODULE = """
class Sum:
    def __init__(self, scale): self.scale = scale
    def __call__(self, data, rng): return len(data) + rng.laplace(0, self.scale)

whole, nothing = Sum(.5), lambda data, rng: len(data) + rng.laplace(0, .5)
method = whole.__call__
del_me = Sum(.5)
"""


@pytest.mark.parametrize("name", ["whole", "nothing", "method", "del_me"])
def test_a_witness_runs_from_any_folder_and_sarif_names_files_by_uris(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"mod_{tmp_path.name}"
    (tmp_path / "sp ace").mkdir()
    (tmp_path / "sp ace" / f"{module}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path / "sp ace")
    made = importlib.import_module(module)
    program = getattr(made, name)
    if name == "del_me":
        del made.del_me
    report = audit.replay(program, [1.0, 2.0], epsilon=1.0, sampling_seconds=0)
    uri = report.to_sarif()["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == (tmp_path / "sp ace" / f"{module}.py").as_uri()
    names: dict[str, Any] = {}
    monkeypatch.undo()
    monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "path", [*sys.path])
    exec(report.witness_test(), names)
    test = next(item for key, item in names.items() if key.startswith("test_"))
    error, text = (ConfigError, "put the program here") if name == "del_me" else (AssertionError, "refuted")
    with pytest.raises(error, match=text):
        test()


def test_a_range_without_numbers_and_a_folder_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    for ends in ({"low": 2.0, "high": 1.0}, {"low": np.nan}, {"high": np.inf}):
        with pytest.raises(ConfigError, match=r"low is|high is"):
            audit.replay(lambda data, rng: 0, [1.0], epsilon=1.0, **ends)
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="choose another folder"):
        audit.replay(lambda data, rng: 0, [1.0], epsilon=1.0).save(tmp_path / "file")


def test_a_witness_holds_data_of_every_kind() -> None:
    torch = pytest.importorskip("torch")
    names: dict[str, Any] = {"array": np.array, "inf": np.inf, "nan": np.nan}
    tensor = torch.tensor([[1.0, float("nan")]], dtype=torch.float16)
    data = [np.zeros((0, 3), dtype=np.int8), np.array([b"a"]), {"x": (np.float32(0.1), None)}, [True, "inf"], np.inf]
    data.append(pd.DataFrame({"day": pd.to_datetime(["2020-01-01"]), "user": ["ann"]}))
    data.append(pd.DataFrame({"value": [1.0, np.nan]}))
    read = eval(witness.literal(data), dict(names))
    assert read[0].shape == (0, 3) and read[0].dtype == np.int8 and read[1] == np.array([b"a"])
    assert read[2:5] == [{"x": (np.float32(0.1).item(), None)}, [True, "inf"], np.inf]
    assert all(left.equals(right) for left, right in zip(read[5:], data[5:], strict=True))
    again = eval(witness.literal(tensor), dict(names))
    assert again.dtype == torch.float16 and again.shape == (1, 2) and torch.isnan(again[0, 1])


@pytest.mark.parametrize(
    ("program", "takes"),
    [
        (lambda data: 0, False),
        (lambda data, rng: 0, True),
        (lambda data, step=0.5: 0, False),
        (lambda data, seed=None: 0, False),
        (lambda data, rng=None: 0, True),
        (lambda data, noise=GENERATOR: 0, True),
        (lambda data, *, scale=1.0: 0, False),
        (lambda *arguments: 0, True),
    ],
)
def test_a_generator_is_given_to_what_asks_for_one(program: Any, takes: bool) -> None:
    assert Program(program).takes_generator is takes
