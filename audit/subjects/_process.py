"""A model of somebody else in a process of its own, with limits on time and memory: see `audit.subjects._worker`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

import numpy as np
import torch

from audit.core import errors
from audit.core.errors import ConfigError, DataError
from audit.engine.device import find_device
from audit.subjects import _frames
from audit.subjects._loading import Load, place_of

SECONDS = 120.0
MEMORY_GIB = 16.0
_MOST_OUTPUT = 2**34


class ModelProcess:
    """One process for one model, from its loading to the end of the audit.

    Args:
        load: the function that loads the file in the process, which imports it.
        content: of the file, as it was vetted.
        name: of the file, for messages.
        device: that the model runs on.
        seconds: for loading, and for each batch.
        memory_gib: that loading and running may take besides what torch takes; enforced on the CPU under Linux.

    Raises:
        DataError: the model cannot be loaded, or not within the limits.
    """

    def __init__(self, load: Load, content: bytes, name: str, *, device: str, seconds: float, memory_gib: float) -> None:
        for limit, value in (("seconds", seconds), ("memory_gib", memory_gib)):
            if not 0 < value < float("inf"):
                raise ConfigError(f"{limit} is {value}; expected a positive number")
        find_device(device)
        self.name, self.seconds, self.memory_gib = name, seconds, memory_gib
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (open as long as the process)
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-m", "audit.subjects._worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=_environment(),
        )
        self._requests = cast("BinaryIO", self._child.stdin)
        self._replies = cast("BinaryIO", self._child.stdout)
        weakref.finalize(self, _end, self._child, self._stderr)
        memory = int(memory_gib * 2**30)
        header = {"load": place_of(load), "name": name, "device": device, "memory": memory, "threads": torch.get_num_threads()}
        reply, _ = self._ask(header, content, "be loaded", seconds + len(content) / 2**25)
        self.limits: tuple[str, ...] = tuple(reply["enforced"])

    def __call__(self, batch: torch.Tensor) -> torch.Tensor:
        """The outputs `(n, classes)` of the model for one batch.

        Raises:
            RuntimeError: the model failed on the batch.
            DataError: it returned something else, or did not end within the limits.
        """
        array = np.ascontiguousarray(batch.numpy())
        header = {"shape": list(array.shape), "dtype": str(batch.dtype).removeprefix("torch.")}
        reply, body = self._ask(header, array.data.cast("B"), f"answer a batch of {len(batch)} records", self.seconds)
        shape = tuple(int(size) for size in reply["shape"])
        if len(body) != 4 * int(np.prod(shape)):
            raise DataError(f"{self.name}: its process gave {len(body)} bytes for outputs of shape {shape}")
        return torch.from_numpy(np.frombuffer(body, np.float32).reshape(shape))

    def _ask(
        self, header: Mapping[str, Any], body: bytes | memoryview, action: str, seconds: float
    ) -> tuple[dict[str, Any], bytearray]:
        with self._deadline(seconds) as late:
            try:
                _frames.send(self._requests, header, body)
                reply = _frames.receive(self._replies, _MOST_OUTPUT)
            except (BrokenPipeError, ValueError):
                self._child.kill()  # it may wait for somebody to read the rest of what it says
                reply = None
        if reply is None:
            raise DataError(self._end_message(action, seconds, late.is_set()))
        if "error" not in reply[0]:
            return reply
        if reply[0].get("kind") == "call":
            raise RuntimeError(str(reply[0]["error"]))
        raise getattr(errors, str(reply[0].get("kind")), DataError)(str(reply[0]["error"]))

    @contextmanager
    def _deadline(self, seconds: float) -> Iterator[threading.Event]:
        """A scope after whose time the process is killed, which ends every wait for it."""
        late = threading.Event()

        def kill() -> None:
            late.set()
            self._child.kill()

        timer = threading.Timer(seconds, kill)
        timer.daemon = True
        timer.start()
        try:
            yield late
        finally:
            timer.cancel()

    def _end_message(self, action: str, seconds: float, late: bool) -> str:
        if late:
            return (
                f"{self.name} could not {action} within {seconds:g} seconds; its process was ended. Allow more time "
                "(--batch-seconds) or give fewer records at once (--batch-size), if you trust the model"
            )
        code = self._child.wait()
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        reason = f"signal {-code}" if code < 0 else lines[-1] if lines else f"exit code {code}"
        return (
            f"{self.name} could not {action}: its process ended ({reason}); it may need more than {self.memory_gib:g} GiB "
            "(--memory-gib), or its file is damaged"
        )


def _environment() -> dict[str, str]:
    """The parent's, with its import path, so that the same code runs; and few memory arenas, since those count as used."""
    import os

    path = os.pathsep.join(entry for entry in sys.path if entry)
    return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "MALLOC_ARENA_MAX": "4"}


def _end(child: subprocess.Popen[bytes], stderr: Any) -> None:
    child.kill()
    for stream in (child.stdin, child.stdout, stderr):
        if stream is not None:
            try:
                stream.close()
            except BrokenPipeError:
                continue  # it died with a request half written
    child.wait()
