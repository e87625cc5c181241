"""Files that users name, read whole: regular ones that fit into memory, since a pipe may never end; folders flushed."""

from __future__ import annotations

import errno
import functools
import hashlib
import json
import os
import resource
import stat
from pathlib import Path
from typing import Any

from audit.core.errors import ConfigError, OutputError

# How much memory this machine lends, so that what cannot fit is refused before it is asked for.
_GROUP = Path("/sys/fs/cgroup/memory.max")


@functools.lru_cache(maxsize=1)
def machine() -> int:
    """Bytes that one process may hold: of the machine, its control group and its own limits the least."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    own = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    limits += [limit for limit in own if limit != resource.RLIM_INFINITY]
    if _GROUP.is_file():
        group = _GROUP.read_text().strip()
        limits += [int(group)] if group.isdigit() else []
    return min(limits)


def refuse(size: float, purpose: str, advice: str) -> None:
    """Raise `ConfigError` if so many bytes are more than this machine has."""
    if size > machine():
        own = text(machine())
        raise ConfigError(f"{purpose} would take {text(size)} of memory, more than the {own} of this machine; {advice}")


def text(size: float) -> str:
    """A number of bytes in words.

    >>> text(3 * 2**29)
    '1.5 GiB'
    """
    for name, unit in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20)):
        if size >= unit:
            return f"{size / unit:,.1f} {name}"
    return f"{size:,.0f} bytes"


def read(path: Path) -> bytes:
    """The content of a regular file of at most half of the memory; `OSError` with a `strerror` that says why not."""
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        raise OSError(errno.EINVAL, "it is a pipe or a device, which may never end; expected a regular file", str(path))
    if 2 * status.st_size > machine():
        size = f"{text(status.st_size)}, more than half of the {text(machine())} of memory"
        raise OSError(errno.EFBIG, f"it holds {size}", str(path))
    return path.read_bytes()


def file_sha256(path: Path) -> str:
    """The sha256 of a file's bytes, hex; the file may be larger than memory."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read_text(path: Path) -> str:
    """The same as UTF-8 text, or `UnicodeDecodeError`; `OSError` as of `read`."""
    return read(path).decode()


def read_json(path: Path) -> Any:
    """The content of a JSON file; `ValueError` if it is none or nested beyond what can be read, `OSError` as of `read`."""
    try:
        return json.loads(read(path))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def is_same_file(path: Path, peer: str | Path) -> bool:
    """Return whether both name one file that exists; no text that is the name of none does."""
    try:
        return os.path.samefile(path, peer)
    except (OSError, ValueError):  # one of them is absent, or is no path: an expression, a URL
        return False


def write_whole(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Write a file, by default for its owner alone, under a temporary name, force it to disk, and give it its name.

    Folders may come from others: the temporary file is always a new one, so that a link in its place is not followed.

    Raises:
        OSError: it cannot be written; nothing is left of it.
    """
    temporary = path.with_name(path.name + ".tmp")
    try:
        temporary.unlink(missing_ok=True)
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, mode)) as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def make_folder(folder: str | Path) -> Path:
    """Return a folder, made if it is not there; `OutputError` if it cannot be."""
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write to '{path}': {error.strerror}; choose another folder") from error
    return path


def sync_folder(folder: Path) -> None:
    """Wait until the disk holds the names of the files in a folder; `OSError` if it cannot be flushed."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
