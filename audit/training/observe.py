"""What a trained ensemble shows: its outputs for records, and its weights along canary gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from audit.core.errors import DataError, ObservationError
from audit.core.records import Canaries, Records
from audit.core.seeds import Seed
from audit.training.clipping import Clip, Gradients, Rows
from audit.training.device import find_device
from audit.training.gradients import gradients_of
from audit.training.models import initialised

_NUMBERS_AT_ONCE = 1 << 23


def logits(
    spec: Mapping[str, Any],
    weights: Mapping[str, NDArray[Any]],
    inputs: NDArray[Any],
    classes: int,
    *,
    device: str = "cpu",
    batch: int | None = None,
) -> NDArray[np.float32]:
    """The outputs, as `outputs` gives them, of models that must have stayed finite.

    Raises:
        ObservationError: a model's output is not finite; the message names the model.
    """
    made = outputs(spec, weights, inputs, classes, device=device, batch=batch)
    broken = ~np.isfinite(made).all(axis=(1, 2))
    if broken.any():
        named = ", ".join(str(model) for model in np.flatnonzero(broken)[:8])
        raise ObservationError(
            f"{int(broken.sum())} of {len(made)} models give outputs that are not finite (model {named}); "
            "their training diverged: lower the learning rate, or leave them out"
        )
    return made


def outputs(
    spec: Mapping[str, Any],
    weights: Mapping[str, NDArray[Any]],
    inputs: NDArray[Any],
    classes: int,
    *,
    device: str = "cpu",
    batch: int | None = None,
) -> NDArray[np.float32]:
    """`(N, m, classes)` outputs of N models in evaluation mode for `m` records (`classes` 0: one output).

    Args:
        spec: of the model, as given to the trainer.
        weights: parameter name to `(N, ...)`.
        inputs: `(m, ...)`.
        classes: number of classes, 0 for regression.
        device: where to compute.
        batch: records at once; None keeps the inputs of one batch near 32 MB.

    Raises:
        ObservationError: the models have another number of outputs than the data has classes.
    """
    return reader(spec, weights, inputs[:2], classes, device=device, batch=batch)(inputs)


def reader(
    spec: Mapping[str, Any],
    weights: Mapping[str, NDArray[Any]],
    probe: NDArray[Any],
    classes: int,
    *,
    device: str = "cpu",
    batch: int | None = None,
) -> Callable[[NDArray[Any]], NDArray[np.float32]]:
    """`outputs` for models that are asked many times, as a function of inputs `(m, ...)`; `probe`: two records of the kind."""
    models, count = _loaded(spec, weights, probe, classes, device)
    place, size = models.flat.device, max(1, int(np.prod(probe.shape[1:])))
    width = batch or max(1, min(1024, _NUMBERS_AT_ONCE // (size * count)))

    def read(inputs: NDArray[Any]) -> NDArray[np.float32]:
        made = np.empty((count, len(inputs), max(classes, 1)), dtype=np.float32)
        for start in range(0, len(inputs), width):
            piece = torch.from_numpy(np.array(inputs[start : start + width])).to(place, models.flat.dtype)
            folded = piece.unsqueeze(0).expand(count, *piece.shape).flatten(0, 1)
            out = models.forward(folded).view(count, len(piece), -1)
            if out.shape[2] != made.shape[2]:
                raise ObservationError(
                    f"the model has {out.shape[2]} outputs but the data has {classes} classes; adapt the model"
                )
            made[:, start : start + width] = out.float().cpu().numpy()
        return made

    return read


def gradient_norms(
    spec: Mapping[str, Any],
    weights: Mapping[str, NDArray[Any]],
    records: Records,
    classes: int,
    *,
    device: str = "cpu",
) -> NDArray[np.float32]:
    """`(N, m)` l2 norms of each record's loss gradient in all trainable parameters of N models.

    Args:
        spec: of the model, as given to the trainer.
        weights: parameter name to `(N, ...)`.
        records: `m` of them.
        classes: number of classes, 0 for regression.
        device: where to compute.
    """
    models, count = _loaded(spec, weights, records.inputs[:2], classes, device)
    place, size = models.flat.device, max(1, int(np.prod(records.inputs.shape[1:])))
    width = max(1, min(64, _NUMBERS_AT_ONCE // (size * count)))
    scratch = torch.zeros_like(models.flat)
    made = np.empty((count, len(records)), dtype=np.float32)
    for start in range(0, len(records), width):
        piece = torch.from_numpy(np.array(records.inputs[start : start + width])).to(place, models.flat.dtype)
        labels = torch.from_numpy(np.array(records.labels[start : start + width])).to(place)
        rows = Rows(
            inputs=piece.unsqueeze(0).expand(count, *piece.shape).flatten(0, 1),
            labels=(labels if classes else labels.to(models.flat.dtype)).repeat(count),
            mask=torch.ones(count, len(piece), dtype=torch.bool, device=place),
        )
        if models.random:
            models.begin([Seed(0)] * count)
        seen = models.add_sum(rows, Clip(norm=1.0), scratch)
        if seen is None:
            raise ObservationError("the engine gave no gradient norms")
        made[:, start : start + width] = seen.norms.float().cpu().numpy()
    return made


def _loaded(
    spec: Mapping[str, Any], weights: Mapping[str, NDArray[Any]], probe: NDArray[Any], classes: int, device: str
) -> tuple[Gradients, int]:
    """The trained models, ready to be run on `device`, and how many there are."""
    place = find_device(device)
    module = initialised(spec, probe.shape[1:], classes, Seed(0))
    state = {name: torch.from_numpy(np.array(value)).to(place) for name, value in weights.items()}
    models = gradients_of(module, state, torch.from_numpy(np.array(probe)).to(place, _floating(state)))
    return models, next(iter(state.values())).shape[0]


def _floating(state: Mapping[str, torch.Tensor]) -> torch.dtype:
    return next(value.dtype for value in state.values() if value.is_floating_point())


def weight_products(
    initial: Mapping[str, NDArray[Any]], final: Mapping[str, NDArray[Any]], canaries: Canaries
) -> NDArray[np.float32]:
    """`(N, m)` inner product of `initial - final` with each canary's unit gradient.

    A gradient that took part moves the weights against itself, so members score higher. Weights are flattened in
    the order of `initial`, which holds the trainable parameters in the order of `named_parameters`.

    Args:
        initial: weights before the first step, name to `(N, ...)`.
        final: after the last; may hold more.
        canaries: gradient canaries.

    Raises:
        DataError: canaries that are records, or made for another number of parameters.
    """
    moved = np.concatenate(
        [(np.asarray(value, np.float64) - final[name]).reshape(len(value), -1) for name, value in initial.items()], axis=1
    )
    if canaries.coordinates is not None:
        if len(canaries.coordinates) and int(np.max(canaries.coordinates)) >= moved.shape[1]:
            raise DataError(f"canaries '{canaries.kind}' name coordinates beyond the model's {moved.shape[1]} parameters")
        made = moved[:, canaries.coordinates]
    elif canaries.directions is not None:
        if canaries.directions.shape[1] != moved.shape[1]:
            raise DataError(
                f"canaries '{canaries.kind}' have directions of length {canaries.directions.shape[1]} "
                f"but the model has {moved.shape[1]} parameters"
            )
        made = moved @ np.asarray(canaries.directions, np.float64).T
    else:
        raise DataError(f"canaries '{canaries.kind}' are records; they have no direction in parameter space")
    result: NDArray[np.float32] = made.astype(np.float32)
    return result
