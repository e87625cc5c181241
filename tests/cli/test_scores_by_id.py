"""Scores and coins in two tables, joined by record: the same bound in any order, and no record lost, doubled or smuggled in."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import audit
from audit.core.errors import ConfigError, DataError
from audit.data.record_ids import match_order
from tests.cli.test_scores import COINS, VALUES
from tests.cli.test_scores import audit as command

IDS = np.array([f"r{row:03}" for row in range(len(COINS))])
SHUFFLED = np.random.default_rng(1).permutation(len(COINS))


def tables(folder: Path, suffix: str = "csv") -> tuple[Path, Path]:
    scores = pd.DataFrame({"record": IDS[SHUFFLED], "score": VALUES[SHUFFLED]})
    coins = pd.DataFrame({"record": IDS, "coin": COINS})
    paths = folder / f"scores.{suffix}", folder / f"coins.{suffix}"
    for frame, path in zip((scores, coins), paths, strict=True):
        if suffix == "npz":
            np.savez(path, **{name: frame[name].to_numpy().astype(str if name == "record" else None) for name in frame})
        else:
            frame.to_csv(path, index=False)
    return paths


def epsilon(capsys: pytest.CaptureFixture[str], *arguments: object) -> float:
    command(*arguments, "--certificates", "0", "--json")
    return float(json.loads(capsys.readouterr().out)["attacks"][0]["bounds"][0]["epsilon"])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("suffix", ["csv", "npz"])
def test_the_order_of_records_does_not_count(tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str) -> None:
    scores, coins = tables(tmp_path, suffix)
    pd.DataFrame({"score": VALUES, "member": COINS}).to_csv(tmp_path / "whole.csv", index=False)
    assert epsilon(capsys, scores, "--coins", coins) == epsilon(capsys, tmp_path / "whole.csv") > 1
    members, nonmembers = audit.join_coins(dict(zip(IDS[SHUFFLED], VALUES[SHUFFLED], strict=True)), pd.Series(COINS, index=IDS))
    assert np.array_equal(members, VALUES[COINS]) and np.array_equal(nonmembers, VALUES[~COINS])


@pytest.mark.parametrize(
    ("scores", "coins", "message"),
    [
        (["a", "b"], ["a", "b", "c", "d", "e", "f"], "4 of 6 records with a coin have no score .*'c', 'd', 'e' and 1 more"),
        (["a", "b", "c"], ["a", "b"], "1 of 3 records with a score have no coin .*'c'"),
        (["a", "b", "b"], ["a", "b"], "1 identifiers occur more than once among the scores .*'b'"),
        (["a", "b"], ["a", "b", "a"], "more than once among the coins"),
        (["a", float("nan")], ["a", "b"], "row 1 of the scores has no identifier"),
        ([["a"], ["b"]], ["a", "b"], "expected one for each record"),
    ],
)
def test_every_record_has_one_score_and_one_coin(scores: list[object], coins: list[object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        match_order(np.array(scores, dtype=object), np.array(coins, dtype=object))


def test_numbers_and_their_texts_are_the_same_identifier() -> None:
    assert match_order(np.array([2.0, 1.0]), np.array(["1", "2"])).tolist() == [1, 0]
    assert match_order(np.array([7, 3]), np.array(["3", "7"], dtype=object)).tolist() == [1, 0]


def test_two_memberships_and_an_identifier_without_coins_are_refused(tmp_path: Path) -> None:
    scores, coins = tables(tmp_path)
    with pytest.raises(ConfigError, match="give --coins with it"):
        command(scores, "--id", "record", expect=2)
    with pytest.raises(DataError, match="no column 'name'"):
        command(scores, "--coins", coins, "--id", "name", expect=2)
    frame = pd.read_csv(scores)
    frame.assign(member=1).to_csv(scores, index=False)
    with pytest.raises(DataError, match="a membership of its own, 'member'"):
        command(scores, "--coins", coins, expect=2)
