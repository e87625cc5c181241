"""A membership score learned on reference models, each of them once in the target's place."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.stats.scoring import logistic, membership, reference_fit

Array = NDArray[Any]

_PRECISION = 10.0  # of the normal prior on each weight (features standardised); matters below some ten thousand rows


def learned_log_odds(ours: Array, theirs: Array, included: Array, rows: int) -> Array:
    """Log odds of membership of each record `(m,)` from its logit-scaled confidence under target and references.

    Features: the confidence, its mean and log spread over models with and without the record, and the log
    ratio of RMIA, with all products of two (the log-likelihood ratio of LiRA is among their combinations).
    A ridge logistic regression is fitted to the memberships of the references, whose features come from
    all *other* references; nothing of the target takes part.

    Args:
        ours: confidence under the target, `(m,)`.
        theirs: under the references, `(k, m)`, `k` at least 4.
        included: `(k, m)` bool.
        rows: about how many (reference, record) pairs to train on; whole references are taken, at least one.
    """
    used = max(1, min(len(theirs), rows // max(theirs.shape[1], 1)))
    log_p, their_log_p = -np.logaddexp(0.0, -ours), -np.logaddexp(0.0, -theirs)
    their_ratio = membership.log_ratio_of_references(their_log_p, included, online=True, offline_weight=0.3, used=used)
    everyone = reference_fit.sides(theirs, included)
    training = _features(theirs, reference_fit.leave_one_out(theirs, included, used, everyone), their_ratio, used)
    fitted = logistic.fit(training, included[:used].ravel(), ridge=_PRECISION / len(training))
    ratio = membership.log_ratio(log_p, their_log_p, included, online=True, offline_weight=0.3)
    return fitted.log_odds(_features(ours, everyone, ratio, 1))


def log_odds_of_signals(ours: Array, theirs: Array, included: Array, rows: int, *, squares: bool = False) -> Array:
    """Log odds of membership of each record `(m,)` from several signals under target and references.

    Features of each signal: its value, and its means over models with and without the record, with all products of two of
    these or, without `squares`, the product of "value minus midpoint of the means" and "difference of the means". A ridge
    logistic regression is fitted to the memberships of the references, whose features come from all *other* references;
    nothing of the target takes part.

    Args:
        ours: signals under the target, `(signals, m)`.
        theirs: under the references, `(k, signals, m)`.
        included: `(k, m)` bool.
        rows: about how many (reference, record) pairs to train on; whole references are taken, at least one.
        squares: take all products of a signal's features; nine columns a signal in place of four.
    """
    used = max(1, min(len(theirs), rows // max(theirs.shape[-1], 1)))
    training, own = [], []
    for one, many in zip(ours, np.moveaxis(theirs, 1, 0), strict=True):
        signal = np.ascontiguousarray(many)
        everyone = reference_fit.sides(signal, included)
        training.append(_of_signal(signal, reference_fit.leave_one_out(signal, included, used, everyone), used, squares))
        own.append(_of_signal(one, everyone, 1, squares))
    known, wanted = (np.concatenate(parts, axis=1) for parts in (training, own))
    return logistic.fit(known, included[:used].ravel(), ridge=_PRECISION / len(known)).log_odds(wanted)


def _of_signal(values: Array, sides: tuple[reference_fit.Side, reference_fit.Side], used: int, squares: bool) -> Array:
    """`(used * m, 9 or 4)`: value and both means in units of the spread, and products of two or the log ratio's linear part."""
    member, nonmember = sides
    unit = nonmember.fixed_std
    value, inside, outside = (np.atleast_2d(one)[:used].ravel() / unit for one in (values, member.mean, nonmember.mean))
    if squares:
        return logistic.with_squares(np.stack([value, inside, outside], axis=1))
    return np.stack([value, inside, outside, (value - (inside + outside) / 2) * (inside - outside)], axis=1)


def _features(confidence: Array, sides: tuple[reference_fit.Side, reference_fit.Side], ratio: Array, used: int) -> Array:
    """`(used * m, features)`, one row for each of the first `used` models and each record."""
    member, nonmember = sides
    unit = nonmember.fixed_std
    columns = [
        confidence / unit,
        nonmember.mean / unit,
        member.mean / unit,
        ratio,
        np.log(reference_fit.per_example_std(nonmember) / unit),
        np.log(reference_fit.per_example_std(member) / unit),
    ]
    return logistic.with_squares(np.stack([np.atleast_2d(one)[:used].ravel() for one in columns], axis=1))
