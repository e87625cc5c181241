"""`audit endpoint` against the server of `llama-cpp-python`, which gives the log-probabilities of prompts."""

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
from audit.endpoint.probe import probe
from tests.endpoint import tiny_llama
from tests.endpoint.real_server import CANARIES, ask, client, free_port, served, silent, trained_table

for library in ("llama_cpp", "llama_cpp.server.app", "gguf"):
    pytest.importorskip(library, reason="no server to test with: pip install 'llama-cpp-python[server]' gguf")
pytestmark = pytest.mark.slow

SERVER = "llama_cpp_python_server.py"


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


def test_prompts_have_the_model_s_own_log_probabilities(url: str, table: Any) -> None:
    assert probe(client(url), "tiny").way == "echo"
    values = scoring.served_scores(client(url, in_flight=64), ("tiny", ""), CANARIES, silent, "log_probabilities").values
    expected = [tiny_llama.log_probability(table, canary.text, len(canary.prefix)) for canary in CANARIES]
    np.testing.assert_allclose(values, expected, atol=1e-3)


def test_of_equal_texts_the_server_lists_the_least_likely(url: str, table: Any) -> None:
    """A letter and its byte have one text, and its lists of likely tokens keep one value for a text: the last one's."""
    values = scoring.served_scores(client(url, in_flight=64), ("tiny", ""), CANARIES, silent, "next_tokens").values
    expected = np.array([tiny_llama.log_probability(table, canary.text, len(canary.prefix)) for canary in CANARIES])
    included = np.array([canary.included for canary in CANARIES])
    np.testing.assert_allclose(values[included], expected[included], atol=1e-3, err_msg="the token that it writes is right")
    assert np.all(values[~included] < expected[~included] + 1e-3)


@pytest.mark.parametrize("score", ["log_probabilities", "next_tokens", "generations"])
def test_the_command_proves_an_epsilon(score: str, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    canary_files.write(CANARIES, tmp_path / "canaries.jsonl")
    command = ["endpoint", url, "--model", "tiny", "--canaries", str(tmp_path / "canaries.jsonl"), "--score", score]
    assert answer([*command, "--coins", "--claim-epsilon", "1", "--delta", "1e-5", "-o", str(tmp_path / "report")]) == 1
    (mechanism,) = json.loads((tmp_path / "report" / "report.json").read_text())["mechanisms"]
    (bound,) = [bound for game in mechanism["games"] for attack in game["attacks"] for bound in attack["bounds"]]
    assert bound["epsilon"] > 2, capsys.readouterr()


def test_a_reference_that_the_server_does_not_have_is_seen(url: str) -> None:
    with pytest.raises(ObservationError, match="answers to both names"):
        scoring.served_scores(client(url), ("tiny", "no such model"), CANARIES[:4], silent, "log_probabilities")


def test_a_server_killed_half_way_loses_nothing(weights: Path, tmp_path: Path) -> None:
    port, cache, heard = free_port(), tmp_path / "answers.jsonl", []
    address = f"http://127.0.0.1:{port}/v1"
    with served(SERVER, weights, port) as process:

        def kill(steps: int) -> None:
            heard.append(steps)
            if len(heard) == 30:
                process.kill()

        with pytest.raises(ObservationError, match="gave no answer"):
            scoring.served_scores(client(address, cache), ("tiny", ""), CANARIES, kill, "log_probabilities")
    retained = len(cache.read_text().splitlines())
    assert retained >= 20
    with served(SERVER, weights, port):
        again = client(address, cache)
        values = scoring.served_scores(again, ("tiny", ""), CANARIES, silent, "log_probabilities").values
        entire = client(address)
        expected = scoring.served_scores(entire, ("tiny", ""), CANARIES, silent, "log_probabilities").values
    assert again.requests == entire.requests - retained, "what was answered is not asked again"
    np.testing.assert_allclose(values, expected, atol=1e-4)


def test_what_the_server_answers(url: str) -> None:
    prompt = "The quick brown"
    first = {"prompt": prompt, "max_tokens": 1, "temperature": 0}
    assert ask(url, first)[1]["usage"]["prompt_tokens"] == len(prompt) + 1, "a start token is counted"
    echo = ask(url, first | {"echo": True, "logprobs": 1})[1]["choices"][0]["logprobs"]
    assert "".join(echo["tokens"][: len(prompt)]) == prompt and len(echo["tokens"]) == len(prompt) + 1, "and not listed"
    assert echo["token_logprobs"][0] is None and None not in echo["token_logprobs"][1:]
    assert ask(url, first | {"max_tokens": 0})[1]["usage"]["completion_tokens"] == 512 - 16, "max_tokens 0 fills the context"
    assert "prompt_logprobs" not in ask(url, first | {"prompt_logprobs": 0})[1]["choices"][0], "ignored without a word"
    assert ask(url, first | {"model": "no such model"})[0] == 200
    numbers = [tiny_llama.number(character) for character in prompt]
    for refused in ({"prompt": numbers}, {"prompt": [prompt, f"{prompt} fox"]}, {"max_tokens": "many"}):
        assert ask(url, first | refused)[0] == 500, "errors of the client are answered as those of the server"
    assert ask(url, first | {"prompt": "x" * 5000})[0] == 400
