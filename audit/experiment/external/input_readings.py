"""Readings of x that the model's answers fit better: columns or axes in another order, another scale, padding elsewhere.

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
from audit.core.phrases import phrase
from audit.core.preflight import Preflight, TriedReading
from audit.data.members import MemberEvidence
from audit.data.row_containers import RowContainer, exchange_parts, read_rows
from audit.experiment.external.external_models import read_again
from audit.experiment.external.model_answers import Answers
from audit.experiment.external.model_calls import first_records
from audit.experiment.line.preflight import area, write_area
from audit.experiment.line.side_agreement import FAR, Agreement, compare_classes, compare_ranks
from audit.stats.bounds.binomial import upper_tail
from audit.stats.scoring.signals import cross_entropy

_POOR, _SEARCH = 1 - FAR, 0.5  # agreement with y on members below which readings are tried, and orders of columns searched for
_FITS = 0.5  # agreement of a reading that is asked about
_CERTAIN, _FEWEST = 6.0, 40  # deviations of the agreement, and records on which it is judged
_BETTER, _LEVEL, _FALL, _ERRORS = 0.03, 1e-4, 0.85, 3.0  # of a model that is mostly right: see _is_better
_LEAST_SCALE, _LARGEST_SCALE, _SCALED = 0.25, 4.0, 0.8  # of columns, and the share of them, that someone has standardised
_SEARCH_ROWS, _TEST_ROWS, _MOST_COLUMNS, _MOST_CHANNELS = 48, 256, 20, 4
Reading = Callable[[Any], Any]
Ask = Callable[[Any, Array], Answers]
"""From inputs and rows of the records with their y to answers."""


def find_input_reading(target: Any, evidence: MemberEvidence, answers: Answers, names: Array | None) -> TriedReading | None:
    """Return the reading of x that makes the target right on far more of its members; None if none does, or it fits already.

    `answers` are for the records as they were given; `names` `(classes,)` of the columns of outputs, None if these are
    numbered.
    """
    members = np.flatnonzero(evidence.included)
    own = _agree(answers, members)
    if own is None or len(members) < 2 * _FEWEST:
        return None

    def ask_again(records: Array | RowContainer, rows: Array) -> Answers:
        return read_again(target, records, evidence.labels[rows], np.asarray(answers.labels)[rows], names)

    inputs, ask = _find_inputs(evidence, answers, ask_again)
    if isinstance(inputs, np.ndarray) and (inputs.ndim not in (2, 3, 4) or inputs.dtype.kind not in "fiu"):
        return None
    order = np.random.default_rng(0).permutation(members)
    search_rows, test_rows = order[: min(_SEARCH_ROWS, len(order) // 2)], order[len(order) // 2 :][:_TEST_ROWS]
    best = None
    if own.strength <= _POOR:
        readings = _readings(inputs, search_rows if own.strength < _SEARCH else None, ask)
        best = _find_far_better(_agree(answers, test_rows), readings, first_records(inputs, test_rows), test_rows, ask)
    if best is None and own.strength > _SEARCH:
        best = _find_better(answers, inputs, order[:_TEST_ROWS], ask)
    if best is None:
        return None
    everyone = np.arange(len(evidence.included))
    whole = ask(best[1](inputs), everyone)
    fit = None if whole.logits is None else float(_hits(whole)[members].mean())
    return TriedReading(name=best[0], fit=fit, auc=area(_losses(whole), np.asarray(evidence.included, bool)))


def _find_inputs(evidence: MemberEvidence, answers: Answers, ask: Ask) -> tuple[Array | RowContainer, Ask]:
    """Return x and what asks with it; of a frame its numbers, if the model answers a frame of these as it does x."""
    records, rows = evidence.records, np.arange(min(len(evidence.included), _SEARCH_ROWS))
    frame: Any = records.take(rows[:1]) if isinstance(records, RowContainer) else None
    if not hasattr(frame, "iloc") or not hasattr(frame, "columns"):
        return records, ask

    def ask_frame(numbers: Array, places: Array) -> Answers:
        return ask(read_rows(type(frame)(numbers, columns=frame.columns), "x"), places)

    reread = _try(ask_frame, evidence.inputs[rows], rows)
    is_alike = reread is not None and np.allclose(_losses(reread), _losses(_take(answers, rows)), rtol=1e-3, atol=1e-3)
    return (evidence.inputs, ask_frame) if is_alike else (records, ask)


def _find_far_better(
    base: Agreement | None, readings: Iterator[tuple[str, Reading]], inputs: Array | RowContainer, rows: Array, ask: Ask
) -> tuple[str, Reading] | None:
    """Return the name and the reading that answers agree with far better; None if they do with none."""
    best, strength = None, max(0.0 if base is None else base.strength, 0.0) + FAR
    for name, read in readings:
        answers = _try(ask, read(inputs), rows)
        agreement = None if answers is None else _agree(answers, np.arange(len(rows)))
        if base is None or agreement is None or agreement.strength <= max(_FITS, _CERTAIN * agreement.deviation):
            continue
        if agreement.strength > strength:
            best, strength = (name, read), agreement.strength
    return best


def _find_better(answers: Answers, inputs: Array | RowContainer, rows: Array, ask: Ask) -> tuple[str, Reading] | None:
    """Return the name and the reading with the smallest losses of those that are better record by record; None if none is."""
    base, best, smallest = _take(answers, rows), None, np.inf
    has_room = base.logits is not None and float(_hits(base).mean()) < 1 - _BETTER  # enough answers are wrong
    readings = [(name, read, False) for name, read in _readings(inputs, None, ask)] if has_room else []
    for name, read, keeps_scale in [*_standardise(inputs), *readings]:
        reread = _try(ask, read(first_records(inputs, rows)), rows)
        if reread is None or not _is_better(base, reread, by_loss=keeps_scale):
            continue
        if _losses(reread).mean() < smallest:
            best, smallest = (name, read), _losses(reread).mean()
    return best


def _is_better(base: Answers, reread: Answers, *, by_loss: bool) -> bool:
    """Return whether answers are right more often record by record, or losses clearly and consistently smaller.

    The last is not asked of readings that stretch x, which lower losses of any model that is not sure enough.
    """
    if base.logits is not None and reread.logits is not None:
        hits, read_hits = _hits(base), _hits(reread)
        wins, failures = int((read_hits & ~hits).sum()), int((hits & ~read_hits).sum())
        if wins - failures > _BETTER * len(hits) and upper_tail(wins, wins + failures, 0.5) < _LEVEL:
            return True
    if not by_loss:
        return False
    losses, read_losses = (_bound(answers) for answers in (base, reread))
    fall = losses - read_losses
    error = float(fall.std()) / np.sqrt(len(fall))
    return bool(fall.mean() > _ERRORS * error and read_losses.mean() < _FALL * losses.mean())


def _standardise(inputs: Array | RowContainer) -> Iterator[tuple[str, Reading, bool]]:
    """Yield x that someone has standardised, by other records than these, standardised by these."""
    if isinstance(inputs, RowContainer):
        return
    if inputs.dtype.kind != "f":
        for name, read in _read_tokens(inputs):
            if name.startswith("padding"):
                yield name, read, True
        return
    axes = [axis for axis in (1, inputs.ndim - 1) if inputs.ndim == 2 or inputs.shape[axis] <= _MOST_CHANNELS]
    for axis in dict.fromkeys(axes):
        mean_axes = tuple(place for place in range(inputs.ndim) if place != axis)
        means, spreads = (np.asarray(part(axis=mean_axes, keepdims=True)) for part in (inputs.mean, inputs.std))
        is_constant = spreads < 1e-6 * spreads.max()
        is_usual = (np.abs(means) < _LARGEST_SCALE) & (spreads > _LEAST_SCALE) & (spreads < _LARGEST_SCALE)
        if is_constant.all() or is_usual[~is_constant].mean() < _SCALED:
            continue
        scale = np.exp(np.log(spreads[~is_constant]).mean())  # that of x as a whole is kept
        rescale = partial(_rescale, means=means, spreads=np.where(is_constant, 1, spreads / scale))
        yield "x standardised by these records", rescale, True


def _rescale(inputs: Array, means: Array, spreads: Array) -> Array:
    return np.asarray((inputs - means) / spreads, inputs.dtype)


def with_input_reading(result: Preflight, reading: TriedReading | None) -> Preflight:
    """Return what the reading asks as well; a model that learned next to nothing may fit another one by accident."""
    if reading is None or result.doubt:
        return result
    return replace(result, question=_question(reading), alternatives=(reading,))


def _question(reading: TriedReading) -> str:
    auc = write_area(reading.auc)
    if reading.fit is None:
        return phrase(
            "the model's answers fit y far better with {name} (AUC of the loss {auc}): are records exactly as the model was "
            "trained on them?",
            name=reading.name,
            auc=auc,
        )
    return phrase(
        "the model's answers fit y far better with {name} (AUC of the loss {auc}, right on {share} of the members): are "
        "records exactly as the model was trained on them?",
        name=reading.name,
        auc=auc,
        share=f"{reading.fit:.1%}",
    )


def _readings(inputs: Array | RowContainer, rows: Array | None, ask: Ask) -> Iterator[tuple[str, Reading]]:
    """Yield names and readings of records; orders of columns `(n, d)` are searched for on some rows, if any."""
    if isinstance(inputs, RowContainer):
        yield from exchange_parts(inputs)
        return
    axes = range(1, inputs.ndim)
    for axis in axes:
        yield phrase("x in reverse order along axis {axis}", axis=axis), partial(np.flip, axis=axis)
    for first, second in itertools.combinations(axes, 2):
        if inputs.shape[first] == inputs.shape[second]:
            name = phrase("axes {first} and {second} of x exchanged", first=first, second=second)
            yield name, partial(np.swapaxes, axis1=first, axis2=second)
    if inputs.dtype.kind != "f":
        yield from _read_tokens(inputs)
        return
    means, spreads = inputs.mean(axis=0), inputs.std(axis=0)
    yield "x less its mean, divided by its deviation", lambda x: (x - means) / np.where(spreads > 0, spreads, 1)
    minimum, maximum = inputs.min(axis=0), inputs.max(axis=0)
    if inputs.ndim == 2:
        yield "columns of x from 0 to 1", lambda x: (x - minimum) / np.where(maximum > minimum, maximum - minimum, 1)
    if inputs.max() > 1:
        yield "x / 255", lambda x: x / 255
        yield f"x / {maximum.max():g}", lambda x: x / maximum.max()
    elif inputs.min() >= 0:
        yield "255 x", lambda x: x * 255
        yield "2 x - 1", lambda x: 2 * x - 1
    if inputs.ndim == 2:
        yield "columns of x one to the left", lambda x: np.roll(x, -1, axis=1)
        yield "columns of x one to the right", lambda x: np.roll(x, 1, axis=1)
        if rows is not None and 1 < inputs.shape[1] <= _MOST_COLUMNS:
            columns = _search_order(inputs[rows], rows, ask)
            if (columns != np.arange(len(columns))).any():
                yield phrase("columns of x in the order {order}", order=columns.tolist()), lambda x: x[:, columns]


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


def _try(ask: Ask, inputs: Any, rows: Array) -> Answers | None:
    try:
        return ask(inputs, rows)
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


def _bound(answers: Answers) -> Array:
    """Return losses, those of classes bounded, so that no single one decides."""
    return np.minimum(_losses(answers), np.log(100)) if answers.logits is not None else _losses(answers)


def _take(answers: Answers, rows: Array) -> Answers:
    logits, errors, labels = (
        None if values is None else np.asarray(values)[rows] for values in (answers.logits, answers.errors, answers.labels)
    )
    return Answers(logits=logits, errors=errors, labels=labels)


def _hits(answers: Answers) -> Array:
    return np.asarray(np.asarray(answers.logits).argmax(axis=1) == np.asarray(answers.labels))
