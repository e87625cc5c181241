"""Chats as servers write them: other lists, other spellings, words around a secret, an answer without text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from audit.core.errors import ObservationError
from audit.core.seeds import Seed
from audit.endpoint import canary_files, canary_law, scoring
from audit.endpoint.client import Client
from audit.endpoint.server_settings import ServerSettings
from tests.endpoint.stub import served

CHAT = canary_files.Context(form="chat")
CANARIES = [replace(canary, context=CHAT) for canary in canary_law.digit_canaries(40, Seed(3))]
COINS = np.array([canary.included for canary in CANARIES])
Answer = dict[str, Any]


def _edit_tokens(edit: Callable[[str, int], str]) -> Callable[[Answer, Answer], Answer]:
    def reshape(answer: Answer, body: Answer) -> Answer:
        for place, step in enumerate(answer["choices"][0].get("logprobs", {}).get("content", ())):
            for row in (step, *step["top_logprobs"]):
                row["token"] = edit(row["token"], place)
        return answer

    return reshape


def _reverse_lists(answer: Answer, body: Answer) -> Answer:
    for step in answer["choices"][0].get("logprobs", {}).get("content", ()):
        step["top_logprobs"].reverse()
    return answer


def _with_longer_tokens(answer: Answer, body: Answer) -> Answer:
    """Lists of a vocabulary that has pairs of digits, too, which this answer is not cut into."""
    choice = answer["choices"][0]
    for place, step in enumerate(choice.get("logprobs", {}).get("content", ())):
        step["top_logprobs"].append({"token": choice["message"]["content"][place : place + 2], "logprob": -9.0})
    return answer


def _in_a_sentence(answer: Answer, body: Answer) -> Answer:
    choice = answer["choices"][0]
    choice["message"]["content"] = f"The code is {choice['message']['content']}."
    if "logprobs" in choice:
        rows = [{"token": word, "logprob": value} for word, value in ((" is", -0.1), (" was", -2.5))]
        choice["logprobs"]["content"] = [rows[0] | {"top_logprobs": rows}] * 3 + choice["logprobs"]["content"]
    return answer


def _in_parts(answer: Answer, body: Answer) -> Answer:
    message = answer["choices"][0]["message"]
    message["content"] = [{"type": "thinking"}, {"type": "text", "text": message["content"]}]
    return answer


def _under_the_newer_name(answer: Answer, body: Answer) -> Answer | str:
    return "'max_tokens' is not supported; use 'max_completion_tokens'" if "max_tokens" in body else answer


def _without_text(answer: Answer, body: Answer) -> Answer:
    answer["choices"][0]["message"] = {"content": None, "refusal": "no", "reasoning_content": "1234"}
    return answer


def _streamed(answer: Answer, body: Answer) -> bytes:
    return b'data: {"choices": [{"delta": {"content": "1"}}]}\n\ndata: [DONE]\n\n'


FORMS = {
    "lists in another order": (_reverse_lists, "next_tokens"),
    "byte-level entries": (_edit_tokens(lambda token, place: token if place else f"\u0120{token}"), "next_tokens"),
    "SentencePiece entries": (_edit_tokens(lambda token, place: token if place else f"\u2581{token}"), "next_tokens"),
    "lists of a sentence": (_in_a_sentence, "next_tokens"),
    "a sentence": (_in_a_sentence, "generations"),
    "parts": (_in_parts, "generations"),
    "newer name": (_under_the_newer_name, "generations"),
}


def _scores(reshape: Callable[[Answer, Answer], Any], rule: str) -> tuple[np.ndarray, int]:
    with served() as server:
        server.reshape = reshape
        server.chats = {canary.question[-1]["content"]: canary.secret for canary in CANARIES if canary.included}
        client = Client(ServerSettings(url=server.url), sleep=lambda seconds: None)
        return scoring.served_scores(client, ("m", ""), CANARIES, lambda steps: None, rule).values, client.requests


@pytest.mark.parametrize(("reshape", "rule"), FORMS.values(), ids=FORMS)
def test_a_memorised_chat_is_found_however_the_server_writes_it(reshape: Callable[[Answer, Answer], Any], rule: str) -> None:
    values, requests = _scores(reshape, rule)
    assert values[COINS].min() > values[~COINS].max()
    assert requests < 2.2 * len(CANARIES) + 16, "a name that was refused is not tried again for each canary"


def test_an_answer_that_is_the_secret_is_spelled_as_the_model_wrote_it() -> None:
    values, _ = _scores(_with_longer_tokens, "next_tokens")
    assert values[COINS].min() > -1


@pytest.mark.parametrize(
    ("reshape", "message"), [(_without_text, "writes no text"), (_streamed, "streams its answers")], ids=["silent", "streamed"]
)
def test_answers_without_a_text_are_no_evidence_of_privacy(reshape: Callable[[Answer, Answer], Any], message: str) -> None:
    with pytest.raises(ObservationError, match=message):
        _scores(reshape, "generations")
