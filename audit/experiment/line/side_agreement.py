"""How well answers agree with y on one side, beside what y in a random order gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit.core.data import Array

SURE = 3.0  # deviations over all orders of y: fewer than 1 of 500 shufflings agree with answers by more
FAR = 0.2  # of agreement, by which another reading has to fit better
_RANKS_ALONE = 0.4
_FEWEST_ANSWERS = 20
MOST_NUMBERS, MOST_CLASSES = 300, 1000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadRecords:
    """The target's answers for the audited records, as they were read.

    Attributes:
        losses: `(n,)`; `included` `(n,)` bool, the members.
        logits: `(n, classes)` with `labels` `(n,)`; or None.
        errors: `(n, d)` prediction less truth, with the `truths` `(n, d)`; or None.
        hits: `(n,)` share of several labels or tokens that is right; `baseline` of naming the commonest; or None.
        choices: `(n, d)` zeros and ones, the answers to several labels `truths`; or None.
        reading: how outputs and y were read; `labels_are_tokens` if they are classes of several places each.
    """

    losses: Array
    included: Array
    reading: str
    labels_are_tokens: bool = False
    logits: Array | None = None
    labels: Array | None = None
    errors: Array | None = None
    truths: Array | None = None
    hits: Array | None = None
    choices: Array | None = None
    baseline: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Of the answers on one side with y: 1 if all are right, 0 in the mean over all orders of y, and its deviation there."""

    strength: float
    deviation: float

    @property
    def is_beyond_chance(self) -> bool:
        """Return whether answers agree with y more than nearly all orders of y do."""
        return self.strength > SURE * self.deviation

    def is_far_above(self, other: Agreement) -> bool:
        """Return whether it is above chance and further above another side's than orders of y there spread."""
        return self.is_beyond_chance and self.strength - other.strength > max(FAR, SURE * other.deviation)


NOTHING = Agreement(strength=0.0, deviation=0.0)


def _find_shares(answers: Array, labels: Array) -> tuple[Array, float]:
    """Return the shares of classes among answers and labels, `(2, classes)`, and how many agree if they are independent."""
    size = int(max(answers.max(), labels.max())) + 1
    shares = np.stack([np.bincount(values, minlength=size) / len(values) for values in (answers, labels)])
    return shares, float(shares[0] @ shares[1])


def compare_classes(answers: Array, labels: Array) -> Agreement:
    """Return Cohen's kappa of whole numbers `(n,)`, with its deviation."""
    (named, held), by_chance = _find_shares(answers, labels)
    if by_chance >= 1:
        return NOTHING
    variance = by_chance + by_chance**2 - (named * held * (named + held)).sum()
    excess = float((answers == labels).mean()) - by_chance
    deviation = float(np.sqrt(max(variance, 0.0) / max(len(labels) - 1, 1)))
    return Agreement(strength=excess / (1 - by_chance), deviation=deviation / (1 - by_chance))


def compare_numbers(predictions: Array, truths: Array) -> Agreement | None:
    """Return the correlation of rows `(n, d)`, each column of unit variance; None of more columns than are compared."""
    if truths.shape[1] > MOST_NUMBERS or len(truths) < 2:
        return None
    first, second = (_standardise(values) for values in (predictions, truths))
    size = float(np.sqrt((first**2).sum() * (second**2).sum()))
    if size == 0:
        return NOTHING
    variance = float(((first.T @ first) * (second.T @ second)).sum()) / (len(truths) - 1)
    return Agreement(strength=float((first * second).sum()) / size, deviation=float(np.sqrt(variance)) / size)


def _standardise(values: Array) -> Array:
    centred = np.asarray(values, np.float64) - values.mean(axis=0)
    spreads = centred.std(axis=0)
    return np.asarray(centred / np.where(spreads > 0, spreads, 1.0))


def are_beyond_chance(records: ReadRecords) -> bool:
    """Return whether answers on members agree with y more than with shuffled y, by three standard deviations."""
    agreement = compare(records, records.included)
    return agreement is not None and agreement.is_beyond_chance


def find_strange_columns(records: ReadRecords) -> Array:
    """Return the labels, of several, that answers on members fit no better than shuffled y, though they fit most others."""
    if records.choices is None or records.truths is None or not 1 < records.truths.shape[1] <= MOST_NUMBERS:
        return np.zeros(0, np.int64)
    choices, truths = (values[records.included].astype(np.int64) for values in (records.choices, records.truths))
    fits = [compare_classes(*pair) for pair in zip(choices.T, truths.T, strict=True)]
    typical = float(np.median([fit.strength for fit in fits]))
    seldom = np.minimum(choices.sum(axis=0), (1 - choices).sum(axis=0)) < _FEWEST_ANSWERS
    is_strange = [
        typical > 1 / 2 and not fit.is_beyond_chance and typical - fit.strength > max(FAR, SURE * fit.deviation) for fit in fits
    ]
    return np.flatnonzero(np.array(is_strange) & ~seldom)


def follow_ranks_alone(records: ReadRecords) -> bool:
    """Return whether ranks of predictions explain far more of the members' y than the predictions themselves do."""
    if records.errors is None or records.truths is None or records.truths.shape[1] > MOST_NUMBERS:
        return False
    truths, errors = records.truths[records.included], records.errors[records.included]
    ranks = compare_ranks(errors + truths, truths)
    explained = 1 - (errors**2).sum() / max(((truths - truths.mean(axis=0)) ** 2).sum(), 1e-300)
    return ranks is not None and ranks.is_beyond_chance and ranks.strength**2 - max(explained, 0.0) > _RANKS_ALONE


def compare_ranks(predictions: Array, truths: Array) -> Agreement | None:
    """Return the correlation of ranks `(n, d)`, which no single large value decides."""
    return compare_numbers(_rank(predictions), _rank(truths))


def _rank(values: Array) -> Array:
    """Return the rank of each value in its column `(n, d)`, equal values alike."""
    return np.stack([np.unique(column, return_inverse=True)[1] for column in values.T], axis=1)


def _compare_hits(records: ReadRecords, side: Array) -> Agreement:
    hits, baseline = np.zeros(1) if records.hits is None else records.hits[side], float(records.baseline or 0.0)
    room = max(1 - baseline, 1e-12)
    return Agreement(strength=(hits.mean() - baseline) / room, deviation=float(hits.std()) / np.sqrt(len(hits)) / room)


def read_pairs(records: ReadRecords) -> tuple[Array, Array] | None:
    """Return answers and y to compare, `(n,)` classes or `(n, d)` numbers; None if only losses or hits are known."""
    if records.logits is not None and records.labels is not None:
        return records.logits.argmax(axis=1), records.labels
    if records.errors is not None and records.truths is not None:
        return records.errors + records.truths, records.truths
    return None if records.choices is None or records.truths is None else (records.choices, records.truths)


def compare_values(answers: Array, truths: Array) -> Agreement | None:
    """Return how answers agree with y, `(n,)` classes or `(n, d)` numbers."""
    return compare_classes(answers, truths) if truths.ndim == 1 else compare_numbers(answers, truths)


def compare(records: ReadRecords, side: Array) -> Agreement | None:
    """Return how answers of a side agree with y; None if only losses are known."""
    pairs = read_pairs(records)
    agreement = None if pairs is None else compare_values(pairs[0][side], pairs[1][side])
    return _compare_hits(records, side) if agreement is None and records.hits is not None else agreement
