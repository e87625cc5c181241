"""The exporter for other frameworks: the suite's own canaries, and scores that `audit scores` bounds."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attacks.canaries._cosines import direction
from audit.cli.app import answer

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "federated_rounds.py"


@pytest.fixture(scope="module")
def exporter() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


def test_its_canaries_are_the_suite_s(exporter: dict[str, Any]) -> None:
    for number in (0, 3, 98):
        np.testing.assert_array_equal(exporter["canary"](7, number, 100), direction(number, 100, 7))
    with pytest.raises(ValueError, match="canary 99 of a model with 100 parameters"):
        exporter["canary"](7, 99, 100)


@pytest.mark.slow
def test_recorded_rounds_become_bounds(exporter: dict[str, Any], tmp_path: Path) -> None:
    rounds = tmp_path / "rounds.npz"
    exporter["_demo"](str(rounds))
    score, member = exporter["scores"](str(rounds))
    assert score.shape == member.shape == (200,)
    spread = (score - 10 * member) / (3 * np.sqrt(10))
    assert abs(spread.mean()) < 4 / np.sqrt(200) and 0.8 < spread.std() < 1.2
    table = tmp_path / "scores.npz"
    np.savez(table, score=score, member=member)
    assert answer(["scores", str(table), "--adjacency", "zero_out", "--claim-epsilon", "0.01"]) == 1


def test_other_files_are_refused(exporter: dict[str, Any], tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", rounds=np.zeros((2, 9)))
    with pytest.raises(ValueError, match="lacks meta"):
        exporter["scores"](str(tmp_path / "other.npz"))
    exporter["write_rounds"](str(tmp_path / "nan.npz"), np.full((2, 9), np.nan), seed=1, count=3, clip_norm=1.0)
    with pytest.raises(ValueError, match="expected finite"):
        exporter["scores"](str(tmp_path / "nan.npz"))


META = {"schema": "federated-rounds/1", "seed": 7, "count": 3, "clip_norm": 1.0}


@pytest.mark.parametrize(
    ("meta", "words"),
    [
        ("{", "meta is no JSON"),
        ("[1]", "has schema None"),
        (META | {"schema": "rounds"}, "has schema 'rounds'"),
        (META | {"count": -1}, "expected whole numbers"),
        (META | {"count": 2.5}, "expected whole numbers"),
        (META | {"seed": "x"}, "expected whole numbers"),
        (META | {"clip_norm": 0}, "a positive clip_norm"),
        (META | {"clip_norm": float("nan")}, "a positive clip_norm"),
        (META | {"count": 10**9}, "counts 1000000000 canaries of 9 parameters"),
    ],
)
def test_what_a_file_says_of_its_canaries_is_held_to_sense(
    meta: Any, words: str, exporter: dict[str, Any], tmp_path: Path
) -> None:
    text = meta if isinstance(meta, str) else json.dumps(meta)
    np.savez(tmp_path / "rounds.npz", meta=np.array(text), rounds=np.zeros((2, 9), dtype=np.float32))
    with pytest.raises(ValueError, match=words):
        exporter["scores"](str(tmp_path / "rounds.npz"))


@pytest.mark.parametrize("rounds", [np.zeros((0, 9)), np.zeros((2, 9), complex), np.array([["a", "b"]]), np.zeros(9)])
def test_rounds_of_another_form_are_refused(rounds: np.ndarray, exporter: dict[str, Any], tmp_path: Path) -> None:
    np.savez(tmp_path / "rounds.npz", meta=np.array(json.dumps(META)), rounds=rounds)
    with pytest.raises(ValueError, match="expected finite floats"):
        exporter["scores"](str(tmp_path / "rounds.npz"))
