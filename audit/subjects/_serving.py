"""What runs a model inside the confined process: it is loaded once and answers batches."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from audit.core.confined.worker import MOST_REASON, Answer, Message, failure
from audit.core.errors import DataError
from audit.engine.device import find_device
from audit.engine.read.inference import CALL_ERRORS, read_logits
from audit.subjects import _loading


def prepare(header: Mapping[str, Any]) -> None:
    """Import the function that loads, and start threads and libraries, before memory is limited."""
    torch.set_num_threads(header["threads"])
    device = find_device(header["device"])
    torch.ones(64, 64, device=device).mm(torch.ones(64, 64, device=device))
    _loading.loader(header["load"])


def serve_model(header: Mapping[str, Any], content: bytes) -> tuple[Message, Answer]:
    """Load the model, and return what answers its batches."""
    model = _loading.loader(header["load"])(content, header["name"], find_device(header["device"]))

    def answer(request: Mapping[str, Any], body: bytearray) -> Message:
        return _outputs(model, request, body)

    return (dict(getattr(model, "facts", {})), b""), answer


def _outputs(model: Callable[[Any], Any], header: Mapping[str, Any], body: bytearray) -> Message:
    piece = torch.frombuffer(body, dtype=getattr(torch, header["dtype"])).reshape(header["shape"])
    try:
        with torch.inference_mode():
            logits = read_logits(model(piece)).float().cpu().contiguous()
    except DataError as error:
        return failure(error), b""
    except CALL_ERRORS as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        reason = lines[-1] if "TorchScript interpreter" in lines[0] else lines[0]
        return {"error": reason[:MOST_REASON], "kind": "call"}, b""
    return {"shape": list(logits.shape)}, logits.numpy().tobytes()
