"""A limit on the time of one case, in the process of the test."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TooLong(BaseException):
    """A case did not end in time; no `except Exception` on the way hides it."""


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """A scope that raises `TooLong` if it takes longer."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TooLong(f"no end after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
