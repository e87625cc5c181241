"""What cannot be scored is known before training: the rehearsal says of each scorer what the played game shows."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from torch import nn

from attacks.signals._queries import PredictedLabels
from audit import config as configs
from audit import plugins
from audit.cli.app import answer
from audit.config import parse
from audit.core.data import Array
from audit.core.errors import AssumptionError, ConfigError, ObservationError
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.execution.store import Store
from audit.experiment.games.attack import attempt
from audit.experiment.games.job_specs import make_job_specs
from audit.experiment.games.observed import load_models
from audit.experiment.games.prepared_game import PreparedGame, prepare_games
from audit.experiment.games.spec import Experiment
from audit.experiment.line import assemble, rehearsal, run
from audit.experiment.line.train import Resources, train
from tests.marks import sample
from tests.tiny import CONFIG

CONFIG_OF_ONE = """
version: 1
name: pairs
seed: 5
data: {kind: digits, train: 60, pool: 100, test: 20}
model: {kind: mlp, hidden: [4]}
training: {optimizer: sgd, learning_rate: 0.2, batch_size: 20, steps: 3}
mechanisms: [{name: dp, kind: dp_sgd, noise_multiplier: 2.0}]
games: [{name: game, canaries: mislabelled, count: 8, runs: 2, references: 8, scorers: [loss], estimators: [one_run]}]
accountants: [rdp]
certificates: 0
"""
SCORERS = plugins.names("attacks.scorers")
QUICK = ("loss", "lira", "label_only", "gradient_norm", "weight_difference", "gradient_product")
OF_TEXTS_AND_SECRETS = (
    "candidate_gradients",
    "formatted_secret",
    "searched_token",
    "unlikely_suffix",
    "new_token",
    "property_group",
    "random_tokens",
    "rare_bigrams",
    "redrawn_attribute",
    "redrawn_secret",
)
OF_CLIENTS = ("free_riders", "label_flippers", "model_replacement", "non_finite")  # of federations alone
CANARIES = [name for name in plugins.names("attacks.canaries") if name not in OF_TEXTS_AND_SECRETS + OF_CLIENTS]
ACCESSES = ("label_only", "final_model", "final_weights", "all_steps")


def assembled(canaries: str, access: str, references: int, scorers: Sequence[str]) -> Experiment:
    """A game with every scorer that the access and the number of references admit."""
    fitting = []
    for kind in scorers:
        changes = [f"games.game.{key}={value}" for key, value in (("canaries", canaries), ("access", access))]
        changes += [f"games.game.references={references}", f"games.game.scorers=[{kind}]"]
        changes += ["games.game.count=4"] if canaries == "every_tensor" else []  # the smallest tensor has four coordinates
        try:
            experiment = assemble.assemble(parse(CONFIG_OF_ONE, changes).config)
        except ConfigError:
            continue
        fitting += experiment.design.game_designs[0].attacks
    design = experiment.design
    game_designs = (replace(design.game_designs[0], attacks=tuple(fitting)),) if fitting else design.game_designs
    return replace(experiment, design=replace(design, game_designs=game_designs))


def planted(experiment: Experiment) -> list[PreparedGame]:
    return prepare_games(experiment.design, experiment.audit_inputs, experiment.budget.delta)


def scored(experiment: Experiment, prepared_game: PreparedGame, store: Store) -> dict[str, str]:
    """Which attacks cannot score trained models, and why."""
    dataset = experiment.audit_inputs.dataset
    resources = Resources(dataset=dataset, execution=experiment.execution, store=store)
    jobs = make_job_specs(prepared_game, dataset, experiment.execution)
    train(jobs, prepared_game.assignment.canaries, resources, lambda done: False)
    _, left_out = attempt(load_models(prepared_game, jobs, store))
    return left_out


def agree(canaries: str, access: str, references: int, folder: Path, scorers: Sequence[str] = SCORERS) -> None:
    experiment = assembled(canaries, access, references, scorers)
    (prepared_game,) = planted(experiment)
    models = rehearsal.untrained_models(prepared_game.training, experiment.audit_inputs.dataset, "cpu")
    known = rehearsal.rehearse(prepared_game, 3, models)
    own = prepared_game.assignment.included[prepared_game.game_design.runs :]
    failures = {planned.name: known.failure(planned, own) for planned in prepared_game.game_design.attacks}
    assert {name: why for name, why in failures.items() if why} == scored(
        experiment, prepared_game, Store.start(folder / "run", "c")
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("canaries", "access"), [("mislabelled", "all_steps"), ("dirac_gradient", "final_weights")])
def test_rehearsals_agree_with_the_game(canaries: str, access: str, tmp_path: Path) -> None:
    agree(canaries, access, 6, tmp_path, QUICK)


@pytest.mark.parametrize(("canaries", "access", "references"), sample(itertools.product(CANARIES, ACCESSES, (0, 1, 4, 8)), 7))
def test_every_scorer_on_every_canary_with_every_access(canaries: str, access: str, references: int, tmp_path: Path) -> None:
    agree(canaries, access, references, tmp_path)


@pytest.mark.parametrize(
    ("canaries", "access", "scorers", "part_of_message"),
    [
        ("dirac_gradient", "all_steps", "[gradient_product, loss]", "'loss' cannot score canaries 'dirac_gradient'"),
        ("random_gradient", "final_weights", "[output_gradient]", "'output_gradient' cannot score canaries 'random_gradient'"),
        ("mislabelled", "all_steps", "[loss, gradient_product]", "'gradient_product' cannot score canaries 'mislabelled'"),
    ],
)
def test_impossible_pairs_are_refused_before_training(
    canaries: str, access: str, scorers: str, part_of_message: str, tmp_path: Path
) -> None:
    provided = {"canaries": canaries, "access": access, "scorers": scorers}
    changes = [f"games.outside.{key}={value}" for key, value in provided.items()]
    experiment = assemble.assemble(parse(CONFIG, changes).config)
    with pytest.raises(ConfigError, match=part_of_message):
        run.run(experiment, Store.start(tmp_path / "run", "c"))
    assert not list((tmp_path / "run.partial" / "models").iterdir())


def undrawn(tmp_path: Path) -> tuple[Path, int]:
    """A config in which two attacks look at one canary, and a seed with which neither of the two references trained on it."""
    config = tmp_path / "coins.yaml"
    config.write_text(CONFIG_OF_ONE)
    for seed in range(50):
        experiment = assemble.assemble(configs.load(str(config), [*COINS, f"seed={seed}"]).config)
        if not planted(experiment)[0].assignment.included[20:].any():
            return config, seed
    raise AssertionError("no seed leaves the canary undrawn")


COINS = ("games.game.scorers=[loss, lira]", "games.game.count=1", "games.game.references=2", "games.game.runs=20")


@pytest.mark.slow
def test_where_coins_decide_the_attack_is_left_out_and_the_rest_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, seed = undrawn(tmp_path)
    changes = [word for change in (*COINS, f"seed={seed}", "output.formats=[json, pdf]") for word in ("--set", change)]
    assert answer(["run", str(config), "--dry-run", *changes]) == 0
    assert "dp, game game: 'lira' was left out: no reference model" in capsys.readouterr().out
    assert answer(["run", str(config), "-q", "-o", str(tmp_path / "run"), *changes]) in (0, 3)
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    (game,) = report["mechanisms"][0]["games"]
    assert [attack["scorer"] for attack in game["attacks"]] == ["loss"]
    assert "'lira' was left out: no reference model" in game["note"]
    assert "'lira' was left out: no reference model" in capsys.readouterr().out, "the remark is on the cover, too"
    (row,) = [check for check in report["mechanisms"][0]["checks"] if check["code"] == "left-out-game"]
    assert row["status"] == "gap"
    alone = [*changes, "--set", "games.game.scorers=[lira]"]
    assert answer(["run", str(config), "--dry-run", *alone]) == 2
    assert answer(["run", str(config), "-q", "-o", str(tmp_path / "alone"), *alone]) == 2
    assert "with the coins of this seed none of its scorers can be played" in capsys.readouterr().err


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """A third party's attack that has use for many canaries only, and for labels as whole numbers."""

    needs = Needs(signals={PredictedLabels()}, references=1)

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        predicted = target["predicted_labels"]
        if predicted.shape != (1, 1500) or reference["predicted_labels"].shape != (1, 1, 1500) or predicted.dtype != np.int64:
            raise ObservationError(f"{predicted.shape} {predicted.dtype}")
        return np.asarray(predicted[0], dtype=np.float64)


def test_a_rehearsal_has_as_many_canaries_and_models_as_the_game() -> None:
    changes = ["games.game.count=1500", "games.game.references=1", "data={kind: digits, train: 60, pool: 1600, test: 20}"]
    changes.append("games.game.scorers=['tests.experiment.test_rehearsal:Crowd']")
    experiment = assemble.assemble(parse(CONFIG_OF_ONE, changes).config)
    (game,) = rehearsal.playable(planted(experiment), experiment.audit_inputs.dataset, "cpu")
    assert game.notes == ()


def seven_outputs() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 7))


@pytest.mark.slow
def test_a_model_with_other_outputs_than_classes_is_refused_before_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "outputs.yaml"
    config.write_text(CONFIG_OF_ONE)
    change = "model={factory: 'tests.experiment.test_rehearsal:seven_outputs'}"
    assert answer(["run", str(config), "-q", "-o", str(tmp_path / "run"), "--set", change]) == 2
    assert "the model has 7 outputs but the data has 10 classes" in capsys.readouterr().err


@pytest.mark.parametrize("canaries", ["held_out", "mislabelled", "{kind: backdoor, poisons: 2}", "poisoned_membership"])
def test_canaries_in_or_out_are_refused_for_a_claim_about_replacement(canaries: str) -> None:
    changes = [f"games.game.canaries={canaries}", "games.game.adjacency=replace_one"]
    with pytest.raises(AssumptionError, match="nothing about replacing a record"):
        planted(assemble.assemble(parse(CONFIG_OF_ONE, changes).config))
