"""How well the share of the records that each model was trained on is estimated from the models beside it."""

import math

import numpy as np

from audit.core.evaluation import Usage, UsageSpread
from audit.experiment.describe.leave_one_out import LeaveOneOut
from audit.stats.scoring import usage

LEAST_REFERENCES = 3
CONFIDENCE = 0.95


def usage_spread(result: LeaveOneOut, scorer: str, confidence: float = CONFIDENCE) -> UsageSpread | None:
    """The estimate of each model, with the rates of all others, beside what is true; None of fewer than four models."""
    if len(result.values) <= LEAST_REFERENCES:
        return None
    fprs, tprs, shares = usage.member_rates(result.values, result.included, usage.candidate_thresholds(result.values))
    estimates = []
    for row, share in enumerate(shares):
        remainder = np.delete(np.arange(len(shares)), row)
        estimates.append(usage.estimate_share(share, fprs[remainder], tprs[remainder], confidence, result.included.shape[1]))
    truths = result.included.mean(axis=1)
    points = np.array([estimate[0] for estimate in estimates])
    inside = [low <= truth <= high for (_, low, high), truth in zip(estimates, truths, strict=True)]
    is_told = ~np.isnan(points)
    return UsageSpread(
        scorer=scorer,
        target=make_usage(estimates[0], confidence, len(shares) - 1),
        truth=float(truths[0]),
        error=float(np.abs(points - truths)[is_told].mean()) if is_told.any() else None,
        covered=float(np.mean(inside)),
        targets=len(shares),
    )


def make_usage(estimate: tuple[float, float, float], confidence: float, references: int) -> Usage:
    """Return the estimate `(share, lower, upper)` as a result; a share of NaN is no point estimate."""
    share, low, high = estimate
    point = None if math.isnan(share) else share
    return Usage(share=point, lower=low, upper=high, confidence=confidence, references=references)
