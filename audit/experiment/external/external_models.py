"""Models that a third party trained, asked or recorded: what signals read of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attacks.signals._asking import ask_signals
from audit.core import checks
from audit.core.canaries import Canaries
from audit.core.data import Array, Records
from audit.core.errors import ConfigError, DataError
from audit.core.models import Signal
from audit.core.training import Executed
from audit.data.row_containers import RowContainer, read_rows
from audit.experiment.external.label_reading import align_columns, find_class_names, find_estimator_kind, read_labels
from audit.experiment.external.model_answers import Answers, demand_numbers, drop_axes, read_answers
from audit.experiment.external.model_calls import find_column_names, find_query, first_records
from audit.stats.scoring.resolution import error_confidences

_CHANGING = (
    "The target answers the same records differently when asked again: is it in training mode (dropout, batch statistics)?"
)
_COMPANIONS = (
    "The target's answer for a record depends on which others share its batch, so figures depend on it as well: batch "
    "statistics in training mode, or a batch that is not the first axis of what the model takes?"
)
_REPETITIONS = 32
_LEAST_AGREEMENT = 0.7


_AXES = {"logits": "(k, n, classes)", "losses": "(k, n)", "errors": "(k, n, d)"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class References:
    """Models of the same kind as the target, trained on records that their own coins chose.

    Their coins must have been drawn independently of the target's: a bound holds whatever the references are, as long as they
    know nothing of the target's coins. If each record is in a fixed number of models, target included, they give the target's
    coins away, and no epsilon is stated.

    Attributes:
        included: `(k, n)` bool, which of the `n` audited records each model was trained on; columns in the order of the coins
            if records carry an index, else members first, then nonmembers.
        models: `k` models, each a module, a function of arrays or a `Target`; or else
        logits: `(k, n, classes)`, their outputs; or
        losses: `(k, n)`; or
        loss_of: `k` functions, `fn(batch) -> (n,)`, beside a target that is given by its `loss_of`; or
        errors: `(k, n, d)`, predictions less truth of regressions.
    """

    included: Array
    models: Sequence[Any] = ()
    logits: Array | None = None
    losses: Array | None = None
    errors: Array | None = None
    loss_of: Sequence[Callable[[Any], Any]] = ()

    def __post_init__(self) -> None:
        for name in ("models", "loss_of"):
            value = getattr(self, name)
            if not isinstance(value, Sequence) and not hasattr(value, "__len__"):
                raise ConfigError(f"references.{name} is a {type(value).__name__}; expected a list, one for each model")
        if not all(callable(function) for function in self.loss_of):
            raise ConfigError("references.loss_of expects a function for each model, fn(batch) -> (n,)")
        forms = [bool(len(self.models)), bool(len(self.loss_of)), *(getattr(self, name) is not None for name in _AXES)]
        if sum(forms) != 1:
            raise ConfigError(
                f"references are given in {sum(forms)} forms; expected one of models, loss_of, {', '.join(_AXES)}"
            )
        included = np.asarray(self.included)
        if included.ndim != 2 or included.dtype.kind not in "biu" or not np.isin(included, (0, 1)).all():
            raise DataError(
                f"references.included has shape {included.shape} and type {included.dtype}; expected true or false, (k, n): "
                "whether each model was trained on each record"
            )
        object.__setattr__(self, "included", checks.frozen(included, bool))
        for name, axes in _AXES.items():
            array = getattr(self, name)
            if array is not None and (np.ndim(array) != axes.count(",") + 1 or np.shape(array)[:2] != included.shape):
                raise DataError(
                    f"references.{name} has shape {np.shape(array)} beside memberships of shape {included.shape}; expected "
                    f"{axes} with the same k and n"
                )
            if array is not None and np.isnan(np.asarray(array)).any():
                model, record = (int(number) for number in np.argwhere(np.isnan(np.asarray(array)))[0][:2])
                raise DataError(
                    f"references.{name} is NaN for model {model + 1}, column {record + 1} (counted from 1); expected numbers"
                )
        count = len(self.models) or len(self.loss_of)
        if count and count != len(included):
            raise DataError(f"{count} reference models but memberships of {len(included)}; expected as many of each")

    def __len__(self) -> int:
        return len(self.included)

    def of(self, records: Array) -> References:
        arrays = {name: getattr(self, name)[:, records] for name in _AXES if getattr(self, name) is not None}
        return References(included=self.included[:, records], models=self.models, loss_of=self.loss_of, **arrays)

    def answers(self, inputs: Array | RowContainer, labels: Array | None, names: Array | None = None) -> tuple[str, Array]:
        """The form of their answers for these records, and the values `(k, n, ...)`.

        `names` `(classes,)` are the classes of the target's columns, to which theirs are brought. `DataError` without records,
        or if forms differ.
        """
        if len(self.loss_of):
            raise ConfigError("references give loss functions, the target outputs; give its own as audit.check(loss_of=...)")
        if not len(self.models):
            name = next(name for name in _AXES if getattr(self, name) is not None)
            return name, np.asarray(getattr(self, name))
        if labels is None or not (len(inputs) if isinstance(inputs, RowContainer) else inputs.size):
            raise DataError("reference models need the records, inputs and labels; give recorded outputs of them instead")
        answers = [query_model(model, inputs, labels, names) for model in self.models]
        kinds = sorted({f"{answer.form} of shape {answer.values.shape}" for answer in answers})
        if len(kinds) > 1:
            raise DataError(f"reference models answer with {' and '.join(kinds)}; expected the same of all")
        return answers[0].form, np.stack([answer.values for answer in answers])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordedOutputs:
    """N models of which the outputs, or the losses, for `m` records are known: a subject that answers for those alone.

    Attributes:
        logits: `(N, m, classes)`, or None if only `losses` `(N, m)` are known.
        nonmember_medians: `(N, m)`, which confidence nonmembers like each record have, or None if it is not known.
    """

    logits: Array | None = None
    losses: Array | None = None
    nonmember_medians: Array | None = None

    @property
    def released(self) -> frozenset[str]:
        return frozenset({"losses"}) if self.logits is None else frozenset({"labels", "losses", "outputs"})

    @property
    def weights(self) -> Mapping[str, Array]:
        return {}

    @property
    def executed(self) -> Executed | None:
        return None

    def __len__(self) -> int:
        return len(self.logits) if self.logits is not None else len(np.asarray(self.losses))

    def outputs(self, inputs: Array) -> Array:
        if self.logits is None:
            raise DataError("only losses of these models were recorded; their outputs are not known")
        return self.logits

    def own_losses(self, records: Records) -> Array | None:
        return None

    def read(self, signals: Collection[Signal], canaries: Canaries) -> Mapping[str, Array]:
        """Signals of the canaries, by their keys, each with a leading axis of models."""
        if self.logits is None:
            return {signal.key: np.asarray(self.losses) for signal in signals if signal.key == "losses"}
        return ask_signals(signals, self, canaries)


def join(
    target: Answers,
    references: References | None,
    inputs: Array | RowContainer,
    labels: Array | None,
    names: Array | None = None,
) -> RecordedOutputs:
    """The target and its references as one subject, the target first; `DataError` if they show other things of the records."""
    form, values = target.form, target.values[None]
    if references is not None:
        reference_form, reference_values = references.answers(inputs, labels, names)
        if reference_form != form or reference_values.shape[1:] != values.shape[1:]:
            raise DataError(
                f"the target shows {form} of shape {values.shape[1:]}, its references {reference_form} of shape "
                f"{reference_values.shape[1:]}; expected the same of both"
            )
        values = np.concatenate([values, reference_values.astype(values.dtype)])
    if form == "errors":
        return RecordedOutputs(losses=np.logaddexp(0.0, -error_confidences(values)))
    return RecordedOutputs(**{form: values})


def query_model(target: Any, inputs: Array | RowContainer, labels: Array, names: Array | None = None) -> Answers:
    """Return what a module, a function of arrays or a `Target` answers for these records, `labels` being y as it was given.

    `names` `(classes,)` are the classes of the columns that are wanted; None takes the model's own. `DataError` for outputs
    unlike the labels, `ConfigError` for another kind of target.
    """
    kind, query, model_names = find_estimator_kind(target), find_query(target), find_class_names(target)
    names = model_names if names is None else names

    def answer(records: Array | RowContainer) -> Array:
        return drop_axes(align_columns(query(records), model_names, names), labels)

    outputs = answer(inputs)
    if names is model_names and names is not None and len(names) > 2:
        _demand_columns(target, names, outputs, inputs)
    _demand_order(target, query, inputs)
    demand_numbers(outputs, labels)
    if kind == "regressor" and outputs.size == np.size(labels) and np.asarray(labels).dtype.kind in "biuf":
        truths = np.asarray(labels, np.float64)  # whose predictions of 0 and 1, and of whole numbers, are numbers as well
    else:
        truths = read_labels(outputs, labels, names)
    answers = read_answers(outputs, truths)
    remark = _repeat(answer, inputs, outputs)
    return replace(answers, remarks=(*answers.remarks, remark)) if remark else answers


def read_again(target: Any, inputs: Array | RowContainer, labels: Array, truths: Array, names: Array | None) -> Answers:
    """Return what the target answers for other inputs beside the same y, as it was given and as it was read (`truths`)."""
    outputs = align_columns(find_query(target)(inputs), find_class_names(target), names)
    return read_answers(demand_numbers(drop_axes(outputs, labels), labels), truths)


def _demand_columns(target: Any, names: Array, outputs: Array, inputs: Array | RowContainer) -> None:
    """Raise `DataError` unless the columns of an estimator's outputs are its classes, as its own `predict` names them."""
    if outputs.ndim != 2:
        return
    advice = "an SVC gives a column for each class with decision_function_shape='ovr', or with probability=True"
    if outputs.shape[1] != len(names):
        raise DataError(f"the target names {len(names)} classes and gives {outputs.shape[1]} columns; {advice}")
    if hasattr(target, "predict") and isinstance(inputs, np.ndarray):
        answers = np.asarray(target.predict(inputs))
        if answers.size != len(outputs):
            return  # several answers a record, one for each column
        agreement = float(np.mean(names[outputs.argmax(axis=1)] == answers.ravel()))
        if agreement < _LEAST_AGREEMENT:
            raise DataError(
                f"the largest column of the target's outputs is the class that its predict names for only {agreement:.0%} of "
                f"the records, so columns are not classes; {advice}"
            )


def _demand_order(target: Any, query: Callable[[RowContainer], Array], inputs: Array | RowContainer) -> None:
    """Raise `DataError` if an estimator takes columns by their place, and they are in another order than when it was fitted."""
    names = find_column_names(target)
    if not names or not isinstance(inputs, RowContainer):
        return
    batch = inputs.take(np.arange(min(len(inputs), _REPETITIONS)))
    columns = [str(column) for column in getattr(batch, "columns", ())]
    if columns == names or sorted(columns) != sorted(names):
        return
    reference_frame = batch[[batch.columns[columns.index(name)] for name in names]]
    if not np.allclose(query(read_rows(batch, "x")), query(read_rows(reference_frame, "x")), equal_nan=True):
        raise DataError(
            f"the target takes columns by their place, and x has them in another order ({', '.join(columns[:3])}, ...) than it "
            f"was trained on ({', '.join(names[:3])}, ...); give x[list(model.feature_names_in_)]"
        )


def _repeat(answer: Callable[[Array | RowContainer], Array], inputs: Array | RowContainer, outputs: Array) -> str:
    """Ask about some records once more, in another order; return a remark if answers change.

    `DataError` if a record's answer depends on its place in the batch, as if records were steps of one sequence.
    """
    places = np.arange(min(len(inputs), _REPETITIONS))

    def ask(order: Array) -> Array:
        return answer(first_records(inputs, order))

    def are_alike(first: Array, second: Array) -> bool:
        return first.shape == second.shape and np.allclose(first, second, rtol=1e-3, atol=1e-3, equal_nan=True)

    backwards = ask(places[::-1])
    if are_alike(backwards[::-1], outputs[: len(places)]):
        return ""
    forwards = ask(places)
    if not are_alike(forwards, ask(places)):
        return _CHANGING
    if not are_alike(backwards[::-1], forwards):
        raise DataError(
            "the target's answer for a record depends on the record's place in the batch: it takes the first axis for "
            "something else, such as time. Set batch_first=True if it was trained so, or give a function: "
            "lambda x: model(torch.as_tensor(x).swapaxes(0, 1))"
        )
    return _COMPANIONS
