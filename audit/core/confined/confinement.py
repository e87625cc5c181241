"""What a process gives up before it reads a third-party file: files, system calls, memory, limits.

The names of what was really given up are returned, so that nothing is claimed that the machine does not do.
"""

import ctypes
import glob
import math
import os
import resource
import signal
import struct
import sys
import time
from collections.abc import Sequence

from audit.core.confined import seccomp

_CAPABILITIES_VERSION, _READ_SEARCH = 0x20080522, 2
_PARENT_DEATH = 1
_MORE_TASKS = 4096  # than the user runs now: threads, and processes if nothing else refuses them
_MOST_DESCRIPTORS = 256
_MOST_STACK = 64 * 2**20
_MOST_ADDRESSES = 2**36  # that may be reserved beside what is written: tables for reading 512 times as much are memory too


def end_with_parent(parent: int) -> None:
    """Let the kernel end this process when the thread that started it ends, whatever it is doing (Linux)."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PARENT_DEATH, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before
        os._exit(1)


def limit_resources() -> None:
    """Give up core files, growing files, locked memory, message queues, many descriptors and tasks, and capabilities."""
    for name, size in (("CORE", 0), ("FSIZE", 0), ("MEMLOCK", 0), ("MSGQUEUE", 0), ("NOFILE", _MOST_DESCRIPTORS)):
        kind = getattr(resource, f"RLIMIT_{name}", None)  # macOS lacks some
        if kind is not None:
            _lower(kind, size)
    if sys.platform.startswith("linux"):
        _lower(resource.RLIMIT_STACK, _MOST_STACK)
        _lower(resource.RLIMIT_NPROC, _tasks() + _MORE_TASKS)
        _drop_capabilities()


def limit_allocation(size: int) -> bool:
    """Limit what may be allocated from now on to `size` bytes; return whether that is enforced: by Linux alone."""
    if not sys.platform.startswith("linux"):
        return False
    with open("/proc/self/status", encoding="ascii") as status:
        lines = (line.partition(":") for line in status)
        rows = {name: int(value.split()[0]) * 1024 for name, _, value in lines if name in ("VmData", "VmSize")}
    _lower(resource.RLIMIT_DATA, rows["VmData"] + size)
    _lower(resource.RLIMIT_AS, rows["VmSize"] + size + _MOST_ADDRESSES)
    return True


def limit_computing(seconds: int) -> None:
    """Let the kernel end this process after so many seconds of computing from now on, waiting not counted."""
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    end = math.ceil(time.process_time()) + seconds
    if hard == resource.RLIM_INFINITY or end < hard:
        resource.setrlimit(resource.RLIMIT_CPU, (end, end + 1))  # SIGXCPU says why; who ignores it is killed a second later


def _lower(kind: int, size: int) -> None:
    """Set both limits to `size`, or keep them if they are lower."""
    hard = resource.getrlimit(kind)[1]
    value = size if hard == resource.RLIM_INFINITY else min(size, hard)
    resource.setrlimit(kind, (value, value))


def _tasks() -> int:
    """Processes and threads of this user."""
    count, user = 0, os.getuid()
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                if entry.stat().st_uid == user:
                    count += len(os.listdir(f"/proc/{entry.name}/task"))
            except OSError:
                continue  # it has ended
    return count


def _drop_capabilities() -> None:
    """Keep of root's powers only that of reading what is in other users' folders, where libraries may be installed."""
    header = struct.pack("=Ii", _CAPABILITIES_VERSION, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    current = ctypes.create_string_buffer(24)
    if libc.capget(header, current) != 0:
        return
    permission = struct.unpack("=6I", current.raw)[1] & (1 << _READ_SEARCH)
    libc.capset(header, struct.pack("=6I", permission, permission, 0, 0, 0, 0))


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
    limit_resources()
    walls = [GROWTH]
    if restrict(readable, devices):
        walls.append(FILES)
    if not devices and seccomp.allow_reading():
        walls.append(CALLS)
    return walls


def limit_memory(size: int) -> list[str]:
    """Limit what may be allocated from now on to `size` bytes, and give up changing any limit."""
    walls = [MEMORY] if limit_allocation(size) else []
    seccomp.seal()
    return walls


def missing_walls(walls: list[str] | tuple[str, ...]) -> list[str]:
    """Return what is not enforced of that which Linux can enforce."""
    return [wall for wall in WALLS if wall not in walls]
