"""A membership score learned on reference models, each of them once in the target's place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from audit.stats.scoring import logistic, membership, reference_fit
from audit.stats.spread import parts

Array = NDArray[Any]

_PRECISION = 10.0  # of the normal prior on each weight (features standardised); matters below some ten thousand rows

_TAIL = 0.8  # share of nonmembers below the bar from which rows count in the second fit
_LARGEST_RATIO = 30.0  # of likelihoods, in logs: beyond it says no more


def learned_log_odds(
    target_values: Array, reference_values: Array, included: Array, rows: int, log_p: tuple[Array, Array] | None = None
) -> Array:
    """Log odds of membership of each record `(m,)` from its logit-scaled confidence under target and references.

    Features: the confidence, its mean and log spread over models with and without the record, and the log
    ratio of RMIA, with all products of two, and the log-likelihood ratio of LiRA with shrunk variances.
    A ridge logistic regression is fitted to the memberships of the references, whose features come from
    all *other* references, and again with the rows counted that the first fit put above most nonmembers; nothing of
    the target takes part.

    Args:
        target_values: confidence under the target, `(m,)`.
        reference_values: under the references, `(k, m)`, `k` at least 4.
        included: `(k, m)` bool.
        rows: about how many (reference, record) pairs to train on; whole references are taken, of more records than
            that an evenly spread part of one.
        log_p: log probabilities of the label under target and references that the ratio takes; None those of the confidences.
    """
    models, columns = reference_fit.training_pairs(included, rows)
    training, queries = comparison(target_values, reference_values, included, (models, columns), log_p)
    classifier = tail_fit(training, included[:models, columns].ravel())
    out = np.empty(len(target_values))
    for part in parts(len(out)):
        out[part] = classifier.log_odds(queries(part))
    return out


def comparison(
    target_values: Array,
    reference_values: Array,
    included: Array,
    pairs: tuple[int, Array],
    log_p: tuple[Array, Array] | None = None,
) -> tuple[Array, Callable[[slice], Array]]:
    """The features of `learned_log_odds`, `(rows, features)`: of `pairs` to learn from, and of parts of the target's records.

    Args:
        target_values: confidence under the target, `(m,)`.
        reference_values: under the references, `(k, m)`.
        included: `(k, m)` bool.
        pairs: number of references and positions of records, as `reference_fit.training_pairs` gives them.
        log_p: as `learned_log_odds` takes them.
    """
    models, columns = pairs
    own_log_p, their_log_p = log_p or (-np.logaddexp(0.0, -target_values), -np.logaddexp(0.0, -reference_values))
    weight = membership.OFFLINE_WEIGHT
    everyone = reference_fit.sides(reference_values, included)
    subset, subset_coins = reference_values[:, columns], included[:, columns]
    their_ratio = membership.log_ratio_of_references(
        their_log_p[:, columns], subset_coins, online=True, offline_weight=weight, models=models
    )
    rest = reference_fit.leave_one_out(subset, subset_coins, models, reference_fit.at(everyone, columns))
    ratio = membership.log_ratio(own_log_p, their_log_p, included, online=True, offline_weight=weight)

    def queries(part: slice) -> Array:
        return _features(target_values[part], reference_fit.at(everyone, part), ratio[part], 1)

    return _features(subset, rest, their_ratio, models), queries


def tail_fit(training: Array, coins: Array) -> logistic.LogisticFit:
    """A ridge logistic regression, fitted again with the rows counted that a first fit puts above most nonmembers."""
    ridge = _PRECISION / len(training)
    first = logistic.fit(training, coins, ridge=ridge).log_odds(training)
    return logistic.fit(training, coins, ridge=ridge, weights=_tail_weights(first, coins))


def _tail_weights(log_odds: Array, coins: Array) -> Array:
    """Return the weight of each row in the second fit: rows that a first fit puts above most nonmembers count, others hardly.

    Errors among clear nonmembers move no rate at few false positives, and yet make up most of the log loss.
    """
    bar = np.quantile(log_odds[~coins], _TAIL)
    width = 0.25 * float(np.std(log_odds)) or 1.0
    return np.asarray(0.01 + special.expit((log_odds - bar) / width))


def log_odds_of_signals(
    target_values: Array, reference_values: Array, included: Array, rows: int, *, squares: bool = False
) -> Array:
    """Log odds of membership of each record `(m,)` from several signals under target and references.

    Features of each signal: its value, and its means over models with and without the record, with all products of two of
    these or, without `squares`, the product of "value minus midpoint of the means" and "difference of the means". A ridge
    logistic regression is fitted to the memberships of the references, whose features come from all *other* references;
    nothing of the target takes part.

    Args:
        target_values: signals under the target, `(signals, m)`.
        reference_values: under the references, `(k, signals, m)`.
        included: `(k, m)` bool.
        rows: about how many (reference, record) pairs to train on, as `learned_log_odds` takes them.
        squares: take all products of a signal's features; nine columns a signal in place of four.
    """
    models, columns = reference_fit.training_pairs(included, rows)
    coins = included[:, columns]
    training, own = [], []
    for our, references in zip(target_values, np.moveaxis(reference_values, 1, 0), strict=True):
        signal = np.ascontiguousarray(references)
        everyone = reference_fit.sides(signal, included)
        subset = signal[:, columns]
        rest = reference_fit.leave_one_out(subset, coins, models, reference_fit.at(everyone, columns))
        training.append(_of_signal(subset, rest, models, squares))
        own.append(_of_signal(our, everyone, 1, squares))
    design, queries = (np.concatenate(parts, axis=1) for parts in (training, own))
    return logistic.fit(design, coins[:models].ravel(), ridge=_PRECISION / len(design)).log_odds(queries)


def _of_signal(values: Array, sides: tuple[reference_fit.Side, reference_fit.Side], models: int, squares: bool) -> Array:
    """`(used * m, 9 or 4)`: value and both means in units of the spread, and products of two or the log ratio's linear part."""
    member, nonmember = sides
    unit = nonmember.fixed_std
    value, inside, outside = (np.atleast_2d(part)[:models].ravel() / unit for part in (values, member.mean, nonmember.mean))
    if squares:
        return logistic.with_squares(np.stack([value, inside, outside], axis=1))
    return np.stack([value, inside, outside, (value - (inside + outside) / 2) * (inside - outside)], axis=1)


def _features(confidence: Array, sides: tuple[reference_fit.Side, reference_fit.Side], ratio: Array, models: int) -> Array:
    """`(used * m, features)`, one row for each of the first `models` models and each record."""
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
    products = logistic.with_squares(np.stack([np.atleast_2d(column)[:models].ravel() for column in columns], axis=1))
    values = np.atleast_2d(confidence)[:models]
    likelihood = membership.log_density(values, member, "shrunk") - membership.log_density(values, nonmember, "shrunk")
    return np.column_stack([products, np.clip(likelihood, -_LARGEST_RATIO, _LARGEST_RATIO).ravel()])
