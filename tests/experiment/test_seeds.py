"""Seeds of runs: 128 bits from the system if no config names one, and none that can be guessed for data of the user's."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from audit import config as configs
from audit.cli.app import answer
from audit.config.read import shipped_configs
from audit.config.seeds import refuse_short_seed
from audit.core.errors import ConfigError
from audit.core.seeds import SHORTEST_SEED
from audit.execution import run_folder
from tests.tiny import CONFIG

FEW = CONFIG.replace("seed: 5\n", "").partition("  - name: inside")[0] + "accountants: [rdp]\ncertificates: 0\n"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "few.yaml").write_text(FEW + "output: {formats: [json]}\n")
    (tmp_path / "key").write_text("5e" * 16)
    return tmp_path / "few.yaml"


def scores_of(config: Path, folder: Path, *more: str) -> bytes:
    assert answer(["run", str(config), "-o", str(folder), "-q", "--record-key", str(config.with_name("key")), *more]) in (0, 3)
    return (folder / "scores.parquet").read_bytes()


@pytest.mark.slow
def test_a_run_without_a_seed_draws_one_and_keeps_it_out_of_its_report(config: Path, tmp_path: Path) -> None:
    first, second = (scores_of(config, tmp_path / name) for name in ("a", "b"))
    seeds = [int((tmp_path / name / "private" / "seed").read_text()) for name in ("a", "b")]
    assert first != second and seeds[0] != seeds[1] and min(seeds) >= 2**127
    text = b"".join(path.read_bytes() for path in (tmp_path / "a").glob("*") if path.is_file())
    assert str(seeds[0]).encode() not in text
    assert json.loads((tmp_path / "a" / "report.json").read_text())["provenance"]["seed"] is None
    assert run_folder.verify_folder(tmp_path / "a") == []
    assert scores_of(config, tmp_path / "again", "--set", f"seed={seeds[0]}") == first, "the stored seed makes the same audit"


@pytest.mark.slow
def test_a_run_that_is_resumed_takes_the_seed_that_it_drew(config: Path, tmp_path: Path) -> None:
    scores = scores_of(config, tmp_path / "whole")
    started = tmp_path / "resumed.partial" / "private"
    started.mkdir(parents=True)
    (started / "seed").write_bytes((tmp_path / "whole" / "private" / "seed").read_bytes())
    assert scores_of(config, tmp_path / "resumed", "--resume") == scores


@pytest.mark.sampled(2)
@pytest.mark.parametrize("content", ["", "x", "12", str(2**64 - 1)])
def test_a_stored_seed_that_was_changed_is_refused(config: Path, tmp_path: Path, content: str) -> None:
    started = tmp_path / "run.partial" / "private"
    started.mkdir(parents=True)
    (started / "seed").write_text(content)
    assert answer(["run", str(config), "-o", str(tmp_path / "run"), "--resume", "-q"]) == 2


def test_a_seed_that_can_be_guessed_is_refused_for_own_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    random = np.random.default_rng(0)
    np.savez(tmp_path / "mine.npz", x=random.normal(size=(600, 4)), y=random.integers(0, 2, 600))
    mine = f"data={{kind: npz, path: {tmp_path / 'mine.npz'}, train: 200, pool: 200, test: 100}}"
    (tmp_path / "mine.yaml").write_text(CONFIG)
    assert answer(["run", str(tmp_path / "mine.yaml"), "-o", str(tmp_path / "run"), "-q", "--set", mine]) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "mine.yaml: seed is 5" in error and not (tmp_path / "run.partial").exists()
    line = re.search(r"seed: (\d+)", error)
    assert line is not None and int(line[1]) >= SHORTEST_SEED
    refuse_short_seed(configs.load(str(tmp_path / "mine.yaml"), [mine, f"seed={line[1]}"]))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", shipped_configs())
def test_shipped_demonstrations_have_public_seeds_for_their_own_data_alone(name: str) -> None:
    refuse_short_seed(configs.load(name))
    refuse_short_seed(configs.load(name, ["data.train=50"]))
    with pytest.raises(ConfigError, match=r"use this one and keep it secret: seed: \d{39}"):
        refuse_short_seed(configs.load(name, ["data={kind: npz, path: mine.npz}"]))
    with pytest.raises(ConfigError, match="--set: seed is 7"):
        refuse_short_seed(configs.load(name, ["data={kind: table, path: mine.csv, label: y}", "seed=7"]))
