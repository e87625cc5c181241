"""Whether outputs and y were read right: members that do worse than nonmembers, or another reading that fits far better.

Every test of a side is exact if membership, a random draw of records, says nothing of outputs and labels. Readings are found
from both sides together, without a look at membership.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from audit.core.data import Array
from audit.core.phrases import join_clauses, phrase
from audit.core.preflight import Preflight, TriedReading
from audit.core.views import Scores
from audit.experiment.line.side_agreement import (
    FAR,
    MOST_CLASSES,
    MOST_NUMBERS,
    ReadRecords,
    are_beyond_chance,
    compare,
    compare_classes,
    find_strange_columns,
    follow_ranks_alone,
)
from audit.experiment.line.side_readings import CANARIES, SERIES, question_sides
from audit.stats.bounds import roc
from audit.stats.column_order import find_order, order_by_correlation
from audit.stats.scoring.signals import cross_entropy
from audit.stats.sign_test import lower_tail

# Of each kind of test: of the loss, of scores with bounds, of other readings. Together a right audit is refused in fewer than
# 1 of 10,000 (docs/theory/reading.md).
LEVEL = 1e-5
_QUESTION_LEVEL = 0.01
_STRANGE = 0.05
_MOVED_ERROR, _MOVED_SPREAD, _MOVED_DEVIATIONS = 0.45, 0.15, 6.0
# Agreement with y in another reading while y itself is opposed by as many deviations, 1 of 100,000 orders of y: a binary model
# of noise gives that on well separated classes in up to 6 of 100 cases (docs/theory/reading.md).
_REVERSAL, _REVERSAL_DEVIATIONS = 0.7, 4.3
_WHOLLY = 0.8  # canaries whose wrong labels are those of the record before, moved before coins drew the sides, agree with 0.5
_LOWER_SCORES = (
    "the scores that the verdict rests on are lower for members than for nonmembers, which chance gives in fewer than 1 of "
    "100,000 audits"
)
_SIDES_SWAP = "members and nonmembers swapped"
_NUMBERS = "y as the numbers 0 and 1, the output as a prediction (give min(max(output, 0), 1), or loss_of)"
_OWN_ANSWER = "y set aside for the model's own answers"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Candidate:
    """Another reading: losses of the records that it covers, and how well answers agree with it on members, 1 if wholly."""

    name: str
    losses: Array
    included: Array
    fit: float
    agreement: float


def look(records: ReadRecords, verdict_scores: Sequence[Scores] = (), *, by_coins: bool) -> Preflight:
    """Return what the reading shows.

    Args:
        verdict_scores: the scores that verdicts rest on, each with its own sides: of records, or of users.
        by_coins: whether recorded coins decided membership; then records may have been labelled wrongly on purpose.
    """
    included = records.included
    auc, chance = area(records.losses, included), lower_tail(-records.losses, included)
    measure, figures, agreement = _measure(records)
    candidates = list(_candidates(records)) if agreement is not None and agreement < 0.5 else []
    numbers = _read_numbers(records)
    candidates += [] if numbers is None else [numbers]
    alternatives = [TriedReading(name=row.name, fit=row.fit, auc=area(row.losses, row.included)) for row in candidates]
    doubt = ""
    tails = [lower_tail(scores.values, scores.included) for scores in verdict_scores]
    smallest_tail = min(tails, default=1.0) * max(len(tails), 1)
    if chance < LEVEL:
        doubt = (
            "members do worse than nonmembers, which chance gives in fewer than 1 of 100,000 audits: the records, their "
            "labels, the outputs or the sides are not what they were read as"
        )
        alternatives = [TriedReading(name=_SIDES_SWAP, fit=None, auc=area(-records.losses, included)), *alternatives]
    else:
        doubt = _doubt_reading(records, candidates, numbers, float(agreement or 0.0), by_coins)
        if not doubt and smallest_tail < LEVEL:
            doubt = _LOWER_SCORES
    exchanged = _exchange_labels(records, figures)
    if exchanged is not None and not doubt and not by_coins:
        doubt, alternatives = _name_doubt(exchanged.name, ""), [exchanged]
    reading, side_question = (None, "") if doubt else question_sides(records)
    if reading is not None and reading.is_sure and (not by_coins or (reading.keeps_columns and reading.strength > _WHOLLY)):
        doubt = _name_doubt(reading.name, SERIES if reading.keeps_columns else CANARIES)
        best_reading = TriedReading(name=reading.name, fit=None, auc=area(np.asarray(reading.losses), included))
        alternatives = [best_reading, *(other for other in alternatives if other.auc != best_reading.auc)]
    if doubt:
        question = ""
    elif reading is not None:
        question = side_question
    else:
        question = _ask(records, measure, figures, min(chance, smallest_tail)) or side_question
    return Preflight(
        reading=records.reading,
        measure=measure,
        members=figures[0],
        nonmembers=figures[1],
        baseline=figures[2],
        auc=auc,
        chance=chance,
        alternatives=tuple(alternatives) if doubt or question else (),
        doubt=doubt,
        question=question,
    )


def _doubt_reading(
    records: ReadRecords, candidates: Sequence[_Candidate], numbers: _Candidate | None, own: float, by_coins: bool
) -> str:
    """Return that another reading fits far better, "" if none does; `own` is how well answers agree with y as it was read."""
    better = [reading for reading in candidates if _is_better(reading, own, len(candidates))]
    clear = [reading for reading in candidates if not by_coins and _is_shifted(reading, records, own)]
    clear += [reading for reading in candidates if not by_coins and _goes_against_truths(reading, records)]
    if numbers is not None and numbers.agreement - max(own, 0.0) > FAR / 2:
        clear.append(numbers)
    if not better and not clear:
        return ""
    best = max(better or clear, key=lambda reading: reading.agreement)
    return _name_doubt(best.name, CANARIES if _goes_against_truths(best, records) else "")


def _name_doubt(reading: str, exception: str) -> str:
    if exception:
        return phrase("another reading fits far better: '{name}' ({exception})", name=reading, exception=exception)
    return phrase("another reading fits far better: '{name}'", name=reading)


def look_at_signs(records: ReadRecords, scores: Scores, *, games: int) -> Preflight:
    """Return the figures of targets that were trained here, and read right, and a sign test of the best scores.

    `games` share the level of the test.
    """
    measure, figures, _ = _measure(records)
    is_inverted = lower_tail(scores.values, scores.included) < LEVEL / games
    return Preflight(
        reading=records.reading,
        measure=measure,
        members=figures[0],
        nonmembers=figures[1],
        baseline=figures[2],
        auc=area(records.losses, records.included),
        chance=lower_tail(-records.losses, records.included),
        doubt=_LOWER_SCORES if is_inverted else "",
    )


def _exchange_labels(records: ReadRecords, figures: tuple[float | None, float | None, float | None]) -> TriedReading | None:
    """Return several labels with yes and no exchanged, if answers go against y by more than naming the commonest explains."""
    fit, _, trivial = figures
    if records.hits is None or records.labels_are_tokens or fit is None or trivial is None or fit > 1 - trivial - FAR / 2:
        return None
    return TriedReading(name="y with yes and no exchanged", fit=1 - fit, auc=area(records.hits, records.included))


def _ask_of_numbers(records: ReadRecords) -> str:
    if follow_ranks_alone(records):
        return (
            "predictions follow the order of y on the members but not its size: are y and outputs in one unit (logarithms, "
            "roots)?"
        )
    if not _are_moved(records):
        return ""
    return (
        "predictions on the members lie far from y on average, which training by the squared error does not give: are y and "
        "outputs in one unit? A model of a median or a quantile is audited by its own loss (loss_of)"
    )


def _are_moved(records: ReadRecords) -> bool:
    """Return whether the mean error of one number on members is a large part of its error and of the spread of y."""
    if records.errors is None or records.truths is None or records.errors.shape[1] != 1:
        return False
    errors, truths = records.errors[records.included], records.truths[records.included]
    bias, error = abs(float(errors.mean())), float(np.sqrt((errors**2).mean()))
    is_large = bias > max(_MOVED_ERROR * error, _MOVED_SPREAD * float(truths.std()))
    return is_large and bias > _MOVED_DEVIATIONS * float(errors.std()) / np.sqrt(len(errors))


def _find_strange_share(records: ReadRecords) -> float:
    """Return the share of members for which the model names a class that y holds nowhere."""
    if records.logits is None or records.labels is None:
        return 0.0
    answers = records.logits[records.included].argmax(axis=1)
    return float(1 - np.isin(answers, records.labels).mean())


def _ask_of_columns(records: ReadRecords) -> str:
    """Return what to ask of classes that y lacks, or of labels that answers do not fit though they fit most others."""
    strange = _find_strange_share(records)
    if strange > _STRANGE:
        return phrase(
            "the model names classes that y never holds for {share} of the members: are columns and labels those that it was "
            "trained with?",
            share=f"{strange:.0%}",
        )
    columns = find_strange_columns(records)
    if not len(columns):
        return ""
    names = ", ".join(str(column + 1) for column in columns[:5])
    return phrase(
        "answers on the members fit y of most labels, but y of label {names} (counted from 1) no better than shuffled y: are "
        "the columns of y those that the model answers?",
        names=names,
    )


def _ask(records: ReadRecords, measure: str, figures: tuple[float | None, float | None, float | None], chance: float) -> str:
    """Return what to look at where nothing is refused: members that do worse, or a model that knows nothing of them."""
    if chance < _QUESTION_LEVEL:
        return (
            "members do worse than nonmembers, which chance gives in fewer than 1 of 100 audits: are records, labels, outputs "
            "and sides what they were read as?"
        )
    columns_question = _ask_of_columns(records)
    if columns_question:
        return columns_question
    fit, _, trivial = figures
    if measure == "error" and fit is not None and trivial is not None and (fit < trivial or _are_moved(records)):
        return _ask_of_numbers(records)
    if (
        fit is None
        or trivial is None
        or (fit < trivial if measure == "error" else fit > trivial and are_beyond_chance(records))
    ):
        return ""
    if measure == "error":
        return "the model is no better on its own training records than always giving the mean: are y and outputs in one unit?"
    instead = "always naming the commonest class" if fit <= trivial else "its answers would be on shuffled labels"
    return phrase(
        "the model is no better on its own training records than {instead}: are records and labels exactly as it was trained "
        "on them? Strongly private training can do this as well",
        instead=instead,
    )


def notes(result: Preflight) -> list[str]:
    """Return what a reader of the verdict must not miss: what speaks against the reading, and what was alternatives."""
    if result.question:
        if result.question.endswith("?"):
            return [phrase("Look first: {question}", question=result.question)]
        return [phrase("Look first: {question}.", question=result.question)]
    if not result.doubt:
        return []
    alternatives = join_clauses([_describe(reading, result) for reading in result.alternatives])
    return [
        phrase("Invalid: {doubt}; AUC of the loss {auc}.", doubt=result.doubt, auc=write_area(result.auc)),
        *([phrase("Other readings that were tried: {tried}.", tried=alternatives)] if alternatives else []),
    ]


def _describe(reading: TriedReading, result: Preflight) -> str:
    auc = write_area(reading.auc)
    if reading.fit is None or result.measure != "accuracy":
        return phrase("{name}: AUC {auc}", name=reading.name, auc=auc)
    return phrase("{name}: AUC {auc}, right {share}", name=reading.name, auc=auc, share=f"{reading.fit:.1%}")


def write_area(auc: float | None) -> str:
    return "unknown (one record on a side)" if auc is None else f"{auc:.3f}"


def area(losses: Array, included: Array) -> float | None:
    """Return the AUC of small losses, ties at half; None if a side has one record.

    >>> area(np.array([1.0, 2.0, 3.0, 4.0]), np.array([True, True, False, False]))
    1.0
    """
    if min(included.sum(), (~included).sum()) < 2:
        return None
    return float(roc.auc(-losses[included], -losses[~included]))


def _measure(records: ReadRecords) -> tuple[str, tuple[float | None, float | None, float | None], float | None]:
    """Return the measure, its figures, and how well answers agree with y on members beyond chance, 1 if wholly."""
    included = records.included
    if records.logits is not None and records.labels is not None:
        answers, labels = records.logits.argmax(axis=1), records.labels
        right = answers == labels
        commonest = float(np.bincount(labels[included]).max() / included.sum())
        figures = float(right[included].mean()), float(right[~included].mean()), commonest
        return "accuracy", figures, compare_classes(answers[included], labels[included]).strength
    if records.errors is not None and records.truths is not None:
        truths = records.truths[included]
        spread = float(np.sqrt(((truths - truths.mean(axis=0)) ** 2).mean()))
        sides = [float(np.sqrt((records.errors[side] ** 2).mean())) for side in (included, ~included)]
        return "error", (sides[0], sides[1], spread), 1 - sides[0] ** 2 / spread**2 if spread else None
    if records.hits is not None:
        sides = [float(records.hits[side].mean()) for side in (included, ~included)]
        return "accuracy", (sides[0], sides[1], records.baseline), None
    return "", (None, None, None), None


def _candidates(records: ReadRecords) -> Iterator[_Candidate]:
    if records.errors is not None and records.truths is not None:
        yield _rescale("y in another unit", records, np.asarray(records.truths))
        if records.truths.shape[1] > 1:
            yield _rescale("columns of y in another order", records, _reorder(records.truths, records.errors))
        return
    if records.logits is None or records.labels is None or records.logits.shape[1] > MOST_CLASSES:
        return
    logits, labels, classes = records.logits, records.labels, records.logits.shape[1]
    answers = logits.argmax(axis=1)
    for name, moved_labels in (("labels - 1", labels - 1), ("labels + 1", labels + 1)):
        fits = (moved_labels >= 0) & (moved_labels < classes)
        if 0 < records.included[fits].sum() < fits.sum():
            yield _classes(name, logits[fits], moved_labels[fits], records.included[fits])
    yield _classes("outputs with the other sign", -logits, labels, records.included)
    order = find_order(labels, answers, classes)
    yield _classes("columns in another order", logits, order[labels], records.included)
    yield _classes(_OWN_ANSWER, logits, answers, records.included)


def _read_numbers(records: ReadRecords) -> _Candidate | None:
    """Return 0 and 1 as the numbers of a regression, if one output a record predicts them better than the mean does.

    Logits of a model that gives answers are on both sides of 0, far from these numbers.
    """
    if records.logits is None or records.labels is None or records.logits.shape[1] != 2 or records.logits[:, 0].any():
        return None
    predictions, labels = records.logits[:, 1], records.labels
    if np.mean((predictions - labels) ** 2) > 0.95 * np.var(labels):
        return None
    answers, inside = (predictions > 0.5).astype(np.int64), records.included
    return _Candidate(
        name=_NUMBERS,
        losses=np.abs(predictions - labels),
        included=inside,
        fit=float((answers == labels)[inside].mean()),
        agreement=compare_classes(answers[inside], labels[inside]).strength,
    )


def _classes(name: str, logits: Array, labels: Array, included: Array) -> _Candidate:
    answers = logits.argmax(axis=1)[included]
    return _Candidate(
        name=name,
        losses=cross_entropy(logits, labels),
        included=included,
        fit=float((answers == labels[included]).mean()),
        agreement=compare_classes(answers, labels[included]).strength,
    )


def _reorder(truths: Array, errors: Array) -> Array:
    """Return the columns of y in the order in which they go with predictions best, by correlation of either sign."""
    if truths.shape[1] > MOST_NUMBERS:
        return truths
    return np.asarray(truths[:, order_by_correlation(truths, errors + truths)])


def _rescale(name: str, records: ReadRecords, truths: Array) -> _Candidate:
    """Return y, its columns as in `truths`, on the scale of the predictions, by least squares for each number."""
    errors = np.asarray(records.errors) + np.asarray(records.truths) - truths
    predictions = errors + truths
    deviations = truths - truths.mean(axis=0)
    slopes = (deviations * predictions).sum(axis=0) / np.maximum((deviations**2).sum(axis=0), 1e-300)
    residuals = predictions - predictions.mean(axis=0) - slopes * deviations
    spreads = np.maximum(((slopes * deviations) ** 2).mean(axis=0), 1e-300)
    squares = residuals**2 / spreads
    fit = 1 - float(squares[records.included].mean())
    return _Candidate(name=name, losses=squares.sum(axis=1), included=records.included, fit=max(fit, 0.0), agreement=fit)


def _is_better(reading: _Candidate, agreement: float, count: int) -> bool:
    """True if the reading agrees far better, and members fit it better than nonmembers by more than chance."""
    is_far = agreement < 0.1 if reading.name == _OWN_ANSWER else reading.agreement - max(agreement, 0.0) > FAR
    return is_far and lower_tail(reading.losses, reading.included) < LEVEL / count


def _goes_against_truths(reading: _Candidate, records: ReadRecords) -> bool:
    """True if answers on the members go against y by more than chance, and go with y in this reading."""
    agreement = compare(records, records.included)
    is_below = agreement is not None and agreement.strength < -_REVERSAL_DEVIATIONS * agreement.deviation
    return is_below and reading.name != _OWN_ANSWER and reading.agreement > _REVERSAL


def _is_shifted(reading: _Candidate, records: ReadRecords, agreement: float) -> bool:
    """True if nearly every class is one column off: among six classes or more, no accident of training gives that."""
    if records.logits is None or records.labels is None or records.logits.shape[1] < 6 or len(np.unique(records.labels)) < 6:
        return False
    return reading.name.startswith("labels") and reading.agreement > 0.8 and agreement < 0.1
