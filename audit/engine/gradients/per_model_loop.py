"""Clipped sums for any module that `torch.func` can differentiate, one model after another."""

import copy
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _get_current_dispatch_mode

from audit.core.errors import UnsupportedMechanism
from audit.core.seeds import Seed
from audit.engine.gradients.clipping import Clip, Clipping, Rows, accumulate, clip_layers, flat_storage, owner
from audit.engine.gradients.trials import model_name, same_values
from audit.engine.layers.layer_map import has_random_layers
from audit.engine.layers.modes import Modes, with_values
from audit.engine.parameter_layout import Layout
from audit.engine.random.random_operations import repeats_draws
from audit.models.build import seeded_stream

log = logging.getLogger(__name__)


class LoopGradients:
    """One model after another: per-example gradients by `vmap(grad)`, for modules the tape does not cover.

    Operations that `vmap` has no rule for (recurrent layers, fused encoder layers) are run one example after another, as are
    models that draw constants from a seed of their own. `draws` says that the forward pass draws random numbers by other means
    than layers; in evaluation every model then draws the same. `own` holds a module for each model if more than weights
    differs.
    """

    def __init__(
        self, module: nn.Module, state: Mapping[str, Tensor], *, draws: bool = False, own: Sequence[nn.Module] = ()
    ) -> None:
        self.layout = Layout.of(module)
        self.flat = flat_storage(self.layout, state)
        self.models = self.flat.shape[0]
        self.random = draws or any(map(has_random_layers, own or [module]))
        self._draws = draws
        self._seeds: Sequence[Seed] = ()
        self._pass = 0
        self.vectorises = not any(map(_holds_generator, own or [module]))
        self._state = {**state, **self.layout.views(self.flat)}
        self.modules = [copy.deepcopy(original).to(self.flat.device, self.flat.dtype) for original in own or [module]]
        self.module = self.modules[0]
        self._modes = [Modes(own_module) for own_module in self.modules]
        self._buffers = [name for name, _ in self.module.named_buffers()]
        self._has_drawn_constants: bool | None = None

    def _module(self, model: int) -> nn.Module:
        return self.modules[model if len(self.modules) > 1 else 0]

    def _set_modes(self, *, training: bool) -> None:
        for modes in self._modes:
            if training:
                modes.train()
            else:
                modes.evaluate()

    def begin(self, seeds: Sequence[Seed]) -> None:
        self._seeds, self._pass = seeds, 0

    def _stream(self, model: int) -> AbstractContextManager[None]:
        return seeded_stream(self._seeds[model].child("pass", self._pass)) if self.random else nullcontext()

    def state(self) -> dict[str, Tensor]:
        return dict(self._state)

    def _model(self, model: int) -> dict[str, Tensor]:
        return {name: value[model] for name, value in self._state.items()}

    def forward(self, inputs: Tensor) -> Tensor:
        self._set_modes(training=False)
        with torch.no_grad():
            parts = inputs.unflatten(0, (self.models, -1))
            return torch.cat([self._evaluate(n, parts[n]) for n in range(self.models)])

    def _evaluate(self, model: int, inputs: Tensor) -> Tensor:
        """Outputs of one model, with the same draws in every call."""
        with seeded_stream(Seed(0).child("evaluation")) if self._draws else nullcontext():
            outputs: Tensor = torch.func.functional_call(self._module(model), self._model(model), (inputs,))
            return outputs

    def add_sum(self, rows: Rows, clip: Clip | None, total: Tensor) -> Clipping | None:
        self._set_modes(training=True)
        results = []
        self._pass += 1
        places = [mask.nonzero().flatten() for mask in rows.mask]  # padding is as dear as a record here
        for model, model_rows in enumerate(_of_models(rows, places)):
            with self._stream(model):
                if clip is None:
                    self._add_plain(model, model_rows, total)
                elif len(places[model]):
                    results.append((model, self._add_clipped(model, model_rows, clip.of_model(model), total)))
        if clip is None:
            return None
        norms, clipped_norms = self.flat.new_zeros(2, *rows.mask.shape)
        for model, result in results:
            norms[model, places[model]], clipped_norms[model, places[model]] = result.norms, result.left
        return Clipping(norms=norms, left=clipped_norms, finite=all(result.finite for _, result in results))

    def example_gradients(self, rows: Rows, *, plain: bool = False) -> list[dict[str, Tensor]]:
        """For each model, name to `(rows, ...)`: the gradient of each example.

        With `plain`, by autograd of one after another: `torch.func.grad` loads torch's compiler, over a second of CPU.
        """
        self._set_modes(training=True)
        gradients = self._plain_gradients if plain else self._example_gradients
        parts = _of_models(rows, [slice(None)] * self.models)
        return [gradients(n, *self._split(n), part) for n, part in enumerate(parts)]

    def _split(self, model: int) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        trainable = {slot.name for slot in self.layout.slots}
        values = self._model(model)
        return {k: v for k, v in values.items() if k in trainable}, {k: v for k, v in values.items() if k not in trainable}

    def _add_plain(self, model: int, rows: Rows, total: Tensor) -> None:
        if len(rows.inputs) == 0:
            return
        parameters, constants = self._split(model)
        leaves = {name: value.detach().requires_grad_() for name, value in parameters.items()}

        def work(module: nn.Module) -> tuple[Tensor | None, ...]:
            outputs = module(rows.inputs.flatten(0, 1))
            losses = rows.loss.values(outputs, rows.labels.flatten(0, 1)).view(rows.inputs.shape[:2]).mean(1)
            loss = (losses * rows.mask.to(losses.dtype)).sum()
            return torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)

        gradients = with_values(self._module(model), {**leaves, **constants}, work)
        for slot in self.layout.slots:
            gradient = gradients[list(leaves).index(slot.name)]
            if gradient is not None:
                slot.view(total)[model].add_(gradient)

    def _add_clipped(self, model: int, rows: Rows, clip: Clip, total: Tensor) -> Clipping:
        parameters, constants = self._split(model)
        copies = {**constants, **{name: constants[name].clone() for name in self._buffers}}
        gradients = self._example_gradients(model, parameters, copies, rows)
        for name in self._buffers:  # a trial sees most of those that change, but not one that waits for a certain record
            if not same_values(copies[name], constants[name]):
                raise UnsupportedMechanism(
                    f"{model_name(self.module)} changed its buffer '{name}' in a step of training, which would be released "
                    "without clipping and noise; make it a constant, or leave it out"
                )
        squares: dict[str, Tensor] = {}
        for slot in self.layout.slots:
            accumulate(squares, owner(slot.name), gradients[slot.name].reshape(len(rows.mask), -1).square().sum(-1))
        clipping, factors = clip_layers(squares, clip, rows.mask, layers=len(squares))
        for slot in self.layout.slots:
            flat = gradients[slot.name].reshape(len(rows.mask), -1)
            flat = torch.where(clipping.norms.isfinite().unsqueeze(-1), flat, torch.zeros_like(flat))
            slot.view(total)[model].add_((factors[owner(slot.name)] @ flat).view(slot.shape))
        return clipping

    def _example_gradients(
        self, model: int, parameters: dict[str, Tensor], constants: dict[str, Tensor], rows: Rows
    ) -> dict[str, Tensor]:
        """Name to `(rows, ...)`; by plain autograd if `vmap` does not know an operation."""
        if self.vectorises and not self._draws_constants(model, {**parameters, **constants}, rows):

            def loss(values: dict[str, Tensor], record: Tensor, label: Tensor) -> Tensor:
                outputs = torch.func.functional_call(self._module(model), {**values, **constants}, (record,))
                return rows.loss.values(outputs, label).mean()  # over the copies of the record

            try:
                record_gradients = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0), randomness="different")
                gradients: dict[str, Tensor] = record_gradients(parameters, rows.inputs, rows.labels)
                return gradients
            except (RuntimeError, IndexError) as error:  # what vmap raises if it has no rule, depending on the operation
                if isinstance(error, torch.OutOfMemoryError):
                    raise
                self.vectorises = False
                log.warning("examples are taken one after another, which is slower still; vmap says: %s", error)
        return self._plain_gradients(model, parameters, constants, rows)

    def _draws_constants(self, model: int, values: Mapping[str, Tensor], rows: Rows) -> bool:
        """Return whether the loss draws the same numbers in every call; decided once, if no scope replaces draws."""
        if self._has_drawn_constants is None:
            if _get_current_dispatch_mode() is not None:
                return False
            module = copy.deepcopy(self._module(model)).cpu()
            copies = {name: value.cpu().clone() for name, value in values.items()}
            inputs, labels = rows.inputs[0].cpu(), rows.labels[0].cpu()

            def loss() -> Tensor:
                return rows.loss.values(torch.func.functional_call(module, copies, (inputs.clone(),)), labels)

            self._has_drawn_constants = repeats_draws(loss)
        return self._has_drawn_constants

    def _plain_gradients(
        self, model: int, parameters: dict[str, Tensor], constants: dict[str, Tensor], rows: Rows
    ) -> dict[str, Tensor]:
        stacked_gradients = {name: value.new_zeros(len(rows.mask), *value.shape) for name, value in parameters.items()}
        for row in rows.mask.nonzero().flatten().tolist():
            leaves = {name: value.detach().requires_grad_() for name, value in parameters.items()}

            def work(module: nn.Module, row: int = row, leaves: Mapping[str, Tensor] = leaves) -> tuple[Tensor | None, ...]:
                loss = rows.loss.values(module(rows.inputs[row]), rows.labels[row]).mean()
                return torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)

            parts = with_values(self._module(model), {**leaves, **constants}, work)
            for name, part in zip(leaves, parts, strict=True):
                if part is not None:
                    stacked_gradients[name][row] = part.to_dense() if part.is_sparse else part
        return stacked_gradients


def _holds_generator(module: nn.Module) -> bool:
    """True if a layer draws from its own generator: under `vmap` it would give each record other numbers."""
    return any(isinstance(value, torch.Generator) for layer in module.modules() for value in vars(layer).values())


def _of_models(rows: Rows, places: Sequence[Tensor | slice]) -> Iterator[Rows]:
    """Yield those of `rows` that are at the places of each model, with an axis of copies behind that of rows."""
    inputs, labels = (values.unflatten(0, (*rows.mask.shape, rows.copies)) for values in (rows.inputs, rows.labels))
    for model, own in enumerate(places):
        yield replace(rows, inputs=inputs[model, own], labels=labels[model, own], mask=rows.mask[model, own])
