"""What an audit logs, written to a file of its folder as well; a folder may come from a third party."""

import logging
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TextIO

from audit.core.errors import OutputError

LOG = logging.getLogger("audit")


@contextmanager
def log_in(path: Path) -> Iterator[Callable[[], None]]:
    """While open, the log is appended to a regular file too (else `OutputError`); gives what closes the file earlier."""
    stream = _open(path)
    level = LOG.level
    LOG.setLevel(logging.INFO)
    writer = _Writer(stream, path)
    formatter = logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    formatter.converter = time.gmtime  # as the report's date
    writer.setFormatter(formatter)
    LOG.addHandler(writer)

    def close() -> None:
        LOG.removeHandler(writer)
        with suppress(OSError) if writer.is_broken else nullcontext():  # it was told when it broke
            stream.close()

    try:
        yield close
    finally:
        close()
        LOG.setLevel(level)


class _Writer(logging.StreamHandler[TextIO]):
    """Ends the run by a sentence if a line cannot be written, instead of a traceback a line; further lines are left out."""

    def __init__(self, stream: TextIO, path: Path) -> None:
        super().__init__(stream)
        self._path, self.is_broken = path, False

    def emit(self, record: logging.LogRecord) -> None:
        if self.is_broken:
            return
        try:
            self.stream.write(self.format(record) + self.terminator)
            self.stream.flush()
        except OSError as error:
            self.is_broken = True
            raise OutputError(
                f"cannot write '{self._path}': {error.strerror}; free some space, then continue with --resume"
            ) from error


def _open(path: Path) -> TextIO:
    """The file, to append to; no link is followed, and no reader of a pipe waited for."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        raise OutputError(f"cannot write '{path}': {error.strerror}; remove what is in its place") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OutputError(f"cannot write '{path}': expected a regular file; remove what is in its place")
    return open(descriptor, "a", encoding="utf-8")
