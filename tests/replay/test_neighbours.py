"""Neighbours of every kind of data set differ in one record; what programs leave behind is seen, and put back."""

from __future__ import annotations

import math
import sys
import threading
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import audit
from audit.core.adjacency import Adjacency
from audit.core.errors import ConfigError
from audit.replays.check import ReplayVerdict
from audit.replays.neighbours import PairPool, make_pairs, shrink
from audit.replays.recording import Recording
from audit.replays.records import RecordList, numbers_in
from tests.replay.corpus import clip

NUMBERS = np.array([0.9, 2.4, 8.0, 5.8, 0.9, 4.3])
KINDS: dict[str, Any] = {
    "array": NUMBERS,
    "bytes": np.array([3, 1, 3], np.uint8),
    "small": np.array([3, 1, 3], np.int8),
    "half": np.array([3, 1, 3], np.float16),
    "table": np.arange(12, dtype=np.int16).reshape(4, 3),
    "list": [1.0, 2.0, 5.0, 1.0],
    "large": [10**400, 3, 4],
    "scalars": [np.uint8(3), np.int16(5)],
    "records": [{"user": "a", "value": 1.0}, {"user": "b", "value": 2.0}],
    "keys": {"ann": 1.0, "bob": 2.0, "eve": 1.0},
    "numbered": {3: {"value": 1}, 7: {"value": 2}},
    "columns": {"x": np.arange(3.0), "y": np.array([0, 1, 1])},
    "tuple": (np.arange(6.0).reshape(3, 2), np.array([0, 1, 1])),
    "text": "ash\n\nelm",
    "lines": "ash\nelm\n",
    "frame": pd.DataFrame({"user": ["a", "b", "a"], "value": [1.0, 2.0, 3.0]}),
    "series": pd.Series([1.0, 2.0, 2.0]),
    "tensor": torch.tensor([1, 2, 3], dtype=torch.uint8),
}


def _items(data: Any) -> list[str]:
    if isinstance(data, dict) and not RecordList(data).columns:
        return [repr(item) for item in data.items()]
    records = RecordList(data)
    return [
        repr(np.asarray(part).tolist() if hasattr(part, "dtype") else part) for part in map(records.get, range(records.count))
    ]


def _are_neighbours(first: Any, second: Any, adjacency: Adjacency) -> bool:
    """True if one record is more or less, or one is another, all others in their places or under their keys."""
    long, short = sorted((_items(first), _items(second)), key=len, reverse=True)
    if adjacency is not Adjacency.ADD_REMOVE:
        keyed = not isinstance(first, dict) or list(first) == list(second)
        places = [i for i, (a, b) in enumerate(zip(_items(first), _items(second), strict=True)) if a != b]
        last = -1 if isinstance(first, tuple) else None  # a label stays one of the data
        numbers = [x for i in places for x in numbers_in(RecordList(second).get(i))[:last]]
        become_zero = adjacency is Adjacency.REPLACE_ONE or not any(numbers)
        return keyed and len(places) <= 1 and become_zero
    return any(long[:i] + long[i + 1 :] == short for i in range(len(long)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_every_pair_differs_in_one_record(kind: str, adjacency: Adjacency) -> None:
    if adjacency is Adjacency.ZERO_OUT and isinstance(KINDS[kind], str):
        with pytest.raises(ConfigError, match="no number that could become 0"):
            make_pairs(KINDS[kind], adjacency)
        return
    pairs = [pair[1:] for pair in make_pairs(KINDS[kind], adjacency)]
    pool, best = PairPool(KINDS[kind], adjacency, (0.0, 10.0), [7.25, 300, 16**400, "two\nlines", ""]), None
    stream = np.random.default_rng(0)
    for i in range(100):
        best = pool.draw(stream, best if i % 3 else None)
        pairs.append(pool.build(best))
    assert len(pairs) > 102
    for first, second in pairs:
        assert _are_neighbours(first, second, adjacency), (first, second)
    sizes = {RecordList(first).count for first, _ in pairs}
    assert max(sizes) > 8  # records of a dictionary too are repeated, under new keys


@pytest.mark.parametrize("delta", [1e-17, 1e-30, 0.6])
@pytest.mark.parametrize("law", ["normal", "laplace"])
def test_draws_are_moved_out_as_far_as_any_delta_allows(delta: float, law: str) -> None:
    recording = Recording(seed=1, spread=25.0, tail=delta)
    recording.draw(law, np.array([-3.0, 3.0]))
    end = abs(float(recording.draws[1]))
    assert recording.draws[0] == -recording.draws[1]
    tail = math.erfc(end / math.sqrt(2)) / 2 if law == "normal" else math.exp(-end) / 2
    assert tail == pytest.approx(min(delta, 0.5), rel=1e-6)


def test_a_sum_over_a_dictionary_with_its_public_size_is_proved() -> None:
    def run(d: dict[str, float], rng: Any) -> list[Any]:
        return [sorted(d), float(clip(list(d.values())).sum() + rng.laplace(0, 10))]

    data = {"a": 1.0, "b": 3.0, "c": 9.0}
    report = audit.replay(run, data, epsilon=1.0, adjacency="replace_one", low=0, high=10, sampling_seconds=0)
    assert report.verdict is ReplayVerdict.PROVED, str(report)


@pytest.mark.slow
def test_records_past_those_that_are_given_are_tried() -> None:
    def run(d: Any, rng: Any) -> float:
        return float(clip(d[:60]).sum() + np.nan_to_num(d[60:]).sum() + rng.laplace(0, 10))

    report = audit.replay(run, NUMBERS, epsilon=1.0, low=0, high=10, sampling_seconds=0)
    assert report.verdict is ReplayVerdict.REFUTED, str(report)


def test_labels_beside_inputs_are_those_of_the_data() -> None:
    data = np.arange(12.0).reshape(6, 2), np.array([0, 2, 1, 0, 2, 1])
    pairs = [part for pair in make_pairs(data, Adjacency.ADD_REMOVE) for part in pair[1:]]
    pool = PairPool(data, Adjacency.ADD_REMOVE, (None, None), [7, 100])
    pairs += [part for drawn in pool.of_sizes() for part in pool.build(drawn)]
    assert {int(label) for _, labels in pairs for label in labels} == {0, 1, 2}
    assert max(len(labels) for _, labels in pairs) == 101 and max(np.max(x, initial=0.0) for x, _ in pairs) > 1e6


def test_a_witness_shrinks_behind_a_record_that_was_removed() -> None:
    data, neighbour = shrink((NUMBERS, NUMBERS[1:]), lambda a, b: 8.0 in a and len(a) == len(b) + 1)
    assert data.tolist() == [0.9, 8.0] and neighbour.tolist() == [8.0]


def test_replays_in_two_threads_wait_for_each_other() -> None:
    reports, before = list[Any](), (np.random.default_rng, math.log, np.array)

    def run(d: Any, rng: Any) -> float:
        return float(clip(d).sum() + rng.laplace(0, 10))

    def replay() -> None:
        reports.append(audit.replay(run, [(NUMBERS, NUMBERS[1:])] * 4, epsilon=1.0, sampling_seconds=0))

    threads = [threading.Thread(target=replay) for _ in range(3)]
    for step in (threading.Thread.start, threading.Thread.join):
        for thread in threads:
            step(thread)
    assert [report.verdict for report in reports] == [ReplayVerdict.PROVED] * 3
    assert (np.random.default_rng, math.log, np.array) == before


def test_a_program_that_ends_the_process_is_left_open() -> None:
    report = audit.replay(lambda d, rng: sys.exit(len(d)), [(NUMBERS, NUMBERS[1:])], epsilon=1.0, sampling_seconds=0)
    assert report.verdict is not ReplayVerdict.PROVED
    assert "SystemExit" in report.worst.reason
