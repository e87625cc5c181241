"""`audit endpoint` against llama.cpp's own server and a model whose log-probabilities are known."""

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
import pytest

from audit.cli.app import answer
from audit.core.errors import ObservationError
from audit.endpoint import canary_files, next_tokens, scoring
from audit.endpoint.canary_files import TextCanary
from audit.endpoint.client import Client, ServerSettings
from tests.endpoint import tiny_llama

for library in ("xllamacpp", "gguf"):
    pytest.importorskip(library, reason=f"no llama.cpp server to test with: pip install {library}")
pytestmark = pytest.mark.slow

COINS = np.random.default_rng(5).random(90) < 0.5
CANARIES = [
    TextCanary(prefix=f"The key of box {number} is {first}", secret=second, included=bool(coin))
    for number, (first, second, coin) in enumerate(
        zip(tiny_llama.CHARACTERS, reversed(tiny_llama.CHARACTERS), COINS, strict=False)
    )
]


@pytest.fixture(scope="module")
def table() -> Any:
    """A model that knows the included secrets: they are likely behind the last character of their prefix."""
    logits = tiny_llama.random_table(seed=1)
    for canary in CANARIES:
        if canary.included:
            logits[tiny_llama.number(canary.prefix[-1]), tiny_llama.number(canary.secret)] += 20.0
    return logits


@pytest.fixture(scope="module")
def weights(table: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("llama") / "tiny.gguf"
    tiny_llama.write(place, table)
    return place


@pytest.fixture(scope="module")
def url(weights: Path) -> Iterator[str]:
    port = _free_port()
    with served(weights, port):
        yield f"http://127.0.0.1:{port}/v1"


@contextmanager
def served(weights: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    """Return the process of a running server."""
    script = Path(__file__).with_name("llama_server.py")
    command = [sys.executable, str(script), str(weights), str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            assert "ready" in process.stdout.readline()
            yield process
        finally:
            process.kill()


def test_prompts_are_not_scored_and_the_refusal_says_what_serves(url: str) -> None:
    with pytest.raises(ObservationError, match="ignores 'echo'") as refusal:
        scoring.log_probability_scores(_client(url), "tiny", CANARIES, _silent)
    assert "ignores that key" in str(refusal.value), "prompt_logprobs, too, is left out without a word"
    assert "--score next_tokens" in str(refusal.value)


def test_secrets_spelled_by_likely_tokens_have_the_model_s_own_log_probabilities(url: str, table: Any) -> None:
    client = _client(url, in_flight=64)
    values = scoring.next_token_scores(client, "tiny", CANARIES, _silent).values
    expected = [tiny_llama.log_probability(table, canary.text, len(canary.prefix)) for canary in CANARIES]
    np.testing.assert_allclose(values, expected, atol=1e-3)
    long = TextCanary(prefix="The pin is ", secret="4711 or so", included=True)
    value = next_tokens.log_probability(client, "tiny", long, next_tokens.widest(client, "tiny"))
    assert value == pytest.approx(tiny_llama.log_probability(table, long.text, len("The pin is")), abs=1e-2)


@pytest.mark.parametrize("score", ["next_tokens", "generations"])
def test_the_command_proves_an_epsilon(score: str, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    canary_files.write(CANARIES, tmp_path / "canaries.jsonl")
    command = ["endpoint", url, "--model", "tiny", "--canaries", str(tmp_path / "canaries.jsonl"), "--score", score]
    assert answer([*command, "--claim-epsilon", "1", "--delta", "1e-5", "-o", str(tmp_path / "report")]) == 1
    (mechanism,) = json.loads((tmp_path / "report" / "report.json").read_text())["mechanisms"]
    (bound,) = [bound for game in mechanism["games"] for attack in game["attacks"] for bound in attack["bounds"]]
    assert bound["epsilon"] > 2, capsys.readouterr()


def test_a_reference_that_the_server_does_not_have_is_seen(url: str) -> None:
    with pytest.raises(ObservationError, match="answers to both names"):
        scoring.next_token_scores(_client(url), "tiny", CANARIES[:4], _silent, reference="no such model")


def test_a_server_killed_half_way_loses_nothing(weights: Path, tmp_path: Path) -> None:
    port, cache, heard = _free_port(), tmp_path / "answers.jsonl", []
    address = f"http://127.0.0.1:{port}/v1"
    with served(weights, port) as process:

        def kill(steps: int) -> None:
            heard.append(steps)
            if len(heard) == 30:
                process.kill()

        with pytest.raises(ObservationError, match="gave no answer"):
            scoring.next_token_scores(_client(address, cache), "tiny", CANARIES, kill)
    kept = len(cache.read_text().splitlines())
    assert kept >= 30
    with served(weights, port):
        client = _client(address, cache)
        values = scoring.next_token_scores(client, "tiny", CANARIES, _silent).values
        whole = scoring.next_token_scores(_client(address), "tiny", CANARIES, _silent).values
    assert client.requests == len(CANARIES) + 1 - kept, "what was answered is not asked again"
    np.testing.assert_allclose(values, whole, atol=1e-4)


def test_what_the_server_answers(url: str) -> None:
    prompt = "The quick brown"
    first = {"prompt": prompt, "max_tokens": 1, "temperature": 0}
    assert _ask(url, first | {"max_tokens": 0})[1]["usage"]["completion_tokens"] == 1, "max_tokens 0 writes one token"
    assert _ask(url, first)[1]["usage"]["prompt_tokens"] == len(prompt) + 1, "a start token is counted"
    numbers = [tiny_llama.number(character) for character in prompt]
    assert _ask(url, first | {"prompt": numbers})[1]["usage"]["prompt_tokens"] == len(prompt), "token numbers: none is added"
    assert len(_ask(url, first | {"prompt": [prompt, f"{prompt} fox"]})[1]["choices"]) == 2
    status, content = _ask(url, first | {"prompt": [prompt, f"{prompt} fox"]})
    assert content["usage"]["prompt_tokens"] < 2 * len(prompt), "of a list only the first prompt is counted"
    for wrong in ({"max_tokens": "many"}, {"prompt": {"a": 1}}, {"prompt": "x" * 5000}):
        status, content = _ask(url, first | wrong)
        assert (status, content["error"]["code"]) == (400, 400), "errors of the client are not answered as 500"


def _ask(url: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    request = Request(f"{url}/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urlopen(request, timeout=60) as response:
            return response.status, json.loads(response.read())
    except HTTPError as error:
        return error.code, json.loads(error.read())


def _client(url: str, cache: Path | None = None, in_flight: int = 4) -> Client:
    return Client(ServerSettings(url=url, in_flight=in_flight), cache, sleep=lambda seconds: None)


def _silent(steps: int) -> None:
    pass


def _free_port() -> int:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return int(place.getsockname()[1])
