"""What a trained model answers: logits, whatever form it comes in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from audit.core.data import Array
from audit.core.errors import ConfigError, DataError

_LEAST = float(np.finfo(np.float32).tiny)
_FROM_PROBABILITIES = (
    "The target gives probabilities; their logarithms were taken for logits. "
    "Rounding to 0 and 1 hides differences that logits show."
)
_CHANGING = (
    "The target answers the same records differently when asked again: is it in training mode (dropout, batch statistics)?"
)


def observed(target: Any, inputs: Array, labels: Array) -> tuple[Array, list[str]]:
    """Logits `(n, classes)` of a module, a function of arrays or a `Target`, and remarks on how it answered.

    Raises:
        ConfigError: the target is none of these.
        DataError: its outputs are not `(n, classes)`, or too few for the labels.
    """
    query = _query(target)
    found, remarks = _as_logits(query(inputs), labels)
    few = min(len(inputs), 32)
    again, _ = _as_logits(query(inputs[:few]), labels[:few])
    if not np.allclose(again, found[:few], rtol=1e-3, atol=1e-3, equal_nan=True):
        remarks.append(_CHANGING)
    return found, remarks


def _query(target: Any) -> Callable[[Array], Array]:
    if hasattr(target, "logits"):
        return lambda inputs: np.asarray(target.logits(inputs))
    if hasattr(target, "parameters") and hasattr(target, "modules"):
        from audit.engine.inference import ModuleTarget

        return ModuleTarget(module=target).logits
    if callable(target):
        return lambda inputs: np.asarray(target(inputs))
    raise ConfigError(f"the target is a {type(target).__name__}; expected a torch module, a function of arrays, or a Target")


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
    return np.log(np.maximum(outputs.astype(np.float64), _LEAST)), [_FROM_PROBABILITIES]
