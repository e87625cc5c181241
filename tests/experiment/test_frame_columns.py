"""Frames and parts whose columns are in another order, or hold times, are refused, asked about or told apart."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import audit
from audit.core.claims import Outcome
from audit.core.data import Array
from audit.core.errors import AuditError
from audit.data.row_containers import read_numbers
from audit.experiment.external.inspection import Settings, examine

N = 120
RANDOM = np.random.default_rng(11)
SCALES = np.array([4.0, 2.0, 1.0, 0.5])
FRAME = pd.DataFrame(RANDOM.normal(size=(2 * N, 4)), columns=list("abcd"))
Y = (FRAME.to_numpy() @ SCALES + RANDOM.normal(size=2 * N) > 0).astype(int)


class ByPlace:
    """An estimator that knows the names of its columns and takes them by their place."""

    feature_names_in_ = np.array(list("abcd"))

    def predict_proba(self, rows: Any) -> Array:
        yes = 1 / (1 + np.exp(-np.asarray(rows, np.float64) @ SCALES))
        return np.stack([1 - yes, yes], axis=1)


class ByName(ByPlace):
    def predict_proba(self, rows: Any) -> Array:
        return super().predict_proba(rows[list("abcd")])


def check(model: Any, records: Any, labels: Array = Y) -> audit.ModelCheck:
    sides = [(cut(records, side), labels[side]) for side in (slice(N), slice(N, None))]
    return audit.ModelCheck(inspection=examine(model, *sides, Settings(scorers=("loss",), certificates=0)))


def cut(records: Any, side: slice) -> Any:
    return {key: part[side] for key, part in records.items()} if isinstance(records, dict) else records[side]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (LogisticRegression().fit(FRAME[:N], Y[:N]), "Feature names must be in the same order"),
        (ByPlace(), r"takes columns by their place.*\(d, c, b, \.\.\.\).*\(a, b, c, \.\.\.\); give x\[list"),
    ],
)
def test_an_estimator_never_gets_named_columns_in_another_order(model: Any, words: str) -> None:
    with pytest.raises(AuditError, match=words):
        check(model, FRAME[list("dcba")])
    assert check(model, FRAME).report.outcome is not Outcome.INVALID


def test_an_estimator_that_goes_by_names_takes_any_order() -> None:
    assert check(ByName(), FRAME[list("dcba")]).attacks[0].auc == check(ByName(), FRAME).attacks[0].auc


def answer_parts(left: Any, right: Any) -> Array:
    return ByPlace().predict_proba(np.concatenate([left, right], axis=1))


@pytest.mark.parametrize(
    ("model", "records", "words"),
    [
        (lambda rows: ByPlace().predict_proba(rows), FRAME[list("dcba")], "x in reverse order along axis 1"),
        (
            answer_parts,
            {"right": FRAME.to_numpy()[:, :2], "left": FRAME.to_numpy()[:, 2:]},
            "'right' and 'left' of x exchanged",
        ),
        (lambda rows: ByPlace().predict_proba(rows - 0.5), (FRAME - FRAME.min()) * 7, "columns of x from 0 to 1"),
    ],
    ids=["frame", "dictionary", "scaled frame"],
)
def test_frames_and_parts_in_another_order_are_asked_about(model: Callable[..., Array], records: Any, words: str) -> None:
    assert f"Look first: the model's answers fit y far better with {words}" in str(check(model, records))


def test_pixels_that_were_not_scaled_are_asked_about_though_most_answers_are_right() -> None:
    pixels = RANDOM.integers(0, 17, size=(2 * N, 2, 2)) / 16

    def answer(x: Array) -> Array:
        return np.asarray(9 * (x * [[4, -4], [2, -2]]).sum((1, 2)) - 7)

    for given, is_asked in ((pixels, False), (16 * pixels, True)):
        preflight = check(answer, given, (answer(pixels) > 0).astype(int)).report.mechanisms[0].preflight
        assert preflight is not None and preflight.members is not None and preflight.members > 0.8
        assert ("x / 16" in preflight.question) == is_asked, preflight


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "write",
    [
        lambda days: days,
        lambda days: days.tz_localize("Europe/Oslo"),
        lambda days: days.astype(str),
        lambda days: [day.date() for day in days],
        lambda days: days - days.min(),
        lambda days: [f"{day.year}{day.dayofyear:03}" for day in days],
    ],
    ids=["times", "zones", "text", "dates", "spans", "digits"],
)
def test_nonmembers_of_other_years_are_told_apart(write: Callable[[Any], Any]) -> None:
    days = pd.to_datetime("2019-01-01") + pd.to_timedelta(RANDOM.permutation(2 * N), unit="D")
    for delay, is_invalid in ((0, False), (400, True)):
        moved = days + pd.to_timedelta(np.where(np.arange(2 * N) < N, 0, delay), unit="D")
        result = check(ByName(), FRAME.assign(when=write(moved)))
        assert (result.report.outcome is Outcome.INVALID) == is_invalid


def test_codes_of_columns_keep_their_order() -> None:
    day = datetime.date(2020, 2, 29)
    column = np.array([7, "7.5", " x", "2020-02-29", day, "2020-02-29T12:00:00", "2020-02-31", None], dtype=object)
    codes = read_numbers(column)
    assert codes is not None
    number, text, word, written, date, noon, no_date, missing = codes[:, 0].tolist()
    assert (number, text) == (7, 7.5) and written == date < noon
    assert all(0 < code < 1 for code in (word, no_date, missing)) and len({word, no_date, missing}) == 3


def test_objects_that_are_numbers_are_read_as_such() -> None:
    areas = [
        check(lambda x: x.astype(np.float32) @ SCALES, FRAME.to_numpy().astype(kind)).attacks[0].auc for kind in (object, float)
    ]
    assert areas[0] == areas[1]
