"""What was seen of the models of a game, gathered from the jobs that trained them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.core.data import Array
from audit.core.errors import ObservationError
from audit.core.training import Executed
from audit.execution.store import Store
from audit.experiment.job import SIGNAL


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Observations:
    """What was seen of all models of a game, targets first. Signals lie on disk and are read where they are used.

    Attributes:
        signals: `(models, m, ...)` by key: of the canaries, as far as attacks read them.
        diverged: `(models,)` true where a model did not stay finite; its signals are zero.
        test_logits: `(models, n, classes)`; None of models that somebody brought.
        executed: what the trainer did; None likewise.
    """

    signals: Mapping[str, Array]
    diverged: Array
    test_logits: Array | None = None
    executed: Executed | None = None


def gather(keys: Sequence[str], store: Store) -> Observations:
    """The jobs' results as one, models in order; memory holds one job at a time."""
    small = [store.get(key, lambda name: name == "diverged" or name.startswith("executed/")) for key in keys]

    def join(name: str) -> Array:
        missing = [key for key, part in zip(keys, small, strict=True) if name not in part]
        if missing:
            raise ObservationError(f"stored job {missing[0]} lacks '{name}'; another version wrote it, start a new run")
        return np.concatenate([part[name] for part in small])

    whole_run = {"steps": int, "noise_draws": int, "measured": bool}  # the same in every job of a game
    fields: dict[str, Any] = {
        field.name: whole_run[field.name](small[0][f"executed/{field.name}"])
        if field.name in whole_run
        else join(f"executed/{field.name}")
        for field in dataclasses.fields(Executed)
    }
    execution = Executed(**fields)
    non_finite = join("diverged")
    names = store.names(keys[0])
    signals = {
        name.removeprefix(SIGNAL): _whole(name, keys, len(non_finite), store) for name in names if name.startswith(SIGNAL)
    }
    test_logits = _whole("test_logits", keys, len(non_finite), store)
    return Observations(signals=signals, test_logits=test_logits, diverged=non_finite, executed=execution)


def _whole(name: str, keys: Sequence[str], models: int, store: Store) -> Array:
    """`(models, ...)` on disk, filled job by job."""
    whole: Array | None = None
    start = 0
    for key in keys:
        part = store.get(key, name.__eq__).get(name)
        if part is None:
            raise ObservationError(f"stored job {key} lacks '{name}'; another version wrote it, start a new run")
        if whole is None:
            whole = store.scratch(f"{key}-{name.removeprefix(SIGNAL)}", (models, *part.shape[1:]), part.dtype)
        whole[start : start + len(part)] = part
        start += len(part)
    if whole is None:
        raise ObservationError("no job has been stored; start a new run")
    return whole
