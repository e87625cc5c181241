"""A user's module on trial: its errors as sentences, copies that can be compared, and outputs that differ by rounding alone."""

import copy
import math
from pathlib import Path

import torch
from torch import Tensor, nn

from audit.core.errors import ConfigError
from audit.core.seeds import Seed
from audit.engine.layers.layer_map import is_dropout
from audit.models.build import seeded_stream

# what the code of a user's forward() may raise
CODE_ERRORS = (RuntimeError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError, AssertionError, StopIteration)
_STEP = 0.1


def step_off(value: Tensor, stream: torch.Generator) -> Tensor:
    """A random direction of a tenth of the size of `value`, elementwise; 0.1 if it is all zero."""
    size = float(value.detach().double().square().mean().sqrt()) if value.numel() else 0.0
    noise = torch.randn(value.shape, generator=stream, dtype=torch.float64).to(value.device, value.dtype)
    return noise * (_STEP * size if size > 0 else _STEP)


def without_dropout(module: nn.Module) -> nn.Module:
    """The module itself, or a copy in which its dropout layers pass everything, so that two computations can be compared."""
    if not any(is_dropout(layer) for layer in module.modules()):
        return module
    return copy.deepcopy(module, {id(layer): nn.Identity() for layer in module.modules() if is_dropout(layer)})


def try_forward(module: nn.Module, records: Tensor) -> Tensor:
    """Outputs for `records`; `ConfigError` if the module's code fails, with the layer and the line."""
    try:
        with torch.no_grad(), seeded_stream(Seed(0)):
            outputs: Tensor = module(records)
    except CODE_ERRORS as error:
        raise ConfigError(failure(module, records, error)) from error
    return outputs


def failure(module: nn.Module, records: Tensor, error: Exception) -> str:
    """A sentence on where the code of `module` failed with `error`."""
    paths = {id(layer): path for path, layer in module.named_modules()}
    layer_name, line, trace = model_name(module), "its own code", error.__traceback__
    while trace is not None:
        layer, code = trace.tb_frame.f_locals.get("self"), trace.tb_frame.f_code
        if id(layer) in paths and code.co_name not in ("_call_impl", "_wrapped_call_impl"):
            layer_name = layer_title(paths[id(layer)], layer)
            line = f"{Path(code.co_filename).name} line {trace.tb_lineno}"
        trace = trace.tb_next
    reason = str(error).strip().partition("\n")[0] or "no reason given"
    several = isinstance(error, TypeError) and "required positional argument" in reason
    hint = (
        "; model.inputs names what a model of several inputs takes, and data.arrays the arrays that hold it" if several else ""
    )
    if "dtype" in reason and ("BFloat16" in reason or "Half" in reason):
        hint += (
            "; models are computed in float32, whatever type their layers were made in: convert by the type of the weights "
            "(x.to(self.layer.weight.dtype)), not to a fixed one"
        )
    return f"{layer_name} fails on a batch of shape {tuple(records.shape)}: {type(error).__name__}: {reason} (in {line}){hint}"


def error_location(error: Exception) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "its own code" if trace is None else f"{Path(trace.tb_frame.f_code.co_filename).name} line {trace.tb_lineno}"


def model_name(module: nn.Module) -> str:
    return f"the model ({type(module).__name__})"


def layer_title(path: str, layer: object) -> str:
    return f"layer '{path or '(the model itself)'}' ({type(layer).__name__})"


def same_values(left: Tensor, right: Tensor) -> bool:
    """True if all numbers are the same; NaN agrees with itself."""
    return torch.equal(left, right) or bool(((left == right) | (left.isnan() & right.isnan())).all())


def agree(left: Tensor, right: Tensor, share: float, rounding: Tensor | float = 0.0) -> bool:
    """True if two values of the same shape `(n, ...)` differ by rounding alone.

    Each number may differ by `share` of itself and of the root mean square of its part (parts are along the first axis), and by
    `rounding`, one number or `(n,)`: that of larger values in the same computation. NaN and infinities agree with themselves.
    """
    if left.shape != right.shape:
        return False
    left, right = left.to(right.dtype).reshape(len(right), -1), right.reshape(len(right), -1)
    # nearly always the largest difference of all is small enough
    is_real = right.numel() > 0 and right.is_floating_point()
    if is_real and torch.dist(left, right, math.inf) <= share * right.square().mean(1).sqrt().min() < math.inf:
        return True
    finite = right.isfinite()
    squares = torch.where(finite, right, 0.0).square().sum(1)
    limit = share * (squares / finite.sum(1).clamp(min=1)).sqrt() + rounding
    apart = (left - right).abs()
    close = (apart <= limit.unsqueeze(1) + share * right.abs()) & apart.isfinite()
    return bool(close.all()) or bool((close | (left == right) | (left.isnan() & right.isnan())).all())
