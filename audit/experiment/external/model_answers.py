"""What a model's outputs say of records with these labels: classes, yes or no, several labels, numbers, or tokens."""

from dataclasses import dataclass, replace

import numpy as np

from audit.core.data import Array
from audit.core.errors import DataError, ObservationError
from audit.core.phrases import phrase
from audit.data.source import numbered
from audit.experiment.external.label_reading import read_labels
from audit.experiment.external.output_scale import (
    are_independent,
    are_ranks,
    are_rounded_up,
    count_classes,
    find_shift,
    find_total,
    score_places,
)
from audit.stats.scoring import signals

_FEWEST = float(np.finfo(np.float32).tiny)
_FROM_PROBABILITIES = (
    "The target gives probabilities; their logarithms were taken for logits. "
    "Rounding to 0 and 1 hides differences that logits show."
)
_FROM_SHARES = "The target's outputs sum to {total} in each row; they were taken for shares of it, that is, for probabilities."
_NEVER_NEGATIVE = (
    "The target's outputs are never negative and their rows have no common sum; they were taken for logits. If they are odds, "
    "distances or rounded probabilities, the figures are not those of the model's loss."
)
_FROM_ODDS = "The target gives odds, p / (1 - p) of each class; they were turned into probabilities."
_OTHER_BASE = "The target gives logarithms of probabilities to the base {base}; they were turned into natural ones."
_TWICE = (
    "The target's outputs look like softmax of probabilities, that is, softmax taken twice: give logits, or take it once; the "
    "figures are those of the outputs as they are."
)
_CUT_OFF = (
    "{share} of the target's logits are {low} or {high}, the least and the largest: they were cut off there, which hides "
    "differences between records. Give them as the model computes them."
)
_TOO_FAR = (
    "The target's logits are up to {gap} apart: losses of confident records are 0 in double precision and equal each other. "
    "Are they multiplied by a constant?"
)
_NEVER_POSITIVE = (
    "The target's outputs are never positive: as logits they answer no for every record. If they are logarithms of "
    "probabilities, give probabilities; the figures are not those of the model's loss."
)
_SHIFTED = (
    "The target's outputs would be probabilities if {shift} were added to each; they were taken for logits. Give "
    "probabilities, or logits; the figures are not those of the model's loss."
)
_RANKS = (
    "Each row of the target's outputs holds the same numbers in another order, as ranks do: how sure the model is of a record "
    "is lost. Give logits or probabilities."
)
_CUT_ROWS = (
    "Each row of the target's outputs has {kept} of {count} classes above 0, as if the others had been cut off: all records "
    "whose class was cut off have one loss. Give the probabilities of all classes."
)
_UNEVEN = "The target's probabilities sum to up to {sum} in a row, as rounding gives; each row was divided by its sum."
_ODDS_ERROR = 1e-3
_BASES, _BASE_ERROR = (2.0, 10.0), 0.04  # logarithms rounded to one digit
_SHARE, _FEW_VALUES = 0.05, 20
_FARTHEST = 700.0  # exp of its negative is 0 in double precision
_ONE_OUTPUT = "The target gives one number a record; it was taken for the {form} of class 1 against class 0."
_REGRESSION = (
    "The target gives numbers and y holds no classes: a regression. Attacks compare the logarithm of the squared error, which "
    "is the same in every unit up to a constant."
)
_COLUMNS = "Of several numbers a record, the squared error of each is divided by its mean over all records, then added up."
_SEVERAL = "y holds several labels a record; attacks compare the binary cross-entropy, added up over labels."
_MASKS = "y holds a class for each place; attacks compare the mean cross-entropy over those that are predicted."
_TOKENS = "y holds tokens; attacks compare the mean cross-entropy over those that are predicted (labels of 0 or above)."


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answers:
    """One model's outputs in the form that attacks read, exactly one of:

    Attributes:
        logits: `(n, classes)`.
        losses: `(n,)`, in nats.
        errors: `(n, d)`, prediction less truth of a regression, in any unit.
        remarks: on how they were read.
        labels: y as it was read beside them; None if no one gave it.
        hits: `(n,)` share of several labels, or tokens, that are answered right; None for classes and numbers.
        choices: `(n, labels)` zeros and ones, the answers to several labels; or None.
    """

    logits: Array | None = None
    losses: Array | None = None
    errors: Array | None = None
    remarks: tuple[str, ...] = ()
    labels: Array | None = None
    hits: Array | None = None
    choices: Array | None = None

    @property
    def form(self) -> str:
        return next(name for name in ("logits", "losses", "errors") if getattr(self, name) is not None)

    @property
    def are_several(self) -> bool:
        return _SEVERAL in self.remarks

    @property
    def reading(self) -> str:
        if self.logits is not None:
            source = "probabilities" if _FROM_PROBABILITIES in self.remarks else "logits"
            return phrase("outputs are {form} of {count} classes, y holds classes", form=source, count=self.logits.shape[-1])
        if self.errors is not None:
            return "outputs are numbers, y holds numbers"
        if self.are_several:
            return "outputs have a score for each label, y holds several labels"
        if _MASKS in self.remarks:
            return "outputs have a score for each class at each place, y holds masks"
        if _TOKENS in self.remarks:
            return "outputs are logits of tokens, y holds tokens"
        return "losses were given"

    def baseline(self, included: Array) -> float | None:
        """Return the share of several labels, or of tokens, that always naming the commonest gets right on members."""
        if self.hits is None or self.labels is None:
            return None
        labels = self.labels[included]
        if self.are_several:
            shares = labels.reshape(len(labels), -1).mean(axis=0)
            return float(np.maximum(shares, 1 - shares).mean())
        tokens = labels[labels >= 0]
        return float(np.bincount(tokens).max() / len(tokens))

    @property
    def values(self) -> Array:
        return np.asarray(getattr(self, self.form))


def read_outputs(outputs: Array, labels: Array) -> Answers:
    """Outputs of a model for records with these labels, or `DataError` with the shapes that fit.

    Args:
        outputs: `(n, classes)` logits or probabilities; `(n,)` or `(n, 1)`, the logit or probability of class 1, or a
            prediction; `(n, labels)` for several yes or no labels; `(n, tokens, vocabulary)`.
        labels: as `read_labels` takes them, or as it gives them.
    """
    outputs = drop_axes(demand_numbers(outputs, labels), labels)
    return read_answers(outputs, read_labels(outputs, labels))


def read_answers(outputs: Array, labels: Array) -> Answers:
    """Return the same of labels that `read_labels` gave."""
    answers = _read(outputs, labels)
    return replace(answers, labels=labels)


def _read(outputs: Array, labels: Array) -> Answers:
    if labels.dtype.kind == "f":
        return _regression(outputs, labels)
    has_yes_or_no = labels.ndim > 2 and labels.size == outputs.size and np.isin(labels, (0, 1)).all()
    if labels.ndim >= 2 and outputs.ndim == labels.ndim + 1 and not has_yes_or_no:
        losses, hits, remarks = score_places(outputs, labels)  # a class for each token or pixel
        return Answers(losses=losses, remarks=(_TOKENS if labels.ndim == 2 else _MASKS, *remarks), hits=hits)
    if labels.ndim >= 2:
        return _several_labels(outputs, labels)
    if outputs.ndim == 1 or (outputs.ndim == 2 and outputs.shape[1] == 1):
        return _single(outputs.reshape(len(labels)), labels)
    return _classes(outputs, labels)


def drop_axes(outputs: Array, labels: Array) -> Array:
    """Return outputs without axes of a single entry, `(n, k)`, if one axis at most has several and y has one such as well."""
    several = [[size for size in array.shape[1:] if size > 1] for array in (outputs, np.asarray(labels))]
    is_plain = outputs.ndim < 3 or max(map(len, several)) > 1 or not outputs.size
    return outputs if is_plain else outputs.reshape(len(outputs), -1)


def demand_numbers(outputs: Array, labels: Array) -> Array:
    """Return outputs, or raise `DataError` unless they are numbers for these records."""
    fits = outputs.ndim in range(1, 6) and len(outputs) == len(labels) and outputs.size and outputs.dtype.kind in "fiu"
    if not fits:
        is_second = outputs.ndim > 1 and outputs.shape[1] == len(labels)
        advice = "; its records are the second axis, so give a function: lambda x: model(x).swapaxes(0, 1)" * is_second
        raise DataError(
            f"the target gives {outputs.dtype} of shape {outputs.shape} for {len(labels)} records; expected logits or "
            f"probabilities, ({len(labels)}, classes), or one number a record{advice}"
        )
    return outputs


def _classes(outputs: Array, labels: Array) -> Answers:
    if outputs.ndim != 2:
        raise DataError(
            f"the target gives outputs of shape {outputs.shape} for y of shape {labels.shape}; expected logits or "
            f"probabilities, ({len(labels)}, classes), or y with a token for each of {outputs.shape[1]} places"
        )
    if labels.max() >= outputs.shape[1]:
        first = int(np.argmax(labels))
        raise DataError(
            f"label {labels[first]} of {numbered(first)}, members first, is out of range: the target has "
            f"{outputs.shape[1]} classes, 0 .. {outputs.shape[1] - 1}; correct y, or give the right model"
        )
    shares, further_remarks = _find_shares(outputs)
    further_remarks += _find_lost_scale(outputs)
    _refuse_masks(shares)
    total = find_total(shares)
    if total is not None:
        remarks = (_FROM_PROBABILITIES,) if total == 1 else (phrase(_FROM_SHARES, total=f"{total:g}"), _FROM_PROBABILITIES)
        logits = _logarithms(shares / total)
        twice = (_TWICE,) if _is_softmax_twice(logits) else ()
        return Answers(logits=logits, remarks=(*further_remarks, *remarks, *twice))
    if are_independent(outputs):
        sums = outputs.sum(axis=1, dtype=np.float64)
        raise DataError(
            f"the target's outputs lie between 0 and 1 and their rows sum to {sums.min():.3g} to {sums.max():.3g}: neither "
            f"logits nor probabilities of one class each. Give logits; or, of a probability for each class on its own "
            f"(sigmoid), y of shape {outputs.shape} with zeros and ones"
        )
    is_strange = shares.min() >= 0 and not (shares == shares[0]).all()
    return Answers(logits=shares, remarks=further_remarks + ((_NEVER_NEGATIVE,) if is_strange else ()) + _find_ends(shares))


def _find_shares(outputs: Array) -> tuple[Array, tuple[str, ...]]:
    """Return odds, and logarithms with minus infinity, as probabilities, logarithms of a base as natural ones; or outputs."""
    if outputs.max() <= 0 and not np.isnan(outputs).any():
        values = outputs.astype(np.float64)
        probabilities = np.exp(values).round(12)  # equal shares stay equal
        is_natural = find_total(probabilities) == 1
        if is_natural and np.isneginf(outputs).any():
            return probabilities, ()
        for base in () if is_natural or (values == values[0]).all() else _BASES:
            if np.abs((base**values).sum(axis=1) - 1).max() < _BASE_ERROR:
                return values * np.log(base), (phrase(_OTHER_BASE, base=f"{base:g}"),)
    if outputs.min() >= 0 and np.isfinite(outputs).all() and find_total(outputs) is None:
        values = outputs.astype(np.float64)
        odds_shares = values / (1 + values)
        if np.abs(odds_shares.sum(axis=1) - 1).max() < _ODDS_ERROR:
            return odds_shares, (_FROM_ODDS,)
        sums = values.sum(axis=1, keepdims=True)
        if are_rounded_up(sums):
            return values / sums, (phrase(_UNEVEN, sum=f"{sums.max():.3g}"),)
    return outputs, ()


def _find_no(logits: Array, labels: Array) -> tuple[str, ...]:
    """Return a remark on logits that answer no everywhere although y holds both answers."""
    return (_NEVER_POSITIVE,) if logits.max() <= 0 and labels.any() and not (logits == logits[0]).all() else ()


def _find_lost_scale(logits: Array) -> tuple[str, ...]:
    """Return a remark on outputs that only keep the order of the classes, or are probabilities less a constant."""
    if are_ranks(logits):
        return (_RANKS,)
    count, shift = count_classes(logits), find_shift(logits)
    if count:
        return (phrase(_CUT_ROWS, kept=count, count=logits.shape[1]),)
    return () if shift is None else (phrase(_SHIFTED, shift=f"{shift:.3g}"),)


def _find_ends(logits: Array) -> tuple[str, ...]:
    """Return a remark on logits of which many are the least or the largest, or that are too far apart for losses."""
    ends = [float(logits.min()), float(logits.max())]
    share = float(np.isin(logits, ends).mean())
    if share > _SHARE and len(np.unique(logits)) > _FEW_VALUES:
        return (phrase(_CUT_OFF, share=f"{share:.0%}", low=f"{ends[0]:.6g}", high=f"{ends[1]:.6g}"),)
    return (phrase(_TOO_FAR, gap=f"{ends[1] - ends[0]:.6g}"),) if ends[1] - ends[0] > _FARTHEST else ()


def _is_softmax_twice(logits: Array) -> bool:
    """Return whether logarithms of probabilities, `(n, classes)`, are themselves probabilities, some near 0 and 1."""
    inner = logits - logits.mean(axis=1, keepdims=True) + 1 / logits.shape[1]
    return bool(-1e-3 < inner.min() < 0.01 and 0.99 < inner.max() < 1 + 1e-3)


def _refuse_masks(outputs: Array) -> None:
    """Raise `DataError` for classes that are ruled out by a logit of minus infinity."""
    masks = np.isneginf(outputs)
    if not masks.any():
        return
    record, column = (int(number) for number in np.argwhere(masks)[0])
    always = np.flatnonzero(masks.all(axis=0)).tolist()
    advice = (
        f"leave out the classes {always[:10]}, which no record can have" if always else "answer with a finite number, as -1e4"
    )
    raise DataError(
        f"the target's logit of class {column} for {numbered(record)} is minus infinity ({int(masks.sum())} such logits): a "
        f"masked class has no confidence to compare; {advice}"
    )


def _single(outputs: Array, labels: Array) -> Answers:
    """One number a record, of class 1 against class 0."""
    if labels.max() > 1:
        raise DataError(
            f"the target gives {outputs.dtype} of shape {outputs.shape} for {len(labels)} records of classes 0 to "
            f"{labels.max()}; expected logits or probabilities, ({len(labels)}, {labels.max() + 1}); for a regression give "
            "y as real numbers"
        )
    positive = outputs.astype(np.float64)
    if positive.min() >= 0 and positive.max() > 1 and len(positive) > 1:
        raise DataError(
            f"the target gives one number a record, from {positive.min():.4g} to {positive.max():.4g}, never negative: neither "
            "a logit, whose sign is the answer, nor a probability; give the probability of class 1 from 0 to 1 (percentages "
            "divided by 100), or the logit"
        )
    if positive.min() < 0 or positive.max() > 1:
        logits = np.stack([np.zeros_like(positive), positive], axis=1)
        one, pair = phrase(_ONE_OUTPUT, form="logit"), np.stack([-positive, positive], axis=1)
        return Answers(
            logits=logits, remarks=(one, *_find_no(positive, labels), *_find_lost_scale(pair), *_find_ends(positive))
        )
    pair = np.stack([1 - positive, positive], axis=1)
    return Answers(logits=_logarithms(pair), remarks=(phrase(_ONE_OUTPUT, form="probability"), _FROM_PROBABILITIES))


def _regression(outputs: Array, labels: Array) -> Answers:
    truth = labels.reshape(len(labels), -1).astype(np.float64)
    predictions = outputs.reshape(len(outputs), -1).astype(np.float64)
    shapes = [[size for size in array.shape[1:] if size > 1] for array in (outputs, labels)]
    if shapes[0] != shapes[1]:
        raise DataError(
            f"the target gives outputs of shape {outputs.shape} for numbers y of shape {labels.shape}; expected the same "
            "shape: one prediction for each number (for classes, give y as integers 0, 1, 2, ...; for axes in another order "
            "give a function: lambda x: model(x).swapaxes(1, 2))"
        )
    if not np.isfinite(predictions).all():
        first = int(np.argmin(np.isfinite(predictions).all(axis=1)))
        raise ObservationError(
            f"the target's prediction for {numbered(first)} is {predictions[first].max():g}; expected finite numbers of all "
            f"{len(predictions)} records (has its training diverged?)"
        )
    errors = predictions - truth
    if len(errors) > 1 and (predictions == predictions[0]).all():
        errors = np.zeros_like(errors)  # one answer for all says nothing of any record
    return Answers(errors=errors, remarks=(_REGRESSION, _COLUMNS) if errors.shape[1] > 1 else (_REGRESSION,))


def _several_labels(outputs: Array, labels: Array) -> Answers:
    is_same = outputs.shape == labels.shape or (labels.ndim > 2 and outputs.size == labels.size)
    if not is_same or not np.isin(labels, (0, 1)).all():
        raise DataError(
            f"the target gives outputs of shape {outputs.shape} for whole numbers y of shape {labels.shape}; expected one "
            "logit or probability for each label, which is 0 or 1, or (n, tokens, vocabulary) for tokens"
        )
    labels = labels.reshape(len(labels), -1)
    values = outputs.reshape(labels.shape).astype(np.float64)
    remarks = [_SEVERAL]
    if values.min() >= 0 and values.max() <= 1:
        values = _logarithms(values) - _logarithms(1 - values)
        remarks.append(_FROM_PROBABILITIES)
    else:
        remarks += _find_no(values, labels)
    choices = values > 0
    hits = (choices == (labels == 1)).mean(axis=1)
    losses = signals.binary_cross_entropy(values, labels)
    return Answers(losses=losses, remarks=tuple(remarks), hits=hits, choices=choices.astype(np.float64))


def _logarithms(probabilities: Array) -> Array:
    return np.asarray(np.log(np.maximum(probabilities.astype(np.float64), _FEWEST)))
