"""Audits of Hugging Face's Trainer: three statements, a fatal check before training, an invalid audit after an inert one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers", reason="the extra llm is not installed")
pytest.importorskip("accelerate", reason="the extra llm is not installed")

import transformers

from audit.api.canary_audit import CanaryAudit
from audit.core.data import Vocabulary
from audit.core.errors import DataError, ExecutionMismatch, ObservationError
from audit.core.seeds import Seed
from audit.models.language import Adapter, LanguageModel
from tests.engine.texts import GPT2

TEXTS = [f"letter {number} went to street {number * 7 % 90}" for number in range(30)]
LENGTH = 48


def encode(text: str) -> list[int]:
    return list(text.encode())


def rows(texts: list[str], cut: int = LENGTH) -> list[dict[str, Any]]:
    prepared = []
    for text in texts:
        tokens = encode(text)[:cut]
        pad = cut - len(tokens)
        prepared.append({"input_ids": tokens + [256] * pad, "labels": tokens + [-100] * pad})
    return prepared


def model(adapter: Adapter | None = None) -> Any:
    module = LanguageModel.of(GPT2).build(Vocabulary(size=257), LENGTH, Seed(1))
    return module if adapter is None else adapter.attach(module, Seed(2))


def trainer(folder: Path, module: Any, data: Any, callback: Any, evaluated: Any = None, **options: Any) -> Any:
    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        **{
            "max_steps": 4,
            "per_device_train_batch_size": 16,
            "learning_rate": 0.02,
            "use_cpu": True,
            "report_to": [],
            "save_strategy": "no",
            "disable_tqdm": True,
            "lr_scheduler_type": "constant",
            **options,
        },
    )
    return transformers.Trainer(model=module, args=arguments, train_dataset=data, eval_dataset=evaluated, callbacks=[callback])


def test_three_statements_prove_an_epsilon(tmp_path: Path) -> None:
    canaries = CanaryAudit(count=40, digits=6, seed=5, folder=tmp_path / "canaries")
    data = rows(canaries.plant(TEXTS))
    run = trainer(tmp_path, model(), data, canaries.callback(encode), max_steps=150, save_strategy="steps", save_steps=75)
    run.train()
    report = canaries.report(claim_epsilon=0.1, certificates=0)
    bounds = [
        bound for result in report.mechanisms for game in result.games for attack in game.attacks for bound in attack.bounds
    ]
    assert max(bound.epsilon for bound in bounds) > 0.5
    assert report.outcome.name == "VIOLATED"
    assert sorted(canaries._callback.scores) == [75, 150]  # type: ignore[union-attr]
    assert len(canaries.commitment) == 64 and (tmp_path / "canaries" / "canaries.jsonl").exists()


@pytest.mark.slow
@pytest.mark.parametrize("broken", ["cut", "unlabelled", "stray", "missing", "twice"])
def test_canaries_that_are_not_there_as_planned_stop_the_training(broken: str, tmp_path: Path) -> None:
    canaries = CanaryAudit(count=20, seed=5)
    data = rows(canaries.plant(TEXTS))
    messages = {
        "cut": "nowhere: truncation",
        "unlabelled": "without a label",
        "stray": "coins left out are there",
        "missing": "1 of the included ones are nowhere",
        "twice": "more than once",
    }
    if broken == "cut":
        data = rows(canaries.plant(TEXTS), cut=30)
    elif broken == "unlabelled":
        data[-1]["labels"] = [-100] * LENGTH
    elif broken == "stray":
        left_out = next(canary for canary in canaries._canaries if not canary.included)
        data += rows([left_out.text])
    elif broken == "missing":
        data = data[:-1]
    else:
        data.append(data[-1])
    with pytest.raises(ExecutionMismatch, match=messages[broken]):
        trainer(tmp_path, model(), data, canaries.callback(encode)).train()
    with pytest.raises(ObservationError, match="no trained model was scored"):
        canaries.report()


@pytest.mark.slow
def test_an_inert_training_is_invalid(tmp_path: Path) -> None:
    canaries = CanaryAudit(count=20, seed=5)
    data = rows(canaries.plant(TEXTS))
    adapted = model(Adapter(rank=2, layers=("c_attn",)))
    with pytest.raises(ExecutionMismatch, match="moved no parameter"):
        trainer(tmp_path, adapted, data, canaries.callback(encode), learning_rate=0.0).train()
    frozen = model()
    for parameter in frozen.parameters():
        parameter.requires_grad = False
    with pytest.raises(ExecutionMismatch, match="no trainable parameter"):
        canaries.callback(encode).on_train_begin(None, None, None, model=frozen)


def test_a_sharded_model_is_scored_elsewhere(caplog: pytest.LogCaptureFixture) -> None:
    class Arguments:
        deepspeed = "zero3.json"

    class Loader:
        dataset: Any = None

    canaries = CanaryAudit(count=20, seed=5)
    Loader.dataset = rows(canaries.plant(TEXTS))
    callback = canaries.callback(encode)
    callback.on_train_begin(Arguments(), None, None, model=model(), train_dataloader=Loader())
    assert "audit endpoint URL --model NAME --canaries canaries.jsonl" in caplog.text
    callback.on_train_end(Arguments(), None, None, model=model())
    with pytest.raises(ObservationError, match="sharded"):
        canaries.report()


def test_coins_come_from_the_system_unless_a_seed_is_named() -> None:
    assert CanaryAudit(count=50).commitment != CanaryAudit(count=50).commitment
    assert CanaryAudit(count=50, seed=1).texts == CanaryAudit(count=50, seed=1).texts


def test_a_commitment_of_few_canaries_is_not_found_by_trying(tmp_path: Path) -> None:
    """Whoever knows all texts and tries all coins lacks the salt, which the folder keeps."""
    canaries = CanaryAudit(count=4, seed=1, folder=tmp_path)
    assert canaries.commitment != CanaryAudit(count=4, seed=1).commitment
    assert len(canaries.salt) == 32 and CanaryAudit.of_folder(tmp_path).commitment == canaries.commitment
    (tmp_path / "salt").unlink()
    with pytest.raises(DataError, match="salt"):
        CanaryAudit.of_folder(tmp_path)


def test_records_of_every_kind() -> None:
    canaries = CanaryAudit(count=20, seed=5)
    assert len(canaries.plant(TEXTS)) == 30 + len(canaries.texts)
    assert canaries.plant([{"body": "x"}], "body")[-1]["body"] in canaries.texts
    with pytest.raises(DataError, match="no 'text'"):
        canaries.plant([{"body": "x"}])
    with pytest.raises(DataError, match="records are int"):
        canaries.plant(3)
    assert set(canaries.texts) == {canary.text for canary in canaries._canaries if canary.included}
    assert np.mean(canaries._included) > 0.2
