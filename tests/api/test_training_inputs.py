"""What a function handed to an audit of any system may do wrong is refused in one sentence, and repeated canaries are told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import audit

NAMES = [f"person {place}" for place in range(60)]
TABLE = pd.DataFrame({"age": np.arange(40), "city": ["Oslo", "Rome"] * 20})


def check(score: Callable[..., Any], **options: Any) -> Any:
    """Audit a system that keeps all its records."""
    settings = {"data": ["somebody"], "canaries": NAMES, "epsilon": 1.0, "seed": 1, **options}
    return audit.check_training(lambda records, seed: set(records), score=score, **settings)


def name_members(system: Any, names: Any) -> Any:
    return np.array([float(name in system) for name in names])


@pytest.mark.parametrize(
    ("score", "options", "message"),
    [
        (lambda system, names: np.zeros(59), {}, "59.* for each of 60 canaries"),
        (lambda system, names: np.full(60, 1j), {}, "complex128.* for each of 60"),
        (lambda system, names: np.zeros((60, 0)), {"references": 4}, "for each of 60 canaries"),
        (lambda system, names: [1.0] * 57 + [float("nan")] * 3, {}, "NaN for 3 of 60 canaries, first for that at place 57"),
        (lambda system, names: np.zeros((60, 1 + len(system) % 2)), {"references": 4}, "1 numbers per canary .* and 2"),
        (name_members, {"canaries": NAMES[:1]}, r"all coins fell alike \(canaries: 1, runs: 1\).*60"),
    ],
)
def test_scores_of_another_form_are_refused(score: Callable[..., Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(audit.DataError, match=message):
        check(score, **options)


def test_huge_scores_prove_what_small_ones_do() -> None:
    plain = check(name_members)
    huge = check(lambda system, names: 3e308 * (name_members(system, names) - 0.5))
    assert plain.bound is not None and huge.bound is not None
    assert huge.bound.epsilon == plain.bound.epsilon == pytest.approx(plain.bound.ceiling) and plain.report.notes == ()


def test_canaries_that_are_in_the_data_or_twice_are_told() -> None:
    report = check(name_members, data=NAMES[:5], canaries=[*NAMES, NAMES[9]])
    assert "Of 61 canaries 5 equal a record of the data and 2 equal another canary" in report.report.notes[0]
    forget = audit.check_unlearning(
        lambda records, seed: set(records),
        lambda system, request, data, seed: set(data),
        NAMES[:5],
        NAMES,
        epsilon=1.0,
        references=0,
        score=name_members,
        seed=1,
    )
    assert any("Of 60 canaries 5 equal a record of the data and 0 equal" in note for note in forget.report.notes)


def test_a_table_without_records_or_with_two_columns_of_one_name_is_refused_and_so_is_an_open_quotation() -> None:
    with pytest.raises(audit.DataError, match="training table has 0 rows"):
        audit.check_generator(lambda table, seed: table, TABLE.iloc[:0], epsilon=1.0)
    with pytest.raises(audit.DataError, match="2 columns named 'age'; give each"):
        audit.check_generator(lambda table, seed: table, pd.concat([TABLE, TABLE[["age"]]], axis=1), epsilon=1.0)
    with pytest.raises(audit.ConfigError, match="close each quotation mark"):
        audit.check_generator("make '{input} {output}", TABLE, epsilon=1.0)


def test_of_large_data_nothing_is_said_that_was_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("audit.api.training.MOST_COMPARED", 4)
    report = check(name_members, data=NAMES[:5], canaries=[*NAMES, NAMES[9]])
    assert report.report.notes[0].startswith("Of 61 canaries 2 equal another canary:")
