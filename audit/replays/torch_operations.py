"""What torch's operations do to noise: their linear forms on noisy arrays, by the name of the operation.

A rule takes the arguments by name and returns the noisy array of the result, or None if the operation is not linear there:
the noisy numbers are then released. Arithmetic is numpy's on noisy arrays, in double precision.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from audit.replays.noisy import NoisyArray, lift

Arguments = dict[str, Any]
NORMALS = frozenset(("normal", "randn", "randn_like", "normal_functional"))
COINS = frozenset(
    """rand rand_like uniform bernoulli randperm randint randint_like random multinomial geometric cauchy log_normal
    poisson binomial native_dropout""".split()  # noqa: SIM905
)
NOT_READ = frozenset(
    """empty_like zeros_like ones_like full_like new_empty new_zeros new_full new_ones empty empty_strided new_empty_strided
    zeros ones full arange set resize record_stream detach alias lift_fresh is_same_size""".split()  # noqa: SIM905
)
_LARGEST_SUM = 4_000_000  # draws times entries of a dense result


def _is_tensor(item: Any) -> bool:
    return isinstance(item, NoisyArray)


def _factor(*items: Any) -> bool:
    """True if exactly one of the factors is noisy, and none is lost."""
    return sum(map(_is_tensor, items)) == 1 and all(item is not None for item in items)


def _add(a: Arguments, sign: float = 1.0) -> Any:
    if a["self"] is None or a["other"] is None:
        return None
    alpha = a.get("alpha", 1)
    summand = a["other"] if alpha == 1 else a["other"] * float(alpha)
    return a["self"] + summand if sign > 0 else a["self"] - summand


def _mul(a: Arguments) -> Any:
    return a["self"] * a["other"] if _factor(a["self"], a["other"]) else None


def _div(a: Arguments) -> Any:
    if a.get("rounding_mode") is not None or not _is_tensor(a["self"]) or _is_tensor(a["other"]) or a["other"] is None:
        return None
    return a["self"] / a["other"]


def _lerp(a: Arguments) -> Any:
    weight = a["weight"]
    if _is_tensor(weight) or any(a[key] is None for key in ("self", "end", "weight")):
        return None
    return a["self"] * (1.0 - weight) + a["end"] * weight if _is_tensor(a["self"]) or _is_tensor(a["end"]) else None


def _addcmul(a: Arguments) -> Any:
    first, second = a["tensor1"], a["tensor2"]
    if (_is_tensor(first) and _is_tensor(second)) or any(a[key] is None for key in ("self", "tensor1", "tensor2")):
        return None
    return a["self"] + first * second * float(a.get("value", 1))


def _addcdiv(a: Arguments) -> Any:
    if _is_tensor(a["tensor2"]) or any(a[key] is None for key in ("self", "tensor1", "tensor2")):
        return None
    return a["self"] + a["tensor1"] / a["tensor2"] * float(a.get("value", 1))


def _keep(a: Arguments) -> Any:
    return a["self"]


def _to_copy(a: Arguments) -> Any:
    dtype = a.get("dtype")
    return a["self"] if dtype is None or dtype.is_floating_point else None


def _overwrite(a: Arguments) -> Any:
    """Return what is copied; the target's own noise goes."""
    source = a["src"]
    return source if _is_tensor(source) else None


def _reduce(a: Arguments, mean: bool = False) -> Any:
    array = a["self"]
    if not _is_tensor(array) or array.size * array.weight.shape[-1] > _LARGEST_SUM:
        return None
    axis = a.get("dim")
    axis = None if axis is None or axis == [] else tuple(axis) if isinstance(axis, list) else axis
    return (np.mean if mean else np.sum)(array, axis=axis, keepdims=bool(a.get("keepdim", False)))


def _matmul(first: Any, second: Any) -> Any:
    """Return a product with noise alone; numbers that are data and noise are released before it, which only reveals more."""
    if not _factor(first, second):
        return None
    noisy = first if _is_tensor(first) else second
    if noisy.value.any() or noisy.size * first.shape[0] > _LARGEST_SUM:
        return None
    return np.matmul(first, second)


def _rearrange(function: Callable[..., Any]) -> Callable[[Arguments], Any]:
    return lambda a: function(a) if _is_tensor(a["self"]) else None


def _index(a: Arguments) -> Any:
    keys = a["indices"]
    if not _is_tensor(a["self"]) or any(_is_tensor(key) for key in keys) or any(key is None for key in keys):
        return None
    return a["self"][tuple(keys)]


def _put(a: Arguments) -> Any:
    """Return an array with other entries at some places; they may be added to those that are there."""
    keys, entries = a["indices"], a["values"]
    if any(key is None or _is_tensor(key) for key in keys) or a["self"] is None or entries is None:
        return None
    old = a["self"] if _is_tensor(a["self"]) else lift(entries.recording, a["self"])
    if a.get("accumulate"):
        return None
    new = old.__copy__()
    new[tuple(keys)] = entries
    return new


def _choose(a: Arguments) -> Any:
    if _is_tensor(a["condition"]) or any(a[key] is None for key in ("condition", "self", "other")):
        return None
    return np.where(a["condition"].astype(bool), a["self"], a["other"])


def _masked_fill(a: Arguments) -> Any:
    if _is_tensor(a["mask"]) or not _is_tensor(a["self"]) or _is_tensor(a["value"]):
        return None
    return np.where(a["mask"].astype(bool), a["value"], a["self"])


def _join(function: Callable[..., Any]) -> Callable[[Arguments], Any]:
    def join(a: Arguments) -> Any:
        parts = [part for part in a["tensors"] if part is None or function is np.stack or part.shape != (0,)]
        return None if any(part is None for part in parts) else function(parts, axis=a.get("dim", 0))

    return join


def _roll(a: Arguments) -> Any:
    axis = a.get("dims") or None
    shift = a["shifts"]
    return np.roll(a["self"], shift[0] if len(shift) == 1 else shift, axis=axis[0] if axis and len(axis) == 1 else axis)


LINEAR: dict[str, Callable[[Arguments], Any]] = {
    "add": _add,
    "sub": lambda a: _add(a, -1.0),
    "rsub": lambda a: None if a["other"] is None or a["self"] is None else a["other"] - a["self"] * float(a.get("alpha", 1)),
    "mul": _mul,
    "div": _div,
    "neg": lambda a: None if a["self"] is None else -a["self"],
    "positive": _keep,
    "clone": _keep,
    "contiguous": _keep,
    "_to_copy": _to_copy,
    "copy": _overwrite,
    "lerp": _lerp,
    "addcmul": _addcmul,
    "addcdiv": _addcdiv,
    "sum": _reduce,
    "mean": lambda a: _reduce(a, mean=True),
    "cumsum": lambda a: np.cumsum(a["self"], axis=a["dim"]) if _is_tensor(a["self"]) else None,
    "mm": lambda a: _matmul(a["self"], a["mat2"]),
    "bmm": lambda a: _matmul(a["self"], a["mat2"]),
    "mv": lambda a: _matmul(a["self"], a["vec"]),
    "dot": lambda a: _matmul(a["self"], a["tensor"]),
    "cat": _join(np.concatenate),
    "stack": _join(np.stack),
    "index": _index,
    "index_put": _put,
    "index_select": lambda a: (
        np.take(a["self"], a["index"], axis=a["dim"]) if _is_tensor(a["self"]) and not _is_tensor(a["index"]) else None
    ),
    "roll": _rearrange(_roll),
    "flip": _rearrange(lambda a: np.flip(a["self"], axis=tuple(a["dims"]))),
    "repeat": _rearrange(lambda a: np.tile(a["self"], tuple(a["repeats"]))),
    "where": _choose,
    "masked_fill": _masked_fill,
}


def _compare(function: Callable[..., Any]) -> Callable[[Arguments], Any]:
    return lambda a: None if a["self"] is None or a["other"] is None else function(a["self"], a["other"])


def _largest(function: Callable[..., Any]) -> Callable[[Arguments], Any]:
    def choose(a: Arguments) -> Any:
        if not _is_tensor(a["self"]) or a.get("keepdim"):
            return None
        return function(a["self"] if a["self"].ndim else a["self"].reshape(1), axis=a.get("dim"))

    return choose


SELECTIONS: dict[str, Callable[[Arguments], Any]] = {
    "gt": _compare(np.greater),
    "ge": _compare(np.greater_equal),
    "lt": _compare(np.less),
    "le": _compare(np.less_equal),
    "argmax": _largest(np.argmax),
    "argmin": _largest(np.argmin),
}
