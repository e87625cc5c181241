"""What a process gives up before it reads a third-party file: files, system calls, memory, limits.

The names of what was really given up are returned, so that nothing is claimed that the machine does not do.
"""

from __future__ import annotations

from audit.core.confined import limits, seccomp
from audit.core.confined.landlock import FileAccess, restrict

FILES, CALLS, GROWTH, MEMORY = "no files but those of libraries", "listed system calls only", "no growing files", "memory"
WALLS = (FILES, CALLS, MEMORY)
"""What Linux can enforce on the CPU."""


def confine(access: FileAccess) -> list[str]:
    """Give up all but reading, for good; call it before any thread is started, since a thread stays as it was.

    On a device (`access.devices`) the driver needs calls that no list here names, so that system calls are not filtered.

    Returns:
        What is enforced here.
    """
    limits.limit_resources()
    walls = [GROWTH]
    if restrict(access):
        walls.append(FILES)
    if not access.devices and seccomp.allow_reading():
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
