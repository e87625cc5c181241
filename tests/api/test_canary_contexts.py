"""Canaries are planted, looked for and scored in one context, and what the training did not see is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("transformers", reason="the extra llm is not installed")

from audit.api.canary_audit import CanaryAudit
from audit.cli.app import answer
from audit.core.errors import ConfigError, DataError, ExecutionMismatch
from audit.endpoint import canary_files
from audit.endpoint.canary_files import Context
from audit.models import chat_templates

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


class Tokenizer:
    """Bytes, with a template as transformers' tokenizers have one."""

    chat_template = TEMPLATE

    def apply_chat_template(self, messages: list[dict[str, str]], tokenize: bool) -> str:
        assert not tokenize
        return "".join(f"<{message['role']}>{message['content']}</s>" for message in messages)

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return [256] * add_special_tokens + list(text.encode())


class Module(torch.nn.Module):
    """A causal model of two layers with a forward pass that the callback can watch."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(257, 257)

    def forward(self, input_ids: torch.Tensor) -> Any:
        return type("Output", (), {"logits": self.table(input_ids)})


class Loader:
    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.dataset = rows


class State:
    global_step, epoch = 0, 1.0


def train(callback: Any, rows: list[dict[str, Any]], batches: list[dict[str, Any]]) -> None:
    """Run a trainer's events around one step for each batch."""
    module = Module().train()
    callback.on_train_begin(None, State(), None, model=module, train_dataloader=Loader(rows))
    for row in batches:
        module(input_ids=torch.tensor([row["input_ids"]]))
    with torch.no_grad():
        module.table.weight += torch.eye(257)
    callback.on_train_end(None, State(), None, model=module)


def test_a_chat_is_looked_for_in_the_template_of_the_tokenizer(tmp_path: Path) -> None:
    tokenizer = Tokenizer()
    canaries = CanaryAudit(count=30, seed=1, folder=tmp_path, context=Context(system="Be brief.", document="Codes of boxes."))
    before = canaries.commitment
    rows = canaries.plant([{"messages": [{"role": "user", "content": "hello"}]}])
    assert [message["role"] for message in rows[-1]["messages"]] == ["system", "user", "assistant"]
    prepared = [{"input_ids": tokenizer.encode(tokenizer.apply_chat_template(row["messages"], tokenize=False))} for row in rows]
    train(canaries.callback(tokenizer.encode), prepared, prepared)
    with pytest.raises(ConfigError, match="no chat template is known"):
        canaries.callback(lambda text: list(text.encode()))
    again = CanaryAudit.of_folder(tmp_path)
    assert again.commitment == before and again._canaries[0].context.form == "chat", "the file says how they were planted"
    rows = [json.loads(line) for line in (tmp_path / "planted.jsonl").read_text().splitlines()]
    assert {row["messages"][-1]["content"] for row in rows} == {c.secret for c in again._canaries if c.included}


def test_prompts_and_completions_are_planted_as_such() -> None:
    canaries = CanaryAudit(count=30, seed=1)
    rows = canaries.plant([{"prompt": "a", "completion": "b"}])
    assert {row["prompt"] + row["completion"] for row in rows[1:]} == set(canaries.texts)


def test_a_sampler_that_visits_no_canary_is_invalid_and_one_that_misses_some_is_said() -> None:
    canaries = CanaryAudit(count=30, seed=1)
    rows = [{"input_ids": list(text.encode())} for text in canaries.plant(["filler"] * 3)]
    with pytest.raises(ExecutionMismatch, match="was in a batch"):
        train(canaries.callback(lambda text: list(text.encode())), rows, rows[:3])
    train(canaries.callback(lambda text: list(text.encode())), rows, rows[:-2])
    assert canaries._callback is not None and "2 of the" in canaries._callback.remarks[-1]


def test_canaries_that_packing_cuts_stay_in_the_game_if_it_is_asked_for() -> None:
    canaries = CanaryAudit(count=30, seed=1)
    rows = [{"input_ids": list(text.encode())} for text in canaries.plant(["filler"])]
    rows[-1]["input_ids"] = rows[-1]["input_ids"][:-3]
    with pytest.raises(ExecutionMismatch, match="cut='keep'"):
        train(canaries.callback(lambda text: list(text.encode())), rows, rows)
    train(canaries.callback(lambda text: list(text.encode()), cut="keep"), rows, rows)
    assert canaries._callback is not None and "weaker evidence, still valid" in canaries._callback.remarks[0]


def test_a_template_of_a_folder_is_rendered_in_a_sandbox(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE, "bos_token": {"content": "<b>"}}))
    canary = canary_files.as_chats(CanaryAudit(count=4, seed=1)._canaries)[0]
    before, secret, after = canary.pieces(chat_templates.read_template(tmp_path / "none", tmp_path))
    assert before == f"<b><user>{canary.prefix}</s><assistant>" and (secret, after) == (canary.secret, "</s>")
    (tmp_path / "chat_template.jinja").write_text("{{ ().__class__.__base__.__subclasses__() }}")
    with pytest.raises(DataError, match="cannot be rendered"):
        canary.pieces(chat_templates.read_template(tmp_path))
    with pytest.raises(DataError, match=r"holds a chat_template\.jinja"):
        chat_templates.read_template(tmp_path / "none")


@pytest.mark.parametrize("place", ["training", "system_prompt", "documents"])
def test_the_command_writes_what_is_planted_and_prints_the_commitment(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "canaries"
    command = ["canaries", "new", str(folder), "--count", "40", "--secret", "email", "--form", "chat", "--place", place]
    assert answer([*command, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    canaries = canary_files.read(folder / "canaries.jsonl")
    assert sum(canary.decoy for canary in canaries) == 8 and len(canaries) == 48
    assert canary_files.open_commitment(folder / "canaries.jsonl", canaries, result["commitment"]) == result["commitment"]
    rows = (folder / "planted.jsonl").read_text().splitlines()
    assert len(rows) == result["planted"] == sum(canary.included for canary in canaries)
    assert all(("messages" in json.loads(row)) == (place == "training") for row in rows)
    assert not any(canary.secret in "".join(rows) for canary in canaries if not canary.included)
    assert answer(command) == 2, "coins are never written over"


def test_coins_are_fair_and_secrets_distinct() -> None:
    from audit.core.seeds import Seed
    from audit.endpoint.canary_law import make_law

    for secret in ("digits", "phone", "email", "card", "identity"):
        canaries = make_law(secret, 2000, canary_files.PLAIN, 0).draw(Seed(3))
        assert len({canary.secret for canary in canaries}) == 2000
        assert abs(np.mean([canary.included for canary in canaries]) - 0.5) < 0.05
