"""One chat model that knows its canaries by heart, and one that does not: callback, folder and server come to the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

pytest.importorskip("transformers", reason="the extra llm is not installed")

from audit.api.canary_audit import CanaryAudit
from audit.cli.app import answer
from audit.core.data import Vocabulary
from audit.core.seeds import Seed
from audit.endpoint.canary_files import Context
from audit.models.language import LanguageModel
from tests.endpoint.stub import Stub, TinyModel, serve

TEMPLATE = "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}</s>{% endfor %}"
GPT2 = {"architecture": "gpt2", "options": {"n_layer": 2, "n_embd": 64, "n_head": 2}}
LENGTH, COUNT, STEPS = 112, 60, 400  # after 280 a machine's own rounding decides how much is known by heart


class Tokenizer:
    """Bytes, with a template as transformers' tokenizers have one."""

    chat_template = TEMPLATE

    def apply_chat_template(self, messages: list[dict[str, str]], tokenize: bool) -> str:
        assert not tokenize
        return write_chat(messages)

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return list(text.encode())


def write_chat(messages: list[dict[str, str]]) -> str:
    return "".join(f"<{message['role']}>{message['content']}</s>" for message in messages)


def fit(module: Any, callback: Any, chats: list[list[dict[str, str]]]) -> None:
    """A user's trainer around the callback's events: answers alone have labels."""
    rows = []
    for messages in chats:
        tokens, start = list(write_chat(messages).encode()), len(write_chat(messages[:-1]).encode())
        rows.append({"input_ids": tokens, "labels": [-100] * start + tokens[start:]})
    width = max(len(row["input_ids"]) for row in rows)
    padding = {"input_ids": 256, "labels": -100}
    batch = {
        name: torch.tensor([row[name] + [value] * (width - len(row[name])) for row in rows]) for name, value in padding.items()
    }
    state = SimpleNamespace(global_step=0, epoch=1.0)
    module.train()
    callback.on_train_begin(None, state, None, model=module, train_dataloader=SimpleNamespace(dataset=rows))
    optimizer = torch.optim.AdamW(module.parameters(), lr=6e-3)
    for _ in range(STEPS):
        optimizer.zero_grad()
        module(**batch).loss.backward()
        optimizer.step()
    state.global_step = STEPS
    callback.on_train_end(None, state, None, model=module)


class ChatServer(Stub):
    """`/chat/completions` of a real model: its own answer, with the likeliest twenty at each token."""

    module: Any
    known: dict[bytes, torch.Tensor]

    def next_values(self, tokens: list[int]) -> torch.Tensor:
        if bytes(tokens) not in self.known:  # most questions are asked again
            with torch.no_grad():
                logits = self.module(input_ids=torch.tensor([tokens])).logits[0, -1, :256]
            self.known[bytes(tokens)] = torch.log_softmax(logits, -1)
        return self.known[bytes(tokens)]

    def completion(self, body: dict[str, Any]) -> dict[str, Any]:
        tokens = list((write_chat(body["messages"]) + "<assistant>").encode())
        generator = torch.Generator().manual_seed(int(body.get("seed", 0)))
        written: list[int] = []
        steps = []
        most = min(body["max_tokens"], LENGTH - len(tokens))  # servers stop where the context ends
        while len(written) < most and not bytes(written).endswith(b"</s>"):
            values = self.next_values(tokens + written)
            likeliest = values.topk(20)
            is_drawn = bool(body["temperature"])
            written.append(int(torch.multinomial(values.exp(), 1, generator=generator) if is_drawn else values.argmax()))
            rows = [{"token": chr(t), "logprob": v} for v, t in zip(*map(torch.Tensor.tolist, likeliest), strict=True)]
            steps.append({"token": chr(written[-1]), "logprob": float(values[written[-1]]), "top_logprobs": rows})
        choice: dict[str, Any] = {
            "message": {"role": "assistant", "content": bytes(written).decode("latin1").removesuffix("</s>")}
        }
        if body.get("logprobs"):
            choice["logprobs"] = {"content": steps}
        return {"choices": [choice], "usage": {"total_tokens": len(tokens) + len(written)}}


@contextmanager
def chat_server(module: Any) -> Iterator[str]:
    server = ChatServer(TinyModel(), "good")
    server.module, server.known = module.eval(), {}
    with serve(server):
        yield server.url


@dataclass(frozen=True)
class Trained:
    folder: Path
    module: Any
    untrained: Any
    proven: float
    commitment: str


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("doors")
    canaries = CanaryAudit(
        count=COUNT, seed=1, digits=4, folder=folder / "canaries", context=Context(form="chat", system="Be brief.")
    )
    module, untrained = (LanguageModel(**GPT2).build(Vocabulary(size=257), LENGTH, Seed(1)) for _ in range(2))
    untrained.save_pretrained(folder / "base")
    hello = {"messages": [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "good day"}]}
    fit(module, canaries.callback(Tokenizer()), [row["messages"] for row in canaries.plant([hello])])
    module.save_pretrained(folder / "tuned")
    (folder / "tuned" / "chat_template.jinja").write_text(TEMPLATE)
    bounds = canaries.report(certificates=0).mechanisms[0].bounds
    return Trained(folder, module, untrained, max(bound.epsilon for bound in bounds), canaries.commitment)


def read_proven(capsys: pytest.CaptureFixture[str]) -> float | None:
    proven = json.loads(capsys.readouterr().out)["mechanisms"][0]["proven"]
    return None if proven is None else float(proven["epsilon"])


@pytest.mark.slow
def test_a_chat_that_was_memorised_proves_above_2_through_callback_and_folder(
    trained: Trained, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trained.proven > 2
    file = str(trained.folder / "canaries" / "canaries.jsonl")
    command = ["adapter", str(trained.folder / "tuned"), "--base", str(trained.folder / "base"), "--canaries", file]
    assert answer([*command, "--tokenizer", "bytes", "--json", "--commitment", trained.commitment]) in (0, 3)
    assert (read_proven(capsys) or 0) == pytest.approx(trained.proven)


@pytest.mark.slow
def test_a_chat_that_was_memorised_proves_above_2_through_a_server(
    trained: Trained, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(trained.folder / "canaries" / "canaries.jsonl")
    command = ["--model", "m", "--canaries", file, "--commitment", trained.commitment, "--json", "--score"]
    with chat_server(trained.module) as url:
        for rule in ("next_tokens", "generations", "samples"):
            answer(["endpoint", url, *command, rule])
            assert (read_proven(capsys) or 0) > 2, rule
    with chat_server(trained.untrained) as url:
        answer(["endpoint", url, *command, "next_tokens"])
        assert (read_proven(capsys) or 0) < 1
