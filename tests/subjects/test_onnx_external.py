"""An ONNX file that names another file is refused wherever the tensor is, and one that does not is left alone."""

from __future__ import annotations

import pytest

from audit.core.errors import DataError
from audit.subjects.onnx import refuse_external


def field(number: int, body: bytes) -> bytes:
    size, length = len(body), b""
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    key = number << 3 | 2
    return (bytes([key]) if key < 128 else bytes([key & 127 | 128, key >> 7])) + length + bytes([size]) + body


EXTERNAL = field(8, b"w") + field(13, field(1, b"location") + field(2, b".env")) + b"\x70\x01"
PLACES = {
    "an initializer": field(7, field(5, EXTERNAL)),
    "a sparse initializer": field(7, field(15, field(1, EXTERNAL))),
    "a constant": field(7, field(1, field(5, field(5, EXTERNAL)))),
    "a branch": field(7, field(1, field(5, field(6, field(5, EXTERNAL))))),
    "a function": field(25, field(7, field(5, field(5, EXTERNAL)))),
    "the location alone": field(7, field(5, field(8, b"w") + b"\x70\x01")),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_tensor_in_another_file_is_refused(place: str) -> None:
    with pytest.raises(DataError, match="external data"):
        refuse_external(field(2, b"someone") + PLACES[place], "m.onnx")


def test_a_file_with_its_tensors_inside_passes_and_a_damaged_one_is_named() -> None:
    refuse_external(field(7, field(5, field(8, b"w") + field(9, bytes(300)) + b"\x70\x00")), "m.onnx")
    for damage in (b"\x3a\xff", b"\x3a", b"\xff" * 12, b"\x3b\x00"):
        with pytest.raises(DataError, match=r"m\.onnx cannot be read as ONNX"):
            refuse_external(damage, "m.onnx")
