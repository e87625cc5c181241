"""What users do to the data and the training around canaries: packing, collators, streams, resumption, the best checkpoint."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers", reason="the extra llm is not installed")
pytest.importorskip("accelerate", reason="the extra llm is not installed")

import torch

from audit.api.canary_audit import CanaryAudit
from audit.core.errors import DataError, ExecutionMismatch
from audit.engine.text.secret_scores import secret_log_probabilities
from tests.api.test_canary_audit import TEXTS, encode, model, rows, trainer

BLOCK = 96


def packed(texts: list[str], whole: bool) -> list[dict[str, Any]]:
    """Blocks of tokens of several texts: whole ones side by side, or one stream cut anywhere."""
    if not whole:
        stream = [token for text in texts for token in [*encode(text), 256]]
        return [{"input_ids": stream[at : at + BLOCK]} for at in range(0, len(stream) - BLOCK, BLOCK)]
    blocks: list[list[int]] = [[]]
    for text in texts:
        tokens = [*encode(text), 256]
        if len(blocks[-1]) + len(tokens) > BLOCK:
            blocks.append([])
        blocks[-1] += tokens
    return [{"input_ids": block + [256] * (BLOCK - len(block))} for block in blocks]


def long_model() -> Any:
    module = model()
    config = module.config.__class__(**{**module.config.to_dict(), "n_positions": BLOCK})
    return type(module)(config)


class Collator:
    """Makes labels of the last tokens of a text alone, or cuts rows: what data sets themselves do not show."""

    def __init__(self, cut: int = 10**6, answers_from: int = 0) -> None:
        self._cut, self._answers_from = cut, answers_from

    def __call__(self, batch: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        ids = torch.tensor([row["input_ids"][: self._cut] for row in batch])
        labels = ids.clone()
        labels[:, : self._answers_from] = -100
        return {"input_ids": ids, "labels": labels}


def collated(canaries: CanaryAudit, folder: Path, collator: Any, data: Any, **options: Any) -> Any:
    run = trainer(folder, long_model(), data, canaries.callback(encode), **options)
    run.data_collator = collator
    return run


@pytest.mark.slow
def test_texts_packed_whole_are_scored(tmp_path: Path) -> None:
    canaries = CanaryAudit(count=20, seed=5)
    collated(canaries, tmp_path, Collator(), packed(canaries.plant(TEXTS), whole=True), max_steps=40).train()
    gains = canaries._callback.scores[40] - canaries._callback.before  # type: ignore[union-attr, operator]
    assert gains[canaries._included].mean() > gains[~canaries._included].mean()
    assert canaries.report(claim_epsilon=8, certificates=0).outcome.name != "VIOLATED"


@pytest.mark.slow
def test_packing_that_cuts_secrets_stops_the_training(tmp_path: Path) -> None:
    canaries = CanaryAudit(count=40, seed=5)
    with pytest.raises(ExecutionMismatch, match="nowhere: truncation, packing"):
        collated(canaries, tmp_path, Collator(), packed(canaries.plant(TEXTS), whole=False)).train()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("collator", "message"),
    [(Collator(cut=24), "nowhere: truncation"), (Collator(answers_from=BLOCK), "there without a label")],
)
def test_what_a_collator_takes_is_seen(collator: Collator, message: str, tmp_path: Path) -> None:
    canaries = CanaryAudit(count=20, seed=5)
    data = [{"input_ids": row["input_ids"]} for row in rows(canaries.plant(TEXTS))]
    with pytest.raises(ExecutionMismatch, match=message):
        collated(canaries, tmp_path, collator, data).train()


@pytest.mark.slow
def test_a_collator_that_makes_the_tokens(tmp_path: Path) -> None:
    canaries = CanaryAudit(count=20, seed=5)

    def tokenise(batch: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        prepared = rows([row["text"] for row in batch])
        return {key: torch.tensor([row[key] for row in prepared]) for key in ("input_ids", "labels")}

    data = [{"text": text} for text in canaries.plant(TEXTS)]
    collated(canaries, tmp_path, tokenise, data, remove_unused_columns=False).train()
    assert list(canaries._callback.scores) == [4]  # type: ignore[union-attr]


@pytest.mark.slow
def test_other_tokens_than_those_of_the_data_stop_the_training(tmp_path: Path) -> None:
    canaries = CanaryAudit(count=20, seed=5)
    callback = canaries.callback(lambda text: [byte ^ 1 for byte in text.encode()])
    with pytest.raises(ExecutionMismatch, match="another tokenizer"):
        trainer(tmp_path, model(), rows(canaries.plant(TEXTS)), callback).train()


@pytest.mark.slow
def test_a_stream_without_end_is_looked_at_as_far_as_training_takes_it(tmp_path: Path) -> None:
    canaries = CanaryAudit(count=20, seed=5)
    data = rows(canaries.plant(TEXTS))

    class Stream(torch.utils.data.IterableDataset[Any]):
        def __iter__(self) -> Iterator[Any]:
            yield from data
            while True:
                yield rows(["nothing but filler"])[0]

    trainer(tmp_path, model(), Stream(), canaries.callback(encode)).train()
    assert list(canaries._callback.scores) == [4]  # type: ignore[union-attr]
    with pytest.raises(ExecutionMismatch, match="nowhere"):
        trainer(tmp_path, model(), Stream(), CanaryAudit(count=20, seed=5).callback(encode), max_steps=1).train()


@pytest.mark.slow
def test_a_training_that_is_resumed_counts_from_its_beginning(tmp_path: Path) -> None:
    folder = tmp_path / "canaries"
    canaries = CanaryAudit(count=20, seed=5, folder=folder)
    data = rows(canaries.plant(TEXTS))
    saving = {"save_strategy": "steps", "save_steps": 10}
    trainer(tmp_path, model(), data, canaries.callback(encode), max_steps=10, **saving).train()
    first = canaries._callback
    again = CanaryAudit.of_folder(folder)
    assert again.commitment == canaries.commitment
    run = trainer(tmp_path, model(), data, again.callback(encode), max_steps=20, **saving)
    run.train(resume_from_checkpoint=True)
    second = again._callback
    assert first is not None and second is not None and second.before is not None and sorted(second.scores) == [20]
    np.testing.assert_array_equal(second.before, first.before)
    (folder / "scores-before.json").unlink()
    forgetful = CanaryAudit.of_folder(folder)
    run = trainer(tmp_path, model(), data, forgetful.callback(encode), max_steps=30, **saving)
    run.train(resume_from_checkpoint=True)
    assert any("resumed at step 20" in note for note in forgetful.report(certificates=0).notes)


def test_coins_of_a_folder_are_never_written_over(tmp_path: Path) -> None:
    canaries = CanaryAudit(count=20, folder=tmp_path)
    before = (tmp_path / "canaries.jsonl").read_bytes()
    with pytest.raises(DataError, match="holds canaries already"):
        CanaryAudit(count=20, folder=tmp_path)
    assert (tmp_path / "canaries.jsonl").read_bytes() == before
    assert set(CanaryAudit.of_folder(tmp_path).texts) == set(canaries.texts)
    (tmp_path / "scores-before.json").write_text(json.dumps([1.0]))
    callback = CanaryAudit.of_folder(tmp_path).callback(encode)

    class State:
        global_step = 5

    class Loader:
        dataset = rows(canaries.plant(TEXTS))

    with pytest.raises(DataError, match=r"holds scores \(1,\) of 20 canaries"):
        callback.on_train_begin(None, State(), None, model=model(), train_dataloader=Loader())
    for broken in ("[1.0, 2", '{"a": 1}', '[[1.0], "x"]'):
        (tmp_path / "scores-before.json").write_text(broken)
        with pytest.raises(DataError, match="holds no scores of canaries"):
            callback.on_train_begin(None, State(), None, model=model(), train_dataloader=Loader())


@pytest.mark.slow
def test_a_shorter_training_of_the_same_model_is_scored_by_itself(tmp_path: Path) -> None:
    canaries = CanaryAudit(count=20, seed=5)
    module, data = model(), rows(canaries.plant(TEXTS))
    callback = canaries.callback(encode)
    trainer(tmp_path, module, data, callback).train()
    trainer(tmp_path, module, data, callback, max_steps=2).train()
    assert list(callback.scores) == [2]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"gradient_accumulation_steps": 3},
        {"train_sampling_strategy": "group_by_length"},
        {"eval_strategy": "steps", "eval_steps": 2, "save_strategy": "steps", "save_steps": 2, "load_best_model_at_end": True},
    ],
    ids=["accumulation", "by length", "best checkpoint"],
)
def test_the_model_that_the_user_is_left_with_is_scored_last(options: dict[str, Any], tmp_path: Path) -> None:
    canaries = CanaryAudit(count=20, seed=5)
    module = model()
    data = rows(canaries.plant(TEXTS))
    trainer(tmp_path, module, data, canaries.callback(encode), rows(TEXTS[:5]), **options).train()
    callback = canaries._callback
    assert callback is not None and max(callback.scores) == 4
    after = secret_log_probabilities(module, encode, callback._texts)
    np.testing.assert_allclose(callback.scores[4], after)


@pytest.mark.slow
def test_what_training_did_not_reach_is_said(tmp_path: Path) -> None:
    canaries = CanaryAudit(count=20, seed=5)
    data = rows(canaries.plant(TEXTS * 2))
    trainer(tmp_path, model(), data, canaries.callback(encode), max_steps=2).train()
    notes = canaries.report(certificates=0).notes
    assert any("of an epoch" in note for note in notes) and any("in no batch" in note for note in notes)


def test_sharding_by_a_launcher_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    canaries = CanaryAudit(count=20, seed=5)

    class Loader:
        dataset = rows(canaries.plant(TEXTS))

    callback = canaries.callback(encode)
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    callback.on_train_begin(None, None, None, model=model(), train_dataloader=Loader())
    assert callback.deferred and callback.before is None
