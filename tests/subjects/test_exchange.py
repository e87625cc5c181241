"""Metadata of files of another framework: what is read, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit.core.errors import DataError
from audit.data.exchange import take_metadata


def test_metadata_leaves_the_arrays() -> None:
    arrays = {"score": np.zeros(2), "metadata": np.array(json.dumps({"schema": 1, "unit": "user"}))}
    assert take_metadata(arrays, Path("a.npz")) == {"schema": 1, "unit": "user"}
    assert list(arrays) == ["score"] and take_metadata(arrays, Path("a.npz")) == {}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("not json", "not JSON"),
        ([1], "schema 1"),
        ({"schema": 2}, "schema 1"),
        ({"schema": 1, "colour": "red"}, "colour"),
        ({"schema": 1, "unit": 3}, "unit"),
        ({"schema": 1, "framework": "a" * 300}, "framework"),
        ({"schema": 1, "framework": "a\nb"}, "framework"),
        ({"schema": 1, "mechanism": 3}, "mechanism"),
        ({"schema": 1, "mechanism": {"sigma": 3}}, "sigma"),
        ({"schema": 1, "mechanism": {"delta": "small"}}, "delta"),
        ({"schema": 1, "mechanism": {"clip": [1]}}, "clip"),
        ({"schema": 1, "randomisation": {"coins": "0101"}}, "coins"),
        ({"schema": 1, "claimed_epsilon": True}, "claimed_epsilon"),
        ({"schema": 1, "claimed_epsilon": float("nan")}, "claimed_epsilon"),
        ({"schema": 1, "claimed_epsilon": 10**400}, "claimed_epsilon"),
        ({"schema": 1, "mechanism": {"clip": float("inf")}}, "clip"),
        ({"schema": 1, "mechanism": {"steps": 10**4000}}, "steps"),
        ({"schema": 1, "mechanism": {"steps": True}}, "steps"),
    ],
)
def test_what_is_not_of_the_schema_is_refused(values: Any, message: str) -> None:
    text = values if isinstance(values, str) else json.dumps(values)
    with pytest.raises(DataError, match=message):
        take_metadata({"metadata": np.array(text)}, Path("a.npz"))
    with pytest.raises(DataError):
        take_metadata({"metadata": np.array([text, text])}, Path("a.npz"))
