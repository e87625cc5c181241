"""Memory that torch frees on a CPU, kept by this process for the next step of a training."""

import ctypes
import functools
import os

# of mallopt in glibc's malloc.h; the second is the largest value that it takes
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEPT_BYTES, _MAPPED_BYTES = 2**29, 2**25


@functools.cache
def keep_freed_memory() -> bool:
    """Let this process keep up to 512 MB that it frees; True if its allocator is glibc's and no variable of malloc says other.

    A step asks for the same sizes as the step before. By default glibc gives a few MB back to the system each time, which then
    clears every page again: a fifth of the time of a step of a small transformer (docs/evidence/speed.md).
    """
    if "CS_GNU_LIBC_VERSION" not in getattr(os, "confstr_names", {}):
        return False
    if any(name.startswith("MALLOC_") and name.endswith("THRESHOLD_") for name in os.environ):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _MAPPED_BYTES)) and bool(mallopt(_TRIM_THRESHOLD, _KEPT_BYTES))
