"""How well answers agree with y on one side, beside what y in a random order gives, and readings of one side alone.

y that was shuffled, moved or renumbered on the nonmembers alone makes any model look as if it remembered every member. A model
that learned random labels by heart answers alike, so that chance agreement is asked about and a reading that fits is named.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit.core.data import Array
from audit.stats.column_order import find_order

SURE = 3.0
"""Deviations over all orders of y: fewer than 1 of 500 shufflings agree with answers by more."""
_FAR = 0.2
_FITS, _CERTAIN, _FEWEST = 0.5, 6.0, 10
_RANKS_ALONE = 0.4
_MOST_NUMBERS, _MOST_CLASSES = 300, 1000


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
    """Of the answers on one side with y.

    Attributes:
        strength: 0 in the mean over all orders of y, 1 if every answer is right; below 0 if answers go against y.
        deviation: of the strength over all orders of y.
    """

    strength: float
    deviation: float

    @property
    def is_beyond_chance(self) -> bool:
        """Return whether answers agree with y more than nearly all orders of y do."""
        return self.strength > SURE * self.deviation

    def is_far_above(self, other: Agreement) -> bool:
        """Return whether it is above chance and further above another side's than orders of y there spread."""
        return self.is_beyond_chance and self.strength - other.strength > max(_FAR, SURE * other.deviation)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SideReading:
    """A reading of y of one side that its answers fit.

    Attributes:
        labels: `(n,)` of the side, read so.
        strength: of the agreement in this reading.
        is_sure: no source of independent records gives that by accident; a series gives y of the next record.
    """

    name: str
    labels: Array
    strength: float
    is_sure: bool


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
    if truths.shape[1] > _MOST_NUMBERS or len(truths) < 2:
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
    """Return whether answers on members agree with y more than with shuffled y, by three standard deviations.

    The deviation is that over all orders of y; of tokens, beside naming the commonest, that of rows.
    """
    agreement = _compare(records, records.included)
    return agreement is not None and agreement.is_beyond_chance


def follow_ranks_alone(records: ReadRecords) -> bool:
    """Return whether ranks of predictions explain far more of the members' y than the predictions themselves do."""
    if records.errors is None or records.truths is None or records.truths.shape[1] > _MOST_NUMBERS:
        return False
    truths, errors = records.truths[records.included], records.errors[records.included]
    ranks = compare_numbers(_rank(errors + truths), _rank(truths))
    explained = 1 - (errors**2).sum() / max(((truths - truths.mean(axis=0)) ** 2).sum(), 1e-300)
    return ranks is not None and ranks.is_beyond_chance and ranks.strength**2 - max(explained, 0.0) > _RANKS_ALONE


def _rank(values: Array) -> Array:
    """Return the rank of each value in its column `(n, d)`, equal values alike."""
    return np.stack([np.unique(column, return_inverse=True)[1] for column in values.T], axis=1)


def _compare_hits(records: ReadRecords, side: Array) -> Agreement:
    hits, baseline = np.zeros(1) if records.hits is None else records.hits[side], float(records.baseline or 0.0)
    room = max(1 - baseline, 1e-12)
    return Agreement(strength=(hits.mean() - baseline) / room, deviation=float(hits.std()) / np.sqrt(len(hits)) / room)


def _compare(records: ReadRecords, side: Array) -> Agreement | None:
    """Return how answers of a side agree with y; None if only losses are known."""
    if records.logits is not None and records.labels is not None:
        return compare_classes(records.logits[side].argmax(axis=1), records.labels[side])
    if records.errors is not None and records.truths is not None:
        return compare_numbers(records.errors[side] + records.truths[side], records.truths[side])
    if records.choices is not None and records.truths is not None:
        return compare_numbers(records.choices[side], records.truths[side]) or _compare_hits(records, side)
    return None if records.hits is None else _compare_hits(records, side)


def question_nonmembers(records: ReadRecords) -> tuple[SideReading | None, str]:
    """Return what to ask if answers fit y of members far better than shuffled y, and y of nonmembers no better; "" otherwise.

    Beside it stands another reading of the nonmembers that fits, if there is one.
    """
    members, nonmembers = (_compare(records, side) for side in (records.included, ~records.included))
    if members is None or nonmembers is None or nonmembers.is_beyond_chance or not members.is_far_above(nonmembers):
        return None, ""
    reading = None
    if records.logits is not None and records.labels is not None and records.logits.shape[1] <= _MOST_CLASSES:
        answers = records.logits[~records.included].argmax(axis=1)
        reading = find_side_reading(answers, records.labels[~records.included], records.logits.shape[1])
    fit = "" if reading is None else f" ({reading.name} would)"
    return reading, (
        f"the model's answers fit y of the members, but y of the nonmembers no better than shuffled y{fit}: is each nonmember "
        "beside its own y? A model that learned random labels by heart, and canaries with wrong labels, give this as well"
    )


def _count_uncommon(values: Array) -> int:
    """Return how many are not the commonest: few rare ones agree by chance more often than a deviation says."""
    return len(values) - int(np.bincount(values).max())


def find_side_reading(answers: Array, labels: Array, classes: int) -> SideReading | None:
    """Return the reading of classes of the nonmembers that fits best, if one fits well and by more than chance.

    Args:
        answers, labels: `(n,)` whole numbers, in the order in which they were given.
    """
    order = find_order(labels[::2], answers[::2], classes)  # found on one half, judged on the other
    readings = (
        ("in reverse order", labels[::-1], slice(None), True),
        ("one record earlier", np.roll(labels, 1), slice(1, None), False),
        ("one record later", np.roll(labels, -1), slice(-1), False),
        ("with classes in another order", order[labels], slice(1, None, 2), True),
    )
    fits = []
    for way, read, judged, is_sure in readings:
        agreement = compare_classes(answers[judged], read[judged])
        is_known = min(_count_uncommon(answers[judged]), _count_uncommon(read[judged])) >= _FEWEST
        if is_known and agreement.strength > max(_FITS, _CERTAIN * agreement.deviation):
            name = f"y of the nonmembers {way}"
            fits.append(SideReading(name=name, labels=read, strength=agreement.strength, is_sure=is_sure))
    return max(fits, key=lambda reading: reading.strength, default=None)
