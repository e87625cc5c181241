"""Audits of models with several labels, with numbers and a loss of your own, and of whole numbers: from a file to bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor
from torch.nn import functional as F

import audit
from audit.core.errors import ConfigError, DataError
from audit.core.lower_bounds import read_epsilon

RECORDS, FEATURES, LABELS = 200, 20, 4


def huber(outputs: Tensor, labels: Tensor) -> Tensor:
    return F.huber_loss(outputs, labels, reduction="none").sum(1)


def config(folder: Path, scorers: list[Any], **changes: Any) -> dict[str, Any]:
    generator = np.random.default_rng(1)
    inputs = generator.normal(size=(RECORDS, FEATURES)).astype(np.float32)
    values = generator.normal(size=(RECORDS, LABELS))
    np.savez(folder / "labels.npz", x=inputs, y=(values > 0.5).astype(int))
    np.savez(folder / "numbers.npz", x=inputs, y=values)
    np.savez(folder / "tokens.npz", x=generator.integers(0, 7, (RECORDS, 5)), y=(values[:, 0] > 0).astype(int))
    data = {"kind": "npz", "root": str(folder), "train": 20, "pool": 120, "test": 60, **changes.pop("data", {})}
    game = {
        "name": "outside", "canaries": "held_out", "count": 100, "runs": 1, "references": 4, "scorers": scorers,
        "estimators": ["one_run"],
    }  # fmt: skip
    return {
        "version": 1, "name": "shapes", "seed": 2**64 + 3, "data": data, "model": {"kind": "mlp", "hidden": [64]},
        "training": {"optimizer": "adam", "learning_rate": 0.02, "batch_size": 20, "steps": 60},
        "mechanisms": [{"name": "plain", "kind": "non_private"}], "games": [game], "accountants": ["rdp"], "certificates": 0,
        "output": {"directory": str(folder / "runs"), "formats": ["json"]}, **changes,
    }  # fmt: skip


def proven(report: audit.AuditReport) -> float:
    return max(read_epsilon(bound) for mechanism in report.mechanisms for game in mechanism.games for bound in game.bounds)


@pytest.mark.parametrize("scorers", [["loss", "lira"], pytest.param(["rmia", "auto"], marks=pytest.mark.slow)])
def test_several_labels_are_trained_and_attacked_by_their_losses(tmp_path: Path, scorers: list[str]) -> None:
    spec = config(tmp_path, scorers, data={"path": "labels.npz", "task": "multi_label"})
    report = audit.run(spec)
    assert proven(report) > 1.0  # labels are noise, so what these models know of members they remember
    (mechanism,) = report.mechanisms
    figures = {metric.name: metric for metric in mechanism.utility}
    assert set(figures) == {"accuracy per label", "AUC per label", "loss"}
    assert 0.4 < figures["AUC per label"].value < 0.6


@pytest.mark.slow
def test_a_loss_of_ones_own_over_several_numbers(tmp_path: Path) -> None:
    spec = config(tmp_path, ["loss", "lira"], data={"path": "numbers.npz", "task": "regression"})
    spec["training"]["loss"] = "tests.experiment.test_several_labels:huber"
    assert proven(audit.run(spec)) > 1.0


@pytest.mark.slow
def test_whole_numbers_reach_embeddings_as_they_are(tmp_path: Path) -> None:
    spec = config(tmp_path, ["loss"], data={"path": "tokens.npz", "whole_numbers": True})
    spec |= {"model": {"kind": "transformer", "vocabulary": 7, "width": 8, "depth": 1, "heads": 2}}
    spec["training"]["steps"] = 5
    assert audit.run(spec).mechanisms


def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"label 0 of record 1 \(counted from 1\) is .*; expected 0 or 1"):
        audit.run(config(tmp_path, ["loss"], data={"path": "numbers.npz", "task": "multi_label"}))
    with pytest.raises(DataError, match=r"data\.whole_numbers asks for integers"):
        audit.run(config(tmp_path, ["loss"], data={"path": "labels.npz", "task": "multi_label", "whole_numbers": True}))
    spec = config(tmp_path, ["loss"], data={"path": "labels.npz", "task": "multi_label"})
    spec["training"]["loss"] = "hinge"
    with pytest.raises(ConfigError, match=r"'hinge' is no loss; expected package\.module:function"):
        audit.run(spec)
    spec = config(tmp_path, ["entropy"], data={"path": "labels.npz", "task": "multi_label"})
    with pytest.raises(ConfigError, match=r"scorer 'entropy' cannot score .* logits"):
        audit.run(spec)
