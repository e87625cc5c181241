"""Requests to an OpenAI-compatible server: bounded in flight, retried with growing pauses, capped in cost, kept on disk."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from audit.core.errors import ConfigError, DataError, ObservationError

TRANSIENT = frozenset({408, 425, 429, 502, 503, 504})
FAULT = 500  # several servers answer so to requests that are wrong, so it is tried again once and no more
CONNECTION = (ConnectionError, TimeoutError, http.client.HTTPException, OSError)
LARGEST_ANSWER = 1 << 26
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Where and how to ask.

    Attributes:
        url: of the server, with its version: `http://host:8000/v1`.
        key_variable: environment variable that holds the key; "" sends none. A key is neither written nor printed.
        in_flight: requests under way at once.
        timeout: seconds for one answer.
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
        parts = urlsplit(self.url)
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
        self.tokens, self.requests = 0, 0

    def completion(self, body: Json, reduce: Callable[[Json], Any]) -> Any:
        """Return what `reduce` makes of the server's answer to a completion; that alone is kept.

        Raises:
            ObservationError: the server does not answer, or refuses the request.
            DataError: the cap on tokens is reached.
        """
        key = hashlib.sha256(json.dumps([self.settings.url, dict(body)], sort_keys=True).encode()).hexdigest()
        with self._lock:
            if key in self._answers:
                return self._answers[key]
        self._refuse_over_cap()
        answer = self._ask(body)
        value = reduce(answer)
        self._account(answer, body)
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
            except CONNECTION as error:
                failure = f"{type(error).__name__}: {error}"
                continue
            if status == 200:
                return _object(content)
            failure = f"status {status}: {content[:300].decode('utf-8', 'replace')}"
            faults += status == FAULT
            if status not in TRANSIENT and (status != FAULT or faults > 1):
                break
        raise ObservationError(
            f"the server at {self._host} gave no answer to a completion after {attempt + 1} attempts: {failure}"
        )

    def _send(self, body: Json) -> tuple[int, bytes]:
        parts = urlsplit(self.settings.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=self.settings.timeout)
        headers = {"Content-Type": "application/json"}
        if self.settings.key_variable:
            headers["Authorization"] = f"Bearer {os.environ[self.settings.key_variable]}"
        try:
            connection.request("POST", f"{parts.path.rstrip('/')}/completions", json.dumps(dict(body)), headers)
            response = connection.getresponse()
            return response.status, response.read(LARGEST_ANSWER)
        finally:
            connection.close()

    @property
    def _host(self) -> str:
        parts = urlsplit(self.settings.url)
        return f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)

    def _refuse_over_cap(self) -> None:
        cap = self.settings.most_tokens
        if cap is not None and self.tokens >= cap:
            raise DataError(
                f"the cap of {cap:,} tokens is reached after {self.requests:,} requests; raise --most-tokens: answers that are "
                "in the cache are not paid for again"
            )

    def _account(self, answer: Json, body: Json) -> None:
        usage = answer.get("usage")
        total = usage.get("total_tokens") if isinstance(usage, dict) else None
        cost = total if isinstance(total, int) and total > 0 else len(str(body.get("prompt", "")))  # a byte a token at most
        with self._lock:
            self.tokens += cost
            self.requests += 1

    def _keep(self, key: str, value: Any) -> None:
        with self._lock:
            self._answers[key] = value
            if self._cache_file is not None:
                with self._cache_file.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"key": key, "value": value}) + "\n")


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
        except (ValueError, KeyError, TypeError) as error:
            if number == len(lines):
                path.write_text("".join(f"{whole}\n" for whole in lines[:-1]), encoding="utf-8")
                break
            raise DataError(f"{path}, line {number}: no cached answer ({error}); remove the file to ask again") from error
    return answers
