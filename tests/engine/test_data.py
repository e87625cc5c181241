"""load(): the split, strict keys, embedded sets, and the scaling that is or is not public."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from audit.core.errors import ConfigError, DataError
from audit.core.seeds import Seed
from audit.data.load import STANDARDISATION, load
from audit.data.readers._embedded import BreastCancer, Digits

SEED = Seed(11)


def rows(records):
    return {record.tobytes() for record in records.inputs}


def test_digits_are_split_into_disjoint_parts_that_make_up_the_whole():
    data = load({"kind": "digits", "train": 900, "pool": 500}, SEED)
    assert (len(data.train), len(data.pool), len(data.test)) == (900, 500, 397)
    assert data.train.inputs.shape[1:] == (1, 8, 8)
    assert data.train.inputs.dtype == np.float32
    assert data.train.inputs.max() == 1.0
    assert data.classes == 10
    assert len(rows(data.train) | rows(data.pool) | rows(data.test)) == 1797  # digits has no duplicate


def test_pool_index_points_at_the_pool_rows_of_the_source():
    from sklearn.datasets import load_digits

    data = load({"kind": "digits", "train": 100, "pool": 50, "test": 10}, SEED)
    original = load_digits()
    assert np.array_equal(data.pool.labels, original.target[data.pool_index])
    assert np.allclose(data.pool.inputs[:, 0] * 16, original.images[data.pool_index])


def test_the_split_depends_on_the_seed_and_on_nothing_else():
    spec = {"kind": "digits", "train": 100, "pool": 50, "test": 10}
    item, same, peer = load(spec, SEED), load(spec, SEED), load(spec, Seed(12))
    assert np.array_equal(item.pool_index, same.pool_index)
    assert not np.array_equal(item.pool_index, peer.pool_index)
    assert item.sha256 == peer.sha256


def test_embedded_sets_are_those_of_the_library(monkeypatch):
    from sklearn.datasets import load_breast_cancer

    known, read = load_breast_cancer(), BreastCancer().read()
    assert np.array_equal(read.main.inputs, known.data)
    assert np.array_equal(read.main.labels, known.target)
    monkeypatch.setattr("audit.data.readers._embedded.find_spec", lambda name: None)
    with pytest.raises(DataError, match=r"sklearn/datasets/data/digits\.csv\.gz cannot be read .*; install scikit-learn"):
        Digits().read()


def test_breast_cancer_is_scaled_by_constants_whatever_the_split():
    few = load({"kind": "breast_cancer", "train": 10, "pool": 300}, SEED)
    many = load({"kind": "breast_cancer", "train": 250, "pool": 300}, SEED)
    full = {
        size: np.sort(np.concatenate([d.train.inputs, d.pool.inputs, d.test.inputs]), axis=0)
        for size, d in ((1, few), (2, many))
    }
    assert np.array_equal(full[1], full[2])
    assert np.abs(full[1]).max() <= 1
    assert STANDARDISATION not in few.source


def test_more_than_there_is_names_the_figures():
    with pytest.raises(DataError, match=r"train 1700, pool 200, test null ask for 1900 records, but there are 1797"):
        load({"kind": "digits", "train": 1700, "pool": 200}, SEED)


def test_two_rests_are_refused():
    with pytest.raises(ConfigError, match=r"at most one of them can be null.*pool or test"):
        load({"kind": "digits", "train": 17}, SEED)


@pytest.mark.parametrize("value", [-1, 1.5, True, "10"])
def test_a_count_that_is_no_count(value):
    with pytest.raises(ConfigError, match=r"data\.pool is .* expected a number of records"):
        load({"kind": "digits", "train": 1, "pool": value}, SEED)


def test_unknown_kind_and_key_name_the_nearest():
    with pytest.raises(ConfigError, match="Did you mean 'digits'"):
        load({"kind": "digit"}, SEED)
    with pytest.raises(ConfigError, match=r"unknown key 'trian'.*Did you mean 'train'"):
        load({"kind": "digits", "trian": 5}, SEED)
    with pytest.raises(ConfigError, match="unknown key 'title'"):
        load({"kind": "mnist", "title": "x"}, SEED)
    with pytest.raises(ConfigError, match="needs the key 'path'"):
        load({"kind": "npz"}, SEED)


# ---- npz


def npz(tmp_path, name="a.npz", **arrays):
    np.savez(tmp_path / name, **arrays)
    return {"kind": "npz", "root": str(tmp_path), "path": name}


def test_npz_images_are_scaled_and_own_test_file_is_used(tmp_path):
    generator = np.random.default_rng(0)
    x = generator.integers(0, 256, (60, 3, 32, 32), dtype=np.uint8)
    y = np.arange(60) % 3
    np.savez(tmp_path / "test.npz", x=x[:10], y=y[:10], exact=np.ones(10, bool))
    spec = npz(tmp_path, x=x, y=y.astype(np.uint8), exact=np.ones(60, bool)) | {"test_path": "test.npz", "train": 40}
    data = load(spec, SEED)
    assert (len(data.train), len(data.pool), len(data.test)) == (40, 20, 10)
    assert np.allclose(data.pool.inputs, x[data.pool_index] / 255 * 2 - 1, atol=1e-6)
    assert rows(data.test) <= {r.tobytes() for r in (x[:10].astype(np.float64) - 127.5).astype(np.float32) / np.float32(127.5)}
    assert data.classes == 3


def test_npz_flat_bytes_are_features_not_pixels(tmp_path):
    x = np.random.default_rng(0).integers(0, 2, (20, 7), dtype=np.uint8)
    data = load(npz(tmp_path, x=x, y=np.arange(20) % 2) | {"train": 10, "test": 0}, SEED)
    assert set(np.unique(data.train.inputs)) == {0.0, 1.0}


def test_npz_groups_follow_the_pool(tmp_path):
    group = np.array(["a", "b", "c", "d"] * 5)
    data = load(npz(tmp_path, x=np.eye(20), y=np.arange(20) % 2, group=group) | {"train": 10, "test": 0}, SEED)
    assert np.array_equal(data.groups, group[data.pool_index])


X, Y = np.arange(12.0).reshape(6, 2), np.array([0, 1, 0, 1, 0, 1])
BAD_NPZ = {
    "wrong keys": ({"images": X, "labels": Y}, "lacks x, y and also has images, labels"),
    "NaN": (
        {"x": np.where(X == 5, np.nan, X), "y": Y},
        "x has 1 values that are NaN or infinite, the first in record 3",
    ),
    "label below": ({"x": X, "y": Y - 1}, "label -1 of record 1 .*is out of range"),
    "label above": (
        {"x": X, "y": Y * 7},
        r"label 7 of record 2 .*is out of range; expected classes in 0 \.\. 1",
    ),
    "label fractional": ({"x": X, "y": Y + 0.5}, "label 0.5 of record 1 .*is not an integer"),
    "label NaN": ({"x": X, "y": np.where(Y == 1, np.nan, 0)}, "label nan of record 2 .*is not an integer"),
    "label text": ({"x": X, "y": Y.astype(str)}, "expected integer class labels"),
    "one class": ({"x": X, "y": Y * 0}, "single class 0"),
    "unequal": ({"x": X, "y": Y[:5]}, "6 records in x but 5 in y"),
    "objects": ({"x": X.astype(object), "y": Y}, "pickled Python objects, which could run code"),
    "channels last": ({"x": np.zeros((6, 32, 32, 3)), "y": Y}, "channels last"),
    "no record": ({"x": X[:0], "y": Y[:0]}, "holds no record"),
    "one axis": ({"x": X[:, 0], "y": Y}, r"expected numbers, \(n, \.\.\.\)"),
}


@pytest.mark.parametrize("name", BAD_NPZ)
def test_bad_npz(tmp_path, name):
    arrays, message = BAD_NPZ[name]
    with pytest.raises(DataError, match=message) as caught:
        load(npz(tmp_path, **arrays) | {"train": 3, "pool": 3, "classes": 2}, SEED)
    assert caught.value.exit_code == 2
    assert "a.npz" in str(caught.value) or name == "one class"


def test_missing_empty_and_damaged_files(tmp_path):
    spec = {"kind": "npz", "root": str(tmp_path), "path": "b.npz", "train": 1}
    with pytest.raises(DataError, match=r"no file .*b\.npz; nothing is ever downloaded"):
        load(spec, SEED)
    (tmp_path / "b.npz").write_bytes(b"")
    with pytest.raises(DataError, match="is empty"):
        load(spec, SEED)
    (tmp_path / "b.npz").write_bytes(b"PK\x03\x04 and then nothing")
    with pytest.raises(DataError, match="cannot be read as npz"):
        load(spec, SEED)
    np.save(tmp_path / "c.npy", X)
    with pytest.raises(DataError, match="single array"):
        load(spec | {"path": "c.npy"}, SEED)


# ---- tables

COLUMNS = ["age", "job", "sex", "income"]
LINES = [
    "39, clerk, F, <=50K",
    "50, boss, M, >50K",
    "38, ?, M, <=50K",
    "28, clerk, F, >50K",
    "41, boss, F, <=50K",
    "33, boss, M, >50K",
]


def table(tmp_path, **options):
    (tmp_path / "t.data").write_text("\n".join(LINES) + "\n")
    (tmp_path / "t.test").write_text("|a comment\n" + "\n".join(line + "." for line in LINES[:4]) + "\n")
    spec = {"kind": "table", "root": str(tmp_path), "path": "t.data", "test_path": "t.test", "test_skip_rows": 1}
    spec |= {
        "columns": COLUMNS,
        "label": "income",
        "label_suffix": ".",
        "categorical": ["job", "sex"],
        "group": "sex",
        "train": 4,
    }
    return spec | options


def test_a_table_in_the_shape_of_uci_adult(tmp_path):
    data = load(table(tmp_path), SEED)
    assert data.train.inputs.shape == (4, 1 + 3 + 2)  # age, three jobs with '?', two sexes
    assert (len(data.pool), len(data.test), data.classes) == (2, 4, 2)
    full = [line.split(", ") for line in LINES]
    assert list(data.groups) == [full[i][2] for i in data.pool_index]
    assert list(data.pool.labels) == [int(full[i][3] == ">50K") for i in data.pool_index]
    assert STANDARDISATION in data.source
    assert np.allclose(data.train.inputs[:, 0].mean(), 0, atol=1e-6)
    assert np.allclose(data.train.inputs[:, 0].std(), 1, atol=1e-6)


def test_declared_ranges_need_no_statistics(tmp_path):
    data = load(table(tmp_path, ranges={"age": [0, 100]}), SEED)
    assert STANDARDISATION not in data.source
    ages = np.array([float(line.split(",")[0]) for line in LINES])
    assert np.allclose(data.pool.inputs[:, 0], ages[data.pool_index] / 50 - 1)


def test_parquet_and_gzip_give_the_same_as_csv(tmp_path):
    import gzip

    plain = load(table(tmp_path), SEED)
    frame = pd.read_csv(tmp_path / "t.data", names=COLUMNS, skipinitialspace=True)
    frame.to_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress((tmp_path / "t.data").read_bytes()))
    for path in ("t.parquet", "t.csv.gz"):
        again = load(table(tmp_path, path=path), SEED)
        assert np.array_equal(again.train.inputs, plain.train.inputs)
        assert np.array_equal(again.pool.labels, plain.pool.labels)
        assert again.sha256 != plain.sha256


def test_regression_keeps_the_numbers(tmp_path):
    spec = table(tmp_path, label="age", task="regression", categorical=["job", "sex", "income"], test_path=None, test=1)
    data = load(spec, SEED)
    assert data.classes == 0
    assert data.train.labels.dtype == np.float64
    assert set(data.train.labels) <= {28, 33, 38, 39, 41, 50}


def test_integer_labels_are_ordered_as_numbers(tmp_path):
    (tmp_path / "n.csv").write_text("a,y\n" + "\n".join(f"{i},{label}" for i, label in enumerate([10, 2, 1, 10, 2, 1])))
    data = load(
        {"kind": "table", "root": str(tmp_path), "path": "n.csv", "label": "y", "train": 0, "pool": 6, "ranges": {"a": [0, 6]}},
        SEED,
    )
    assert [[2, 1, 0][i % 3] for i in data.pool_index] == list(data.pool.labels)


BAD_TABLE = {
    "no such label": ({"label": "incom"}, r"no column 'incom' \(data\.label\)\. Did you mean 'income'"),
    "no such category": ({"categorical": ["jobs"]}, r"no column 'jobs' \(data\.categorical\)\. Did you mean 'job'"),
    "text as number": (
        {"categorical": ["sex"]},
        r"column 'job' holds 'clerk' in row 1 .*'categorical' or in 'drop'",
    ),
    "label of the test file": ({"label_suffix": ""}, r"label '<=50K\.' in row 1 .* of column 'income' is none of <=50K, >50K"),
    "class not declared": ({"classes": ["<=50K"]}, r"label '>50K' in row 2"),
    "nothing to standardise from": ({"train": 0}, r"data\.train is 0; declare their public limits"),
}


@pytest.mark.parametrize("name", BAD_TABLE)
def test_bad_table(tmp_path, name):
    options, message = BAD_TABLE[name]
    with pytest.raises(DataError, match=message):
        load(table(tmp_path, **options), SEED)


def test_missing_values_of_numeric_columns_and_labels(tmp_path):
    (tmp_path / "m.csv").write_text("a,y\n1,0\n,1\n3,0\n")
    spec = {"kind": "table", "root": str(tmp_path), "path": "m.csv", "label": "y", "train": 1, "pool": 2}
    with pytest.raises(DataError, match="column 'a' has 1 values that are missing, NaN or infinite, the first in row 2"):
        load(spec, SEED)
    with pytest.raises(DataError, match="label column 'a' is empty in row 2"):
        load(spec | {"label": "a"}, SEED)


def test_empty_and_unreadable_tables(tmp_path):
    spec = {"kind": "table", "root": str(tmp_path), "path": "e.csv", "label": "y", "train": 1}
    (tmp_path / "e.csv").write_text("a,y\n")
    with pytest.raises(DataError, match="holds no row"):
        load(spec, SEED)
    (tmp_path / "e.csv").write_bytes(b"\x1f\x8bnot gzip")
    with pytest.raises(DataError, match="cannot be read as a table"):
        load(spec, SEED)
    (tmp_path / "e.csv").write_bytes(b"PAR1 nonsense PAR1")
    with pytest.raises(DataError, match="cannot be read as a table"):
        load(spec, SEED)


def test_rows_with_more_cells_than_names_are_not_cut(tmp_path):
    (tmp_path / "w.csv").write_text("a,y\n1,0,9\n2,1,9\n")
    spec = {"kind": "table", "root": str(tmp_path), "path": "w.csv", "label": "y", "train": 1, "pool": 1}
    with pytest.raises(DataError, match="cannot be read as a table"):
        load(spec, SEED)


def test_values_too_large_for_float32(tmp_path):
    with pytest.raises(DataError, match=r"as float32, has 1 values that are NaN or infinite"):
        load(npz(tmp_path, x=np.where(X == 5, 1e200, X), y=Y) | {"train": 6, "pool": 0, "test": 0}, SEED)


def test_ranges_and_types_are_checked(tmp_path):
    with pytest.raises(ConfigError, match=r"data\.ranges\.age is \[5\.0, 5\.0\]; expected low < high"):
        load(table(tmp_path, ranges={"age": [5, 5]}), SEED)
    with pytest.raises(ConfigError, match="expected two numbers"):
        load(table(tmp_path, ranges={"age": [5]}), SEED)
    with pytest.raises(ConfigError, match=r"data\.categorical is 'job'; expected a list"):
        load(table(tmp_path, categorical="job"), SEED)
    with pytest.raises(ConfigError, match=r"data\.task is 'rank'; expected one of classification, regression"):
        load(table(tmp_path, task="rank"), SEED)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("path", 3, "text"),
        ("test_path", 3, "text"),
        ("group", ["sex"], "text"),
        ("columns", "age", "a list"),
        ("skip_rows", -1, "a number of lines"),
        ("test_skip_rows", "1", "a number of lines"),
        ("ranges", [["age", 0, 1]], "a mapping"),
        ("classes", 2, "a list of labels"),
    ],
)
def test_values_of_the_wrong_type(tmp_path, key, value, expected):
    with pytest.raises(ConfigError, match=rf"data\.{key} is .*expected {expected}"):
        load(table(tmp_path, **{key: value}), SEED)


@pytest.mark.parametrize("value", ["10", 1, True, [0, 1]])
def test_a_number_of_classes_that_is_none(tmp_path, value):
    with pytest.raises(ConfigError, match=r"data\.classes is .*expected a number of at least 2"):
        load({"kind": "npz", "path": str(tmp_path / "a.npz"), "classes": value}, SEED)


CALLS = pd.DataFrame(
    {
        "month": ["may", "may", "may", "june", "may", "may"],
        "day": ["mon", "mon", "tue", "mon", "mon", "mon"],
        "age": [21, 24, 25, 29, 30, 34],
        "y": ["no", "yes", "no", "yes", "no", "yes"],
    }
)


@pytest.mark.parametrize(
    ("client", "names"),
    [
        ("month", {"may", "june"}),
        (["month", "day"], {"may/mon", "may/tue", "june/mon"}),
        ({"columns": ["month", "day"], "runs": True}, {"may/mon/0", "may/tue/1", "june/mon/2", "may/mon/3"}),
        ({"columns": ["day", "age"], "widths": {"age": 5}}, {"mon/20", "tue/25", "mon/25", "mon/30"}),
    ],
)
def test_columns_name_the_client_of_each_train_record(tmp_path, client, names):
    CALLS.to_csv(tmp_path / "calls.csv", index=False)
    spec = {"kind": "table", "root": str(tmp_path), "path": "calls.csv", "label": "y", "categorical": ["month", "day"]}
    data = load({**spec, "client": client, "train": 6, "pool": 0, "test": 0}, SEED)
    assert set(data.owners) == names
    oldest = data.owners[np.argmax(data.train.inputs[:, -1])]
    assert oldest.startswith("may") or oldest == "mon/30", "owners follow their records through the split"
    assert len(load({**spec, "client": client, "train": 3, "pool": 2, "test": 1}, SEED).owners) == 3


@pytest.mark.parametrize(
    ("client", "words"),
    [
        ("moth", "no column 'moth' .data.client..*month"),
        ([], "expected a list of column names"),
        ({"columns": ["age"], "width": {"age": 5}}, "unknown key 'width'.*widths"),
        ({"columns": ["age"], "widths": {"age": 0}}, "expected a number above 0"),
        ({"columns": ["age"], "widths": {"day": 5}}, "expected widths of age"),
        ({"columns": ["month"], "widths": {"month": 5}}, "holds no numbers"),
        ({"columns": ["month"], "runs": 1}, "expected true or false"),
    ],
)
def test_a_client_that_no_column_names_is_refused(tmp_path, client, words):
    CALLS.to_csv(tmp_path / "calls.csv", index=False)
    with pytest.raises((ConfigError, DataError), match=words):
        load(
            {"kind": "table", "root": str(tmp_path), "path": "calls.csv", "label": "y", "categorical": ["month", "day"]}
            | {"client": client, "train": 6, "pool": 0, "test": 0},
            SEED,
        )
