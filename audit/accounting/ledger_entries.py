"""Entries of a ledger: the text that is kept of each, the chain of hashes over them, and the ledger that they add up to."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from audit.accounting.ledger import Ledger, Limit, Release
from audit.core.adjacency import Adjacency
from audit.core.errors import ConfigError, DataError
from audit.core.event_forms import decode, encode, number, plain

SETTINGS, RELEASE, BUDGET, LIMIT = "settings", "release", "budget", "limit"  # kinds of entries
Body = tuple[str, Mapping[str, Any]]  # the kind of an entry and what it says
Row = tuple[int, str, str, str]  # position, kind, text and hash of an entry


def chain_hash(before: str, position: int, kind: str, body: str) -> str:
    """Return the hash of an entry and, by the hash before it, of all entries before it."""
    return hashlib.sha256(json.dumps([before, position, kind, body]).encode()).hexdigest()


def chained(position: int, digest: str, entries: Sequence[Body]) -> list[Row]:
    """Return the rows of entries that follow the one at a position, which has hash `digest`."""
    rows: list[Row] = []
    for kind, body in entries:
        position, text = position + 1, json.dumps(body, sort_keys=True)
        digest = chain_hash(digest, position, kind, text)
        rows.append((position, kind, text, digest))
    return rows


def verify(rows: Sequence[Row], path: str) -> tuple[str, ...]:
    """Return the hashes of all entries; `DataError` if they are no unbroken chain: an entry was changed or removed."""
    hashes: list[str] = []
    for place, (position, kind, body, digest) in enumerate(rows, start=1):
        digest_expected = chain_hash(hashes[-1] if hashes else "", place, kind, body)
        if position != place or digest != digest_expected:
            raise DataError(f"{path}: entry {place} ({kind}) or one before it was changed or removed after it was recorded")
        hashes.append(digest_expected)
    return tuple(hashes)


def restore(entries: Sequence[tuple[str, dict[str, Any]]], path: str) -> Ledger:
    """Return the ledger that the entries add up to; `DataError` if an entry cannot be read, or is of a kind that this version
    does not know.
    """
    try:
        _, settings = entries[0]
        budget, releases = number(settings["budget_epsilon"]), []
        limits: dict[str, Limit] = {}
        for kind, body in entries[1:]:
            if kind == BUDGET:
                budget = number(body["budget_epsilon"])
            elif kind == RELEASE:
                releases.append(_release(body))
            elif kind == LIMIT:
                limits[body["name"]] = _limit(body)
            else:
                raise DataError(f"an entry of the kind '{kind}', which this version does not know")
        return Ledger(
            budget_epsilon=budget,
            delta=number(settings["delta"]),
            adjacency=Adjacency(settings["adjacency"]),
            accountant=settings["accountant"],
            releases=tuple(releases),
            limits=tuple(limits.values()),
        )
    except (ValueError, KeyError, TypeError, AttributeError, ConfigError, DataError) as error:
        raise DataError(f"{path}: an entry cannot be read: {error}") from error


def settings_body(ledger: Ledger) -> dict[str, Any]:
    return {
        "budget_epsilon": plain(ledger.budget_epsilon),
        "delta": plain(ledger.delta),
        "adjacency": str(ledger.adjacency),
        "accountant": ledger.accountant,
    }


def limit_body(limit: Limit, *, moment: str, note: str) -> dict[str, Any]:
    return {
        "name": limit.name,
        "budget_epsilon": plain(limit.budget_epsilon),
        "delta": plain(limit.delta),
        "adjacency": str(limit.adjacency),
        "accountant": limit.accountant,
        "group": limit.group,
        "when": moment,
        "note": note,
    }


def _limit(body: Mapping[str, Any]) -> Limit:
    return Limit(
        name=body["name"],
        budget_epsilon=number(body["budget_epsilon"]),
        delta=number(body["delta"]),
        adjacency=Adjacency(body["adjacency"]),
        accountant=body["accountant"],
        group=body["group"],
    )


def release_body(release: Release) -> dict[str, Any]:
    groups = {"groups": list(release.groups)} if release.groups else {}
    return {
        **groups,
        "name": release.name,
        "when": release.when,
        "note": release.note,
        "event": encode(release.event),
        "spent": None if release.spent is None else plain(release.spent),
        "source": release.source,
    }


def _release(body: Mapping[str, Any]) -> Release:
    total = body["spent"]
    return Release(
        name=body["name"],
        event=decode(body["event"]),
        when=body["when"],
        note=body["note"],
        groups=tuple(body.get("groups", ())),
        spent=None if total is None else float(number(total)),
        source=body["source"],
    )
