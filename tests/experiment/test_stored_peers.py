"""Figures of other packages that a benchmark reads from its file: of the models at hand, or refused."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

PROBABILITY = np.linspace(0.6, 0.9, 17)


@pytest.fixture
def peers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    path = Path(__file__).parents[2] / "benchmarks" / "stored_peers.py"
    spec = importlib.util.spec_from_file_location("stored_peers", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "PATH", tmp_path / "peers.csv")
    return module


def figures(shift: float) -> Any:
    values = np.random.default_rng(0).random((17, 3)) + shift
    values[:, 2] = np.nan
    return values


def test_stored_figures_come_back_of_each_attack_and_game(peers: Any) -> None:
    peers.store("online", "german", PROBABILITY, {"LiRA": figures(0.0), "RMIA": figures(1.0)})
    peers.store("offline", "german", PROBABILITY, {"LiRA": figures(2.0)})
    peers.store("online", "german", PROBABILITY, {"RMIA": figures(3.0)})
    back = peers.stored("online", "german", PROBABILITY)
    assert list(back) == ["LiRA", "RMIA"]
    np.testing.assert_allclose(back["LiRA"], figures(0.0), rtol=1e-5)
    np.testing.assert_allclose(back["RMIA"], figures(3.0), rtol=1e-5)
    np.testing.assert_allclose(peers.stored("offline", "german", PROBABILITY)["LiRA"], figures(2.0), rtol=1e-5)


def test_figures_of_other_models_are_refused_and_replaced(peers: Any) -> None:
    peers.store("online", "german", PROBABILITY, {"LiRA": figures(0.0)})
    for probability in (PROBABILITY + 0.001, PROBABILITY[:5]):
        with pytest.raises(SystemExit, match="of other models of german"):
            peers.stored("online", "german", probability)
    with pytest.raises(SystemExit, match="holds nothing of bank online"):
        peers.stored("online", "bank", PROBABILITY)
    peers.store("online", "german", PROBABILITY + 0.001, {"RMIA": figures(0.0)})
    assert list(peers.stored("online", "german", PROBABILITY + 0.001)) == ["RMIA"]


def test_the_file_holds_all_eight_sets_on_all_targets(peers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "PATH", Path(peers.__file__).with_name("eight_data_sets_peers.csv"))
    for game in ("online", "offline"):
        for name in ("german", "imdb", "ag_news", "bank", "location30", "adult", "fashion_mnist", "cifar10"):
            own = next(row for row in peers._lines() if row[:3] == [game, name, "models"])
            held = peers.stored(game, name, peers._numbers(own[4:]))
            assert len(held) >= 4 and all(values.shape == (17, 3) for values in held.values())
            assert all(((values[:, :2] >= 0) & (values[:, :2] <= 1)).all() for values in held.values())
