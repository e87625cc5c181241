"""What a confined process gets from the audit: a short list of environment variables, and the folders of the libraries."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from typing import Any

PASSED_ON = (
    "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "SYSTEMROOT", "OMP_NUM_THREADS", "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES",
)  # fmt: skip
"""Variables that change how the libraries compute or are found; none of them holds a secret."""
_SYSTEM = (
    "/usr", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store", "/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives",
    "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/sys/vm/overcommit_memory", "/sys/devices/system",
    "/sys/fs/cgroup", "/dev/null", "/dev/urandom", "/System", "/Library",
)  # fmt: skip


def environment() -> dict[str, str]:
    """Return the variables of the process: those passed on, the import path, and few memory arenas, which count as used."""
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path if entry)
    return {
        **{name: os.environ[name] for name in PASSED_ON if name in os.environ},
        "PATH": os.defpath,
        "HOME": "/nonexistent",
        "USER": "model",  # libraries ask for a name, and would look it up in files
        "PYTHONPATH": path,
        "PYTHONDONTWRITEBYTECODE": "1",
        "MALLOC_ARENA_MAX": "4",
    }


def places() -> dict[str, Any]:
    """Return the files and folders that hold code of libraries, and where the modules of other folders are.

    Of a folder of the import path that belongs to no installation, such as a project's own, only those packages and modules are
    read that this process has imported: what else is there is not the model's.
    """
    installations = {os.path.realpath(place) for place in (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)}
    installations |= {os.path.realpath(path) for path in sysconfig.get_paths().values() if os.path.isdir(path)}
    entries = [os.path.realpath(entry) for entry in sys.path if entry]
    installations |= {entry for entry in entries if Path(entry).name in ("site-packages", "dist-packages")}
    installations.discard("/")
    projects = [entry for entry in entries if not any(_is_within(entry, folder) for folder in installations)]
    modules = {}
    for place in sorted(_module_places()):
        for folder in projects:
            if _is_within(place, folder):
                top = os.path.relpath(place, folder).split(os.sep)[0]
                modules[top.partition(".")[0]] = os.path.join(folder, top)
                break
    libraries = [entry for entry in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if entry]
    return {"readable": sorted({*_SYSTEM, *installations, *modules.values(), *libraries}), "modules": modules}


def _module_places() -> set[str]:
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    return {os.path.realpath(file) for file in files if isinstance(file, str)}


def _is_within(place: str, folder: str) -> bool:
    return place == folder or place.startswith(folder.rstrip("/") + "/")
