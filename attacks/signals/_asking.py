"""Asking models for signals; what a signal returns is checked, since a third party may have written it."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from audit import plugins
from audit.core.canaries import Canaries
from audit.core.data import Array
from audit.core.models import Signal

_FORM = "an array of numbers (models, canaries, ...), or None if the models have no such thing"


def ask_signals(signals: Iterable[Signal], models: Any, canaries: Canaries) -> dict[str, Array]:
    """Return what each signal reads off the models, by its key, `(N, ...)`, but for those that the models lack."""
    values = {}
    for signal in signals:
        name = f"{type(signal).__module__}:{type(signal).__qualname__}"
        with plugins.foreign_code(f"{name}.read", whole=not plugins.is_own(signal)):
            value: Any = signal.read(models, canaries)
        if value is None:
            continue
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf":
            plugins.refuse_answer(signal, "read", f"a {type(value).__name__}", _FORM)
        if value.shape[:1] != (len(models),):
            plugins.refuse_answer(signal, "read", f"an array {value.shape} for {len(models)} models", _FORM)
        values[signal.key] = value
    return values
