"""Which device torch will compute on."""

from __future__ import annotations

import os

import torch

from audit.core.errors import ConfigError


def check(device: str) -> torch.device:
    """The torch device of that name.

    Raises:
        ConfigError: it is not one torch knows, or CUDA is asked for and absent.
    """
    try:
        found = torch.device(device)
    except RuntimeError as error:
        raise ConfigError(f"device '{device}' is not known to torch; expected 'cpu' or 'cuda'") from error
    if found.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"device '{device}' is asked for but this machine has no usable CUDA device; set device: cpu")
    if found.type not in ("cpu", "cuda"):
        raise ConfigError(f"device '{device}' is not supported; expected 'cpu' or 'cuda'")
    return found


def describe(device: str) -> tuple[str, int]:
    """The device in words, and the number of CPU threads torch uses."""
    found = check(device)
    name = torch.cuda.get_device_name(found) if found.type == "cuda" else f"cpu ({os.cpu_count()} cores)"
    return name, torch.get_num_threads()


def survey() -> list[tuple[str, str, bool, bool]]:
    """Rows for `audit doctor`: what, finding, works, needed."""
    value = float((torch.ones(8, 8) @ torch.ones(8, 8)).sum())
    rows = [("cpu", f"{os.cpu_count()} cores, {torch.get_num_threads()} threads", value == 512.0, True)]
    if not torch.cuda.is_available():
        return [*rows, ("cuda", "no usable device", False, False)]
    names = ", ".join(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))
    value = float((torch.ones(8, 8, device="cuda") @ torch.ones(8, 8, device="cuda")).sum())
    return [*rows, ("cuda", names, value == 512.0, False)]
