"""Jobs that behave as code of an attacker would when it runs in the confined process."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from typing import Any

from audit.core.confined.worker import Message

FORGE = "forge"
FORGED = [
    '{"error": "x", "kind": "__doc__"}',
    '{"error": "x", "kind": "annotations"}',
    '{"error": "x", "kind": ["DataError"]}',
    '{"error": "x", "kind": {"a": 1}}',
    '{"error": {"a": 1}, "kind": "OutputError"}',
    '{"error": null, "kind": null}',
    '{"enforced": 5}',
    '{"arrays": 7}',
    '{"arrays": [{"name": "x", "type": "|O8", "shape": [1], "at": 0}]}',
    '{"arrays": [{"name": "x", "type": "<f8", "shape": [-1], "at": 0}]}',
    '{"arrays": [{"name": "x", "type": "<f8", "shape": [1e999], "at": 0}]}',
    '{"arrays": [{"name": "x", "type": "<f8", "shape": [true], "at": 0}]}',
    '{"arrays": [{"name": "x", "type": "<f8", "shape": [2], "at": 0}]}',
    '{"arrays": [{"name": "x", "type": "<f8", "shape": [65536, 65536, 65536, 65536], "at": 0}]}',
    '{"arrays": [{"name": "x", "type": "<U0", "shape": [1099511627776], "at": 0}]}',
    '{"arrays": [{"name": "x", "type": "<f3", "shape": [0], "at": 0}]}',
    '{"arrays": [{"name": ["x"], "type": "<f8", "shape": [0], "at": 0}]}',
    '{"arrays": ' + "[" * 100000 + "}",
    '{"arrays": ' + "9" * 5000 + "}",
    '"text"',
    "[]",
    "\\ud800",
    "",
]


def forge(header: Mapping[str, Any], content: bytes) -> tuple[Message, None]:
    """Write its own reply to every pipe there is, past the worker, and end."""
    text = header["reply"].encode("utf-8", "surrogatepass")
    for descriptor in range(3, 32):
        try:
            os.write(descriptor, struct.pack(">IQ", len(text), 0) + text)
        except OSError:
            continue
    os._exit(0)


def spin(header: Mapping[str, Any], content: bytes) -> tuple[Message, None]:
    """Compute for ever, whatever is asked."""
    import signal

    for number in range(1, 32):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            continue
    while True:
        pass


def fill(header: Mapping[str, Any], content: bytes) -> tuple[Message, None]:
    """Take memory as if there were no end."""
    pieces = []
    while True:
        pieces.append(b"x" * 2**24)


def compute(header: Mapping[str, Any], content: bytes) -> tuple[Message, None]:
    """Compute for ever, as a parser of a damaged file would."""
    while True:
        pass


def import_torch(header: Mapping[str, Any], content: bytes) -> tuple[Message, None]:
    """Import what reads models and weights."""
    import torch.utils.data

    return ({"version": str(torch.__version__)}, b""), None
