"""Image sets in their published files: MNIST and Fashion-MNIST (idx), CIFAR-10 (the python pickle folder)."""

from __future__ import annotations

import gzip
import io
import pickle
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from audit.core.data import Array
from audit.core.errors import DataError
from audit.data.source import DAMAGED, PIXELS, Part, Source, class_labels, combined_sha256, locate, read_bytes

LARGEST = 1 << 31
"""Bytes that one unpacked idx file may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Idx:
    """A folder with the four idx files of MNIST or Fashion-MNIST, directly or under `raw`; images `(1, 28, 28)`."""

    path: str
    root: str = "."
    title: str = "MNIST"

    def read(self) -> Source:
        """Both parts, pixels as uint8."""
        folder = locate(self.root, self.path)
        if (folder / "raw").is_dir():
            folder = folder / "raw"
        read: list[tuple[str, bytes]] = []
        parts = []
        for stem in ("train", "t10k"):
            arrays = []
            for kind, dimensions in (("images-idx3", 3), ("labels-idx1", 1)):
                name, content = _first_of(folder, f"{stem}-{kind}-ubyte", self.title)
                read.append((name, content))
                arrays.append(parse_idx(content, dimensions, name))
            images, labels = arrays
            if len(images) != len(labels):
                raise DataError(f"{folder}: {len(images)} {stem} images but {len(labels)} labels; expected as many of each")
            parts.append(Part(inputs=images[:, None], labels=class_labels(labels, 10, f"{self.title} {stem} labels")))
        return Source(
            origin=f"{self.title}, the published idx files; pixels scaled to [-1, 1] by public constants",
            sha256=combined_sha256(read),
            classes=10,
            main=parts[0],
            test=parts[1],
            scaling=PIXELS,
        )


def _first_of(folder: Path, stem: str, title: str) -> tuple[str, bytes]:
    name = stem if (folder / stem).is_file() and not (folder / f"{stem}.gz").is_file() else f"{stem}.gz"
    return name, read_bytes(folder / name, title)


def parse_idx(content: bytes, dimensions: int, name: str) -> Array:
    """The uint8 array `(n, ...)` of an idx file, gzipped or not, or `DataError` saying what is malformed."""
    try:
        stream: Any = gzip.GzipFile(fileobj=io.BytesIO(content)) if content[:2] == b"\x1f\x8b" else io.BytesIO(content)
        header = stream.read(4 + 4 * dimensions)
        if len(header) < 4 + 4 * dimensions or header[:4] != bytes((0, 0, 8, dimensions)):
            raise DataError(
                f"{name} starts with {header[:4].hex()}; expected an idx file of unsigned bytes with {dimensions} "
                f"dimension(s), {bytes((0, 0, 8, dimensions)).hex()}"
            )
        shape = struct.unpack(f">{dimensions}I", header[4:])
        size = int(np.prod(shape, dtype=object))
        if not 0 < size <= LARGEST:
            raise DataError(f"{name} announces shape {shape}; expected between 1 and {LARGEST} bytes")
        body = stream.read(size + 1)
    except (EOFError, OSError, zlib.error) as error:
        raise DataError(f"{name} is not a whole gzip file ({error}); fetch or copy it again") from error
    if len(body) != size:
        found = f"{len(body)}" if len(body) < size else f"more than {size}"
        raise DataError(f"{name} holds {found} values; its header announces {shape}, that is {size}")
    return np.frombuffer(body, np.uint8).reshape(shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cifar10:
    """The folder `cifar-10-batches-py` (or its parent); images `(3, 32, 32)`. The pickles are parsed, never executed."""

    path: str = "cifar-10-batches-py"
    root: str = "."

    def read(self) -> Source:
        """Both parts, pixels as uint8."""
        folder = locate(self.root, self.path)
        if (folder / "cifar-10-batches-py").is_dir():
            folder = folder / "cifar-10-batches-py"
        names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
        read = [(name, read_bytes(folder / name, "CIFAR-10")) for name in names]
        parts = [_batch(content, name) for name, content in read]
        main = Part(
            inputs=np.concatenate([part.inputs for part in parts[:-1]]),
            labels=np.concatenate([part.labels for part in parts[:-1]]),
        )
        return Source(
            origin="CIFAR-10, the published python version; pixels scaled to [-1, 1] by public constants",
            sha256=combined_sha256(read),
            classes=10,
            main=main,
            test=parts[-1],
            scaling=PIXELS,
        )


def _batch(content: bytes, name: str) -> Part:
    found = plain_unpickle(content, name)
    if not isinstance(found, dict) or b"data" not in found or b"labels" not in found:
        keys = sorted(str(key) for key in found) if isinstance(found, dict) else type(found).__name__
        raise DataError(f"{name} holds {keys}; expected a dict with 'data' and 'labels' as in CIFAR-10's python version")
    pixels, labels = found[b"data"], found[b"labels"]
    if not isinstance(pixels, np.ndarray) or pixels.ndim != 2 or pixels.shape[1] != 3072 or len(pixels) == 0:
        raise DataError(f"{name}: 'data' has shape {getattr(pixels, 'shape', None)}; expected (n, 3072) unsigned bytes")
    if not isinstance(labels, list) or not all(isinstance(label, int) for label in labels) or len(labels) != len(pixels):
        raise DataError(f"{name}: 'labels' is no list of {len(pixels)} integers, one for each image")
    return Part(inputs=pixels.reshape(-1, 3, 32, 32), labels=class_labels(np.asarray(labels), 10, name))


class _Marker:
    """Stands where a pickle names `numpy.ndarray`; cannot be called."""


def _empty_array(*_: object) -> Array:
    return np.ndarray((0,), np.uint8)


def _byte_type(code: object, *_: object) -> np.dtype[Any]:
    if code not in ("u1", b"u1", "uint8", b"uint8"):
        raise pickle.UnpicklingError(f"an array of type {code!r}; expected unsigned bytes")
    return np.dtype(np.uint8)


def _encode(text: object, encoding: object = "latin1") -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", "ascii"):
        raise pickle.UnpicklingError("an encoded string that is not latin1")
    return text.encode("latin1")


_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _empty_array,
    ("numpy._core.multiarray", "_reconstruct"): _empty_array,
    ("numpy", "ndarray"): _Marker(),
    ("numpy", "dtype"): _byte_type,
    ("_codecs", "encode"): _encode,
}


class _PlainUnpickler(pickle.Unpickler):
    """Containers, numbers, text and byte arrays; any other name that a pickle asks for is refused."""

    def find_class(self, module: str, name: str) -> Any:
        """What stands in for `module.name`; nothing is ever imported."""
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}") from None


def plain_unpickle(content: bytes, name: str) -> Any:
    """The plain containers and byte arrays in a pickle; nothing that it names is imported or called.

    Raises:
        DataError: the pickle asks for anything else (it may be hostile), or is damaged.
    """
    try:
        return _PlainUnpickler(io.BytesIO(content), encoding="bytes").load()
    except (pickle.UnpicklingError, *DAMAGED) as error:
        raise DataError(
            f"{name} is refused: {error}. Expected a pickle of plain containers and unsigned-byte arrays, as CIFAR-10's python "
            "version is; a pickle that names other code could run it. Use the published files, or convert to npz"
        ) from error
