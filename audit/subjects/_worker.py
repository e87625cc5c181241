"""The process that runs a model of somebody else: `python -m audit.subjects._worker`, started by `audit.subjects._process`.

It gives up writing before it imports anything large, reads one model and then answers batches until its input ends. Nothing
that the model prints goes anywhere.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

from audit.subjects import _confinement, _frames

_MOST_REASON = 1000  # characters of what went wrong, some of which a model may choose


def main() -> None:
    """Confine this process, then serve."""
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    _leave_with(os.getppid())
    tempfile.tempdir = os.devnull  # libraries ask for the name of a folder, which they would look for by writing
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.dirname(__file__)  # torch makes its cache's folder; this one is there
    request = _frames.receive(requests)
    if request is None:
        return
    header, content = request
    devices = () if header["device"] == "cpu" else ("/dev/nvidia*", "/dev/null", "/dev/shm")
    limits = _confinement.confine(devices)
    serve(_Loader(header, bytes(content), limits), requests, replies)


def serve(load: Callable[[], tuple[Callable[[Any], Any], list[str]]], requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer the request to load, and then each batch, until the requests end."""
    from audit.core.errors import AuditError

    try:
        model, limits = load()
    except AuditError as error:
        _frames.send(replies, {"error": str(error)[:_MOST_REASON], "kind": type(error).__name__})
        return
    _frames.send(replies, {"enforced": limits})
    while (request := _frames.receive(requests)) is not None:
        _frames.send(replies, *_answer(model, *request))


class _Loader:
    """Reads the model once torch is imported and the memory limited."""

    def __init__(self, header: Mapping[str, Any], content: bytes, limits: list[str]) -> None:
        self.header, self.content, self.limits = header, content, limits

    def __call__(self) -> tuple[Callable[[Any], Any], list[str]]:
        import torch

        from audit.engine.device import find_device
        from audit.subjects import _loading

        torch.set_num_threads(self.header["threads"])
        device = find_device(self.header["device"])
        torch.ones(64, 64, device=device).mm(torch.ones(64, 64, device=device))  # threads and libraries before the limit
        if device.type == "cpu":
            self.limits += _confinement.limit_memory(self.header["memory"])
        _silence()
        return _loading.loader(self.header["load"])(self.content, self.header["name"], device), self.limits


def _answer(model: Callable[[Any], Any], header: Mapping[str, Any], body: bytearray) -> tuple[dict[str, Any], bytes]:
    import torch

    from audit.core.errors import DataError
    from audit.engine.read.inference import CALL_ERRORS, logits_of

    piece = torch.frombuffer(body, dtype=getattr(torch, header["dtype"])).reshape(header["shape"])
    try:
        with torch.inference_mode():
            logits = logits_of(model(piece)).float().cpu().contiguous()
    except DataError as error:
        return {"error": str(error)[:_MOST_REASON], "kind": "DataError"}, b""
    except CALL_ERRORS as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        reason = lines[-1] if "TorchScript interpreter" in lines[0] else lines[0]
        return {"error": reason[:_MOST_REASON], "kind": "call"}, b""
    return {"shape": list(logits.shape)}, logits.numpy().tobytes()


def _silence() -> None:
    """Let nothing that is printed from now on reach a terminal or a pipe; what Python buffers is dropped too."""
    nowhere = os.open(os.devnull, os.O_RDONLY)
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
    """End this process when its parent is gone, whatever the model is doing."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    main()
