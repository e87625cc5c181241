"""`audit endpoint` against llama.cpp's own server and a model with known log-probabilities."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit.cli.app import answer
from audit.core.errors import ObservationError
from audit.endpoint import canary_files, scoring
from audit.endpoint.canary_files import TextCanary
from tests.endpoint import tiny_llama
from tests.endpoint.real_server import CANARIES, ask, client, free_port, served, silent, trained_table

for library in ("xllamacpp", "gguf"):
    pytest.importorskip(library, reason=f"no llama.cpp server to test with: pip install {library}")
pytestmark = pytest.mark.slow

SERVER = "llama_server.py"


@pytest.fixture(scope="module")
def table() -> Any:
    return trained_table()


@pytest.fixture(scope="module")
def weights(table: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("llama") / "tiny.gguf"
    tiny_llama.write(place, table)
    return place


@pytest.fixture(scope="module")
def url(weights: Path) -> Iterator[str]:
    port = free_port()
    with served(SERVER, weights, port):
        yield f"http://127.0.0.1:{port}/v1"


def test_prompts_are_not_scored_and_the_refusal_says_what_serves(url: str) -> None:
    with pytest.raises(ObservationError, match="ignores 'echo'") as refusal:
        scoring.served_scores(client(url), ("tiny", ""), CANARIES, silent, "log_probabilities")
    assert "ignores that key" in str(refusal.value), "prompt_logprobs, too, is left out without a word"
    assert "--score next_tokens" in str(refusal.value)


def test_secrets_spelled_by_likely_tokens_have_the_model_s_own_log_probabilities(url: str, table: Any) -> None:
    connection = client(url, in_flight=64)
    values = scoring.served_scores(connection, ("tiny", ""), CANARIES, silent, "next_tokens").values
    expected = [tiny_llama.log_probability(table, canary.text, len(canary.prefix)) for canary in CANARIES]
    np.testing.assert_allclose(values, expected, atol=1e-3)
    long = TextCanary(prefix="The pin is ", secret="4711 or so", included=True)
    value = scoring.log_probability(connection, "tiny", long, scoring.widest(connection, "tiny"))
    assert value == pytest.approx(tiny_llama.log_probability(table, long.text, len("The pin is")), abs=1e-2)


@pytest.mark.parametrize("score", ["next_tokens", "generations"])
def test_the_command_proves_an_epsilon(score: str, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    canary_files.write(CANARIES, tmp_path / "canaries.jsonl")
    command = ["endpoint", url, "--model", "tiny", "--canaries", str(tmp_path / "canaries.jsonl"), "--score", score]
    assert answer([*command, "--coins", "--claim-epsilon", "1", "--delta", "1e-5", "-o", str(tmp_path / "report")]) == 1
    (mechanism,) = json.loads((tmp_path / "report" / "report.json").read_text())["mechanisms"]
    (bound,) = [bound for game in mechanism["games"] for attack in game["attacks"] for bound in attack["bounds"]]
    assert bound["epsilon"] > 2, capsys.readouterr()


def test_a_reference_that_the_server_does_not_have_is_seen(url: str) -> None:
    with pytest.raises(ObservationError, match="answers to both names"):
        scoring.served_scores(client(url), ("tiny", "no such model"), CANARIES[:4], silent, "next_tokens")


def test_a_server_killed_half_way_loses_nothing(weights: Path, tmp_path: Path) -> None:
    port, cache, heard = free_port(), tmp_path / "answers.jsonl", []
    address = f"http://127.0.0.1:{port}/v1"
    with served(SERVER, weights, port) as process:

        def kill(steps: int) -> None:
            heard.append(steps)
            if len(heard) == 30:
                process.kill()

        with pytest.raises(ObservationError, match="gave no answer"):
            scoring.served_scores(client(address, cache), ("tiny", ""), CANARIES, kill, "next_tokens")
    retained = len(cache.read_text().splitlines())
    assert retained >= 20
    with served(SERVER, weights, port):
        connection = client(address, cache)
        values = scoring.served_scores(connection, ("tiny", ""), CANARIES, silent, "next_tokens").values
        full = scoring.served_scores(client(address), ("tiny", ""), CANARIES, silent, "next_tokens").values
    assert connection.requests <= len(CANARIES) + 1 + 48 - retained, "what was answered is not asked again"
    np.testing.assert_allclose(values, full, atol=1e-4)


def test_what_the_server_answers(url: str) -> None:
    prompt = "The quick brown"
    first = {"prompt": prompt, "max_tokens": 1, "temperature": 0}
    assert ask(url, first | {"max_tokens": 0})[1]["usage"]["completion_tokens"] == 1, "max_tokens 0 writes one token"
    assert ask(url, first)[1]["usage"]["prompt_tokens"] == len(prompt) + 1, "a start token is counted"
    numbers = [tiny_llama.number(character) for character in prompt]
    assert ask(url, first | {"prompt": numbers})[1]["usage"]["prompt_tokens"] == len(prompt), "token numbers: none is added"
    assert len(ask(url, first | {"prompt": [prompt, f"{prompt} fox"]})[1]["choices"]) == 2
    status, content = ask(url, first | {"prompt": [prompt, f"{prompt} fox"]})
    assert content["usage"]["prompt_tokens"] < 2 * len(prompt), "of a list only the first prompt is counted"
    for wrong in ({"max_tokens": "many"}, {"prompt": {"a": 1}}, {"prompt": "x" * 5000}):
        status, content = ask(url, first | wrong)
        assert (status, content["error"]["code"]) == (400, 400), "errors of the client are not answered as 500"
