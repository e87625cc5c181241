"""`audit mechanism`: texts, JSON, exit codes."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from audit.cli.app import answer

ANSWERS = ("--neighbours", "answers")
FEW = ("--samples", "2000")


def invoke(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = answer(["mechanism", *arguments])
    streams = capsys.readouterr()
    return code, streams.out, streams.err


@pytest.fixture
def own_module(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "noise_of_ours.py").write_text(
        "PAIRS = [([0.0], [1.0])]\n"
        "def right(data, rng, size):\n    return data[0] + rng.laplace(0, 1, size)\n"
        "def wrong(data, rng, size):\n    return data[0] + rng.laplace(0, 0.1, size)\n"
        "def broken(data, rng):\n    raise RuntimeError('a bug of ours')\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.slow
@pytest.mark.usefixtures("own_module")
def test_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(capsys, "noise_of_ours:right", "--epsilon", "1", *ANSWERS, *FEW)[0] == 0
    code, out, _ = invoke(capsys, "noise_of_ours:wrong", "--epsilon", "1", "--pairs", "noise_of_ours:PAIRS", *FEW)
    assert code == 1 and "violated. Epsilon is at least" in out
    verdict, proof = (re.search(pattern, out) for pattern in (r"Epsilon is at least (\S+) at", r"proven   epsilon >= (\S+) at"))
    assert verdict and proof and verdict[1] == proof[1], "neither figure is above the bound"
    assert invoke(capsys, "noise_of_ours:right", "--epsilon", "40", *ANSWERS, *FEW)[0] == 3
    code, _, err = invoke(capsys, "noise_of_ours:broken", "--epsilon", "1", *ANSWERS, *FEW)
    assert code == 2 and "a bug of ours" in err and "the function broken" in err and "noise_of_ours" in err


@pytest.mark.usefixtures("own_module")
def test_json_says_what_the_text_says(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = invoke(capsys, "noise_of_ours:wrong", "--epsilon", "1", *ANSWERS, "--floating-point", "--json", *FEW)
    content = json.loads(out)
    assert content["exit_code"] == code == 1 and content["outcome"] == "violated"
    assert content["epsilon"]["bound"] > 1 and content["floating_point"]["bound"] >= 0 and content["fit"] is None
    assert content["scouts"][0]["pair"] == content["pair"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing", "names no object"),
        ("math:sin", "which data sets are neighbours is not said"),
        ("math:nothing", "cannot load 'math:nothing'"),
    ],
)
def test_a_name_that_leads_nowhere(name: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = invoke(capsys, name, "--epsilon", "1")
    assert code == 2 and message in err
