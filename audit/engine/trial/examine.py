"""What a model does with a batch, tried out before it is trained: errors, states, draws, and records that mix.

A private training needs its own gradient for each record, which no clipping can give a model that mixes the records of a
batch or writes them into a buffer. Trials run on a copy of the model in training mode, with every trainable number
moved off its starting value, so that a head which starts at zero hides nothing.
"""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.seeds import Seed
from audit.engine.gradients.clipping import Rows
from audit.engine.gradients.trials import CODE_ERRORS, layer_title, model_name, step_off, try_forward, without_dropout
from audit.engine.losses import OwnLoss, RecordLoss
from audit.engine.random.random_operations import ConstantDraws
from audit.engine.trial.foreign_streams import foreign_streams, refuse_foreign_draws
from audit.engine.trial.loss_trial import examine_loss
from audit.engine.trial.mixing import alike, mixes
from audit.engine.trial.module_parts import refuse_parts
from audit.engine.trial.short_trial import stands_out
from audit.models.build import refuse_mixing_layers, seeded_stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """What a model was seen to do."""

    draws: tuple[str, ...] = ()  # operations by which `forward` draws random numbers, outside of dropout layers
    stateful: tuple[str, ...] = ()  # buffers that a batch in training mode changes
    mixes: str | None = None  # how the output of a record was seen to depend on the others of the batch; None if it does not

    @property
    def why_alone(self) -> str | None:
        """Return why models of this kind cannot share one forward pass, or None if nothing speaks against it."""
        if self.draws:
            return f"its forward() draws random numbers by {', '.join(self.draws)}, which every model has to draw for itself"
        if self.stateful:
            return f"buffer '{self.stateful[0]}' changes with every batch"
        return None if self.mixes is None else f"it mixes the records of a batch ({self.mixes})"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Probe:
    """Some 64 records of those that a model will be trained on, and the loss that it will be trained by."""

    inputs: Tensor  # `(n, ...)`
    labels: Tensor  # `(n, ...)`, as the loss takes them
    loss: RecordLoss
    classes: int  # of the data, 0 if labels are no classes

    def on(self, device: torch.device, dtype: torch.dtype) -> Probe:
        """The same on a device, real numbers being of type `dtype`."""
        values = [value.to(device, dtype if value.is_floating_point() else value.dtype) for value in (self.inputs, self.labels)]
        return replace(self, inputs=values[0], labels=values[1])

    def first(self, count: int) -> Rows:
        inputs, labels = self.inputs[:count], self.labels[:count]
        mask = torch.ones(1, len(inputs), dtype=torch.bool, device=inputs.device)
        return Rows(inputs=inputs, labels=labels, mask=mask, loss=self.loss)


def examine(module: nn.Module, probe: Probe, *, private: bool) -> Behaviour:
    """Return what `module`, in its modes of training, does with the records of `probe`, which are on the CPU.

    With `private`, one record must not reach the gradient of another, nor a buffer: `UnsupportedMechanism`, as for a loss that
    mixes records. `ConfigError` if the model or its loss cannot be run, or not trained by the engine.
    """
    refuse_parts(module)
    if private:
        refuse_mixing_layers(module)
    trial = _copy(module)
    move(trial, Seed(0).child("examine"))
    records = probe.inputs.clone()  # a model may write into them
    buffers = {name: (value, value.clone()) for name, value in trial.named_buffers()}
    parameters = {name: value.detach().clone() for name, value in trial.named_parameters()}
    with _SeesAutocast() as casts, foreign_streams() as streams_moved:
        outputs = try_forward(trial, records)
        draws_elsewhere = streams_moved()
    if casts.autocast:
        raise ConfigError(
            f"{model_name(module)}: forward() computes under autocast, and models are computed in float32; leave it to "
            "precision: bfloat16 of the trainer, or switch it on around the model, not inside"
        )
    is_steady = not (_moved_parameters(trial, parameters, private) or draws_elsewhere)
    _refuse_outputs(outputs, probe)
    examine_loss(probe.loss, outputs, probe.labels)
    stateful = _changed_buffers(trial, buffers, private)
    if is_steady and not stateful and torch.equal(records, probe.inputs) and not stands_out(trial, records, outputs):
        return Behaviour()
    refuse_foreign_draws(trial, records)
    _refuse_hidden_state(trial, records)
    draws, free = _draws(trial, records)
    if free and private:
        raise UnsupportedMechanism(
            f"{model_name(trial)}: forward() draws random numbers by {', '.join(free)}, so it cannot be tried out whether it "
            "mixes the records of a batch, which no clipping of one record's gradient would bound; use dropout, or draws that "
            "fill a tensor (torch.rand, bernoulli_)"
        )
    dependence = None if free else mixes(trial, records)
    if private and dependence is not None:
        raise UnsupportedMechanism(
            f"the model's output for a record changes with the other records of the batch ({dependence}), so no clipping of "
            "one record's gradient bounds its influence; look for operations over the batch axis in its forward()"
        )
    return Behaviour(draws=draws, stateful=stateful, mixes=dependence)


class _SeesAutocast(TorchFunctionMode):
    """Notes whether anything is computed under autocast, whose rounding differs between batches."""

    autocast = False

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.autocast = self.autocast or torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")
        return function(*args, **(kwargs or {}))


def _copy(module: nn.Module) -> nn.Module:
    """Return a deep copy; raise `ConfigError` with the name of the attribute that cannot be copied."""
    try:
        return copy.deepcopy(module)
    except (*CODE_ERRORS, pickle.PickleError) as error:
        raise ConfigError(
            f"the model ({type(module).__name__}) cannot be copied, as many models at once need it: {error}"
            f"{_name_uncopied(module)}; make it in forward(), or at the head of the model's file"
        ) from error


def _name_uncopied(module: nn.Module) -> str:
    for path, layer in module.named_modules():
        for name, value in vars(layer).items():
            try:
                copy.deepcopy(value)
            except (*CODE_ERRORS, pickle.PickleError):
                if not name.startswith("_modules"):  # its own layers are looked at one by one
                    return f" ('{name}' of {layer_title(path, layer)})"
    return ""


def move(module: nn.Module, seed: Seed) -> None:
    """Moves every trainable parameter by a tenth of its size in a random direction, one that is zero by 0.1."""
    stream = torch.Generator().manual_seed(seed.integer())
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.requires_grad:
                parameter.add_(step_off(parameter, stream))


def _refuse_outputs(outputs: object, probe: Probe) -> None:
    records, classes = probe.inputs, probe.classes
    if isinstance(probe.loss, OwnLoss) or probe.labels.dim() > 1:
        _refuse_no_rows(outputs, len(records))
        return
    expectation = f"({len(records)}, {classes})" if classes else f"({len(records)},) or ({len(records)}, 1)"
    if not isinstance(outputs, Tensor):
        raise ConfigError(f"the model returns {type(outputs).__name__}; expected one tensor of shape {expectation}")
    fits = outputs.dim() == 2 and len(outputs) == len(records) and outputs.shape[1] >= classes if classes else (
        outputs.numel() == len(records) and outputs.dim() >= 1 and len(outputs) == len(records)
    )  # fmt: skip
    if not fits or not outputs.is_floating_point():
        raise ConfigError(f"the model returns {outputs.dtype} of shape {tuple(outputs.shape)}; expected numbers, {expectation}")


def _refuse_no_rows(outputs: object, rows: int) -> None:
    """Raise `ConfigError` unless a model returned real numbers for each record, in whatever shape its loss takes them."""
    if not isinstance(outputs, Tensor):
        raise ConfigError(f"the model returns {type(outputs).__name__}; expected one tensor of shape ({rows}, ...)")
    if outputs.dim() < 1 or len(outputs) != rows or not outputs.is_floating_point():
        raise ConfigError(f"the model returns {outputs.dtype} of shape {tuple(outputs.shape)}; expected numbers, ({rows}, ...)")


def _changed_buffers(module: nn.Module, before: dict[str, tuple[Tensor, Tensor]], private: bool) -> tuple[str, ...]:
    """Names of the buffers that one batch in training mode has changed since `before` (buffer and value then); undone after."""
    after = dict(module.named_buffers())
    rebound = [name for name, value in after.items() if name not in before or before[name][0] is not value]
    changes = [name for name, (value, copy) in before.items() if not torch.equal(value, copy)]
    for name in (*changes, *rebound):
        path = name.rpartition(".")[0]
        layer_name = layer_title(path, module.get_submodule(path))
        if private:
            raise UnsupportedMechanism(
                f"{layer_name} changes its buffer '{name}' with every batch in training mode, which would be released without "
                "clipping and noise; make it a constant, keep the layer in evaluation mode, or leave it out"
            )
        if name in rebound:
            raise ConfigError(
                f"{layer_name} puts another tensor in the place of its buffer '{name}', which many models at once cannot "
                "follow; change it in place (copy_, add_)"
            )
    for value, earlier in before.values():
        with torch.no_grad():
            value.copy_(earlier)
    return tuple(changes)


def _moved_parameters(module: nn.Module, before: dict[str, Tensor], private: bool) -> list[str]:
    """Names of parameters that forward() itself has changed; undone after. `UnsupportedMechanism` for one under DP-SGD."""
    names = []
    for name, value in module.named_parameters():
        if torch.equal(value, before[name]):
            continue
        if private:
            raise UnsupportedMechanism(
                f"{model_name(module)}: forward() changes its parameter '{name}' in place, which would be released without "
                "clipping and noise; leave that to the optimiser"
            )
        names.append(name)
        with torch.no_grad():
            value.copy_(before[name])
    return names


def _refuse_hidden_state(module: nn.Module, records: Tensor) -> None:
    """Raise `ConfigError` if calls that should agree do not: a second one, and one that is handed the same numbers."""
    copies = {name: value.clone() for name, value in module.named_buffers()}

    def fresh() -> dict[str, Tensor]:
        return {name: value.clone() for name, value in copies.items()}

    def read_output(values: dict[str, Tensor]) -> Tensor:
        with torch.no_grad(), seeded_stream(Seed(0)):
            outputs: Tensor = torch.func.functional_call(module, values, (records,))
        return outputs

    parameters = {name: value.clone().detach().requires_grad_(value.requires_grad) for name, value in module.named_parameters()}
    before = records.clone()
    first, second = read_output(fresh()), read_output(fresh())
    if not alike(first, second) and not torch.equal(records, before):
        raise ConfigError(
            f"{model_name(module)} writes into its input in forward(), and gives other outputs when it is called with that "
            "batch again, as every trial and recomputation does; work on a copy (x = x * 2 in place of x.mul_(2), x.clone())"
        )
    if not alike(first, second):
        raise ConfigError(
            f"{model_name(module)} gives other outputs when it is called again with the same batch and the same random "
            "stream: it keeps a state outside of its buffers, or draws from a stream that is not torch's; results could not "
            "be repeated"
        )
    with torch.no_grad():
        for parameter in module.parameters():
            # functional_call below brings the old values; only code that holds parameters elsewhere sees those moved here
            parameter.add_(step_off(parameter, torch.Generator().manual_seed(1)) if parameter.requires_grad else 0)
    try:
        if not alike(read_output({**parameters, **fresh()}), first):
            raise ConfigError(
                f"{model_name(module)} computes with parameters of another object (a function that holds one of its kind), "
                "which many models at once cannot follow; compute with the module's own parameters in forward()"
            )
    finally:
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                parameter.copy_(parameters[name])


def _draws(module: nn.Module, records: Tensor) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Random operations outside of dropout layers, and those among them with draws that cannot be held still."""
    steady = without_dropout(module)
    with ConstantDraws() as draws:
        try_forward(steady, records)
    return tuple(sorted(draws.random_operations)), tuple(sorted(draws.free))
