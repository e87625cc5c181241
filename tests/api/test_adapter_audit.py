"""Audits of folders that other trainers wrote: an adapter or whole weights beside the model before training."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers", reason="the extra llm is not installed")
pytest.importorskip("peft", reason="the extra llm is not installed")

from audit.api.adapter_audit import adapter_report
from audit.api.canary_audit import CanaryAudit
from audit.cli.app import answer
from audit.core.data import Vocabulary
from audit.core.errors import DataError, ExecutionMismatch
from audit.core.seeds import Seed
from audit.models.language import Adapter, LanguageModel

LENGTH = 48
LLAMA = {
    "architecture": "llama",
    "options": {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 2},
}


def base(folder: Path) -> Any:
    module: Any = LanguageModel(**LLAMA).build(Vocabulary(size=257), LENGTH, Seed(1))
    module.save_pretrained(folder)
    return module


def fitted(module: Any, texts: list[str]) -> Any:
    """Another trainer's loop: the secrets of the texts by heart."""
    rows = [list(text.encode())[:LENGTH] for text in texts]
    width = max(map(len, rows))
    tokens = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    labels = torch.tensor([[-100] * (len(row) - 8) + row[-8:] + [-100] * (width - len(row)) for row in rows])
    optimizer = torch.optim.AdamW([value for value in module.parameters() if value.requires_grad], lr=0.02)
    for _ in range(40):
        optimizer.zero_grad()
        module(input_ids=tokens, labels=labels).loss.backward()
        optimizer.step()
    return module


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A base, canaries, an adapter that was trained on them and one that was not trained at all."""
    place = tmp_path_factory.mktemp("folders")
    base(place / "base")
    canaries = CanaryAudit(count=40, seed=1, folder=place)
    module = LanguageModel(folder=str(place / "base")).build(Vocabulary(size=257), LENGTH)
    adapter: Any = Adapter(rank=16, layers=("q_proj", "v_proj", "down_proj", "up_proj")).attach(module, Seed(2))
    adapter.save_pretrained(place / "inert")
    fitted(adapter, canaries.texts).save_pretrained(place / "adapter")
    yield place


def test_an_adapter_s_folder_is_scored_beside_its_base(folders: Path) -> None:
    options = {"base": folders / "base", "canaries": folders / "canaries.jsonl", "tokenizer": "bytes"}
    report = adapter_report(folders / "adapter", **options)
    assert report.mechanisms[0].games[0].attacks[0].auc > 0.6
    with pytest.raises(ExecutionMismatch, match="changes no log-probability"):
        adapter_report(folders / "inert", **options)
    with pytest.raises(ExecutionMismatch, match="changes no log-probability"):
        adapter_report(folders / "base", **options)


def test_the_command_reads_the_same_folder(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--base", str(folders / "base"), "--canaries", str(folders / "canaries.jsonl")]
    command = ["adapter", str(folders / "adapter"), *files]
    assert answer([*command, "--tokenizer", "bytes", "--json"]) in (0, 3)
    assert json.loads(capsys.readouterr().out)
    assert answer(command) == 2
    assert "holds a tokenizer.json" in capsys.readouterr().err


def test_what_is_no_adapter_of_this_base_is_named(folders: Path, tmp_path: Path) -> None:
    options = {"base": folders / "base", "canaries": folders / "canaries.jsonl", "tokenizer": "bytes"}
    with pytest.raises(DataError, match=r"no config\.json"):
        adapter_report(tmp_path, **options)
    (tmp_path / "adapter_config.json").write_text((folders / "adapter" / "adapter_config.json").read_text())
    (tmp_path / "adapter_model.bin").write_bytes(b"code")
    with pytest.raises(DataError, match="could run code"):
        adapter_report(tmp_path, **options)
    (tmp_path / "adapter_model.safetensors").write_bytes(b"\0" * 16)
    with pytest.raises(DataError, match="does not fit"):
        adapter_report(tmp_path, **options)
    (tmp_path / "config.json").write_text((folders / "base" / "config.json").read_text())
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 16)
    with pytest.raises(DataError, match="cannot be read as a causal language model"):
        adapter_report(folders / "adapter", **{**options, "base": tmp_path})


def test_chats_hold_the_secret_as_the_answer() -> None:
    canaries = CanaryAudit(count=10, seed=1)
    rows = canaries.plant([{"messages": [{"role": "user", "content": "hello"}]}])
    assert len(rows) == 1 + len(canaries.texts)
    question, reply = rows[-1]["messages"]
    assert (question["role"], reply["role"]) == ("user", "assistant")
    assert question["content"] + reply["content"] in canaries.texts
