"""Poisoned records, triggers and groups: what is planted, what is asked about, and what comes into every training."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from attacks.canaries._planted_records import Backdoor, PoisonedMembership
from attacks.canaries.property_group import PropertyGroup
from audit.core.canaries import Canaries, PlantedRecords
from audit.core.data import Records
from audit.core.errors import ConfigError, DataError
from audit.core.seeds import Seed
from audit.experiment.games.job_specs import with_companions, with_copies
from tests.attacks.test_redrawn_attribute import table
from tests.conformance.test_canaries import small_dataset

SEED = Seed(5)


def rows(records: Records | None) -> np.ndarray:
    assert records is not None
    return records.inputs.reshape(len(records), -1)


def test_a_trigger_is_on_its_poisoned_records_and_on_the_one_that_is_asked_about() -> None:
    data = small_dataset()
    canaries = Backdoor(poisons=3, features=5).make(data, 10, 0, SEED)
    trained = with_copies(canaries)
    assert canaries.records is not None and trained.records is not None and len(trained) == 30
    pool = data.pool.inputs.reshape(len(data.pool), -1)
    for number, (requested, target) in enumerate(zip(rows(canaries.records), canaries.records.labels, strict=True)):
        copies = slice(3 * number, 3 * number + 3)
        assert (trained.records.labels[copies] == target).all()
        origin = int((pool != requested).sum(axis=1).argmin())
        places = np.flatnonzero(pool[origin] != requested)
        assert len(places) == 5 and data.pool.labels[origin] != target
        for poisoned in rows(trained.records)[copies]:
            assert (poisoned[places] == requested[places]).all()
            host = int((np.delete(pool, places, axis=1) != np.delete(poisoned, places)).sum(axis=1).argmin())
            assert host != origin and data.pool.labels[host] != target


def test_what_backdoors_need_is_asked_for() -> None:
    data = small_dataset()
    with pytest.raises(ConfigError, match="36 features; expected no more"):
        Backdoor(features=37).make(data, 2, 0, SEED)
    single = replace(data, pool=Records(inputs=data.pool.inputs, labels=np.zeros(60, dtype=np.int64)))
    assert len(Backdoor().make(single, 2, 0, SEED)) == 2
    with pytest.raises(ConfigError, match="of another class than a target; expected at least 60"):
        Backdoor(poisons=60).make(data, 2, 0, SEED)
    with pytest.raises(ConfigError, match="poisons is 0; expected"):
        Backdoor(poisons=0)


def test_wrong_copies_join_the_training_records_of_every_model() -> None:
    data = small_dataset()
    canaries = PoisonedMembership(poisons=2).make(data, 10, 0, SEED)
    complete = with_companions(data, canaries)
    assert len(complete.train) == 100 and with_companions(data, with_copies(Backdoor().make(data, 2, 0, SEED))) is data
    assert canaries.records is not None
    for record, label, pair in zip(rows(canaries.records), canaries.records.labels, range(80, 100, 2), strict=True):
        assert (rows(complete.train)[pair : pair + 2] == record).all()
        wrong = complete.train.labels[pair : pair + 2]
        assert wrong[0] == wrong[1] != label


def test_groups_are_of_one_kind_and_share_no_record_with_each_other_or_with_queries() -> None:
    data = small_dataset()
    canaries = PropertyGroup(attribute=[0, 7], records=4, queries=6).make(data, 5, 0, SEED)
    assert isinstance(canaries.payload, PlantedRecords)
    trained, requested = rows(with_copies(canaries).records), rows(canaries.payload.queries)
    means = data.pool.inputs.reshape(60, -1)[:, [0, 7]].mean(axis=1)
    middle = np.median(means)
    upper = np.repeat(np.tile([False, True], 5), 4)
    np.testing.assert_array_equal(trained[:, [0, 7]].mean(axis=1) > middle, upper)
    np.testing.assert_array_equal(requested[:, [0, 7]].mean(axis=1) > middle, np.repeat(np.tile([False, True], 5), 6))
    planted = {row.tobytes() for row in trained}
    assert len(planted) == 40 and not planted & {row.tobytes() for row in requested}
    assert canaries.secrets is not None and canaries.secrets.choices == 2 and canaries.draws == 5


def test_properties_of_a_table() -> None:
    data = table()
    by_region = PropertyGroup(attribute="region", records=5).make(data, 1, 0, SEED).payload
    assert isinstance(by_region, PlantedRecords)
    regions = rows(by_region.planted)[:, 1:4] @ np.arange(1, 4)
    assert regions[:5].max() <= regions[5:].min()
    by_label = PropertyGroup(attribute="label", records=5).make(data, 1, 0, SEED).payload
    assert isinstance(by_label, PlantedRecords) and by_label.planted.labels[:5].max() <= by_label.planted.labels[5:].min()
    for options, message in (
        ({"attribute": "hair", "records": 5}, "does not have. It has: label, age"),
        ({"attribute": [9], "records": 5}, "features, 0 to 5"),
        ({"records": 25}, "widen data.pool"),
    ):
        with pytest.raises(ConfigError, match=message):
            PropertyGroup(**options).make(data, 1, 0, SEED)  # type: ignore[arg-type]


def test_groups_that_do_not_fit_their_canaries_are_refused() -> None:
    records = small_dataset().pool
    with pytest.raises(DataError, match="60 planted records for 60 canaries; expected 2 each"):
        Canaries(kind="x", description="x", payload=PlantedRecords(records=records, copies=2, planted=records))
    with pytest.raises(DataError, match="7 queries for 60 canaries"):
        Canaries(
            kind="x",
            description="x",
            payload=PlantedRecords(records=records, planted=records, queries=records.take(np.arange(7))),
        )
