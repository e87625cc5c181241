"""Runs that show every access level, describe their models, plant copies and start if the adversary wants."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from attacks.canaries._pool_records import HeldOut
from attacks.scorers._figures import Loss
from attacks.scorers.lira import Lira
from attacks.signals._queries import PredictedLabels
from attacks.signals._white_box import ClassDistances, HiddenRepresentations, LastGradientNorms
from attacks.signals.logits import Losses
from audit.bounds import group_privacy
from audit.bounds.estimators.clopper_pearson import ClopperPearson
from audit.bounds.estimators.gaussian import Gaussian
from audit.bounds.estimators.one_run import OneRun
from audit.config import load
from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.data import Array, Dataset, Records
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.events import sgd
from audit.core.game import Assumption, Game, Inclusion
from audit.core.lower_bounds import LowerBound, read_ceiling
from audit.core.protocols import Needs
from audit.core.results import MechanismResult
from audit.core.seeds import Seed
from audit.core.training import TrainingJob
from audit.core.views import Scores, View
from audit.execution.store import Store
from audit.experiment.describe import leave_one_out_summary
from audit.experiment.games.records import RecordTable
from audit.experiment.line.assemble import assemble
from audit.experiment.line.report import model_name
from audit.experiment.line.run import run
from audit.models.build import build, initialise_model
from audit.stats.curves import tradeoff
from audit.trainers._ensemble import SgdTrainer
from tests.tiny import CONFIG

SEED = Seed(2)


def read_results(tmp_path: Path, **changes: object) -> tuple[MechanismResult, ...]:
    """The results of the tiny config with some keys replaced."""
    config = {**yaml.safe_load(CONFIG), **changes}
    tmp_path.mkdir(exist_ok=True)
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    experiment = assemble(load(str(path)).config)
    store = Store.start(tmp_path / "run", "0")
    return run(experiment, store)[0]


def game(**changes: object) -> dict[str, object]:
    base = {"name": "one", "canaries": "held_out", "count": 60, "runs": 1, "references": 5, "scorers": ["lira"]}
    return {**base, "estimators": ["one_run"], **changes}


@pytest.mark.slow
def test_one_training_is_judged_at_every_level_that_its_attacks_need(tmp_path: Path) -> None:
    records = game(
        access="all_steps",
        scorers=[
            "label_only",
            {"kind": "boundary", "queries": 60},
            {"kind": "noise_robustness", "queries": 2},
            "lira",
            "gradient_norm",
            "white_box_classifier",
            "trajectory",
        ],
        estimators=["one_run"],
    )
    gradients = game(
        name="two",
        access="all_steps",
        canaries="dirac_gradient",
        references=0,
        scorers=["gradient_product", "weight_difference"],
        estimators=["one_run", "gaussian"],
        mechanisms=["dp"],
    )
    plain, private = read_results(tmp_path, games=[records, gradients])
    levels = [attack.access for attack in plain.games[0].attacks]
    assert levels == [Access.LABEL_ONLY] * 3 + [Access.FINAL_MODEL] + [Access.FINAL_WEIGHTS] * 2 + [Access.ALL_STEPS]
    product, difference = private.games[1].attacks
    assert [bound.estimator for bound in product.bounds] == ["one_run", "gaussian"]
    assert [bound.estimator for bound in difference.bounds] == ["one_run"]  # not independent trials once steps are summed
    assert product.access == Access.ALL_STEPS and difference.access == Access.FINAL_WEIGHTS
    assert product.auc > 0.55


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadsHidden:
    """A third party's attack: length of the hidden representation."""

    width: int = 32

    @property
    def needs(self) -> Needs:
        return Needs(signals={HiddenRepresentations(), LastGradientNorms(), ClassDistances()})

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        assert set(target.signals) == {"hidden", "last_gradient_norms", "class_distances"}
        assert target["hidden"].shape == (60, self.width)
        return np.asarray(np.linalg.norm(target["hidden"], axis=1), dtype=np.float64)


class ReadsLosses:
    """A user's attack that takes its inputs for granted."""

    @property
    def needs(self) -> Needs:
        return Needs(signals={Losses()})

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        return -target.signals["losses"]


@pytest.mark.slow
def test_hidden_representations_are_kept_where_an_attack_asks_for_them(tmp_path: Path) -> None:
    plain = [{"name": "plain", "kind": "non_private"}]
    weights_game = game(
        access="final_weights", scorers=["gradient_norm", {"kind": "tests.experiment.test_described:ReadsHidden"}]
    )
    peers = game(access="final_weights", scorers=["white_box_classifier"])
    changes = {"mechanisms": plain, "model": {"kind": "mlp", "hidden": [32]}}
    (result,) = read_results(tmp_path / "own", games=[weights_game], **changes)
    assert [attack.scorer for attack in result.games[0].attacks] == ["gradient_norm", "ReadsHidden"]
    read_results(tmp_path / "others", games=[peers], **changes)
    retained = [bool(list((tmp_path / name).rglob("*-hidden.npy"))) for name in ("own", "others")]
    assert retained == [True, False]
    observed = [np.load(file, mmap_mode="r") for file in (tmp_path / "own").rglob("*.npy")]
    assert len(observed) == 7 and sum(item[0].size for item in observed) <= 60 * (256 + 3 + 3)  # three numbers of ten outputs


@pytest.mark.slow
def test_views_of_images_are_observed_where_an_attack_asks_for_them(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, 260)
    images = random.standard_normal((260, 1, 6, 6)).astype(np.float32) + labels[:, None, None, None]
    np.savez(tmp_path / "images.npz", x=images, y=labels)
    data = {"kind": "npz", "path": "images.npz", "root": str(tmp_path), "train": 60, "pool": 120, "test": 60}
    scorers = [{"kind": "lira", "augmentations": 4}, {"kind": "label_only", "augmentations": 2}, "loss"]
    plain = [{"name": "plain", "kind": "non_private"}]
    changes = {"mechanisms": plain, "data": data, "model": {"kind": "cnn", "channels": [4]}}
    (result,) = read_results(tmp_path / "run", games=[game(scorers=scorers)], **changes)
    assert [attack.access for attack in result.games[0].attacks] == [Access.FINAL_MODEL, Access.LABEL_ONLY, Access.FINAL_MODEL]
    (observed,) = (tmp_path / "run").rglob("*-augmented_logits_4.npy")
    (plain_logits,) = (tmp_path / "run").rglob("*-logits.npy")
    views, logits = np.load(observed), np.load(plain_logits)
    assert views.shape == (6, 4, 60, 3)
    np.testing.assert_allclose(views[:, 0], logits, rtol=1e-5, atol=1e-6)
    assert not np.allclose(views[:, 1], logits)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scorers": ["gradient_norm"]}, "final_weights"),
        ({"access": "label_only", "scorers": ["loss"]}, "label_only"),
        (
            {"access": "all_steps", "canaries": "dirac_gradient", "scorers": ["weight_difference"], "estimators": ["gaussian"]},
            "add one_run",
        ),
        (
            {
                "access": "all_steps",
                "canaries": "dirac_gradient",
                "references": 0,
                "scorers": ["gradient_product", {"kind": "tests.experiment.test_described:ReadsLosses"}],
            },
            "'ReadsLosses' cannot score canaries 'dirac_gradient' .* it reads losses, and these models show nothing of that",
        ),
    ],
)
def test_attacks_that_need_more_than_the_game_shows_are_refused(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        read_results(tmp_path, games=[game(**changes)])


def test_an_empty_train_split_is_refused(tmp_path: Path) -> None:
    data = {"kind": "digits", "train": 0, "pool": 200, "test": 100}
    with pytest.raises(ConfigError, match="train split is empty"):
        read_results(tmp_path, data=data, training={"sample_rate": 0.1, "epochs": 2})


@pytest.mark.slow
def test_a_run_describes_its_models(tmp_path: Path) -> None:
    training = {"optimizer": "sgd", "learning_rate": 0.5, "batch_size": 50, "steps": 150}
    only = [{"name": "plain", "kind": "non_private"}]
    item = game(canaries="mislabelled", scorers=["loss", "lira", "auto"], runs=2, prior=0.2)
    (plain,) = read_results(tmp_path, games=[item], training=training, mechanisms=only, model={"kind": "mlp", "hidden": [32]})
    evaluation = plain.games[0].evaluation
    assert evaluation is not None
    assert evaluation.targets == 7
    took, empty = plain.games[0].note.rsplit("; ", 1)
    assert took.startswith("'auto' took ") and "on 5 references in the target's place" in took
    assert "mean TPR up to 5 % FPR" in took and "its TPR at 1 % FPR was" in took
    assert empty == "no canary is of class 2, so nothing is said of such records"
    means = {scorer.scorer: scorer.figures[0].mean for scorer in evaluation.scorers}
    assert evaluation.leading == max(means, key=lambda name: means[name])
    assert means[evaluation.leading] > 0.6
    assert evaluation.at_fpr >= 1 / 60 and evaluation.thresholds[0].prior == 0.2
    assert evaluation.fidelity is not None and evaluation.fidelity.matches
    assert {item.column for item in evaluation.groups} == {"class"}
    shown = {record.record for record in plain.games[0].records}
    assert shown & {record.record for record in evaluation.records}  # the same keyed names in both tables


def make_record_table(count: int, columns: dict[str, Array]) -> RecordTable:
    names = tuple(str(item) for item in range(count))
    return RecordTable(names=names, labels=names, columns=columns)


def toy(scale: float) -> leave_one_out_summary.LeaveOneOutModels:
    """Nine models, the first of which is `scale` times as sure of itself as the others."""
    random = np.random.default_rng(1)
    labels = random.integers(0, 3, 400)
    included = random.random((9, 400)) < 0.5
    logits = random.standard_normal((9, 400, 3)) + (1 + included)[..., None] * np.eye(3)[labels]
    logits[0] *= scale
    column = {"group": np.where(np.arange(400) < 200, "a", "b")}
    views = View.of(included=included, logits=logits.astype(np.float32))
    return leave_one_out_summary.LeaveOneOutModels(views=views, labels=labels, runs=1, table=make_record_table(400, column))


@pytest.mark.parametrize(
    ("models", "canaries", "expected"), [(17, 1000, 17), (257, 1000, 257), (257, 5000, 77), (100, 10**6, 64)]
)
def test_every_model_is_a_target_where_that_is_affordable(models: int, canaries: int, expected: int) -> None:
    result = leave_one_out_summary._targets(models, canaries)
    assert len(result) == expected and result[0] == 0 and result[-1] == models - 1


def test_a_column_with_many_values_is_a_unit() -> None:
    random = np.random.default_rng(1)
    included = random.random((6, 400)) < 0.5
    confidence = included + random.standard_normal((6, 400))
    views = View.of(included=included, losses=np.logaddexp(0.0, -confidence))
    columns = {
        "class": np.repeat(["a", "b"], 200),
        "customer": np.arange(400) % 40,
        "region": np.arange(400) % 4,
    }
    models = leave_one_out_summary.LeaveOneOutModels(
        views=views, labels=np.zeros(400), runs=1, table=make_record_table(400, columns)
    )
    result = leave_one_out_summary.describe([("loss", Loss())], models, prior=0.5, seed=SEED)
    assert result is not None and result.spared == 0 and result.targets == 6
    assert [(item.column, item.units, item.records) for item in result.units] == [("customer", 40, 10.0)]
    assert result.units[0].figures[0].mean > result.scorers[0].figures[0].mean + 0.1


def test_references_of_another_kind_are_reported_as_a_weak_attack() -> None:
    for scale, alike in ((1.0, True), (4.0, False)):
        evaluation = leave_one_out_summary.describe([("lira", Lira())], toy(scale), prior=0.5, seed=SEED)
        assert evaluation is not None and evaluation.fidelity is not None
        assert evaluation.fidelity.matches is alike
        assert {item.group: item.canaries for item in evaluation.groups} == {"a": 200, "b": 200}
    few = toy(1.0)
    one_canary = leave_one_out_summary.LeaveOneOutModels(
        views=View.of(included=few.views.included[:, :1]), labels=few.labels[:1], runs=1, table=make_record_table(1, {})
    )
    assert leave_one_out_summary.describe([("lira", Lira())], one_canary, prior=0.5, seed=SEED) is None


def separated(copies: int, count: int = 400, family_shift: float = 3.0) -> Scores:
    random = np.random.default_rng(4)
    included = random.random(count) < 0.5
    rules = Game(
        adjacency=Adjacency.ADD_REMOVE,
        access=Access.FINAL_MODEL,
        inclusion=Inclusion.COINS,
        canaries=1,
        runs=count,
        copies=copies,
    )
    return Scores(values=random.standard_normal(count) + family_shift * included, included=included, game=rules)


@pytest.mark.parametrize("estimator", [OneRun(), ClopperPearson()])
def test_bounds_of_copies_speak_of_one_record(estimator: OneRun | ClopperPearson) -> None:
    once = estimator.lower_bound(separated(1), delta=1e-5, confidence=0.95, seed=SEED)
    for copies in (2, 3):
        shared = group_privacy.bound(estimator, separated(copies), delta=1e-5, confidence=0.95, seed=SEED)
        together, spent = tradeoff.group_privacy(shared.epsilon, 1e-5, copies)
        again = estimator.lower_bound(separated(copies), delta=spent, confidence=0.95, seed=SEED)
        assert again.epsilon >= together - 2e-3  # what it says of the group is refuted, to the precision of a search
        beyond, spent = tradeoff.group_privacy(shared.epsilon + 0.01, 1e-5, copies)
        assert estimator.lower_bound(separated(copies), delta=spent, confidence=0.95, seed=SEED).epsilon < beyond
        assert 0 < shared.epsilon <= once.epsilon / copies + 1e-6
        assert shared.epsilon <= shared.ceiling and shared.delta == 1e-5


def test_inside_gdp_copies_divide_mu_and_dp_sgd_is_refused() -> None:
    plain = Gaussian().lower_bound(separated(1), delta=1e-5, confidence=0.95, seed=SEED)
    shared = group_privacy.bound(Gaussian(), separated(2), delta=1e-5, confidence=0.95, seed=SEED)
    assert shared.parameter == pytest.approx((plain.parameter or 0) / 2)
    assert shared.epsilon == pytest.approx(tradeoff.gdp_epsilon((plain.parameter or 0) / 2, 1e-5))

    class InTheFamily:
        assumes: frozenset[Assumption] = frozenset()

        def lower_bound(self, scores: Scores, *, delta: float, confidence: float, seed: Seed) -> LowerBound:
            result = OneRun().lower_bound(scores, delta=delta, confidence=confidence, seed=seed)
            return replace(result, family="dp_sgd")

    with pytest.raises(UnsupportedMechanism, match="copies"):
        group_privacy.bound(InTheFamily(), separated(2), delta=1e-5, confidence=0.95, seed=SEED)


@pytest.mark.slow
def test_a_run_with_copies_trains_on_them(tmp_path: Path) -> None:
    canaries = {"kind": "duplicated", "copies": 5, "mislabelled": True}
    item = game(canaries=canaries, scorers=["loss"], references=0, count=30, runs=2)
    single = game(name="single", canaries="mislabelled", scorers=["loss"], references=0, count=30, runs=2)
    training = {"optimizer": "sgd", "learning_rate": 0.5, "batch_size": 50, "steps": 60}
    only = [{"name": "plain", "kind": "non_private"}]
    (plain,) = read_results(tmp_path, games=[item, single], training=training, mechanisms=only)
    copied, once = plain.games
    assert copied.game.copies == 5 and "5 copies of each" in copied.game.describe()
    assert copied.attacks[0].auc > once.attacks[0].auc + 0.1
    assert all(check.status != "failed" for check in plain.checks)
    bound = copied.attacks[0].bounds[0]
    assert "group privacy" in bound.selected and read_ceiling(bound) < read_ceiling(once.attacks[0].bounds[0]) / 4


@pytest.mark.slow
def test_worst_case_initialisation_starts_every_run_from_fitted_weights(tmp_path: Path) -> None:
    canaries = {"kind": "worst_case_initialisation", "record": "mislabelled", "steps": 600}
    games = [
        game(name=name, canaries=kind, count=20, scorers=["loss"], references=0)
        for name, kind in (("fitted", canaries), ("drawn", "mislabelled"))
    ]
    training = {"optimizer": "sgd", "learning_rate": 0.001, "batch_size": 50, "steps": 1}
    only = [{"name": "plain", "kind": "non_private"}]
    config = {**yaml.safe_load(CONFIG), "games": games, "training": training, "mechanisms": only, "model": {"kind": "mlp"}}
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    experiment = assemble(load(str(path)).config)
    _, played = run(experiment, Store.start(tmp_path / "run", "0"))
    fitted, drawn = (float(item.observed.test_figures["accuracy"][0]) for item in played)
    assert fitted > drawn + 0.3  # after a single tiny step


def trained_inside(steps: int) -> object:
    """A user's factory that trains its model before it hands it over."""
    random = np.random.default_rng(0)
    records = Records(inputs=random.random((40, 4)).astype(np.float32), labels=random.integers(0, 2, 40))
    data = Dataset(
        name="own", source="drawn", sha256="", classes=2, train=records, pool=records, test=records, pool_index=np.arange(40)
    )
    canaries = HeldOut().make(data, 2, 1, SEED)
    job = TrainingJob(
        dataset=data,
        canaries=canaries,
        included=np.zeros((2, 2), dtype=bool),
        seeds=(SEED.child("a"), SEED.child("b")),
        mechanism=sgd(sample_rate=0.5, steps=steps),
        model={"kind": "logistic"},
        optimizer={"kind": "sgd", "learning_rate": 0.5},
        access=Access.FINAL_MODEL,
    )
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        weights = SgdTrainer(model_chunk=1).fit(job, lambda done: None).weights
    finally:
        torch.set_num_threads(before)
    built = build({"kind": "logistic"}, (4,), 2)
    built.load_state_dict({name: torch.from_numpy(np.array(value[0])) for name, value in weights.items()})
    return built


def test_a_factory_may_train_its_model() -> None:
    spec = {"factory": "tests.experiment.test_described:trained_inside", "arguments": {"steps": 3}}
    first, second = initialise_model(spec, (4,), 2, SEED), initialise_model(spec, (4,), 2, SEED.child("other"))
    for item, peer in zip(first.parameters(), second.parameters(), strict=True):
        assert bool((item == peer).all())


@dataclass(frozen=True, slots=True, kw_only=True)
class Nosy:
    """A third party's attack that needs no more than labels and looks for more."""

    @property
    def needs(self) -> Needs:
        return Needs(signals={PredictedLabels()}, references=2)

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        assert set(target.signals) == set(reference.signals) == {"predicted_labels"}
        assert target.included is None
        return np.asarray(target["predicted_labels"][0] == target.labels, dtype=np.float64)


@pytest.mark.slow
def test_an_attack_is_given_the_signals_that_it_names_and_no_others(tmp_path: Path) -> None:
    scorers = [{"kind": "tests.experiment.test_described:Nosy"}, "lira", "gradient_norm"]
    plain, _ = read_results(tmp_path, games=[game(access="final_weights", references=4, scorers=scorers)])
    assert [attack.access for attack in plain.games[0].attacks] == [
        Access.LABEL_ONLY,
        Access.FINAL_MODEL,
        Access.FINAL_WEIGHTS,
    ]


def nearest_means(model: Any, inputs: Any, labels: Any, *, seed: int, rounds: int) -> None:
    """A user's training function: full-batch gradient descent of his own, nothing of this project in it."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    for _ in range(rounds):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()


def not_a_model(model: Any, inputs: Any, labels: Any, *, seed: int) -> int:
    return seed


@pytest.mark.slow
def test_targets_and_references_may_come_from_the_users_own_function(tmp_path: Path) -> None:
    trainer = {
        "kind": "user_function",
        "function": "tests.experiment.test_described:nearest_means",
        "arguments": {"rounds": 150},
    }
    by_user = [{"name": "own", "kind": "non_private", "claim": {"epsilon": 0.01}, "trainer": trainer}]
    item = game(canaries="mislabelled", scorers=["lira", "gradient_norm"], access="final_weights", references=8)
    (result,) = read_results(tmp_path, games=[item], mechanisms=by_user, model={"kind": "mlp", "hidden": [32]})
    assert result.games[0].attacks[0].auc > 0.7
    assert [check.status for check in result.checks if check.code == "execution"] == ["gap"]
    evaluation = result.games[0].evaluation
    assert evaluation is not None and evaluation.targets == 9


@pytest.mark.slow
def test_what_a_users_function_may_not_do_is_said(tmp_path: Path) -> None:
    def mechanisms(function: str) -> list[dict[str, object]]:
        return [{"name": "own", "kind": "non_private", "trainer": {"kind": "user_function", "function": function}}]

    item = game(scorers=["loss"], references=0)
    with pytest.raises(ConfigError, match="returned int"):
        read_results(tmp_path, games=[item], mechanisms=mechanisms("tests.experiment.test_described:not_a_model"))
    with pytest.raises(ConfigError, match="cannot load"):
        read_results(tmp_path / "b", games=[item], mechanisms=mechanisms("tests.experiment.test_described:absent"))
    with pytest.raises(ConfigError, match=r"package\.module:callable"):
        read_results(tmp_path / "c", games=[item], mechanisms=mechanisms("nonsense"))
    gradients = game(access="all_steps", canaries="dirac_gradient", scorers=["gradient_product"], references=0)
    with pytest.raises(UnsupportedMechanism, match="records"):
        read_results(tmp_path / "d", games=[gradients], mechanisms=mechanisms("tests.experiment.test_described:nearest_means"))


def test_a_model_s_options_are_named_in_words() -> None:
    spec = {"kind": "language_model", "architecture": "gpt2", "options": {"n_layer": 2, "n_embd": 64}}
    assert model_name(spec, 1234) == "language_model (architecture gpt2, options n_embd 64, n_layer 2), 1,234 parameters"
    assert model_name({"kind": "mlp", "hidden": [64, 32]}, 10) == "mlp (hidden [64, 32]), 10 parameters"
