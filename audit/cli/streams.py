"""Stdout and stderr without a reader: what cannot be printed never changes what a command answers."""

from __future__ import annotations

import errno
import os
import sys
from typing import Any, TextIO


class GuardedStream:
    """A text stream that remembers failing writes instead of raised; all else is the stream's own."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.failure: OSError | None = None

    def write(self, text: str) -> int:
        """The number of characters taken: all of them, wherever they went."""
        if self.failure is None:
            try:
                self._stream.write(text)
            except OSError as error:
                self.failure = error
        return len(text)

    def flush(self) -> None:
        """Flush the stream, while it works."""
        if self.failure is None:
            try:
                self._stream.flush()
            except OSError as error:
                self.failure = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def guard() -> tuple[GuardedStream, GuardedStream]:
    """Puts guarded streams instead of stdout and stderr; a closed one is opened on the null device.

    Without that the next file that the program opens would take the closed descriptor, and prints would go into it.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (open until the end)
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # as stderr does what its encoding lacks
    guards = GuardedStream(sys.stdout), GuardedStream(sys.stderr)
    sys.stdout, sys.stderr = guards  # type: ignore[assignment]
    return guards


def settle(out: GuardedStream, err: GuardedStream) -> None:
    """Flushes both at the end; says on stderr that stdout is not whole, except to a reader that left on purpose.

    A stream that failed goes to the null device, so that the interpreter's own last flush finds nothing to complain of.
    """
    out.flush()
    if out.failure is not None and out.failure.errno != errno.EPIPE:
        print(f"stdout is incomplete: {out.failure.strerror}; the exit code stands", file=err)
    err.flush()
    for stream in (out, err):
        if stream.failure is not None:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())
            os.close(null)
