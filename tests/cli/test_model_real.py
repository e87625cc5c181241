"""A trained model on published data: a leak that exists is found, and none is found if there is none."""

from __future__ import annotations

import tarfile

import numpy as np
import pytest
import torch
from torch import nn

from audit.core.claims import Outcome
from audit.core.errors import DataError
from audit.core.results import Status
from audit.core.seeds import Seed
from audit.data.load import load
from audit.experiment.external.inspection import Settings, draw_coins, inspect


def fitted(x, y, classes: int, epochs: int, hidden: int = 128) -> nn.Module:
    """A small network trained without protection."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        net = nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(x.shape[1:])), hidden), nn.ReLU(), nn.Linear(hidden, classes))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    inputs, labels = torch.from_numpy(np.array(x)), torch.from_numpy(np.array(y))
    order = np.random.default_rng(0)
    for _ in range(epochs):
        for batch in torch.from_numpy(order.permutation(len(x))).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(inputs[batch]), labels[batch]).backward()
            optimizer.step()
    return net.eval()


def of(report, code):
    return next(check for check in report.mechanisms[0].checks if check.code == code)


@pytest.mark.slow
def test_location30_leaks_and_coins_prove_how_much(data_root, tmp_path):
    with tarfile.open(data_root / "location30" / "dataset_location.tgz") as archive:
        lines = archive.extractfile("bangkok").read().decode().replace('"', "").splitlines()
    table = np.loadtxt(lines, delimiter=",", dtype=np.uint8)
    x, y = table[:, 1:].astype(np.float32), table[:, 0].astype(np.int64) - 1
    coins = draw_coins(len(x), 2**64 + 11)
    np.savez(tmp_path / "members.npz", x=table[coins, 1:], y=y[coins], index=np.flatnonzero(coins))
    np.savez(tmp_path / "nonmembers.npz", x=table[~coins, 1:], y=y[~coins], index=np.flatnonzero(~coins))
    net = fitted(x[coins], y[coins], 30, epochs=30)
    settings = Settings(randomised_seed=2**64 + 11, claim_epsilon=0.5, estimators=("one_run",))
    report = inspect(net, tmp_path / "members.npz", tmp_path / "nonmembers.npz", settings)
    loss = report.mechanisms[0].games[0].attacks[0]
    assert of(report, "membership").status is Status.CHECKED
    assert of(report, "blind").status is Status.CHECKED
    assert loss.auc > 0.75
    assert 0.9 < loss.bounds[0].epsilon < loss.bounds[0].ceiling
    assert report.outcome is Outcome.VIOLATED
    assert len(report.mechanisms[0].games[0].groups) == 30


@pytest.mark.slow
def test_adult_has_twins_on_both_sides_and_a_small_model_hides_its_records(data_root):
    columns = (
        "age workclass fnlwgt education education_num marital_status occupation relationship race sex capital_gain "
        "capital_loss hours_per_week native_country income"
    )
    spec = {
        "kind": "table",
        "root": str(data_root),
        "path": "adult/adult.data.gz",
        "columns": columns.split(),
        "label": "income",
    }
    spec |= {"categorical": [name for name in columns.split() if name in CATEGORICAL], "train": 16000, "test": 0}
    data = load(spec, Seed(1))
    net = fitted(data.train.inputs, data.train.labels, 2, epochs=2, hidden=16)
    with pytest.raises(DataError, match="nonmembers are equal to members"):
        inspect(net, data.train, data.pool)
    report = inspect(net, data.train, data.pool, Settings(overlap="drop"))
    loss = report.mechanisms[0].games[0].attacks[0]
    assert loss.auc_lower < 0.5 < loss.auc_upper
    assert loss.tpr_at[2].realised_fpr <= 0.001
    assert of(report, "blind").status is Status.CHECKED
    assert "left out" in " ".join(report.notes)


CATEGORICAL = ("workclass", "education", "marital_status", "occupation", "relationship", "race", "sex", "native_country")


@pytest.mark.slow
def test_mnist_with_one_digit_kept_out_of_the_nonmembers_is_called_biased(data_root):
    data = load({"kind": "mnist", "root": str(data_root), "train": 800, "pool": 800, "test": 0}, Seed(2))
    net = fitted(data.train.inputs, data.train.labels, 10, epochs=5, hidden=32)
    fair = inspect(net, data.train, data.pool)
    assert of(fair, "blind").status is Status.CHECKED
    assert fair.outcome is None
    without = np.flatnonzero(data.pool.labels != 1)
    biased = inspect(net, data.train, data.pool.take(without))
    assert of(biased, "blind").status is Status.FAILED
    assert biased.outcome is Outcome.INVALID
