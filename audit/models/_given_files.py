"""Read what the files of third-party model say of themselves: JSON objects of bounded size, shapes of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from audit.core import files
from audit.core.errors import DataError

Shape = tuple[int, ...]


def json_object(place: Path, largest: int, origin: str) -> dict[str, Any]:
    """Return the object that a JSON file holds.

    Args:
        place: of the file.
        largest: bytes that are read.
        origin: how such files come to be, for the messages: "as peft writes it".

    Raises:
        DataError: it cannot be read, is larger, or holds something else.
    """
    try:
        if place.stat().st_size > largest:
            raise DataError(f"{place} has more than {largest:,} bytes; expected one {origin}")
        content = files.read_json(place)
    except (OSError, ValueError) as error:
        raise DataError(f"{place} cannot be read as JSON: {error}") from error
    if not isinstance(content, dict):
        raise DataError(f"{place} holds a {type(content).__name__}; expected an object, {origin}")
    return content


def shapes(place: Path) -> Mapping[str, Shape]:
    """Return the shape of each tensor of a safetensors file, by its header; no tensor is read.

    Raises:
        DataError: it cannot be read.
    """
    try:
        with safe_open(place, framework="pt") as tensors:
            return {key: tuple(tensors.get_slice(key).get_shape()) for key in tensors.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise DataError(f"{place} cannot be read as safetensors: {error}") from error
