"""How a given model is asked: a module, an estimator, a function or a `Target`, with arrays or records in their own form."""

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from audit import plugins
from audit.core.data import Array
from audit.core.errors import AuditError, ConfigError, DataError
from audit.core.models import Subject
from audit.data import loaders
from audit.data.row_containers import RowContainer, describe

BATCH = 256
_COLUMN_NAMES = ("feature_names_in_", "feature_names_", "feature_names")  # of scikit-learn, CatBoost, XGBoost's boosters
_GIVEN_NAME = re.compile(r"(Column_|f)?\d+")
_METHODS = ("predict_proba", "decision_function", "inplace_predict", "predict")  # the third is of XGBoost's boosters


def find_query(target: Any) -> Callable[[Array | RowContainer], Array]:
    """Return what gives the target's outputs for records, `DataError` if they are no numbers; `ConfigError` if its kind is
    unknown, and for all that the user's function raises.
    """
    if hasattr(target, "logits"):
        return _whole_or_batches(lambda batch: np.asarray(in_either_type(target.logits, batch)))
    if hasattr(target, "outputs") and hasattr(target, "released"):
        return _whole_or_batches(_alone(target))
    if hasattr(target, "parameters") and hasattr(target, "modules"):
        from audit.engine.read.inference import ModuleTarget

        return functools.partial(_ask_module, ModuleTarget(module=target))
    method = next((method for method in _METHODS if hasattr(target, method)), None)
    if method is not None:
        name, read = f"{type(target).__name__}.{method}", _predict if method.endswith("predict") else _estimate
        function = functools.partial(call_named, getattr(target, method), name=name)
        return _whole_or_batches(lambda batch: read(function, batch, name))
    if callable(target):
        name = f"the target's function {_qualname(target)}"
        return _whole_or_batches(lambda batch: read_result(call_named(target, batch, name), name))
    advice = "; load a file first, as joblib.load(path), or audit it by the command `audit model`"
    advice *= isinstance(target, str | Path | bytes)
    raise ConfigError(
        f"the target is a {type(target).__name__}; expected a torch module, a function of arrays, an estimator with "
        f"predict_proba, decision_function or predict, a Target or a Subject{advice}"
    )


def first_records(records: Array | RowContainer, places: Array) -> Array | RowContainer:
    return records.select(places) if isinstance(records, RowContainer) else records[places]


def call_named(function: Callable[..., Any], batch: Any, name: str) -> Any:
    """Return what a function of the user's gives for a batch; whatever it raises becomes a `ConfigError` with its arguments.

    A tuple or a dictionary is handed over as arguments if the function's parameters say so; of a frame of numbers the array is
    tried if the function does not take the frame and its model knows no names of columns, and float32 if it takes no other.
    """
    try:
        return call_with_parts(function, batch)
    except AuditError:
        raise
    except Exception as error:  # whatever a user's function raises is reported with what it was given
        numbers = None if find_column_names(function) else _frame_numbers(batch)
        numbers = _round_numbers(batch) if numbers is None else numbers
        if numbers is not None:
            return call_named(function, numbers, name)
        hint = "; where a model takes a table, give x as pd.DataFrame(x)" * isinstance(batch, Mapping)
        hint += "; the last part of members is y: leave out weights" * isinstance(batch, tuple)
        raise _report(name, (batch,), error, f"logits, probabilities or numbers, one row a record{hint}") from error


def find_column_names(model: Any) -> list[str]:
    """Return the names of the columns of x that an estimator, or a bound method's, was trained on; none that a library gave."""
    owner = getattr(model, "__self__", model)
    for attribute in _COLUMN_NAMES:
        names = getattr(owner, attribute, None)
        if isinstance(names, np.ndarray | list) and len(names):
            texts = [str(name) for name in names]
            return [] if all(_GIVEN_NAME.fullmatch(text) for text in texts) else texts
    return []


def call_argument(function: Callable[..., Any], arguments: tuple[Any, ...], name: str, expectation: str) -> Any:
    """Return what a user's function gives; what it raises becomes a `ConfigError` with the argument's `name` and its input."""
    try:
        return function(*arguments)
    except AuditError:
        raise
    except Exception as error:  # as above
        raise _report(f"{name}, the function {_qualname(function)},", arguments, error, expectation) from error


def _report(name: str, arguments: tuple[Any, ...], error: Exception, expectation: str) -> ConfigError:
    inputs = ", ".join(map(describe, arguments))
    return ConfigError(f"{name} was given {inputs} and raised {plugins.explain(error)}; expected {expectation}")


def _qualname(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))


def call_with_parts(function: Callable[..., Any], batch: Any, *, is_module: bool = False) -> Any:
    """Call with the parts of a tuple or a dictionary as arguments, if the parameters take them so, else with the whole.

    `DataError` if a dictionary has entries that parameters named like the others do not take.
    """
    if not isinstance(batch, tuple | Mapping):
        return function(batch)
    try:
        parameters = inspect.signature(getattr(function, "forward", function)).parameters.values()
    except (TypeError, ValueError):  # of builtin functions nothing is known
        return function(batch)
    in_both = inspect.Parameter.POSITIONAL_OR_KEYWORD
    by_position = [row for row in parameters if row.kind in (in_both, row.POSITIONAL_ONLY)]
    if isinstance(batch, tuple):
        required_count = sum(parameter.default is parameter.empty for parameter in by_position)
        is_open = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters)
        has_places = is_open or len(batch) <= len(by_position)
        is_apart = has_places and (len(batch) == 1 or is_module or is_open or required_count > 1)
        return function(*batch) if is_apart else function(batch)
    names = {row.name for row in parameters if row.kind in (in_both, row.KEYWORD_ONLY)}
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters) and (names & set(batch) or not by_position):
        return function(**batch)
    unknown_keys = [key for key in batch if key not in names]
    if names & set(batch) and unknown_keys:
        raise DataError(
            f"the model takes {', '.join(sorted(names & set(batch)))} by name, and the records also have "
            f"{', '.join(map(repr, unknown_keys))}; leave them out of members and nonmembers, or give a function of the "
            "dictionary: lambda batch: ..."
        )
    return function(**batch) if not unknown_keys else function(batch)


def read_result(result: Any, name: str) -> Array:
    """Outputs as an array: of a tensor, array, frame, object with `.logits`, or one of these alone; `DataError` for others."""
    if isinstance(result, Mapping) and "logits" in result:
        result = result["logits"]
    result = getattr(result, "logits", result)
    if isinstance(result, tuple | Mapping) and len(result) == 1:
        result = next(iter(result.values())) if isinstance(result, Mapping) else result[0]
    if isinstance(result, tuple | Mapping):
        key = repr(next(iter(result))) if isinstance(result, Mapping) and result else "0"
        raise DataError(
            f"{name} gives {describe(result)}; expected one array. Give the part that answers y, lambda x: model(x)[{key}], "
            "and y of that part, or the loss of all of them: audit.check(loss_of=fn, members=..., nonmembers=...)"
        )
    if isinstance(result, list) and result and hasattr(result[0], "shape") and result[0].shape:
        result = np.stack([loaders.array(row) for row in result])
    try:
        return loaders.array(result)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(f"{name} gives {describe(result)}; expected numbers, one row a record: {error}") from error


def _whole_or_batches(function: Callable[[Any], Array]) -> Callable[[Array | RowContainer], Array]:
    """Return what asks about an array as a whole, and about other records in batches."""

    def ask(records: Array | RowContainer) -> Array:
        if not isinstance(records, RowContainer):
            return function(records)
        starts = range(0, len(records), BATCH)
        parts = []
        for start in starts:
            places = np.arange(start, min(start + BATCH, len(records)))
            batch = records.take(places)
            part = np.asarray(function(batch))
            if part.ndim == 0 or len(part) != len(places):
                raise DataError(
                    f"the target gives outputs of shape {part.shape} for {describe(batch)}, {len(places)} records; expected "
                    f"one row a record, ({len(places)}, ...)"
                )
            parts.append(part)
        return np.concatenate(parts)

    return ask


def _ask_module(target: Any, records: Array | RowContainer) -> Array:
    if not isinstance(records, RowContainer):
        return np.asarray(target.logits(records))

    def ask(batch: Any) -> Array:
        return np.asarray(target.logits_of_parts(batch, functools.partial(call_with_parts, is_module=True)))

    return _whole_or_batches(ask)(records)


def _frame_numbers(batch: Any) -> Array | None:
    """Return a frame of finite numbers as an array `(k, columns)`; None for anything else."""
    if not (hasattr(batch, "iloc") and hasattr(batch, "columns")) or any(kind.kind not in "biuf" for kind in batch.dtypes):
        return None
    numbers = batch.to_numpy(dtype=np.result_type(*batch.dtypes, np.float32))
    return numbers if np.isfinite(numbers).all() else None


def _round_numbers(batch: Any) -> Array | None:
    """Return an array of other real numbers as float32, which many models of torch take alone; None for anything else."""
    has_numbers = isinstance(batch, np.ndarray) and batch.dtype.kind == "f" and batch.dtype != np.float32
    return batch.astype(np.float32) if has_numbers else None


def in_either_type(function: Callable[[Any], Any], batch: Any, is_worth: Callable[[Exception], bool] = lambda _: True) -> Any:
    """Return what a function of the user's gives for a batch as it is, or as float32 if it does not take that.

    Args:
        is_worth: whether after this error a second call is.
    """
    try:
        return function(batch)
    except AuditError:
        raise
    except Exception as error:  # whatever the user's code raises on float64, as torch does
        numbers = _round_numbers(batch)
        if numbers is None or not is_worth(error):
            raise
        return function(numbers)


def _estimate(method: Callable[[Any], Any], inputs: Any, name: str) -> Array:
    """Return `(n, classes)`; a decision between two classes is one number a record, the logit of the second."""
    outputs = method(inputs)
    if isinstance(outputs, list):  # `predict_proba` of several yes or no labels: a pair of columns for each
        sizes = [np.asarray(label).shape[-1] for label in outputs]
        if set(sizes) != {2}:
            raise DataError(
                f"{name} gives {' and '.join(map(str, sizes))} classes of {len(sizes)} answers; expected two of each, no and "
                "yes. Audit one answer at a time: lambda x: model.predict_proba(x)[0] beside y[:, 0]"
            )
        return np.stack([np.asarray(label)[:, -1] for label in outputs], axis=1)
    outputs = read_result(outputs, name)
    return np.stack([np.zeros_like(outputs), outputs], axis=1) if outputs.ndim == 1 else outputs


def _predict(method: Callable[[Any], Any], inputs: Any, name: str) -> Array:
    """Return the numbers that a regressor predicts, `(n,)` or `(n, d)`."""
    result = method(inputs)
    outputs = read_result(result, name)
    if outputs.dtype.kind != "f":
        columns = f" with the columns {', '.join(map(str, result.columns))}" if hasattr(result, "columns") else ""
        raise DataError(
            f"the target's predict gives {outputs.dtype}{columns}, that is, classes; expected predict_proba or "
            "decision_function of a classifier, or the real numbers of a regressor (of a frame its columns of scores: "
            "lambda x: model.predict(x)[['score_0', 'score_1']])"
        )
    return outputs


def _alone(subject: Subject) -> Callable[[Array], Array]:
    if len(subject) != 1:
        raise ConfigError(f"the target holds {len(subject)} models; expected one (`alone(0)` of what a trainer gives is one)")
    return lambda inputs: np.asarray(in_either_type(subject.outputs, inputs))[0]
