"""An audit of a language model from its config to its report: every scorer of texts, adapters, references."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import audit
from audit.config import load
from audit.core.errors import ConfigError
from audit.experiment.line.assemble import assemble
from audit.experiment.plan.plan import make_plan
from audit.trainers.language_model import LanguageModelTrainer
from reports.formats import html

pytest.importorskip("transformers", reason="the extra llm is not installed")
pytest.importorskip("peft", reason="the extra llm is not installed")

SCORERS = [
    "reference_difference",
    "loss",
    "zlib_ratio",
    "min_k",
    "min_k_plus_plus",
    "extraction",
    {"kind": "extraction", "beams": 3},
    "discoverable_extraction",
    {"kind": "exposure", "candidates": 8},
    {"kind": "exposure", "candidates": 20, "extrapolated": True},
]


def config_file(folder: Path, **game: Any) -> Path:
    config = {
        "version": 1,
        "name": "texts",
        "certificates": 0,
        "data": {"kind": "sentences", "count": 140, "length": 16, "unused_tokens": 30, "train": 40, "pool": 60, "test": 20},
        "model": {"kind": "language_model", "architecture": "gpt2", "options": {"n_layer": 1, "n_embd": 16, "n_head": 2}},
        "training": {"optimizer": "adamw", "learning_rate": 0.02, "batch_size": 20, "steps": 12},
        "mechanisms": [
            {"name": "plain", "kind": "non_private", "trainer": "language_model"},
            {
                "name": "adapter",
                "kind": "dp_sgd",
                "target_epsilon": 8,
                "trainer": {"kind": "language_model", "adapter": {"rank": 2, "layers": ["c_attn"]}},
            },
        ],
        "games": [
            {
                "name": "texts",
                "access": "token_distributions",
                "canaries": "new_token",
                "count": 30,
                "scorers": SCORERS,
                "estimators": ["one_run"],
                **game,
            }
        ],
        "accountants": ["rdp"],
        "output": {"formats": ["json"]},
    }
    path = folder / "texts.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.mark.slow
def test_every_scorer_of_texts_reaches_the_report(tmp_path: Path) -> None:
    report = audit.run(config_file(tmp_path), output=tmp_path / "run")
    plain, adapter = report.mechanisms
    accesses = {attack.scorer: attack.access.name for attack in plain.games[0].attacks}
    assert len(accesses) == len(SCORERS)
    assert accesses["extraction"] == "generations" and accesses["min_k_plus_plus"] == "token_distributions"
    assert accesses["loss"] == accesses["exposure"] == "log_probabilities"
    assert [metric.name for metric in plain.utility] == ["perplexity"] and plain.utility[0].value > 1
    statuses = {check.code: check.status.value for check in adapter.checks}
    assert statuses["steps"] == statuses["noise"] == statuses["clipping"] == "checked"
    assert "failed" not in statuses.values()
    assert "mask that real records do not have" in plain.games[0].game.canary
    secrets = {attack.secrets.quantity: attack.secrets for attack in plain.games[0].attacks if attack.secrets is not None}
    assert set(secrets) == {
        "share of a secret written greedily",
        "share of a secret in the best of 3 continuations",
        "chance that 1000 samples hold a whole secret",
        "bits of exposure among 8 candidates",
        "bits of exposure, extrapolated",
    }
    ranks = secrets["bits of exposure among 8 candidates"]
    assert ranks.members + ranks.nonmembers == 30 and ranks.texts == 1 and ranks.by_chance == pytest.approx(1.0875, abs=1e-3)
    assert [count.level for count in ranks.levels] == [1.5, 3.0] and 0 <= ranks.mean_nonmembers <= 3
    page = html.document(report)
    for quantity in secrets:
        assert quantity in page


@pytest.mark.slow
def test_references_serve_the_scorers_of_losses(tmp_path: Path) -> None:
    path = config_file(
        tmp_path, references=4, scorers=["lira", "rmia", "offset", "attack_r"], canaries="held_out", access="log_probabilities"
    )
    report = audit.run(path, output=tmp_path / "run")
    assert [attack.scorer for attack in report.mechanisms[0].games[0].attacks] == ["lira", "rmia", "offset", "attack_r"]


@pytest.mark.slow
def test_a_dry_run_makes_no_large_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = assemble(load(str(config_file(tmp_path)), ()).config, seed=0)
    monkeypatch.setattr(LanguageModelTrainer, "untrained", None)
    size = experiment.audit_inputs.parameters
    plan = make_plan(experiment, most_parameters=size - 1)
    assert plan.left_out == (f"no game was played on untrained models, which have {size:,} parameters; audit plan does it",)
    assert plan.peak_disk_bytes
    with pytest.raises(TypeError):  # a small one is made
        make_plan(experiment, most_parameters=size)


def test_what_texts_do_not_show_is_refused_before_training(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="label_only"):
        audit.run(config_file(tmp_path, access="log_probabilities", scorers=["label_only"]), output=tmp_path / "run")
    with pytest.raises(ConfigError, match="need class labels"):
        audit.run(config_file(tmp_path, canaries="mislabelled"), output=tmp_path / "other")


@pytest.mark.slow
def test_exposure_of_secrets_proves_an_epsilon(tmp_path: Path) -> None:
    path = config_file(
        tmp_path,
        access="log_probabilities",
        adjacency="replace_one",
        canaries={"kind": "redrawn_secret", "candidates": 16, "length": 1},
        scorers=["reference_difference"],
        estimators=["one_run_secrets", {"kind": "one_run_secrets", "named": 4}],
        mechanisms=["plain"],
    )
    config = yaml.safe_load(path.read_text())
    config["mechanisms"] = config["mechanisms"][:1]
    config["training"]["steps"] = 60
    report = audit.run(config)
    ((game,),) = (mechanism.games for mechanism in report.mechanisms)
    guesses = game.attacks[0].guesses
    assert guesses is not None and guesses.exposure is not None and guesses.null_exposure == pytest.approx(1.2350, abs=1e-3)
    assert guesses.exposure > 2 and guesses.right > 10
    single, several = (bound for bound in game.bounds)
    assert 0.5 < single.epsilon < single.ceiling and 0 < several.epsilon <= several.ceiling < single.ceiling
    status = {row.attack_class: row.status for row in report.coverage}
    assert status["Extraction of secrets from texts"] == "run" and status["Attribute inference"] == "not run"


def real_config(folder: Path, data: dict[str, Any], game: dict[str, Any]) -> Path:
    path = config_file(folder, **game)
    config = yaml.safe_load(path.read_text())
    config["data"] = {"kind": "text", "length": 24, "train": 60, "pool": 60, "test": 40, **data}
    config["training"] = {"optimizer": "adamw", "learning_rate": 0.02, "sample_rate": 0.25, "steps": 12}
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.mark.slow
def test_a_classifier_of_news_is_audited_like_any_other(tmp_path: Path, data_root: Path) -> None:
    data = {"path": str(data_root / "ag_news" / "test.csv.gz"), "column": 2, "label": 0}
    game = {"canaries": "held_out", "access": "final_model", "scorers": ["loss", "lira", "label_only"], "references": 4}
    report = audit.run(real_config(tmp_path, data, game), output=tmp_path / "run")
    for mechanism in report.mechanisms:
        assert {metric.name for metric in mechanism.utility} >= {"accuracy"}
        assert [attack.scorer for attack in mechanism.games[0].attacks] == ["loss", "lira", "label_only"]


@pytest.mark.slow
def test_speakers_of_a_play_are_units_of_privacy(tmp_path: Path, data_root: Path) -> None:
    game_design = gzip.decompress((data_root / "tiny_shakespeare" / "input.txt.gz").read_bytes()).decode()
    speeches = [speech.split(":\n", 1) for speech in game_design.split("\n\n") if ":\n" in speech]
    path = tmp_path / "speeches.jsonl"
    path.write_text("\n".join(json.dumps({"speaker": speaker, "text": text}) for speaker, text in speeches))
    data = {"path": str(path), "user": "speaker", "texts_per_user": 3, "unused_tokens": 30}
    game = {"access": "log_probabilities", "scorers": ["reference_difference", "loss", "zlib_ratio", "min_k"]}
    report = audit.run(real_config(tmp_path, data, game), output=tmp_path / "run")
    plain, private = report.mechanisms
    assert {claim.unit for claim in private.claims} == {"user"}
    assert {check.code: check.status.value for check in private.checks}["clipping"] == "checked"
    assert len(plain.games[0].attacks) == 4
