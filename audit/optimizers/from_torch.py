"""Any optimiser of torch's kind that a user's function makes, with its parameter groups and schedule: one for each model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from audit import plugins
from audit.core.errors import ConfigError

Views = Callable[[Tensor], Mapping[str, Tensor]]
_TRIAL_STEPS, _ROUNDING = 3, 1e-5  # of a trial; share of the largest move by which two may differ
_INTERVAL = 64  # steps after which the host asks a device what was seen
_CODE_ERRORS = (RuntimeError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError, AssertionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class FromTorch:
    """Calls `factory(parameters, steps=..., **arguments)` once for each model.

    `parameters` maps names, as `named_parameters` of the model gives them, to its trainable parameters. The function returns a
    `torch.optim.Optimizer` over them, in whatever groups, or a pair of one and its learning-rate schedule, which is moved on
    after every step. Models are updated one after another. All that the optimiser sees are noisy gradients (in DP-SGD), so it
    does not touch the guarantee. It must not draw random numbers, or results could not be repeated, nor share a state between
    models or write into another's parameters, since bounds take models as independent: two optimisers that are given the same
    gradients have to agree, which is tried out before the training and held for one model of each chunk in every step.

    Attributes:
        factory: "package.module:function".
        arguments: further keyword arguments.
    """

    factory: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.factory, str) or self.factory.count(":") != 1:
            raise ConfigError(f"optimizer.factory is {self.factory!r}; expected 'package.module:function'")
        if not isinstance(self.arguments, Mapping):
            raise ConfigError(f"optimizer.arguments is {self.arguments!r}; expected a mapping of argument names to values")

    def start(self, steps: int) -> _State:
        """Return a fresh state that takes all numbers of a model as one parameter, named "parameters"."""
        return self.start_by_name(steps, lambda flat: {"parameters": flat})

    def start_by_name(self, steps: int, views: Views) -> _State:
        """Return a fresh state for a training of `steps` steps; `ConfigError` if there is no such function.

        `views` makes of a flat storage `(N, width)`, without a copy, parameter name to `(N, ...)`.
        """
        factory = plugins.foreign(self.factory, "optimizer.factory")
        if not callable(factory):
            raise ConfigError(f"optimizer.factory '{self.factory}' is {type(factory).__name__}; expected a function")
        return _State(self, factory, steps, views)

    def plain(self, parameters: Sequence[nn.Parameter]) -> torch.optim.Optimizer:
        """Raise: trainers that hand a module to another library have no names to give."""
        raise ConfigError("optimizer from_torch needs the names of parameters; trainer 'opacus' takes sgd, adam and adamw")


class _State:
    """The optimisers of all models, and a second one of the first model, which takes its steps again after all others.

    Parameters of a model are in their own memory and are copied to the flat storage after its step, so that no optimiser
    reaches those of another unless it kept them; what it writes there is seen when the other's turn comes.
    """

    def __init__(self, options: FromTorch, factory: Callable[..., Any], steps: int, views: Views) -> None:
        self._options, self._factory, self._steps, self._views = options, factory, steps, views
        self._models: list[_Model] = []
        self._second: _Model | None = None
        self._count = 0
        self._moves: Tensor | None = None  # the largest of the first model so far
        self._writes: list[Tensor] = []
        self._deviations: list[Tensor] = []

    def step(self, flat: Tensor, gradient: Tensor) -> None:
        values, gradients = self._views(flat), self._views(gradient)
        if self._second is None:
            start = {name: value[0] for name, value in values.items()}
            self._refuse_dependence(start)
            self._models = [self._model({name: value[n].clone() for name, value in values.items()}) for n in range(len(flat))]
            self._second = self._model({name: value.clone() for name, value in start.items()})
        start = {name: value[0].clone() for name, value in values.items()}
        for n, model in enumerate(self._models):
            views = {name: value[n] for name, value in values.items()}
            self._writes.append(model.apart(views))
            model.step({name: value[n].clone() for name, value in gradients.items()})  # an optimiser may keep what it is given
            model.export(views)
        self._second.step({name: value[0].clone() for name, value in gradients.items()})
        end = {name: value[0] for name, value in values.items()}
        self._note(start, end, self._second)
        self._count += 1
        if flat.device.type == "cpu" or self._count in (1, self._steps) or self._count % _INTERVAL == 0:
            self._refuse_ties()

    def _note(self, start: Mapping[str, Tensor], end: Mapping[str, Tensor], second: _Model) -> None:
        """Keeps how far the first model moved from `start` to `end`, and whether the second optimiser came elsewhere."""
        moves = [(end[name] - value).abs().nan_to_num().max() for name, value in start.items() if value.numel()]
        if not moves:
            return
        largest = torch.stack(moves).max()
        self._moves = largest if self._moves is None else torch.maximum(self._moves, largest)
        self._deviations.append(second.apart(end, _ROUNDING * self._moves))

    def _refuse_ties(self) -> None:
        """Raise `ConfigError` if optimisers were seen to reach parameters of another model, or to share a state."""
        name = self._options.factory
        if bool(torch.stack(self._writes).any()):
            raise ConfigError(
                f"optimizer.factory '{name}': one of its optimisers wrote into the parameters of another model, by step "
                f"{self._count}; models have to be independent"
            )
        if self._deviations and bool(torch.stack(self._deviations).any()):
            raise ConfigError(
                f"optimizer.factory '{name}': by step {self._count} two of its optimisers, given the same parameters and "
                "gradients from the start, have come apart; it draws random numbers, or shares a state between models, which "
                "have to be independent"
            )
        self._writes, self._deviations = [], []

    def _refuse_dependence(self, start: Mapping[str, Tensor]) -> None:
        """Raise `ConfigError` if two models that start from the same values and have the same gradients come apart."""
        models, ends = [], []
        for _ in range(2):
            values = {name: value.detach().clone() for name, value in start.items()}
            models.append(self._model(values))  # both are kept: a state by the address of a parameter is its own
            stream = torch.Generator().manual_seed(0)
            for _ in range(min(self._steps, _TRIAL_STEPS)):
                models[-1].step({name: torch.randn(value.shape, generator=stream).to(value) for name, value in start.items()})
            ends.append(values)
        moves = (float((ends[0][name] - value).abs().nan_to_num().max()) for name, value in start.items() if value.numel())
        error = _ROUNDING * max(moves, default=0.0)
        if not all(torch.allclose(ends[0][name], ends[1][name], rtol=0, atol=error, equal_nan=True) for name in start):
            raise ConfigError(
                f"optimizer.factory '{self._options.factory}': two of its optimisers, given the same gradients, end at "
                "different parameters; it draws random numbers, or shares a state between models, which have to be independent"
            )

    def _model(self, values: Mapping[str, Tensor]) -> _Model:
        name = self._options.factory
        parameters = {key: nn.Parameter(value) for key, value in values.items()}
        try:
            result = self._factory(dict(parameters), steps=self._steps, **self._options.arguments)
        except _CODE_ERRORS as error:
            _pass_on(error)
            raise ConfigError(
                f"optimizer.factory '{name}' with arguments {dict(self._options.arguments)}: {type(error).__name__}: {error}"
            ) from error
        optimizer, schedule = result if isinstance(result, tuple) and len(result) == 2 else (result, None)
        if not isinstance(optimizer, torch.optim.Optimizer):
            kind = type(optimizer).__name__
            raise ConfigError(f"optimizer.factory '{name}' returned {kind}; expected a torch optimiser, or one and a schedule")
        identities = {id(parameter) for parameter in parameters.values()}
        if any(id(parameter) not in identities for group in optimizer.param_groups for parameter in group["params"]):
            raise ConfigError(f"optimizer.factory '{name}': its optimiser holds a tensor that was not among its parameters")
        if schedule is not None and getattr(schedule, "optimizer", None) is not optimizer:
            raise ConfigError(
                f"optimizer.factory '{name}' returned {type(schedule).__name__} beside its optimiser; expected a learning-rate "
                "schedule of that optimiser"
            )
        return _Model(name, parameters, optimizer, schedule)


class _Model:
    """One model's optimiser, on its own parameters."""

    def __init__(
        self, name: str, parameters: Mapping[str, nn.Parameter], optimizer: torch.optim.Optimizer, schedule: Any
    ) -> None:
        self._name, self._parameters, self._optimizer, self._schedule = name, parameters, optimizer, schedule
        self._addresses = {key: parameter.data_ptr() for key, parameter in parameters.items()}

    def apart(self, values: Mapping[str, Tensor], error: Tensor | float = 0.0) -> Tensor:
        """True, as a tensor, if its parameters differ from `values` by more than `error`; NaN agrees with itself."""
        flags = []
        for key, parameter in self._parameters.items():
            current, value = parameter.detach(), values[key]
            agreement = (current == value) | ((current - value).abs() <= error) | (current.isnan() & value.isnan())
            flags.append(~agreement.all())
        return torch.stack(flags).any()

    def export(self, values: Mapping[str, Tensor]) -> None:
        """Copies its parameters to `values`."""
        for key, parameter in self._parameters.items():
            values[key].copy_(parameter.detach())

    def step(self, gradients: Mapping[str, Tensor]) -> None:
        for key, parameter in self._parameters.items():
            parameter.grad = gradients[key]
        try:
            self._optimizer.step()
            if self._schedule is not None:
                self._schedule.step()
        except _CODE_ERRORS as error:
            _pass_on(error)
            kind, reason = type(self._optimizer).__name__, type(error).__name__
            raise ConfigError(
                f"the optimiser of '{self._name}' ({kind}) cannot take a step from gradients alone: {reason}: {error}"
            ) from error
        for key, parameter in self._parameters.items():
            parameter.grad = None
            if parameter.data_ptr() != self._addresses[key]:
                raise ConfigError(
                    f"the optimiser of '{self._name}' put another tensor in the place of parameter '{key}'; change it in place"
                )


def _pass_on(error: Exception) -> None:
    """Raises `error` itself if memory ran out, which fewer models at once may mend."""
    if isinstance(error, torch.OutOfMemoryError) or "memory" in str(error):
        raise error


PLUGIN = FromTorch
