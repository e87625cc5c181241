"""Resource limits, capabilities and the tie to the parent: what a process gives up in addition to files and system calls."""

import ctypes
import math
import os
import resource
import signal
import struct
import sys
import time

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


def limit_memory(size: int) -> bool:
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
