"""What a file of another framework says of itself: `metadata`, a JSON text beside its arrays."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from audit.core.data import Array
from audit.core.errors import DataError

SCHEMA = 1
TEXTS = ("framework", "version", "unit", "observer", "adjacency")
RANDOMISATION = ("seed", "commitment")
MECHANISM = ("clip", "noise_multiplier", "sample_rate", "steps", "sampling", "delta")
KEYS = ("schema", *TEXTS, "randomisation", "mechanism", "claimed_epsilon")
NAME = "metadata"
LONGEST = 200  # characters of a text
LARGEST = 1e300  # number


def take_metadata(arrays: dict[str, Array], place: Path) -> dict[str, Any]:
    """Remove and return `metadata`, {} if the file has none; `DataError` if it is no object of this schema with its keys."""
    if NAME not in arrays:
        return {}
    text = arrays.pop(NAME)
    try:
        values = json.loads(str(text.item()))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: metadata is not JSON ({error}); expected one text with an object") from error
    if not isinstance(values, dict) or values.get("schema") != SCHEMA:
        raise DataError(f"{place}: metadata is not of schema {SCHEMA}; expected an object with 'schema': {SCHEMA}")
    _check_keys(values, KEYS, f"{place}: metadata")
    for name in TEXTS:
        if not _is_text(values.get(name, "")):
            raise DataError(f"{place}: metadata has a {name} that is not a line of at most {LONGEST} characters")
    for name in ("randomisation", "mechanism"):
        if not isinstance(values.get(name, {}), dict):
            raise DataError(f"{place}: metadata has a {name} that is not an object")
        for key, value in values.get(name, {}).items():
            if not _is_text(value) and not _is_number(value):
                raise DataError(f"{place}: metadata has {key} in {name} that is neither a number nor a line")
    _check_keys(values.get("mechanism", {}), MECHANISM, f"{place}: mechanism of metadata")
    _check_keys(values.get("randomisation", {}), RANDOMISATION, f"{place}: randomisation of metadata")
    for name, number in (("claimed_epsilon", values.get("claimed_epsilon", 0)), ("delta", read_delta(values) or 0)):
        if not _is_number(number) or number < 0:
            raise DataError(f"{place}: metadata has {name} {number!r}; expected a number, at least 0")
    return values


def read_delta(metadata: Mapping[str, Any]) -> Any:
    """Return the delta that the claim of metadata is made at; None if it says none."""
    return metadata.get("mechanism", {}).get("delta")


def describe(metadata: Mapping[str, Any]) -> str:
    """Return what metadata says of the training, in words, without a seed (it gives the coins); "" if it says nothing.

    >>> describe({"schema": 1, "framework": "TensorFlow", "version": "2.14", "mechanism": {"clip": 1.0, "steps": 10}})
    'TensorFlow 2.14, clip 1.0, steps 10'
    """
    parts = [" ".join(str(metadata[name]) for name in ("framework", "version") if metadata.get(name))]
    parts += [f"{name} {metadata[name]}" for name in ("unit", "observer", "adjacency") if metadata.get(name)]
    parts += [f"{key.replace('_', ' ')} {value}" for key, value in metadata.get("mechanism", {}).items()]
    if "commitment" in metadata.get("randomisation", {}):
        parts.append(f"coins committed to as {metadata['randomisation']['commitment']}")
    return ", ".join(part for part in parts if part)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST and (value.isprintable() or not value)


def _is_number(value: Any) -> bool:
    """True for a finite number; whole ones of JSON may be too large for any other."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST


def _check_keys(values: Mapping[str, Any], names: tuple[str, ...], place: str) -> None:
    unknown = [key for key in values if key not in names]
    if unknown:
        raise DataError(f"{place} holds {', '.join(unknown)}; expected {', '.join(names)}")
