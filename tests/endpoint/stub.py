"""A loopback server that answers as OpenAI-compatible servers do, and as they should not."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np


class TinyModel:
    """Log-probabilities of characters given the last two; secrets that it knows are likely."""

    def __init__(self, known: tuple[str, ...] = ()) -> None:
        random = np.random.default_rng(0)
        self._table = np.log(random.dirichlet(np.full(128, 0.3), size=(64, 64)) + 1e-12)
        self.know(known)

    def know(self, texts: Iterable[str]) -> None:
        """Make these texts likely, and no others."""
        self.known = set(texts)
        self._beginnings = {text[:end]: text[end : end + 1] for text in sorted(self.known) for end in range(2, len(text) + 1)}

    def log_probabilities(self, text: str) -> list[float | None]:
        values: list[float | None] = [None]
        for end in range(1, len(text)):
            before, last = ord(text[end - 2]) if end > 1 else 0, ord(text[end - 1])
            likely = text[: end + 1] in self._beginnings
            value = float(self._table[before % 64, last % 64, ord(text[end]) % 128])
            values.append(-0.01 - 1e-3 * abs(value) if likely else value)
        return values

    def next_character(self, text: str) -> str:
        if self._beginnings.get(text):
            return self._beginnings[text]
        before, last = ord(text[-2]) if len(text) > 1 else 0, ord(text[-1])
        return chr(97 + int(self._table[before % 64, last % 64, 97:122].argmax()))


class Stub(ThreadingHTTPServer):
    """The server.

    Attributes:
        dies_after: answers, after which connections are cut; never if None.
        delay: seconds before an answer.
        statuses: of the next answers, in place of good ones; `retry_after` is their header.
        broken: every so-manieth answer is cut off; none if 0.
        noise: standard deviation of the noise on log-probabilities; with each answer they fall by `drift`.
        chats: answers that the model knows, by the last message; `paths` what was asked.
        reshape: makes of an answer what other servers write, from it and its request; a text is a refusal.
        longest: characters of a prompt that it takes.
    """

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, model: TinyModel, mode: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.model, self.untrained, self.mode = model, TinyModel(), mode
        self.dies_after: int | None = None
        self.retry_after = ""
        self.broken = 0
        self.noise = 0.0
        self.drift = 0.0
        self.chats: dict[str, str] = {}
        self.paths: list[str] = []
        self.reshape: Callable[[dict[str, Any], dict[str, Any]], Any] = lambda answer, body: answer
        self.longest = 1 << 20
        self.statuses: list[int] = []
        self.delay = 0.0
        self.answers, self.at_once, self.most_at_once = 0, 0, 0
        self.headers: list[dict[str, str]] = []
        self.lock = threading.Lock()
        self.random = np.random.default_rng(0)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # clients that hang up are part of the tests

    def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        """An answer as chat servers write it: a character a token, the likeliest five listed."""
        reply = {} if body["model"] == "base" else self.chats
        answer_text = reply.get("\n".join(message["content"] for message in body["messages"]), "0000")[
            : body.get("max_tokens", 99)
        ]
        choice: dict[str, Any] = {"message": {"role": "assistant", "content": answer_text}}
        if body.get("logprobs"):
            lists = [[(letter, -0.01)] + [(str(number), -3.0 - number / 10) for number in range(5)] for letter in answer_text]
            choice["logprobs"] = {
                "content": [
                    {"token": rows[0][0], "logprob": -0.01, "top_logprobs": [{"token": t, "logprob": v} for t, v in rows]}
                    for rows in lists
                ]
            }
        return {"choices": [choice], "usage": {"total_tokens": 30}}

    def completion(self, body: dict[str, Any]) -> dict[str, Any]:
        if "messages" in body:
            return self.chat(body)
        model = self.untrained if body.get("model") == "base" else self.model
        prompt, tokens = body["prompt"], []
        text = prompt
        for _ in range(body["max_tokens"]):
            text += model.next_character(text)
            tokens.append(text[-1])
        choice: dict[str, Any] = {"text": "".join(tokens)}
        if self.mode.startswith("lists_") and body.get("logprobs"):  # echo is left out without a word
            choice["logprobs"] = _likely(model, prompt, body["logprobs"], as_chat=self.mode == "lists_as_chat")
            return {"choices": [choice], "usage": {"total_tokens": len(text)}}
        if self.mode == "vllm" and "prompt_logprobs" in body:
            rows = model.log_probabilities(prompt)
            choice["prompt_logprobs"] = [
                None if value is None else {str(ord(character)): {"logprob": value, "decoded_token": character}}
                for character, value in zip(prompt, rows, strict=True)
            ]
        elif body.get("logprobs") is not None and self.mode != "vllm":
            choice["logprobs"] = self._logs(model, prompt, text, body)
        spent = len(text)
        return {"choices": [choice], "usage": {"prompt_tokens": len(prompt), "total_tokens": spent}}

    def _logs(self, model: TinyModel, prompt: str, text: str, body: dict[str, Any]) -> dict[str, Any] | None:
        shift = self.drift * self.answers
        values = [
            None if value is None else min(value - shift + self.noise * float(self.random.normal()), 0.0)
            for value in model.log_probabilities(text)
        ]
        if self.mode == "no_echo":
            return None
        if self.mode == "generated_only" or not body.get("echo"):
            return {"tokens": list(text[len(prompt) :]), "token_logprobs": values[len(prompt) :]}
        if self.mode == "bos_shift":
            values = [values[0], *values[2:], -1.5]
        if self.mode == "clamped":
            values = [None if value is None else max(value, -5.0) for value in values]
        if self.mode == "rounded":
            values = [None if value is None else round(value, 2) for value in values]
        return {"tokens": list(text), "token_logprobs": values}


def _likely(model: TinyModel, prompt: str, width: int, *, as_chat: bool) -> dict[str, Any]:
    characters = [chr(code) for code in range(32, 127)]
    values = [model.log_probabilities(prompt + character)[-1] or 0.0 for character in characters]
    rows = sorted(zip(values, characters, strict=True), reverse=True)[: min(width, 50)]
    if not as_chat:
        return {"tokens": [prompt], "token_logprobs": [None], "top_logprobs": [{character: value for value, character in rows}]}
    listed = [{"token": character, "logprob": value} for value, character in rows]
    return {"content": [listed[0] | {"top_logprobs": listed}]}


class _Handler(BaseHTTPRequestHandler):
    server: Stub

    def do_POST(self) -> None:
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            server.headers.append(dict(self.headers))
            server.paths.append(self.path)
            server.at_once += 1
            server.most_at_once = max(server.most_at_once, server.at_once)
            status = server.statuses.pop(0) if server.statuses else 200
            dead = server.dies_after is not None and server.answers >= server.dies_after
            server.answers += not dead
        try:
            time.sleep(server.delay)
            if dead:
                self.connection.close()
                return
            status = 400 if len(body.get("prompt", "")) > server.longest else status
            reply = server.reshape(server.completion(body), body) if status == 200 else {"error": "no"}
            status, reply = (400, {"error": reply}) if isinstance(reply, str) else (status, reply)
            content = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
            if server.broken and len(server.paths) % server.broken == 0:
                content = content[: len(content) // 2]
            self.send_response(status)
            if server.retry_after and status != 200:
                self.send_header("Retry-After", server.retry_after)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        finally:
            with server.lock:
                server.at_once -= 1

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@contextmanager
def served(mode: str = "good", known: tuple[str, ...] = ()) -> Iterator[Stub]:
    """Return a running server."""
    with serve(Stub(TinyModel(known), mode)) as server:
        yield server


@contextmanager
def serve(server: Stub) -> Iterator[Stub]:
    """Run a server in a thread."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
