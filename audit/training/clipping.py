"""Clipped sums of per-example gradients for N models at once.

Two ways to the same numbers. `TapeGradients` runs all models in one forward and one backward pass to the layer
outputs and gets norms and sums from the recorded uses. `LoopGradients` takes any module, one model after another,
through `torch.func`.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from audit.training.layers import EnsembleLayer, Layout, Tape, UncoveredUse, Use
from audit.training.replacement import covered, ensemble_layer

log = logging.getLogger(__name__)

_SHORT_ROW = 32


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """The same number of rows for each of N models, model-major; `mask` `(N, rows)` says which rows are real.

    Attributes:
        inputs: `(N * rows * copies, ...)`; the copies (augmentations) of one example are neighbours.
        labels: `(N * rows * copies,)`.
        copies: the gradient of an example is the mean over its copies, clipped once.
    """

    inputs: Tensor
    labels: Tensor
    mask: Tensor
    copies: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """One example's gradient is scaled to l2 norm `norm` at most: as a whole, or each of L layers to `norm / sqrt(L)`."""

    norm: float
    per_layer: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Clipped:
    """What happened to each row, `(N, rows)`: its gradient's norm before clipping and after."""

    norms: Tensor
    left: Tensor


class Gradients(Protocol):
    """N models of one architecture whose flat parameters `(N, width)` are updated in place from outside."""

    layout: Layout
    flat: Tensor

    def forward(self, inputs: Tensor) -> Tensor: ...

    def add_sum(self, rows: Rows, clip: Clip | None, total: Tensor) -> Clipped | None: ...

    def state(self) -> dict[str, Tensor]: ...


def example_losses(outputs: Tensor, labels: Tensor) -> Tensor:
    """`(rows,)` cross-entropy for integer labels, squared error for real ones."""
    if labels.dtype == torch.int64:
        return F.cross_entropy(outputs, labels, reduction="none")
    return (outputs.reshape(len(labels)) - labels).square()


def loss_slopes(outputs: Tensor, labels: Tensor) -> Tensor:
    """Derivative of `example_losses` by the outputs, without a graph and in few passes over memory.

    Library softmax kernels are slow on very short rows, which is what ten classes are.
    """
    if labels.dtype != torch.int64:
        return (outputs.reshape(len(labels)) - labels).mul_(2.0).reshape(outputs.shape)
    if outputs.shape[1] <= _SHORT_ROW:
        slopes = (outputs - outputs.amax(1, keepdim=True)).exp_()
        slopes /= slopes.sum(1, keepdim=True)
    else:
        slopes = torch.softmax(outputs, 1)
    one = torch.full((1, 1), -1.0, dtype=slopes.dtype, device=slopes.device)
    return slopes.scatter_add_(1, labels.unsqueeze(1), one.expand(len(labels), 1))


def clip_factors(norms: Tensor, clip_norm: float, mask: Tensor) -> Tensor:
    """`min(1, clip_norm / norm)`, and exactly 0 for rows that are padding or whose norm is not finite."""
    factors = (clip_norm / norms).clamp_(max=1.0)
    return torch.where(mask & norms.isfinite(), factors, torch.zeros_like(factors))


def clip_layers(squares: Mapping[str, Tensor], clip: Clip, mask: Tensor, *, layers: int) -> tuple[Clipped, dict[str, Tensor]]:
    """What clipping does to rows whose layers have these squared norms `(N, rows)`, and the factor of each layer.

    Args:
        squares: of each layer.
        clip: how.
        mask: `(N, rows)` real rows.
        layers: number of layers with parameters, taking part or not: a constant of the model.
    """
    norms = torch.stack(list(squares.values())).sum(0).sqrt()
    if not clip.per_layer:
        shared = clip_factors(norms, clip.norm, mask)
        left = torch.where(shared > 0, norms * shared, torch.zeros_like(norms))
        return Clipped(norms=norms, left=left), dict.fromkeys(squares, shared)
    real = mask & norms.isfinite()
    factors = {layer: clip_factors(square.sqrt(), clip.norm / layers**0.5, real) for layer, square in squares.items()}
    parts = [torch.where(factors[layer] > 0, square * factors[layer] ** 2, 0.0) for layer, square in squares.items()]
    return Clipped(norms=norms, left=torch.stack(parts).sum(0).sqrt()), factors


def _accumulate(squares: dict[str, Tensor], layer: str, found: Tensor) -> None:
    squares[layer] = squares[layer] + found if layer in squares else found


def _owner(parameter: str) -> str:
    return parameter.rpartition(".")[0]


def _layer_of(use: Use) -> str:
    return _owner(next(iter(use.layer.slots.values())).name)


def stacked_state(modules: list[nn.Module], dtype: torch.dtype, device: torch.device) -> dict[str, Tensor]:
    """Parameters and buffers of `modules`, name to `(N, ...)`; floating ones as `dtype`. A shared one appears once."""
    first = dict(modules[0].named_parameters()) | dict(modules[0].named_buffers())
    tables = [dict(module.named_parameters()) | dict(module.named_buffers()) for module in modules]
    stacked = {}
    for name, value in first.items():
        column = torch.stack([table[name].detach() for table in tables])
        stacked[name] = column.to(device, dtype if value.is_floating_point() else value.dtype)
    return stacked


def gradients_of(
    module: nn.Module, state: Mapping[str, Tensor], probe: Tensor | None = None, *, force_loop: bool = False
) -> Gradients:
    """N models with the architecture of `module` and the parameters of `state` (name to `(N, ...)`).

    Models made of supported layers share every kernel launch; others are run one after another, which is said once.

    Args:
        module: one model.
        state: of all models.
        probe: two records; with them it is tried out whether the fast path computes what the module computes.
        force_loop: take the slow path.
    """
    slow = force_loop or why_one_by_one(module, state, probe) is not None
    return LoopGradients(module, state) if slow else TapeGradients(module, state)


def why_one_by_one(module: nn.Module, state: Mapping[str, Tensor], probe: Tensor | None) -> str | None:
    """Why these models cannot share their kernel launches, or None where they can; a reason is also logged."""
    reason = uncovered(module, state)
    if reason is None and probe is not None:
        two = {name: value[:2] for name, value in state.items()}
        reason = _disagreement(TapeGradients(module, two), LoopGradients(module, two), probe)
    if reason is not None:
        log.warning("the models are trained one after another, which is slower: %s", reason)
    return reason


def _disagreement(fast: Gradients, slow: Gradients, probe: Tensor) -> str | None:
    """Why the fast path cannot be used, or None where both give the same outputs and sums for the records of `probe`."""
    models = fast.flat.shape[0]
    folded = probe.repeat(models, *(1,) * (probe.dim() - 1))
    try:
        outputs = fast.forward(folded)
    except (UncoveredUse, RuntimeError) as error:
        return str(error)
    if not torch.allclose(outputs, slow.forward(folded), rtol=1e-3, atol=1e-4, equal_nan=True):
        return "its forward pass treats a batch of several models unlike a batch of one"
    labels = torch.zeros(len(folded), dtype=torch.int64 if outputs.shape[-1] > 1 else outputs.dtype, device=probe.device)
    rows = Rows(inputs=folded, labels=labels, mask=torch.ones(models, len(probe), dtype=torch.bool, device=probe.device))
    sums = [torch.zeros_like(fast.flat) for _ in range(2)]
    try:
        fast.add_sum(rows, Clip(norm=1.0), sums[0])
    except RuntimeError as error:
        return str(error)
    slow.add_sum(rows, Clip(norm=1.0), sums[1])
    if not torch.allclose(sums[0], sums[1], rtol=1e-2, atol=1e-4, equal_nan=True):
        return "a parameter takes part in its forward pass in a way that the layers do not show"
    return None


def uncovered(module: nn.Module, state: Mapping[str, Tensor]) -> str | None:
    """Why the tape cannot run this module, or None where it can."""
    for path, layer in module.named_modules():
        own = [name for name, _ in layer.named_parameters(recurse=False)]
        if own and not covered(layer):
            return (
                f"layer '{path or '(the model itself)'}' ({type(layer).__name__}) holds parameters that only torch.func covers"
            )
        if layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks:
            return f"layer '{path or '(the model itself)'}' has hooks"
        if isinstance(layer, nn.modules.dropout._DropoutNd | nn.modules.batchnorm._BatchNorm):
            return f"layer '{path}' ({type(layer).__name__}) has a state of its own"
    for name, _ in module.named_buffers():
        if not torch.equal(state[name], state[name][:1].expand_as(state[name])):
            return f"buffer '{name}' differs between the models"
    return None


class TapeGradients:
    """All models in one pass: ghost norms where they are cheaper, whole gradients where a parameter is used twice."""

    def __init__(self, module: nn.Module, state: Mapping[str, Tensor]) -> None:
        self.layout = Layout.of(module)
        any_value = next(iter(state.values()))
        self.models = any_value.shape[0]
        self.tape = Tape(models=self.models)
        self.layers = {_owner(slot.name) for slot in self.layout.slots}
        self._state = dict(state)
        trainable = {slot.name: slot for slot in self.layout.slots}
        self.flat = _flat_storage(self.layout, state)
        for name, slot in trainable.items():
            self._state[name] = slot.view(self.flat)
        names = {id(parameter): name for name, parameter in module.named_parameters()}
        self.module = self._replaced(module, names)

    def _replaced(self, module: nn.Module, names: Mapping[int, str]) -> nn.Module:
        trainable = {slot.name: slot for slot in self.layout.slots}
        made: dict[int, EnsembleLayer] = {}
        for layer in module.modules():
            own = {role: names[id(parameter)] for role, parameter in layer.named_parameters(recurse=False)}
            if own:
                values = {role: self._state[name] for role, name in own.items()}
                slots = {role: trainable[name] for role, name in own.items() if name in trainable}
                made[id(layer)] = ensemble_layer(layer, self.tape, values, slots)
        # deep copy with a memo: wherever the module refers to a replaced layer, the copy refers to its replacement
        copied = copy.deepcopy(module, dict(made))
        reference = next(iter(self._state.values()))
        for buffer in copied.buffers():
            if buffer.is_floating_point():
                buffer.data = buffer.data.to(reference.device, self.flat.dtype)
            else:
                buffer.data = buffer.data.to(reference.device)
        for layer in copied.modules():
            if not isinstance(layer, EnsembleLayer) and getattr(layer, "inplace", False) is True:
                setattr(layer, "inplace", False)  # noqa: B010
        return copied

    def state(self) -> dict[str, Tensor]:
        """Name to `(N, ...)`, as it stands."""
        return dict(self._state)

    def forward(self, inputs: Tensor) -> Tensor:
        """`(N * rows, outputs)` for folded inputs, in evaluation mode and without gradients."""
        self.module.eval()
        with torch.no_grad():
            out: Tensor = self.module(inputs)
        return out

    def add_sum(self, rows: Rows, clip: Clip | None, total: Tensor) -> Clipped | None:
        """Adds each model's sum of (clipped) example gradients to `total`; None where nothing was clipped."""
        uses, signals = self._signals(rows)
        count = rows.mask.shape[1]
        if clip is None:
            for use, signal in zip(uses, signals, strict=True):
                use.layer.add_weighted(use, signal, None, total)
            return None
        shared = self._shared_uses(uses)
        whole: dict[str, Tensor] = {}
        squares: dict[str, Tensor] = {}
        for number, (use, signal) in enumerate(zip(uses, signals, strict=True)):
            if number in shared:
                for role, gradient in use.layer.example_gradients(use, signal, count).items():
                    name = use.layer.slots[role].name
                    whole[name] = whole[name] + gradient if name in whole else gradient
            else:
                _accumulate(squares, _layer_of(use), use.layer.squared_norms(use, signal, count))
        for name, gradient in whole.items():
            _accumulate(squares, _owner(name), gradient.flatten(2).square().sum(-1))
        clipped, factors = clip_layers(squares, clip, rows.mask, layers=len(self.layers))
        finite = clipped.norms.isfinite()
        if not bool(finite.all()):
            signals = _without(uses, signals, whole, finite)
        for number, (use, signal) in enumerate(zip(uses, signals, strict=True)):
            if number not in shared:
                use.layer.add_weighted(use, signal, factors[_layer_of(use)], total)
        for slot in self.layout.slots:
            if slot.name in whole:
                weights = factors[_owner(slot.name)]
                slot.view(total).add_(torch.einsum("nr,nr...->n...", weights, whole[slot.name]))
        return clipped

    def _signals(self, rows: Rows) -> tuple[list[Use], list[Tensor]]:
        self.module.train()
        self.tape.active, self.tape.uses = True, []
        try:
            outputs = self.module(rows.inputs)
        finally:
            self.tape.active = False
        uses, self.tape.uses = self.tape.uses, []
        weight = rows.mask.to(outputs.dtype) / rows.copies
        weight = weight.flatten() if rows.copies == 1 else weight.flatten().repeat_interleave(rows.copies)
        slopes = loss_slopes(outputs.detach(), rows.labels)
        slopes *= weight.view(-1, *(1,) * (slopes.dim() - 1))
        found = torch.autograd.grad(outputs, [use.edge for use in uses], grad_outputs=slopes, allow_unused=True)
        kept = [(use, signal) for use, signal in zip(uses, found, strict=True) if signal is not None]
        return [use for use, _ in kept], [signal for _, signal in kept]

    def _shared_uses(self, uses: list[Use]) -> set[int]:
        times: dict[str, int] = {}
        for use in uses:
            for slot in use.layer.slots.values():
                times[slot.name] = times.get(slot.name, 0) + 1
        return {number for number, use in enumerate(uses) if any(times[slot.name] > 1 for slot in use.layer.slots.values())}


def _without(uses: list[Use], signals: list[Tensor], whole: dict[str, Tensor], finite: Tensor) -> list[Tensor]:
    """Signals with the rows that are not `finite` `(N, rows)` set to zero, as is all that is multiplied with them."""

    def zeroed(values: Tensor) -> Tensor:
        shape = values.shape
        split = values.reshape(*finite.shape, -1)
        return torch.where(finite.unsqueeze(-1), split, torch.zeros((), dtype=values.dtype)).reshape(shape)

    for use in uses:
        if use.saved.is_floating_point():
            use.saved = zeroed(use.saved)
        use.gradients = {role: zeroed(gradient) for role, gradient in use.gradients.items()}
    for name, gradient in whole.items():
        whole[name] = zeroed(gradient)
    return [zeroed(signal) for signal in signals]


class LoopGradients:
    """One model after another: per-example gradients by `vmap(grad)`, for modules the tape does not cover."""

    def __init__(self, module: nn.Module, state: Mapping[str, Tensor]) -> None:
        self.layout = Layout.of(module)
        self.flat = _flat_storage(self.layout, state)
        self.models = self.flat.shape[0]
        self._state = dict(state)
        for slot in self.layout.slots:
            self._state[slot.name] = slot.view(self.flat)
        self.module = copy.deepcopy(module).to(self.flat.device, self.flat.dtype)

    def state(self) -> dict[str, Tensor]:
        """Name to `(N, ...)`, as it stands."""
        return dict(self._state)

    def _one(self, model: int) -> dict[str, Tensor]:
        return {name: value[model] for name, value in self._state.items()}

    def forward(self, inputs: Tensor) -> Tensor:
        """`(N * rows, outputs)` for folded inputs, in evaluation mode and without gradients."""
        self.module.eval()
        with torch.no_grad():
            parts = inputs.unflatten(0, (self.models, -1))
            return torch.cat([torch.func.functional_call(self.module, self._one(n), (parts[n],)) for n in range(self.models)])

    def add_sum(self, rows: Rows, clip: Clip | None, total: Tensor) -> Clipped | None:
        """Adds each model's sum of (clipped) example gradients to `total`; None where nothing was clipped."""
        self.module.train()
        inputs = rows.inputs.unflatten(0, (*rows.mask.shape, rows.copies))
        labels = rows.labels.unflatten(0, (*rows.mask.shape, rows.copies))
        done = []
        for model in range(self.models):
            real = rows.mask[model].nonzero().flatten()
            if clip is None:
                self._add_plain(model, inputs[model, real], labels[model, real], total)
            else:
                one = Rows(inputs=inputs[model], labels=labels[model], mask=rows.mask[model], copies=rows.copies)
                done.append(self._add_clipped(model, one, clip, total))
        if clip is None:
            return None
        return Clipped(norms=torch.stack([one.norms for one in done]), left=torch.stack([one.left for one in done]))

    def _split(self, model: int) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        trainable = {slot.name for slot in self.layout.slots}
        values = self._one(model)
        return {k: v for k, v in values.items() if k in trainable}, {k: v for k, v in values.items() if k not in trainable}

    def _add_plain(self, model: int, inputs: Tensor, labels: Tensor, total: Tensor) -> None:
        if len(inputs) == 0:
            return
        trained, fixed = self._split(model)
        leaves = {name: value.detach().requires_grad_() for name, value in trained.items()}
        outputs = torch.func.functional_call(self.module, {**leaves, **fixed}, (inputs.flatten(0, 1),))
        loss = example_losses(outputs, labels.flatten()).sum() / inputs.shape[1]
        found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
        for slot in self.layout.slots:
            gradient = found[list(leaves).index(slot.name)]
            if gradient is not None:
                slot.view(total)[model].add_(gradient)

    def _add_clipped(self, model: int, rows: Rows, clip: Clip, total: Tensor) -> Clipped:
        trained, fixed = self._split(model)

        def loss(values: dict[str, Tensor], one: Tensor, label: Tensor) -> Tensor:
            outputs = torch.func.functional_call(self.module, {**values, **fixed}, (one,))
            return example_losses(outputs, label).mean()

        found = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(trained, rows.inputs, rows.labels)
        squares: dict[str, Tensor] = {}
        for slot in self.layout.slots:
            _accumulate(squares, _owner(slot.name), found[slot.name].flatten(1).square().sum(-1))
        clipped, factors = clip_layers(squares, clip, rows.mask, layers=len(squares))
        for slot in self.layout.slots:
            flat = found[slot.name].flatten(1)
            flat = torch.where(clipped.norms.isfinite().unsqueeze(-1), flat, torch.zeros_like(flat))
            slot.view(total)[model].add_((factors[_owner(slot.name)] @ flat).view(slot.shape))
        return clipped


def _flat_storage(layout: Layout, state: Mapping[str, Tensor]) -> Tensor:
    values = [state[slot.name] for slot in layout.slots]
    reference = values[0]
    flat = torch.zeros(reference.shape[0], layout.width, dtype=reference.dtype, device=reference.device)
    for slot, value in zip(layout.slots, values, strict=True):
        slot.view(flat).copy_(value)
    return flat
