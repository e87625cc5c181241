"""Servers that are, stall, flood or cut the line: each ends in a sentence, in bounded time and memory."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from audit.core.errors import ConfigError, ObservationError
from audit.core.seeds import Seed
from audit.endpoint import canary_law, probe, scoring
from audit.endpoint.client import ROOM, Client
from audit.endpoint.server_settings import ServerSettings

CANARIES = canary_law.digit_canaries(4, Seed(1))
Talk = Callable[[socket.socket], None]


@contextmanager
def talking(talk: Talk) -> Iterator[tuple[str, list[bytes]]]:
    """Return the URL of a server that reads a request and then sends a prepared answer; and the requests it read."""
    requests: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as place:

        def answer(line: socket.socket) -> None:
            with line, suppress(OSError):  # the client hangs up, as it should
                requests.append(line.recv(1 << 16))
                talk(line)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=answer, args=(place.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{place.getsockname()[1]}/v1", requests
        place.shutdown(socket.SHUT_RDWR)


def page(body: str | bytes, status: str = "200 OK", **headers: str) -> bytes:
    content = body.encode() if isinstance(body, str) else body
    rows = {"Content-Length": str(len(content)), **headers}
    return (
        f"HTTP/1.1 {status}\r\n{''.join(f'{key}: {value}' + chr(13) + chr(10) for key, value in rows.items())}\r\n".encode()
        + content
    )


def says(content: bytes) -> Talk:
    return lambda line: line.sendall(content)


def _endless_body(line: socket.socket) -> None:
    line.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        line.sendall(b" " * 65536)


def _drip(head: bytes) -> Talk:
    def talk(line: socket.socket) -> None:
        line.sendall(head)
        while True:
            line.sendall(b"x")
            time.sleep(0.02)

    return talk


def client_of(url: str, **options: Any) -> Client:
    return Client(ServerSettings(url=url, **{"attempts": 2, "timeout": 0.5, **options}), sleep=lambda seconds: None)


BODY = {"prompt": "ab", "max_tokens": 1}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("talk", "message"),
    [
        (_endless_body, rf"more than {ROOM + 4096:,} bytes"),
        (_drip(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"), r"no whole answer within 0\.5 s"),
        (_drip(b"HTTP/1.1 200 OK\r\nX: "), r"no whole answer within 0\.5 s"),
        (_drip(b"HT"), r"no whole answer within 0\.5 s"),
        (says(page('{"choices": [')[:-4]), "IncompleteRead|cut off|Reset"),
        (says(b""), "RemoteDisconnected|Reset"),
        (says(b"no HTTP at all\r\n\r\n"), "BadStatusLine"),
        (says(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 500 + b"\r\n"), "got more than 100 headers"),
        (says(page("<html>")), "not JSON"),
        (says(page("[" * 100_000)), "not JSON"),
        (says(page("[1]")), "expected a JSON object"),
        (says(page(b"\xff\xfe\x00")), "not JSON"),
        (says(page("9" * 5000)), "not JSON"),
    ],
)
def test_a_conversation_that_is_none_ends_in_a_sentence(talk: Talk, message: str) -> None:
    start = time.monotonic()
    with talking(talk) as (url, _), pytest.raises(ObservationError, match=message):
        client_of(url).completion(BODY, dict)
    assert time.monotonic() - start < 10


def test_a_body_that_is_cut_and_usage_that_is_no_number_cost_as_much_as_they_can() -> None:
    for content in (page('{"choices": [')[:-4], page('{"usage": {"total_tokens": true}}')):
        with talking(says(content)) as (url, _):
            client = client_of(url, attempts=1)
            with suppress(ObservationError):
                client.completion(BODY, dict)
            assert client.tokens == len("ab") + 1 + 1


def test_a_redirect_is_not_followed_and_its_target_gets_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_KEY", "very-secret-key")
    with talking(says(page("{}"))) as (peer, heard):
        redirect = page("", status="307 Temporary Redirect", Location=f"{peer}/completions")
        with talking(says(redirect)) as (url, _), pytest.raises(ObservationError, match="status 307"):
            client_of(url, key_variable="SERVER_KEY").completion(BODY, dict)
        assert not heard


def test_a_key_and_commands_of_a_terminal_that_a_server_repeats_are_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_KEY", "very-secret-key")
    refusal = page("wrong key very-secret-key \x1b[2J\x07 \u202e", status="401 Unauthorized")
    with talking(says(refusal)) as (url, _), pytest.raises(ObservationError, match=r"wrong key \*\*\*") as error:
        client_of(url, key_variable="SERVER_KEY").completion(BODY, dict)
    assert "very-secret" not in str(error.value) and str(error.value).isprintable()


@pytest.mark.parametrize(
    "choice",
    [
        {"logprobs": {"tokens": ["a"], "token_logprobs": [-1.0, -2.0]}},
        {"logprobs": {"tokens": 3, "token_logprobs": None}},
        {"logprobs": {"tokens": [], "token_logprobs": []}},
        {"logprobs": {"tokens": [None, {}], "token_logprobs": [10**400, float("nan")]}},
        {"logprobs": []},
        {"logprobs": {"content": [[]], "top_logprobs": [3]}},
        {"logprobs": {"top_logprobs": [{"a": float("nan"), "b": 10**400}]}},
        {"logprobs": {"top_logprobs": [{"a": 0.5, "b": -1.0}]}},
        {"logprobs": {"content": [{"top_logprobs": [{"token": "a"}, 7, [1, 2, 3]]}]}},
        {"prompt_logprobs": [None, {"7": {"logprob": 10**400, "decoded_token": "x"}}]},
        {"prompt_logprobs": [3, 4]},
        "text",
    ],
)
@pytest.mark.parametrize("rule", ["log_probabilities", "next_tokens"])
def test_lists_that_are_none_are_refused(choice: Any, rule: str) -> None:
    content = page(json.dumps({"choices": [choice]}))
    with talking(says(content)) as (url, _), pytest.raises(ObservationError):
        scoring.served_scores(client_of(url), ("m", ""), CANARIES, lambda steps: None, rule)


@pytest.mark.parametrize("key", ["sk-secret\n", "sk-\rsecret", "sk-secret\u2026"])
def test_a_key_that_no_header_can_carry_is_refused_without_printing_it(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's own refusal repeats the whole key in its message."""
    monkeypatch.setenv("SERVER_KEY", key)
    with pytest.raises(ConfigError, match="SERVER_KEY") as caught:
        ServerSettings(url="http://127.0.0.1:9/v1", key_variable="SERVER_KEY")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://host:99999/v1", "http://host:port/v1", "http://[::1/v1"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="http://host:port/v1"):
        ServerSettings(url=url)


@pytest.mark.parametrize("ask", [scoring.widest, probe.probe])
def test_where_nobody_listens_no_score_is_advised(ask: Callable[[Client, str], object]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as place:
        url = f"http://127.0.0.1:{place.getsockname()[1]}/v1"
    with pytest.raises(ObservationError, match=r"gave no answer .*Connection refused") as caught:
        ask(client_of(url), "tiny")
    assert "--score" not in str(caught.value)
