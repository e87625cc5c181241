"""A third-party file, read in its own process with limits on time and memory: see `audit.core.confined.worker`."""

import logging
import os
import signal
import subprocess
import sys
import sysconfig
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

from audit.core import files
from audit.core.confined import frames
from audit.core.confined.confinement import missing_walls
from audit.core.errors import AuditError, ConfigError, DataError

# What a confined process gets from the audit: a short list of environment variables, and the folders of the libraries.
# variables that change how the libraries compute or are found; none of them holds a secret
PASSED_ON = (
    "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "SYSTEMROOT", "OMP_NUM_THREADS", "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES",
)  # fmt: skip
_SYSTEM = (
    "/usr", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store", "/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives",
    *(f"/proc/self/{name}" for name in ("auxv", "cgroup", "environ", "maps", "stat", "statm", "status", "task")),
    "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/sys/vm/overcommit_memory", "/sys/devices/system",
    "/sys/fs/cgroup", "/dev/null", "/dev/urandom", "/System", "/Library",
)  # fmt: skip
_AT_START = ("sitecustomize*", "usercustomize*")  # modules and packages that Python imports before the process is confined


def environment() -> dict[str, str]:
    """Return the variables of the process: those passed on, the import path, and few memory arenas, which count as used."""
    folders = [os.path.abspath(entry) for entry in sys.path if entry]
    # one beside the user's files was named by nobody
    path = os.pathsep.join(folder for folder in folders if not any(any(Path(folder).glob(name)) for name in _AT_START))
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
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    for place in sorted({os.path.realpath(file) for file in files if isinstance(file, str)}):
        for folder in projects:
            if _is_within(place, folder):
                top = os.path.relpath(place, folder).split(os.sep)[0]
                modules[top.partition(".")[0]] = os.path.join(folder, top)
                break
    libraries = [entry for entry in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if entry]
    return {"readable": sorted({*_SYSTEM, *installations, *modules.values(), *libraries}), "modules": modules}


def _is_within(place: str, folder: str) -> bool:
    return place == folder or place.startswith(folder.rstrip("/") + "/")


SECONDS = 120.0
READING_SECONDS = 20  # of computing, for a small file, so that a busy machine refuses no good one
_CLOCK_SECONDS = 180.0  # for the same, imports included
_ERRORS: dict[str, type[AuditError]] = {"DataError": DataError, "ConfigError": ConfigError}
_CALL = "call"
_MESSAGES: set[str] = set()


class ConfinedProcess:
    """One process for one file, from its reading to the end of the audit.

    Args:
        job: `module:name` of the function that reads the file in the process; see `audit.core.confined.worker`.
        content: of the file.
        name: of the file, for messages.
        seconds: for reading it.
        memory_bytes: that reading may take in addition to what libraries take; enforced on the CPU under Linux.
        limit: the largest reply in bytes.
        facts: for the job, as JSON.

    Raises:
        DataError: the file cannot be read, or not within the limits.
    """

    def __init__(
        self,
        job: str,
        content: bytes,
        name: str,
        *,
        seconds: float = SECONDS,
        memory_bytes: int = 2**31,
        limit: int = 2**31,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        for label, value in (("seconds", seconds), ("memory_bytes", memory_bytes)):
            if not 0 < value < float("inf"):
                raise ConfigError(f"{label} is {value}; expected a positive number")
        self.name, self.memory, self._computes = name, memory_bytes, "computing" in (facts or {})
        self._child, self._stderr = _start()
        self._requests = cast("BinaryIO", self._child.stdin)
        self._replies = cast("BinaryIO", self._child.stdout)
        self.close = weakref.finalize(self, _end, self._child, self._stderr)
        header = {
            "device": "cpu",
            **(facts or {}),
            "job": job,
            "name": name,
            "memory": int(memory_bytes),
            "parent": os.getpid(),
            "places": places(),
            "system": list(os.uname()),
        }
        self.facts, self.body = self.ask(header, content, "be loaded", seconds + len(content) / 2**25, limit)
        walls = self.facts.get("enforced")
        self.limits = tuple(map(str, walls)) if isinstance(walls, list) else ()
        _tell_missing(missing_walls(self.limits) if header["device"] == "cpu" else [])

    def ask(
        self, header: Mapping[str, Any], body: bytes | memoryview, action: str, seconds: float, limit: int
    ) -> tuple[dict[str, Any], bytearray]:
        """Send a request and return the reply.

        Raises:
            DataError, ConfigError: what the process says went wrong; or it ended, or not in time.
            RuntimeError: the file's own code failed on the request.
        """
        with self._deadline(seconds) as late:
            try:
                frames.send(self._requests, header, body)
                reply = frames.receive(self._replies, limit)
            except (BrokenPipeError, ValueError):
                _kill(self._child)  # it may wait for a user to read the rest of what it says
                reply = None
        if reply is None:
            raise DataError(self._end_message(action, seconds, late.is_set()))
        if "error" not in reply[0]:
            return reply
        kind, reason = reply[0].get("kind"), str(reply[0]["error"])
        if kind == _CALL:
            raise RuntimeError(reason)
        raise _ERRORS.get(kind if isinstance(kind, str) else "", DataError)(reason)

    @contextmanager
    def _deadline(self, seconds: float) -> Iterator[threading.Event]:
        """A scope with a time limit: the process is killed after it, which ends every wait for it."""
        late = threading.Event()

        def kill() -> None:
            late.set()
            _kill(self._child)

        timer = threading.Timer(seconds, kill)
        timer.daemon = True
        timer.start()
        try:
            yield late
        finally:
            timer.cancel()

    def _end_message(self, action: str, seconds: float, late: bool) -> str:
        if late and self._computes:
            return (
                f"{self.name} could not {action} within {seconds:g} seconds; its process was ended. Is this machine very busy?"
            )
        if late:
            return (
                f"{self.name} could not {action} within {seconds:g} seconds; its process was ended. Allow more time "
                "(--batch-seconds) or give fewer records at once (--batch-size), if you trust the model"
            )
        code = self._child.wait()
        if code == -signal.SIGXCPU:
            return f"{self.name} could not {action} within the seconds of computing that its size allows; do not use it"
        lines = os.read(self._stderr, 2**16).decode(errors="replace").strip().splitlines()
        reason = f"signal {-code}" if code < 0 else lines[-1][:300] if lines else f"exit code {code}"
        size = files.text(self.memory)
        return (
            f"{self.name} could not {action}: its process ended ({reason}); it may need more than {size} (--memory-gib), or "
            "its file is damaged"
        )


def read(job: str, content: bytes, name: str, *, memory_bytes: int, limit: int, facts: Mapping[str, Any] | None = None) -> Any:
    """Return facts and bytes that a job finds in the content of a file, or `DataError`; its process ends at once."""
    facts = {"computing": READING_SECONDS + len(content) // 2**22, **(facts or {})}
    seconds = _CLOCK_SECONDS + len(content) / 2**19
    process = ConfinedProcess(job, content, name, seconds=seconds, memory_bytes=memory_bytes, limit=limit, facts=facts)
    try:
        return process.facts, process.body
    finally:
        process.close()


def form_error(name: str) -> DataError:
    """Return the error for a reply that no job of ours gives: what reads the file was taken over by it."""
    return DataError(f"{name}: the process that reads it gave an answer in another form than asked for; do not use this file")


def _start() -> tuple[subprocess.Popen[bytes], int]:
    """Start the process, with a pipe of its stderr, from a thread that lives as long: the kernel ends it with that thread."""
    errors, writing_end = os.pipe()  # a file could not grow under the limits of the process
    os.set_blocking(writing_end, False)
    os.set_blocking(errors, False)
    results: list[subprocess.Popen[bytes] | OSError] = []
    ready = threading.Event()

    def hold() -> None:
        try:
            child = subprocess.Popen(
                [sys.executable, "-P", "-m", "audit.core.confined.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=writing_end,
                env=environment(),
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            results.append(error)
            ready.set()
            return
        results.append(child)
        ready.set()
        child.wait()

    threading.Thread(target=hold, daemon=True, name="holds a confined process").start()
    ready.wait()
    os.close(writing_end)
    if isinstance(results[0], OSError):
        os.close(errors)
        raise results[0]
    return results[0], errors


def _kill(child: subprocess.Popen[bytes]) -> None:
    """End the process and all that it may have results: they are one group."""
    with suppress(ProcessLookupError, PermissionError):
        if child.returncode is None:
            os.killpg(child.pid, signal.SIGKILL)
    child.kill()


def _end(child: subprocess.Popen[bytes], stderr: int) -> None:
    _kill(child)
    os.close(stderr)
    for stream in (child.stdin, child.stdout):
        if stream is not None:
            try:
                stream.close()
            except BrokenPipeError:
                continue  # it died with a request half written
    child.wait()


def _tell_missing(walls: list[str]) -> None:
    """Say once what this machine does not enforce."""
    for wall in walls:
        if wall not in _MESSAGES:
            _MESSAGES.add(wall)
            logging.getLogger("audit").warning(
                "this machine does not confine the process that reads files of others as Linux can: '%s' is missing "
                "(audit doctor --confinement)",
                wall,
            )
