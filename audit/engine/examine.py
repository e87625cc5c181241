"""What a model does with a batch, tried out before it is trained: errors, states, draws, and records that mix.

A private training needs a gradient of its own for each record, which no clipping can give a model that mixes the records of a
batch or writes them into a buffer. Trials run on a copy of the model in training mode, with every trainable number
moved off its starting value, so that a head which starts at zero hides nothing, and in double precision where the model's code
allows it, so that only rounding is forgiven.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.seeds import Seed
from audit.engine.held_draws import HeldDraws
from audit.engine.layer_map import is_dropout
from audit.engine.modes import Modes
from audit.models.build import refuse_mixing_layers, seeded_stream

# what the code of a user's forward() may raise
CODE_ERRORS = (RuntimeError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError, AssertionError)
_TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3}
_STEP = 0.1
_ALONE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """What a model was seen to do.

    Attributes:
        draws: operations by which `forward` draws random numbers, outside of dropout layers.
        stateful: buffers that a batch in training mode changes.
        mixes: how the output of a record was seen to depend on the other records of the batch; None where it does not.
    """

    draws: tuple[str, ...] = ()
    stateful: tuple[str, ...] = ()
    mixes: str | None = None

    @property
    def why_alone(self) -> str | None:
        """Return why models of this kind cannot share one forward pass, or None where nothing speaks against it."""
        if self.draws:
            return f"its forward() draws random numbers by {', '.join(self.draws)}, which every model has to draw for itself"
        if self.stateful:
            return f"buffer '{self.stateful[0]}' changes with every batch"
        return None if self.mixes is None else f"it mixes the records of a batch ({self.mixes})"


def examine(module: nn.Module, records: Tensor, classes: int, *, private: bool) -> Behaviour:
    """Return what `module` does with `records`.

    Args:
        module: in its modes of training.
        records: `(n, ...)` on the CPU, some 64 of those that it will be trained on.
        classes: of the data, 0 for regression.
        private: one record must not reach the gradient of another, nor a buffer.

    Raises:
        ConfigError: the model cannot be run, or cannot be trained by the engine; the message names the layer.
        UnsupportedMechanism: it mixes records, or keeps what it saw of them, and `private`.
    """
    _refuse_parts(module)
    if private:
        refuse_mixing_layers(module)
    try:
        trial = copy.deepcopy(module)
    except CODE_ERRORS as error:
        raise ConfigError(
            f"the model ({type(module).__name__}) cannot be copied, as many models at once need it: {error}"
        ) from error
    move(trial, Seed(0).child("examine"))
    _refuse_outputs(_try_forward(trial, records), records, classes)
    stateful = _changed_buffers(trial, records, private)
    _refuse_hidden_state(trial, records)
    draws, free = _draws(trial, records)
    if free and private:
        raise UnsupportedMechanism(
            f"{_layer_paths(trial)}: forward() draws random numbers by {', '.join(free)}, so it cannot be tried out whether it "
            "mixes the records of a batch, which no clipping of one record's gradient would bound; use dropout, or draws that "
            "fill a tensor (torch.rand, bernoulli_)"
        )
    mixes = None if free else _mixes(trial, records)
    if private and mixes is not None:
        raise UnsupportedMechanism(
            f"the model's output for a record changes with the other records of the batch ({mixes}), so no clipping of one "
            "record's gradient bounds its influence; look for operations over the batch axis in its forward()"
        )
    return Behaviour(draws=draws, stateful=stateful, mixes=mixes)


def move(module: nn.Module, seed: Seed) -> None:
    """Moves every trainable parameter by a tenth of its size in a random direction, one that is zero by 0.1."""
    stream = torch.Generator()
    stream.manual_seed(seed.integer())
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.requires_grad:
                parameter.add_(step_off(parameter, stream))


def step_off(value: Tensor, stream: torch.Generator) -> Tensor:
    """A random direction of a tenth of the size of `value`, elementwise; 0.1 where it is all zero."""
    size = float(value.detach().double().square().mean().sqrt()) if value.numel() else 0.0
    noise = torch.randn(value.shape, generator=stream, dtype=torch.float64).to(value.device, value.dtype)
    return noise * (_STEP * size if size > 0 else _STEP)


def _refuse_parts(module: nn.Module) -> None:
    """Raise `ConfigError` naming the first parameter or layer that cannot be trained as one of many."""
    for path, layer in module.named_modules():
        layer_name = f"layer '{path or '(the model itself)'}' ({type(layer).__name__})"
        for name, parameter in layer.named_parameters(recurse=False):
            if isinstance(parameter, UninitializedParameter):
                raise ConfigError(f"{layer_name}: '{name}' has no shape yet; run one batch through the model in the factory")
            if parameter.requires_grad and parameter.is_complex():
                raise ConfigError(
                    f"{layer_name}: '{name}' is complex, and clipping is of real numbers; hold its real and imaginary part "
                    "as two parameters and join them by torch.complex in forward()"
                )
        if "forward" in vars(layer):
            raise ConfigError(
                f"{layer_name}: forward() was replaced on the object, which refers to this one model wherever it is copied; "
                "return the plain module, or put the change into a subclass"
            )
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise ConfigError(f"the model ({type(module).__name__}) has no trainable parameter")


def _layer_paths(module: nn.Module) -> str:
    return f"the model ({type(module).__name__})"


def _try_forward(module: nn.Module, records: Tensor) -> Tensor:
    """Outputs for `records`; an error of the model's code becomes a sentence that names the layer and the line."""
    try:
        with torch.no_grad(), seeded_stream(Seed(0)):
            outputs: Tensor = module(records)
    except CODE_ERRORS as error:
        raise ConfigError(failure(module, records, error)) from error
    return outputs


def failure(module: nn.Module, records: Tensor, error: Exception) -> str:
    """A sentence on where the code of `module` failed with `error`."""
    paths = {id(layer): (path, layer) for path, layer in module.named_modules()}
    layer_name, line, trace = _layer_paths(module), "", error.__traceback__
    while trace is not None:
        failing_path = paths.get(id(trace.tb_frame.f_locals.get("self")))
        code = trace.tb_frame.f_code
        if failing_path is not None and code.co_name not in ("_call_impl", "_wrapped_call_impl"):
            path, layer = failing_path
            layer_name = f"layer '{path or '(the model itself)'}' ({type(layer).__name__})"
            line = f", {Path(code.co_filename).name} line {trace.tb_lineno}"
        trace = trace.tb_next
    reason = str(error).strip().partition("\n")[0] or "no reason given"
    return (
        f"{layer_name} fails on a batch of shape {tuple(records.shape)}: {type(error).__name__}: {reason} (in "
        f"{code_name(line)})"
    )


def code_name(line: str) -> str:
    """`line` without its leading comma, or words for code outside of any layer."""
    return line.removeprefix(", ") or "its own code"


def _refuse_outputs(outputs: object, records: Tensor, classes: int) -> None:
    expectation = f"({len(records)}, {classes})" if classes else f"({len(records)},) or ({len(records)}, 1)"
    if not isinstance(outputs, Tensor):
        raise ConfigError(f"the model returns {type(outputs).__name__}; expected one tensor of shape {expectation}")
    fits = outputs.dim() == 2 and len(outputs) == len(records) and outputs.shape[1] >= classes if classes else (
        outputs.numel() == len(records) and outputs.dim() >= 1 and len(outputs) == len(records)
    )  # fmt: skip
    if not fits or not outputs.is_floating_point():
        raise ConfigError(f"the model returns {outputs.dtype} of shape {tuple(outputs.shape)}; expected numbers, {expectation}")


def _buffers(module: nn.Module) -> dict[str, Tensor]:
    return dict(module.named_buffers())


def _changed_buffers(module: nn.Module, records: Tensor, private: bool) -> tuple[str, ...]:
    """Names of the buffers that one batch in training mode changes; they are as before afterwards."""
    before = {name: (value, value.clone()) for name, value in _buffers(module).items()}
    _try_forward(module, records)
    after = _buffers(module)
    rebound = [name for name, value in after.items() if name not in before or before[name][0] is not value]
    changes = [name for name, (value, copy) in before.items() if not torch.equal(value, copy)]
    for name in (*changes, *rebound):
        path = name.rpartition(".")[0]
        layer_name = f"layer '{path or '(the model itself)'}' ({type(module.get_submodule(path)).__name__})"
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


def _refuse_hidden_state(module: nn.Module, records: Tensor) -> None:
    """Raise `ConfigError` where calls that should agree do not: a second one, and one that is handed the same numbers."""
    copies = {name: value.clone() for name, value in _buffers(module).items()}

    def fresh() -> dict[str, Tensor]:
        return {name: value.clone() for name, value in copies.items()}

    def output_of(values: dict[str, Tensor]) -> Tensor:
        with torch.no_grad(), seeded_stream(Seed(0)):
            outputs: Tensor = torch.func.functional_call(module, values, (records,))
        return outputs

    parameters = {name: value.detach().clone() for name, value in module.named_parameters()}
    first, second = output_of(fresh()), output_of(fresh())
    if not _alike(first, second):
        raise ConfigError(
            f"{_layer_paths(module)} gives other outputs when it is called again with the same batch and the same random "
            "stream: it keeps a state outside of its buffers, or draws from a stream that is not torch's; results could not "
            "be repeated"
        )
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(step_off(parameter, torch.Generator().manual_seed(1)) if parameter.requires_grad else 0)
    try:
        if not _alike(output_of({**parameters, **fresh()}), first):
            raise ConfigError(
                f"{_layer_paths(module)} computes with parameters of another object (a function that holds one of its kind), "
                "which many models at once cannot follow; compute with the module's own parameters in forward()"
            )
    finally:
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                parameter.copy_(parameters[name])


def _draws(module: nn.Module, records: Tensor) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Random operations outside of dropout layers, and those among them whose draws cannot be held still."""
    steady = without_dropout(module)
    with HeldDraws() as draws:
        _try_forward(steady, records)
    return tuple(sorted(draws.random_operations)), tuple(sorted(draws.free))


def without_dropout(module: nn.Module) -> nn.Module:
    """A copy in which dropout layers pass everything, so that two computations can be compared."""
    return copy.deepcopy(module, {id(layer): nn.Identity() for layer in module.modules() if is_dropout(layer)})


def _mixes(module: nn.Module, records: Tensor) -> str | None:
    """Return how the output of a record depends on the others, in training or evaluation mode; None where it does not."""
    if len(records) < 2:
        return None
    sharp, batch = _double(module, records)
    modes, buffers = Modes(sharp), _buffers(sharp)

    def run(part: Tensor) -> Tensor:
        with torch.no_grad(), seeded_stream(Seed(0)), HeldDraws():
            values = {name: value.clone() for name, value in buffers.items()}
            outputs: Tensor = torch.func.functional_call(sharp, values, (part,))
        return outputs

    for mode in ("training", "evaluation"):
        dependence = _dependence(run, batch)
        if dependence is not None:
            return f"{dependence}, in {mode} mode"
        modes.evaluate()
    return None


def _dependence(run: Callable[[Tensor], Tensor], batch: Tensor) -> str | None:
    whole, half = run(batch), len(batch) // 2
    order = torch.randperm(len(batch), generator=torch.Generator().manual_seed(0))
    trials: Sequence[tuple[str, Callable[[], Tensor], Tensor]] = (
        ("in another order", lambda: run(batch[order]), whole[order]),
        ("half the batch", lambda: torch.cat([run(batch[:half]), run(batch[half:])]), whole),
        ("a record alone", lambda: torch.cat([run(row.unsqueeze(0)) for row in batch[:_ALONE]]), whole[:_ALONE]),
    )
    for words, trial, reference in trials:
        try:
            outputs = trial()
        except CODE_ERRORS as error:
            return f"{words}: {str(error).partition(chr(10))[0]}"
        if not _alike(outputs, reference):
            return f"{words} gives other outputs"
    return None


def _alike(left: Tensor, right: Tensor) -> bool:
    """True where two outputs differ by rounding alone, measured by the numbers themselves and by the size of all."""
    if left.shape != right.shape:
        return False
    share = _TOLERANCE.get(left.dtype, 3e-2)
    finite = right[right.isfinite()]
    size = float(finite.square().mean().sqrt()) if finite.numel() else 0.0
    return torch.allclose(left, right, rtol=share, atol=share * size, equal_nan=True)


def _double(module: nn.Module, records: Tensor) -> tuple[nn.Module, Tensor]:
    """Module and records in double precision, or as they are where the module's code insists on its own."""
    sharp = copy.deepcopy(module).double()
    batch = records.double() if records.is_floating_point() else records
    try:
        with torch.no_grad(), seeded_stream(Seed(0)):
            wide = sharp(batch).dtype == torch.float64
    except CODE_ERRORS:
        return module, records
    return (sharp, batch) if wide else (module, records)
