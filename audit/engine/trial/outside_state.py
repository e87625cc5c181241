"""What a module holds outside its parameters and buffers, as values by path: all that an exchange of weights leaves."""

import enum
import functools
import hashlib
import sys
import types
from collections.abc import Hashable, Iterable, Mapping, Set
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, fx, nn

State = Mapping[str, Hashable]
_PLAIN = (bool, int, str, bytes, type(None), torch.dtype, torch.device, torch.Size, torch.layout, torch.memory_format)
_TABLES = ("_parameters", "_buffers", "_modules")
_LIBRARIES = frozenset({"torch", "numpy", "audit", *sys.stdlib_module_names})
_VALUE_LIMIT = 200_000  # values of one module; what is beyond is left to the comparison of outputs
_ROUTINES = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType)
_METHODS = (type, types.FunctionType, classmethod, staticmethod, property, *_ROUTINES)


def outside_state(module: nn.Module) -> State:
    """Return the classes, modes, layout and attributes of `module`, by path: equal for models that differ in weights alone.

    Attributes are followed into containers, objects, closures, partial functions and hooks; tensors and arrays are taken by
    their digest, parameters and buffers by their names. Mutable values of a user's own classes belong to it as well.
    """
    return _Walk(module).values


def trainable_paths(state: State) -> list[str]:
    """Return the paths of tensors that ask for a gradient and are no parameters, so that no optimiser moves them."""
    return [path for path, value in state.items() if isinstance(value, _TensorForm) and value.requires_grad]


class _TensorForm(NamedTuple):
    """A tensor's form, and the digest of its numbers, if they can be read."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    device: str
    requires_grad: bool
    kind: str
    digest: bytes | None = None


class _Walk:
    def __init__(self, module: nn.Module) -> None:
        self.values: dict[str, Hashable] = {}
        self._paths: dict[int, str] = {}
        self._alive: list[object] = []  # so that no address is given to a second object during the walk
        for kind, table in (("parameter", module.named_parameters()), ("buffer", module.named_buffers())):
            self._paths |= {id(value): f"{kind} {name}" for name, value in table}
        self._add("", module)

    def _add(self, path: str, value: Any) -> None:
        if len(self.values) >= _VALUE_LIMIT:
            return
        if type(value) in _PLAIN or isinstance(value, enum.Enum):
            self.values[path] = (type(value), value)
        elif isinstance(value, float | complex):
            self.values[path] = (type(value), repr(value))  # NaN equals itself
        elif id(value) in self._paths:
            self.values[path] = ("the same as", self._paths[id(value)])
        else:
            self._paths[id(value)] = path
            self._alive.append(value)
            self._add_object(path, value)

    def _add_object(self, path: str, value: Any) -> None:
        if isinstance(value, Tensor):
            self.values[path] = _tensor_digest(value)
        elif isinstance(value, np.ndarray | np.generic):
            self._add_array(path, np.asarray(value))
        elif isinstance(value, torch.Generator):
            self.values[path] = _tensor_digest(value.get_state())
        elif isinstance(value, nn.Module):
            self._add_module(path, value)
        elif isinstance(value, Mapping):
            self._add_items(path, value)
        elif isinstance(value, Set):
            self.values[path] = (type(value).__name__, len(value), *sorted(map(repr, value)))
        elif isinstance(value, list | tuple):
            self._add_sequence(path, value)
        elif isinstance(value, type):
            self._add_class(path, value)
        elif isinstance(value, types.FunctionType):
            self._add_function(path, value)
        elif isinstance(value, (types.ModuleType, types.CodeType, fx.Graph, *_ROUTINES)):
            self._add_code(path, value)
        else:
            self._add_parts(path, value)

    def _add_module(self, path: str, layer: nn.Module) -> None:
        self._add(f"{path}.(class)", type(layer))
        prefix = f"{path}." if path else ""
        for name, parameter in layer._parameters.items():
            form = None if parameter is None else (tuple(parameter.shape), parameter.dtype, parameter.requires_grad)
            self.values[f"{prefix}{name}"] = (
                self._paths.get(id(parameter), "parameter"),
                form,
            )  # a shared one by its first name
        for name, buffer in layer._buffers.items():
            self.values[f"{prefix}{name}"] = ("buffer", None if buffer is None else (tuple(buffer.shape), buffer.dtype))
        for name, value in vars(layer).items():
            if name not in _TABLES and not (isinstance(value, Mapping) and not value):
                has_numbers = name.endswith("_hooks") and isinstance(value, Mapping)  # by numbers that no two hooks share
                self._add(f"{prefix}{name}", list(value.values()) if has_numbers else value)
        for name, child in layer._modules.items():
            self._add(f"{prefix}{name}", child)

    def _add_items(self, path: str, items: Mapping[Any, Any]) -> None:
        self.values[path] = (type(items).__name__, len(items))
        for place, (key, value) in enumerate(items.items()):
            name = repr(key) if type(key) in _PLAIN else f"({place})"
            self._add(f"{path}[{name}]", value)

    def _add_sequence(self, path: str, values: Iterable[Any]) -> None:
        items = list(values)
        self.values[path] = (type(values).__name__, len(items))
        for place, value in enumerate(items):
            self._add(f"{path}[{place}]", value)

    def _add_array(self, path: str, value: Any) -> None:
        if value.dtype.hasobject:
            self._add_sequence(path, value.ravel().tolist())
            return
        digest = hashlib.blake2b(np.ascontiguousarray(value).tobytes()).digest()
        self.values[path] = ("array", value.shape, str(value.dtype), digest)

    def _add_class(self, path: str, kind: type) -> None:
        """A class that its file defines by its name and its mutable values; one made by a function by all that it holds."""
        self.values[path] = ("class", kind.__module__, kind.__qualname__)
        if kind.__module__.partition(".")[0] in _LIBRARIES:
            return
        is_static = _definition(kind.__module__, kind.__qualname__) is kind
        for name, value in vars(kind).items():
            is_code = isinstance(value, _METHODS)
            if not name.startswith("__") and not (is_static and is_code):
                self._add(f"{path}.{name}", getattr(value, "__func__", value))
        for parent in kind.__bases__:
            self._add(f"{path}.(class {parent.__name__})", parent)

    def _add_function(self, path: str, function: types.FunctionType) -> None:
        if function.__module__ and _definition(function.__module__, function.__qualname__) is function:
            self.values[path] = ("function", function.__module__, function.__qualname__)
            return
        self._add_code(path, function.__code__)
        self._add(f"{path}.(defaults)", (function.__defaults__, function.__kwdefaults__))
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                contents = cell.cell_contents
            except ValueError:  # a cell that nothing was put into yet
                contents = None
            self._add(f"{path}.{name}", contents)
        for name, value in vars(function).items():
            self._add(f"{path}.{name}", value)

    def _add_code(self, path: str, value: Any) -> None:
        if isinstance(value, types.CodeType):
            constants = [constant for constant in value.co_consts if not isinstance(constant, types.CodeType)]
            self.values[path] = ("code", value.co_code, value.co_names, repr(constants))
            for place, constant in enumerate(c for c in value.co_consts if isinstance(c, types.CodeType)):
                self._add_code(f"{path}.(code {place})", constant)
        elif isinstance(value, fx.Graph):
            self.values[path] = ("graph", str(value))
        else:
            self.values[path] = (type(value).__name__, getattr(value, "__qualname__", getattr(value, "__name__", "")))
            owner = getattr(value, "__self__", None)
            if owner is not None and not isinstance(owner, types.ModuleType):
                self._add(f"{path}.(owner)", owner)

    def _add_parts(self, path: str, value: Any) -> None:
        """Whatever else there is: a method, a partial function, an object by its attributes, or by what a copy is made of."""
        if isinstance(value, types.MethodType):
            self._add(path, value.__func__)
            self._add(f"{path}.(owner)", value.__self__)
            return
        if isinstance(value, functools.partial):
            self._add_sequence(path, (value.func, value.args, value.keywords))
            return
        kind = type(value)
        self._add(f"{path}.(class)", kind)
        names = [name for part in kind.__mro__ for name in _slots(part)]
        attributes = {name: getattr(value, name) for name in names if hasattr(value, name)} | dict(
            getattr(value, "__dict__", {})
        )
        if attributes or hasattr(value, "__dict__"):
            for name, part in attributes.items():
                self._add(f"{path}.{name}", part)
            return
        try:
            parts = value.__reduce_ex__(4)
        except Exception as error:  # noqa: BLE001 - code of any class: what cannot be copied has no parts to compare
            self.values[path] = ("not copied", type(error).__name__)
            return
        self._add_sequence(path, parts if isinstance(parts, tuple) else (parts,))


def _slots(kind: type) -> list[str]:
    slots = vars(kind).get("__slots__", ())
    return [name for name in ([slots] if isinstance(slots, str) else slots) if name not in ("__dict__", "__weakref__")]


def _definition(module: str, name: str) -> object:
    """Return what a loaded module holds under a dotted name; None if it holds nothing there."""
    place: Any = sys.modules.get(module)
    for part in name.split("."):
        place = getattr(place, part, None)
    return place


def digest(value: Tensor) -> bytes:
    """Return the hash of a dense tensor's numbers."""
    flat = value.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
    return hashlib.blake2b(flat.view(torch.uint8).numpy().data).digest()


def _tensor_digest(value: Tensor) -> Hashable:
    form = _TensorForm(tuple(value.shape), value.dtype, value.device.type, value.requires_grad, type(value).__name__)
    try:
        return form._replace(digest=digest(value if value.layout is torch.strided else value.to_dense()))
    except (RuntimeError, TypeError, NotImplementedError):  # of no numbers that can be read: meta, quantised, nested
        return form
