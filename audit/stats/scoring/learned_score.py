"""A membership score learned on reference models, each of them once in the target's place."""

from collections.abc import Callable

import numpy as np
from scipy import special

from audit.stats.arrays import AnyArray
from audit.stats.scoring import logistic, membership, reference_fit
from audit.stats.spread import parts

_PRECISION = 10.0  # of the normal prior on each weight (features standardised); matters below some ten thousand rows

_TAIL = 0.8  # share of nonmembers below the bar from which rows count in the second fit
_PRIOR_STRENGTH = 8.0  # observations that the fixed variance counts for in each record's own
_LARGEST = 30.0  # log likelihood ratio, or standard deviations: beyond it says no more
_BASES = 5  # features of which all products of two are taken
_ONLINE = [3, _BASES * (_BASES + 3) // 2, _BASES * (_BASES + 3) // 2 + 2]  # columns of the online ratios
TEMPERATURES = (2.0, 1.0, 4.0)  # by which logits are divided for the ratios of RMIA; of the first one squares are taken, too


def learned_log_odds(
    target_values: AnyArray,
    reference_values: AnyArray,
    included: AnyArray,
    rows: int,
    log_p_at: Callable[[float], tuple[AnyArray, AnyArray]] | None = None,
) -> AnyArray:
    """Log odds of membership of each record `(m,)` from its logit-scaled confidence under target and references.

    Features: the confidence, the record's level over models without it and the shift that training on it brings, the
    latter drawn towards the average shift as far as it is noise over few models, and the log ratios of RMIA online and offline
    at temperature 2, with all products of two; the ratios at two more temperatures, the log-likelihood ratio
    of LiRA with these means and shrunk variances, and the offline deviation from the models without the record.
    A ridge logistic regression is fitted to the memberships of the references, with features from all *other* references,
    and again with the rows counted that the first fit ranked above most nonmembers; nothing of
    the target takes part. The ridge draws to the mean of the online ratios, so that few rows add to that attack what they show.

    Args:
        target_values: confidence under the target, `(m,)`.
        reference_values: under the references, `(k, m)`, `k` at least 2.
        included: `(k, m)` bool.
        rows: about how many (reference, record) pairs to train on; whole references are taken, of more records than
            that an evenly spread part of one.
        log_p_at: of a temperature, log probabilities of the label under target and references; None those of the
            confidences divided by it.

    References:
        Logit-scaled confidences: Carlini et al. 2022, arXiv 2112.03570. Ratios: Zarifzadeh et al. 2024, arXiv 2312.03262.
        Shrinkage: `reference_fit.with_shrunk_shift`.
    """
    models, columns = reference_fit.training_pairs(included, rows)
    training, queries = comparison(target_values, reference_values, included, (models, columns), log_p_at)
    classifier = tail_fit(training, included[:models, columns].ravel())
    out = np.empty(len(target_values))
    for part in parts(len(out)):
        out[part] = classifier.log_odds(queries(part))
    return out


def comparison(
    target_values: AnyArray,
    reference_values: AnyArray,
    included: AnyArray,
    pairs: tuple[int, AnyArray],
    log_p_at: Callable[[float], tuple[AnyArray, AnyArray]] | None = None,
) -> tuple[AnyArray, Callable[[slice], AnyArray]]:
    """The features of `learned_log_odds`, `(rows, features)`: of `pairs` to learn from, and of parts of the target's records.

    Args:
        pairs: number of references and positions of records, as `reference_fit.training_pairs` gives them.
        Others are as of `learned_log_odds`.
    """
    models, columns = pairs
    subset, coins = reference_values[:, columns], included[:, columns]
    target_ratios, reference_ratios = [], []
    for degree in TEMPERATURES:
        log_p = (log_p_at or (lambda degree: _log_p(target_values, reference_values, degree)))(degree)
        ratios, ratios_of_references = _ratios(*log_p, included, models, columns)
        target_ratios.append(ratios)
        reference_ratios.append(ratios_of_references)
        del log_p  # before the next temperature's: as large as all references' confidences
    everyone = reference_fit.sides(reference_values, included)
    remainder = reference_fit.leave_one_out(subset, coins, models, reference_fit.at(everyone, columns))
    shrunk, all_ratios = reference_fit.with_shrunk_shift(*everyone), np.concatenate(target_ratios)

    def queries(part: slice) -> AnyArray:
        plain_part, shrunk_part = reference_fit.at(everyone, part), reference_fit.at(shrunk, part)
        return _features(target_values[part], plain_part, shrunk_part, all_ratios[:, part])

    training = _features(
        subset[:models], remainder, reference_fit.with_shrunk_shift(*remainder), np.concatenate(reference_ratios)
    )
    return training, queries


def tail_fit(training: AnyArray, coins: AnyArray) -> logistic.LogisticFit:
    """A ridge logistic regression, fitted again with the rows counted that a first fit puts above most nonmembers.

    Its ridge pulls the weights towards those of the mean of the online ratios alone; `comparison` puts these ratios among the
    first features.
    """
    ridge, centre = _PRECISION / len(training), _ratios_alone(training, coins)
    first = logistic.fit(training, coins, ridge=ridge, centre=centre).log_odds(training)
    return logistic.fit(training, coins, ridge=ridge, weights=_tail_weights(first, coins), centre=centre)


def _log_p(target_values: AnyArray, reference_values: AnyArray, degree: float) -> tuple[AnyArray, AnyArray]:
    """Log probabilities of two classes with these confidences, divided by `degree`."""
    log_p, their_log_p = (-np.logaddexp(0.0, -values / degree) for values in (target_values, reference_values))
    return log_p, their_log_p


def _ratios(
    log_p: AnyArray, their_log_p: AnyArray, included: AnyArray, models: int, columns: AnyArray
) -> tuple[AnyArray, AnyArray]:
    """Log ratios online and offline of the target `(2, m)`, and of references in its place `(2, models, columns)`."""
    weight = membership.OFFLINE_WEIGHT
    ratios = membership.log_ratios(log_p, their_log_p, included, offline_weight=weight)
    ratios_of_references = membership.reference_log_ratios(
        their_log_p[:, columns], included[:, columns], offline_weight=weight, models=models
    )
    return ratios, ratios_of_references


def _tail_weights(log_odds: AnyArray, coins: AnyArray) -> AnyArray:
    """Return the weight of each row in the second fit: rows that a first fit puts above most nonmembers count, others hardly.

    Errors among clear nonmembers move no rate at few false positives, and yet make up most of the log loss.
    """
    bar = np.quantile(log_odds[~coins], _TAIL)
    width = 0.25 * float(np.std(log_odds)) or 1.0
    return np.asarray(0.01 + special.expit((log_odds - bar) / width))


def signal_log_odds(
    target_values: AnyArray, reference_values: AnyArray, included: AnyArray, rows: int, *, squares: bool = False
) -> AnyArray:
    """Log odds of membership of each record `(m,)` from several signals under target and references.

    Features of each signal: its value, and its means over models with and without the record, with all products of two of
    these or, without `squares`, the product of "value minus midpoint of the means" and "difference of the means". Fitted as
    `learned_log_odds` is, once; nothing of the target takes part.

    Args:
        target_values: signals under the target, `(signals, m)`.
        reference_values: under the references, `(k, signals, m)`.
        included: `(k, m)` bool.
        squares: take all products of a signal's features; nine columns a signal in place of four.
    """
    models, columns = reference_fit.training_pairs(included, rows)
    coins = included[:, columns]
    training, own = [], []
    for our, references in zip(target_values, np.moveaxis(reference_values, 1, 0), strict=True):
        signal = np.ascontiguousarray(references)
        everyone = reference_fit.sides(signal, included)
        subset = signal[:, columns]
        remainder = reference_fit.leave_one_out(subset, coins, models, reference_fit.at(everyone, columns))
        training.append(_signal_features(subset, remainder, models, squares))
        own.append(_signal_features(our, everyone, 1, squares))
    design, queries = (np.concatenate(parts, axis=1) for parts in (training, own))
    return logistic.fit(design, coins[:models].ravel(), ridge=_PRECISION / len(design)).log_odds(queries)


def _signal_features(
    values: AnyArray, sides: tuple[reference_fit.Side, reference_fit.Side], models: int, squares: bool
) -> AnyArray:
    """`(used * m, 9 or 4)`: value and both means in units of the spread, and products of two or the log ratio's linear part."""
    member, nonmember = sides
    unit = nonmember.fixed_std
    value, inside, outside = (np.atleast_2d(part)[:models].ravel() / unit for part in (values, member.mean, nonmember.mean))
    if squares:
        return logistic.with_squares(np.stack([value, inside, outside], axis=1))
    return np.stack([value, inside, outside, (value - (inside + outside) / 2) * (inside - outside)], axis=1)


def _ratios_alone(features: AnyArray, coins: AnyArray) -> AnyArray:
    """Weights on standardised features of the attack that few rows are drawn to: the mean of the online ratios, calibrated."""
    columns = features[:, _ONLINE]
    spread = np.where(columns.std(axis=0) > 0, columns.std(axis=0), np.inf)
    average = ((columns - columns.mean(axis=0)) / spread).mean(axis=1)
    alone = logistic.fit(average[:, None], coins, ridge=1e-6)
    centre = np.zeros(features.shape[1])
    centre[_ONLINE] = alone.weights[0] / alone.scale[0] / len(_ONLINE)
    return centre


def _features(
    confidence: AnyArray,
    plain: tuple[reference_fit.Side, reference_fit.Side],
    shrunk: tuple[reference_fit.Side, reference_fit.Side],
    ratios: AnyArray,
) -> AnyArray:
    """`(models * m, features)`, one row for each model and record of `confidence`, `(m,)` or `(models, m)`.

    Args:
        plain, shrunk: both sides as they are and with shrunken shifts, with arrays like `confidence`.
        ratios: online and offline at each temperature, `(2 * temperatures, ...)` like `confidence`.
    """
    member, nonmember = shrunk
    unit = nonmember.fixed_std
    bases = [confidence / unit, nonmember.mean / unit, (member.mean - nonmember.mean) / unit, *ratios[:2]]
    products = logistic.with_squares(np.stack([column.ravel() for column in bases], axis=1))
    likelihood = membership.log_density(confidence, member, "shrunk") - membership.log_density(confidence, nonmember, "shrunk")
    _, scale = reference_fit.shrunk(plain[1], _PRIOR_STRENGTH)
    deviation = (confidence - plain[1].mean) / scale
    further = [np.clip(column, -_LARGEST, _LARGEST) for column in (likelihood, deviation)]
    return np.column_stack([products, *(column.ravel() for column in (*ratios[2:], *further))])
