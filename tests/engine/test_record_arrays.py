"""Records that stay as they are: the same bits as float32 ones in every training, no copy of the whole, one mapping for all."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from audit.core import mapped_files
from audit.core.canaries import Canaries, CanaryRecords, CoordinateGradients
from audit.core.data import Dataset, Records
from audit.core.errors import ConfigError, DataError
from audit.core.events import dp_sgd, sgd
from audit.core.mapped_files import FileRows
from audit.core.record_arrays import Concatenation, RawArray, RecordArray, concatenate, scale_numbers
from audit.core.seeds import Seed
from audit.core.training import TrainedModels
from audit.data import source
from audit.data.load import load
from audit.data.source import PIXELS
from audit.engine.compile_c import library
from audit.engine.compiled.compiled_mlp import SOURCE
from audit.engine.dp_options import Technique
from audit.engine.ensemble import train
from audit.engine.read.subject import Ensemble
from audit.engine.schedule import ScheduleSettings
from audit.experiment.games.job_specs import check_files, dataset_digest, with_companions
from audit.trainers.federated import FederatedTrainer
from audit.trainers.opacus import OpacusTrainer
from audit.trainers.user_function import UserFunction
from tests.conformance import test_canaries
from tests.engine import cases

PRIVATE = dp_sgd(noise_multiplier=1.0, clip_norm=0.5, sample_rate=0.3, steps=4)
PLAIN = sgd(sample_rate=0.3, steps=4)
SCALE = (PIXELS.offset, PIXELS.unit)
SEED = Seed(3)


def raw_images(count: int, shape: tuple[int, ...] = (1, 6, 6), seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)


def two_forms(data: Dataset) -> tuple[Dataset, Dataset]:
    """`data` with bytes in place of its numbers: kept as bytes, and as float32."""
    lazy, dense = {}, {}
    for part in ("train", "pool", "test"):
        records = getattr(data, part)
        raw = RawArray(raw_images(len(records), records.inputs.shape[1:], len(part)), np.arange(len(records)), SCALE)
        lazy[part] = Records(inputs=raw, labels=records.labels)
        dense[part] = Records(inputs=np.asarray(raw), labels=records.labels)
    return replace(data, **lazy), replace(data, **dense)


def same(first: TrainedModels, second: TrainedModels) -> bool:
    return all(np.array_equal(first.weights[name], second.weights[name]) for name in first.weights)


def test_bytes_become_the_numbers_that_float64_makes_of_them() -> None:
    raw = np.arange(256, dtype=np.uint8)[:, None]
    for scale in (SCALE, (np.array(16.3), np.array(0.7)), (np.zeros(()), np.ones(())), (np.array([1e-3]), np.array([255.0]))):
        built = RawArray(raw, np.arange(256), scale)[:]
        assert built.dtype == np.float32 and np.array_equal(built, scale_numbers(raw, scale))
    wide = np.random.default_rng(0).normal(size=(9, 3))
    assert np.array_equal(RawArray(wide, np.arange(9), (np.zeros(()), np.ones(())))[:], wide.astype(np.float32))
    assert RawArray(raw, np.arange(256), None)[:].dtype == np.int64


KEYS = [
    3,
    -1,
    slice(2, 9, 3),
    slice(None, None, -1),
    np.array([5, 5, 0]),
    np.arange(20) % 3 == 0,
    (slice(4), 0),
    ([1, 2], 0, 3),
    ([1, 2, 3], 0, [1, 2, 3]),
    (3, slice(None), [0, 1]),
    (np.arange(20) % 4 == 0, 0, [0, 1, 2, 3, 4]),
    np.indices((20, 1, 6, 6)).sum(axis=0) % 5 == 0,
]


@pytest.mark.parametrize("key", [*KEYS, (..., 2), None], ids=str)
def test_what_is_asked_for_by_place_is_what_an_array_has_there(key: Any) -> None:
    raw = RawArray(raw_images(30), np.arange(29, 9, -1), SCALE)
    full = np.asarray(raw)
    joint = concatenate([raw, full[:4]])
    assert np.array_equal(raw[key], full[key]) and raw[key].shape == full[key].shape
    assert isinstance(joint, Concatenation) and len(joint) == 24
    assert np.array_equal(joint.take_rows(np.arange(20))[key], full[key])


@pytest.mark.parametrize("kind", ["int64", "uint64", "longdouble"])
def test_numbers_that_float64_cannot_hold_are_rounded_as_in_arrays(kind: str) -> None:
    """Halfway between two of float32, and a little more, which float64 drops: 2^60 + 2^36 + 1."""
    wide = np.ones((3, 2), kind) * np.array(2**60, kind) + np.array(2**36, kind) + np.array(1, kind)
    scale = (np.zeros(()), np.ones(()))
    assert np.array_equal(RawArray(wide, np.arange(3), scale)[:], scale_numbers(wide, scale))


def test_records_are_read_only_and_never_handed_out_without_a_copy() -> None:
    raw = RawArray(raw_images(5), np.arange(5), SCALE)
    with pytest.raises(TypeError):
        raw += 1
    with pytest.raises(ValueError, match="ask for a copy"):
        np.array(raw, copy=False)
    assert -1.0 in RawArray(np.zeros((1, 1, 2, 2), np.uint8), np.arange(1), SCALE) and 7.0 not in raw


def test_code_that_knows_arrays_alone_takes_them() -> None:
    raw = RawArray(raw_images(30), np.arange(30), SCALE)
    full = np.asarray(raw)
    assert np.array_equal(1 - raw * 2, 1 - full * 2) and np.array_equal(np.abs(raw), np.abs(full))
    assert raw.min() == full.min() and np.array_equal(raw.max(axis=0), full.max(axis=0))
    assert np.array_equal(raw.reshape(30, -1).mean(axis=0), full.reshape(30, -1).mean(axis=0)) and raw.nbytes == full.nbytes
    assert all(np.array_equal(item, peer) for item, peer in zip(raw, full, strict=True))
    assert not hasattr(raw, "no_such_thing")
    with pytest.raises(DataError, match="cannot stand side by side"):
        concatenate([raw, full[:, :, 1:]])


@pytest.mark.parametrize("name", [name for name in test_canaries.MAKERS if name not in test_canaries.TEXTS])
def test_canaries_are_the_same_in_either_form(name: str) -> None:
    lazy, dense = two_forms(test_canaries.small_dataset())
    item, peer = test_canaries.make(name, dataset=lazy), test_canaries.make(name, dataset=dense)
    assert test_canaries.content(item) == test_canaries.content(peer)
    assert dataset_digest(with_companions(lazy, item)) == dataset_digest(with_companions(dense, peer))


ARRANGEMENTS = {
    "together": ({"kind": "mlp", "hidden": [8]}, ScheduleSettings()),
    "one after another": ({"kind": "mlp", "hidden": [8]}, ScheduleSettings(sequential=True)),
    "compiled": ({"kind": "mlp", "hidden": [8]}, ScheduleSettings(compile="on")),
    "convolutions": ({"kind": "cnn", "channels": [4]}, ScheduleSettings(model_chunk=2)),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mechanism", [PRIVATE, PLAIN], ids=["dpsgd", "plain"])
@pytest.mark.parametrize("name", ARRANGEMENTS)
def test_models_have_the_same_bits_in_either_form(name: str, mechanism: Any) -> None:
    model, settings = ARRANGEMENTS[name]
    if name == "compiled" and library(SOURCE) is None:
        pytest.skip("no C compiler")
    shape = (1, 8, 8)
    lazy, dense = (cases.job(mechanism, model=model, data=data) for data in two_forms(cases.dataset(shape)))
    models = [train(job, cases.silent, settings) for job in (lazy, dense)]
    assert same(*models)
    outputs = [
        Ensemble(job, of_form).outputs(job.dataset.test.inputs) for job, of_form in zip((lazy, dense), models, strict=True)
    ]
    assert np.array_equal(*outputs)


def test_views_and_whole_numbers_have_the_same_bits_in_either_form() -> None:
    lazy, dense = (cases.job(PRIVATE, data=data) for data in two_forms(cases.dataset((1, 6, 6))))
    technique = Technique(copies=2, flip=True, shift=1)
    assert same(*(train(job, cases.silent, None, technique) for job in (lazy, dense)))
    tokens = np.random.default_rng(1).integers(0, 7, (40, 5), dtype=np.uint8)
    data = cases.dataset((5,))
    forms = [RawArray(tokens, np.arange(40), None), tokens.astype(np.int64)]
    model = {"factory": f"{__name__}:tokens_model"}
    jobs = []
    for form in forms:
        parts = {part: Records(inputs=form[:12], labels=getattr(data, part).labels[:12]) for part in ("pool", "test")}
        records = Records(inputs=form, labels=data.train.labels)
        jobs.append(cases.job(PRIVATE, model=model, data=replace(data, train=records, pool_index=np.arange(12), **parts)))
    assert same(*(train(job, cases.silent) for job in jobs))


def tokens_model() -> nn.Module:
    return nn.Sequential(nn.Embedding(7, 4), nn.Flatten(), nn.Linear(20, 3))


def keep_training(model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor, *, seed: int) -> None:
    assert inputs.dtype == torch.float32 and len(inputs) == len(labels)
    with torch.no_grad():
        next(model.parameters()).add_(inputs.mean())


@pytest.mark.parametrize(
    "trainer", [OpacusTrainer(), UserFunction(function=f"{__name__}:keep_training")], ids=["opacus", "user"]
)
def test_trainers_of_others_take_either_form(trainer: Any) -> None:
    if isinstance(trainer, OpacusTrainer):
        pytest.importorskip("opacus")
    mechanism, access = (
        (PRIVATE, cases.Access.ALL_STEPS) if isinstance(trainer, OpacusTrainer) else (PLAIN, cases.Access.FINAL_MODEL)
    )
    jobs = [cases.job(mechanism, data=data, access=access) for data in two_forms(cases.dataset((5,)))]
    assert same(*(trainer.fit(job, cases.silent).models for job in jobs))


def write(folder: Path, images: np.ndarray, **more: Any) -> dict[str, Any]:
    labels = np.arange(len(images)) % 3
    np.save(folder / "x.npy", images)
    np.save(folder / "y.npy", labels)
    np.savez(folder / "a.npz", x=images, y=labels)
    return {"kind": "npy", "path": "x.npy", "labels": "y.npy", "root": str(folder), "train": 20, "pool": 10, **more}


@pytest.mark.parametrize("kind", ["images", "color", "numbers", "whole", "fortran", "big_endian"])
def test_a_mapped_file_holds_what_an_npz_file_holds(kind: str, tmp_path: Path) -> None:
    more = {"whole_numbers": True} if kind == "whole" else {}
    images = {
        "images": raw_images(50, (6, 6)),
        "color": raw_images(50, (3, 6, 6)),
        "numbers": np.random.default_rng(0).normal(size=(50, 7)),
        "whole": raw_images(50, (7,)),
        "fortran": np.asfortranarray(raw_images(50, (3, 6, 6))),
        "big_endian": np.random.default_rng(0).normal(size=(50, 7)).astype(">f4"),
    }[kind]
    spec = write(tmp_path, images, **more)
    mapped, full = (
        load(spec, SEED),
        load({"kind": "npz", "path": "a.npz", "root": str(tmp_path), "train": 20, "pool": 10} | more, SEED),
    )
    for part in ("train", "pool", "test"):
        item, peer = getattr(mapped, part), getattr(full, part)
        assert isinstance(item.inputs, RecordArray) and np.array_equal(np.asarray(item.inputs), peer.inputs)
        assert item.inputs.dtype == peer.inputs.dtype and np.array_equal(item.labels, peer.labels)
    assert dataset_digest(mapped) == dataset_digest(full), "a run goes on from either form"


def test_rows_that_are_the_type_of_an_array_are_its_rows(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(50, 7))
    spec = write(tmp_path, values)
    with (tmp_path / "x.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": ("<f8", (7,)), "fortran_order": False, "shape": (50,)})
        file.write(values.tobytes())
    full = load({"kind": "npz", "path": "a.npz", "root": str(tmp_path), "train": 20, "pool": 10}, SEED)
    assert np.array_equal(np.asarray(load(spec, SEED).train.inputs), full.train.inputs)


@pytest.mark.parametrize("as_integers", [True, False])
def test_several_files_stand_side_by_side_as_arrays_of_an_npz_file_do(as_integers: bool, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    ids, mask = random.integers(0, 1000, (50, 4)), random.integers(0, 2, (50, 2, 2), dtype=np.uint8)
    last = mask if as_integers else random.normal(size=(50, 3))
    for name, array in {"ids": ids, "mask": mask, "last": last, "y": np.arange(50) % 3}.items():
        np.save(tmp_path / f"{name}.npy", array)
    np.savez(tmp_path / "a.npz", ids=ids, mask=mask, last=last, y=np.arange(50) % 3)
    shared = {"root": str(tmp_path), "train": 20, "pool": 10, "whole_numbers": as_integers}
    files = {"kind": "npy", "path": "ids.npy", "labels": "y.npy", "arrays": ["mask.npy", "last.npy"], **shared}
    mapped = load(files, SEED)
    dense = load({"kind": "npz", "path": "a.npz", "arrays": ["ids", "mask", "last"], **shared}, SEED)
    assert isinstance(mapped.train.inputs, RecordArray) and mapped.train.inputs.shape == dense.train.inputs.shape
    assert mapped.train.inputs.dtype == dense.train.inputs.dtype and dataset_digest(mapped) == dataset_digest(dense)
    assert dataset_digest(pickle.loads(pickle.dumps(mapped))) == dataset_digest(dense)
    np.save(tmp_path / "mask.npy", mask[::-1] + 1)
    with pytest.raises(DataError, match=r"mask.npy was changed, moved or removed"):
        mapped.pool.inputs.check_files()
    np.save(tmp_path / "mask.npy", mask[:49])
    with pytest.raises(DataError, match=r"mask.npy holds uint8 \(49, 2, 2\); expected numbers, \(50, ...\)"):
        load(files, SEED)
    np.save(tmp_path / "mask.npy", np.full((50, 1), 2**24 + 1))
    if not as_integers:
        with pytest.raises(DataError, match=r"mask.npy holds whole numbers beyond 2\^24"):
            load(files, SEED)
    for wrong in ("mask.npy", ["mask.npy", "mask.npy"], ["ids.npy"], [3]):
        with pytest.raises(ConfigError, match="expected a list of different npy files"):
            load({**files, "arrays": wrong}, SEED)
    with pytest.raises(ConfigError, match="expected as many"):
        load({**files, "test_arrays": ["mask.npy"]}, SEED)


def test_a_mapping_is_shared_and_not_sent(tmp_path: Path) -> None:
    spec = write(tmp_path, raw_images(900, (3, 16, 16)))
    data = load(spec, SEED)
    message = pickle.dumps(data)
    assert len(message) < 30_000 < 900 * 3 * 16 * 16
    copy = pickle.loads(message)
    assert dataset_digest(copy) == dataset_digest(data)
    (tmp_path / "x.npy").rename(tmp_path / "z.npy")
    with pytest.raises(DataError, match="at the same path on every machine"):
        pickle.loads(message)
    np.save(tmp_path / "x.npy", raw_images(900, (3, 16, 16), seed=1))
    with pytest.raises(DataError, match="is not the file that was read at the start"):
        pickle.loads(message)


def test_bytes_of_an_npz_file_that_would_be_large_stay_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, raw_images(60, (3, 16, 16)))
    spec = {"kind": "npz", "path": "a.npz", "root": str(tmp_path), "train": 30, "pool": 20}
    dense = load(spec, SEED)
    monkeypatch.setattr(source, "_COPY_BYTES", 0)
    retained = load(spec, SEED)
    assert isinstance(dense.train.inputs, np.ndarray) and isinstance(retained.train.inputs, RawArray)
    assert dataset_digest(retained) == dataset_digest(dense)
    assert len(pickle.dumps(retained)) < 1.2 * 60 * 3 * 16 * 16, "the bytes, once"


def test_no_copy_of_the_whole_is_made_from_the_file_to_the_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count, most = 20_000, []
    numbers = RawArray.rows

    def rows(records: RawArray, index: np.ndarray) -> np.ndarray:
        most.append(len(index))
        return numbers(records, index)

    monkeypatch.setattr(RawArray, "rows", rows)
    spec = write(tmp_path, np.zeros((count, 4, 4), np.uint8), train=count - 200, pool=100)
    data = load(spec, SEED)
    dataset_digest(data)
    job = cases.job(dp_sgd(noise_multiplier=1.0, clip_norm=0.5, sample_rate=0.002, steps=4), data=data, models=2)
    models = train(job, cases.silent)
    Ensemble(job, models).outputs(data.train.inputs)
    assert max(most) <= 4096 < count


def damaged(folder: Path, kind: str) -> dict[str, Any]:
    images = raw_images(40, (3, 6, 6))
    spec = write(folder, images)
    path, labels = folder / "x.npy", folder / "y.npy"
    match kind:
        case "objects":
            np.save(path, np.array([{"a": 1}] * 40), allow_pickle=True)
        case "short":
            path.write_bytes(path.read_bytes()[:-1])
        case "text":
            path.write_text("hello")
        case "empty":
            path.write_bytes(b"")
        case "absent":
            path.unlink()
        case "channels":
            np.save(path, images.transpose(0, 2, 3, 1))
        case "labels":
            np.save(labels, np.arange(39))
        case "one label":
            np.save(labels, np.array(3))
        case "far":
            values = np.zeros((9000, 2))
            values[8999, 1] = np.nan
            np.save(path, values)
            np.save(labels, np.arange(9000) % 3)
        case "large":
            np.save(path, np.full((40, 3), 1e39))
        case "structure":
            np.save(path, np.zeros((40, 2), dtype=[("a", "f4")]))
    return spec


@pytest.mark.parametrize(
    ("kind", "words"),
    {
        "objects": "cannot be read as npy",
        "short": "cannot be read as npy",
        "text": "cannot be read as npy",
        "empty": "cannot be read as npy",
        "absent": "nothing is ever downloaded",
        "channels": "channels last",
        "labels": r"40 records in .* but labels of shape \(39,\)",
        "one label": r"labels of shape \(\)",
        "far": "the first in record 9000",
        "large": "too large for float32, the first in record 1 ",
        "structure": "expected numbers",
    }.items(),
)
def test_what_cannot_be_mapped_is_refused_by_name(kind: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=words):
        load(damaged(tmp_path, kind), SEED)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("canaries", ["clients", "examples"])
@pytest.mark.parametrize("compile_setting", ["off", "on"])
def test_federations_read_records_where_they_lie(canaries: str, compile_setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    event = dp_sgd(noise_multiplier=1.0, clip_norm=0.5, sample_rate=1.0, steps=2, unit="client")
    unit = {"unit": "example", "hosts": 2} if canaries == "examples" else {}
    trainer = FederatedTrainer(clients=5, local_steps=2, local_batch=2, slots=3, compile=compile_setting, **unit)
    units = Canaries(kind="dirac", description="units", payload=CoordinateGradients(coordinates=np.arange(4)))
    jobs = [
        replace(
            cases.job(event, data=data, model={"kind": "mlp", "hidden": [6]}, access=cases.Access.EACH_UPDATE),
            canaries=Canaries(kind="held_out", description="r", payload=CanaryRecords(records=data.pool)) if unit else units,
            included=np.zeros((3, len(data.pool) if unit else 4), dtype=bool),
        )
        for data in two_forms(cases.dataset((1, 8, 8)))
    ]
    full = trainer.fit(jobs[1], cases.silent).models
    assert same(trainer.fit(jobs[0], cases.silent).models, full), "few records become numbers at once"
    monkeypatch.setattr("audit.engine.record_rows._COPY_BYTES", 0)
    monkeypatch.setattr(RecordArray, "__array__", refuse_copy)
    many = trainer.fit(jobs[0], cases.silent).models
    if compile_setting == "off":
        assert same(many, full)
    for name, weights in many.weights.items():
        np.testing.assert_allclose(weights, full.weights[name], rtol=1e-4, atol=1e-5)


def refuse_copy(self: RecordArray, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    raise AssertionError("all records were made numbers at once")


def test_a_file_that_is_changed_meanwhile_is_told_before_a_job_and_after_it(tmp_path: Path) -> None:
    data = load(write(tmp_path, raw_images(50, (6, 6))), SEED)
    canaries = Canaries(kind="held_out", description="r", payload=CanaryRecords(records=data.pool))
    joined = concatenate([data.train.inputs, data.pool.inputs])
    for records in (data.train.inputs, joined, joined.take_rows(slice(3)), data.test.take(np.arange(2)).inputs):
        records.check_files()
    check_files(data, canaries)
    images = np.load(tmp_path / "x.npy", mmap_mode="r+")
    images[7] += 1
    images.flush()
    for records in (joined, joined.take_rows(slice(3)), data.test.take(np.arange(2)).inputs):
        with pytest.raises(DataError, match="was changed, moved or removed while the audit ran"):
            records.check_files()
    with pytest.raises(DataError, match="continue with --resume"):
        check_files(data, canaries)
    (tmp_path / "x.npy").unlink()
    with pytest.raises(DataError, match="was changed, moved or removed"):
        check_files(data, canaries)


def test_a_file_with_another_time_and_the_same_contents_is_the_same(tmp_path: Path) -> None:
    data = load(write(tmp_path, raw_images(50, (6, 6))), SEED)
    path = tmp_path / "x.npy"
    for _ in range(2):
        path.touch()
        data.train.inputs.check_files()
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)
    data.train.inputs.check_files()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(DataError, match="was changed, moved or removed"):
        data.train.inputs.check_files()


def test_a_change_whose_time_is_put_back_is_told_and_permissions_are_none(tmp_path: Path) -> None:
    data = load(write(tmp_path, raw_images(50, (6, 6))), SEED)
    path = tmp_path / "x.npy"
    content, before = path.read_bytes(), path.stat()
    path.chmod(0o400)
    data.train.inputs.check_files()
    path.chmod(0o600)
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(bytes([content[-1] ^ 1]))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    with pytest.raises(DataError, match="was changed, moved or removed"):
        data.train.inputs.check_files()
    path.write_bytes(content)
    data.train.inputs.check_files()


def test_a_change_before_a_worker_opens_the_file_is_told_where_no_probe_sees_it(tmp_path: Path) -> None:
    data = load(write(tmp_path, np.zeros((3000, 40, 40), np.uint8), train=2000, pool=500), SEED)
    path, sent = tmp_path / "x.npy", pickle.dumps(data)
    pickle.loads(sent).train.inputs.check_files()
    with path.open("r+b") as file:
        file.seek(200_000)  # between the pieces of a file of 4.8 MB that `open` compares
        file.write(b"1")
    worker = pickle.loads(sent)
    with pytest.raises(DataError, match="was changed, moved or removed"):
        worker.train.inputs.check_files()


def test_rows_of_a_large_file_are_read_and_a_file_that_is_cut_gives_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = raw_images(300, (3, 16, 16))
    spec = write(tmp_path, images, train=200, pool=50)
    small = load(spec, SEED)
    monkeypatch.setattr(mapped_files, "_COPY_BYTES", 0)
    large = load(spec, SEED)
    assert dataset_digest(small) == dataset_digest(large)
    rows = mapped_files.read_rows(tmp_path / "x.npy", (300, 3, 16, 16))
    assert isinstance(rows, FileRows)
    for index in (slice(None), slice(10, 3), slice(5, 200, 7), np.array([4, 5, 6, 299, 0, 0, 1]), np.array([], dtype=int)):
        assert np.array_equal(rows[index], images[index])
    sent = pickle.loads(pickle.dumps(large))
    assert dataset_digest(sent) == dataset_digest(large), "workers map the file"
    os.truncate(tmp_path / "x.npy", 200)
    with pytest.raises(DataError, match=r"x.npy was cut while the audit ran.*continue with --resume"):
        large.train.inputs.rows(np.arange(8))
    assert small.train.inputs.rows(np.arange(8)).shape == (8, 3, 16, 16), "a small file is in memory"
    with pytest.raises(DataError, match="was changed, moved or removed"):
        small.train.inputs.check_files()


@pytest.mark.slow
@pytest.mark.parametrize("size", [200, 10**9], ids=["cut", "written"])
@pytest.mark.parametrize("execution", ["kind: serial", "kind: processes, workers: 2"])
def test_a_run_whose_file_is_changed_ends_with_a_sentence(size: int, execution: str, tmp_path: Path) -> None:
    """In its own process: cut short, the file ends a worker that maps it; the run itself reads it by other means."""
    write(tmp_path, np.random.default_rng(0).integers(0, 256, (4000, 32, 32), dtype=np.uint8))
    game = "{name: g, canaries: held_out, count: 20, runs: 4, references: 2, scorers: [loss], estimators: [one_run]}"
    config = f"""
version: 1
name: cut
seed: 225977559684935356111957835584900688650
delta: 1e-5
data: {{kind: npy, path: x.npy, labels: y.npy, root: {tmp_path}, train: 3000, pool: 100, test: 100}}
model: {{kind: mlp, hidden: [4]}}
training: {{optimizer: sgd, learning_rate: 0.1, batch_size: 300, steps: 3}}
mechanisms:
  - {{name: a, kind: non_private, trainer: {{kind: "tests.broken:CutsFile", path: {tmp_path / "x.npy"}, size: {size}}}}}
games: [{game}]
accountants: [rdp]
execution: {{{execution}, models_per_job: 2}}
output: {{formats: [json]}}
"""
    (tmp_path / "a.yaml").write_text(config)
    line = [sys.executable, "-m", "audit", "run", str(tmp_path / "a.yaml"), "-o", str(tmp_path / "out"), "-q"]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 2, done.stderr
    assert "x.npy" in done.stderr and "Traceback" not in done.stderr
    assert not list((tmp_path / "out.partial" / "models").glob("*.safetensors")), "nothing made of changed records is kept"


def test_of_several_files_the_damaged_one_is_named_and_none_stands_twice(tmp_path: Path) -> None:
    spec = write(tmp_path, np.zeros((300, 2)), train=200, pool=50)
    values = np.zeros((300, 3), np.float32)
    values[13, 1] = np.nan
    np.save(tmp_path / "b.npy", values)
    with pytest.raises(DataError, match=r"b.npy has values that are NaN.*record 14"):
        load({**spec, "arrays": ["b.npy"]}, SEED)
    with pytest.raises(DataError, match="name one file twice"):
        load({**spec, "arrays": ["./x.npy"]}, SEED)


@pytest.mark.parametrize("label", [np.uint64(2**63), np.float64(1e300), np.int64(2**40)], ids=["wraps", "float", "large"])
def test_a_label_that_numbers_no_class_is_refused(label: np.generic, tmp_path: Path) -> None:
    spec = write(tmp_path, np.zeros((300, 2)), train=200, pool=50)
    np.save(tmp_path / "y.npy", np.full(300, label))
    with pytest.raises(DataError, match=r"label .* of record 1 .* is out of range"):
        load(spec, SEED)
