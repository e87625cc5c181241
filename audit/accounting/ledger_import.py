"""Ledgers of earlier versions: JSON files, read once to become a database."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from audit.accounting.ledger import Ledger, Release
from audit.core import files
from audit.core.adjacency import Adjacency
from audit.core.errors import ConfigError, DataError
from audit.core.event_forms import decode, encode

_VERSIONS = (1, 2)  # those of version 1 hash releases only and have no seal
_HEAD = {"version", "budget_epsilon", "delta", "adjacency", "accountant", "seal", "releases"}
_ROW = {"name", "when", "note", "event", "hash"}


def load(path: Path) -> Ledger:
    """The ledger of a JSON file, with what was spent after each release asked for again.

    Raises:
        DataError: it is missing, malformed, of another version, or a release was changed after it was recorded.
    """
    try:
        document = files.read_json(path)
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read the ledger {path}: {error}; expected a JSON file that this program wrote") from error
    if not isinstance(document, dict) or document.get("version") not in _VERSIONS:
        raise DataError(f"{path} is not a ledger of version {' or '.join(map(str, _VERSIONS))}")
    is_sealed = document["version"] == 2
    _exactly(document, _HEAD if is_sealed else _HEAD - {"seal"}, str(path))
    if not isinstance(document["releases"], list):
        raise DataError(f"{path}: 'releases' is {type(document['releases']).__name__}; expected a list")
    releases = tuple(_release(row, f"{path}, release {place + 1}") for place, row in enumerate(document["releases"]))
    try:
        ledger = Ledger(
            budget_epsilon=_number(document["budget_epsilon"], "budget_epsilon"),
            delta=_number(document["delta"], "delta"),
            adjacency=Adjacency(document["adjacency"]),
            accountant=_text(document["accountant"], "accountant"),
            releases=releases,
        )
    except (ValueError, ConfigError) as error:
        raise DataError(f"{path}: {error}") from error
    hashes = _hashes(ledger, with_seal=is_sealed)
    for place, row in enumerate(document["releases"]):
        if row["hash"] != hashes[place + 1]:
            raise DataError(
                f"{path}: release {place + 1} ('{releases[place].name}'), one before it or a setting was changed after it was "
                "recorded"
            )
    if is_sealed and document["seal"] != _digest([hashes[-1], len(hashes) - 1]):
        raise DataError(f"{path}: a setting was changed or a release removed after it was recorded; the seal does not fit")
    trajectory = ledger.trajectory(ledger.ask())
    priced_releases = (
        replace(row, spent=epsilon, source=trajectory.accountant)
        for row, epsilon in zip(releases, trajectory.epsilon, strict=True)
    )
    return replace(ledger, releases=tuple(priced_releases))


def _release(row: Any, location: str) -> Release:
    if not isinstance(row, dict):
        raise DataError(f"{location} is {type(row).__name__}; expected an object")
    _exactly(row, _ROW, location)
    try:
        event = decode(row["event"])
    except (TypeError, AttributeError, KeyError, ConfigError, DataError) as error:
        raise DataError(f"{location}: the event cannot be read: {error}") from error
    return Release(
        name=_text(row["name"], "name"), event=event, when=_text(row["when"], "when"), note=_text(row["note"], "note")
    )


def _exactly(row: Mapping[str, Any], fields: set[str], location: str) -> None:
    missing, extra = sorted(fields - row.keys()), sorted(row.keys() - fields)
    if missing or extra:
        raise DataError(f"{location} lacks {missing or 'nothing'} and has {extra or 'nothing'} beyond what a ledger holds")


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} is {value!r}; expected a number")
    return float(value)


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise DataError(f"{name} is {value!r}; expected text")
    return value


def _settings(ledger: Ledger) -> dict[str, Any]:
    return {
        "budget_epsilon": ledger.budget_epsilon,
        "delta": ledger.delta,
        "adjacency": str(ledger.adjacency),
        "accountant": ledger.accountant,
    }


def _hashes(ledger: Ledger, *, with_seal: bool = True) -> list[str]:
    """The hash of the settings ("" in files of version 1), and of each release with all before it."""
    hashes = [_digest(_settings(ledger)) if with_seal else ""]
    for row in ledger.releases:
        hashes.append(_digest([hashes[-1], row.name, row.when, row.note, encode(row.event)]))
    return hashes


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
