"""Neighbours of data of every type, the witness, declarations, and the command."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import audit
from audit.__main__ import main
from audit.core.adjacency import Adjacency
from audit.core.errors import ConfigError
from audit.replays.neighbours import PairPool, make_pairs, shrink
from audit.replays.records import RecordList

ARRAY = np.array([1.0, 4.0, 9.0, 2.0, 5.0])
FRAME = pd.DataFrame({"user": ["a", "b", "a", "c"], "value": [1.0, 2.0, 3.0, 4.0]})
KINDS: dict[str, Any] = {
    "array": ARRAY,
    "table": np.arange(12.0).reshape(4, 3),
    "whole numbers": np.array([1, 2, 3]),
    "list": [1.0, 2.0, 5.0],
    "texts": ["ash", "elm"],
    "records": [{"user": "a", "value": 1.0}, {"user": "b", "value": 2.0}],
    "frame": FRAME,
    "columns": {"x": np.arange(3.0), "y": np.array([0, 1, 1])},
    "keys": {"ann": 1.0, "bob": 2.0},
    "tuple": (np.arange(6.0).reshape(3, 2), np.array([0, 1, 1])),
    "text": "first line\nsecond line",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE])
def test_neighbours_differ_in_one_record(kind: str, adjacency: Adjacency) -> None:
    pairs = make_pairs(KINDS[kind], adjacency)
    apart = 1 if adjacency is Adjacency.ADD_REMOVE else 0
    assert 2 < len(pairs) <= 40
    for _, data, neighbour in pairs:
        assert abs(RecordList(data).count - RecordList(neighbour).count) == apart
        assert type(data) is type(neighbour) is type(KINDS[kind])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE])
def test_random_neighbours_differ_in_one_record(kind: str, adjacency: Adjacency) -> None:
    pool, best = PairPool(KINDS[kind], adjacency, (None, None), [7, 2.25, "yew", float("inf")]), None
    stream, apart, written = np.random.default_rng(0), 1 if adjacency is Adjacency.ADD_REMOVE else 0, set[str]()
    for i in range(60):
        best = pool.draw(stream, best if i % 3 else None)
        sides = [RecordList(side) for side in pool.build(best)]
        texts = [Counter(repr(side.get(i)) for i in range(side.count)) for side in sides]
        assert all(type(side.data) is type(KINDS[kind]) for side in sides)
        assert max((texts[0] - texts[1]).total(), (texts[1] - texts[0]).total()) <= 1
        if kind != "keys":  # which a data set holds once
            assert sides[0].count - sides[1].count == apart
        written |= {text for side in texts for text in side}
    assert any("2.25" in text or "yew" in text or kind == "whole numbers" for text in written) or kind == "keys"


def test_all_records_of_a_user_leave_together() -> None:
    name, data, neighbour = make_pairs(FRAME, Adjacency.ADD_REMOVE, unit="user")[0]
    assert "user 'a'" in name and len(data) - len(neighbour) == 2
    with pytest.raises(ConfigError, match="no column or key"):
        make_pairs(FRAME, Adjacency.ADD_REMOVE, unit="person")


def signs(data: Any, rng: Any) -> Any:
    totals: dict[Any, float] = {}
    for row in data:
        totals[row["user"]] = totals.get(row["user"], 0.0) + float(np.clip(np.nan_to_num(row["value"]), -9, 9))
    return sum(1 if total > 0 else -1 for total in totals.values()) + rng.laplace()


def mean(data: Any, rng: Any) -> Any:  # the number of records is public
    return sum(min(max(np.nan_to_num(row["value"]), 0), 1) for row in data) / len(data) + rng.laplace(0, 2 / len(data))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "adjacency", "epsilon", "code"),
    [
        (signs, "add_remove", 1.0, 0),
        (mean, "replace_one", 1.0, 0),
        (mean, "replace_one", 0.9, 1),
        (lambda data, rng: len(data) + rng.laplace(), "add_remove", 2.0, 1),
    ],
)
def test_users_and_no_single_records_join_leave_and_change(program: Any, adjacency: str, epsilon: float, code: int) -> None:
    rows = [{"user": user, "value": value} for user, value in zip("aabccd", (5.0, -3.0, 2.0, -4.0, 1.0, -2.0), strict=True)]
    answer = audit.replay(program, rows, epsilon=epsilon, adjacency=adjacency, unit="user", sampling_seconds=0)
    assert answer.exit_code == code, str(answer)


@pytest.mark.parametrize("data", [[True] * 4, np.array([True] * 4), {"ann": [1.0, 2.0], "bob": [2.0], "cid": [3.0, 7.0]}])
def test_truth_values_change_and_a_part_is_read_as_the_whole(data: Any) -> None:
    for _, first, second in make_pairs(data, Adjacency.REPLACE_ONE):
        assert repr(first) != repr(second) and len(first) == len(second)
    with pytest.raises(ConfigError, match="no neighbour that differs"):
        make_pairs([{1, 2}] * 3, Adjacency.REPLACE_ONE)


def test_a_long_data_set_has_zero_records_everywhere() -> None:
    names = [name for name, *_ in make_pairs(np.arange(1.0, 3001.0), Adjacency.ZERO_OUT)]
    assert {"record 0 became zero", "record 1500 became zero", "record 2999 became zero"} <= {*names}


def test_a_witness_shrinks_to_the_records_that_matter() -> None:
    data, neighbour = shrink((ARRAY, np.append(ARRAY, 7.0)), lambda a, b: 9.0 in a and len(b) == len(a) + 1)
    assert data.tolist() == [9.0] and neighbour.tolist() == [9.0, 7.0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    [
        lambda d, rng: len(d) + (rng.laplace() if len(d) > 4 else 0.0),
        lambda d, rng: [len(d) + rng.laplace() for _ in range(2 if clip(d).sum() > 12 else 1)],
        lambda d, rng: {k: rng.laplace() + np.sum(clip(d) // 5 == k) for k in np.unique(clip(d) // 5)},
    ],
)
def test_a_walk_from_the_data_to_none_meets_what_a_decision_flips_on(program: Any) -> None:
    data = np.concatenate([ARRAY, [3.0, 0.5, 2.5]])
    assert audit.replay(program, data, epsilon=1.0, high=10.0, sampling_seconds=0).worst.verdict.value != "proved"


def clip(data: Any) -> Any:
    return np.clip(np.nan_to_num(data), 0, 10)


def noisy_sum(data: Any, rng: Any) -> Any:
    return np.clip(np.nan_to_num(data), 0, 10).sum() + rng.laplace(0, 5)


def data_set() -> Any:
    return ARRAY


def test_the_witness_of_a_wrong_program_fails_as_a_test(tmp_path: Path) -> None:
    report = audit.replay(noisy_sum, ARRAY, epsilon=1.0, high=10.0)
    assert report.exit_code == 1 and 1 < report.worst.loss <= 2
    assert report.to_pandas().verdict.iloc[-1] == "refuted"
    report.save(tmp_path)
    log = json.loads((tmp_path / "replay.sarif").read_text())["runs"][0]["results"][0]
    region = log["locations"][0]["physicalLocation"]
    assert Path(region["artifactLocation"]["uri"]).resolve() == Path(__file__)
    page = (tmp_path / "replay.html").read_text()
    assert "rng.laplace" not in page and "DATA = array([" in page and f"{__file__}:{region['region']['startLine']}" in page
    assert "rng.laplace" in Path(__file__).read_text().splitlines()[region["region"]["startLine"] - 1]
    names: dict[str, Any] = {}
    exec((tmp_path / "test_witness.py").read_text(), names)
    with pytest.raises(AssertionError, match="refuted"):
        names["test_noisy_sum_keeps_its_claim"]()


@pytest.mark.slow
def test_a_declared_release_costs_what_its_input_moves() -> None:
    hidden = np.random.default_rng(3).laplace  # a sampler that the replay does not see

    @audit.release(sensitivity=10.0, epsilon=1.0)
    def mechanism(total: float) -> float:
        return float(total + hidden(0, 10))

    clipped = audit.replay(
        lambda data, rng: mechanism(np.clip(np.nan_to_num(data), 0, 10).sum()), ARRAY, epsilon=1.0, high=10.0
    )
    assert clipped.exit_code == 0 and clipped.worst.loss == pytest.approx(1.0)
    raw = audit.replay(
        lambda data, rng: mechanism(np.clip(np.nan_to_num(data), 0, 900).sum()), ARRAY, epsilon=1.0, sampling_seconds=0
    )
    assert raw.exit_code == 3 and "declared 10" in raw.worst.reason


@pytest.mark.slow
def test_what_a_declared_mechanism_draws_inside_is_its_own() -> None:
    @audit.release(sensitivity=10.0, epsilon=1.0, input="total")
    def rejection(scale: float, total: float) -> float:
        while not (draw := secrets.randbelow(2**30)):
            pass
        return float(total + scale * np.log(draw / 2**30) * (1 if np.random.default_rng().random() < 0.5 else -1))

    report = audit.replay(lambda data, rng: rejection(10.0, total=clip(data).sum()), ARRAY, epsilon=1.0, high=10.0)
    assert report.exit_code == 0 and report.worst.loss == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("terms", "text"),
    [
        ({"epsilon": 0.0}, "epsilon is 0"),
        ({"scale": -1.0}, "scale is -1"),
        ({"epsilon": 1.0, "input": "total"}, "input is 'total'; expected the place or name of an argument: data"),
        ({"epsilon": 1.0, "input": 1}, "input is 1"),
        ({}, "give one of them"),
    ],
)
def test_a_wrong_declaration_is_refused_where_it_stands(terms: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        audit.release(sensitivity=1.0, **terms)(lambda data: data)
    with pytest.raises(ConfigError, match="declared of a function"):
        audit.release(sensitivity=1.0, scale=1.0)(3)  # type: ignore[arg-type]


@pytest.mark.slow
def test_values_that_are_declared_public_must_be_equal() -> None:
    def program(data: Any, rng: Any) -> Any:
        audit.unchanged(size=len(data))
        return rng.laplace()

    assert audit.replay(program, ARRAY, epsilon=1.0, sampling_seconds=0).exit_code == 3
    assert audit.replay(program, ARRAY, epsilon=1.0, adjacency="replace_one").exit_code == 0


def test_a_program_that_fails_on_all_data_is_no_finding() -> None:
    with pytest.raises(ConfigError, match="the program raised KeyError: 'age' on the data itself"):
        audit.replay(lambda data, rng: {}["age"], ARRAY, epsilon=1.0)

    def tells(data: Any, rng: Any) -> None:
        raise ValueError(f"{len(data)} records")

    assert audit.replay(tells, ARRAY, epsilon=1.0, sampling_seconds=0).exit_code != 0


def test_a_claim_is_epsilon_or_mu() -> None:
    with pytest.raises(ConfigError, match="give one of them"):
        audit.replay(noisy_sum, ARRAY)
    with pytest.raises(ConfigError, match="data is a float"):
        audit.replay(noisy_sum, 3.0, epsilon=1.0)


@pytest.mark.slow
def test_the_command_prints_one_object_and_answers_with_the_verdict(capsys: Any) -> None:
    module = __name__
    arguments = ["replay", f"{module}:noisy_sum", "--data", f"{module}:data_set", "--high", "10", "--quiet", "--json"]
    for epsilon, code, verdict in (("2", 0, "proved"), ("1", 1, "refuted")):
        with pytest.raises(SystemExit) as end:
            main([*arguments, "--epsilon", epsilon])
        assert end.value.code == code
        assert json.loads(capsys.readouterr().out)["verdict"] == verdict


@pytest.mark.slow
def test_losses_of_transcripts_bound_epsilon_and_are_kept(tmp_path: Path, capsys: Any) -> None:
    arguments = ["replay", f"{__name__}:noisy_sum", "--data", f"{__name__}:data_set", "--high", "10", "--quiet", "--json"]
    with pytest.raises(SystemExit):
        main([*arguments, "--epsilon", "2", "--transcripts", "40", "-o", str(tmp_path)])
    table = json.loads(capsys.readouterr().out)["transcripts"]
    assert 1 < table["lower"] <= 2 and len(json.loads((tmp_path / "transcripts.json").read_text())["losses"][1]) == 40
