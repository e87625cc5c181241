"""A step given as a private optimiser with its model and criterion, such as Opacus makes them.

The release is read from `.grad` when the wrapped optimiser is about to step, never from differences of parameters: weight
decay, momentum and Adam's scaling turn those into false alarms or false passes.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.modules.dropout import _DropoutNd

from audit import plugins
from audit.core.errors import ConfigError
from audit.core.rounding import plural
from audit.step_checks.batches import Batch
from audit.step_checks.steps import Setting, to_float64
from audit.step_checks.tensors import Tensors, demand_finite

# fields of `Setting` and the attributes of Opacus' optimisers that hold them
ATTRIBUTES = {"noise_multiplier": "noise_multiplier", "clip_norm": "max_grad_norm", "divisor": "expected_batch_size"}


@dataclass(kw_only=True, eq=False)
class OptimizerStep:
    """Forward, backward and `optimizer.step()` on one batch, from the same parameters each time."""

    # as the training uses it (for Opacus, what `make_private` returned); its parameters are put back after each call
    model: Any
    # the private optimiser; its settings and its state (momentum, averages) are put back after each call, and no call is
    # reported to an accountant
    optimizer: Any
    criterion: Callable[[Any, Any], Any]  # `criterion(outputs, labels)`, a scalar
    mean: bool = True  # whether the optimiser divides the noisy sum by its expected batch size
    place: ClassVar[str] = "the model, the criterion or the optimiser"
    _names: dict[int, str] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        if not hasattr(self.optimizer, "step") or not hasattr(self.optimizer, "zero_grad"):
            raise ConfigError(f"optimizer is a {type(self.optimizer).__name__}; expected an optimiser with step and zero_grad")
        if not callable(getattr(self.model, "named_parameters", None)) or not callable(self.model):
            raise ConfigError(f"model is a {type(self.model).__name__}; expected a module of torch")
        self._names = {id(value): name for name, value in self.model.named_parameters() if value.requires_grad}
        if not self._names:
            raise ConfigError("no parameter of the model is trainable; a step would release nothing")
        demand_finite(dict(self.model.named_parameters()))

    @property
    def adjustable(self) -> frozenset[str]:
        """The fields of `Setting` that the optimiser has an attribute for."""
        return frozenset(name for name, attribute in ATTRIBUTES.items() if hasattr(self.optimizer, attribute))

    @property
    def resolution(self) -> float:
        """0: gradients are read as they are."""
        return 0.0

    def release(self, batch: Batch, setting: Setting, seed: int) -> Tensors:
        """Return the noisy sum of clipped gradients that the wrapped optimiser would apply."""
        return self.read(self.outcome(batch, setting, seed), setting)

    def release_after(self, previous: Batch | None, batch: Batch, setting: Setting, seed: int) -> Tensors:
        """Return what `release` does if a step on another batch came before, after which the parameters were put back."""
        return self.read(self._call(batch, setting, seed, None, previous)[0], setting)

    def outcome(self, batch: Batch, setting: Setting, seed: int) -> Mapping[str, Tensor]:
        """Return the gradients that the wrapped optimiser was given."""
        return self._call(batch, setting, seed, None)[0]

    def read(self, result: Mapping[str, Tensor], setting: Setting) -> Tensors:
        """Return the noisy sum in the gradients."""
        scale = setting.divisor if self.mean else 1.0
        return {name: to_float64(value) * scale for name, value in result.items()}

    def leaks(self, first: Batch, second: Batch, setting: Setting, seed: int) -> list[str]:
        """Return what differs after a step on two batches although the optimiser was given the same gradients for both.

        Whatever it is, parameters, buffers or the state of the optimiser, got information about the records by another way than
        the release: it has no noise.
        """
        gradients, reference = self._call(first, setting, seed, None)
        _, state = self._call(second, setting, seed, gradients)
        return sorted(name for name, value in reference.items() if not _equal(value, state.get(name)))

    def run(self, batch: Batch) -> None:
        """Call forward, backward and the optimiser on a batch.

        Raises:
            ConfigError: one of them raised an error.
        """
        with plugins.foreign_code(f"{self.place}, given {plural(len(batch[0]), 'record')}"):
            self.call([torch.as_tensor(np.array(array)) for array in batch])

    def call(self, batch: Sequence[Tensor]) -> None:
        """Call them, whose errors are the user's."""
        self.criterion(self.model(*batch[:-1]), batch[-1]).backward()
        self.optimizer.step()

    def _call(
        self,
        batch: Batch,
        setting: Setting,
        seed: int,
        replacement: Mapping[str, Tensor] | None,
        previous: Batch | None = None,
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return the gradients that the wrapped optimiser was given, and everything that it and the model hold afterwards."""
        with self._prepare(setting, seed), _watched_optimizers(self._names, replacement) as (gradients, states):
            self.model.train()
            for module in self.model.modules():
                if isinstance(module, _DropoutNd):  # which would hide what a record does behind what its mask does
                    module.eval()
            self.optimizer.zero_grad()
            if previous is not None:
                before = {name: value.clone() for name, value in self.model.state_dict().items()}
                self.run(previous)
                self.model.load_state_dict(before)
                self.optimizer.zero_grad()
                gradients.clear()
            self.run(batch)
            after = {name: value.detach().clone() for name, value in self.model.state_dict().items()}
            after |= states()
            self.optimizer.zero_grad()
        if len(gradients) != len(self._names):
            missing = sorted(set(self._names.values()) - set(gradients))
            raise ConfigError(
                f"the optimiser stepped without a gradient for {', '.join(missing) or 'any parameter'}; expected every "
                "trainable parameter to be released in every step"
            )
        return gradients, after

    @contextmanager
    def _prepare(self, setting: Setting, seed: int) -> Iterator[None]:
        """Set the optimiser to a setting and a generator; put back afterwards what was there."""
        values = {name: value.detach().clone() for name, value in self.model.state_dict().items()}
        own = getattr(self.optimizer, ATTRIBUTES["clip_norm"], None)
        with _kept_attributes(self.model, self.optimizer):
            for name in sorted(self.adjustable):
                setattr(self.optimizer, ATTRIBUTES[name], getattr(setting, name))
            if isinstance(own, int | float) and own > 0:
                self._scale_clip_norms(setting.clip_norm / own)
            if hasattr(self.optimizer, "generator"):
                self.optimizer.generator = torch.Generator().manual_seed(seed)
            if hasattr(self.optimizer, "step_hook"):
                self.optimizer.step_hook = None  # through which Opacus' optimisers tell the accountant of a step
            try:
                with torch.random.fork_rng(devices=[]):
                    torch.default_generator.manual_seed(seed)  # dropout of the user's model, put back when the fork ends
                    yield
            finally:
                self.model.load_state_dict(values)

    def _scale_clip_norms(self, factor: float) -> None:
        """Scale clip norms elsewhere than on the optimiser too, by which its noise goes: the model's, or a list per layer.

        Opacus' ghost clipping reads the model's; one that differs from the optimiser's is kept so.
        """
        if isinstance(getattr(self.model, "max_grad_norm", None), int | float):
            self.model.max_grad_norm *= factor
        budgets = getattr(self.optimizer, "max_grad_norms", None)
        if isinstance(budgets, list):
            self.optimizer.max_grad_norms = [float(budget) * factor for budget in budgets]


@contextmanager
def _kept_attributes(model: Any, optimizer: Any) -> Iterator[None]:
    """Put back the attributes of an optimiser, a model and its parameters, and cut lists that its hooks filled.

    A call that fails between forward and backward, such as that of an empty batch, leaves activations and the size of the
    batch in Opacus' hooks, which the next backward would take for its own.
    """
    modules, parameters = list(model.modules()), list(model.parameters())
    owners = [value for value in (optimizer, *parameters) if hasattr(value, "__dict__")]
    attributes_before = [(value.__dict__, dict(value.__dict__)) for value in owners]
    clip_norm = getattr(model, "max_grad_norm", None)
    lengths = [len(value) if isinstance(value := vars(module).get("activations"), list) else 0 for module in modules]
    modes = [module.training for module in modules]
    try:
        yield
    finally:
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode
        for attributes, before in attributes_before:
            attributes.clear()
            attributes.update(before)
        for parameter in parameters:
            parameter.grad = None
        for module, length in zip(modules, lengths, strict=True):
            if isinstance(value := vars(module).get("activations"), list):
                del value[length:]
            vars(module).pop("max_batch_len", None)
        if clip_norm is not None:
            model.max_grad_norm = clip_norm


@contextmanager
def _watched_optimizers(
    names: Mapping[int, str], replacement: Mapping[str, Tensor] | None
) -> Iterator[tuple[dict[str, Tensor], Callable[[], dict[str, Tensor]]]]:
    """Collect the gradients that torch optimisers are given, by parameter name, and give them others if there are any.

    Yields the gradients, and a function that returns the optimisers' tensors of state; their state is put back afterwards.
    """
    gradients: dict[str, Tensor] = {}

    def collect(optimizer: Any) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if id(parameter) in names and parameter.grad is not None:
                    name = names[id(parameter)]
                    gradients[name] = parameter.grad.detach().clone()
                    if replacement is not None:
                        parameter.grad.copy_(replacement[name])

    with kept_states(collect) as optimizers:

        def read_states() -> dict[str, Tensor]:
            return {
                f"{key} of {names[id(parameter)]}": value.detach().clone()
                for optimizer in optimizers
                for parameter, content in optimizer.state.items()
                if id(parameter) in names
                for key, value in content.items()
                if isinstance(value, Tensor)
            }

        yield gradients, read_states


@contextmanager
def kept_states(before_step: Callable[[Any], None] = lambda _: None) -> Iterator[list[Any]]:
    """Collect the torch optimisers that step, call a function before each step, and put state and settings back afterwards."""
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    optimizers: list[Any] = []
    before: list[tuple[dict[Any, Any], list[dict[str, Any]]]] = []

    def collect(optimizer: Any, *_: Any) -> None:
        if not any(optimizer is known_optimizer for known_optimizer in optimizers):
            optimizers.append(optimizer)
            state = {key: copy.deepcopy(value) for key, value in optimizer.state.items()}
            before.append((state, [dict(group) for group in optimizer.param_groups]))
        before_step(optimizer)

    handle = register_optimizer_step_pre_hook(collect)
    try:
        yield optimizers
    finally:
        handle.remove()
        for optimizer, (state, groups) in zip(optimizers, before, strict=True):
            optimizer.state.clear()
            optimizer.state.update(state)
            for group, values in zip(optimizer.param_groups, groups, strict=False):
                group.update(values)


def _equal(first: Tensor, second: Tensor | None) -> bool:
    return second is not None and first.shape == second.shape and torch.equal(first.nan_to_num(), second.nan_to_num())
