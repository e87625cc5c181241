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


def _rule(function: Callable[[Arguments], Any], linear: str, plain: str = "") -> Callable[[Arguments], Any]:
    """Return a rule that holds if all these arguments are known, and the plain ones hold no noise."""

    def rule(a: Arguments) -> Any:
        is_known = all(a[key] is not None for key in (*linear.split(), *plain.split()))
        return function(a) if is_known and not any(_is_tensor(a[key]) for key in plain.split()) else None

    return rule


def _noise_rule(function: Callable[[Arguments], Any], plain: str = "") -> Callable[[Arguments], Any]:
    """Return a rule that holds if the first argument is noisy, and the plain ones are known and hold no noise."""
    rule = _rule(function, "self", plain)
    return lambda a: rule(a) if _is_tensor(a["self"]) else None


def _is_product(*items: Any) -> bool:
    """True if exactly one of the factors is noisy, and none is lost."""
    return sum(map(_is_tensor, items)) == 1 and all(item is not None for item in items)


def _times(item: Any, factor: Any) -> Any:
    return item if factor == 1 else item * float(factor)


def _added_product(a: Arguments) -> Any:
    if _is_tensor(a["tensor1"]) and _is_tensor(a["tensor2"]):
        return None
    return a["self"] + a["tensor1"] * a["tensor2"] * float(a.get("value", 1))


def _lerp(a: Arguments) -> Any:
    is_noisy = _is_tensor(a["self"]) or _is_tensor(a["end"])
    return a["self"] * (1.0 - a["weight"]) + a["end"] * a["weight"] if is_noisy else None


def _to_copy(a: Arguments) -> Any:
    dtype = a.get("dtype")
    return a["self"] if dtype is None or dtype.is_floating_point else None


def _reduce(a: Arguments, mean: bool = False) -> Any:
    array = a["self"]
    if not _is_tensor(array) or array.size * array.weight.shape[-1] > _LARGEST_SUM:
        return None
    axis = a.get("dim")
    axis = None if axis is None or axis == [] else tuple(axis) if isinstance(axis, list) else axis
    return (np.mean if mean else np.sum)(array, axis=axis, keepdims=bool(a.get("keepdim", False)))


def _matmul(first: Any, second: Any) -> Any:
    """Return a product with noise alone; numbers that are data and noise are released before it, which only reveals more."""
    if not _is_product(first, second):
        return None
    noisy = first if _is_tensor(first) else second
    if noisy.value.any() or noisy.size * first.shape[0] > _LARGEST_SUM:
        return None
    return np.matmul(first, second)


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
    "add": _rule(lambda a: a["self"] + _times(a["other"], a.get("alpha", 1)), "self other"),
    "sub": _rule(lambda a: a["self"] - _times(a["other"], a.get("alpha", 1)), "self other"),
    "rsub": _rule(lambda a: a["other"] - a["self"] * float(a.get("alpha", 1)), "self other"),
    "mul": lambda a: a["self"] * a["other"] if _is_product(a["self"], a["other"]) else None,
    "div": _noise_rule(lambda a: a["self"] / a["other"] if a.get("rounding_mode") is None else None, "other"),
    "neg": _rule(lambda a: -a["self"], "self"),
    "positive": lambda a: a["self"],
    "clone": lambda a: a["self"],
    "contiguous": lambda a: a["self"],
    "_to_copy": _to_copy,
    "copy": lambda a: a["src"] if _is_tensor(a["src"]) else None,  # the target's own noise goes
    "lerp": _rule(_lerp, "self end", "weight"),
    "addcmul": _rule(_added_product, "self tensor1 tensor2"),
    "addcdiv": _rule(lambda a: a["self"] + a["tensor1"] / a["tensor2"] * float(a.get("value", 1)), "self tensor1", "tensor2"),
    "sum": _reduce,
    "mean": lambda a: _reduce(a, mean=True),
    "cumsum": _noise_rule(lambda a: np.cumsum(a["self"], axis=a["dim"])),
    "mm": lambda a: _matmul(a["self"], a["mat2"]),
    "bmm": lambda a: _matmul(a["self"], a["mat2"]),
    "mv": lambda a: _matmul(a["self"], a["vec"]),
    "dot": lambda a: _matmul(a["self"], a["tensor"]),
    "cat": _join(np.concatenate),
    "stack": _join(np.stack),
    "index": _index,
    "index_put": _put,
    "index_select": _noise_rule(lambda a: np.take(a["self"], a["index"], axis=a["dim"]), "index"),
    "roll": _noise_rule(_roll),
    "flip": _noise_rule(lambda a: np.flip(a["self"], axis=tuple(a["dims"]))),
    "repeat": _noise_rule(lambda a: np.tile(a["self"], tuple(a["repeats"]))),
    "where": _rule(lambda a: np.where(a["condition"].astype(bool), a["self"], a["other"]), "self other", "condition"),
    "masked_fill": _noise_rule(lambda a: np.where(a["mask"].astype(bool), a["value"], a["self"]), "mask value"),
}


def _largest(function: Callable[..., Any]) -> Callable[[Arguments], Any]:
    def choose(a: Arguments) -> Any:
        if not _is_tensor(a["self"]) or a.get("keepdim"):
            return None
        return function(a["self"] if a["self"].ndim else a["self"].reshape(1), axis=a.get("dim"))

    return choose


_COMPARISONS = {"gt": np.greater, "ge": np.greater_equal, "lt": np.less, "le": np.less_equal}
SELECTIONS: dict[str, Callable[[Arguments], Any]] = {
    **{
        name: _rule(lambda a, function=function: function(a["self"], a["other"]), "self other")  # type: ignore[misc]
        for name, function in _COMPARISONS.items()
    },
    "argmax": _largest(np.argmax),
    "argmin": _largest(np.argmin),
}
