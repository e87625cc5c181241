"""Requests to an OpenAI-compatible server: bounded in flight, retried within a patience, capped in cost, kept on disk."""

import hashlib
import http.client
import json
import os
import random
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from audit.core.errors import DataError, ObservationError
from audit.endpoint.server_settings import ServerSettings

TRANSIENT = frozenset({408, 425, 429, 502, 503, 504})
REFUSALS = (400, 422)
FAULT = 500  # several servers answer so to requests that are wrong: until one of its kind was answered, few attempts are made
UNKNOWN_KIND = 4  # attempts of a request of a kind that the server never answered
LONGEST_PAUSE = 60.0
CONNECTION = (ConnectionError, TimeoutError, http.client.HTTPException, OSError)
NOBODY = (ConnectionRefusedError, socket.gaierror)
NEWER_NAME = b"max_completion_tokens"  # what newer servers call max_tokens, and ask for if they refuse it
FILTER = re.compile(rb"content_?(filter|policy)|responsibleai", re.IGNORECASE)  # what refusals of a filter are called
WITHHELD = "content_filter"  # why an answer ended
ROOM, ROOM_PER_TOKEN = 1 << 20, 1 << 10  # bytes that an answer may have:, and for each token of prompt and answer
Json = Mapping[str, Any]


class UnreachableServer(ObservationError):
    """No one listens at the address, so nothing is known of what the server can do."""


class RefusedRequest(ObservationError):
    """The server finds a request wrong."""


class BrokenAnswer(ObservationError):
    """An answer is cut off or empty; the next one may be whole."""


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
        self._cache_file = cache
        self._answers, self._earlier_runs = ({}, {}) if cache is None else _read_cache(cache)
        self._run = secrets.token_hex(4)
        self._known_kinds: set[frozenset[str]] = set()
        self._takes_newer_name, self._takes_user = False, True
        self._hold_until = 0.0
        self.tokens, self.requests, self.failures, self.withheld, self._reservation = 0, 0, 0, 0, 0

    def completion(self, body: Json, reduce: Callable[[Json], Any], purpose: str = "") -> Any:
        """Return what `reduce` makes of the server's answer to a completion; that alone is kept, by request and purpose.

        A body with `messages` goes to the server's chat completions.

        Raises:
            ObservationError: the server does not answer within the patience, or refuses the request.
            DataError: the cap on tokens is reached.
        """
        parts = [self.settings.url, dict(body), *filter(None, [purpose])]
        key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
        is_uncached = getattr(self._local, "skips_cache", False)
        with self._lock:
            if key in self._answers and not is_uncached:
                self._local.run = getattr(self._local, "run", None) or self._earlier_runs.get(key)
                return self._answers[key]
        value = self._ask_anew(body, reduce) if is_uncached else self._ask(body, reduce)
        if not is_uncached:
            self._keep(key, value)
        return value

    @contextmanager
    def observe(self, *, skips_cache: bool = False) -> Iterator[Callable[[], str | None]]:
        """A scope of one thread; its value names the earlier run that an answer in it came from, in the cache's file; or None.

        Args:
            skips_cache: answers are neither read from the cache nor kept, and each request names another `user`, so that a
                cache of the server's does not know it either; a server that refuses the name is asked without it.
        """
        self._local.run, self._local.skips_cache = None, skips_cache
        try:
            yield lambda: self._local.run
        finally:
            self._local.skips_cache = False

    def each(self, work: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Yield number and result of each task as it is finished, with at most `in_flight` of them under way.

        After an error no other task begins; those under way are waited for, so that what they cost is kept.
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

    def _ask_anew(self, body: Json, reduce: Callable[[Json], Any]) -> Any:
        """Ask under a new `user`, which makes it another request for a cache of the server; without, if it takes none."""
        if self._takes_user:
            with suppress(RefusedRequest):
                return self._ask({**body, "user": f"audit-{secrets.token_hex(8)}"}, reduce)
        value = self._ask(body, reduce)
        self._takes_user = False
        return value

    def _ask(self, body: Json, reduce: Callable[[Json], Any]) -> Any:
        body = _with_newer_name(body) if self._takes_newer_name else body
        kind, pause_total, faults, failure, asked_pause = frozenset(body) - {"user"}, 0.0, 0, "", 0.0
        for attempt in range(10_000):
            if attempt:
                pause = max(self._draw_pause(attempt), asked_pause)
                if pause_total + pause > self.settings.patience:
                    failure += f"; the next pause of {pause:.3g} s would exceed the patience of {self.settings.patience:g} s"
                    break
                pause_total += pause
                self._sleep(pause)
            asked_pause = 0.0
            try:
                with self._reserve(_most_tokens(body)):
                    status, content, asked_pause = self._send(body)
                    if status == 200 or (status in REFUSALS and FILTER.search(content)):
                        value = reduce(self._paid_answer(status, content, _most_tokens(body)))
                        self._known_kinds.add(kind)
                        return value
                if status == 400 and NEWER_NAME in content and "max_tokens" in body:  # of chat models that think first
                    self._takes_newer_name, body = True, _with_newer_name(body)
                    continue
                error_kind = RefusedRequest if status in REFUSALS else ObservationError
                failure = f"status {status}: {self._printable(content)}"
                is_busy, is_final = status in TRANSIENT, status not in TRANSIENT and status != FAULT
            except CONNECTION as error:
                failure, is_final = f"{type(error).__name__}: {error}", False
                error_kind = UnreachableServer if isinstance(error, NOBODY) else ObservationError
                is_busy = bool(self._known_kinds)  # a server that answered before may be started again
            except BrokenAnswer as error:
                error_kind, failure, is_busy, is_final = ObservationError, str(error), False, False
            faults += not is_busy
            with self._lock:
                self.failures += 1
                self._hold_until = max(self._hold_until, time.monotonic() + min(asked_pause, self.settings.patience))
            limit = self.settings.attempts if kind in self._known_kinds else min(UNKNOWN_KIND, self.settings.attempts)
            if is_final or faults >= limit:
                break
        raise error_kind(
            f"the server at {self._host} gave no answer to a completion after {attempt + 1} attempts: {failure}. Answers in "
            "--cache are not asked for again"
        )

    def _draw_pause(self, attempt: int) -> float:
        """Return a pause before the next attempt, drawn so that requests under way do not come back together."""
        longest: float = min(self.settings.pause * 2 ** min(attempt - 1, 20), LONGEST_PAUSE)
        return longest * random.uniform(0.5, 1.0)

    def _paid_answer(self, status: int, content: bytes, budget: int) -> Json:
        """Return the object of an answer, one without text if a filter refused; its cost is counted whatever it is worth."""
        answer: Json = {}
        try:
            answer = _object(content) if status == 200 else {"choices": [{"message": {}, "finish_reason": WITHHELD}]}
        finally:
            self._account(answer, budget)
        with self._lock:
            self.withheld += is_withheld(answer)
        return answer

    def _send(self, body: Json) -> tuple[int, bytes, float]:
        """Return status, content, and the seconds that the server asks to wait."""
        hold = self._hold_until - time.monotonic()
        if hold > 0:  # a busy server told another request to wait
            self._sleep(hold * random.uniform(1.0, 1.1))
        with self._lock:
            self.requests += 1
        parts = urlsplit(self.settings.url)
        place = "chat/completions" if "messages" in body else "completions"
        path = f"{parts.path.rstrip('/')}/{place}{'?' + parts.query if parts.query else ''}"
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=self.settings.timeout)
        headers = {"Content-Type": "application/json", "Cache-Control": "no-cache"} | {
            name: os.environ[value] for name, value in self.settings.headers
        }
        if self.settings.key_variable:
            headers["Authorization"] = f"Bearer {os.environ[self.settings.key_variable]}"
        largest = ROOM + ROOM_PER_TOKEN * _most_tokens(body)
        is_cut = False
        try:
            connection.connect()
            with _deadline(connection.sock, self.settings.timeout):
                connection.request("POST", path, json.dumps(dict(body)), headers)
                response = connection.getresponse()
                is_cut = response.status == 200
                content = response.read(largest + 1)
            if len(content) > largest:
                raise ObservationError(f"the server at {self._host} answered a completion by more than {largest:,} bytes")
            if response.length:  # a body that ends early is an error only where all of it is read at once
                raise http.client.IncompleteRead(content, response.length)
            is_cut = False
        finally:
            connection.close()
            if is_cut:  # written, and so paid for
                self._account({}, _most_tokens(body))
        return response.status, content, _asked_pause(response.headers.get("Retry-After"))

    def _printable(self, content: bytes) -> str:
        """Return the beginning of what a server wrote, without the key that some repeat and without a terminal's commands."""
        text = content.decode("utf-8", "replace")
        for secret in self.settings.secrets:
            text = text.replace(secret, "***")
        return "".join(character if character.isprintable() else " " for character in text[:300])

    @property
    def _host(self) -> str:
        parts = urlsplit(self.settings.url)
        return f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)

    @contextmanager
    def _reserve(self, budget: int) -> Iterator[None]:
        """Set tokens aside for a request, or raise if the cap could be passed with those under way."""
        cap = self.settings.most_tokens
        with self._lock:
            if cap is not None and self.tokens + self._reservation + budget > cap:
                raise DataError(
                    f"the cap of {cap:,} tokens is reached after {self.requests:,} requests, those under way and the next "
                    "counted; raise --most-tokens: answers that are in the cache are not paid for again"
                )
            self._reservation += budget
        try:
            yield
        finally:
            with self._lock:
                self._reservation -= budget

    def _account(self, answer: Json, budget: int) -> None:
        usage = answer.get("usage")
        total = usage.get("total_tokens") if isinstance(usage, dict) else None
        cost = total if isinstance(total, int) and not isinstance(total, bool) and total > 0 else budget
        with self._lock:
            self.tokens += cost

    def _keep(self, key: str, value: Any) -> None:
        with self._lock:
            self._answers[key] = value
            if self._cache_file is not None:
                with self._cache_file.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"key": key, "value": value, "run": self._run}) + "\n")


def is_withheld(answer: Json) -> bool:
    """Return whether a filter of the server kept an answer's text back."""
    choices = answer.get("choices")
    return isinstance(choices, list) and any(isinstance(row, dict) and row.get("finish_reason") == WITHHELD for row in choices)


def _with_newer_name(body: Json) -> Json:
    return {NEWER_NAME.decode() if name == "max_tokens" else name: value for name, value in body.items()}


def _most_tokens(body: Json) -> int:
    """Return how many tokens a request can cost: a byte each at most, a start token and those that are written."""
    content = str(body.get("prompt", "")) + "".join(str(message) for message in body.get("messages", ()))
    return len(content.encode("utf-8", "replace")) + 1 + int(body.get("max_tokens", body.get(NEWER_NAME.decode(), 0)))


def _asked_pause(text: str | None) -> float:
    """Return the seconds of a Retry-After header, which holds a number or a moment; 0 if it holds neither."""
    if text is None:
        return 0.0
    with suppress(ValueError):
        return max(0.0, min(float(text), 1e9))
    with suppress(ValueError, TypeError, OverflowError):
        return max(0.0, (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds())
    return 0.0


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
        if content.lstrip().startswith(b"data:"):
            raise ObservationError(
                "the server streams its answers in pieces; have it answer requests without 'stream'"
            ) from error
        raise BrokenAnswer(f"the server's answer is not JSON ({error}); is this the address of its API, with /v1?") from error
    if not isinstance(value, dict):
        raise ObservationError(f"the server answered {type(value).__name__}; expected a JSON object")
    return value


def _read_cache(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the answers of a cache, and the run of each; a last line that was cut off, as by a kill, is removed."""
    answers: dict[str, Any] = {}
    runs: dict[str, str] = {}
    if not path.exists():
        return answers, runs
    lines = path.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            answers[entry["key"]], runs[entry["key"]] = entry["value"], str(entry.get("run", "unknown"))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            if number == len(lines):
                path.write_text("".join(f"{full}\n" for full in lines[:-1]), encoding="utf-8")
                break
            raise DataError(f"{path}, line {number}: no cached answer ({error}); remove the file to ask again") from error
    return answers, runs
