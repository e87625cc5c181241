"""The process that reads a third-party file: `python -m audit.core.confined.worker`, started by `audit.core.confined.process`.

It gives up files and system calls before it imports anything large, reads one file, and then answers requests until its input
ends. Nothing that is printed while the file is read goes anywhere.
"""

import importlib
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from operator import attrgetter
from typing import Any, BinaryIO

from audit.core.confined import confinement, frames
from audit.core.errors import AuditError

Message = tuple[dict[str, Any], bytes]
Answer = Callable[[Mapping[str, Any], bytearray], Message]
# Read the content of a file as its header says; return what the audit is told at once, and what answers later requests. A
# module with jobs may have a function `prepare(header)`, which runs before memory is limited: libraries are imported there.
Job = Callable[[Mapping[str, Any], bytes], tuple[Message, Answer | None]]

MOST_REASON = 1000  # characters of what went wrong, some of which a file may choose
_DEVICES = ("/dev/nvidia*", "/dev/null", "/dev/shm")


def main() -> None:
    """Confine this process, then serve."""
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDONLY)
    tempfile.tempdir = os.devnull  # libraries ask for the name of a folder, which they would look for by writing
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.dirname(__file__)  # torch makes its cache's folder; this one is there
    request = frames.receive(requests)
    if request is None:
        return
    header, content = request
    confinement.end_with_parent(header["parent"])
    system = os.uname_result((header["system"][0], "", *header["system"][2:]))
    os.uname = lambda: system  # libraries ask for the kernel; the system's answer has the name of the host, and is refused
    on_device = header.get("device", "cpu") != "cpu"
    sys.modules["dill"] = None  # type: ignore[assignment]  # torch imports it if it is there, which opens a file for writing
    sys.meta_path.append(_NamedModules(header["places"]["modules"]))
    walls = confinement.confine(["/"], _DEVICES) if on_device else confinement.confine(header["places"]["readable"])
    if not sys.platform.startswith("linux"):
        _leave_with(header["parent"])
    job, prepare = find_job(header["job"])
    prepare(header)
    if "computing" in header:
        confinement.limit_computing(header["computing"])
    if not on_device:
        walls += confinement.limit_memory(header["memory"])
    _silence(nowhere)
    serve(lambda: job(header, bytes(content)), walls, requests, replies)


class _NamedModules:
    """Finds packages and modules by their names in folders that this process may not list, after all other finders."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self.places = places

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The module of a name, None if it is not among those that the audit had imported."""
        place = self.places.get(name)
        if place is None:
            return None
        if not os.path.isdir(place):
            return spec_from_file_location(name, place)
        begin = os.path.join(place, "__init__.py")
        return spec_from_file_location(name, begin, submodule_search_locations=[place]) if os.path.exists(begin) else None


def find_job(place: str) -> tuple[Job, Callable[[Mapping[str, Any]], None]]:
    """Return the job of a place `module:name`, and what prepares it."""
    name, _, function = place.partition(":")
    module = importlib.import_module(name)
    return attrgetter(function)(module), getattr(module, "prepare", lambda header: None)


def serve(start: Callable[[], tuple[Message, Answer | None]], walls: list[str], requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer the first request, and then each further one, until the requests end."""
    try:
        (facts, body), answer = start()
    except AuditError as error:
        frames.send(replies, failure(error))
        return
    frames.send(replies, {**facts, "enforced": walls}, body)
    while answer is not None and (request := frames.receive(requests)) is not None:
        frames.send(replies, *answer(*request))


def failure(error: AuditError) -> dict[str, Any]:
    """Return the header of a reply that says what went wrong."""
    return {"error": str(error)[:MOST_REASON], "kind": type(error).__name__}


def _silence(nowhere: int) -> None:
    """Let nothing that is printed from now on reach a terminal or a pipe; what Python buffers is dropped too."""
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    sys.stdout = sys.stderr = _Nowhere()  # type: ignore[assignment]


class _Nowhere:
    """A stream that drops what is written to it."""

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        pass


def _leave_with(parent: int) -> None:
    """End this process when its parent is gone, if the kernel does not do it."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    main()
