"""Which ways out of the confined process hold on this machine: each is tried in its own process, beside bait."""

import os
import secrets
import signal
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit.core.confined import process
from audit.core.confined.escapes import ATTEMPTS, QUESTIONS
from audit.core.errors import DataError

_JOB = "audit.core.confined.escapes:attempt"
_MEMORY = 2**29


@dataclass(frozen=True, slots=True)
class WayOut:
    """One way out: whether it is closed, what the system answered or what was reached, and whether a wall should close it."""

    name: str
    is_held: bool
    detail: str
    has_wall: bool


class _Watch:
    """What the parent sees of an attempt, whatever the process says of it: a changed file, a connection."""

    def __init__(self, folder: Path, listeners: list[socket.socket]) -> None:
        self.folder, self.listeners = folder, listeners
        self.before = self._state()

    def what_happened(self) -> str:
        """Return what changed since the bait was laid, "" if nothing did."""
        for listener in self.listeners:
            try:
                if listener.type == socket.SOCK_DGRAM:
                    listener.recv(1)
                else:
                    listener.accept()[0].close()
                return "a connection arrived"
            except BlockingIOError:
                continue
        state = self._state()
        if state != self.before:
            self.before = state
            return "a file changed"
        return ""

    def _state(self) -> list[Any]:
        rows = []
        for path in sorted(self.folder.iterdir()):
            status = path.lstat()
            rows.append((path.name, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_nlink))
        return rows


@contextmanager
def _lay_bait() -> Iterator[tuple[dict[str, Any], _Watch]]:
    """A file, listeners and a secret variable, which nothing in the process should reach."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bait")))
        file, secret, abstract = folder / "file", secrets.token_hex(8), f"bait-{secrets.token_hex(8)}"
        file.write_bytes(b"not to be touched")
        (folder / "link").symlink_to("nowhere")
        stream = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = stream.getsockname()[1]
        datagrams = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        datagrams.bind(("127.0.0.1", port))
        listeners = [stream, datagrams]
        for address in (str(folder / "socket"), *([f"\0{abstract}"] if os.path.isdir("/proc/self") else [])):
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(address)
            listener.listen()
            listeners.append(listener)
        for listener in listeners:
            listener.setblocking(False)
        os.environ["AUDIT_BAIT"] = secret
        stack.callback(os.environ.pop, "AUDIT_BAIT")
        bait = {name: str(folder / name) for name in ("file", "link", "socket")}
        bait |= {"secret": secret, "port": port, "abstract": abstract}
        yield bait, _Watch(folder, listeners)


def _try(name: str, bait: dict[str, Any], watch: _Watch) -> WayOut:
    try:
        reply, _ = process.read(_JOB, b"x", name, memory_bytes=_MEMORY, limit=0, facts={"attempt": name, "bait": bait})
    except DataError as error:
        is_killed = f"(signal {int(signal.SIGSYS)})" in str(error)  # how the kernel answers a call of another interface
        reply = {"refused": "the kernel ended the process"} if is_killed else {"reached": f"not judged: {error}"}
    change = watch.what_happened()
    if change or "refused" not in reply:
        return WayOut(name, False, change or str(reply.get("reached", reply))[:200], name in ATTEMPTS)
    return WayOut(name, True, str(reply["refused"]), name in ATTEMPTS)


def examine() -> list[WayOut]:
    """Try every way out; takes about .1 s each."""
    with _lay_bait() as (bait, watch):
        return [_try(name, bait, watch) for name in (*ATTEMPTS, *QUESTIONS)]
