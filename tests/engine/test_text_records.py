"""Records of texts that are no single text to predict: all texts of a user, and texts with classes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import torch

from attacks.canaries._formatted import FormattedSecret
from attacks.canaries._planted_texts import NewToken
from attacks.canaries._pool_records import HeldOut
from audit.core.canaries import Canaries, CanaryTexts
from audit.core.data import Dataset
from audit.core.errors import ConfigError, DataError, UnsupportedMechanism
from audit.core.events import Event, dp_sgd
from audit.core.seeds import Seed
from audit.data.load import load
from audit.engine.text.text_model import TextModel
from audit.models.language import Adapter, LanguageModel
from audit.trainers.language_model import LanguageModelTrainer
from tests.engine.texts import GPT2, LLAMA, PLAIN, PRIVATE, text_job

pytest.importorskip("transformers", reason="the extra llm is not installed")
pytest.importorskip("peft", reason="the extra llm is not installed")

BERT: dict[str, Any] = {
    "kind": "language_model",
    "architecture": "bert",
    "options": {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2},
}


def silent(steps: int) -> None:
    pass


def file_of(folder: Path, rows: list[dict[str, Any]]) -> Path:
    path = folder / "texts.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def users(folder: Path) -> Dataset:
    """Forty users with one to four texts, of which three are kept."""
    rows = [{"text": f"text {text} of {user}", "user": user} for text in range(4) for user in range(40) if user % 4 >= text]
    spec = {"path": str(file_of(folder, rows)), "user": "user", "texts_per_user": 3, "length": 12, "unused_tokens": 20}
    return load({"kind": "text", "train": 20, "pool": 15, "test": 5, **spec}, Seed(1))


def classes(folder: Path) -> Dataset:
    rows = [{"text": f"{'good' if number % 2 else 'bad'} film {number}", "label": number % 2} for number in range(60)]
    spec = {"path": str(file_of(folder, rows)), "label": "label", "length": 14}
    return load({"kind": "text", "train": 30, "pool": 20, "test": 10, **spec}, Seed(1))


def test_a_record_is_the_first_texts_of_a_user(tmp_path: Path) -> None:
    dataset = users(tmp_path)
    assert dataset.unit == "user" and dataset.train.inputs.shape == (20, 36) and dataset.train.are_texts
    texts = dataset.train.inputs.reshape(20, 3, 12).astype(int)
    for record in texts:
        words = [bytes(text[(text >= 0) & (text < 256)].tolist()).decode() for text in record]
        assert len({text.split()[-1] for text in words if text}) == 1, "one user a record"
        assert [text.split()[1] for text in words if text] == ["0", "1", "2"][: len([text for text in words if text])]
    assert (dataset.train.labels.reshape(20, 3, 12)[:, :, 0] == -1).all(), "the first token of each text is not predicted"


@pytest.mark.parametrize("spec", [GPT2, LLAMA], ids=["gpt2", "llama"])
@pytest.mark.parametrize("adapter", [None, Adapter(rank=2, layers=("c_attn", "q_proj"))], ids=["full", "adapter"])
def test_the_gradient_of_a_user_is_that_of_the_mean_over_all_texts(
    spec: dict[str, Any], adapter: Adapter | None, tmp_path: Path
) -> None:
    dataset = users(tmp_path)
    assert dataset.vocabulary is not None
    module = LanguageModel.of(spec).build(dataset.vocabulary, 12, Seed(5))
    if adapter is not None:
        module = Adapter(rank=2, layers=("c_attn",) if spec is GPT2 else ("q_proj",)).attach(module, Seed(6))
    model = TextModel(module, torch.device("cpu"), text_length=12)
    tokens, labels = (torch.from_numpy(values[:4].astype(np.int64)) for values in (dataset.train.inputs, dataset.train.labels))
    assert model.test_gradients(tokens, labels) < 1e-5
    texts, targets = tokens.view(-1, 12), labels.view(-1, 12)
    sums = -(model.token_log_probabilities(texts) * (targets >= 0)).sum(1).view(4, 3).sum(1)
    torch.testing.assert_close(model.record_losses(tokens, labels), sums / (labels >= 0).sum(1))


@pytest.mark.parametrize("mechanism", [PRIVATE, PLAIN], ids=["dp", "plain"])
def test_users_are_trained_on_as_records(mechanism: Event, tmp_path: Path) -> None:
    dataset = users(tmp_path)
    canaries = NewToken().make(dataset, 10, 1000, Seed(2))
    records = canaries.records
    assert records is not None and isinstance(canaries.payload, CanaryTexts) and canaries.payload.secret_tokens is None
    planted = (records.labels.reshape(10, 3, 12) >= 0).sum(-1)
    present = (records.inputs.reshape(10, 3, 12) >= 0).any(-1)
    np.testing.assert_array_equal(planted, present, err_msg="each text of a user ends in its secret")
    secrets = [set(row[row >= 0].tolist()) for row in records.labels]
    assert all(len(secret) == 1 for secret in secrets) and len(set.union(*secrets)) == 10
    included = np.arange(20).reshape(2, 10) % 3 > 0
    subject: Any = LanguageModelTrainer().fit(
        text_job(mechanism, dataset=dataset, canaries=canaries, included=included), silent
    )
    assert subject.outputs(records.inputs).shape == (2, 10, 36)
    np.testing.assert_array_equal(subject.executed.population, 20 + included.sum(1))
    assert (subject.executed.largest_norm <= 1 + 1e-5).all()
    with pytest.raises(UnsupportedMechanism, match="all texts of a user"):
        subject.continuations(records.inputs, np.full(10, 3))
    with pytest.raises(ConfigError, match="all texts of a user"):
        FormattedSecret().make(dataset, 4, 1000, Seed(2))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("spec", "adapter"),
    [(GPT2, None), (BERT, None), (LLAMA, {"rank": 2, "layers": ["q_proj", "v_proj"]})],
    ids=["gpt2", "bert", "llama-adapter"],
)
def test_classifiers_of_texts_have_exact_gradients_and_answer_as_other_classifiers(
    spec: dict[str, Any], adapter: dict[str, Any] | None, tmp_path: Path
) -> None:
    dataset = classes(tmp_path)
    assert dataset.classes == 2 and not dataset.train.are_texts
    canaries: Canaries = HeldOut().make(dataset, 10, 1000, Seed(2))
    private = dp_sgd(noise_multiplier=1.0, clip_norm=0.5, sample_rate=0.25, steps=4)
    job = text_job(private, dataset=dataset, canaries=canaries, included=np.arange(20).reshape(2, 10) % 3 > 0, model=spec)
    subject: Any = LanguageModelTrainer(adapter=adapter).fit(job, silent)
    assert 0 <= subject.executed.recomputed.max() < 1e-4, "the self-test before training held"
    logits = subject.outputs(dataset.test.inputs)
    assert logits.shape == (2, 10, 2) and subject.classes == 2
    ends = (dataset.test.inputs >= 0).sum(1)
    assert ends.max() < 14
    short = subject.outputs(dataset.test.inputs[:, : ends.max()])
    np.testing.assert_allclose(short, logits, rtol=1e-5, atol=1e-6, err_msg="padding changes no answer")
    assert subject.gradient_norms(dataset.test).shape == (2, 10)
    with pytest.raises(ConfigError, match="have classes"):
        NewToken().make(dataset, 4, 1000, Seed(2))


def test_columns_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    rows = [{"text": "some words", "user": "u", "label": 1.5}]
    path = str(file_of(tmp_path, rows))
    with pytest.raises(ConfigError, match="leave one out"):
        load({"kind": "text", "path": path, "user": "user", "label": "label", "train": 1}, Seed(1))
    with pytest.raises(ConfigError, match="one long text"):
        load({"kind": "text", "path": path, "user": "user", "cut": "windows", "train": 1}, Seed(1))
    with pytest.raises(DataError, match="no text under 'label'"):
        load({"kind": "text", "path": path, "label": "label", "train": 1}, Seed(1))
    plain = tmp_path / "plain.txt"
    plain.write_text("one\ntwo\n")
    with pytest.raises(ConfigError, match="plain text, which has no column"):
        load({"kind": "text", "path": str(plain), "user": "user", "train": 1}, Seed(1))
    path = tmp_path / "numbers.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"text": [1, 2], "user": [1, 2]}), path)
    with pytest.raises(DataError, match="holds int in 'text'"):
        load({"kind": "text", "path": str(path), "user": "user", "train": 1}, Seed(1))
