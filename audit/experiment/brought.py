"""Models that somebody else trained, asked or recorded: what signals read of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.core import checks
from audit.core.data import Array, Canaries
from audit.core.errors import ConfigError, DataError
from audit.core.models import Signal, Subject
from audit.core.training import Executed

_FEWEST = float(np.finfo(np.float32).tiny)
_FROM_PROBABILITIES = (
    "The target gives probabilities; their logarithms were taken for logits. "
    "Rounding to 0 and 1 hides differences that logits show."
)
_CHANGING = (
    "The target answers the same records differently when asked again: is it in training mode (dropout, batch statistics)?"
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class References:
    """Models of the same kind as the target, trained on records that coins of their own chose.

    Their coins must have been drawn independently of the target's: a bound holds whatever the references are, as long as
    they know nothing of the target's coins. Where each record is in a fixed number of models, target included, they give the
    target's coins away, and no epsilon is stated.

    Attributes:
        included: `(k, n)` bool, which of the `n` audited records each model was trained on; columns in the order of the
            coins where records carry an index, else members first, then nonmembers.
        models: `k` models, each a module, a function of arrays or a `Target`; or else
        logits: `(k, n, classes)`, their outputs; or
        losses: `(k, n)`.
    """

    included: Array
    models: Sequence[Any] = ()
    logits: Array | None = None
    losses: Array | None = None

    def __post_init__(self) -> None:
        forms = [bool(len(self.models)), self.logits is not None, self.losses is not None]
        if sum(forms) != 1:
            raise ConfigError(f"references are given in {sum(forms)} forms; expected one of models, logits and losses")
        included = np.asarray(self.included)
        if included.ndim != 2 or included.dtype.kind not in "biu" or not np.isin(included, (0, 1)).all():
            raise DataError(
                f"references.included has shape {included.shape} and type {included.dtype}; expected true or false, (k, n): "
                "whether each model was trained on each record"
            )
        object.__setattr__(self, "included", checks.frozen(included, bool))
        for name, axes in (("logits", 3), ("losses", 2)):
            array = getattr(self, name)
            if array is not None and (np.ndim(array) != axes or np.shape(array)[:2] != included.shape):
                raise DataError(
                    f"references.{name} has shape {np.shape(array)} beside memberships of shape {included.shape}; expected "
                    f"{'(k, n, classes)' if axes == 3 else '(k, n)'} with the same k and n"
                )
        if self.models and len(self.models) != len(included):
            raise DataError(f"{len(self.models)} reference models but memberships of {len(included)}; expected as many of each")

    def __len__(self) -> int:
        return len(self.included)

    def of(self, records: Array) -> References:
        """The same models on some of the records, by their columns."""
        logits, losses = (None if array is None else array[:, records] for array in (self.logits, self.losses))
        return References(included=self.included[:, records], models=self.models, logits=logits, losses=losses)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordedOutputs:
    """N models of which the outputs, or the losses, for `m` records are known: a subject that answers for those alone.

    Attributes:
        logits: `(N, m, classes)`, or None where only losses are known.
        losses: `(N, m)`, or None.
        nonmember_medians: `(N, m)`, which confidence nonmembers like each record have, or None where it is not known.
    """

    logits: Array | None = None
    losses: Array | None = None
    nonmember_medians: Array | None = None

    @property
    def released(self) -> frozenset[str]:
        """Return what they show."""
        return frozenset({"losses"}) if self.logits is None else frozenset({"labels", "losses", "outputs"})

    @property
    def weights(self) -> Mapping[str, Array]:
        """Nobody knows them."""
        return {}

    @property
    def executed(self) -> Executed | None:
        """Nobody here trained them."""
        return None

    def __len__(self) -> int:
        return len(self.logits) if self.logits is not None else len(np.asarray(self.losses))

    def outputs(self, inputs: Array) -> Array:
        """The recorded outputs, whatever the inputs are."""
        if self.logits is None:
            raise DataError("only losses of these models were recorded; their outputs are not known")
        return self.logits

    def read(self, signals: Collection[Signal], canaries: Canaries) -> Mapping[str, Array]:
        """Signals of the canaries, by their keys, each with a leading axis of models."""
        if self.logits is None:
            return {signal.key: np.asarray(self.losses) for signal in signals if signal.key == "losses"}
        values = {signal.key: signal.read(self, canaries) for signal in signals}
        return {key: value for key, value in values.items() if value is not None}


def join(target: RecordedOutputs, references: References | None, inputs: Array, labels: Array | None) -> RecordedOutputs:
    """The target and its references as one subject, the target first.

    Raises:
        DataError: they do not show the same of the same records.
    """
    if references is None:
        return target
    logits, losses = references.logits, references.losses
    if references.models:
        if labels is None or not inputs.size:
            raise DataError("reference models need the records, inputs and labels; give recorded outputs of them instead")
        logits = np.stack([query_model(model, inputs, labels)[0] for model in references.models])
    target_values, reference_values = (target.logits, logits) if target.logits is not None else (target.losses, losses)
    if target_values is None or reference_values is None or target_values.shape[1:] != reference_values.shape[1:]:
        shape_text = "nothing of that kind" if reference_values is None else f"{reference_values.shape[1:]}"
        raise DataError(
            f"the target shows {'logits' if target.logits is not None else 'losses'} of shape "
            f"{None if target_values is None else target_values.shape[1:]}, its references {shape_text}; expected the same "
            "of both"
        )
    array = np.concatenate([target_values, reference_values.astype(target_values.dtype)])
    return RecordedOutputs(logits=array) if target.logits is not None else RecordedOutputs(losses=array)


def query_model(target: Any, inputs: Array, labels: Array) -> tuple[Array, list[str]]:
    """Logits `(n, classes)` of a module, a function of arrays or a `Target`, and remarks on how it answered.

    Raises:
        ConfigError: the target is none of these.
        DataError: its outputs are not `(n, classes)`, or too few for the labels.
    """
    query = _query(target)
    outputs, remarks = _as_logits(query(inputs), labels)
    sample_size = min(len(inputs), 32)
    again, _ = _as_logits(query(inputs[:sample_size]), labels[:sample_size])
    if not np.allclose(again, outputs[:sample_size], rtol=1e-3, atol=1e-3, equal_nan=True):
        remarks.append(_CHANGING)
    return outputs, remarks


def _query(target: Any) -> Callable[[Array], Array]:
    if hasattr(target, "logits"):
        return lambda inputs: np.asarray(target.logits(inputs))
    if hasattr(target, "outputs") and hasattr(target, "released"):
        return _alone(target)
    if hasattr(target, "parameters") and hasattr(target, "modules"):
        from audit.engine.inference import ModuleTarget

        return ModuleTarget(module=target).logits
    for method in ("predict_proba", "decision_function"):  # of estimators with scikit-learn's interface
        if hasattr(target, method):
            return functools.partial(_estimate, getattr(target, method))
    if callable(target):
        return lambda inputs: np.asarray(target(inputs))
    raise ConfigError(
        f"the target is a {type(target).__name__}; expected a torch module, a function of arrays, an estimator with "
        "predict_proba or decision_function, a Target or a Subject"
    )


def _estimate(method: Callable[[Array], Any], inputs: Array) -> Array:
    """Return `(n, classes)`; a decision between two classes is one number a record, the logit of the second."""
    outputs = np.asarray(method(inputs))
    return np.stack([np.zeros_like(outputs), outputs], axis=1) if outputs.ndim == 1 else outputs


def _alone(subject: Subject) -> Callable[[Array], Array]:
    """The outputs of a subject of one model, such as a trainer of this project gives."""
    if len(subject) != 1:
        raise ConfigError(f"the target holds {len(subject)} models; expected one (`alone(0)` of what a trainer gives is one)")
    return lambda inputs: np.asarray(subject.outputs(inputs))[0]


def _as_logits(outputs: Array, labels: Array) -> tuple[Array, list[str]]:
    """Outputs as logits, with a remark where they were probabilities."""
    if outputs.ndim != 2 or len(outputs) != len(labels) or outputs.shape[1] < 2 or outputs.dtype.kind not in "fiu":
        raise DataError(
            f"the target gives {outputs.dtype} of shape {outputs.shape} for {len(labels)} records; expected logits or "
            f"probabilities, ({len(labels)}, classes)"
        )
    if labels.max() >= outputs.shape[1]:
        first = int(np.argmax(labels))
        raise DataError(
            f"label {labels[first]} of record {first} (members first) is out of range: the target has {outputs.shape[1]} "
            f"classes, 0 .. {outputs.shape[1] - 1}; correct y, or give the right model"
        )
    distribution = outputs.min() >= 0 and np.abs(outputs.sum(axis=1, dtype=np.float64) - 1).max() < 1e-3
    if not distribution:
        return outputs, []
    return np.log(np.maximum(outputs.astype(np.float64), _FEWEST)), [_FROM_PROBABILITIES]
