"""Scores of canaries beside coins: what is no score is refused, and groups that coins do not explain invalidate the audit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from audit.core.data import Array
from audit.core.errors import DataError
from audit.core.results import AuditReport
from audit.core.seeds import Seed
from audit.endpoint import canary_files, canary_law
from audit.endpoint.canary_files import TextCanary
from audit.experiment.external.canary_scores import CoinKnowledge, examine_canaries
from audit.experiment.external.inspection import Settings

COUNT = 120
CANARIES = canary_law.make_law("digits", COUNT, canary_files.PLAIN, 0).draw(Seed(5))
COINS = np.array([canary.included for canary in CANARIES])


def inspect(values: Any, canaries: list[TextCanary] = CANARIES) -> AuditReport:
    settings = Settings(certificates=0, claim_epsilon=1.0)
    return examine_canaries(values, canaries, CoinKnowledge(declared=True), settings, name="canaries").report


def learn_by_heart(planted: Array, seed: int = 0) -> Array:
    return np.where(planted, 20.0, 0.0) + 2 * np.random.default_rng(seed).normal(size=len(planted))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.zeros(COUNT - 1), r"shape \(119,\) for 120 canaries"),
        (np.zeros((COUNT, 1)), r"shape \(120, 1\)"),
        (np.where(np.arange(COUNT) == 6, np.nan, 1.0), "NaN for canary 7"),
        (np.array(["1"] * COUNT), "column 'scores' is <U1"),
    ],
)
def test_a_column_that_is_no_number_a_canary_is_named(values: Array, words: str) -> None:
    with pytest.raises(DataError, match=words):
        inspect(values)


def test_groups_far_apart_that_coins_do_not_explain_invalidate_the_audit() -> None:
    assert inspect(learn_by_heart(COINS)).mechanisms[0].bounds[0].epsilon > 2
    shuffled = np.random.default_rng(1).permutation(COINS)
    canaries = [replace(canary, included=bool(coin)) for canary, coin in zip(CANARIES, shuffled, strict=True)]
    report = inspect(learn_by_heart(COINS), canaries)
    assert report.outcome is not None and report.outcome.name == "INVALID"
    assert "coins are probably others than those planted" in str(report)


def test_groups_that_texts_explain_leave_the_audit_valid() -> None:
    kinds = np.random.default_rng(2).random(COUNT) < 0.5
    canaries = [
        replace(canary, prefix=f"{'known' if kind else 'new'} {canary.prefix}")
        for canary, kind in zip(CANARIES, kinds, strict=True)
    ]
    assert "coins are probably others" not in str(inspect(learn_by_heart(kinds), canaries))


@pytest.mark.slow
def test_scores_of_one_group_are_never_taken_for_two() -> None:
    laws = ("normal", "standard_exponential", "standard_cauchy", "random")
    for seed in range(40):
        random = np.random.default_rng(seed)
        canaries = [
            replace(canary, included=bool(coin)) for canary, coin in zip(CANARIES, random.random(COUNT) < 0.5, strict=True)
        ]
        report = inspect(getattr(random, laws[seed % 4])(size=COUNT), canaries)
        assert "coins are probably others" not in str(report), seed
