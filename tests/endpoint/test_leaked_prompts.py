"""Personal data and system prompts as games by coins: an application that answers from its prompt, and one that keeps it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from audit.api.canary_audit import CanaryAudit
from audit.cli.app import answer
from audit.core import seeds
from audit.core.errors import DataError
from tests.endpoint.stub import Stub, TinyModel, serve


class Application(Stub):
    """A chat application with the given rows in its prompt, which it completes on request if `tells` is set."""

    rows: list[str]
    tells: bool

    def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        question = body["messages"][-1]["content"].strip()
        row = next((row for row in self.rows if row.startswith(question)), None)
        reply = row[len(question) :].strip().removesuffix(".") if row and self.tells else "I can not say that."
        self.chats = {"\n".join(message["content"] for message in body["messages"]): reply}
        return super().chat(body)


def proven(
    folder: Path, commitment: str, *, tells: bool, capsys: pytest.CaptureFixture[str], withholds: str | dict[str, Any] = ""
) -> dict[str, Any]:
    server = Application(TinyModel(), "good")
    server.reshape = lambda answer, body: withholds if withholds and sum(str(body["messages"]).encode()) % 3 == 0 else answer
    server.rows = [json.loads(row)["text"] for row in (folder / "planted.jsonl").read_text().splitlines()]
    server.tells = tells
    with serve(server):
        file = str(folder / "canaries.jsonl")
        answer(["endpoint", server.url, "--model", "m", "--canaries", file, "--commitment", commitment, "--json"])
        answered = json.loads(capsys.readouterr().out)
    mechanism: dict[str, Any] = answered["mechanisms"][0] | {"notes": answered["notes"]}
    return mechanism


@pytest.mark.parametrize(("secret", "place"), [("email", "system_prompt"), ("card", "documents")])
def test_a_prompt_that_an_application_tells_is_proven_and_one_that_it_keeps_is_not(
    secret: str, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "canaries"
    monkeypatch.setattr(seeds, "new_seed", lambda: 2**90 + 7)  # one in twenty draws proves what is not so
    command = ["canaries", "new", str(folder), "--count", "60", "--secret", secret, "--form", "chat", "--place", place]
    assert answer([*command, "--json"]) == 0
    commitment = json.loads(capsys.readouterr().out)["commitment"]
    leaky = proven(folder, commitment, tells=True, capsys=capsys)
    assert leaky["proven"]["epsilon"] > 2
    silent = proven(folder, commitment, tells=False, capsys=capsys)
    assert silent["proven"] is None or silent["proven"]["epsilon"] == 0
    with pytest.raises(DataError, match=f"drawn for {place} of a served"):
        CanaryAudit.of_folder(folder).plant(["a text"])
    assert answer(["adapter", str(folder), "--base", str(folder), "--canaries", str(folder / "canaries.jsonl")]) == 2
    assert f"drawn for {place}" in capsys.readouterr().err
    assert answer(["canaries", "new", str(tmp_path / "other"), "--system", "caf\udce9"]) == 2
    assert "half a character" in capsys.readouterr().err


@pytest.mark.parametrize(
    "withholds",
    ["content_filter", {"choices": [{"message": {"content": None}, "logprobs": None, "finish_reason": "content_filter"}]}],
    ids=["status 400", "no text"],
)
def test_answers_that_a_filter_withholds_end_nothing_and_are_counted(
    withholds: str | dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seeds, "new_seed", lambda: 2**90 + 7)
    command = ["canaries", "new", str(tmp_path / "canaries"), "--count", "60", "--form", "chat", "--place", "system_prompt"]
    assert answer([*command, "--json"]) == 0
    commitment = json.loads(capsys.readouterr().out)["commitment"]
    filtered = proven(tmp_path / "canaries", commitment, tells=True, capsys=capsys, withholds=withholds)
    assert filtered["proven"]["epsilon"] > 1
    assert any("withheld by a filter" in note for note in filtered["notes"])
