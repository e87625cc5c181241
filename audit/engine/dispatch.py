"""Which way to clipped sums a module takes: all models at once, or one after another."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from audit.core.errors import ConfigError
from audit.core.seeds import Seed
from audit.engine.clipping import Clip, Gradients, Rows, owner
from audit.engine.examine import CODE_ERRORS, failure, step_off, without_dropout
from audit.engine.ghost_clipping import TapeGradients
from audit.engine.layer_map import DROPOUTS, has_hooks, has_rule, is_dropout
from audit.engine.per_model_loop import LoopGradients

log = logging.getLogger(__name__)

_MODELS, _ROWS = 3, 6
_TOLERANCE = {torch.float64: 1e-4, torch.float32: 1e-2}
_ROUNDING = {torch.float64: 1e-10, torch.float32: 1e-5}
_SIGHT = 1e-12


def gradients_of(
    module: nn.Module,
    state: Mapping[str, Tensor],
    records: Tensor | None = None,
    *,
    force_loop: bool = False,
    products: torch.dtype | None = None,
    draws: bool = False,
) -> Gradients:
    """N models with the architecture of `module` and the parameters of `state` (name to `(N, ...)`).

    Models made of supported layers share every kernel launch; others are run one after another, which is said once.

    Args:
        module: one model, in its modes of training.
        state: of all models.
        records: some records; with them it is tried out whether the fast path computes what the module computes.
        force_loop: take the slow path.
        products: type in which the fast path multiplies; None for that of the parameters.
        draws: `forward` draws random numbers by other means than dropout layers.
    """
    slow = force_loop or draws or loop_reason(module, state, records) is not None
    return LoopGradients(module, state, draws=draws) if slow else TapeGradients(module, state, products)


def loop_reason(module: nn.Module, state: Mapping[str, Tensor], records: Tensor | None) -> str | None:
    """Return why these models cannot share their kernel launches, or None where they can; a reason is also logged.

    Raises:
        ConfigError: the module cannot be differentiated, neither way.
    """
    reason = layers_without_rule(module, state)
    if reason is None and records is not None and len(records):
        reason = _unlike(module, state, records)
    if reason is not None:
        log.warning("the models are trained one after another, which is slower: %s", reason)
    return reason


def layers_without_rule(module: nn.Module, state: Mapping[str, Tensor]) -> str | None:
    """Return why the tape cannot run this module, or None where it can."""
    for path, layer in module.named_modules():
        own = [name for name, _ in layer.named_parameters(recurse=False)]
        if own and not has_rule(layer):
            return (
                f"layer '{path or '(the model itself)'}' ({type(layer).__name__}) holds parameters that only torch.func covers"
            )
        if has_hooks(layer):
            return f"layer '{path or '(the model itself)'}' has hooks"
        unknown_dropout = is_dropout(layer) and type(layer) not in DROPOUTS
        if unknown_dropout or (isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.training):
            return f"layer '{path}' ({type(layer).__name__}) has a state of its own"
    for name, _ in module.named_buffers():
        if not torch.equal(state[name], state[name][:1].expand_as(state[name])):
            return f"buffer '{name}' differs between the models"
    return None


def _unlike(module: nn.Module, state: Mapping[str, Tensor], records: Tensor) -> str | None:
    """Return why the fast path cannot be used; None where it does what the module does, for several models that differ.

    Each has its own records. On the CPU, in double precision where the module's code allows it, else in that of the parameters.
    """
    steady = without_dropout(module)
    fast = _several(steady, {name: value[:1].cpu() for name, value in state.items()})
    rows = _rows(records.cpu())
    try:
        sharp = {name: value.double() if value.is_floating_point() else value for name, value in fast.items()}
        wide = rows.double() if rows.is_floating_point() else rows
        return _disagreement(steady, sharp, wide)
    except ConfigError:
        return _disagreement(steady, fast, rows)


def _several(module: nn.Module, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Models whose parameters all differ, frozen ones too, and are nowhere all zero, near those of the first in `state`."""
    trainable = {name for name, parameter in module.named_parameters() if parameter.is_floating_point()}
    stream = torch.Generator()
    stream.manual_seed(Seed(0).child("models that differ").integer())
    several = {}
    for name, value in state.items():
        copies = [value[0] + step_off(value[0], stream) if name in trainable else value[0] for _ in range(_MODELS)]
        several[name] = torch.stack(copies)
    return several


def _rows(records: Tensor) -> Tensor:
    """`(models * rows, ...)` records, different ones for each model as far as there are enough."""
    indices = torch.arange(_MODELS * _ROWS, device=records.device) % len(records)
    return records.index_select(0, indices)


def _disagreement(module: nn.Module, state: Mapping[str, Tensor], inputs: Tensor) -> str | None:
    """Return why the fast path cannot be used for these models and rows.

    Raises:
        ConfigError: neither path can run them.
    """
    slow = LoopGradients(module, state)
    reference = _by_loop(slow, inputs)
    labels = _labels(reference)
    outputs = reference.unflatten(0, (_MODELS, -1))
    rows = Rows(inputs=inputs, labels=labels, mask=torch.ones(outputs.shape[:2], dtype=torch.bool, device=inputs.device))
    gradients = _example_gradients(slow, rows)
    try:
        fast = TapeGradients(module, state)
        if not _agree(fast.forward(inputs).unflatten(0, (_MODELS, -1)), outputs):
            return "its forward pass treats a batch of several models unlike a batch of one"
        return _unlike_sums(fast, rows, gradients)
    except CODE_ERRORS as error:
        return str(error).partition("\n")[0]


def _by_loop(slow: LoopGradients, inputs: Tensor) -> Tensor:
    try:
        return slow.forward(inputs)
    except CODE_ERRORS as error:
        raise ConfigError(failure(slow.module, inputs, error)) from error


def _labels(outputs: Tensor) -> Tensor:
    """Labels of every class in turn, or zeros where there is one output."""
    if outputs.dim() < 2 or outputs.shape[1] == 1:
        return torch.zeros(len(outputs), dtype=outputs.dtype, device=outputs.device)
    return torch.arange(len(outputs), device=outputs.device) % outputs.shape[1]


def _example_gradients(slow: LoopGradients, rows: Rows) -> list[dict[str, Tensor]]:
    """For each model, name to `(rows, ...)`.

    Raises:
        ConfigError: the module's code cannot be differentiated.
    """
    try:
        return slow.example_gradients(rows)
    except CODE_ERRORS as error:
        raise ConfigError(failure(slow.module, rows.inputs, error)) from error


def _unlike_sums(fast: TapeGradients, rows: Rows, gradients: list[dict[str, Tensor]]) -> str | None:
    """True if norms and sums are those of `gradients`: unclipped, all clipped, half of them, and every layer by itself."""
    squares = torch.stack([sum_of_squares(gradient) for gradient in gradients])
    norms = squares.sqrt()
    positive = norms[norms > 0]
    lowest = float(positive.min()) if len(positive) else 1.0
    middle = float(positive.median()) if len(positive) else 1.0
    layers = sorted({owner(slot.name) for slot in fast.layout.slots})
    clips = [None, Clip(norm=0.3 * lowest), Clip(norm=middle)]
    if _layers_in_sight(gradients, layers):
        clips.append(Clip(norm=0.3 * lowest, per_layer=True))
    for clip in clips:
        total = torch.zeros_like(fast.flat)
        clipping = fast.add_sum(rows, clip, total)
        if clipping is not None and not _agree(clipping.norms, norms):
            return "a parameter takes part in its forward pass in a way that the layers do not show"
        for model, own in enumerate(gradients):
            factors = _factors(own, clip, layers)
            reference = {name: torch.einsum("r,r...->...", factors[owner(name)], value) for name, value in own.items()}
            rounding = _ROUNDING.get(total.dtype, 1e-2) * float(sum_of_squares({"": total[model : model + 1]}).sqrt())
            for slot in fast.layout.slots:
                if not _agree(slot.view(total)[model], reference[slot.name], rounding):
                    return f"parameter '{slot.name}' takes part in its forward pass in a way that the layers do not show"
    return None


def _factors(gradients: Mapping[str, Tensor], clip: Clip | None, layers: list[str]) -> dict[str, Tensor]:
    """Layer to `(rows,)`: what clipping multiplies each example with."""
    if clip is None:
        unit_factors = torch.ones_like(sum_of_squares(gradients))
        return dict.fromkeys(layers, unit_factors)
    bound = float(clip.norm) / (len(layers) ** 0.5 if clip.per_layer else 1.0)
    if not clip.per_layer:
        return dict.fromkeys(layers, (bound / sum_of_squares(gradients).sqrt()).clamp(max=1.0))
    own = {layer: {name: value for name, value in gradients.items() if owner(name) == layer} for layer in layers}
    return {layer: (bound / sum_of_squares(value).sqrt()).clamp(max=1.0) for layer, value in own.items()}


def _layers_in_sight(gradients: list[dict[str, Tensor]], layers: list[str]) -> bool:
    """False where the gradient of a whole layer is rounding alone, which clipping by layers would blow up to the clip norm."""
    for own in gradients:
        whole = sum_of_squares(own)
        for layer in layers:
            part = sum_of_squares({name: value for name, value in own.items() if owner(name) == layer})
            if bool(((part > 0) & (part < _SIGHT * whole)).any()):
                return False
    return True


def sum_of_squares(gradients: Mapping[str, Tensor]) -> Tensor:
    """`(rows,)` squared norms over all parameters."""
    return torch.stack([value.reshape(len(value), -1).square().sum(1) for value in gradients.values()]).sum(0)


def _agree(left: Tensor, right: Tensor, rounding: float = 0.0) -> bool:
    """True where only rounding stands between them, by each number and the size of all; `rounding` is that of larger ones."""
    if left.shape != right.shape:
        return False
    share = _TOLERANCE.get(right.dtype, 3e-2)
    finite = right[right.isfinite()]
    size = float(finite.square().mean().sqrt()) if finite.numel() else 0.0
    return torch.allclose(left.to(right.dtype), right, rtol=share, atol=share * size + rounding, equal_nan=True)
