"""What a process gives up before it reads a file of somebody else's: writing, starting programs, connecting, memory.

Linux: Landlock (kernel 5.13 or newer; more of it on newer ones) and resource limits. macOS: the limit on file sizes alone.
The names of what was really given up are returned, so that nothing is claimed that the machine does not do.
"""

from __future__ import annotations

import ctypes
import glob
import os
import resource
import sys
from collections.abc import Sequence

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446  # landlock system calls, the same numbers on every architecture
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


def confine(devices: Sequence[str] = ()) -> list[str]:
    """Give up writing files, starting programs and TCP connections, for good; call it before any thread is started.

    Args:
        devices: patterns of device files that stay writable, such as `/dev/nvidia*`.

    Returns:
        What is enforced here.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    return ["no growing files", *_landlock(devices)]


def limit_memory(size: int) -> list[str]:
    """Limit what may be allocated from now on to `size` bytes; Linux alone enforces it."""
    if not sys.platform.startswith("linux"):
        return []
    with open("/proc/self/status", encoding="ascii") as status:
        data_bytes = next(int(line.split()[1]) for line in status if line.startswith("VmData")) * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (data_bytes + size, data_bytes + size))
    return ["memory"]


def _landlock(devices: Sequence[str]) -> list[str]:
    if not sys.platform.startswith("linux"):
        return []
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    if version < 1:
        return []
    count = max(rights for since, rights in _FILE_RIGHTS.items() if since <= version)
    rules = _Ruleset((1 << count) - 1, _TCP if version >= 4 else 0, _SCOPES if version >= 6 else 0)
    size = 8 if version < 4 else 16 if version < 6 else 24
    descriptor = libc.syscall(_CREATE, ctypes.byref(rules), ctypes.c_size_t(size), ctypes.c_uint32(0))
    if descriptor < 0:
        return []
    try:
        _allow(libc, descriptor, "/", _READ_FILE | _READ_DIR)
        for path in (path for pattern in devices for path in glob.glob(pattern)):
            control = _DEVICE_CONTROL if count > 15 else 0
            _allow(libc, descriptor, path, _READ_FILE | _WRITE_FILE | control)
        libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        if libc.syscall(_RESTRICT, descriptor, ctypes.c_uint32(0)) != 0:
            return []
    finally:
        os.close(descriptor)
    return ["no writing to files", "no starting of programs", *(["no TCP"] if version >= 4 else [])]


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, rights: int) -> None:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = _PathBeneath(rights, descriptor)
        libc.syscall(_ADD_RULE, ruleset, ctypes.c_int(_PATH_BENEATH), ctypes.byref(rule), ctypes.c_uint32(0))
    finally:
        os.close(descriptor)
