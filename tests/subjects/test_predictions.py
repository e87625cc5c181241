"""Recorded outputs: the same view whatever the file, and every malformed one named."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from audit import plugins
from audit.core.errors import ConfigError, DataError
from audit.subjects.predictions import Predictions

GENERATOR = np.random.default_rng(3)
LOGITS = GENERATOR.normal(size=(8, 3))
PROBABILITIES = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
LABELS = np.array([0, 1, 2, 0, 1, 2, 0, 1])
MEMBER = np.array([1, 1, 0, 1, 0, 0, 1, 0], bool)
LOSSES = -np.log(PROBABILITIES[np.arange(8), LABELS])


def build(**paths):
    return plugins.build("audit.subjects", {"kind": "predictions", **{key: str(path) for key, path in paths.items()}})


def frame(form: str) -> pd.DataFrame:
    columns = {"label": LABELS, "member": MEMBER}
    if form == "losses":
        return pd.DataFrame({"loss": LOSSES, **columns})
    values, name = (LOGITS, "logit") if form == "logits" else (PROBABILITIES, "probability")
    return pd.DataFrame({**{f"{name}_{i}": values[:, i] for i in (2, 0, 1)}, **columns})


@pytest.mark.parametrize("suffix", ["npz", "csv", "parquet"])
@pytest.mark.parametrize("form", ["logits", "probabilities", "losses"])
def test_every_form_in_every_file_gives_the_same_loss(tmp_path, form, suffix):
    from attacks.scorers._figures import Loss
    from attacks.signals._reading import NO_REFERENCE
    from audit.core.seeds import Seed

    path = tmp_path / f"p.{suffix}"
    if suffix == "npz":
        values = {"logits": LOGITS, "probabilities": PROBABILITIES, "losses": LOSSES}[form]
        np.savez(path, labels=LABELS, member=MEMBER, **{form: values})
    elif suffix == "csv":
        frame(form).to_csv(path, index=False)
    else:
        frame(form).to_parquet(path)
    result = build(path=path)
    assert np.array_equal(result.included, MEMBER)
    assert np.array_equal(result.view.labels, LABELS)
    assert np.allclose(Loss().score(result.view, NO_REFERENCE, Seed(0)), -LOSSES)


def test_two_files_are_joined_members_first(tmp_path):
    np.savez(tmp_path / "m.npz", logits=LOGITS[MEMBER], labels=LABELS[MEMBER])
    np.savez(tmp_path / "n.npz", logits=LOGITS[~MEMBER], labels=LABELS[~MEMBER])
    result = build(members=tmp_path / "m.npz", nonmembers=tmp_path / "n.npz")
    assert list(result.included) == [True] * 4 + [False] * 4
    assert np.allclose(result.view["logits"], np.concatenate([LOGITS[MEMBER], LOGITS[~MEMBER]]))


def test_losses_need_no_labels_and_groups_and_inputs_are_kept(tmp_path):
    np.savez(tmp_path / "p.npz", losses=LOSSES, member=MEMBER, group=list("aabbaabb"), x=np.eye(8))
    result = build(path=tmp_path / "p.npz")
    assert result.view.labels is None
    assert list(result.groups) == list("aabbaabb")
    assert result.inputs.shape == (8, 8)


GOOD = {"logits": LOGITS, "labels": LABELS, "member": MEMBER}
BAD = {
    "nothing to score": (
        {"labels": LABELS, "member": MEMBER},
        "0 of logits, probabilities, losses, errors; expected exactly one",
    ),
    "two forms": (GOOD | {"losses": LOSSES}, "2 of logits, probabilities, losses"),
    "no member": ({"logits": LOGITS, "labels": LABELS}, "lacks 'member'"),
    "no labels": ({"logits": LOGITS, "member": MEMBER}, "has logits but no labels"),
    "members only": (GOOD | {"member": MEMBER | True}, "member marks members only"),
    "nonmembers only": (GOOD | {"member": MEMBER & False}, "member marks nonmembers only"),
    "not a truth value": (GOOD | {"member": np.arange(8)}, "expected true or false"),
    "NaN": (
        GOOD | {"logits": np.where(LOGITS[4, 1] == LOGITS, np.nan, LOGITS)},
        "logits has 1 values that are NaN.*record 5",
    ),
    "label out of range": (
        GOOD | {"labels": LABELS + 1},
        r"label 3 of record 3 .*is out of range; expected classes in 0 \.\. 2",
    ),
    "label fractional": (GOOD | {"labels": LABELS + 0.5}, "is not an integer"),
    "one logit": (GOOD | {"logits": LOGITS[:, :1]}, "at least two classes"),
    "unequal": (GOOD | {"labels": LABELS[:5]}, "unequal length"),
    "no distribution": ({"probabilities": PROBABILITIES * 1.1, "labels": LABELS, "member": MEMBER}, "not a distribution"),
    "regression targets": ({"losses": LOSSES, "labels": LABELS + 0.5, "member": MEMBER}, "for regression leave them out"),
    "unknown": (GOOD | {"logit": LOGITS}, "holds logit, which no file of recorded predictions has"),
    "text": (GOOD | {"logits": LOGITS.astype(str)}, "logits have type"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arrays(tmp_path, name):
    arrays, message = BAD[name]
    np.savez(tmp_path / "p.npz", **arrays)
    with pytest.raises(DataError, match=message) as caught:
        build(path=tmp_path / "p.npz")
    assert caught.value.exit_code == 2
    assert "p.npz" in str(caught.value)


def test_bad_tables_and_pairs(tmp_path):
    frame("logits").drop(columns="logit_1").to_csv(tmp_path / "gap.csv", index=False)
    with pytest.raises(DataError, match=r"logits columns are numbered \[0, 2\]"):
        build(path=tmp_path / "gap.csv")
    frame("losses").assign(loss="high").to_csv(tmp_path / "text.csv", index=False)
    with pytest.raises(DataError, match=r"column.s. of losses hold text"):
        build(path=tmp_path / "text.csv")
    np.savez(tmp_path / "m.npz", logits=LOGITS, labels=LABELS)
    np.savez(tmp_path / "n.npz", losses=LOSSES, labels=LABELS)
    with pytest.raises(DataError, match="hold different arrays"):
        build(members=tmp_path / "m.npz", nonmembers=tmp_path / "n.npz")
    np.savez(tmp_path / "n.npz", logits=LOGITS[:, :2], labels=LABELS % 2)
    with pytest.raises(DataError, match="entries of different shapes"):
        build(members=tmp_path / "m.npz", nonmembers=tmp_path / "n.npz")
    np.savez(tmp_path / "n.npz", logits=LOGITS[:0], labels=LABELS[:0])
    with pytest.raises(DataError, match="holds no record"):
        build(members=tmp_path / "m.npz", nonmembers=tmp_path / "n.npz")
    np.savez(tmp_path / "n.npz", **GOOD)
    with pytest.raises(DataError, match="its own 'member'"):
        build(members=tmp_path / "m.npz", nonmembers=tmp_path / "n.npz")
    with pytest.raises(ConfigError, match="one file with a 'member' column"):
        build(members=tmp_path / "m.npz")
    with pytest.raises(ConfigError, match="one file with a 'member' column"):
        build(path=tmp_path / "m.npz", members=tmp_path / "m.npz")


@pytest.mark.parametrize("key", ["losses", "member", "group"])
def test_an_array_without_dimensions_is_refused_by_its_name(key: str, tmp_path: Path) -> None:
    arrays = {"losses": np.arange(4.0), "member": np.array([True, False] * 2), "group": np.array(list("abab"))}
    np.savez(tmp_path / "p.npz", **{**arrays, key: arrays[key][0]})
    with pytest.raises(DataError, match=rf"p\.npz: {key} is a single value; expected one entry for each record"):
        Predictions(path=str(tmp_path / "p.npz"))


def test_records_without_a_number_in_them_are_refused_before_they_are_read(tmp_path: Path) -> None:
    header = b"{'descr': '<U0', 'fortran_order': False, 'shape': (1099511627776,), }"
    header += b" " * (117 - len(header)) + b"\n"
    with zipfile.ZipFile(tmp_path / "p.npz", "w") as archive:
        archive.writestr("losses.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(DataError, match="'losses' states 1,099,511,627,776 records that hold nothing"):
        Predictions(path=str(tmp_path / "p.npz"))
