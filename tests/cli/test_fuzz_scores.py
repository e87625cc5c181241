"""Random score tables with hostile content: an exit code by the kind of error, a message, an end, and never a traceback."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.cli.test_fuzz_configs import keeps_its_word
from tests.subjects.watcher import watched

CELLS = (
    "",
    "nan",
    "inf",
    "-inf",
    "1e308",
    "-1e308",
    "1e400",
    "x",
    "=1+1",
    "true",
    "2",
    "-1",
    "1_000",
    "\u202e1",
    "0x10",
    '"',
    "1;2",
)
COLUMNS = ("score", "member", "scores", "included", "attack", "game", "", " score", "Score", "score\x00")
OPTIONS: tuple[list[str], ...] = (
    [],
    ["--delta", "0"],
    ["--delta", "nan"],
    ["--delta", "1e-300"],
    ["--delta", "1"],
    ["--claim-epsilon", "0"],
    ["--claim-epsilon", "inf"],
    ["--claim-epsilon", "-1"],
    ["--confidence", "1"],
    ["--confidence", "0.999999999"],
    ["--game", "independent_trials"],
    ["--epsilon", "1"],
    ["--epsilon", "1e300"],
    ["--estimator", "gaussian"],
    ["--estimator", "both_ends", "--game", "independent_trials"],
    ["--score", "member"],
    ["--where", "attack=a"],
    ["--adjacency", "x"],
    ["--json"],
)


def values(draw: random.Random, count: int) -> Any:
    """Scores of one law: plain, tied, constant, huge, tiny, infinite, not a number, whole, or of another type."""
    normal = np.random.default_rng(draw.randrange(2**32)).normal(size=count)
    if draw.random() < 0.4:
        return normal
    with np.errstate(all="ignore"):
        laws = [np.round(normal), np.zeros(count), normal * 1e308, normal * 1e-320, np.where(normal > 1, np.inf, normal)]
        laws += [np.where(normal > 2, np.nan, normal), (normal * 2**59).astype(np.int64), normal > 0]
        laws += [normal.astype(np.float16), normal + 1j, normal.astype(str), normal.reshape(-1, 1), normal[: count // 2]]
    return draw.choice(laws)


def cells(draw: random.Random, hostile: bool) -> list[str]:
    """One row: a score and a coin, or nearly anything."""
    if not hostile or draw.random() < 0.95:
        return [f"{draw.gauss(0, 1)}", draw.choice("01")]
    return [draw.choice(CELLS) for _ in range(draw.randint(1, 5))]


def table(draw: random.Random, folder: Path) -> Path:
    """One file with a table, or with something that is none."""
    count = draw.choice((0, 1, 2, 40, 40, 200, 200))
    member = np.random.default_rng(draw.randrange(2**32)).random(count) < draw.choice((0.5, 0.5, 0.5, 0.5, 0.5, 0.0, 1.0, 0.9))
    scores = values(draw, count)
    suffix = draw.choice(("npz", "csv", "parquet"))
    path = folder / f"scores.{suffix}"
    if suffix == "npz":
        np.savez(path, **{draw.choice(("score", "score", *COLUMNS[:4])): scores, "member": member})
    elif suffix == "parquet" and scores.ndim == 1 and len(scores) == count and scores.dtype.kind != "c":
        narrow = scores.astype(np.float32) if scores.dtype == np.float16 else scores
        pd.DataFrame({draw.choice(("score", *COLUMNS[:3])): narrow, "included": member}).to_parquet(path)
    else:
        header = ",".join(draw.sample(COLUMNS, draw.randint(1, 4)))
        hostile = draw.random() < 0.5
        rows = [",".join(cells(draw, hostile)) for _ in range(count)]
        path.write_text("\n".join(["score,member" if draw.random() < 0.5 else header, *rows]), encoding="utf-8")
    if draw.random() < 0.2:
        content = bytearray(path.read_bytes())
        for _ in range(draw.randint(1, 8)):
            if content:
                content[draw.randrange(len(content))] = draw.randrange(256)
        path.write_bytes(content[: draw.randint(0, len(content))] if draw.random() < 0.3 else content)
    return path


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The only folder in which anything may be written while the test runs; no process may be started either."""
    (tmp_path / "tables").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with watched(tmp_path / "tables"):
        yield tmp_path / "tables"


def scored(seed: int, folder: Path, capsys: pytest.CaptureFixture[str]) -> int:
    draw = random.Random(seed)
    options = draw.choice(OPTIONS) if draw.random() < 0.5 else []
    words = ["scores", str(table(draw, folder)), "--certificates", "0", *options]
    return keeps_its_word(words, (0, 1, 2, 3), capsys)


@pytest.mark.slow
def test_a_few_random_tables(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert {scored(seed, tables, capsys) for seed in range(40)} >= {0, 2}


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_random_tables(tables: Path, capsys: pytest.CaptureFixture[str], block: int) -> None:
    for seed in range(1000 + 40 * block, 1000 + 40 * (block + 1)):
        scored(seed, tables, capsys)
