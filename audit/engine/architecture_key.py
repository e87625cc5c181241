"""What of a model stays the same while it is trained, as a key: models of equal keys compute alike, by code of libraries."""

from __future__ import annotations

import hashlib
import inspect
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from enum import Enum
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from audit.engine.losses import USUAL, RecordLoss

_NUMBERS = (bool, int, float, complex, str, bytes, type(None))
_CONTAINERS = (list, tuple, set, frozenset, dict, OrderedDict)
_LIBRARIES = ("torch", "audit")  # whose code reads nothing that changes between the jobs of a run
_DEPTH = 6  # of containers in containers; deeper ones are told apart by what they are, not by what they hold


class Itself:
    """A value that equals nothing but the same object, which is kept so that its address is not used again.

    That of a new object agrees with nothing.
    """

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Itself) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def architecture_key(module: nn.Module) -> Hashable:
    """Return classes, attributes, modes, shared tensors, and values that no training moves (buffers, frozen parameters).

    Initial values of trainable parameters are left out. Code of a user's own can read globals, class attributes and closures
    that change from one job to the next, so that no two keys with some of it agree, not even two of the same model; nor do keys
    with an attribute that cannot be compared by what it holds.
    """
    places: dict[int, int] = {}
    layers = []
    for path, layer in module.named_modules(remove_duplicate=False):
        tensors = [
            (name, None if value is None else (places.setdefault(id(value), len(places)), _tensor_key(value)))
            for values in (layer._parameters, layer._buffers)
            for name, value in values.items()
        ]
        attributes = {name: value for name, value in vars(layer).items() if name not in ("_parameters", "_buffers", "_modules")}
        place = places.setdefault(id(layer), len(places))
        code = (_code_key(type(layer)), _code_key(inspect.getattr_static(layer, "forward")))
        layers.append((path, place, code, tuple(tensors), _key(attributes, _DEPTH)))
    return tuple(layers)


def loss_key(loss: RecordLoss) -> Hashable:
    """Return a key that agrees for the usual loss, and with nothing for a function of a user's own."""
    return Itself(USUAL if loss == USUAL else object())


def content_key(values: Mapping[str, Any] | None) -> Hashable:
    """A digest of arrays or tensors by name."""
    return None if values is None else _key(values, _DEPTH)


def _tensor_key(value: Tensor) -> Hashable:
    if isinstance(value, UninitializedParameter) or value.is_meta or value.layout is not torch.strided:
        return Itself(value)
    form = (tuple(value.shape), value.dtype, value.device, value.requires_grad)
    return form if isinstance(value, nn.Parameter) and value.requires_grad else (*form, _digest(value))


def _digest(value: Tensor) -> bytes:
    flat = value.detach().resolve_conj().cpu().contiguous().reshape(-1)
    return hashlib.blake2b(flat.view(torch.uint8).numpy().data).digest()


def _code_key(code: Any) -> Hashable:
    """Return the class or function itself where a library known here defines it, else what agrees with nothing."""
    known = str(getattr(code, "__module__", "")).partition(".")[0] in _LIBRARIES
    return Itself(code if known else object())


def _key(value: object, depth: int) -> Hashable:
    if isinstance(value, Enum | torch.dtype | torch.device) or type(value) in _NUMBERS:
        return type(value), value
    if type(value) in _CONTAINERS and depth > 0:
        return type(value), _contents(value, depth - 1)
    if isinstance(value, Tensor) and type(value) in (Tensor, nn.Parameter):
        return _tensor_key(value)
    if isinstance(value, np.ndarray) and type(value) is np.ndarray and not value.dtype.hasobject:
        return value.shape, value.dtype, hashlib.blake2b(np.ascontiguousarray(value).data).digest()
    return _code_key(value) if isinstance(value, type | FunctionType | BuiltinFunctionType) else Itself(object())


def _contents(container: Any, depth: int) -> Hashable:
    if isinstance(container, dict):
        return tuple((_key(name, depth), _key(item, depth)) for name, item in container.items())
    keys = [_key(item, depth) for item in container]
    return frozenset(keys) if isinstance(container, set | frozenset) else tuple(keys)
