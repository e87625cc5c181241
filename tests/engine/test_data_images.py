"""idx and CIFAR-10 files: parsed to the last byte, and a pickle that names code is refused without running it."""

from __future__ import annotations

import gzip
import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

from audit.core.errors import DataError
from audit.core.seeds import Seed
from audit.data.load import load
from audit.data.readers._idx import parse_idx
from audit.data.readers.cifar10 import plain_unpickle

SEED = Seed(3)


def idx(array: np.ndarray) -> bytes:
    return bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write_mnist(folder: Path, train: int = 30, test: int = 10) -> dict[str, np.ndarray]:
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(0)
    arrays = {}
    for stem, size in (("train", train), ("t10k", test)):
        arrays[f"{stem}-images-idx3"] = generator.integers(0, 256, (size, 28, 28), dtype=np.uint8)
        arrays[f"{stem}-labels-idx1"] = (np.arange(size) % 10).astype(np.uint8)
    for name, array in arrays.items():
        (folder / f"{name}-ubyte.gz").write_bytes(gzip.compress(idx(array)))
    return arrays


@pytest.mark.parametrize("below", [".", "raw"])
def test_mnist_from_both_layouts(tmp_path, below):
    arrays = write_mnist(tmp_path / "MNIST" / below)
    data = load({"kind": "mnist", "root": str(tmp_path), "train": 20}, SEED)
    assert (len(data.train), len(data.pool), len(data.test)) == (20, 10, 10)
    expected = arrays["train-images-idx3"][data.pool_index][:, None] / 127.5 - 1
    assert np.allclose(data.pool.inputs, expected, atol=1e-6)
    assert np.array_equal(data.pool.labels, arrays["train-labels-idx1"][data.pool_index])


def test_fashion_mnist_is_the_same_format_under_its_own_name(tmp_path):
    write_mnist(tmp_path / "FashionMNIST")
    data = load({"kind": "fashion_mnist", "root": str(tmp_path), "train": 20}, SEED)
    assert data.name == "fashion_mnist"
    assert data.source.startswith("Fashion-MNIST")


def test_damaged_idx_files():
    full = idx(np.arange(12, dtype=np.uint8).reshape(3, 4))
    assert np.array_equal(parse_idx(full, 2, "f"), np.arange(12).reshape(3, 4))
    with pytest.raises(DataError, match="f holds 11 values; its header announces"):
        parse_idx(full[:-1], 2, "f")
    with pytest.raises(DataError, match="more than 12"):
        parse_idx(full + b"x", 2, "f")
    with pytest.raises(DataError, match="starts with 00000802"):
        parse_idx(full, 3, "f")
    with pytest.raises(DataError, match="not a whole gzip file"):
        parse_idx(gzip.compress(full)[:-12], 2, "f")
    with pytest.raises(DataError, match="announces shape"):
        parse_idx(bytes((0, 0, 8, 2)) + struct.pack(">2I", 2**31, 2**31), 2, "f")


def test_labels_above_nine_and_missing_files(tmp_path):
    write_mnist(tmp_path / "MNIST")
    (tmp_path / "MNIST" / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(np.full(10, 10, np.uint8))))
    with pytest.raises(DataError, match=r"MNIST t10k labels: label 10 of record 1 .*is out of range"):
        load({"kind": "mnist", "root": str(tmp_path), "train": 20}, SEED)
    (tmp_path / "MNIST" / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(DataError, match=r"no file .*t10k-labels-idx1-ubyte\.gz"):
        load({"kind": "mnist", "root": str(tmp_path), "train": 20}, SEED)


# ---- CIFAR-10


def python2_batch(pixels: np.ndarray, labels: list[int]) -> bytes:
    """A batch as Python 2 wrote it: protocol 2, byte strings, numpy's old module path."""
    body = b"\x80\x02}q\x00("
    body += b"U\x04dataq\x01cnumpy.core.multiarray\n_reconstruct\nq\x02cnumpy\nndarray\nq\x03K\x00\x85q\x04"
    body += b"U\x01bq\x05\x87q\x06Rq\x07"
    body += b"(K\x01" + b"M" + struct.pack("<H", pixels.shape[0]) + b"M" + struct.pack("<H", pixels.shape[1]) + b"\x86q\x08"
    body += b"cnumpy\ndtype\nq\x09U\x02u1q\x0aK\x00K\x01\x87q\x0bRq\x0c"
    body += b"(K\x03U\x01|q\x0dNNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tq\x0eb"
    body += b"\x89T" + struct.pack("<I", pixels.nbytes) + pixels.tobytes() + b"q\x0ftq\x10b"
    body += b"U\x06labelsq\x11]q\x12(" + b"".join(b"K" + bytes((label,)) for label in labels) + b"e"
    return body + b"u."


def write_cifar(folder: Path, batch=python2_batch, size: int = 4) -> np.ndarray:
    folder.mkdir(parents=True)
    generator = np.random.default_rng(1)
    pixels = generator.integers(0, 256, (6, size, 3072), dtype=np.uint8)
    for i, name in enumerate([*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]):
        (folder / name).write_bytes(batch(pixels[i], [(i + k) % 10 for k in range(size)]))
    return pixels


def python3_batch(pixels: np.ndarray, labels: list[int]) -> bytes:
    return pickle.dumps({b"data": pixels, b"labels": labels, b"batch_label": b"x", b"filenames": [b"y"]}, protocol=2)


@pytest.mark.parametrize("batch", [python2_batch, python3_batch])
@pytest.mark.parametrize("path", ["cifar-10-batches-py", "."])
def test_cifar_from_python_2_and_3_pickles(tmp_path, batch, path):
    pixels = write_cifar(tmp_path / "cifar-10-batches-py", batch)
    data = load({"kind": "cifar10", "root": str(tmp_path), "path": path, "train": 15}, SEED)
    assert data.train.inputs.shape == (15, 3, 32, 32)
    assert (len(data.pool), len(data.test)) == (5, 4)
    assert np.allclose(data.pool.inputs, pixels[:5].reshape(20, 3, 32, 32)[data.pool_index] / 127.5 - 1, atol=1e-6)


class Hostile:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return os.mkdir, (str(self.target),)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_hostile_cifar_pickle_is_refused_and_not_run(tmp_path, protocol):
    write_cifar(tmp_path / "cifar-10-batches-py")
    content = pickle.dumps({b"data": Hostile(tmp_path / "ran"), b"labels": []}, protocol=protocol)
    (tmp_path / "cifar-10-batches-py" / "data_batch_3").write_bytes(content)
    with pytest.raises(DataError, match=r"data_batch_3 is refused: it asks for posix\.mkdir") as caught:
        load({"kind": "cifar10", "root": str(tmp_path), "train": 15}, SEED)
    assert caught.value.exit_code == 2
    assert not (tmp_path / "ran").exists()
    pickle.loads(content)
    assert (tmp_path / "ran").exists(), "the test's pickle is harmless, so it proves nothing"


GLOBALS = [
    "builtins\neval",
    "builtins\ngetattr",
    "numpy\nload",
    "numpy.core.multiarray\nscalar",
    "copyreg\n__newobj__",
    "_codecs\ndecode",
]


@pytest.mark.parametrize("name", GLOBALS)
def test_only_listed_names_can_be_reached(name):
    with pytest.raises(DataError, match="asks for " + name.replace("\n", ".")):
        plain_unpickle(b"c" + name.encode() + b"\n.", "f")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"garbage",
        b"cnumpy\nndarray\n(I9999999999\ntR.",  # a call of the class: it is a marker, not the class
        b"cnumpy\ndtype\n(S'O8'\nI0\nI1\ntR.",  # object arrays hold pickled objects
        b"P1\n.",  # persistent reference
        b"\x80\x02\x82\x01.",  # registered extension
    ],
)
def test_other_malformed_pickles(content):
    with pytest.raises(DataError, match="f is refused"):
        plain_unpickle(content, "f")


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ([1, 2], "holds list"),
        ({b"data": 1}, "expected a dict with 'data' and 'labels'"),
        ({b"data": np.zeros((2, 5), np.uint8), b"labels": [1, 2]}, r"shape \(2, 5\)"),
        ({b"data": np.zeros((2, 3072), np.uint8), b"labels": [1]}, "not a list of 2 integers"),
        ({b"data": np.zeros((2, 3072), np.uint8), b"labels": [1, 12]}, "label 12 of record 2 .*is out of range"),
    ],
)
def test_cifar_batches_of_the_wrong_shape(tmp_path, found, message):
    write_cifar(tmp_path / "c")
    (tmp_path / "c" / "test_batch").write_bytes(pickle.dumps(found, protocol=2))
    with pytest.raises(DataError, match=message):
        load({"kind": "cifar10", "root": str(tmp_path), "path": "c", "train": 15}, SEED)
