"""A DP-SGD step as a function: its release for a batch at a noise multiplier, a clip norm and a divisor."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from audit import plugins
from audit.core import checks
from audit.core.errors import ConfigError
from audit.core.rounding import plural
from audit.step_checks.batches import Batch
from audit.step_checks.tensors import Tensors, demand_finite

PARAMETERS, RELEASED_SUM = "parameters", "sum"
GENERATORS = ("torch", "numpy", "seed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a step is called with.

    Attributes:
        noise_multiplier: standard deviation of the noise over the clip norm.
        clip_norm: l2 norm to which each record's gradient is clipped.
        divisor: public constant by which the noisy sum is divided (the expected batch size).
    """

    noise_multiplier: float
    clip_norm: float
    divisor: float

    def __post_init__(self) -> None:
        checks.nonnegative(self.noise_multiplier, "noise_multiplier")
        checks.positive(self.clip_norm, "clip_norm")
        checks.positive(self.divisor, "divisor")


class Step(Protocol):
    """An implementation of DP-SGD, one step at a time from the same parameters."""

    @property
    def adjustable(self) -> frozenset[str]:
        """Fields of `Setting` that can be changed from one call to the next."""
        ...

    @property
    def resolution(self) -> float:
        """Rounding error of a released coordinate at divisor 1, in the units of the sum."""
        ...

    def release(self, batch: Batch, setting: Setting, seed: int) -> Tensors:
        """Return the noisy sum of clipped gradients, tensor by tensor in float64."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class FunctionStep:
    """A step given as `function(params, batch, generator[, noise_multiplier=, clip_norm=, divisor=])`."""

    function: Callable[..., Any]  # returns the new parameters, or the released sum, as a mapping with the keys of `params`
    params: Mapping[str, Any]  # name to tensor or array; every call gets copies
    returns: str = PARAMETERS  # "parameters" or "sum"
    learning_rate: float = 1.0  # by which the function multiplies the mean before it subtracts it (only for "parameters")
    # what the function takes: "torch" or "numpy" (a generator) or "seed" (an integer, for JAX); None infers it
    generator: str | None = None

    def __post_init__(self) -> None:
        if self.returns not in (PARAMETERS, RELEASED_SUM):
            raise ConfigError(f"returns is {self.returns!r}; expected '{PARAMETERS}' or '{RELEASED_SUM}'")
        if self.generator is not None and self.generator not in GENERATORS:
            raise ConfigError(f"generator is {self.generator!r}; expected one of {', '.join(GENERATORS)}")
        if not self.params:
            raise ConfigError("params is empty; give a mapping of names to tensors or arrays")
        checks.positive(self.learning_rate, "learning_rate")
        demand_finite(self.params)

    @cached_property
    def adjustable(self) -> frozenset[str]:
        """The fields of `Setting` among the function's keyword arguments."""
        try:
            parameters = inspect.signature(self.function).parameters
        except ValueError as error:  # one that is written in C
            raise ConfigError(f"function {self.function!r} does not say what it takes; wrap it in a Python function") from error
        fields = frozenset(("noise_multiplier", "clip_norm", "divisor"))
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
            return fields
        return fields & frozenset(parameters)

    @cached_property
    def resolution(self) -> float:
        """Machine epsilon of the coarsest parameter times the largest parameter, if parameters are subtracted."""
        epsilons = [float(np.finfo(_numpy_dtype(value)).eps) for value in self.params.values()]
        if self.returns == RELEASED_SUM:
            return 0.0
        largest = max(float(np.abs(to_float64(value)).max(initial=0.0)) for value in self.params.values())
        return max(epsilons) * largest / self.learning_rate

    def call(self, batch: Batch, setting: Setting, seed: int) -> tuple[Mapping[str, Any], Any]:
        """Return what one call returns, and the generator that it was given.

        Raises:
            ConfigError: the function does not return a mapping with the keys of `params`.
        """
        keywords = {name: getattr(setting, name) for name in sorted(self.adjustable)}
        parameters = {name: _copy(value) for name, value in self.params.items()}
        arrays, stream = tuple(_like(self._sample, array) for array in batch), self._stream(seed)
        with plugins.foreign_code(f"the step, given {plural(len(batch[0]), 'record')}"):
            result = self.function(parameters, arrays, stream, **keywords)
        if not isinstance(result, Mapping) or set(result) != set(self.params):
            keys = sorted(map(str, result)) if isinstance(result, Mapping) else type(result).__name__
            raise ConfigError(f"the step (function) returned {keys}; expected a mapping with the keys {sorted(self.params)}")
        return result, stream

    def release(self, batch: Batch, setting: Setting, seed: int) -> Tensors:
        """Return the released sum of one call."""
        return self.read(self.outcome(batch, setting, seed), setting)

    def outcome(self, batch: Batch, setting: Setting, seed: int) -> Mapping[str, Any]:
        """Return what the function returns."""
        return self.call(batch, setting, seed)[0]

    def read(self, result: Mapping[str, Any], setting: Setting) -> Tensors:
        """Return the released sum in what the function returned."""
        if self.returns == RELEASED_SUM:
            return {name: self._read(name, result[name]) for name in self.params}
        scale = setting.divisor / self.learning_rate
        return {name: (to_float64(value) - self._read(name, result[name])) * scale for name, value in self.params.items()}

    def _read(self, name: str, value: Any) -> NDArray[np.float64]:
        """Return a value that the function returned; `ConfigError` if it holds no numbers, or not as many as the parameter."""
        shape = tuple(np.shape(self.params[name]))
        try:
            array = to_float64(value)
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"the step (function) returned a {type(value).__name__} for '{name}'; expected numbers of the shape {shape}"
            ) from error
        if array.shape != shape:
            raise ConfigError(
                f"the step (function) returned the shape {array.shape} for '{name}'; expected {shape}, as in params"
            )
        return array

    @property
    def _sample(self) -> Any:
        return next(iter(self.params.values()))

    def _stream(self, seed: int) -> Any:
        kind = self.generator or ("torch" if hasattr(self._sample, "detach") else "numpy")
        if kind == "seed":
            return seed % 2**31
        if kind == "numpy":
            return np.random.default_rng(seed)
        import torch

        return torch.Generator().manual_seed(seed)


def to_float64(value: Any) -> NDArray[np.float64]:
    """Return a tensor or array as its own float64 array."""
    if hasattr(value, "detach"):
        return np.array(value.detach().cpu().double().numpy())
    return np.array(value, dtype=np.float64)


def _numpy_dtype(value: Any) -> Any:
    if not hasattr(value, "detach"):
        return np.asarray(value).dtype
    import torch

    return {torch.float64: np.float64, torch.float32: np.float32}.get(value.dtype, np.float16)


def _copy(value: Any) -> Any:
    return value.detach().clone() if hasattr(value, "detach") else np.array(value)


def _like(sample: Any, array: Any) -> Any:
    if not hasattr(sample, "detach"):
        return np.array(array)
    import torch

    return torch.as_tensor(np.array(array))


@dataclass(frozen=True, kw_only=True, eq=False)
class RescaledStep:
    """A step with noise of different deviations in its tensors, in units in which all have the same: the Mahalanobis norm."""

    step: FunctionStep  # as it is
    factors: Mapping[str, float]  # name of each tensor to what its release is multiplied by: sigma C over its own deviation

    @classmethod
    def of(cls, step: FunctionStep, names: Collection[str], deviations: Mapping[str, float], claim: Setting) -> RescaledStep:
        """Return the step in units of the claimed deviations.

        Raises:
            ConfigError: deviations of other tensors than the step has, or a claim without noise.
        """
        if set(deviations) != set(names):
            raise ConfigError(f"deviations are given for {sorted(deviations)}; expected one for each of {sorted(names)}")
        common = checks.positive(claim.noise_multiplier, "noise_multiplier beside deviations") * claim.clip_norm
        return cls(step=step, factors={name: common / checks.positive(deviations[name], name) for name in names})

    @property
    def adjustable(self) -> frozenset[str]:
        return self.step.adjustable

    @property
    def resolution(self) -> float:
        """Return that of the tensor with the most stretched release."""
        return self.step.resolution * max(self.factors.values())

    def release(self, batch: Batch, setting: Setting, seed: int) -> Tensors:
        """Return the release with every tensor's noise at the deviation sigma C."""
        return self.read(self.outcome(batch, setting, seed), setting)

    def outcome(self, batch: Batch, setting: Setting, seed: int) -> Mapping[str, Any]:
        """Return that of the step as it is."""
        return self.step.outcome(batch, setting, seed)

    def read(self, result: Mapping[str, Any], setting: Setting) -> Tensors:
        """Return the rescaled release in an outcome."""
        return {name: value * self.factors[name] for name, value in self.step.read(result, setting).items()}
