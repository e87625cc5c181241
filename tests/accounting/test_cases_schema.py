"""The battery is data that a library in any language can read: its schema holds for every case and refuses what is none."""

from __future__ import annotations

import copy
import json
from importlib import resources
from typing import Any

import pytest

from audit.accounting.regression import suite
from audit.core.event_forms import kinds_by_name

FOLDER = resources.files("audit.accounting.regression")
SCHEMA = json.loads((FOLDER / "cases.schema.json").read_text())
BATTERY = json.loads((FOLDER / "cases.json").read_text())


def validator() -> Any:
    jsonschema = pytest.importorskip("jsonschema")
    return jsonschema.Draft202012Validator(SCHEMA)


@pytest.mark.parametrize("share", [8, pytest.param(1, marks=pytest.mark.slow)])
def test_every_case_fits_the_schema(share: int) -> None:
    cases = {**BATTERY, "cases": BATTERY["cases"][::share]}
    errors = [f"{list(error.path)[:3]}: {error.message[:200]}" for error in validator().iter_errors(cases)]
    assert not errors


@pytest.mark.parametrize(
    "event",
    [
        {"kind": "Gauss", "noise_multiplier": 1.0},
        {"kind": "Gaussian"},
        {"kind": "Gaussian", "noise_multiplier": 1.0, "sample_rate": 0.1},
        {"kind": "Repeated", "count": 3, "mechanism": {"kind": "Composed", "parts": [{"kind": "Laplace", "scale": 1.0}]}},
    ],
)
def test_what_is_no_event_does_not(event: dict[str, Any]) -> None:
    changed = copy.deepcopy({**BATTERY, "cases": BATTERY["cases"][:1]})
    assert validator().is_valid(changed)
    changed["cases"][0]["asks"][0]["event"] = event
    assert not validator().is_valid(changed)


@pytest.mark.parametrize(("key", "value"), [("kind", "guess"), ("lower", "a lot"), ("asks", []), ("extra", 1)])
def test_what_is_no_case_does_not(key: str, value: object) -> None:
    changed = copy.deepcopy({**BATTERY, "cases": BATTERY["cases"][:1]})
    changed["cases"][0][key] = value
    assert not validator().is_valid(changed)


def test_the_schema_names_every_kind_of_event_and_field_of_a_case() -> None:
    assert set(SCHEMA["$defs"]["event"]["properties"]["kind"]["enum"]) == {*kinds_by_name(), "DpSgd"}
    assert set(SCHEMA["$defs"]) == {"event", "number", *kinds_by_name(), "DpSgd"}
    assert set(SCHEMA["properties"]["cases"]["items"]["properties"]) == set(suite.Case.__dataclass_fields__)
