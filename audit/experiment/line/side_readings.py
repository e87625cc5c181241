"""Readings of y of one side, or of a part of it, that the model's answers fit far better than y as it was given.

y that was shuffled, moved or renumbered on the nonmembers alone makes any model look as if it remembered every member. A model
that learned random labels by heart answers alike, so that chance agreement is asked about and a reading that fits is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from audit.core.data import Array
from audit.core.phrases import phrase
from audit.experiment.line.side_agreement import (
    FAR,
    MOST_CLASSES,
    MOST_NUMBERS,
    SURE,
    ReadRecords,
    compare,
    compare_values,
    read_pairs,
)
from audit.stats.bounds.binomial import upper_tail
from audit.stats.column_order import find_order, order_by_correlation
from audit.stats.scoring.signals import cross_entropy

_FITS, _CERTAIN, _TELLING, _FEWEST = 0.5, 6.0, 5.0, 10
_CHANCE = 1e-4  # that classes which are answered as others come from an even chance between the two
_CUTS, _MOST_NAMED = 8, 4
# in y: a model of noise that tells all of them apart gives each a column of its own in fewer than 1 of 2,000 cases
_ENOUGH_CLASSES = 10
SERIES = "a series whose model repeats the last value gives this as well: give its loss by loss_of"
CANARIES = "if labels are wrong on purpose, as of canaries, give the coins that drew the members, or the loss by loss_of"
Move = Callable[[Array], Array]
_MOVES: tuple[tuple[str, Move, slice], ...] = (
    ("in reverse order", lambda rows: rows[::-1], slice(None)),
    ("one record earlier", lambda rows: np.roll(rows, 1), slice(1, None)),
    ("one record later", lambda rows: np.roll(rows, -1), slice(-1)),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SideReading:
    """A reading of y of one side that its answers fit.

    Attributes:
        strength: of the agreement in this reading; `gain` beyond that of y itself on the same records.
        records: that the reading changes.
        is_sure: neither records in a telling order, as those of a series, nor a model of noise give that by accident.
        move: from the rows of a side to those that give them their y.
        columns: `(classes,)` the column of each class; `order` of the columns of several labels; None if they keep theirs.
        losses: `(n,)` of all records in this reading.
    """

    name: str
    strength: float
    gain: float
    records: int
    is_sure: bool
    move: Move = lambda rows: rows
    columns: Array | None = None
    order: Array | None = None
    losses: Array | None = None

    @property
    def keeps_columns(self) -> bool:
        return self.columns is None and self.order is None


def question_sides(records: ReadRecords) -> tuple[SideReading | None, str]:
    """Return another reading of a side that fits far better, if there is one, and what to ask of y, "" if answers fit it.

    Asked about are also nonmembers that y fits no better than shuffled y does although it fits the members far better.
    """
    rows = [np.flatnonzero(side) for side in (records.included, ~records.included)]
    members, nonmembers = (compare(records, side) for side in rows)
    if members is None or nonmembers is None:
        return None, ""
    reading = _find_side_reading(records, rows[0], "y")
    if reading is not None:
        is_sure = reading.is_sure and _tells_classes(records, reading, rows[0])
        reading = replace(reading, is_sure=is_sure, losses=_find_losses(records, reading, rows))
        return reading, _name_question(reading)
    reading = _find_side_reading(records, rows[1], "y of the nonmembers")
    if reading is not None:
        reading = replace(reading, losses=_find_losses(records, reading, rows[1:]))
    if nonmembers.is_beyond_chance or not members.is_far_above(nonmembers):
        is_known = reading is not None and members.is_beyond_chance and nonmembers.is_beyond_chance
        return (reading, _name_question(reading)) if reading is not None and is_known else (None, "")
    rival = "shuffled y" if reading is None else phrase("shuffled y ({name} would)", name=reading.name)
    return reading, phrase(
        "the model's answers fit y of the members, but y of the nonmembers no better than {shuffled}: is each nonmember beside "
        "its own y ({exception})? A model that learned random labels by heart gives this as well",
        shuffled=rival,
        exception=CANARIES,
    )


def _name_question(reading: SideReading) -> str:
    return phrase(
        "'{name}' fits the model's answers far better: is each record beside its own y ({exception})?",
        name=reading.name,
        exception=CANARIES,
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
    both = np.concatenate(sides)
    if records.logits is not None and records.labels is not None:
        labels = records.labels[places]
        if reading.columns is not None:
            labels[both] = reading.columns[labels[both]]
        return np.asarray(cross_entropy(records.logits, labels))
    pairs = read_pairs(records)
    if pairs is None:
        return records.losses
    answers, truths = pairs[0], pairs[1][places]
    if reading.order is not None:
        truths[both] = truths[np.ix_(both, reading.order)]
    return np.asarray(((answers - truths) ** 2).sum(axis=1))


def _count_uncommon(values: Array) -> int:
    """Return how many are not the commonest: few rare ones agree by chance more often than a deviation says."""
    return len(values) - int(np.unique(values, axis=0, return_counts=True)[1].max())


def _find_side_reading(records: ReadRecords, rows: Array, side_name: str) -> SideReading | None:
    """Return the reading of y of the side `rows` that makes the most answers right, if any does by more than chance."""
    pairs = read_pairs(records)
    if pairs is None:
        return None
    answers, truths = (values[rows] for values in pairs)
    readings = [*_move_rows(answers, truths, side_name), *_exchange_columns(records, answers, truths, side_name)]
    better = [reading for reading in readings if reading.gain > FAR]
    return max(better, key=lambda reading: reading.gain * reading.records, default=None)


def _move_rows(answers: Array, truths: Array, side_name: str) -> Iterator[SideReading]:
    """Yield y in reverse order, and moved by one record from the first or a later record on."""
    places = np.arange(len(answers))
    for way, move, within in _MOVES:
        for part in range(_CUTS - 1 if within != slice(None) else 1):
            start = len(answers) * part // _CUTS
            order = _move_from(start, move, places)
            rows = places[within][places[within] >= start]
            reading = _judge(answers[rows], truths[rows], truths[order][rows])
            if reading is not None:
                alike = compare_values(truths[rows], truths[order][rows])
                is_telling = alike is None or abs(alike.strength) > _TELLING * alike.deviation
                movement = phrase("{moved} from record {number} on", moved=way, number=start + 1) if start else way
                yield SideReading(
                    name=_name(side_name, movement),
                    strength=reading[0],
                    gain=reading[1],
                    records=len(rows),
                    is_sure=not is_telling and not _agrees(answers[rows], truths[rows]),
                    move=partial(_move_from, start, move),
                )


def _name(side_name: str, movement: str) -> str:
    return phrase("{side} {moved}", side=side_name, moved=movement)


def _move_from(start: int, move: Move, rows: Array) -> Array:
    return np.concatenate([rows[:start], move(rows)[start:]])


def _exchange_columns(records: ReadRecords, answers: Array, truths: Array, side_name: str) -> Iterator[SideReading]:
    """Yield y with its classes, or the columns of several labels, in another order: found on one half, judged on the other."""
    if records.logits is not None and records.logits.shape[1] <= MOST_CLASSES:
        columns = find_order(truths[::2], answers[::2], records.logits.shape[1])
        read = columns[truths]
        reading = _judge(answers[1::2], truths[1::2], read[1::2])
        partial_fit = _find_exchanged(answers[1::2], truths[1::2], read[1::2])
        if reading is not None and reading[1] > FAR:
            name = _name(side_name, "with classes in another order")
            yield SideReading(
                name=name,
                strength=reading[0],
                gain=reading[1],
                records=len(answers),
                is_sure=not _agrees(answers, truths),
                columns=columns,
            )
        elif partial_fit is not None:
            classes = np.unique(truths[read != truths])
            class_list = ", ".join([*map(str, classes[:_MOST_NAMED]), *["..."] * (len(classes) > _MOST_NAMED)])
            yield SideReading(
                name=_name(side_name, phrase("with classes {classes} in another order", classes=class_list)),
                strength=partial_fit[0],
                gain=partial_fit[1],
                records=int((read != truths).sum()),
                is_sure=False,
                columns=columns,
            )
    if records.choices is not None and truths.ndim == 2 and 1 < truths.shape[1] <= MOST_NUMBERS:
        order = order_by_correlation(truths[::2], answers[::2])
        places = np.flatnonzero(order != np.arange(len(order)))
        given, own = answers[1::2], truths[1::2]
        reading = _judge(given[:, places], own[:, places], own[:, order[places]]) if len(places) else None
        if reading is not None:
            name = _name(side_name, "with its columns in another order")
            yield SideReading(name=name, strength=reading[0], gain=reading[1], records=len(answers), is_sure=False, order=order)


def _find_exchanged(answers: Array, truths: Array, read: Array) -> tuple[float, float] | None:
    """Return the share of right answers to classes that change their column, and its gain, if not by an even chance."""
    if len(answers) < _FEWEST:
        return None
    agreement, own = compare_values(answers, read), compare_values(answers, truths)
    if agreement is None or own is None or agreement.strength - own.strength <= SURE * agreement.deviation:
        return None  # classes of unequal shares, answered at random
    rows = read != truths
    hits, own_hits = int((answers == read)[rows].sum()), int((answers == truths)[rows].sum())
    chance = upper_tail(hits, hits + own_hits, 0.5)
    if hits <= _FITS * rows.sum() or hits + own_hits < _FEWEST or chance > _CHANCE:
        return None
    return hits / int(rows.sum()), (hits - own_hits) / int(rows.sum())


def _agrees(answers: Array, truths: Array) -> bool:
    agreement = compare_values(answers, truths)
    return agreement is None or agreement.is_beyond_chance


def _judge(answers: Array, truths: Array, read: Array) -> tuple[float, float] | None:
    """Return the strength of a reading and its gain over y as it was given, if it fits well and by more than chance."""
    if len(answers) < _FEWEST:
        return None
    agreement, own = compare_values(answers, read), compare_values(answers, truths)
    if agreement is None or own is None or agreement.strength <= max(_FITS, _CERTAIN * agreement.deviation):
        return None
    if min(_count_uncommon(answers), _count_uncommon(read)) < _FEWEST:
        return None
    return agreement.strength, agreement.strength - max(own.strength, 0.0)
