"""Operators that a classifier's forward pass may call, in a program that a third party wrote.

An allow-list: arithmetic on tensors, numbers, lists and shapes. Whatever is not named here is refused, also operators that
later versions of torch bring. Left out with intent: files (`save`, `load`, `from_file`), other machines (`to_here`, `wait`),
storages that are replaced or resized under a tensor (`set_`, `resize_`), random state, sparse and quantised kernels,
operators of training (`*_backward`).
"""

import importlib.resources
import re


def _read_lists() -> dict[str, frozenset[str]]:
    """Return the operators of each namespace, from `operators.txt`: a line `[namespace]`, then names."""
    text = (importlib.resources.files(__package__) / "operators.txt").read_text("utf-8")
    return {space: frozenset(names.split()) for space, names in re.findall(r"^\[(\w+)\]$([^\[]*)", text, re.MULTILINE)}


_LISTS = _read_lists()
TENSOR, PRIMS = _LISTS["aten"], _LISTS["prims"]
# Instructions of TorchScript itself (`prim::`). Prints reach nobody: see `audit.subjects._worker`.
GRAPH = _LISTS["prim"]


def harmless(space: str, name: str) -> bool:
    """True if `space::name` is on the list; `name_` is the form of `name` that works in place.

    >>> harmless("aten", "relu_"), harmless("aten", "save"), harmless("my_library", "relu")
    (True, False, False)
    """
    operators = _LISTS.get(space, frozenset())
    return name in operators or (space == "aten" and name.removesuffix("_") in operators)
