"""CIFAR-10 in the python pickle folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from audit.core.confined.process import form_error
from audit.core.confined.worker import Message
from audit.core.errors import DataError
from audit.data import typed
from audit.data.foreign_files import answer, parse
from audit.data.readers._plain_pickle import plain_unpickle
from audit.data.source import PIXELS, Part, Source, class_labels, combined_sha256, locate, read_bytes

_JOB = "audit.data.readers.cifar10:read_batch"
_SIZE = 3 * 32 * 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Cifar10:
    """The folder `cifar-10-batches-py` (or its parent); images `(3, 32, 32)`. The pickles are parsed, never executed."""

    path: str = "cifar-10-batches-py"
    root: str = "."

    def __post_init__(self) -> None:
        typed.text(path=self.path, root=self.root)

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
    _, arrays = parse(_JOB, content, Path(name), {})
    pixels, labels = arrays.get("pixels"), arrays.get("labels")
    if pixels is None or labels is None or pixels.dtype != np.uint8 or pixels.shape != (len(labels), _SIZE) or not len(labels):
        raise form_error(name)
    return Part(inputs=pixels.reshape(-1, 3, 32, 32), labels=class_labels(labels, 10, name))


def read_batch(header: Mapping[str, Any], content: bytes) -> tuple[Message, None]:
    """The pixels and labels of a batch; runs inside the confined process.

    Raises:
        DataError: the pickle is hostile, damaged or of another form.
    """
    name = header["place"]
    batch = plain_unpickle(content, name)
    if not isinstance(batch, dict) or b"data" not in batch or b"labels" not in batch:
        keys = sorted(str(key) for key in batch) if isinstance(batch, dict) else type(batch).__name__
        raise DataError(f"{name} holds {keys}; expected a dict with 'data' and 'labels' as in CIFAR-10's python version")
    pixels, labels = batch[b"data"], batch[b"labels"]
    if not isinstance(pixels, np.ndarray) or pixels.ndim != 2 or pixels.shape[1] != _SIZE or len(pixels) == 0:
        raise DataError(f"{name}: 'data' has shape {getattr(pixels, 'shape', None)}; expected (n, {_SIZE}) unsigned bytes")
    if not isinstance(labels, list) or not all(isinstance(label, int) for label in labels) or len(labels) != len(pixels):
        raise DataError(f"{name}: 'labels' is not a list of {len(pixels)} integers, one for each image")
    return answer({"pixels": pixels, "labels": class_labels(np.asarray(labels), 10, name)}, header), None


PLUGIN = Cifar10
