"""Pickles of plain containers and byte arrays, parsed without running what they name."""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np

from audit.core.data import Array
from audit.core.errors import DataError
from audit.data.source import DAMAGE


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
        """Return what is in for `module.name`; nothing is ever imported."""
        try:
            return _ALLOW_LIST[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}") from None


def plain_unpickle(content: bytes, name: str) -> Any:
    """The plain containers and byte arrays in a pickle; nothing that it names is imported or called.

    Raises:
        DataError: the pickle asks for anything else (it may be hostile), or is damaged.
    """
    try:
        return _PlainUnpickler(io.BytesIO(content), encoding="bytes").load()
    except (pickle.UnpicklingError, *DAMAGE) as error:
        raise DataError(
            f"{name} is refused: {error}. Expected a pickle of plain containers and unsigned-byte arrays, as CIFAR-10's python "
            "version is; a pickle that names other code could run it. Use the published files, or convert to npz"
        ) from error
