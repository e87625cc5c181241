"""Two hundred calls of public functions with arguments of wrong types: each is refused by the name of the argument."""

from __future__ import annotations

import inspect
import random
import typing
from typing import Any

import numpy as np
import pytest

import audit
from audit.api import argument_types
from audit.core.errors import AuditError

WRONG: list[Any] = [None, "text", b"bytes", 3, -1.5, float("nan"), True, object(), print, int, {"a": 1}, {1, 2}, 1j, [], [None]]
FUNCTIONS = sorted(name for name in audit.__all__ if inspect.isfunction(getattr(audit, name, None)))
CALLS = 200


def calls() -> list[tuple[str, dict[str, Any]]]:
    """Each call gives every required argument, and some others, a value of a random type."""
    generator, rows = random.Random(20261124), []
    while len(rows) < CALLS:
        name = FUNCTIONS[len(rows) % len(FUNCTIONS)]
        options = {}
        for key, parameter in inspect.signature(getattr(audit, name)).parameters.items():
            if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                continue
            if parameter.default is parameter.empty or generator.random() < 0.3:
                options[key] = generator.choice(WRONG)
        rows.append((name, options))
    return rows


@pytest.mark.parametrize("number", range(CALLS))
def test_a_call_with_wrong_types_is_refused_by_the_name_of_an_argument(number: int, tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    name, options = calls()[number]
    try:
        getattr(audit, name)(**options)
    except AuditError as error:
        named = [key for key in inspect.signature(getattr(audit, name)).parameters if key in str(error)]
        assert named or "expected" in str(error) or "cannot be imported" in str(error), f"{name}({options}): {error}"


KINDS: list[tuple[Any, list[Any], list[Any]]] = [
    (int, [1, np.int64(3)], [True, 1.0, "1", None]),
    (float, [1, 1.5, np.float32(2)], ["1", None, True, 1j]),
    (bool, [True, np.bool_(False)], [0, "yes", None]),
    (str | None, ["x", None], [b"x", 1]),
    (typing.Literal["a", "b"], ["a"], ["c", 1, None]),
    (np.ndarray, [np.ones(3), [1, 2], (1,)], [3, "x", None, {"a": 1}, object(), int]),
    (tuple[str, ...], [("a",), ["a"]], [3, "a", None]),
    (typing.Callable, [print, int], [3, None]),
    (typing.Any, [3, None, object()], []),
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind[0]))
def test_what_fits_an_annotation(kind: tuple[Any, list[Any], list[Any]]) -> None:
    annotation, right, wrong = kind
    assert [value for value in right if not argument_types.fits(value, annotation)] == []
    assert [value for value in wrong if argument_types.fits(value, annotation)] == []
