"""Requests to an OpenAI-compatible server: bounded in flight, retried with growing pauses, capped in cost, kept on disk."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from audit.core.errors import ConfigError, DataError, ObservationError

TRANSIENT = frozenset({408, 425, 429, 502, 503, 504})
FAULT = 500  # several servers answer so to requests that are wrong, so it is tried again once and no more
CONNECTION = (ConnectionError, TimeoutError, http.client.HTTPException, OSError)
NOBODY = (ConnectionRefusedError, socket.gaierror)
ROOM, ROOM_PER_TOKEN = 1 << 20, 1 << 10  # bytes that an answer may have:, and for each token of prompt and answer
Json = Mapping[str, Any]


class UnreachableServer(ObservationError):
    """No one listens at the address, so nothing is known of what the server can do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Where and how to ask.

    Attributes:
        url: of the server, with its version: `http://host:8000/v1`.
        key_variable: environment variable that holds the key; "" sends none. A key is neither written nor printed.
        in_flight: requests under way at once.
        timeout: seconds for one answer, from connecting to its last byte.
        attempts: of one request, at most.
        pause: seconds before the second attempt; each further pause is twice as long.
        most_tokens: that may be paid for, of prompts and answers together; None for no cap.
    """

    url: str
    key_variable: str = ""
    in_flight: int = 16
    timeout: float = 120.0
    attempts: int = 6
    pause: float = 0.5
    most_tokens: int | None = None

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            _ = parts.port  # a port that is none raises if it is read
        except ValueError as error:
            raise ConfigError(f"the server's URL has the form http://host:port/v1: {error}") from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"the server's URL has the form http://host:port/v1; got scheme '{parts.scheme}'")
        if parts.username or parts.password or parts.query:
            raise ConfigError("the server's URL holds a key or a query; name the variable that holds the key in --key-variable")
        if self.in_flight < 1 or self.attempts < 1:
            raise ConfigError(f"in_flight is {self.in_flight} and attempts {self.attempts}; expected at least 1 of each")
        if self.key_variable and not os.environ.get(self.key_variable):
            raise ConfigError(
                f"the environment has no variable {self.key_variable}, or it is empty; set it to the server's key"
            )
        key = os.environ[self.key_variable] if self.key_variable else ""
        if not (key.isascii() and key.isprintable()):  # http.client would print the whole key if it refuses it
            raise ConfigError(
                f"the key in {self.key_variable} holds a line end or another character that no key has; it is not sent"
            )


class Client:
    """Asks one server; safe for several threads.

    Args:
        settings: of the server.
        cache: file of answers, a line each, kept as they come: a request that is in it is not sent again. None keeps nothing.
        sleep: waits so many seconds.
    """

    def __init__(
        self, settings: ServerSettings, cache: Path | None = None, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.settings, self._sleep = settings, sleep
        self._lock, self._local = threading.Lock(), threading.local()
        self._cache_file, self._answers = cache, {} if cache is None else _read_cache(cache)
        self.tokens, self.requests, self._reservation = 0, 0, 0

    def completion(self, body: Json, reduce: Callable[[Json], Any], purpose: str = "") -> Any:
        """Return what `reduce` makes of the server's answer to a completion; that alone is kept, by request and purpose.

        Raises:
            ObservationError: the server does not answer, or refuses the request.
            DataError: the cap on tokens is reached.
        """
        parts = [self.settings.url, dict(body), *filter(None, [purpose])]
        key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
        with self._lock:
            if key in self._answers:
                return self._answers[key]
        budget = _most_tokens(body)
        self._reserve(budget)
        try:
            answer = self._ask(body)
            value = reduce(answer)
            self._account(answer, budget)
        finally:
            with self._lock:
                self._reservation -= budget
        self._keep(key, value)
        return value

    def each(self, work: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Yield number and result of each task as it is finished, with at most `in_flight` of them under way.

        An error ends it: tasks under way are waited for, so what they cost is kept, and no other begins.
        """
        with ThreadPoolExecutor(self.settings.in_flight) as pool:
            waiting = iter(enumerate(tasks))
            under_way: dict[Future[Any], int] = {}
            while True:
                for number, task in waiting:
                    under_way[pool.submit(work, task)] = number
                    if len(under_way) >= self.settings.in_flight:
                        break
                if not under_way:
                    return
                ready, _ = wait(under_way, return_when=FIRST_COMPLETED)
                for future in ready:
                    yield under_way.pop(future), future.result()

    def _ask(self, body: Json) -> Json:
        failure, faults = "", 0
        for attempt in range(self.settings.attempts):
            if attempt:
                self._sleep(self.settings.pause * 2 ** (attempt - 1))
            try:
                status, content = self._send(body)
                kind = ObservationError
            except CONNECTION as error:
                failure = f"{type(error).__name__}: {error}"
                kind = UnreachableServer if isinstance(error, NOBODY) else ObservationError
                continue
            if status == 200:
                return _object(content)
            failure = f"status {status}: {self._printable(content)}"
            faults += status == FAULT
            if status not in TRANSIENT and (status != FAULT or faults > 1):
                break
        raise kind(f"the server at {self._host} gave no answer to a completion after {attempt + 1} attempts: {failure}")

    def _send(self, body: Json) -> tuple[int, bytes]:
        parts = urlsplit(self.settings.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=self.settings.timeout)
        headers = {"Content-Type": "application/json"}
        if self.settings.key_variable:
            headers["Authorization"] = f"Bearer {os.environ[self.settings.key_variable]}"
        largest = ROOM + ROOM_PER_TOKEN * _most_tokens(body)
        try:
            connection.connect()
            with _deadline(connection.sock, self.settings.timeout):
                connection.request("POST", f"{parts.path.rstrip('/')}/completions", json.dumps(dict(body)), headers)
                response = connection.getresponse()
                content = response.read(largest + 1)
        finally:
            connection.close()
        if len(content) > largest:
            raise ObservationError(f"the server at {self._host} answered a completion by more than {largest:,} bytes")
        if response.length:  # a body that ends early is an error only where all of it is read at once
            raise http.client.IncompleteRead(content, response.length)
        return response.status, content

    def _printable(self, content: bytes) -> str:
        """Return the beginning of what a server wrote, without the key that some repeat and without a terminal's commands."""
        text = content.decode("utf-8", "replace")
        if self.settings.key_variable:
            text = text.replace(os.environ[self.settings.key_variable], "***")
        return "".join(character if character.isprintable() else " " for character in text[:300])

    @property
    def _host(self) -> str:
        parts = urlsplit(self.settings.url)
        return f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)

    def _reserve(self, budget: int) -> None:
        """Set tokens aside for a request, or raise if the cap could be passed with those under way."""
        cap = self.settings.most_tokens
        with self._lock:
            if cap is not None and self.tokens + self._reservation + budget > cap:
                raise DataError(
                    f"the cap of {cap:,} tokens is reached after {self.requests:,} requests, those under way and the next "
                    "counted; raise --most-tokens: answers that are in the cache are not paid for again"
                )
            self._reservation += budget

    def _account(self, answer: Json, budget: int) -> None:
        usage = answer.get("usage")
        total = usage.get("total_tokens") if isinstance(usage, dict) else None
        cost = total if isinstance(total, int) and total > 0 else budget
        with self._lock:
            self.tokens += cost
            self.requests += 1

    def _keep(self, key: str, value: Any) -> None:
        with self._lock:
            self._answers[key] = value
            if self._cache_file is not None:
                with self._cache_file.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"key": key, "value": value}) + "\n")


def _most_tokens(body: Json) -> int:
    """Return how many tokens a request can cost: a byte each at most, a start token and those that are written."""
    return len(str(body.get("prompt", "")).encode("utf-8", "replace")) + 1 + int(body.get("max_tokens", 0))


@contextmanager
def _deadline(connection: socket.socket, seconds: float) -> Iterator[None]:
    """Cut a connection that is not done in time; a socket's own timeout begins anew with each byte that drips in.

    Raises:
        TimeoutError: it was cut.
    """
    lateness = threading.Event()

    def cut() -> None:
        lateness.set()
        with suppress(OSError):  # the other side was faster
            connection.shutdown(socket.SHUT_RDWR)

    alarm = threading.Timer(seconds, cut)
    alarm.daemon = True
    alarm.start()
    try:
        yield
    except CONNECTION as error:
        if lateness.is_set():
            raise TimeoutError(f"no whole answer within {seconds:g} s") from error
        raise
    finally:
        alarm.cancel()
    if lateness.is_set():
        raise TimeoutError(f"no whole answer within {seconds:g} s")


def _object(content: bytes) -> Json:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ObservationError(
            f"the server's answer is not JSON ({error}); is this the address of its API, with /v1?"
        ) from error
    if not isinstance(value, dict):
        raise ObservationError(f"the server answered {type(value).__name__}; expected a JSON object")
    return value


def _read_cache(path: Path) -> dict[str, Any]:
    """Return the answers of a cache; a last line that was cut off, as by a kill, is removed."""
    answers: dict[str, Any] = {}
    if not path.exists():
        return answers
    lines = path.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            answers[entry["key"]] = entry["value"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            if number == len(lines):
                path.write_text("".join(f"{full}\n" for full in lines[:-1]), encoding="utf-8")
                break
            raise DataError(f"{path}, line {number}: no cached answer ({error}); remove the file to ask again") from error
    return answers
