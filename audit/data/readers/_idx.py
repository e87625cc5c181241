"""Image sets in idx files, as MNIST and Fashion-MNIST are published."""

import gzip
import io
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from audit.core.data import Array
from audit.core.errors import DataError
from audit.data import typed
from audit.data.source import PIXELS, Part, Source, class_labels, combined_sha256, locate, read_bytes

LARGEST = 1 << 31  # bytes that one unpacked idx file may have


def read_idx(root: str, path: str, title: str) -> Source:
    """Return both parts of a folder with the four idx files, directly or under `raw`; images `(1, 28, 28)`, pixels as uint8."""
    folder = locate(root, path)
    if (folder / "raw").is_dir():
        folder = folder / "raw"
    read: list[tuple[str, bytes]] = []
    parts = []
    for stem in ("train", "t10k"):
        arrays = []
        for kind, dimensions in (("images-idx3", 3), ("labels-idx1", 1)):
            name, content = _first_file(folder, f"{stem}-{kind}-ubyte", title)
            read.append((name, content))
            arrays.append(parse_idx(content, dimensions, name))
        images, labels = arrays
        if len(images) != len(labels):
            raise DataError(f"{folder}: {len(images)} {stem} images but {len(labels)} labels; expected as many of each")
        parts.append(Part(inputs=images[:, None], labels=class_labels(labels, 10, f"{title} {stem} labels")))
    return Source(
        origin=f"{title}, the published idx files; pixels scaled to [-1, 1] by public constants",
        sha256=combined_sha256(read),
        classes=10,
        main=parts[0],
        test=parts[1],
        scaling=PIXELS,
    )


def _first_file(folder: Path, stem: str, title: str) -> tuple[str, bytes]:
    name = stem if (folder / stem).is_file() and not (folder / f"{stem}.gz").is_file() else f"{stem}.gz"
    return name, read_bytes(folder / name, title)


def parse_idx(content: bytes, dimensions: int, name: str) -> Array:
    """The uint8 array `(n, ...)` of an idx file, gzipped or not, or `DataError` saying what is malformed."""
    try:
        stream: Any = gzip.GzipFile(fileobj=io.BytesIO(content)) if content[:2] == b"\x1f\x8b" else io.BytesIO(content)
        # two zeros, 8 for unsigned bytes, the number of dimensions, then the size along each in 32 bits
        header = stream.read(4 + 4 * dimensions)
        if len(header) < 4 + 4 * dimensions or header[:4] != bytes((0, 0, 8, dimensions)):
            raise DataError(
                f"{name} starts with {header[:4].hex()}; expected an idx file of unsigned bytes with {dimensions} "
                f"dimension(s), {bytes((0, 0, 8, dimensions)).hex()}"
            )
        shape = struct.unpack(f">{dimensions}I", header[4:])
        size = int(np.prod(shape, dtype=object))  # as Python's integers, which a hostile header cannot make wrap around
        if not 0 < size <= LARGEST:
            raise DataError(f"{name} announces shape {shape}; expected between 1 and {LARGEST} bytes")
        body = stream.read(size + 1)  # one byte more shows that a file is too long, without unpacking the rest
    except (EOFError, OSError, zlib.error) as error:
        raise DataError(f"{name} is not a whole gzip file ({error}); fetch or copy it again") from error
    if len(body) != size:
        size_text = f"{len(body)}" if len(body) < size else f"more than {size}"
        raise DataError(f"{name} holds {size_text} values; its header announces {shape}, that is {size}")
    return np.frombuffer(body, np.uint8).reshape(shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mnist:
    """The folder with the four idx files of MNIST, directly or under `raw`."""

    title: ClassVar[str] = "MNIST"

    path: str = "MNIST"
    root: str = "."

    def __post_init__(self) -> None:
        typed.text(path=self.path, root=self.root)

    def read(self) -> Source:
        return read_idx(self.root, self.path, self.title)


@dataclass(frozen=True, slots=True, kw_only=True)
class FashionMnist(Mnist):
    """The folder with the four idx files of Fashion-MNIST, directly or under `raw`."""

    title: ClassVar[str] = "Fashion-MNIST"

    path: str = "FashionMNIST"
