"""How much memory this machine lends, so that what cannot fit is refused before it is asked for.

Linux grants more than there is and ends the process when it is used, so no error of an allocation can be waited for.
"""

from __future__ import annotations

import functools
import os
import resource
from pathlib import Path

from audit.core.errors import ConfigError

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
