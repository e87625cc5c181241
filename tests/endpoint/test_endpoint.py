"""Served models: log-probabilities that cannot be believed are refused, and nothing is lost or paid for twice."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit.cli.app import answer
from audit.core.errors import ConfigError, DataError, ObservationError
from audit.core.seeds import Seed
from audit.endpoint import canary_files, canary_law, next_tokens, scoring
from audit.endpoint.canary_files import TextCanary
from audit.endpoint.client import Client, ServerSettings
from audit.endpoint.probe import PLAIN, probe
from audit.endpoint.token_scores import ask
from tests.endpoint.stub import Stub, TinyModel, served

CANARIES = canary_law.digit_canaries(60, Seed(2))
KNOWN = tuple(canary.text for canary in CANARIES if canary.included)


def client_of(server: Stub, cache: Path | None = None, **options: Any) -> Client:
    return Client(ServerSettings(url=server.url, **options), cache, sleep=lambda seconds: None)


def silent(steps: int) -> None:
    pass


@pytest.mark.parametrize(("mode", "way"), [("good", "echo"), ("vllm", "prompt_logprobs")])
def test_a_good_server_gives_the_model_s_own_values(mode: str, way: str) -> None:
    with served(mode, KNOWN) as server:
        client = client_of(server)
        assert probe(client, "m").way == way
        scores = ask(client, way, "m", PLAIN)
        assert scores.text == PLAIN
        np.testing.assert_allclose(scores.log_probabilities[1:], TinyModel(KNOWN).log_probabilities(PLAIN)[1:], atol=1e-12)
        canary = CANARIES[3]
        own = TinyModel(KNOWN).log_probabilities(canary.text)[len(canary.prefix) :]
        expected = sum(value for value in own if value is not None)
        assert ask(client, way, "m", canary.text).from_character(len(canary.prefix)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("generated_only", "returns generated tokens only"),
        ("no_echo", "has no log-probabilities"),
        ("bos_shift", "wrong tokens"),
        ("clamped", "clamped"),
        ("rounded", "rounded"),
    ],
)
def test_values_that_cannot_be_believed_are_refused(mode: str, message: str) -> None:
    with served(mode, KNOWN) as server, pytest.raises(ObservationError, match=message) as refusal:
        scoring.log_probability_scores(client_of(server), "m", CANARIES, silent)
    assert "--score generations" in str(refusal.value)


@pytest.mark.parametrize("mode", ["good", "generated_only", "no_echo", "clamped"])
def test_generations_tell_members_on_any_server(mode: str) -> None:
    with served(mode, KNOWN) as server:
        values = scoring.generation_scores(client_of(server), "m", CANARIES, silent).values
    coins = np.array([canary.included for canary in CANARIES])
    assert values[coins].min() == 1.0 and values[~coins].max() < 0.5


def test_64_requests_in_flight_and_no_more() -> None:
    canaries = canary_law.digit_canaries(200, Seed(3), digits=6)
    with served("good", tuple(canary.text for canary in canaries[:5])) as server:
        server.delay = 0.05
        values = scoring.log_probability_scores(client_of(server, in_flight=64), "m", canaries, silent).values
        assert 8 < server.most_at_once <= 64
    assert values[:5].min() > values[5:].max(), "no answer went to another request"


def test_a_server_that_dies_half_way_loses_nothing(tmp_path: Path) -> None:
    cache = tmp_path / "answers.jsonl"
    with served("good", KNOWN) as server:
        full = scoring.log_probability_scores(client_of(server), "m", CANARIES, silent).values
        server.answers, server.dies_after = 0, 30
        with pytest.raises(ObservationError, match="gave no answer"):
            scoring.log_probability_scores(client_of(server, cache, in_flight=4), "m", CANARIES, silent)
        retained = len(cache.read_text().splitlines())
        assert retained == 30
        with cache.open("a") as file:
            file.write('{"key": "cut o')  # as a kill leaves it
        server.dies_after, server.answers = None, 0
        resumed = scoring.log_probability_scores(client_of(server, cache, in_flight=4), "m", CANARIES, silent).values
        assert server.answers == 64 - 30, "60 canaries and 4 probes, without what was answered before"
        again = scoring.log_probability_scores(client_of(server, cache), "m", CANARIES, silent).values
        assert server.answers == 64 - 30, "a finished cache asks for nothing"
    np.testing.assert_array_equal(full, resumed)
    np.testing.assert_array_equal(full, again)


def test_busy_servers_are_asked_again_with_growing_pauses() -> None:
    pauses: list[float] = []
    with served() as server:
        server.statuses = [429, 503, 502]
        Client(ServerSettings(url=server.url, pause=0.5), sleep=pauses.append).completion(
            {"prompt": "ab", "max_tokens": 1}, dict
        )
        assert pauses == [0.5, 1.0, 2.0]


@pytest.mark.parametrize(("status", "requests"), [(400, 1), (401, 1), (404, 1), (500, 2)])
def test_a_wrong_request_is_not_repeated_for_ever(status: int, requests: int) -> None:
    with served() as server:
        server.statuses = [status] * 10
        with pytest.raises(ObservationError, match=f"status {status}"):
            client_of(server).completion({"prompt": "ab", "max_tokens": 1}, dict)
        assert len(server.headers) == requests


def test_a_cap_on_tokens_holds(tmp_path: Path) -> None:
    cache = tmp_path / "answers.jsonl"
    with served("good", KNOWN) as server:
        client = client_of(server, cache, most_tokens=600, in_flight=8)
        with pytest.raises(DataError, match=r"cap of 600 tokens is reached after \d+ requests"):
            scoring.log_probability_scores(client, "m", CANARIES, silent)
        assert 300 < client.tokens <= 600, "requests under way are counted before they are paid for"
        assert len(cache.read_text().splitlines()) == client.requests


def test_a_key_is_sent_and_never_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_KEY", "very-secret-key")
    cache = tmp_path / "answers.jsonl"
    with served() as server:
        client = client_of(server, cache, key_variable="SERVER_KEY")
        client.completion({"prompt": "ab", "max_tokens": 1}, dict)
        assert server.headers[0]["Authorization"] == "Bearer very-secret-key"
        server.statuses = [401]
        with pytest.raises(ObservationError) as refusal:
            client.completion({"prompt": "abc", "max_tokens": 1}, dict)
    assert "very-secret" not in str(refusal.value) + cache.read_text() + repr(client.settings)
    monkeypatch.delenv("SERVER_KEY")
    with pytest.raises(ConfigError, match="no variable SERVER_KEY"):
        replace(client.settings, timeout=1.0)
    with pytest.raises(ConfigError, match="holds a key") as refusal_of_url:
        ServerSettings(url="http://user:very-secret@host/v1")
    assert "very-secret" not in str(refusal_of_url.value)


def test_a_difference_to_the_model_before_training() -> None:
    coins = np.array([canary.included for canary in CANARIES])
    with served("good", KNOWN) as server:
        alone = scoring.log_probability_scores(client_of(server), "m", CANARIES, silent).values
        before = scoring.log_probability_scores(client_of(server), "base", CANARIES, silent).values
        difference = scoring.log_probability_scores(client_of(server), "m", CANARIES, silent, reference="base").values
        with pytest.raises(ObservationError, match="answers to both names"):
            scoring.log_probability_scores(client_of(server), "m", CANARIES, silent, reference="unknown")
    np.testing.assert_allclose(difference, alone - before)
    assert np.all(difference[~coins] == 0) and difference[coins].min() > 1


@pytest.mark.parametrize("mode", ["lists_as_chat", "lists_as_completions"])
def test_secrets_are_spelled_by_lists_of_likely_tokens(mode: str) -> None:
    canaries = CANARIES[:10]
    coins = np.array([canary.included for canary in canaries])
    with served(mode, KNOWN) as server:
        client = client_of(server, in_flight=8)
        width = next_tokens.widest(client, "m")
        values = scoring.next_token_scores(client, "m", canaries, silent).values
        with pytest.raises(ObservationError, match="generated tokens"):
            probe(client, "m")
    assert width == 1000 and values[coins].min() > values[~coins].max()
    canary = next(canary for canary in canaries if canary.included)
    own = TinyModel(KNOWN).log_probabilities(canary.text)[len(canary.prefix) - 1 :]
    assert values[canaries.index(canary)] == pytest.approx(sum(value for value in own if value is not None))


def test_two_secrets_behind_one_prefix_keep_their_own_answers() -> None:
    with served("lists_as_chat", ("ab cd",)) as server:
        client = client_of(server)
        likely, unlikely = (TextCanary(prefix="ab ", secret=secret, included=True) for secret in ("cd", "~~"))
        first, second = (next_tokens.log_probability(client, "m", canary, 1000) for canary in (likely, unlikely))
        assert first > second
        assert [next_tokens.log_probability(client, "m", canary, 1000) for canary in (unlikely, likely)] == [second, first]


def test_canaries_survive_a_file_and_are_committed_to(tmp_path: Path) -> None:
    canary_files.write(CANARIES, tmp_path / "canaries.jsonl")
    assert canary_files.read(tmp_path / "canaries.jsonl") == CANARIES
    peer = [*CANARIES[:-1], replace(CANARIES[-1], included=not CANARIES[-1].included)]
    assert (
        len(
            {
                canary_files.commitment(CANARIES, "a"),
                canary_files.commitment(peer, "a"),
                canary_files.commitment(CANARIES, "b"),
            }
        )
        == 3
    )
    for content, message in (
        ('{"prefix": "a", "secret": "b"}', "line 1: expected"),
        ("not json", "line 1: no JSON"),
        ('{"prefix": "a", "secret": "b", "included": true}', "of one side"),
    ):
        (tmp_path / "bad.jsonl").write_text(content)
        with pytest.raises(DataError, match=message):
            canary_files.read(tmp_path / "bad.jsonl")


def test_a_canaries_file_that_is_no_text_is_refused_by_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "binary").write_bytes(b'{"prefix": "\xff"}')
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name, message in (("missing", "no file"), ("binary", "not UTF-8"), ("pipe", "it is a pipe"), ("folder", "cannot read")):
        with pytest.raises(DataError, match=message):
            canary_files.read(tmp_path / name)
        command = ["endpoint", "http://127.0.0.1:9", "--model", "m", "--canaries", str(tmp_path / name)]
        assert answer(command) == 2, capsys.readouterr()


def test_a_canary_that_is_no_unicode_text_is_refused(tmp_path: Path) -> None:
    line = {"prefix": "a", "secret": "\ud800", "included": True}
    (tmp_path / "halves.jsonl").write_text(f"{json.dumps(line)}\n{json.dumps(line | {'included': False})}\n")
    with pytest.raises(DataError, match=r"line 1: .* half a character"):
        canary_files.read(tmp_path / "halves.jsonl")


def test_the_command_proves_an_epsilon(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    canary_files.write(CANARIES, tmp_path / "canaries.jsonl")
    with served("good", KNOWN) as server:
        arguments = ["endpoint", server.url, "--model", "m", "--canaries", str(tmp_path / "canaries.jsonl"), "--json"]
        assert answer([*arguments, "--claim-epsilon", "1"]) == 1
        result = json.loads(capsys.readouterr().out)
        assert max(_numbers(result, "epsilon")) > 2
    with served("rounded", KNOWN) as server:
        arguments[1] = server.url
        assert answer(arguments) == 3
    assert re.search("rounded", capsys.readouterr().err)


def _numbers(value: Any, key: str) -> list[float]:
    if isinstance(value, dict):
        own = [value[key]] if isinstance(value.get(key), int | float) else []
        return own + [number for part in value.values() for number in _numbers(part, key)]
    return [number for part in value for number in _numbers(part, key)] if isinstance(value, list) else []


def test_a_token_that_spans_the_prefix_counts_with_the_secret() -> None:
    from audit.endpoint.token_scores import TokenScores

    scores = TokenScores(tokens=("ab", "cd", "ef"), log_probabilities=(None, -1.0, -2.0), new_tokens=0)
    assert scores.from_character(3) == -3.0 and scores.from_character(4) == -2.0
    with pytest.raises(ObservationError, match="no finite"):
        scores.from_character(1)


def test_canaries_have_a_coin_each() -> None:
    canaries = canary_law.digit_canaries(4000, Seed(9))
    assert abs(np.mean([canary.included for canary in canaries]) - 0.5) < 0.04
    assert len({canary.text for canary in canaries}) == 4000
    assert isinstance(canaries[0], TextCanary)


@pytest.mark.parametrize("differ", [True, False])
def test_without_coins_no_epsilon_and_texts_that_differ_are_seen(
    differ: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    random = np.random.default_rng(3)
    words = np.array(["ash", "bay", "cup", "dew", "elm", "fog", "gum", "hay", "ice", "jam"])
    texts = []
    for number in range(80):
        sides = words[:5] if differ and number % 2 else words[5:] if differ else words
        texts.append(TextCanary(prefix="in ", secret=" ".join(random.choice(sides, 8)), included=bool(number % 2)))
    canary_files.write(texts, tmp_path / "texts.jsonl")
    with served("good") as server:
        arguments = [
            "endpoint",
            server.url,
            "--model",
            "m",
            "--canaries",
            str(tmp_path / "texts.jsonl"),
            "--no-coins",
            "--json",
        ]
        answer([*arguments, "-o", str(tmp_path / "report")])
    capsys.readouterr()
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    assert not _bounds(report), "a split that somebody chose proves no epsilon"
    blind = next(check for check in _checks(report) if check["code"] == "blind")
    assert blind["status"] == ("failed" if differ else "checked")


def _bounds(report: Any) -> list[Any]:
    games = [game for mechanism in report["mechanisms"] for game in mechanism["games"]]
    return [bound for game in games for attack in game["attacks"] for bound in attack["bounds"]]


def _checks(report: Any) -> list[Any]:
    return [check for mechanism in report["mechanisms"] for check in mechanism["checks"]]
