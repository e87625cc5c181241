"""The published files themselves, if they are at hand."""

from __future__ import annotations

import subprocess
import sys
import tarfile

import numpy as np
import pytest

from audit.core.seeds import Seed
from audit.data.load import STANDARDISATION, load

SEED = Seed(5)
ADULT = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education_num",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital_gain",
    "capital_loss",
    "hours_per_week",
    "native_country",
    "income",
]
ADULT_CATEGORICAL = ["workclass", "education", "marital_status", "occupation", "relationship", "race", "sex", "native_country"]


def test_mnist(data_root):
    data = load({"kind": "mnist", "root": str(data_root), "train": 5000, "pool": 1000, "test": 2000}, SEED)
    assert (len(data.train), len(data.pool), len(data.test), data.classes) == (5000, 1000, 2000, 10)
    assert data.train.inputs.shape[1:] == (1, 28, 28)
    # published mean of MNIST pixels in [0, 1]: 0.1307
    assert abs((data.train.inputs.mean() + 1) / 2 - 0.1307) < 0.003


@pytest.mark.slow
def test_cifar10_through_its_converter(data_root, tmp_path):
    converter = data_root / "cifar10_to_npz.py"
    if not converter.is_file():
        pytest.skip("no packed CIFAR-10 here")
    subprocess.run([sys.executable, str(converter), str(tmp_path)], check=True)
    spec = {"kind": "npz", "root": str(tmp_path), "path": "cifar10_train.npz", "test_path": "cifar10_test.npz"}
    data = load(spec | {"train": 4000, "pool": 1000, "test": 2000}, SEED)
    assert data.train.inputs.shape == (4000, 3, 32, 32)
    assert data.classes == 10
    # published channel means of CIFAR-10 in [0, 1]
    result = (data.train.inputs.mean(axis=(0, 2, 3)) + 1) / 2
    assert np.allclose(result, (0.4914, 0.4822, 0.4465), atol=0.02)


@pytest.mark.slow
def test_adult(data_root):
    spec = {"kind": "table", "root": str(data_root), "path": "adult/adult.data.gz", "test_path": "adult/adult.test.gz"}
    spec |= {"columns": ADULT, "label": "income", "label_suffix": ".", "test_skip_rows": 1}
    spec |= {"categorical": ADULT_CATEGORICAL, "group": "sex", "train": 20000}
    data = load(spec, SEED)
    assert (len(data.train), len(data.pool), len(data.test)) == (20000, 12561, 16281)
    counts = np.bincount(np.concatenate([data.train.labels, data.pool.labels]))
    assert list(counts) == [24720, 7841]  # the published class counts of adult.data
    assert int(data.test.labels.sum()) == 3846  # and of adult.test
    assert set(data.groups) == {"Female", "Male"}
    assert data.train.inputs.shape[1] == 6 + 102
    assert STANDARDISATION in data.source


@pytest.mark.slow
def test_bank_marketing(data_root):
    categorical = ["job", "marital", "education", "default", "housing", "loan", "contact", "month", "day_of_week", "poutcome"]
    spec = {"kind": "table", "root": str(data_root), "path": "bank_marketing/bank-additional-full.csv.gz", "separator": ";"}
    spec |= {"label": "y", "categorical": categorical, "train": 20000, "pool": 1000, "drop": ["duration"]}
    data = load(spec, SEED)
    assert len(data.test) == 41188 - 21000
    assert sum(int(part.labels.sum()) for part in (data.train, data.pool, data.test)) == 4640


def test_location30_through_npz(data_root, tmp_path):
    with tarfile.open(data_root / "location30" / "dataset_location.tgz") as archive:
        lines = archive.extractfile("bangkok").read().decode().replace('"', "").splitlines()
    table = np.loadtxt(lines, delimiter=",", dtype=np.uint8)
    np.savez(tmp_path / "location.npz", x=table[:, 1:], y=table[:, 0] - 1)
    data = load({"kind": "npz", "path": str(tmp_path / "location.npz"), "train": 2000, "pool": 1500}, SEED)
    assert (data.classes, data.train.inputs.shape[1], len(data.test)) == (30, 446, 1510)
    assert set(np.unique(data.train.inputs)) == {0.0, 1.0}
