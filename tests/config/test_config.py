"""A config is read strictly, and every mistake is answered with file, line, key and what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from audit.config import load, parse
from audit.config.read import shipped_configs
from audit.core.errors import ConfigError
from tests.tiny import CONFIG


def test_reads_numbers_as_people_write_them() -> None:
    config = parse(CONFIG).config
    assert config.delta == 1e-5
    assert isinstance(config.delta, float)
    assert config.games[0].canaries == {"kind": "mislabelled"}


def test_on_and_off_are_words_and_true_and_false_are_not() -> None:
    resolved = parse(CONFIG, ["mechanisms.0.trainer={kind: dpsgd, compile: on, flip: true}"])
    assert resolved.config.mechanisms[0].trainer == {"kind": "dpsgd", "compile": "on", "flip": True}
    assert parse(resolved.text).config == resolved.config


def test_the_resolved_text_is_a_config_again() -> None:
    resolved = parse(CONFIG, ["delta=1e-6"])
    again = parse(resolved.text)
    assert again.config == resolved.config
    assert again.sha256 == resolved.sha256


def test_the_order_of_several_inputs_says_how_records_are_cut_and_is_kept() -> None:
    orders = ["{mask: [5], ids: [5]}", "{ids: [5], mask: [5]}"]
    first, second = (parse(CONFIG, ["model={factory: 'own:Model', inputs: " + order + "}"]) for order in orders)
    assert first.sha256 != second.sha256 and first.text != second.text
    for resolved, names in ((first, ["mask", "ids"]), (second, ["ids", "mask"])):
        assert list(parse(resolved.text).config.model["inputs"]) == names
        assert parse(resolved.text).sha256 == resolved.sha256


def test_origins_name_file_environment_override_and_default() -> None:
    resolved = parse(CONFIG, ["games.inside.count=30"], {"AUDIT_SET_DATA__TRAIN": "100"}, location="mine.yaml")
    origins = dict(resolved.origins)
    assert origins["games.1.count"] == "--set"
    assert origins["data.train"] == "environment AUDIT_SET_DATA__TRAIN"
    assert origins["seed"] == "mine.yaml"
    assert origins["confidence"] == "default"
    assert resolved.config.games[1].count == 30
    assert resolved.config.data["train"] == 100


def test_a_whole_entry_named_as_a_string_can_be_gone_into() -> None:
    resolved = parse(CONFIG, ["games.outside.canaries.kind=held_out", "games.outside.scorers.lira.online=false"])
    assert resolved.config.games[0].canaries == {"kind": "held_out"}


@pytest.mark.sampled(7)
@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ("delta=0", ["delta", "greater than 0"]),
        ("delta=1.5", ["delta", "less than 1"]),
        ("delta=one", ["delta", "number"]),
        ("delta=.nan", ["delta"]),
        ("confidence=1", ["confidence", "less than 1"]),
        ("version=7", ["version 7 is newer", "install a newer"]),
        ("version=0", ["version is 0"]),
        ("gamess=1", ["--set: unknown key 'gamess'", "Did you mean 'games'?"]),
        ("gamess.0.count=1", ["--set: unknown key 'gamess'"]),
        ("data.trian=3", ["--set: unknown key 'data.trian'", "Did you mean 'train'?"]),
        ("model.hiden=[3]", ["--set: unknown key 'model.hiden'", "Did you mean 'hidden'?"]),
        ("games.0.canaries.kinds=a", ["--set: unknown key 'games.0.canaries.kinds'"]),
        ("accountants.0.order=1", ["--set: unknown key 'accountants.0.order'", "Did you mean 'orders'?"]),
        ("mechanisms.dp.clip_norm=0", ["clip_norm", "greater than 0"]),
        ("mechanisms.dp.noise_multiplier=-1", ["noise_multiplier", "greater than or equal to 0"]),
        ("mechanisms.dp.noise_multipler=1", ["Did you mean 'noise_multiplier'?"]),
        ("mechanisms.dp.target_epsilon=8", ["exactly one of noise_multiplier and target_epsilon"]),
        ("mechanisms.plain.target_epsilon=8", ["--set: unknown key 'mechanisms.0.target_epsilon'"]),
        ("games.outside.mechanisms=[nobody]", ["mechanisms that do not exist", "nobody"]),
        ("games.outside.access=all_stepps", ["all_steps"]),
        ("games.outside.count=0", ["count", "greater than or equal to 1"]),
        ("games.nowhere.count=3", ["no entry 'nowhere'", "outside"]),
        ("training.steps=1.5", ["training.steps", "integer"]),
        ("seed=-1", ["seed"]),
        ("seed", ["KEY=VALUE"]),
    ],
)
def test_mistakes_are_named(change: str, parts: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(CONFIG, [change])
    for part in parts:
        assert part in str(caught.value)


def test_errors_carry_the_line() -> None:
    text = CONFIG.replace("batch_size: 50", "batch_sise: 50")
    line = next(number for number, row in enumerate(text.splitlines(), start=1) if "batch_sise" in row)
    with pytest.raises(ConfigError, match=f"mine.yaml:{line}: unknown key 'training.batch_sise'. Did you mean 'batch_size'"):
        parse(text, location="mine.yaml")


@pytest.mark.parametrize("text", ["", "- 1", "a: [", "seed: 1\nseed: 2", "!!python/object/apply:os.system ['true']"])
def test_what_is_not_a_config_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse(text)


def test_missing_files_and_names(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        load(str(tmp_path / "none.yaml"))
    with pytest.raises(ConfigError, match="Did you mean 'quickstart'"):
        load("quickstrat")
    (tmp_path / "latin.yaml").write_bytes(b"title: \xff\xfe")
    with pytest.raises(ConfigError, match="cannot read"):
        load(str(tmp_path / "latin.yaml"))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", shipped_configs())
def test_every_shipped_config_is_valid(name: str) -> None:
    assert load(name, environment={}).config.name


INSIDE = {"gaussian": "gdp", "fdp_rank": "dp_sgd", "one_run_fdp": "dp_sgd", "product_channel": "dp_sgd"}
ASSERTED = {"pld": "dp_sgd", "reference": "dp_sgd", "gaussian_clt": "gdp", "opacus_gdp": "gdp"}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", shipped_configs())
def test_no_shipped_config_pays_for_an_estimator_that_can_decide_nothing(name: str) -> None:
    config = load(name, environment={}).config
    asserted = {ASSERTED.get(accountant["kind"]) for accountant in config.accountants}
    asserted |= {mechanism.claim.family for mechanism in config.mechanisms if mechanism.claim is not None}
    if "dp_sgd" in asserted and config.training.sample_rate == 1.0:
        asserted.add("gdp")  # DP-SGD on all records in each step is one Gaussian release
    for game in config.games:
        for estimator in game.estimators:
            family = estimator.get("family", INSIDE.get(estimator["kind"]))
            assert family in (None, "any", *asserted), f"{game.name}: no claim of {name} asserts '{family}'"


def test_a_declared_claim_may_assert_a_family() -> None:
    claim = "mechanisms.1.claim={epsilon: 2, family: %s}"
    for family in ("gdp", "dp_sgd"):
        config = parse(CONFIG, [claim % family]).config
        assert config.mechanisms[1].claim is not None and config.mechanisms[1].claim.family == family
    with pytest.raises(ConfigError, match="family"):
        parse(CONFIG, [claim % "laplace"])


def test_options_of_the_optimiser_stand_beside_it_or_in_it() -> None:
    beside = parse(CONFIG, ["training.momentum=0.5"]).config
    within = parse(
        CONFIG, ["training.optimizer={kind: sgd, learning_rate: 0.5, momentum: 0.5}", "training.learning_rate=null"]
    ).config
    assert [config.find_training(config.mechanisms[0]).optimizer for config in (beside, within)] == [
        {"kind": "sgd", "learning_rate": 0.5, "momentum": 0.5}
    ] * 2


def test_a_mechanism_changes_the_options_of_the_common_optimiser_or_brings_its_own() -> None:
    overrides = ["training.momentum=0.5", "training.weight_decay=0.1"]
    change = parse(CONFIG, [*overrides, "mechanisms.dp.training={momentum: 0.0, steps: 3}"]).config
    training = change.find_training(change.mechanisms[1])
    assert training.optimizer == {"kind": "sgd", "learning_rate": 0.5, "momentum": 0.0, "weight_decay": 0.1}
    assert (training.steps, training.batch_size) == (3, 50)
    resolved = parse(CONFIG, [*overrides, "mechanisms.dp.training={optimizer: {kind: adam, beta1: 0.8}}"]).config
    assert resolved.find_training(resolved.mechanisms[1]).optimizer == {
        "kind": "adam",
        "beta1": 0.8,
        "learning_rate": 0.5,
        "weight_decay": 0.1,
    }  # Adam takes no momentum


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.beta1=0.8", "unknown key 'training.beta1'"),
        ("training.optimizer.beta1=0.8", "--set: unknown key 'training.optimizer.beta1'"),
        ("training={optimizer: adam, steps: 3, batch_size: 50}", "training of 'plain': .*adam needs the key 'learning_rate'"),
        ("training={optimizer: adm, steps: 3, batch_size: 50}", "Did you mean 'adam'"),
        ("training.learning_rate=fast", "learning_rate is 'fast'; expected a number"),
        ("training.warmup=1.5", "warmup is 1.5; expected a whole number"),
        ("training.learning_rate=true", "learning_rate is True; expected a number"),
        ("mechanisms.dp.training={momentun: 0.5}", "training of 'dp': unknown key 'momentun'. Did you mean 'momentum'"),
        ("mechanisms.dp.training={optimizer: adam, momentum: 0.5}", "unknown key 'mechanisms.1.training.momentum'"),
        ("mechanisms.dp.training={learning_rate: -1}", "training of 'dp': .*expected a finite number above 0"),
    ],
)
def test_an_option_that_does_not_fit_is_refused(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(CONFIG, [override])
