"""What is particular to each kind of canary."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from attacks.canaries._gradients import AdversarialDirection, DiracGradient, RandomGradient
from attacks.canaries._planted_texts import SearchedToken
from attacks.canaries._pool_records import ClipBkd, Mislabelled, OutOfDistribution
from audit import plugins
from audit.core.data import Dataset, Records, Vocabulary
from audit.core.errors import ConfigError
from audit.core.seeds import Seed
from audit.data.load import load
from audit.stats.scoring import linear_probe

SEED = Seed(5)


def digits() -> Dataset:
    loaded = load_digits()
    everything = Records(inputs=(loaded.data / 16).astype(np.float32), labels=loaded.target.astype(np.int64))
    rows = np.random.default_rng(0).permutation(len(everything))
    train, pool, test = rows[:700], rows[700:1500], rows[1500:]
    return Dataset(
        name="digits",
        source="scikit-learn",
        sha256="",
        classes=10,
        train=everything.take(train),
        pool=everything.take(pool),
        test=everything.take(test),
        pool_index=pool,
    )


def regression() -> Dataset:
    random = np.random.default_rng(0)
    records = Records(inputs=random.random((50, 3)).astype(np.float32), labels=random.random(50))
    return Dataset(
        name="r", source="", sha256="", classes=0, train=records, pool=records, test=records, pool_index=np.arange(50)
    )


DATA = digits()


def test_canaries_of_users_have_a_label_for_each_record_or_are_refused() -> None:
    users = load({"kind": "digits", "records_per_user": 4, "train": 50, "pool": 300, "test": None}, SEED)
    folder = plugins.FOLDERS["canaries"]
    made, refused = {}, set()
    for kind in plugins.names(folder):
        if not plugins.keys(plugins.find(folder, kind))[1]:
            options = {"attribute": "label"} if kind == "property_group" else {}
            try:
                canaries = plugins.build(folder, {"kind": kind, **options}).make(users, 1, 20, SEED)
            except ConfigError as error:
                if "one label each" in str(error):
                    refused.add(kind)
            else:
                made[kind] = canaries.records
    single = {"adversarial_direction", "backdoor", "clipbkd", "model_replacement", "worst_case_initialisation"}
    assert refused == single | {"property_group", "redrawn_attribute"}
    assert made["out_of_distribution"] is not None
    records = [records for records in made.values() if records is not None]
    assert all(part.labels.shape == (1, 4) and part.labels.dtype == users.pool.labels.dtype for part in records)


def test_mislabelled_labels_are_wrong_and_spread_over_all_others() -> None:
    canaries = Mislabelled().make(DATA, 800, 10, SEED)
    truth = dict(zip(DATA.pool_index.tolist(), DATA.pool.labels.tolist(), strict=True))
    true = np.array([truth[item] for item in canaries.payload.identifiers.tolist()])
    result = canaries.records.labels
    assert (result != true).all()
    offsets = np.bincount((result - true) % 10, minlength=10)
    assert offsets[0] == 0
    assert offsets[1:].min() > 800 / 9 / 2


def test_out_of_distribution_patterns() -> None:
    blank = OutOfDistribution(pattern="blank").make(DATA, 30, 10, SEED).records.inputs
    assert (blank == blank[:, :1]).all()
    assert len(np.unique(blank[:, 0])) == 30
    noise = OutOfDistribution().make(DATA, 30, 10, SEED).records.inputs
    assert 0 <= noise.min() < 0.01
    assert 0.99 < noise.max() <= 1
    assert noise.mean() == pytest.approx(0.5, abs=0.03)
    with pytest.raises(ConfigError, match="blank, noise"):
        OutOfDistribution(pattern="blanc")


def test_labels_that_are_not_classes() -> None:
    for maker in (Mislabelled(), OutOfDistribution(), ClipBkd(), AdversarialDirection()):
        with pytest.raises(ConfigError, match="regression"):
            maker.make(regression(), 3, 10, SEED)


def test_dirac_takes_any_coordinate_and_no_more_than_there_are() -> None:
    assert sorted(DiracGradient().make(DATA, 10, 10, SEED).payload.coordinates.tolist()) == list(range(10))
    with pytest.raises(ConfigError, match=r"11 canaries.*10 parameters"):
        DiracGradient().make(DATA, 11, 10, SEED)


def test_random_directions() -> None:
    free = RandomGradient().make(DATA, 40, 400, SEED).payload
    cosines = (free.directions @ free.directions.T)[np.triu_indices(40, 1)]
    assert cosines.std() == pytest.approx(1 / 20, rel=0.15)
    assert not free.orthogonal
    assert RandomGradient(orthogonalise=True).make(DATA, 40, 40, SEED).payload.orthogonal
    with pytest.raises(ConfigError, match=r"41 orthogonal.*40 parameters"):
        RandomGradient(orthogonalise=True).make(DATA, 41, 40, SEED)
    with pytest.raises(ConfigError, match="GiB"):
        RandomGradient().make(DATA, 1000, 10_000_000, SEED)


def test_clipbkd_uses_what_the_data_do_not() -> None:
    canaries = ClipBkd().make(DATA, 5, 10, SEED)
    built, data = canaries.records.inputs.astype(np.float64), DATA.pool.inputs.astype(np.float64)
    lengths = np.linalg.norm(data, axis=1)
    np.testing.assert_allclose(np.linalg.norm(built, axis=1), lengths.mean(), rtol=1e-5)
    usual = np.abs(data @ built.T) / lengths[:, None] / lengths.mean()
    assert usual.mean() < 0.01
    np.testing.assert_allclose(built @ built.T, np.eye(5) * lengths.mean() ** 2, atol=1e-3)
    with pytest.raises(ConfigError, match=r"65 canaries.*64 values"):
        ClipBkd().make(DATA, 65, 10, SEED)


def test_clipbkd_records_of_one_run_do_not_share_a_label() -> None:
    """One bias learned would be that of all of them; alone, a record has the label that surprises most."""
    labels = ClipBkd().make(DATA, 50, 10, SEED).records.labels
    assert np.bincount(labels, minlength=10).tolist() == [5] * 10
    alone = ClipBkd().make(DATA, 1, 10, SEED).records
    weights = linear_probe.fit(DATA.pool.inputs.reshape(len(DATA.pool), -1), DATA.pool.labels, 10)
    assert alone.labels[0] == np.argmin(alone.inputs.reshape(1, -1) @ weights[:-1] + weights[-1])


def test_adversarial_records_are_wrong_for_another_model_too() -> None:
    model = LogisticRegression(max_iter=500).fit(DATA.train.inputs, DATA.train.labels)
    canaries = AdversarialDirection().make(DATA, 200, 10, SEED)
    assert canaries.records.inputs.min() >= 0
    assert canaries.records.inputs.max() <= 1
    assert model.score(canaries.records.inputs, canaries.records.labels) < 0.5
    assert model.score(DATA.pool.inputs, DATA.pool.labels) > 0.9


def test_linear_probe_is_ridge_regression() -> None:
    x, y = DATA.train.inputs.astype(np.float64), DATA.train.labels
    weights = linear_probe.fit(x, y, 10)
    penalty = 0.01 * len(x) * np.mean((x - x.mean(0)) ** 2)
    design, targets = np.column_stack([x, np.ones(len(x))]), np.eye(10)[y]
    residual = targets - design @ weights
    np.testing.assert_allclose(design[:, :-1].T @ residual, penalty * weights[:-1], atol=1e-8)
    np.testing.assert_allclose(residual.sum(axis=0), 0, atol=1e-8)


def test_searched_tokens_are_the_least_likely_ones_and_no_two_the_same() -> None:
    dataset = load({"kind": "sentences", "count": 200, "unused_tokens": 5, "train": 80, "pool": 60, "test": 20}, Seed(1))
    canaries = SearchedToken().make(dataset, 40, 100, Seed(2))
    assert canaries.records is not None and dataset.vocabulary is not None
    secrets = canaries.records.labels.max(axis=1)
    assert len(set(secrets.tolist())) == 40 and secrets.max() < dataset.vocabulary.ordinary
    ends = (canaries.records.inputs >= 0).sum(axis=1)
    pairs = set(zip(dataset.pool.inputs[:, :-1].ravel().tolist(), dataset.pool.inputs[:, 1:].ravel().tolist(), strict=True))
    last = canaries.records.inputs[np.arange(40), ends - 2]
    assert not pairs & set(zip(last.tolist(), secrets.tolist(), strict=True)), "no such pair stands in the pool"
    with pytest.raises(ConfigError, match="each takes one of its own"):
        SearchedToken().make(replace(dataset, vocabulary=Vocabulary(size=30)), 40, 100, Seed(2))
