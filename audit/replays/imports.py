"""Modules that a program imports first while it is replayed: they hold what stood in for sources of randomness then."""

import sys
from collections.abc import Iterator
from typing import Any

from audit.replays import surviving
from audit.replays.generators import GENERATORS
from audit.replays.seeds import KINDS

_MAKERS = {source: KINDS[plain] for plain, source in GENERATORS.items()}


def leaves(earlier: set[str]) -> Iterator[tuple[str, Any]]:
    """Yield the atoms of the numbers, texts and containers in the user's modules that are not among the earlier ones."""
    for name in _new_own(earlier):
        for key, item in list(vars(sys.modules[name]).items()):
            if not key.startswith("__") and not isinstance(item, surviving.SKIP) and not callable(item):
                yield from surviving.leaves(item, f"{surviving.MEMORY} {name}.{key}")


def put_back(earlier: set[str], places: list[tuple[dict[str, Any], str, Any]]) -> None:
    """Forget the user's modules, which the next run imports again, and give those of libraries what they would hold otherwise.

    Args:
        earlier: names of the modules before the run.
        places: where sources of randomness are replaced in each run; those of libraries are added.
    """
    for name in _new_own(earlier):
        module, parent = sys.modules.pop(name), sys.modules.get(name.rpartition(".")[0])
        if parent is not None and getattr(parent, last := name.rpartition(".")[2], None) is module:
            delattr(parent, last)
    new = _new(earlier)
    originals = {(id(item), key): table[key] for table, key, item in places if key in table} if new else {}
    by_item = {item: original for (item, _), original in originals.items()}
    for name in new:
        table = getattr(sys.modules[name], "__dict__", {})
        for key, item in list(table.items()):
            original = originals.get((id(item), key), by_item.get(id(item)))
            if original is None and type(item) in _MAKERS:
                original = _MAKERS[type(item)]()
            if original is not None:
                table[key] = original
                places.append((table, key, item))


def _new(earlier: set[str]) -> list[str]:
    return sorted(sys.modules.keys() - earlier) if len(sys.modules) != len(earlier) else []


def _new_own(earlier: set[str]) -> list[str]:
    new = [name for name in _new(earlier) if surviving.is_own_module(name)]
    return [name for name in new if str(getattr(sys.modules[name], "__file__", None) or ".py").endswith(".py")]
