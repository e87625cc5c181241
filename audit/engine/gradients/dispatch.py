"""Which way to clipped sums a module takes: all models at once, or one after another."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from audit.core.errors import ConfigError
from audit.core.seeds import Seed
from audit.engine.gradients.clipping import Clip, Gradients, Rows, accumulate, owner
from audit.engine.gradients.dropout_draws import cut_rows, kept_factors, with_factors
from audit.engine.gradients.ghost_clipping import TapeGradients
from audit.engine.gradients.per_model_loop import LoopGradients
from audit.engine.gradients.trials import CODE_ERRORS, agree, failure, layer_title, step_off, without_dropout
from audit.engine.layers.bare_parameters import holds_bare_parameters
from audit.engine.layers.layer_map import DROPOUTS, has_hooks, has_rule, is_dropout
from audit.engine.layers.row_selection import RowSelection

log = logging.getLogger(__name__)

_MODELS, _ROWS = 3, 3
# share of a number by which the two paths may differ, by precision, and of the largest that it was computed beside; the second
# of each pair is for half precision. A wrong rule is off by a share near one.
_TOLERANCE, _COARSE = {torch.float64: 1e-4, torch.float32: 1e-2}, 3e-2
_ROUNDING, _COARSE_ROUNDING = {torch.float64: 1e-10, torch.float32: 1e-5}, 1e-2
# of the smallest norm: a clip norm that clips every example and every layer of it
_CLIP_SHARE = 0.3
# a layer whose share of the squared norm is less holds rounding alone
_SIGHT = 1e-12


def model_gradients(
    module: nn.Module,
    state: Mapping[str, Tensor],
    records: Tensor | None = None,
    *,
    force_loop: bool = False,
    products: torch.dtype | None = None,
    draws: bool = False,
    own: Sequence[nn.Module] = (),
) -> Gradients:
    """N models with the architecture of `module` and the parameters of `state` (name to `(N, ...)`).

    Models made of supported layers share every kernel launch; others are run one after another, which is said once: with
    `force_loop`; if `forward` draws random numbers by other means than dropout layers (`draws`); if models differ in more than
    weights, and so each has an `own` module; or if the fast path, on trial with `records`, does not compute what the module
    computes. It multiplies in the type of `products`; None for that of the parameters.
    """
    slow = force_loop or draws or bool(own) or loop_reason(module, state, records) is not None
    return LoopGradients(module, state, draws=draws, own=own) if slow else TapeGradients(module, state, products)


def loop_reason(module: nn.Module, state: Mapping[str, Tensor], records: Tensor | None, *, quiet: bool = False) -> str | None:
    """Return why these models cannot share their kernel launches, or None if they can; logged unless `quiet`.

    `ConfigError` if the module cannot be differentiated, neither way.
    """
    reason = layers_without_rule(module, state)
    if reason is None and records is not None and len(records):
        reason = _unlike(module, state, records)
    if reason is not None and not quiet:
        log.warning("the models are trained one after another, which is slower: %s", reason)
    return reason


def layers_without_rule(module: nn.Module, state: Mapping[str, Tensor]) -> str | None:
    """Return why the tape cannot run this module, or None if it can."""
    for path, layer in module.named_modules():
        if any(True for _ in layer.parameters(recurse=False)) and not has_rule(layer) and not holds_bare_parameters(layer):
            return f"{layer_title(path, layer)} holds parameters that only torch.func covers"
        if has_hooks(layer):
            return f"{layer_title(path, layer)} has hooks"
        unknown_dropout = is_dropout(layer) and type(layer) not in DROPOUTS
        if unknown_dropout or (isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.training):
            return f"{layer_title(path, layer)} keeps a state"
    return differing_buffer((name, state[name][:1].expand_as(state[name]), state[name]) for name, _ in module.named_buffers())


def differing_buffer(buffers: Iterable[tuple[str, Tensor, Tensor]]) -> str | None:
    """Return which of the buffers, each by name and from two models, differs between them; None if none does."""
    name = next((name for name, first, second in buffers if not torch.equal(first, second)), None)
    return None if name is None else f"buffer '{name}' differs between the models"


def _unlike(module: nn.Module, state: Mapping[str, Tensor], records: Tensor) -> str | None:
    """Return why the fast path cannot be used; None if it does what the module does, for several models that differ.

    Each has its own records. On the CPU, in double precision if the module's code allows it, else in that of the parameters.
    """
    steady = without_dropout(module)
    fast = _several(steady, {name: value[:1].cpu() for name, value in state.items()})
    rows = _rows(records.cpu())
    try:
        sharp = {name: value.double() if value.is_floating_point() else value for name, value in fast.items()}
        wide = rows.double() if rows.is_floating_point() else rows
        reason = _disagreement(steady, sharp, wide)
    except ConfigError:
        reason = _disagreement(steady, fast, rows)
    return _unlike_draws(module, fast, rows) if reason is None and steady is not module else reason


def _unlike_draws(module: nn.Module, state: Mapping[str, Tensor], inputs: Tensor) -> str | None:
    """Return how dropout of several models at once differs from that of each alone with the same draws, or None."""
    fast = TapeGradients(module, state)
    if not fast.random:
        return None
    fast.begin([Seed(0).child("dropout on trial", number) for number in range(_MODELS)])
    try:
        with torch.no_grad(), kept_factors(fast) as factors:
            outputs = fast.forward(inputs, training=True)
    except CODE_ERRORS as error:
        return f"its dropout cannot be drawn for several models at once: {str(error).partition(chr(10))[0]}"
    for model in range(_MODELS):
        section = slice(model * _ROWS, (model + 1) * _ROWS)
        alone = with_factors(module, cut_rows(factors, section, len(inputs)))
        values = {name: value[model] for name, value in state.items()}
        try:
            with torch.no_grad():
                reference = torch.func.functional_call(alone, values, (inputs[section],))
        except CODE_ERRORS as error:
            return f"its dropout is not of single records: {str(error).partition(chr(10))[0]}"
        share = _TOLERANCE.get(outputs.dtype, _COARSE)
        if not agree(outputs[section].unsqueeze(0), reference.unsqueeze(0), share):
            return "its dropout is drawn along another axis than that of the records"
    return None


def _several(module: nn.Module, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Models with parameters that all differ, frozen ones too, and are nowhere all zero, near those of the first in `state`."""
    trainable = {name for name, parameter in module.named_parameters() if parameter.is_floating_point()}
    stream = torch.Generator().manual_seed(Seed(0).child("models that differ").integer())
    several = {}
    for name, value in state.items():
        copies = [value[0] + step_off(value[0], stream) if name in trainable else value[0] for _ in range(_MODELS)]
        several[name] = torch.stack(copies)
    return several


def _rows(records: Tensor, rows: int = _ROWS) -> Tensor:
    """`(models * rows, ...)` records, different ones for each model as far as there are enough."""
    indices = torch.arange(_MODELS * rows, device=records.device) % len(records)
    return records.index_select(0, indices)


def _disagreement(module: nn.Module, state: Mapping[str, Tensor], inputs: Tensor) -> str | None:
    """Return why the fast path cannot be used for these models and rows; raise `ConfigError` if neither can run them."""
    slow = LoopGradients(module, state)
    try:
        reference = slow.forward(inputs)
    except CODE_ERRORS as error:
        raise ConfigError(failure(slow.module, inputs, error)) from error
    labels = _labels(reference)
    mask = torch.ones(_MODELS, len(inputs) // _MODELS, dtype=torch.bool, device=inputs.device)
    rows = Rows(inputs=inputs, labels=labels, mask=mask)
    gradients = _example_gradients(slow, rows, plain=True)
    reason = _fast_disagreement(module, state, rows, (reference, gradients), slow)
    if reason is not None:
        _example_gradients(slow, rows, plain=False)  # these models will be trained that way
    return reason


def _fast_disagreement(
    module: nn.Module, state: Mapping[str, Tensor], rows: Rows, truth: tuple[Tensor, Mapping[str, Tensor]], slow: LoopGradients
) -> str | None:
    """Return how outputs and gradients of the fast path differ from the true ones."""
    outputs, gradients = truth
    tolerance = _TOLERANCE.get(outputs.dtype, _COARSE)
    try:
        fast = TapeGradients(module, state)
        own, selections = _with_selections(fast, rows.inputs)
        if selections:
            names = ", ".join(sorted(selections))
            return f"it picks rows of a batch by their values ({names}), more of one model than of another"
        if not agree(own.unsqueeze(0), outputs.unsqueeze(0), tolerance):
            return "its forward pass treats a batch of several models unlike a batch of one"
        reason = _unlike_sums(fast, rows, gradients)
        return _unlike_other_sizes(fast, slow, rows.inputs) if reason is None and fast.tape.outside else reason
    except CODE_ERRORS as error:
        return str(error).partition("\n")[0]


def _with_selections(fast: TapeGradients, inputs: Tensor) -> tuple[Tensor, set[str]]:
    """Return what the models make of `inputs`, and the names of operations which picked rows of theirs by values.

    A module's own constants may be as long as the batch by chance, so what is seen is looked for in a longer one, too.
    """
    with RowSelection(len(inputs)) as selection:
        outputs = fast.forward(inputs)
    if not selection.operations:
        return outputs, set()
    longer = _rows(inputs, _ROWS + 1)
    with RowSelection(len(longer)) as again:
        fast.forward(longer)
    return outputs, selection.operations & again.operations


def _unlike_other_sizes(fast: TapeGradients, slow: LoopGradients, inputs: Tensor) -> str | None:
    """Return how outputs for batches of other sizes differ: code may take copies of a bare parameter for its own first axis."""
    try:
        for count in (1, _ROWS + 1):
            other_rows = _rows(inputs, count)
            outputs = slow.forward(other_rows)
            if not agree(fast.forward(other_rows).unsqueeze(0), outputs.unsqueeze(0), _TOLERANCE.get(outputs.dtype, _COARSE)):
                return "its forward pass reads the number of records from a parameter outside of layers"
    except CODE_ERRORS as error:
        return str(error).partition("\n")[0]
    return None


def _labels(outputs: Tensor) -> Tensor:
    """Labels of every class in turn, or zeros if there is one output, or several axes of them."""
    if outputs.dim() < 2 or outputs.shape[1] == 1:
        return outputs.new_zeros(len(outputs))
    if outputs.dim() > 2:
        return torch.zeros_like(outputs)
    return torch.arange(len(outputs), device=outputs.device) % outputs.shape[1]


def _example_gradients(slow: LoopGradients, rows: Rows, *, plain: bool) -> dict[str, Tensor]:
    """Name to `(models, rows, ...)`, by plain autograd or the way of training by the loop; `ConfigError` if code refuses."""
    try:
        gradients = slow.example_gradients(rows, plain=plain)
    except CODE_ERRORS as error:
        raise ConfigError(failure(slow.module, rows.inputs, error)) from error
    return {name: torch.stack([of_model[name] for of_model in gradients]) for name in gradients[0]}


def _unlike_sums(fast: TapeGradients, rows: Rows, gradients: Mapping[str, Tensor]) -> str | None:
    """Return how the fast path's norms and sums differ from those of `gradients`, or None if they agree.

    Clips: none, one that clips every example, one that clips half of them, and one of every layer alone.
    """
    share = _TOLERANCE.get(fast.flat.dtype, _COARSE)
    squares: dict[str, Tensor] = {}
    for name, value in gradients.items():
        accumulate(squares, owner(name), value.reshape(*value.shape[:2], -1).square().sum(2))
    norms = torch.stack(list(squares.values())).sum(0).sqrt()
    uses, signals = fast.signals(rows, use_mask=True)
    for clip in _clips(squares, norms):
        total = torch.zeros_like(fast.flat)
        clipping = fast.add_sum_of([replace(use) for use in uses], signals, rows.mask, clip, total)
        if clipping is not None and not agree(clipping.norms.unsqueeze(0), norms.unsqueeze(0), share):
            return "a parameter takes part in its forward pass in a way that the layers do not show"
        factors = _factors(squares, norms, clip)
        rounding = _ROUNDING.get(total.dtype, _COARSE_ROUNDING) * total.square().sum(1).sqrt()
        for slot in fast.layout.slots:
            reference = torch.einsum("nr,nr...->n...", factors[owner(slot.name)], gradients[slot.name])
            if not agree(slot.view(total), reference, share, rounding):
                return f"parameter '{slot.name}' takes part in its forward pass in a way that the layers do not show"
    return None


def _clips(squares: Mapping[str, Tensor], norms: Tensor) -> list[Clip | None]:
    """Return the clips to try with examples of these `norms` `(models, rows)` and these squared norms of their layers."""
    positive = norms[norms > 0]
    lowest = float(positive.min()) if len(positive) else 1.0
    middle = float(positive.median()) if len(positive) else 1.0
    clips = [None, Clip(norm=_CLIP_SHARE * lowest), Clip(norm=middle)]
    # the gradient of a layer may be rounding alone, which clipping by layers would blow up to the clip norm
    in_sight = not any(bool(((part > 0) & (part < _SIGHT * norms.square())).any()) for part in squares.values())
    return [*clips, Clip(norm=_CLIP_SHARE * lowest, per_layer=True)] if in_sight else clips


def _factors(squares: Mapping[str, Tensor], norms: Tensor, clip: Clip | None) -> dict[str, Tensor]:
    """Layer to `(models, rows)`: what clipping multiplies each example with."""
    if clip is None:
        return dict.fromkeys(squares, torch.ones_like(norms))
    if not clip.per_layer:
        return dict.fromkeys(squares, (float(clip.norm) / norms).clamp(max=1.0))
    bound = float(clip.norm) / len(squares) ** 0.5
    return {layer: (bound / square.sqrt()).clamp(max=1.0) for layer, square in squares.items()}
