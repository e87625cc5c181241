"""Messages between an audit and a confined process: a JSON header and raw bytes, never a pickle."""

import json
import struct
from collections.abc import Mapping
from typing import Any, BinaryIO

_LENGTHS = struct.Struct(">IQ")
_MOST_HEADER = 2**24
_PIECE = 2**24


def send(stream: BinaryIO, header: Mapping[str, Any], body: bytes | memoryview = b"") -> None:
    """Write one message."""
    text = json.dumps(header).encode()
    stream.write(_LENGTHS.pack(len(text), len(body)))
    stream.write(text)
    stream.write(body)
    stream.flush()


def receive(stream: BinaryIO, limit: int | None = None) -> tuple[dict[str, Any], bytearray] | None:
    """Read a message with a body of at most `limit` bytes; None if the other side is gone, `ValueError` if it is none."""
    lengths = stream.read(_LENGTHS.size)
    if len(lengths) < _LENGTHS.size:
        return None
    head, size = _LENGTHS.unpack(lengths)
    if head > _MOST_HEADER or (limit is not None and size > limit):
        raise ValueError(f"a message of {size} bytes")
    try:
        header = json.loads(stream.read(head))
    except RecursionError as error:
        raise ValueError("a header that is nested too deeply") from error
    body = bytearray()
    while len(body) < size:  # in pieces: a size that is only stated takes no memory
        piece = stream.read(min(_PIECE, size - len(body)))
        if not piece:
            return None
        body += piece
    if not isinstance(header, dict):
        raise ValueError("a header that is no object")
    return header, body
