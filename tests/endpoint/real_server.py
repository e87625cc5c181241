"""What the tests of real servers share: canaries that a tiny model knows, a running server, and requests to it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
from numpy.typing import NDArray

from audit.endpoint.canary_files import TextCanary
from audit.endpoint.client import Client
from audit.endpoint.server_settings import ServerSettings
from tests.endpoint import tiny_llama

COINS = np.random.default_rng(5).random(90) < 0.5
CANARIES = [
    TextCanary(prefix=f"The key of box {number} is {first}", secret=second, included=bool(coin))
    for number, (first, second, coin) in enumerate(
        zip(tiny_llama.CHARACTERS, reversed(tiny_llama.CHARACTERS), COINS, strict=False)
    )
]


def trained_table() -> NDArray[np.float64]:
    """A model that knows the included secrets: they are likely behind the last character of their prefix."""
    logits = tiny_llama.random_table(seed=1)
    for canary in CANARIES:
        if canary.included:
            logits[tiny_llama.number(canary.prefix[-1]), tiny_llama.number(canary.secret)] += 20.0
    return logits


@contextmanager
def served(script: str, weights: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    """Return the process of a running server; the script of this folder says "ready" when it answers."""
    command = [sys.executable, str(Path(__file__).with_name(script)), str(weights), str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            assert "ready" in process.stdout.readline()
            yield process
        finally:
            process.kill()


def ask(url: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Return status and content of an answer."""
    request = Request(f"{url}/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urlopen(request, timeout=60) as response:
            return response.status, json.loads(response.read())
    except HTTPError as error:
        return error.code, json.loads(error.read())


def client(url: str, cache: Path | None = None, in_flight: int = 4) -> Client:
    """Return a client that does not wait between attempts."""
    return Client(ServerSettings(url=url, in_flight=in_flight), cache, sleep=lambda seconds: None)


def silent(steps: int) -> None:
    """Say nothing of progress."""


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return int(place.getsockname()[1])
