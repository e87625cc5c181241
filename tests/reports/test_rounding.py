"""Printing rounds to the careful side, for every number."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.core import rounding
from reports.words import language

POSITIVE = st.floats(min_value=1e-12, max_value=1e6, allow_nan=False)


def _number(text: str) -> Fraction:
    return Fraction(text.replace(",", "").replace("−", "-"))


@given(POSITIVE)
def test_a_lower_bound_never_grows_in_print(value: float) -> None:
    shown = _number(rounding.down(value))
    assert shown <= Fraction(repr(value)) < shown + Fraction(1, 100)


@given(POSITIVE)
def test_a_claim_never_shrinks_in_print_and_never_reads_zero(value: float) -> None:
    shown = _number(rounding.up(value))
    assert shown >= Fraction(repr(value)) > shown - Fraction(1, 100)
    assert shown > 0


@given(st.floats(min_value=0, max_value=1, exclude_max=True))
def test_confidence_is_never_overstated(level: float) -> None:
    shown = _number(rounding.confidence(level).removesuffix("\xa0%")) / 100
    assert shown <= Fraction(repr(level))
    assert shown < 1


@given(st.floats(min_value=0, max_value=1), st.integers(min_value=1, max_value=10**6))
def test_intervals_only_widen_in_print(value: float, size: int) -> None:
    low, high = (_number(rounding.rate(value, size, side).removesuffix("\xa0%")) / 100 for side in ("down", "up"))
    assert low <= Fraction(repr(value)) <= high


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (rounding.up(math.inf), "no guarantee"),
        (rounding.down(math.inf), "∞"),
        (rounding.down(0.0), "0.00"),
        (rounding.down(-0.001), "−0.01"),
        (rounding.down(0.29), "0.29"),
        (rounding.up(8.0), "8.00"),
        (language.at_most(math.inf), "no finite ε"),
        (rounding.power(3.4e-7), "3.4 × 10⁻⁷"),
        (rounding.significant(0.1), "0.1"),
        (rounding.significant(1234567.0), "1,234,567"),
        (rounding.target(0.001), "0.1\xa0%"),
        (rounding.confidence(1 - 0.05 / 12), "99.58\xa0%"),
    ],
)
def test_examples(shown: str, expected: str) -> None:
    assert shown == expected


@given(st.floats(1e-6, 50), st.floats(1e-9, 1e-3))
def test_a_bound_above_its_claim_reads_above_it_in_a_sentence(claim: float, excess: float) -> None:
    bound = claim * (1 + excess)
    assert bound == claim or claim < float(rounding.below(bound, claim=claim)) <= bound
