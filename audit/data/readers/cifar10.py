"""CIFAR-10 in the python pickle folder."""

import io
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from audit.core.confined.process import form_error
from audit.core.confined.worker import Message
from audit.core.data import Array
from audit.core.errors import DataError
from audit.data import typed
from audit.data.source import DAMAGE, PIXELS, Part, Source, class_labels, combined_sha256, locate, read_bytes
from audit.data.text_files import answer, parse


# Pickles of plain containers and byte arrays, parsed without running what they name.
class _Marker:
    """What a pickle gets in place of `numpy.ndarray`; cannot be called."""


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


_ALLOW_LIST: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _empty_array,
    ("numpy._core.multiarray", "_reconstruct"): _empty_array,
    ("numpy", "ndarray"): _Marker(),
    ("numpy", "dtype"): _byte_type,
    ("_codecs", "encode"): _encode,
}


class _PlainUnpickler(pickle.Unpickler):
    """Containers, numbers, text and byte arrays; any other name that a pickle asks for is refused."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOW_LIST[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}") from None


def plain_unpickle(content: bytes, name: str) -> Any:
    """The plain containers and byte arrays in a pickle; nothing that it names is imported or called, or `DataError`."""
    try:
        return _PlainUnpickler(io.BytesIO(content), encoding="bytes").load()
    except (pickle.UnpicklingError, *DAMAGE) as error:
        raise DataError(
            f"{name} is refused: {error}. Expected a pickle of plain containers and unsigned-byte arrays, as CIFAR-10's python "
            "version is; a pickle that names other code could run it. Use the published files, or convert to npz"
        ) from error


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
    """The pixels and labels of a batch, in the confined process; `DataError` if it is hostile, damaged or of another form."""
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
