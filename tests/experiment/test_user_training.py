"""One training with the user as unit: records of each side by side, one clipped gradient a user, claims and coins by user."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from audit.cli.app import answer
from audit.config.read import load as read_config
from audit.core.data import Records
from audit.core.errors import ConfigError
from audit.core.seeds import Seed
from audit.data.load import load
from audit.engine.losses import USERS_LOSS, find_loss
from audit.engine.read.observe import EnsembleReader
from audit.experiment.games.hypothesis import state
from audit.experiment.games.prepared_game import prepare_games
from audit.experiment.line.assemble import assemble
from audit.models.build import initialise_model

CONFIG = Path(__file__).parents[2] / "configs" / "quickstart-users.yaml"
MODEL: dict[str, Any] = {"kind": "per_record", "model": {"kind": "mlp", "hidden": [6]}}


def table(tmp_path: Path) -> dict[str, Any]:
    rows = ["who,a,y", *(f"{who},{place / 10},{place % 2}" for place, who in enumerate("aabcabbbbca" * 2))]
    (tmp_path / "t.csv").write_text("\n".join(rows), encoding="utf-8")
    return {"kind": "table", "path": "t.csv", "root": str(tmp_path), "label": "y", "client": "who", "drop": ["who"]}


def test_a_record_holds_the_first_records_of_a_user_who_is_named_or_made_up(tmp_path: Path) -> None:
    spec = table(tmp_path) | {"ranges": {"a": [-1, 1]}, "records_per_user": 5, "train": 2, "pool": 1}
    data = load(spec, Seed(1))
    users = [*zip(data.train.inputs, data.train.labels, strict=True), *zip(data.pool.inputs, data.pool.labels, strict=True)]
    held = {tuple(np.round(10 * values[labels >= 0, 0]).astype(int)) for values, labels in users}
    assert held == {(0, 1, 4, 10, 11), (2, 5, 6, 7, 8), (3, 9, 14, 20)} and data.unit == "user"
    for values, labels in users:
        assert (labels[labels >= 0] == np.round(10 * values[labels >= 0, 0]) % 2).all()
    digits = load({"kind": "digits", "records_per_user": 4, "train": 10, "pool": 5}, Seed(1))
    assert digits.train.inputs.shape == (10, 4, 1, 8, 8) and digits.train.labels.shape == (10, 4)
    with pytest.raises(ConfigError, match="whole number of at least 1"):
        load({"kind": "digits", "records_per_user": 0, "train": 10, "pool": 5}, Seed(1))
    with pytest.raises(ConfigError, match=r"data\.user"):
        load({"kind": "sentences", "count": 20, "records_per_user": 2, "train": 4, "pool": 4}, Seed(1))


def test_the_gradient_of_a_user_is_the_mean_of_the_records_gradients() -> None:
    draw = np.random.default_rng(0)
    labels = draw.integers(0, 3, (3, 4)).astype(np.float64)
    labels[1, 2:] = -1
    users = Records(inputs=draw.normal(size=(3, 4, 5)).astype(np.float32), labels=labels)
    module = initialise_model(MODEL, (4, 5), 3, Seed(2))
    weights = {name: value.detach().numpy()[None] for name, value in module.named_parameters()}
    reader = EnsembleReader(MODEL, weights, users.inputs[:2], 3, loss=find_loss(USERS_LOSS))
    norms = reader.gradient_norms(users)[0]
    for user in range(3):
        present = labels[user] >= 0
        logits = module.get_submodule("model")(torch.from_numpy(users.inputs[user][present]))
        loss = F.cross_entropy(logits, torch.from_numpy(labels[user][present]).long())
        own = torch.autograd.grad(loss, list(module.parameters()))
        expected = torch.cat([part.flatten() for part in own]).norm().item()
        assert norms[user] == pytest.approx(expected, rel=1e-4)
        assert reader.losses(users)[0, user] == pytest.approx(loss.item(), rel=1e-5)


@pytest.mark.slow
def test_claims_sampling_and_coins_are_by_user() -> None:
    experiment = assemble(read_config(str(CONFIG)).config)
    private = experiment.design.training_designs[1]
    claim = state(private, experiment.budget.delta).claims[0]
    assert claim.unit == "user" and claim.epsilon == pytest.approx(8, abs=0.01)
    games = prepare_games(experiment.design, experiment.audit_inputs, experiment.budget.delta)
    assert {game.game.unit for game in games} == {"user"} and "add or remove one user" in games[0].game.describe()
    records = games[0].assignment.canaries.records
    assert records is not None and records.labels.shape == (200, 4) and (records.labels >= 0).any(axis=1).all()


@pytest.mark.slow
def test_the_shipped_config_keeps_its_claim_by_user_and_shows_the_users_without_it(tmp_path: Path) -> None:
    assert answer(["run", str(CONFIG), "-q", "-o", str(tmp_path / "run")]) == 0
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    plain, private = report["mechanisms"]
    proven = [
        max(
            bound["epsilon"]
            for game in result["games"]
            for attack in game["attacks"]
            for bound in attack["bounds"]
            if bound["type"] == "LowerBound"
        )
        for result in (plain, private)
    ]
    assert proven[0] > 1 and 1 < proven[1] <= 8
    assert private["claims"][0]["unit"] == "user"
