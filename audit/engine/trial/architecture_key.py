"""What of a model stays the same while it is trained, as a key: models of equal keys compute alike, by code of libraries."""

import hashlib
import inspect
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from enum import Enum
from types import BuiltinFunctionType, FunctionType
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from audit.engine.trial.outside_state import digest

_NUMBERS = (bool, int, float, complex, str, bytes, type(None))
_CONTAINERS = (list, tuple, set, frozenset, dict, OrderedDict)
_LIBRARIES = ("torch", "audit")  # whose code reads nothing that changes between the jobs of a run
_DEPTH = 6  # of containers in containers; a model with deeper ones has no key


class _Incomparable(Exception):
    """A model holds code or a value with an effect that no key can state."""


def architecture_key(module: nn.Module, *contents: Mapping[str, Any] | None) -> Hashable | None:
    """Return classes, attributes, modes, shared tensors, and values that no training moves (buffers, frozen parameters).

    Initial values of trainable parameters are left out. Arrays or tensors of `contents`, by name, belong to the key as well.
    None if another model of the same key could compute something else: a user's code can read globals, class attributes and
    closures that change from one job to the next, and some attributes cannot be compared by content.
    """
    try:
        layers = list(module.named_modules(remove_duplicate=False))
        names = ("forward", "__call__")
        codes = [
            (_code_key(type(layer)), *(_code_key(inspect.getattr_static(layer, name)) for name in names)) for _, layer in layers
        ]
        contents_keys = [None if values is None else _key(dict(values), _DEPTH) for values in contents]
        return (*codes, *_layer_keys(layers), *contents_keys)
    except _Incomparable:
        return None


def _layer_keys(layers: Sequence[tuple[str, nn.Module]]) -> Iterator[Hashable]:
    places: dict[int, int] = {}
    for path, layer in layers:
        tensors = [
            (name, None if value is None else (places.setdefault(id(value), len(places)), _tensor_key(value)))
            for values in (layer._parameters, layer._buffers)
            for name, value in values.items()
        ]
        attributes = {name: value for name, value in vars(layer).items() if name not in ("_parameters", "_buffers", "_modules")}
        yield path, places.setdefault(id(layer), len(places)), tuple(tensors), _key(attributes, _DEPTH)


def _tensor_key(value: Tensor) -> Hashable:
    is_dense = value.layout is torch.strided and not (value.is_nested or value.is_quantized)
    if isinstance(value, UninitializedParameter) or value.is_meta or not is_dense:
        raise _Incomparable
    form = (tuple(value.shape), value.dtype, value.device, value.requires_grad)
    return form if isinstance(value, nn.Parameter) and value.requires_grad else (*form, digest(value))


def _code_key(code: Any) -> Hashable:
    """Return the class or function itself if a library known here defines it."""
    if not _is_library_code(code, _DEPTH):
        raise _Incomparable
    return cast("Hashable", code)


def _is_library_code(code: Any, depth: int) -> bool:
    """True if a library defines it, and all functions that it closes over: a wrapper may bear another function's name."""
    names = [getattr(code, "__module__", "")]
    functions: list[Any] = []
    if isinstance(code, FunctionType):
        names.append(code.__globals__.get("__name__", ""))
        try:
            cells = [cell.cell_contents for cell in code.__closure__ or ()]
        except ValueError:  # a cell that nothing was put into yet
            return False
        functions = [cell for cell in cells if isinstance(cell, type | FunctionType | BuiltinFunctionType)]
    if any(str(name).partition(".")[0] not in _LIBRARIES for name in names):
        return False
    return depth > 0 and all(_is_library_code(function, depth - 1) for function in functions)


def _key(value: object, depth: int) -> Hashable:
    if isinstance(value, Enum | torch.dtype | torch.device) or type(value) in _NUMBERS:
        return type(value), value
    if type(value) in _CONTAINERS and depth > 0:
        return type(value), _contents(value, depth - 1)
    if isinstance(value, Tensor) and type(value) in (Tensor, nn.Parameter):
        return _tensor_key(value)
    if isinstance(value, np.ndarray) and type(value) is np.ndarray and not value.dtype.hasobject:
        return value.shape, value.dtype, hashlib.blake2b(value.tobytes()).digest()
    if isinstance(value, type | FunctionType | BuiltinFunctionType):
        return _code_key(value)
    raise _Incomparable


def _contents(container: Any, depth: int) -> Hashable:
    if isinstance(container, dict):
        return tuple((_key(name, depth), _key(item, depth)) for name, item in container.items())
    keys = [_key(item, depth) for item in container]
    return frozenset(keys) if isinstance(container, set | frozenset) else tuple(keys)
