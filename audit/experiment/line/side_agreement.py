"""How well answers agree with y on one side, beside what y in a random order gives, and readings of one side alone.

y that was shuffled, moved or renumbered on the nonmembers alone makes any model look as if it remembered every member, and on
both sides as if it knew nothing. A model that learned random labels by heart, or learned nothing, answers alike, so that chance
agreement is asked about and a reading that fits is named.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from audit.core.data import Array
from audit.stats.column_order import find_order
from audit.stats.scoring.signals import cross_entropy

SURE = 3.0  # deviations over all orders of y: fewer than 1 of 500 shufflings agree with answers by more
FAR = 0.2  # of agreement, by which another reading has to fit better
_FITS, _CERTAIN, _TELLING, _FEWEST = 0.5, 6.0, 5.0, 10
_RANKS_ALONE = 0.4
MOST_NUMBERS, MOST_CLASSES = 300, 1000
# in y: a model of noise that tells all of them apart gives each a column of its own in fewer than 1 of 2,000 cases
_ENOUGH_CLASSES = 10
SERIES = "a series whose model repeats the last value gives this as well: give its loss by loss_of"
CANARIES = "if labels are wrong on purpose, as of canaries, give the coins that drew the members, or the loss by loss_of"
_MOVES: tuple[tuple[str, Callable[[Array], Array], slice], ...] = (
    ("in reverse order", lambda rows: rows[::-1], slice(None)),
    ("one record earlier", lambda rows: np.roll(rows, 1), slice(1, None)),
    ("one record later", lambda rows: np.roll(rows, -1), slice(-1)),
)


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
        return self.is_beyond_chance and self.strength - other.strength > max(FAR, SURE * other.deviation)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SideReading:
    """A reading of y of one side that its answers fit.

    Attributes:
        strength: of the agreement in this reading.
        is_sure: neither records in a telling order, as those of a series, nor a model of noise give that by accident.
        move: from the rows of a side to those whose y they are read with.
        columns: `(classes,)` the column of each class; None if classes keep theirs.
        losses: `(n,)` of all records in this reading.
    """

    name: str
    strength: float
    is_sure: bool
    move: Callable[[Array], Array] = lambda rows: rows
    columns: Array | None = None
    losses: Array | None = None


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
    """Return whether answers on members agree with y more than with shuffled y, by three standard deviations.

    The deviation is that over all orders of y; of tokens, beside naming the commonest, that of rows.
    """
    agreement = _compare(records, records.included)
    return agreement is not None and agreement.is_beyond_chance


def follow_ranks_alone(records: ReadRecords) -> bool:
    """Return whether ranks of predictions explain far more of the members' y than the predictions themselves do."""
    if records.errors is None or records.truths is None or records.truths.shape[1] > MOST_NUMBERS:
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


def _read_pairs(records: ReadRecords) -> tuple[Array, Array] | None:
    """Return answers and y to compare, `(n,)` classes or `(n, d)` numbers; None if only losses or hits are known."""
    if records.logits is not None and records.labels is not None:
        return records.logits.argmax(axis=1), records.labels
    if records.errors is not None and records.truths is not None:
        return records.errors + records.truths, records.truths
    return None if records.choices is None or records.truths is None else (records.choices, records.truths)


def _compare_values(answers: Array, truths: Array) -> Agreement | None:
    return compare_classes(answers, truths) if truths.ndim == 1 else compare_numbers(answers, truths)


def _compare(records: ReadRecords, side: Array) -> Agreement | None:
    """Return how answers of a side agree with y; None if only losses are known."""
    pairs = _read_pairs(records)
    agreement = None if pairs is None else _compare_values(pairs[0][side], pairs[1][side])
    return _compare_hits(records, side) if agreement is None and records.hits is not None else agreement


def question_sides(records: ReadRecords) -> tuple[SideReading | None, str]:
    """Return what to ask of y, "" if answers fit it, and another reading of a side that fits, if there is one.

    Asked about are members that another reading fits far better, and nonmembers that y fits no better than shuffled y does
    although it fits the members far better.
    """
    rows = [np.flatnonzero(side) for side in (records.included, ~records.included)]
    members, nonmembers = (_compare(records, side) for side in rows)
    if members is None or nonmembers is None:
        return None, ""
    reading = _find_side_reading(records, rows[0], "y")
    if reading is not None and reading.strength - max(members.strength, 0.0) > FAR:
        is_sure = reading.is_sure and _tells_classes(records, reading, rows[0]) and not members.is_beyond_chance
        reading = replace(reading, is_sure=is_sure, losses=_find_losses(records, reading, rows))
        return reading, f"'{reading.name}' fits the model's answers far better: is each record beside its own y ({CANARIES})?"
    if nonmembers.is_beyond_chance or not members.is_far_above(nonmembers):
        return None, ""
    reading = _find_side_reading(records, rows[1], "y of the nonmembers")
    fit = "" if reading is None else f" ({reading.name} would)"
    reading = None if reading is None else replace(reading, losses=_find_losses(records, reading, rows[1:]))
    return reading, (
        f"the model's answers fit y of the members, but y of the nonmembers no better than shuffled y{fit}: is each nonmember "
        f"beside its own y ({CANARIES})? A model that learned random labels by heart gives this as well"
    )


def _tells_classes(records: ReadRecords, reading: SideReading, rows: Array) -> bool:
    """Return whether y keeps its columns, or most records of each of enough classes get the column that the reading has."""
    if reading.columns is None or records.logits is None or records.labels is None:
        return True
    labels = records.labels[rows]
    hits = records.logits[rows].argmax(axis=1) == reading.columns[labels]
    shares = [float(hits[labels == name].mean()) for name in np.unique(labels)]
    return len(shares) >= _ENOUGH_CLASSES and min(shares) > _FITS


def _find_losses(records: ReadRecords, reading: SideReading, sides: list[Array]) -> Array:
    """Return losses `(n,)` of the reading on these sides, `(k,)` rows each, and of y as it is elsewhere."""
    places = np.arange(len(records.included))
    for rows in sides:
        places[rows] = reading.move(rows)
    if records.logits is not None and records.labels is not None:
        labels, both = records.labels[places], np.concatenate(sides)
        if reading.columns is not None:
            labels[both] = reading.columns[labels[both]]
        return np.asarray(cross_entropy(records.logits, labels))
    pairs = _read_pairs(records)
    if pairs is None:
        return records.losses
    answers, truths = pairs
    return np.asarray(((answers - truths[places]) ** 2).sum(axis=1))


def _count_uncommon(values: Array) -> int:
    """Return how many are not the commonest: few rare ones agree by chance more often than a deviation says."""
    return len(values) - int(np.unique(values, axis=0, return_counts=True)[1].max())


def _find_side_reading(records: ReadRecords, rows: Array, named: str) -> SideReading | None:
    """Return the reading of y of the side `rows` that fits best, if one fits well and by more than chance."""
    pairs = _read_pairs(records)
    if pairs is None:
        return None
    answers, truths = (values[rows] for values in pairs)
    fits = []
    places = np.arange(len(rows))
    for way, move, judged in _MOVES:
        other_truths = truths[move(places)][judged]
        agreement = _find_fit(answers[judged], other_truths)
        if agreement is not None:
            alike = _compare_values(truths[judged], other_truths)
            is_sure = alike is not None and abs(alike.strength) <= _TELLING * alike.deviation
            fits.append(SideReading(name=f"{named} {way}", strength=agreement.strength, is_sure=is_sure, move=move))
    if records.logits is not None and records.logits.shape[1] <= MOST_CLASSES:
        columns = find_order(truths[::2], answers[::2], records.logits.shape[1])  # found on one half, judged on the other
        agreement = _find_fit(answers[1::2], columns[truths][1::2])
        if agreement is not None:
            name = f"{named} with classes in another order"
            fits.append(SideReading(name=name, strength=agreement.strength, is_sure=True, columns=columns))
    return max(fits, key=lambda reading: reading.strength, default=None)


def _find_fit(answers: Array, truths: Array) -> Agreement | None:
    """Return how answers agree with a reading, if well and by more than chance."""
    agreement = _compare_values(answers, truths)
    if agreement is None or agreement.strength <= max(_FITS, _CERTAIN * agreement.deviation):
        return None
    return agreement if min(_count_uncommon(answers), _count_uncommon(truths)) >= _FEWEST else None
