"""Clients that attack a federated training: backdoors by groups, and the controls beside them, through the whole line."""

from __future__ import annotations

from pathlib import Path

import pytest

from audit.config import parse
from audit.core.errors import ConfigError
from audit.core.game_results import GameResult
from audit.core.lower_bounds import read_epsilon
from audit.experiment.games.prepared_game import prepare_games
from audit.experiment.line import assemble
from tests.experiment.test_federated import CONFIG, audited

ATTACK = (
    "games.clients.access=final_model",
    "games.clients.scorers=[{kind: offset, online: false}]",
    "games.clients.estimators=[one_run]",
    "games.clients.runs=4",
    "games.clients.references=4",
    "data.pool=100",
    "training.sample_rate=1",
    "mechanisms.fed.trainer={kind: federated, local_steps: 2, local_learning_rate: 0.5}",
)
CLIENTS = "games.clients.canaries={kind: model_replacement, clients: 3, features: 16, boost: 10}"
REPLACEMENT = (*ATTACK, CLIENTS, "games.clients.count=4")
BARE = ("mechanisms.fed.noise=none", "mechanisms.fed.noise_multiplier=null")


def game(folder: Path, *overrides: str) -> GameResult:
    (result,) = audited(folder, *overrides).values()
    assert {check.code for check in result.checks if check.status == "failed"} == set()
    return result.games[0]


@pytest.mark.slow
def test_model_replacement_works_without_a_clip_and_is_held_to_what_a_claim_leaves_its_clients(tmp_path: Path) -> None:
    free = game(tmp_path / "bare", *REPLACEMENT, *BARE)
    assert free.trigger is not None and free.trigger.records == 3 and free.trigger.allowed is None
    assert free.trigger.hits_with > 0.8 * free.trigger.with_records
    assert free.trigger.hits_without < 0.4 * free.trigger.without_records
    held = game(tmp_path / "noisy", *REPLACEMENT, "mechanisms.fed.noise_multiplier=40")
    trigger = held.trigger
    assert trigger is not None and trigger.allowed is not None and trigger.allowed < 1
    assert trigger.hits_with / trigger.with_records < free.trigger.hits_with / free.trigger.with_records
    assert max(map(read_epsilon, held.bounds)) < 1, "three clients are one group: bounds are converted"


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "proves"), [("label_flippers", True), ("free_riders", False)])
def test_clients_that_train_on_wrong_labels_show_and_free_riders_do_not(kind: str, proves: bool, tmp_path: Path) -> None:
    result = game(tmp_path, *ATTACK, *BARE, f"games.clients.canaries={kind}", "games.clients.count=40")
    assert (max(map(read_epsilon, result.bounds)) > 0) is proves


@pytest.mark.parametrize("kind", ["model_replacement", "label_flippers", "free_riders"])
def test_clients_are_planted_in_federations_alone(kind: str) -> None:
    central = (
        "mechanisms.fed={name: fed, kind: dp_sgd, noise_multiplier: 1.0, clip_norm: 1.0}",
        "training.sample_rate=null",
        "training.batch_size=20",
        f"games.clients.canaries={kind}",
        "games.clients.count=5",
        "games.clients.adjacency=add_remove",
    )
    options = [option for option in (*ATTACK, *central) if "federated" not in option]
    experiment = assemble.assemble(parse(CONFIG, options).config)
    with pytest.raises(ConfigError, match=f"'{kind}' are clients of a federation"):
        prepare_games(experiment.design, experiment.audit_inputs, 1e-5)
