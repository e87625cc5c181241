"""Which device torch will compute on, in which precision, and the memory that it keeps there."""

import ctypes
import functools
import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import torch

from audit.core.errors import ConfigError
from audit.engine.compile_c import compiler


def find_device(name: str) -> torch.device:
    """The torch device called `name`; `ConfigError` if torch does not know it, or the machine has no such CUDA device."""
    device: torch.device | None = None
    with suppress(RuntimeError):
        device = torch.device(name)
    if device is None or device.type not in ("cpu", "cuda"):
        raise ConfigError(f"device is {name!r}; expected 'cpu', 'cuda' or 'cuda:1'")
    if device.type == "cuda" and (not torch.cuda.is_available() or (device.index or 0) >= torch.cuda.device_count()):
        raise ConfigError(f"device is {name!r} but this machine has {torch.cuda.device_count()} CUDA devices; use device: cpu")
    return device


def on_device(values: torch.Tensor) -> bool:
    return values.device.type != "cpu"


@contextmanager
def switched(switches: Sequence[tuple[Any, str, object]]) -> Iterator[None]:
    """A scope in which attributes, such as torch's switches, have other values: object, name and value of each."""
    earlier = [getattr(place, name) for place, name, _ in switches]
    try:
        for place, name, value in switches:
            setattr(place, name, value)
        yield
    finally:
        for (place, name, _), value in zip(switches, earlier, strict=True):
            setattr(place, name, value)


@contextmanager
def one_precision(device: torch.device) -> Iterator[None]:
    """A scope in which a GPU convolves and multiplies in full single precision, by kernels that repeat their bits.

    torch lets cuDNN convolve in TF32 (10 bits) and multiplies matrices in float32. The norm of an example's gradient comes
    from products and its share of the sum from a convolution, so it would exceed the clip norm by TF32's rounding.
    """
    if device.type != "cuda":
        yield
        return
    cudnn: Any = torch.backends.cudnn  # whose parts torch makes when it is imported
    matmul = torch.backends.cuda.matmul
    switches: list[tuple[Any, str, object]] = [(matmul, "allow_tf32", False), (cudnn, "allow_tf32", False)]
    if hasattr(matmul, "fp32_precision"):  # from torch 2.9 on; once they were set, those by yes and no raise
        switches = [(place, "fp32_precision", "ieee") for place in (matmul, cudnn.conv, cudnn.rnn)]
    with switched([(cudnn, "enabled", True), (cudnn, "benchmark", False), (cudnn, "deterministic", True), *switches]):
        yield


def describe(device: str) -> tuple[str, int]:
    """The device in words, and the number of CPU threads torch uses."""
    torch_device = find_device(device)
    name = torch.cuda.get_device_name(torch_device) if torch_device.type == "cuda" else f"cpu ({os.cpu_count()} cores)"
    return name, torch.get_num_threads()


def survey() -> list[tuple[str, str, bool, bool]]:
    """Rows for `audit doctor`: what, finding, works, needed."""
    value = float((torch.ones(8, 8) @ torch.ones(8, 8)).sum())
    rows = [("cpu", f"{os.cpu_count()} cores, {torch.get_num_threads()} threads", value == 512.0, True)]
    command = compiler()
    compiler_text = "none; compile: on and auto leave all to torch" if command is None else shlex.join(command)
    rows.append(("C compiler", compiler_text, command is not None, False))
    if not torch.cuda.is_available():
        return [*rows, ("cuda", "no usable device", False, False)]
    names = ", ".join(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))
    value = float((torch.ones(8, 8, device="cuda") @ torch.ones(8, 8, device="cuda")).sum())
    return [*rows, ("cuda", names, value == 512.0, False)]


# of mallopt in glibc's malloc.h; the second is the largest value that it takes
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEPT_BYTES, _MAPPED_BYTES = 2**29, 2**25


@functools.cache
def keep_freed_memory() -> bool:
    """Let this process keep up to 512 MB that it frees; True if its allocator is glibc's and no variable of malloc says other.

    A step asks for the same sizes as the step before. By default glibc gives a few MB back to the system each time, which then
    clears every page again: a fifth of the time of a step of a small transformer (docs/evidence/speed.md).
    """
    if "CS_GNU_LIBC_VERSION" not in getattr(os, "confstr_names", {}):
        return False
    if any(name.startswith("MALLOC_") and name.endswith("THRESHOLD_") for name in os.environ):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _MAPPED_BYTES)) and bool(mallopt(_TRIM_THRESHOLD, _KEPT_BYTES))
