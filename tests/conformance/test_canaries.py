"""What every canary maker must do: the right number, from the seed alone, outside the training data, without touching it."""

from __future__ import annotations

import numpy as np
import pytest

from audit import plugins
from audit.core.canaries import Canaries, CanaryTexts, CoordinateGradients, DirectionGradients
from audit.core.data import Dataset, Records
from audit.core.errors import ConfigError
from audit.core.seeds import Seed
from audit.data.load import load

MAKERS = plugins.names("attacks.canaries")
PARAMETERS = 500
TEXTS = (
    "new_token",
    "random_tokens",
    "formatted_secret",
    "rare_bigrams",
    "redrawn_secret",
    "unlikely_suffix",
    "searched_token",
)


def images(random: np.random.Generator, count: int) -> Records:
    inputs = random.random((count, 1, 6, 6)).astype(np.float32)
    return Records(inputs=inputs, labels=random.integers(0, 4, count))


def small_dataset() -> Dataset:
    random = np.random.default_rng(0)
    return Dataset(
        name="toy",
        source="made up",
        sha256="0" * 64,
        classes=4,
        train=images(random, 80),
        pool=images(random, 60),
        test=images(random, 20),
        pool_index=np.arange(1000, 1060),
    )


def sentences() -> Dataset:
    return load({"kind": "sentences", "count": 200, "unused_tokens": 70, "train": 80, "pool": 60, "test": 20}, Seed(1))


def dataset_for(name: str) -> Dataset:
    return sentences() if name in TEXTS else small_dataset()


OPTIONS: dict[str, dict[str, object]] = {"property_group": {"records": 1}}


def make(name: str, count: int = 24, seed: int = 7, dataset: Dataset | None = None) -> Canaries:
    return plugins.build("attacks.canaries", {"kind": name, **OPTIONS.get(name, {})}).make(
        dataset or dataset_for(name), count, PARAMETERS, Seed(seed)
    )


def content(canaries: Canaries) -> bytes:
    return b"".join(np.ascontiguousarray(part).tobytes() for part in canaries.payload.arrays)


def test_there_are_canaries() -> None:
    assert {"held_out", "mislabelled", "out_of_distribution", "dirac_gradient", "random_gradient"} <= set(MAKERS)


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("count", [1, 24])
def test_as_many_as_asked_for(name: str, count: int) -> None:
    canaries = make(name, count)
    assert canaries.draws == count
    assert len(canaries) == (count if canaries.secrets is None else canaries.secrets.prior.size)
    assert canaries.kind == name
    assert len(canaries.description) > 10


@pytest.mark.parametrize("name", MAKERS)
def test_canaries_that_are_taken_keep_all_that_is_planted_and_asked_for_each(name: str) -> None:
    payload = make(name).payload
    subset = payload.take(np.arange(len(payload))[::-1]).take(np.arange(len(payload))[::-1][:5])
    assert len(subset) == 5
    for array, part in zip(payload.arrays, subset.arrays, strict=True):
        np.testing.assert_array_equal(part, array[: len(part)])


@pytest.mark.parametrize("name", MAKERS)
def test_the_seed_decides(name: str) -> None:
    assert content(make(name, seed=7)) == content(make(name, seed=7))
    assert content(make(name, seed=7)) != content(make(name, seed=8))


@pytest.mark.parametrize("name", MAKERS)
def test_the_data_set_is_left_alone(name: str) -> None:
    dataset = dataset_for(name)
    before = [part.copy() for part in (dataset.train.inputs, dataset.pool.inputs, dataset.pool.labels, dataset.pool_index)]
    make(name, dataset=dataset)
    after = (dataset.train.inputs, dataset.pool.inputs, dataset.pool.labels, dataset.pool_index)
    for now, then in zip(after, before, strict=True):
        np.testing.assert_array_equal(now, then)


@pytest.mark.parametrize("name", MAKERS)
def test_no_canary_is_a_training_record(name: str) -> None:
    dataset = dataset_for(name)
    canaries = make(name, dataset=dataset)
    if canaries.records is None:
        return
    assert canaries.records.inputs.shape[1:] == dataset.train.inputs.shape[1:]
    assert canaries.records.inputs.dtype == dataset.train.inputs.dtype
    assert canaries.records.labels.dtype == dataset.train.labels.dtype
    if dataset.vocabulary is None:
        assert canaries.records.labels.min() >= 0
        assert canaries.records.labels.max() < dataset.classes
    training = {row.tobytes() for row in dataset.train.inputs}
    assert not any(row.tobytes() in training for row in canaries.records.inputs)


@pytest.mark.parametrize("name", MAKERS)
def test_identifiers_name_the_source_row(name: str) -> None:
    dataset = dataset_for(name)
    canaries = make(name, dataset=dataset)
    if canaries.records is None or canaries.payload.identifiers is None:
        return
    for row, identifier in zip(canaries.records.inputs, canaries.payload.identifiers, strict=True):
        if identifier >= 0:
            position = int(np.flatnonzero(dataset.pool_index == identifier)[0])
            np.testing.assert_array_equal(row, dataset.pool.inputs[position])


@pytest.mark.parametrize("name", MAKERS)
def test_gradients_have_unit_norm_and_keep_their_promise(name: str) -> None:
    payload = make(name).payload
    if isinstance(payload, DirectionGradients):
        np.testing.assert_allclose(np.linalg.norm(payload.directions, axis=1), 1.0, rtol=1e-12)
        gram = payload.directions @ payload.directions.T
        assert (np.abs(gram - np.eye(len(payload))).max() < 1e-12) == payload.orthogonal
    if isinstance(payload, CoordinateGradients):
        assert 0 <= payload.coordinates.min() <= payload.coordinates.max() < PARAMETERS


@pytest.mark.parametrize("name", MAKERS)
def test_more_canaries_than_there_is_room_for(name: str) -> None:
    canaries = plugins.build("attacks.canaries", {"kind": name})
    with pytest.raises(ConfigError, match=r"^0 (orthogonal )?canaries"):
        canaries.make(dataset_for(name), 0, PARAMETERS, Seed(7))
    identifiers = make(name).payload.identifiers
    if (identifiers is not None and identifiers.min() >= 0) or name == "adversarial_direction":
        with pytest.raises(ConfigError, match=r"61 canaries.*60 records"):
            canaries.make(dataset_for(name), 61, PARAMETERS, Seed(7))


@pytest.mark.parametrize("name", TEXTS)
def test_a_secret_stands_behind_a_text_and_is_all_that_is_learnt(name: str) -> None:
    canaries = make(name)
    assert canaries.records is not None
    tokens, labels = canaries.records.inputs, canaries.records.labels
    secret = labels >= 0
    assert secret.any(axis=1).all() and not secret[:, 0].any()
    np.testing.assert_array_equal(labels[secret], tokens[secret])
    assert isinstance(canaries.payload, CanaryTexts)
    first, stop = canaries.payload.secret_tokens or (0, 257)
    assert (labels[secret] >= first).all() and (labels[secret] < stop).all()
    after = np.cumsum(secret, axis=1) == secret.sum(axis=1, keepdims=True)
    assert (tokens[after & ~secret] == -1).all()
    assert "mask that real records do not have" in canaries.description


@pytest.mark.parametrize("name", TEXTS)
def test_text_canaries_are_refused_where_there_is_no_text(name: str) -> None:
    with pytest.raises(ConfigError, match="are texts and toy holds none"):
        make(name, dataset=small_dataset())


def test_every_new_token_is_its_canary_s_own() -> None:
    canaries = make("new_token", 60)
    assert canaries.records is not None
    secrets = canaries.records.labels.max(axis=1)
    assert len(set(secrets.tolist())) == 60 and secrets.min() >= 257
    with pytest.raises(ConfigError, match=r"71 canaries.*70 unused"):
        make("new_token", 71)
