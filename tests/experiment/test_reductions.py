"""A whole audit that keeps what its attacks read of outputs says what one says that keeps all of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from attacks.signals.logits import Losses
from audit.cli.app import answer
from audit.core.data import Array
from audit.core.errors import OutputError
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.execution.store import Store
from audit.experiment.describe.leave_one_out import _Rivals, leave_one_out
from audit.experiment.games import spec
from audit.experiment.games.attack import _rows
from audit.experiment.games.observed import gather, in_memory
from tests.tiny import CONFIG

GAMES = (
    "games=[{name: outside, canaries: mislabelled, count: 24, runs: 2, references: 5, scorers: [loss, lira, offset, attack_r, "
    "entropy], estimators: [one_run]}, {name: triggers, canaries: backdoor, count: 6, runs: 2, references: 4, "
    "scorers: [loss], estimators: [one_run]}]"
)
LOST = "mechanisms=[{name: plain, kind: non_private, trainer: {kind: 'tests.broken:LosesModels', rows: [1, 3]}}]"


def run(folder: Path, *more: str) -> dict[str, Any]:
    config, key = folder.with_suffix(".yaml"), folder.parent / "key"
    config.write_text(CONFIG)
    key.write_text("5e" * 16)
    sets = [word for item in (GAMES, LOST, "output.formats=[json]", "model.hidden=[8]", *more) for word in ("--set", item)]
    assert answer(["run", str(config), "-o", str(folder), "-q", "--record-key", str(key), *sets]) in (0, 3)
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return report


def stored(folder: Path) -> dict[str, tuple[int, ...]]:
    """Bytes a model of each signal, by its name, over all jobs."""
    result: dict[str, tuple[int, ...]] = {}
    for path in (folder / "models").glob("*.safetensors"):
        arrays = load_file(path)
        result |= {name: array[0].nbytes for name, array in arrays.items() if name.startswith("signal/")}
    return result


def bytes_of_tests(folder: Path) -> dict[str, int]:
    """Bytes a model of what a job keeps of outputs for test records."""
    arrays = load_file(next((folder / "models").glob("*.safetensors")))
    return {name: array[0].nbytes for name, array in arrays.items() if name.startswith("test")}


@pytest.mark.slow
def test_reports_are_the_same_with_models_that_diverged_and_triggers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1767225600")
    less = run(tmp_path / "less")
    monkeypatch.setattr(spec, "kept_signals", lambda signals, needs, classes: frozenset(signals))
    full = run(tmp_path / "whole")
    assert less["mechanisms"][0]["games"][1]["trigger"]["accuracy"] is not None
    for report in (less, full):  # the preflight reads logits if they were kept, else the scores of attacks
        assert report["mechanisms"][0].pop("preflight") is not None
    assert less["mechanisms"] == full["mechanisms"]
    assert (tmp_path / "less" / "scores.parquet").read_bytes() == (tmp_path / "whole" / "scores.parquet").read_bytes()
    retained, all_of_them = stored(tmp_path / "less"), stored(tmp_path / "whole")
    assert [row["name"] for row in less["mechanisms"][0]["utility"]] == ["accuracy", "macro-F1", "AUC"]
    assert bytes_of_tests(tmp_path / "less") == {"test/accuracy": 8, "test/macro-F1": 8, "test/AUC": 8}, "bytes a model"
    assert "signal/logits" not in retained and set(all_of_them) == {"signal/logits"}
    assert {"signal/confidences", "signal/predicted_classes", "signal/repeated_outputs"} <= retained.keys()


def test_a_store_with_another_signal_under_the_same_key_is_refused(tmp_path: Path) -> None:
    store = Store.start(tmp_path / "run", "0" * 64)
    job = {"diverged": np.zeros(2, bool), "test/accuracy": np.zeros(2)}
    store.put("one", {**job, "signal/confidences": np.zeros((2, 4))})
    path = store.folder / "models" / "one.safetensors"
    path.write_bytes(path.read_bytes()[:-8] + np.float64(1.0).tobytes())
    with pytest.raises(OutputError, match="is damaged; continue with --resume"):
        store.get("one")
    assert not store.intact("one")
    with pytest.raises(OutputError, match="is damaged; continue with --resume"):
        gather(["one"], store)


def test_what_attacks_write_to_what_they_are_shown_reaches_no_other_figure() -> None:
    class Changes:
        needs = Needs(signals={Losses()})

        def score(self, target: View, reference: View, seed: Seed) -> Array:
            for array in (target["losses"], reference["losses"], np.asarray(reference.included)):
                with pytest.raises(ValueError, match="read-only"):
                    np.multiply(array, 0, out=array)
            return np.asarray(reference["losses"][0])

    random = np.random.default_rng(0)
    losses, coins = random.random((4, 30)), random.random((4, 30)) < 0.5
    result = leave_one_out(Changes(), View(signals={"losses": losses}, included=coins), None, Seed(0))
    np.testing.assert_array_equal(result.values, losses[[1, 0, 0, 0]])
    assert not any(array.flags.writeable for array in _rows({"losses": losses}, slice(1, 3)).values())


def test_all_models_but_one_are_those_in_any_order_of_targets() -> None:
    random = np.random.default_rng(0)
    coins, values = random.random((7, 5)) < 0.5, random.random((7, 5, 2))
    peers = _Rivals(View(signals={"x": values}, included=coins), in_memory)
    for row in (0, 1, 4, 2, 2, 6, 0, 5):
        view = peers.reference(row)
        assert np.array_equal(view["x"], np.delete(values, row, axis=0))
        assert view.included is not None and np.array_equal(view.included, np.delete(coins, row, axis=0))
        assert np.array_equal(peers.target(row, None)["x"], values[row])
