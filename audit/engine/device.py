"""Which device torch will compute on."""

from __future__ import annotations

import os
import shlex

import torch

from audit.core.errors import ConfigError
from audit.engine.compile_c import compiler


def find_device(name: str) -> torch.device:
    """The torch device called `name`.

    Raises:
        ConfigError: torch does not know it, or the machine has no such CUDA device.
    """
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"device is {name!r}; expected 'cpu', 'cuda' or 'cuda:1'") from error
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"device is {name!r}; expected 'cpu', 'cuda' or 'cuda:1'")
    if device.type == "cuda" and (not torch.cuda.is_available() or (device.index or 0) >= torch.cuda.device_count()):
        raise ConfigError(f"device is {name!r} but this machine has {torch.cuda.device_count()} CUDA devices; use device: cpu")
    return device


def describe(device: str) -> tuple[str, int]:
    """The device in words, and the number of CPU threads torch uses."""
    found = find_device(device)
    name = torch.cuda.get_device_name(found) if found.type == "cuda" else f"cpu ({os.cpu_count()} cores)"
    return name, torch.get_num_threads()


def survey() -> list[tuple[str, str, bool, bool]]:
    """Rows for `audit doctor`: what, finding, works, needed."""
    value = float((torch.ones(8, 8) @ torch.ones(8, 8)).sum())
    rows = [("cpu", f"{os.cpu_count()} cores, {torch.get_num_threads()} threads", value == 512.0, True)]
    command = compiler()
    found = "none; compile: on and auto leave all to torch" if command is None else shlex.join(command)
    rows.append(("C compiler", found, command is not None, False))
    if not torch.cuda.is_available():
        return [*rows, ("cuda", "no usable device", False, False)]
    names = ", ".join(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))
    value = float((torch.ones(8, 8, device="cuda") @ torch.ones(8, 8, device="cuda")).sum())
    return [*rows, ("cuda", names, value == 512.0, False)]
