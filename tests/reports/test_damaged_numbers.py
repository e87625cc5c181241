"""Numbers of any size are read or refused with a message, and printed."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from audit.core import provenance, rounding
from audit.core.errors import ConfigError, DataError
from reports.answer import MOST_COINS, needed_coins
from reports.formats.json import from_json, to_json
from tests.reports import sample

DAMAGE = ("9" * 400, "-" + "9" * 400, "1e999", "-1e999", '"\\ud800"', "NaN", "Infinity", "[" * 5000, "null", "true", "{}")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("value", DAMAGE)
def test_a_damaged_report_is_refused_wherever_the_damage_stands(value: str) -> None:
    text = to_json(sample.run()).decode()
    places = [place for place, sign in enumerate(text) if sign == ":" and text[place - 1] == '"']
    for place in places[:: max(1, len(places) // 60)]:
        end = min(position for sign in ",}]" if (position := text.find(sign, place)) > 0)
        try:
            to_json(from_json(f"{text[: place + 1]}{value}{text[end:]}".encode()))
        except DataError:
            continue


def curves(value: object) -> Iterator[list[float]]:
    """Lists of numbers, at any depth."""
    if isinstance(value, list) and value and all(isinstance(item, float) for item in value):
        yield value
    for item in value if isinstance(value, list) else value.values() if isinstance(value, dict) else ():
        yield from curves(item)


def test_a_curve_with_a_value_less_on_one_axis_is_refused() -> None:
    plain = json.loads(to_json(sample.run()))
    refused = 0
    for numbers in curves(plain):
        last = numbers.pop()
        try:
            from_json(json.dumps(plain).encode())
        except DataError as error:
            assert "expected as many of each" in str(error)
            refused += 1
        numbers.append(last)
    assert refused >= 6


@pytest.mark.parametrize("value", [745.0, 1000.0, 1e27, 1e300])
def test_a_claim_of_any_size_is_printed(value: float) -> None:
    assert rounding.up(value).replace(",", "").startswith(str(int(value))[:3])
    assert needed_coins(value, 0.95) == MOST_COINS


@pytest.mark.parametrize("text", ["abc", "", "1e5", "9" * 30, "-" + "9" * 30])
def test_a_wrong_source_date_is_named(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", text)
    with pytest.raises(ConfigError, match="SOURCE_DATE_EPOCH"):
        provenance.timestamp()
