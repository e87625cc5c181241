"""What a process gives up before it reads a third-party file: files, system calls, memory, limits.

The names of what was really given up are returned, so that nothing is claimed that the machine does not do.
"""

import ctypes
import glob
import os
import sys
from collections.abc import Sequence

from audit.core.confined import limits, seccomp

# Files that a process may still open, by Landlock: those of the named folders, to read them; Linux 5.13 or newer.
_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446  # the same numbers on every architecture
_NO_NEW_PRIVILEGES = 38
_PATH_BENEATH = 1
_WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 1, 1 << 2, 1 << 3
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 5: 16}  # from this version on, so many rights
_DEVICE_CONTROL = 1 << 15
_TCP = 0b11  # bind, connect
_SCOPES = 0b11  # abstract sockets, signals


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def restrict(readable: Sequence[str], devices: Sequence[str]) -> bool:
    """Give up every other file, for good, and in this thread and those that it starts; return whether the kernel does so."""
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    if version < 1:
        return False
    count = max(rights for since, rights in _FILE_RIGHTS.items() if since <= version)
    rules = _Ruleset((1 << count) - 1, _TCP if version >= 4 else 0, _SCOPES if version >= 6 else 0)
    size = 8 if version < 4 else 16 if version < 6 else 24
    descriptor = libc.syscall(_CREATE, ctypes.byref(rules), ctypes.c_size_t(size), ctypes.c_uint32(0))
    if descriptor < 0:
        return False
    try:
        for path in readable:
            _allow(libc, descriptor, path, _READ_FILE | _READ_DIR)
        for path in (path for pattern in devices for path in glob.glob(pattern)):
            _allow(libc, descriptor, path, _READ_FILE | _WRITE_FILE | (_DEVICE_CONTROL if count > 15 else 0))
        libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        return bool(libc.syscall(_RESTRICT, descriptor, ctypes.c_uint32(0)) == 0)
    finally:
        os.close(descriptor)


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, rights: int) -> None:
    """Add a rule; a path that is not there needs none."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not os.path.isdir(path):
            rights &= ~_READ_DIR  # a right on a folder is refused for a file
        rule = _PathBeneath(rights, descriptor)
        libc.syscall(_ADD_RULE, ruleset, ctypes.c_int(_PATH_BENEATH), ctypes.byref(rule), ctypes.c_uint32(0))
    finally:
        os.close(descriptor)


FILES, CALLS, GROWTH, MEMORY = "no files but those of libraries", "listed system calls only", "no growing files", "memory"
WALLS = (FILES, CALLS, MEMORY)  # what Linux can enforce on the CPU


def confine(readable: Sequence[str], devices: Sequence[str] = ()) -> list[str]:
    """Give up all but reading, for good; call it before any thread is started, since a thread stays as it was.

    On a device the driver needs calls that no list here names, so that system calls are not filtered.

    Args:
        readable: files and folders that are read, with all that is in them.
        devices: patterns of device files that are read and written.

    Returns:
        What is enforced here.
    """
    limits.limit_resources()
    walls = [GROWTH]
    if restrict(readable, devices):
        walls.append(FILES)
    if not devices and seccomp.allow_reading():
        walls.append(CALLS)
    return walls


def limit_memory(size: int) -> list[str]:
    """Limit what may be allocated from now on to `size` bytes, and give up changing any limit."""
    walls = [MEMORY] if limits.limit_memory(size) else []
    seccomp.seal()
    return walls


def missing_walls(walls: list[str] | tuple[str, ...]) -> list[str]:
    """Return what is not enforced of that which Linux can enforce."""
    return [wall for wall in WALLS if wall not in walls]
