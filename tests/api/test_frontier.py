"""A frontier varies one mechanism's noise in one run: claims fall as noise rises, and no proof is above its claim."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import audit
import reports
from audit.api.frontier import vary_noise
from audit.cli.app import answer

CONFIG = """
version: 1
name: tiny
seed: 1
data: {kind: digits, train: 200, pool: 100, test: null}
model: {kind: logistic}
training: {learning_rate: 0.5, batch_size: 50, steps: 8}
mechanisms:
  - {name: plain, kind: non_private}
  - {name: private, kind: dp_sgd, target_epsilon: 8}
games:
  - {name: outside, access: final_model, canaries: mislabelled, count: 20, runs: 2, scorers: [loss], estimators: [one_run]}
  - {name: inside, access: all_steps, canaries: dirac_gradient, count: 40, runs: 1, mechanisms: [private],
     scorers: [gradient_product], estimators: [one_run]}
accountants: [pld]
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(CONFIG, encoding="utf-8")
    return path


def test_a_mechanism_per_multiplier_takes_the_place_of_one(config: Path) -> None:
    from audit.api.configs import resolve

    settings, names = vary_noise(resolve(config, {}).text, [0.5, 2.0], None)
    assert names == ["private-noise-0.5", "private-noise-2"]
    assert [spec["name"] for spec in settings["mechanisms"]] == ["plain", *names]
    assert [game["mechanisms"] for game in settings["games"]] == [None, names]
    with pytest.raises(audit.ConfigError, match=r"mechanism is 'plain'; expected .* private"):
        vary_noise(resolve(config, {}).text, [0.5, 2.0], "plain")


@pytest.mark.slow
def test_claims_fall_with_noise_and_proofs_stay_below_them(config: Path, tmp_path: Path, capsys: Any) -> None:
    folder = tmp_path / "out"
    assert answer(["frontier", str(config), "--noise", "2,0.6", "-o", str(folder), "--json"]) in (0, 3)
    result = json.loads(capsys.readouterr().out)
    low, high = result["rows"]
    assert (low["noise_multiplier"], high["noise_multiplier"], result["tuning"]) == (0.6, 2.0, 2.0)
    assert low["claimed"] > high["claimed"] > 0 and low["claimed_with_tuning"] > low["claimed"]
    assert all(row["proven"] <= min(row["claimed"], row["ceiling"]) for row in (low, high))
    assert all(row["utility"] is not None and row["tpr"] is not None for row in (low, high))
    assert (folder / "frontier.svg").read_bytes().startswith(b"<?xml") and (folder / "run" / "report.json").exists()
    assert len((folder / "frontier.csv").read_text().splitlines()) == 3


@pytest.mark.slow
def test_a_frontier_is_printed_and_drawn(config: Path) -> None:
    frontier = audit.frontier(config, [0.6, 2.0], tuning=1.0)
    assert all(math.isclose(row.claimed, row.claimed_with_tuning) for row in frontier.rows)
    assert "claimed" in str(frontier) and len(str(frontier).splitlines()) == 3
    assert len(reports.plot(frontier).axes) == 2


@pytest.mark.parametrize(
    ("noise", "message"), [("1", "noise holds 1 multipliers"), ("1,x", "--noise is '1,x'"), ("0,1", "noise")]
)
def test_multipliers_are_checked(config: Path, noise: str, message: str, capsys: Any) -> None:
    assert answer(["frontier", str(config), "--noise", noise]) == 2
    assert message in capsys.readouterr().err
