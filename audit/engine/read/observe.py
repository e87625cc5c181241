"""What a trained ensemble shows: its outputs for records, and its weights along canary gradients."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from audit import plugins
from audit.core.canaries import Canaries, CoordinateGradients, DirectionGradients
from audit.core.data import Records
from audit.core.errors import ConfigError, DataError, ObservationError
from audit.core.models import Reduction, Representations
from audit.core.seeds import Seed
from audit.engine.device import find_device, one_precision
from audit.engine.gradients.clipping import Clip, Rows
from audit.engine.gradients.dispatch import model_gradients
from audit.engine.gradients.per_model_loop import LoopGradients
from audit.engine.layers.layers import LinearLayer
from audit.engine.losses import USUAL, RecordLoss, input_tensor, label_tensor
from audit.engine.trial.foreign_streams import draws_in_evaluation
from audit.engine.trial.model_source import ModelSource
from audit.stats.scoring import signals
from audit.stats.scoring.representation import class_distances

_MOST_NUMBERS = 1 << 23
# numbers that are kept of wider layers: a random map keeps lengths and distances within some 4 % (one standard deviation)
_COLUMNS, _DRAWING_BATCH = 256, 64


class EnsembleReader:
    """N trained models on their device, loaded once and asked as often as wanted; `weights` are parameter name to `(N, ...)`.

    Args:
        probe: two records of the kind that will be asked about, `(2, ...)`.
        outputs: of a model for one record; 0 means 1. A loss of a user's own (`loss`) takes what there is.
        batch: records at once; None keeps the inputs of one batch near 32 MB.
        source: of the models before their training, in the order of `weights`. Without it the weights have to be all that one
            model its own has: drawn values outside of parameters and buffers are a `ConfigError`.
    """

    def __init__(
        self,
        spec: Mapping[str, Any],
        weights: Mapping[str, NDArray[Any]],
        probe: NDArray[Any],
        outputs: int,
        *,
        device: str = "cpu",
        batch: int | None = None,
        loss: RecordLoss = USUAL,
        source: ModelSource | None = None,
    ) -> None:
        place = find_device(device)
        origin = source or ModelSource(
            spec=spec, shape=probe.shape[1:], outputs=outputs, seeds=(Seed(0),), probe=input_tensor(probe, torch.float32)
        )
        module = origin.make(0)
        with plugins.foreign_code("an answer of trained models", whole=False):
            apart = origin.apart
        if source is None and apart is not None:
            raise ConfigError(f"weights alone do not make these models: {apart}; make it a buffer (register_buffer)")
        own = [origin.make(model) for model in range(len(origin.seeds))] if apart is not None else []
        state = {name: torch.from_numpy(np.array(value)).to(place) for name, value in weights.items()}
        floating = next(value.dtype for value in state.values() if value.is_floating_point())
        records = input_tensor(probe, floating).to(place)
        with plugins.foreign_code("an answer of trained models", whole=False):
            example = input_tensor(probe, torch.float32)
            draws = any(draws_in_evaluation(original, example) for original in own or [module])
            self._models = model_gradients(module, state, records, draws=draws, own=own)
        self._modules = self._models.modules if isinstance(self._models, LoopGradients) else [self._models.module]
        self._count = next(iter(state.values())).shape[0]
        self._outputs, self._probe, self._loss = max(outputs, 1), probe, loss
        size = max(1, int(np.prod(probe.shape[1:])))
        self._fitting = max(1, _MOST_NUMBERS // (size * self._count))
        # draws of a batch depend on its rows, which must not depend on how many models there are
        self._batch = batch or (_DRAWING_BATCH if draws else min(1024, self._fitting))

    def outputs(self, inputs: NDArray[Any]) -> NDArray[np.float32]:
        """`(N, m, outputs)` in evaluation mode for `m` records; several axes of outputs as one.

        `ObservationError` if the models have another number of outputs than the data asks for.
        """
        width = self._outputs if self._loss is USUAL else self._forward(self._probe).shape[2]
        values = np.empty((self._count, len(inputs), width), dtype=np.float32)
        for part, out in self._part_outputs(inputs, width):
            values[:, part] = out
        return values

    def reduce_outputs(self, reductions: Sequence[Reduction], records: Records) -> dict[str, NDArray[Any]]:
        """The reductions of the outputs `(N, m)`, by key, of which one batch is held at a time; errors as of `outputs`."""
        return reduce_parts(reductions, self._part_outputs(records.inputs, self._outputs), records)

    def _part_outputs(self, inputs: NDArray[Any], width: int) -> Iterator[tuple[slice, NDArray[np.float32]]]:
        """`(N, rows, width)` of one batch after the other, with the place of its rows."""
        for part in _parts(len(inputs), self._batch):
            out = self._forward(inputs[part])
            if out.shape[2] != width:
                raise ObservationError(
                    f"the model has {out.shape[2]} outputs but the data has {width} classes; adapt the model"
                )
            yield part, out.float().cpu().numpy()

    def losses(self, records: Records) -> NDArray[np.float64]:
        """`(N, m)` losses in evaluation mode, by the function that the models were trained by."""
        values = np.empty((self._count, len(records)), dtype=np.float64)
        for part in _parts(len(records), self._batch):
            flat_inputs, rows = self._fold(records.inputs[part])
            place = flat_inputs.device
            foreign = plugins.foreign_code("an answer of trained models, or its loss", whole=False)
            with torch.no_grad(), one_precision(place), foreign:
                outputs = self._models.forward(flat_inputs)
                losses = self._loss.values(outputs, self._labels(records.labels[part]))
            values[:, part] = losses.view(self._count, rows).double().cpu().numpy()
        return values

    def _labels(self, labels: NDArray[Any]) -> torch.Tensor:
        """Labels of one batch for each model, `(N * rows, ...)`."""
        values = label_tensor(labels, self._models.flat.dtype).to(self._models.flat.device)
        return values.repeat(self._count, *(1,) * (values.dim() - 1))

    def gradient_norms(self, records: Records) -> NDArray[np.float32]:
        """`(N, m)` l2 norms of each record's loss gradient in all trainable parameters."""
        models, count = self._models, self._count
        scratch = torch.zeros_like(models.flat)
        values = np.empty((count, len(records)), dtype=np.float32)
        for part in _parts(len(records), min(64, self._fitting)):  # a gradient of each record takes more than its outputs
            flat_inputs, rows = self._fold(records.inputs[part])
            if models.random:
                models.begin([Seed(0)] * count)
            record_rows = Rows(
                inputs=flat_inputs,
                labels=self._labels(records.labels[part]),
                mask=torch.ones(count, rows, dtype=torch.bool, device=models.flat.device),
                loss=self._loss,
            )
            with one_precision(flat_inputs.device):
                clipping = models.add_sum(record_rows, Clip(norm=1.0), scratch)
            if clipping is None:
                raise ObservationError("the engine gave no gradient norms")
            values[:, part] = clipping.norms.float().cpu().numpy()
        return values

    def representations(self, records: Records) -> Representations | None:
        """Inputs and gradients of the linear layer that gives the outputs; None if none does, or labels are no classes.

        The gradient of cross-entropy in such a layer is the outer product of `softmax(outputs) - one_hot(label)` with its
        input (and 1 for the bias), so its norm is the product of theirs.
        """
        last = self._last_linear() if records.labels.ndim == 1 and records.labels.dtype.kind in "iu" else None
        if last is None:
            return None
        norms = np.empty((self._count, len(records)), dtype=np.float32)
        features: NDArray[np.float32] | None = None
        for part in _parts(len(records), self._batch):
            with _recorded_calls(last) as calls:
                out = self._forward(records.inputs[part]).float().cpu().numpy()
            joint = torch.cat([layer_inputs for _, layer_inputs, _ in calls])
            inside = joint.view(self._count, out.shape[1], -1).float().cpu().numpy()
            lengths = np.square(inside, dtype=np.float64).sum(-1) + (1.0 if _has_bias(last[0]) else 0.0)
            slopes = signals.log_output_gradient_norm(out, records.labels[part])
            # a product of two norms, in logarithms: those of sure predictions are too small for differences of probabilities
            norms[:, part] = np.exp(slopes + 0.5 * np.log(np.maximum(lengths, np.finfo(np.float64).tiny)))
            narrow = _narrow(inside)
            features = np.empty((*norms.shape, narrow.shape[2]), dtype=np.float32) if features is None else features
            features[:, part] = narrow
        if features is None:
            return None
        distances = class_distances(features, records.labels).astype(np.float32)
        return Representations(hidden=features, class_distances=distances, last_gradient_norms=norms)

    def _last_linear(self) -> list[nn.Module] | None:
        """The linear layer, used once in a pass, with the models' output as its own (up to a constant for each record).

        One for all models, or that at the same place in the module of each.
        """
        paths: dict[nn.Module, str] = {
            layer: path
            for module in self._modules
            for path, layer in module.named_modules()
            if isinstance(layer, LinearLayer | nn.Linear)
        }
        self._forward(self._probe[:2])  # models with embeddings begin with passes that find out what records share
        with _recorded_calls(list(paths)) as calls:
            out = self._forward(self._probe[:2])
        if not calls:
            return None
        last = [layer for layer, path in paths.items() if path == paths[calls[-1][0]]]
        own = [(layer_input, layer_output) for layer, layer_input, layer_output in calls if layer in last]
        if sum(len(layer_output) for _, layer_output in own) != out.shape[0] * out.shape[1] or own[0][1].dim() != 2:
            return None
        joint = torch.cat([layer_output for _, layer_output in own]).view(*out.shape[:2], -1)
        if joint.shape != out.shape:
            return None
        # softmax ignores a constant of each record, so a log-softmax behind the layer may differ by one
        is_logits = torch.allclose(joint - joint[..., :1], out - out[..., :1], rtol=1e-4, atol=1e-5, equal_nan=True)
        return last if is_logits and len(last) == len(self._modules) else None

    def _forward(self, inputs: NDArray[Any]) -> torch.Tensor:
        """`(N, rows, outputs)` for one batch."""
        flat_inputs, rows = self._fold(inputs)
        with one_precision(flat_inputs.device), plugins.foreign_code("an answer of trained models", whole=False):
            return self._models.forward(flat_inputs).view(self._count, rows, -1)

    def _fold(self, inputs: NDArray[Any]) -> tuple[torch.Tensor, int]:
        """One batch for each model, `(N * rows, ...)`, and its number of rows."""
        piece = input_tensor(inputs, self._models.flat.dtype).to(self._models.flat.device)
        return piece.unsqueeze(0).expand(self._count, *piece.shape).flatten(0, 1), len(piece)


def reduce_parts(
    reductions: Sequence[Reduction], parts: Iterable[tuple[slice, NDArray[Any]]], records: Records
) -> dict[str, NDArray[Any]]:
    """Each of the reductions `(N, m)` by its key, of outputs `(N, rows, classes)` that come with the place of their rows."""
    values: dict[str, NDArray[Any]] = {}
    first: NDArray[Any] | None = None
    for part, outputs in parts:
        first = outputs[:, 0].copy() if first is None else first
        for reduction in reductions:
            numbers = reduction.reduce(outputs, first, records.labels[part])
            if reduction.key not in values:
                values[reduction.key] = np.empty((len(outputs), len(records)), dtype=numbers.dtype)
            values[reduction.key][:, part] = numbers
    return values


def logits(
    spec: Mapping[str, Any], weights: Mapping[str, NDArray[Any]], inputs: NDArray[Any], classes: int, **options: Any
) -> NDArray[np.float32]:
    """Outputs of an `EnsembleReader` for models that must have stayed finite; `ObservationError` names others."""
    outputs = EnsembleReader(spec, weights, inputs[:2], classes, **options).outputs(inputs)
    non_finite = ~np.isfinite(outputs).all(axis=(1, 2))
    if non_finite.any():
        model_names = ", ".join(str(model) for model in np.flatnonzero(non_finite)[:8])
        raise ObservationError(
            f"{int(non_finite.sum())} of {len(outputs)} models give outputs that are not finite (model {model_names}); "
            "their training diverged: lower the learning rate, or leave them out"
        )
    return outputs


@contextmanager
def _recorded_calls(layers: Sequence[nn.Module]) -> Iterator[list[tuple[nn.Module, torch.Tensor, torch.Tensor]]]:
    """A scope in which every call of `layers` is noted: layer, input, output."""
    calls: list[tuple[nn.Module, torch.Tensor, torch.Tensor]] = []

    def note(layer: nn.Module, tensors: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        calls.append((layer, tensors[0], output))

    hooks = [layer.register_forward_hook(note) for layer in layers]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


def _has_bias(layer: nn.Module) -> bool:
    return "bias" in layer.values if isinstance(layer, LinearLayer) else getattr(layer, "bias", None) is not None


def _narrow(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """`values` `(N, rows, d)` with at most 256 columns, by a random map that is the same wherever it is called."""
    wide = values.shape[2]
    if wide <= _COLUMNS:
        return values
    directions = Seed(0).child("hidden", wide).numpy().standard_normal((wide, _COLUMNS)).astype(np.float32)
    return np.asarray(values @ (directions / np.float32(_COLUMNS**0.5)))


def _parts(total: int, width: int) -> Iterator[slice]:
    return (slice(start, min(start + width, total)) for start in range(0, total, width))


def weight_products(
    initial: Mapping[str, NDArray[Any]], final: Mapping[str, NDArray[Any]], canaries: Canaries
) -> NDArray[np.float32]:
    """`(N, m)` inner product of `initial - final` with each canary's unit gradient.

    A gradient that took part moves the weights against itself, so members score higher. Weights are flattened in the order of
    `initial`, the trainable parameters, name to `(N, ...)`, in the order of `named_parameters`; `final` may hold more.
    `DataError` for canaries that are records, or made for another number of parameters.
    """
    movement = np.concatenate(
        [(np.asarray(value, np.float64) - final[name]).reshape(len(value), -1) for name, value in initial.items()], axis=1
    )
    payload = canaries.payload
    if isinstance(payload, CoordinateGradients):
        if len(payload) and int(np.max(payload.coordinates)) >= movement.shape[1]:
            raise DataError(f"canaries '{canaries.kind}' name coordinates beyond the model's {movement.shape[1]} parameters")
        products = movement[:, payload.coordinates]
    elif isinstance(payload, DirectionGradients):
        if payload.directions.shape[1] != movement.shape[1]:
            raise DataError(
                f"canaries '{canaries.kind}' have directions of length {payload.directions.shape[1]} "
                f"but the model has {movement.shape[1]} parameters"
            )
        products = movement @ np.asarray(payload.directions, np.float64).T
    else:
        raise DataError(f"canaries '{canaries.kind}' are records; they have no direction in parameter space")
    result: NDArray[np.float32] = products.astype(np.float32)
    return result
