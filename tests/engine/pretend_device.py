"""A pretended GPU: torch's device without data represents it, and every operation that mixes it with the CPU raises.

A machine without a GPU can so run the whole device path and see tensors that were left behind on the CPU, which the CPU
itself never shows. What a kernel computes is not tested: there are no numbers, and if code asks for one it is made up.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from audit.engine import device
from audit.engine.trial import clip_check

PRETENDED = torch.device("meta")
_aten = torch.ops.aten
_CARRIES = (_aten._to_copy.default, _aten.copy_.default)
_ALIKE = (_aten.equal.default, _aten.allclose.default)
# a number of the CPU as an argument of the launch; elsewhere (`if`) torch copies it to a GPU, and waits
_ARITHMETIC = frozenset(("add", "sub", "mul", "div", "add_", "sub_", "mul_", "div_", "eq", "ne", "lt", "le", "gt", "ge"))


class MixedDevicesError(Exception):
    """An operation got tensors of the CPU and of the pretended device."""


class _Strict(TorchDispatchMode):
    """Refuses operations over both devices and makes up what no device without data can give."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        provided = dict(kwargs or {})
        tensors = [item for item in tree_flatten((args, provided))[0] if isinstance(item, Tensor)]
        away = [item.device == PRETENDED for item in tensors]
        if func in _CARRIES:
            return _carried(func, args, provided)
        is_arithmetic = func.overloadpacket.__name__ in _ARITHMETIC
        if any(away) and not all(
            there or (is_arithmetic and item.dim() == 0) for there, item in zip(away, tensors, strict=True)
        ):
            raise MixedDevicesError(f"{func} got tensors of {', '.join(str(item.device) for item in tensors)}")
        if not any(away):
            return func(*args, **provided)
        if func in _ALIKE:
            return True
        if func is _aten._local_scalar_dense.default:
            return torch.ones((), dtype=tensors[0].dtype).item()
        if func is _aten.nonzero.default:
            return tensors[0].new_zeros(tensors[0].shape[0], tensors[0].dim(), dtype=torch.int64)
        return func(*args, **provided)


def _carried(func: Any, args: Sequence[Any], provided: Mapping[str, Any]) -> Any:
    """A copy within a device or between two; what comes back from the pretended one is zeros."""
    if func is _aten.copy_.default:
        target, source = args[0], args[1]
        return target.zero_() if source.device == PRETENDED != target.device else func(*args, **provided)
    source, wanted = args[0], provided.get("device")
    if source.device == PRETENDED and wanted is not None and torch.device(wanted) != PRETENDED:
        return torch.zeros(source.shape, dtype=provided.get("dtype") or source.dtype)
    return func(*args, **provided)


@contextmanager
def pretended() -> Iterator[None]:
    """Inside, every device that our code is asked to use is the pretended one."""
    real = device.find_device
    modules = [item for name, item in list(sys.modules.items()) if name.startswith("audit.")]
    patched = [mock.patch.object(item, "find_device", _found) for item in modules if vars(item).get("find_device") is real]
    memory = mock.patch.object(torch.cuda, "mem_get_info", lambda _: (70 << 30, 80 << 30))
    numbers = mock.patch.object(clip_check, "RECOMPUTATION_LIMIT", math.inf)  # there are none to compare
    streams = mock.patch.object(torch, "Generator", _Generator)
    for item in (*patched, memory, numbers, streams):
        item.start()
    try:
        with _Strict():
            yield
    finally:
        for item in (*patched, memory, numbers, streams):
            item.stop()


def _found(name: str) -> torch.device:
    return PRETENDED


_REAL_GENERATOR: Callable[[], torch.Generator] = torch.Generator


class _Generator:
    """The CPU's generator under the name of any device."""

    def __new__(cls, device: object = None) -> torch.Generator:  # type: ignore[misc]
        return _REAL_GENERATOR()
