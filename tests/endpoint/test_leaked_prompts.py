"""Personal data and system prompts as games by coins: an application that answers from its prompt, and one that keeps it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from audit.api import canary_audit
from audit.cli.app import answer
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


def proven(folder: Path, commitment: str, *, tells: bool, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    server = Application(TinyModel(), "good")
    server.rows = [json.loads(row)["text"] for row in (folder / "planted.jsonl").read_text().splitlines()]
    server.tells = tells
    with serve(server):
        file = str(folder / "canaries.jsonl")
        answer(["endpoint", server.url, "--model", "m", "--canaries", file, "--commitment", commitment, "--json"])
        answered = json.loads(capsys.readouterr().out)
    mechanism: dict[str, Any] = answered["mechanisms"][0]
    return mechanism


@pytest.mark.parametrize(("secret", "place"), [("email", "system_prompt"), ("card", "documents")])
def test_a_prompt_that_an_application_tells_is_proven_and_one_that_it_keeps_is_not(
    secret: str, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "canaries"
    monkeypatch.setattr(canary_audit, "new_seed", lambda: 2**90 + 7)  # one in twenty draws proves what is not so
    command = ["canaries", "new", str(folder), "--count", "60", "--secret", secret, "--form", "chat", "--place", place]
    assert answer([*command, "--json"]) == 0
    commitment = json.loads(capsys.readouterr().out)["commitment"]
    leaky = proven(folder, commitment, tells=True, capsys=capsys)
    assert leaky["proven"]["epsilon"] > 2
    silent = proven(folder, commitment, tells=False, capsys=capsys)
    assert silent["proven"] is None or silent["proven"]["epsilon"] == 0
