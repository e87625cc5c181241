"""Groups that no canary fell into are named, not left out without a word."""

from __future__ import annotations

import numpy as np

from audit.core.canaries import Canaries, CanaryRecords
from audit.core.data import Dataset, Records
from audit.experiment.games import records
from audit.experiment.games.records import new_key


def dataset(labels: list[int], groups: list[str] | None) -> Dataset:
    part = Records(inputs=np.zeros((len(labels), 2), np.float32), labels=np.array(labels))
    return Dataset(
        name="d",
        source="made",
        sha256="0" * 64,
        classes=max(labels) + 1,
        train=part,
        pool=part,
        test=part,
        pool_index=np.arange(len(labels)) * 3,
        groups=None if groups is None else np.array(groups),
    )


def absences(rows: list[int], labels: list[int], groups: list[str] | None) -> list[str]:
    data = dataset(labels, groups)
    canaries = Canaries(
        kind="held_out",
        description="",
        payload=CanaryRecords(records=data.pool.take(np.array(rows)), identifiers=data.pool_index[np.array(rows)]),
    )
    return records.absences(records.make_record_table(canaries, data, new_key()))


def test_classes_and_groups_without_a_canary_are_named() -> None:
    assert absences([0, 1, 3], [0, 1, 2, 4], ["a", "b", "c", "a"]) == [
        "no canary is of class 2, so nothing is said of such records",
        "no canary is of group c, so nothing is said of such records",
    ]


def test_where_every_group_has_a_canary_nothing_is_said() -> None:
    assert absences([0, 1], [0, 1, 0], ["a", "b", "a"]) == []
    assert absences([0, 1], [0, 1, 0], None) == []


def test_many_groups_are_counted() -> None:
    groups = [f"user {number:03}" for number in range(200)]
    (sentence,) = absences([0, 1], [0, 1] * 100, groups)
    assert "group user 002, user 003" in sentence and "user 011 and 188 more" in sentence
