"""Readings of x that the model's answers fit far better: columns or axes in another order, another scale.

A model is right on its training records as it was given them. Readings are found on some of the members and judged on others.
They are asked about, never refused: a model that learned next to nothing fits one of many by accident.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from audit.core.data import Array
from audit.core.errors import AuditError
from audit.core.preflight import Preflight, TriedReading
from audit.data.members import MemberEvidence
from audit.experiment.external.external_models import read_again
from audit.experiment.external.model_answers import Answers
from audit.experiment.line.preflight import area
from audit.experiment.line.side_agreement import FAR, Agreement, compare_classes, compare_ranks
from audit.stats.scoring.signals import cross_entropy

_POOR, _SEARCH = 1 - FAR, 0.5  # agreement with y on members below which readings are tried, and orders of columns searched for
_FITS = 0.5  # agreement of a reading that is asked about
_CERTAIN, _FEWEST = 6.0, 40  # deviations of the agreement, and records on which it is judged
_SEARCH_ROWS, _TEST_ROWS, _MOST_COLUMNS = 48, 256, 20
Reading = Callable[[Array], Array]
Ask = Callable[[Array, Array], Answers]
"""From inputs and rows of the records with their y to answers."""


def find_input_reading(target: Any, evidence: MemberEvidence, answers: Answers, names: Array | None) -> TriedReading | None:
    """Return the reading of x that makes the target right on far more of its members; None if none does, or it fits already.

    Args:
        answers: of the target for the records as they were given.
        names: `(classes,)` the class of each column of outputs; None if columns are numbered.
    """
    inputs, members = evidence.records, np.flatnonzero(evidence.included)
    own = _agree(answers, members)
    is_read = isinstance(inputs, np.ndarray) and inputs.ndim in (2, 3, 4) and inputs.dtype.kind in "fiu"
    if own is None or own.strength > _POOR or not is_read or len(members) < 2 * _FEWEST:
        return None

    def ask(records: Array, rows: Array) -> Answers:
        return read_again(target, records, evidence.labels[rows], np.asarray(answers.labels)[rows], names)

    order = np.random.default_rng(0).permutation(members)
    search_rows, test_rows = order[: min(_SEARCH_ROWS, len(order) // 2)], order[len(order) // 2 :][:_TEST_ROWS]
    base, best = _agree(answers, test_rows), None
    for name, read in _readings(np.asarray(inputs), search_rows if own.strength < _SEARCH else None, ask):
        agreement = _try(ask, read(np.asarray(inputs)[test_rows]), test_rows)
        if base is None or agreement is None or agreement.strength <= max(_FITS, _CERTAIN * agreement.deviation):
            continue
        if agreement.strength > (max(base.strength, 0.0) + FAR if best is None else best[1].strength):
            best = name, agreement, read
    if best is None:
        return None
    everyone = np.arange(len(evidence.included))
    whole = ask(best[2](np.asarray(inputs)), everyone)
    return TriedReading(name=best[0], fit=_fit(whole, members), auc=area(_losses(whole), np.asarray(evidence.included, bool)))


def with_input_reading(result: Preflight, reading: TriedReading | None) -> Preflight:
    """Return what the reading asks as well; a model that learned next to nothing may fit another one by accident."""
    if reading is None or result.doubt:
        return result
    right = "" if reading.fit is None else f", right on {reading.fit:.1%} of the members"
    question = (
        f"the model's answers fit y far better with {reading.name} (AUC of the loss {reading.auc:.3f}{right}): are records "
        "exactly as the model was trained on them?"
    )
    return replace(result, question=question, alternatives=(reading,))


def _readings(inputs: Array, rows: Array | None, ask: Ask) -> Iterator[tuple[str, Reading]]:
    """Yield names and readings of records `(n, ...)`; orders of columns are searched for on some rows, if any."""
    axes = range(1, inputs.ndim)
    for axis in axes:
        yield f"x in reverse order along axis {axis}", partial(np.flip, axis=axis)
    for first, second in itertools.combinations(axes, 2):
        if inputs.shape[first] == inputs.shape[second]:
            yield f"axes {first} and {second} of x exchanged", partial(np.swapaxes, axis1=first, axis2=second)
    if inputs.dtype.kind != "f":
        yield from _read_tokens(inputs)
        return
    means, spreads = inputs.mean(axis=0), inputs.std(axis=0)
    yield "x less its mean, divided by its deviation", lambda x: (x - means) / np.where(spreads > 0, spreads, 1)
    yield "x / 255", lambda x: x / 255
    yield "255 x", lambda x: x * 255
    yield "2 x - 1", lambda x: 2 * x - 1
    if inputs.ndim == 2:
        yield "columns of x one to the left", lambda x: np.roll(x, -1, axis=1)
        yield "columns of x one to the right", lambda x: np.roll(x, 1, axis=1)
        if rows is not None and 1 < inputs.shape[1] <= _MOST_COLUMNS:
            columns = _search_order(inputs[rows], rows, ask)
            if (columns != np.arange(len(columns))).any():
                yield f"columns of x in the order {columns.tolist()}", lambda x: x[:, columns]


def _read_tokens(inputs: Array) -> Iterator[tuple[str, Reading]]:
    """Yield readings of whole numbers: tokens of another numbering, padded at the other end, or pixels that were not scaled."""
    yield "x / 255", lambda x: (x / 255).astype(np.float32)
    if inputs.ndim != 2:
        return
    padding = max(inputs[0, 0], inputs[0, -1], key=lambda value: int((inputs == value).sum()))
    yield "tokens of x less 1", partial(_renumber, padding=padding, step=-1)
    yield "tokens of x plus 1", partial(_renumber, padding=padding, step=1)
    yield "padding of x first", partial(_move_padding, padding=padding, sign=-1)
    yield "padding of x last", partial(_move_padding, padding=padding, sign=1)


def _renumber(tokens: Array, padding: int, step: int) -> Array:
    return np.clip(np.where(tokens == padding, tokens, tokens + step), 0, None)


def _move_padding(tokens: Array, padding: int, sign: int) -> Array:
    order = np.argsort(sign * (tokens == padding), axis=1, kind="stable")
    return np.take_along_axis(tokens, order, axis=1)


def _search_order(inputs: Array, rows: Array, ask: Ask) -> Array:
    """Return columns in the order that exchanges of two, one after another, lead to while losses fall."""
    count = inputs.shape[1]
    order, least = np.arange(count), np.inf
    pairs = np.array(list(itertools.combinations(range(count), 2)))
    for _ in range(2 * count):
        orders = np.tile(order, (len(pairs), 1))
        places = np.arange(len(pairs))
        orders[places, pairs[:, 0]], orders[places, pairs[:, 1]] = order[pairs[:, 1]], order[pairs[:, 0]]
        records = inputs[:, orders].swapaxes(0, 1).reshape(-1, count)
        try:
            answers = ask(records, np.tile(rows, len(pairs)))
        except AuditError:  # the model does not take such records: they are no reading of x
            return order
        costs = np.minimum(_losses(answers), np.log(100)).reshape(len(pairs), -1).mean(axis=1)
        if costs.min() >= least:
            break
        least, order = costs.min(), orders[costs.argmin()]
    return order


def _try(ask: Ask, inputs: Array, rows: Array) -> Agreement | None:
    try:
        return _agree(ask(inputs, rows), np.arange(len(rows)))
    except AuditError:  # as above
        return None


def _agree(answers: Answers, rows: Array) -> Agreement | None:
    """Return how answers agree with y, of classes or of numbers by their ranks; None of other answers."""
    if answers.labels is None or answers.form == "losses":
        return None
    truths = np.asarray(answers.labels)[rows]
    if answers.logits is not None:
        return compare_classes(answers.logits[rows].argmax(axis=1), truths)
    truths = truths.reshape(len(truths), -1).astype(np.float64)
    return compare_ranks(np.asarray(answers.errors)[rows] + truths, truths)


def _losses(answers: Answers) -> Array:
    if answers.logits is not None:
        return np.asarray(cross_entropy(answers.logits, np.asarray(answers.labels)))
    return np.asarray((np.asarray(answers.errors) ** 2).sum(axis=1))


def _fit(answers: Answers, rows: Array) -> float | None:
    if answers.logits is None:
        return None
    return float((answers.logits[rows].argmax(axis=1) == np.asarray(answers.labels)[rows]).mean())
