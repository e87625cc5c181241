"""Which share of a data set was used: right on average, limits that hold, and no limit if outputs show nothing."""

from __future__ import annotations

import numpy as np
import pytest

import audit
from audit.core.errors import DataError
from audit.experiment.describe.leave_one_out import LeaveOneOut
from audit.experiment.describe.leave_one_out_summary import usage_spread
from audit.stats.scoring import usage

RECORDS = 300


def trained(coins: np.ndarray, strength: float, random: np.random.Generator) -> np.ndarray:
    """Logits of two classes for records of class 0, surer of those trained on; each model is sure by its own measure."""
    gains = strength * np.exp(random.normal(0, 0.15, (len(coins), 1)))
    margin = random.normal(0, 1, coins.shape) + random.normal(0, 0.1, (len(coins), 1)) + gains * coins
    return np.stack([margin, np.zeros_like(margin)], axis=2)


def estimate(share: float, strength: float, seed: int, references: int = 12) -> tuple[audit.core.evaluation.Usage, float]:
    random = np.random.default_rng(seed)
    included = random.random((references + 1, RECORDS)) < 0.5
    included[0] = np.arange(RECORDS) < share * RECORDS
    logits = trained(included, strength, random)
    x, y = np.arange(RECORDS, dtype=np.float32)[:, None], np.zeros(RECORDS, np.int64)
    provided = audit.References(included=included[1:], logits=logits[1:])
    answer = audit.dataset_usage(lambda batch: logits[0][batch[:, 0].astype(int)], x, y, provided, attack="loss")
    return answer, float(included[0].mean())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 1.0])
def test_the_share_is_found_and_the_limits_hold(share: float) -> None:
    answers = [estimate(share, 2.0, seed) for seed in range(24)]
    points = np.array([answer.share for answer, _ in answers])
    assert abs(points.mean() - share) < 0.05, points
    covered = sum(answer.lower <= truth <= answer.upper for answer, truth in answers)
    assert covered >= 20  # 24 with 95 %: fewer than 20 with probability 0.006
    assert np.mean([answer.upper - answer.lower for answer, _ in answers]) < 0.45


def test_nothing_is_told_by_models_that_learned_nothing() -> None:
    answer, _ = estimate(0.3, 0.0, 1)
    assert answer.upper - answer.lower > 0.9
    constant = usage_spread(LeaveOneOut(values=np.zeros((6, 40)), included=np.eye(6, 40) > 0, models=np.arange(6)), "loss")
    assert constant is not None
    assert constant.target.share is None and (constant.target.lower, constant.target.upper) == (0.0, 1.0)
    assert "not told" in str(constant.target)


def test_counting_records_as_independent_would_leave_the_truth_out() -> None:
    """Models differ in how sure they are, so that an interval of binomial counts is several times too short."""
    random, retained, naive = np.random.default_rng(5), 0, 0
    for _ in range(200):
        rates = np.clip(random.normal([[0.2], [0.7]], 0.05, (2, 12)), 0, 1)
        shares = np.clip(random.normal([0.2, 0.7], 0.05), 0, 1)
        called = shares.mean()
        _, low, high = usage.usage_share(called, rates[0], rates[1], 0.95, 10_000)
        retained += low <= 0.5 <= high
        half = 1.96 * np.sqrt(called * (1 - called) / 10_000) / (rates[1].mean() - rates[0].mean())
        point = (called - rates[0].mean()) / (rates[1].mean() - rates[0].mean())
        naive += abs(point - 0.5) <= half
    assert retained >= 180 and naive <= 120, (retained, naive)


def test_references_of_few_records_that_agree_by_luck_do_not_make_limits_of_no_width() -> None:
    random, retained = np.random.default_rng(6), 0
    for _ in range(300):
        low, high = random.binomial(10, 0.02, 4) / 10, random.binomial(10, 0.98, 4) / 10
        _, start, stop = usage.usage_share((low[3] + high[3]) / 2, low[:3], high[:3], 0.95, 20)
        assert stop - start > 0.05
        retained += start <= 0.5 <= stop
    assert retained >= 276, retained  # 285 with 95 %


def test_a_target_beyond_what_references_show_tells_nothing() -> None:
    share, low, high = usage.usage_share(0.9, [0.1, 0.12, 0.08], [0.6, 0.61, 0.59], 0.95, 10_000)
    assert np.isnan(share) and (low, high) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("columns", "count", "message"),
    [(RECORDS - 1, 12, "a column for each record"), (RECORDS, 2, "at least 3 references")],
)
def test_references_that_do_not_fit_are_named(columns: int, count: int, message: str) -> None:
    provided = audit.References(included=np.eye(count, columns) > 0, losses=np.ones((count, columns)))
    x, y = np.zeros((RECORDS, 1), np.float32), np.zeros(RECORDS, np.int64)
    with pytest.raises(DataError, match=message):
        audit.dataset_usage(lambda batch: np.zeros((len(batch), 2)), x, y, provided)
