"""Served models: log-probabilities that cannot be believed are refused, and nothing is lost or paid for twice."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit.cli.app import answer
from audit.core.errors import ConfigError, DataError, ObservationError
from audit.core.seeds import Seed
from audit.endpoint import canary_files, canary_law, scoring, sealed_scoring
from audit.endpoint.canary_files import TextCanary
from audit.endpoint.client import Client
from audit.endpoint.probe import PLAIN, probe
from audit.endpoint.sealed_scoring import Repeat, judge_repeats
from audit.endpoint.server_settings import ServerSettings
from audit.endpoint.token_scores import ask
from audit.experiment.external.canary_scores import CoinKnowledge, examine_canaries
from audit.experiment.external.inspection import Settings
from tests.endpoint.stub import Stub, TinyModel, served

CANARIES = canary_law.digit_canaries(60, Seed(2))
KNOWN = tuple(canary.text for canary in CANARIES if canary.included)


@pytest.fixture(autouse=True)
def _same_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealed_scoring, "new_seed", lambda: 7)  # one in eighty draws misses another model


def client_of(server: Stub, cache: Path | None = None, **options: Any) -> Client:
    return Client(ServerSettings(url=server.url, **options), cache, sleep=lambda seconds: None)


def silent(steps: int) -> None:
    pass


def scores(client: Client, rule: str = "log_probabilities", canaries: list[TextCanary] = CANARIES, reference: str = "") -> Any:
    return scoring.served_scores(client, ("m", reference), canaries, silent, rule).values


@pytest.mark.parametrize(("mode", "way"), [("good", "echo"), ("vllm", "prompt_logprobs")])
def test_a_good_server_gives_the_model_s_own_values(mode: str, way: str) -> None:
    with served(mode, KNOWN) as server:
        client = client_of(server)
        assert probe(client, "m").way == way
        scores = ask(client, way, "m", PLAIN)
        assert scores.text == PLAIN
        np.testing.assert_allclose(scores.log_probabilities[1:], TinyModel(KNOWN).log_probabilities(PLAIN)[1:], atol=1e-12)
        canary = CANARIES[3]
        values = TinyModel(KNOWN).log_probabilities(canary.text)[len(canary.prefix) :]
        expected = sum(value for value in values if value is not None)
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
        scores(client_of(server))
    assert "--score generations" in str(refusal.value)


# the tokens of "é中: 12" that a server lists, with what it wrote behind them, and what they are read as
PIECES: dict[str, tuple[list[str], list[str]]] = {
    "signs": (["é", "\ufffd", "\ufffd", ":", " 1", "2", "\ufffd"], ["é", "中", ":", " 1", "2"]),
    "nothing": (["", "é", "", "", ":", " 1", "2", ""], ["é", "中", ":", " 1", "2"]),
    "the last piece": (["é", "", "中", ":", " 1", "2", "x"], ["é", "中", ":", " 1", "2"]),
    "bytes": (["é", r"bytes:\xe4\xb8", r"bytes:\xad", ":", " 1", "2", "x"], ["é", "中", ":", " 1", "2"]),
    "two at once": (["\ufffd", "\ufffd:", " 1", "2", "x"], ["é中:", " 1", "2"]),
}


@pytest.mark.parametrize(("listed", "expected"), PIECES.values(), ids=PIECES)
@pytest.mark.parametrize("mode", ["good", "vllm"])
def test_pieces_of_a_character_are_one_token(listed: list[str], expected: list[str], mode: str) -> None:
    def write(answer: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
        rows = listed[:-1] if mode == "vllm" else listed
        logs = {"tokens": rows, "token_logprobs": [-1.0] * len(rows)}
        entries = [{"1": {"logprob": -1.0, "decoded_token": token}} for token in rows]
        return {"choices": [{"logprobs": logs, "prompt_logprobs": [None, *entries]}]}

    with served() as server:
        server.reshape = write
        result = ask(client_of(server), "prompt_logprobs" if mode == "vllm" else "echo", "m", "é中: 12")
    assert result.tokens == tuple(expected)
    assert result.from_character(len("é中: ")) == -2
    assert result.from_character(0) == 1 - len(listed), "no piece is lost, and what the server wrote does not count"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mode", ["good", "generated_only", "no_echo", "clamped"])
def test_generations_tell_members_on_any_server(mode: str) -> None:
    with served(mode, KNOWN) as server:
        values = scores(client_of(server), "generations")
    coins = np.array([canary.included for canary in CANARIES])
    assert values[coins].min() == 1.0 and values[~coins].max() < 0.5


def test_a_wrong_first_token_hides_nothing_of_what_a_model_writes_behind_it() -> None:
    def lose(answer: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
        if body["prompt"].endswith(" is"):
            answer["choices"][0]["text"] = "is not known"
        return answer

    with served("good", KNOWN) as server:
        server.reshape = lose
        values = scores(client_of(server), "generations")
    coins = np.array([canary.included for canary in CANARIES])
    assert values[coins].min() == 1.0 and values[~coins].max() < 0.5


@pytest.mark.slow
def test_64_requests_in_flight_and_no_more() -> None:
    canaries = canary_law.digit_canaries(100, Seed(3), digits=6)
    with served("good", tuple(canary.text for canary in canaries[:5])) as server:
        server.delay = 0.05
        values = scores(client_of(server, in_flight=64), canaries=canaries)
        assert 8 < server.most_at_once <= 64
    assert values[:5].min() > values[5:].max(), "no answer went to another request"


@pytest.mark.slow
def test_a_server_that_dies_half_way_loses_nothing(tmp_path: Path) -> None:
    cache = tmp_path / "answers.jsonl"
    with served("good", KNOWN) as server:
        full = scores(client_of(server))
        server.answers, server.dies_after = 0, 35
        with pytest.raises(ObservationError, match="gave no answer"):
            scores(client_of(server, cache, in_flight=4))
        retained = len(cache.read_text().splitlines())
        assert 20 <= retained <= 30, "all answers but those that are asked again without the cache"
        with cache.open("a") as file:
            file.write('{"key": "cut o')  # as a kill leaves it
        server.dies_after, server.answers = None, 0
        resumed = scores(client_of(server, cache, in_flight=4))
        assert server.answers <= 5 + 60 + 48 + 16 - retained, "probes, canaries, those asked again, 16 of the earlier run"
        server.answers = 0
        again = scoring.served_scores(client_of(server, cache), ("m", ""), CANARIES, silent)
        assert server.answers == 69, "5 probes, 16 canaries three times each, and once until 16 of either run are asked again"
        assert any("60 of 60 (100%)" in remark for remark in again.remarks)
    np.testing.assert_array_equal(full, resumed)
    np.testing.assert_array_equal(full, again.values)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["log_probabilities", "next_tokens", "generations", "samples"])
def test_a_cache_of_another_model_convicts_nobody(rule: str, tmp_path: Path) -> None:
    cache, canaries = tmp_path / "answers.jsonl", CANARIES[:24]
    with served("lists_as_completions" if rule == "next_tokens" else "good", KNOWN) as server:
        scores(client_of(server, cache), rule, canaries)
        server.model = TinyModel()
        with pytest.raises(ObservationError, match=r"cache holds answers of another|about the same canaries"):
            scores(client_of(server, cache), rule, canaries)
        url = server.url
    with pytest.raises(ObservationError, match="gave no answer"):
        scores(Client(ServerSettings(url=url), cache, sleep=lambda seconds: None), rule, canaries)


def test_each_earlier_run_in_a_cache_is_asked_about(tmp_path: Path) -> None:
    cache, asked = tmp_path / "answers.jsonl", list[str]()

    def stop(steps: int) -> None:
        if len(cache.read_text().splitlines()) > 11:
            raise KeyboardInterrupt

    with served("good", KNOWN) as server:
        server.reshape = lambda answer, body: asked.append(body["prompt"]) or answer
        with pytest.raises(KeyboardInterrupt):
            scoring.served_scores(client_of(server, cache, in_flight=1), ("m", ""), CANARIES, stop)
        earlier = {canary.text for canary in CANARIES} & set(asked)
        asked.clear()
        scores(client_of(server, cache))
        assert len(earlier) > 11
        assert all(any(prompt.startswith(text) for prompt in asked) for text in earlier)


def test_one_slip_of_a_server_is_no_cache_of_another_model() -> None:
    rows = [Repeat(model="m", canary=number, time=time, value=0.25) for number in range(16) for time in range(-1, 3)]
    assert judge_repeats([replace(rows[0], value=0.5), *rows[1:]]) == 0
    with pytest.raises(ObservationError, match="cache holds answers of another"):
        judge_repeats([replace(row, value=0.5) if row.time < 0 and row.canary < 8 else row for row in rows])


def test_a_cached_probe_says_nothing_of_the_server_that_answers_now(tmp_path: Path) -> None:
    cache = tmp_path / "answers.jsonl"
    with served("good", KNOWN) as server:
        probe(client_of(server, cache), "m")
        server.mode = "clamped"
        with pytest.raises(ObservationError, match="clamped"):
            scores(client_of(server, cache))


def test_a_cache_of_the_server_s_own_hides_no_other_model() -> None:
    answers: dict[str, Any] = {}
    with served("good", KNOWN) as server:
        server.reshape = lambda answer, body: answers.setdefault(json.dumps(body, sort_keys=True), answer)
        scores(client_of(server))
        server.model = TinyModel()
        with pytest.raises(ObservationError, match="about the same canaries changed"):
            scores(client_of(server))
        server.model = TinyModel(KNOWN)
        server.reshape = lambda answer, body: answers.setdefault(body["prompt"], answer)
        scores(client_of(server))
        server.model = TinyModel()
        with pytest.raises(ObservationError, match="about the same canaries changed"):
            scores(client_of(server))
        server.model = TinyModel(KNOWN)
        server.reshape = lambda answer, body: answer if "user" not in body else "'user' is not permitted"
        assert len(scores(client_of(server))) == len(CANARIES)


LEFT_OUT = tuple(canary.text for canary in CANARIES if not canary.included)


@pytest.mark.parametrize("others", [(), LEFT_OUT], ids=["untrained", "trained on the others"])
@pytest.mark.parametrize("is_back", [lambda asked: asked < 100, lambda asked: asked % 2], ids=["replaced", "two at once"])
def test_answers_of_two_models_are_found(others: tuple[str, ...], is_back: Callable[[int], bool]) -> None:
    class Swapped(TinyModel):
        asked = 0

        def log_probabilities(self, text: str) -> list[float | None]:
            self.asked += 1
            self.know(KNOWN if is_back(self.asked) else others)
            return super().log_probabilities(text)

    with served("good") as server:
        server.model = Swapped(KNOWN)
        with pytest.raises(ObservationError, match=r"about the same canaries changed|differ by up to .* nats"):
            scores(client_of(server, in_flight=1))


@pytest.mark.slow
def test_a_server_that_drifts_proves_nothing_of_a_sorted_file() -> None:
    canaries = sorted(CANARIES, key=lambda canary: not canary.included)
    with served("good") as server:
        server.drift = 0.00005
        values = scores(client_of(server), canaries=canaries)  # drift that is too small to be refused
        assert abs(np.corrcoef(np.argsort(np.argsort(values)), np.arange(60))[0, 1]) < 0.5, "the order is random"
        server.drift = 0.02
        with pytest.raises(ObservationError, match=r"changed|differ by"):
            scores(client_of(server), canaries=canaries)


def test_noise_is_called_noise_and_scored() -> None:
    coins = np.array([canary.included for canary in CANARIES])
    with served("good", KNOWN) as server:
        server.noise = 0.02
        result = scoring.served_scores(client_of(server), ("m", ""), CANARIES, silent)
        assert any("noise: scores stay valid" in remark for remark in result.remarks)
        assert result.values[coins].min() > result.values[~coins].max()
        server.noise = 2.0
        with pytest.raises(ObservationError, match="noise, or an order of computing"):
            scores(client_of(server))


def test_busy_servers_are_asked_again_with_growing_pauses_within_the_patience() -> None:
    pauses: list[float] = []
    body = {"prompt": "ab", "max_tokens": 1}
    with served() as server:
        client = Client(ServerSettings(url=server.url, pause=0.5), sleep=pauses.append)
        server.statuses = [429, 503, 502]
        client.completion(body, dict)
        assert all(longest / 2 <= pause <= longest for pause, longest in zip(pauses, (0.5, 1.0, 2.0), strict=True))
        pauses.clear()
        server.statuses, server.retry_after = [429], "7"
        client.completion(body | {"max_tokens": 2}, dict)
        assert 7 <= max(pauses) < 8, "the server's own wish"
        server.statuses, server.retry_after = [429], "Wed, 21 Oct 99999999999 07:28:00 GMT"
        client.completion(body | {"max_tokens": 4}, dict)
        server.statuses, server.retry_after = [429], "100000"
        with pytest.raises(ObservationError, match="exceed the patience of 300 s"):
            client.completion(body | {"max_tokens": 3}, dict)


@pytest.mark.slow
def test_faults_and_broken_answers_in_between_end_nothing_and_are_paid_for() -> None:
    with served("good", KNOWN) as server:
        server.broken = 7
        client = client_of(server)
        scores(client)
        assert client.failures >= 10 and client.requests == len(server.paths)
        plain = client_of(server)
        server.broken = 0
        scores(plain)
        assert client.tokens > plain.tokens, "what a broken answer cost is counted"
        server.statuses = ([200] * 6 + [500]) * 30
        scores(client_of(server))


def test_a_wrong_reference_is_noticed_before_canaries_are_paid_for() -> None:
    with served("good", KNOWN) as server:
        with pytest.raises(ObservationError, match="answers to both names"):
            scores(client_of(server), reference="unknown")
        assert len(server.paths) <= 2 * (5 + 16)


def test_headers_and_queries_reach_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE", "hidden-value")
    with served() as server:
        client = client_of(server)
        settings = replace(client.settings, url=f"{server.url}?api-version=1", headers=(("api-key", "AZURE"),))
        Client(settings).completion({"messages": [], "max_tokens": 1, "model": "m"}, dict)
        assert server.paths == ["/v1/chat/completions?api-version=1"] and server.headers[0]["api-key"] == "hidden-value"
        server.statuses = [400]
    assert "hidden" not in repr(settings)
    for wrong in ({"url": "http://host/v1?api_key=abc"}, {"headers": (("a b", "AZURE"),)}, {"headers": (("a", "MISSING"),)}):
        with pytest.raises(ConfigError):
            replace(settings, **wrong)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("rule", ["next_tokens", "generations", "samples"])
@pytest.mark.parametrize("context", [{}, {"system": "Be brief.", "document": "Boxes have codes."}], ids=["plain", "around"])
def test_chats_are_asked_as_they_were_planted(rule: str, context: dict[str, str]) -> None:
    around = canary_files.Context(form="chat", **context)
    canaries = [replace(canary, context=around) for canary in CANARIES[:40]]
    coins = np.array([canary.included for canary in canaries])
    with served() as server:
        server.chats = {
            "\n".join(message["content"] for message in canary.question): canary.secret
            for canary in canaries
            if canary.included
        }
        values = scores(client_of(server), rule, canaries)
        assert set(server.paths) == {"/v1/chat/completions"}
        with pytest.raises(ConfigError, match="score no prompt of a chat"):
            scores(client_of(server), "log_probabilities", canaries)
    assert values[coins].min() > values[~coins].max()


@pytest.mark.parametrize(("status", "requests"), [(400, 1), (401, 1), (404, 1), (500, 4)])
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
            scores(client)
        assert 300 < client.tokens <= 600, "requests under way are counted before they are paid for"
        assert len(cache.read_text().splitlines()) == client.requests - 5, "all but the probe"


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


@pytest.mark.slow
def test_a_difference_to_the_model_before_training() -> None:
    coins = np.array([canary.included for canary in CANARIES])
    with served("good", KNOWN) as server:
        difference = scores(client_of(server), reference="base")
        np.testing.assert_allclose(
            difference,
            scores(client_of(server)) - scoring.served_scores(client_of(server), ("base", ""), CANARIES, silent).values,
        )
    assert np.all(difference[~coins] == 0) and difference[coins].min() > 1


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["lists_as_chat", "lists_as_completions"])
def test_secrets_are_spelled_by_lists_of_likely_tokens(mode: str) -> None:
    canaries = CANARIES[:10]
    coins = np.array([canary.included for canary in canaries])
    with served(mode, KNOWN) as server:
        client = client_of(server, in_flight=8)
        width = scoring.widest(client, "m")
        values = scores(client, "next_tokens", canaries)
        with pytest.raises(ObservationError, match="generated tokens"):
            probe(client, "m")
    assert width == 1000 and values[coins].min() > values[~coins].max()
    canary = next(canary for canary in canaries if canary.included)
    tokens = TinyModel(KNOWN).log_probabilities(canary.text)[len(canary.prefix) - 1 :]
    assert values[canaries.index(canary)] == pytest.approx(sum(value for value in tokens if value is not None))


def test_two_secrets_behind_one_prefix_keep_their_own_answers() -> None:
    with served("lists_as_chat", ("ab cd",)) as server:
        client = client_of(server)
        likely, unlikely = (TextCanary(prefix="ab ", secret=secret, included=True) for secret in ("cd", "~~"))
        first, second = (scoring.log_probability(client, "m", canary, 1000) for canary in (likely, unlikely))
        assert first > second
        assert [scoring.log_probability(client, "m", canary, 1000) for canary in (unlikely, likely)] == [second, first]


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
                canary_files.commitment([replace(row, context=canary_files.Context(system="hi")) for row in CANARIES], "a"),
            }
        )
        == 4
    )
    for content, message in (
        ('{"prefix": "a", "secret": "b"}', "line 1: expected"),
        ("not json", "line 1: no JSON"),
        ('{"prefix": "a", "secret": "b", "included": true}', "1 canaries of one side"),
        (
            '{"prefix": "a", "secret": "b", "included": true, "context": {"document": "b"}}\n'
            '{"prefix": "c", "secret": "d", "included": false}',
            "of several contexts",  # the document tells the coin
        ),
        (
            '{"prefix": "a", "secret": "b", "included": true, "context": {"document": "b"}}\n'
            '{"prefix": "c", "secret": "d", "included": false, "context": {"document": "b"}}',
            "holds the secret 'b'",  # any model copies it
        ),
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


@pytest.mark.slow
def test_the_command_proves_an_epsilon_once_the_commitment_is_opened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    published = canary_law.write_folder(CANARIES, "salt", tmp_path / "sealed")
    file = str(tmp_path / "sealed" / "canaries.jsonl")
    with served("good", KNOWN) as server:
        arguments = ["endpoint", server.url, "--model", "m", "--canaries", file, "--json", "--claim-epsilon", "1"]
        answer(arguments)
        result = json.loads(capsys.readouterr().out)
        assert result["mechanisms"][0]["proven"] is None, "nobody said that there were coins"
        assert answer([*arguments, "--commitment", published]) == 1
        result = json.loads(capsys.readouterr().out)
        assert result["mechanisms"][0]["proven"]["epsilon"] > 2
        notes = " ".join(result["notes"])
        assert published in notes and "share of scores from the cache: 0 of 60" in notes and "by echo" in notes
        assert answer([*arguments, "--commitment", "0" * 64]) == 2
        assert "other texts, coins or contexts" in capsys.readouterr().err
    with served("rounded", KNOWN) as server:
        arguments[1] = server.url
        assert answer(arguments) == 3
    assert re.search("rounded", capsys.readouterr().err)


def _numbers(value: Any, key: str) -> list[float]:
    if isinstance(value, dict):
        numbers = [value[key]] if isinstance(value.get(key), int | float) else []
        return numbers + [number for part in value.values() for number in _numbers(part, key)]
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


@pytest.mark.slow
@pytest.mark.parametrize(("alternate", "differ"), [(True, False), (False, True)])
def test_stated_coins_need_the_leave_of_texts_and_order(
    alternate: bool, differ: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    random = np.random.default_rng(3)
    words = np.array(["ash", "bay", "cup", "dew", "elm", "fog", "gum", "hay", "ice", "jam"])
    texts = []
    for number in range(80):
        coin = bool(number % 2) if alternate else bool(random.random() < 0.5)
        sides = (words[:5] if coin else words[5:]) if differ else words
        texts.append(TextCanary(prefix="in ", secret=" ".join(random.choice(sides, 8)), included=coin))
    canary_files.write(texts, tmp_path / "texts.jsonl")
    with served("good", tuple(text.text for text in texts if text.included)) as server:
        arguments = ["endpoint", server.url, "--model", "m", "--canaries", str(tmp_path / "texts.jsonl"), "--json"]
        answer([*arguments, "--coins", "--claim-epsilon", "1"])
    result = json.loads(capsys.readouterr().out)["mechanisms"][0]
    assert result["outcome"] == "invalid" and result["proven"] is None


def test_left_out_canaries_that_the_model_knows_are_told_from_decoys() -> None:
    canaries = canary_law.make_law("digits", 60, canary_files.PLAIN, 20).draw(Seed(4))
    values = np.where([canary.decoy for canary in canaries], 0.0, 5.0) + np.random.default_rng(0).normal(size=80)
    coins, settings = CoinKnowledge(commitment="0" * 64), Settings(certificates=0)
    report = examine_canaries(values, canaries, coins, settings, name="canaries").report
    assert report.outcome is not None and report.outcome.name == "INVALID"
    honest = np.where([canary.included for canary in canaries], 5.0, 0.0) + np.random.default_rng(0).normal(size=80)
    report = examine_canaries(honest, canaries, coins, settings, name="canaries").report
    assert report.mechanisms[0].bounds[0].epsilon > 2 and report.outcome is None


@pytest.mark.slow
def test_chosen_texts_have_several_attacks_and_no_epsilon(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    random, words = np.random.default_rng(2), np.array(["ash", "bay", "cup", "dew", "elm", "fog", "gum", "hay", "ice", "jam"])
    texts = [
        TextCanary(prefix="in ", secret=" ".join(random.choice(words, 16)), included=bool(random.random() < 0.5))
        for _ in range(24)
    ]
    canary_files.write(texts, tmp_path / "texts.jsonl")
    with served("good", tuple(text.text for text in texts if text.included)) as server:
        command = ["endpoint", server.url, "--model", "m", "--reference", "base", "--canaries", str(tmp_path / "texts.jsonl")]
        assert answer([*command, "--texts", "--coins"]) == 2
        assert answer([*command, "--texts", "--cache", str(tmp_path / "cache")]) == 0
        capsys.readouterr()
        server.model, known = TinyModel(), server.model
        assert answer([*command, "--texts", "--cache", str(tmp_path / "cache")]) == 3
        assert "the cache holds answers of another model" in capsys.readouterr().err
        server.model = known
        assert answer([*command, "--texts", "--json"]) == 0
        server.longest = 100  # characters: texts and what probes the server fit, shots do not
        assert answer([*command, "--texts", "--json"]) == 0, "shots that do not fit are left out"
    output = capsys.readouterr().out
    result, without_shots = (json.loads(part) for part in re.split(r"(?<=^})\n(?={)", output, flags=re.MULTILINE))
    assert {attack["scorer"] for attack in without_shots["attacks"]} == {row["scorer"] for row in result["attacks"]} - {
        "recall"
    }
    areas = {attack["scorer"]: attack["auc"][1] for attack in result["attacks"]}
    assert set(areas) == {"loss", "zlib", "min_k", "neighbourhood", "recall", "reference"}
    assert min(areas[name] for name in areas.keys() - {"recall"}) > 0.9, areas
    assert not any(attack["bounds"] for attack in result["attacks"])


def test_canaries_that_cannot_be_written_are_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "taken").write_text("a file")
    assert answer(["canaries", "new", str(tmp_path / "taken")]) == 4
    assert "cannot write canaries to" in capsys.readouterr().err
