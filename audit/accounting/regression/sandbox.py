"""Limits on the time and memory of foreign code."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class TooLongError(Exception):
    """Code did not end within its time."""


@contextmanager
def limits(seconds: float, *, more_bytes: int) -> Iterator[None]:
    """Limit CPU seconds, and memory beyond what is in use; what exceeds either raises. Raises `TooLongError` if the time is
    over, `MemoryError` from the code inside.

    Works on the main thread only; elsewhere, and where the system has no such timer, there are no limits.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_: Any) -> None:
        raise TooLongError(f"no answer in {seconds:g} s of CPU")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        with _memory_limit(more_bytes):
            yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextmanager
def _memory_limit(more_bytes: int) -> Iterator[None]:
    """At most `more_bytes` more than the process has now, on systems that say how much that is."""
    try:
        import resource

        current = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    target = current + more_bytes
    limit = target if hard == resource.RLIM_INFINITY else min(target, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
