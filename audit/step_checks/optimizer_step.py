"""A step given as a private optimiser with its model and criterion, such as Opacus makes them.

The release is read from `.grad` when the wrapped optimiser is about to step, never from differences of parameters: weight
decay, momentum and Adam's scaling turn those into false alarms or false passes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from audit import plugins
from audit.core.errors import ConfigError
from audit.step_checks.batches import Batch
from audit.step_checks.steps import Setting, to_float64
from audit.step_checks.tensors import Tensors

ATTRIBUTES = {"noise_multiplier": "noise_multiplier", "clip_norm": "max_grad_norm", "divisor": "expected_batch_size"}
"""Fields of `Setting` and the attributes of Opacus' optimisers that hold them."""


@dataclass(kw_only=True, eq=False)
class OptimizerStep:
    """Forward, backward and `optimizer.step()` on one batch, from the same parameters each time.

    Attributes:
        model: as the training uses it (for Opacus, what `make_private` returned); its parameters are put back after each call.
        optimizer: the private optimiser; its settings and its state (momentum, averages) are put back after each call, and
            no call is reported to an accountant.
        criterion: `criterion(outputs, labels)`, a scalar.
        mean: whether the optimiser divides the noisy sum by its expected batch size.
    """

    model: Any
    optimizer: Any
    criterion: Callable[[Any, Any], Any]
    mean: bool = True
    _names: dict[int, str] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        if not hasattr(self.optimizer, "step") or not hasattr(self.optimizer, "zero_grad"):
            raise ConfigError(f"optimizer is a {type(self.optimizer).__name__}; expected an optimiser with step and zero_grad")
        if not callable(getattr(self.model, "named_parameters", None)) or not callable(self.model):
            raise ConfigError(f"model is a {type(self.model).__name__}; expected a module of torch")
        self._names = {id(value): name for name, value in self.model.named_parameters() if value.requires_grad}
        if not self._names:
            raise ConfigError("no parameter of the model is trainable; a step would release nothing")

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
        with self._prepare(setting, seed), _released_gradients(self._names) as gradients:
            self.model.train()
            self.optimizer.zero_grad()
            self.run([torch.as_tensor(np.array(array)) for array in batch])
            self.optimizer.zero_grad()
        if len(gradients) != len(self._names):
            missing = sorted(set(self._names.values()) - set(gradients))
            raise ConfigError(
                f"the optimiser stepped without a gradient for {', '.join(missing) or 'any parameter'}; expected every "
                "trainable parameter to be released in every step"
            )
        scale = setting.divisor if self.mean else 1.0
        return {name: value * scale for name, value in gradients.items()}

    def run(self, batch: Sequence[Tensor]) -> None:
        """Call forward, backward and the optimiser on a batch."""
        with plugins.foreign_code("the model or the criterion"):
            self.criterion(self.model(*batch[:-1]), batch[-1]).backward()
        self.optimizer.step()

    @contextmanager
    def _prepare(self, setting: Setting, seed: int) -> Iterator[None]:
        """Set the optimiser to a setting and a generator; put parameters and attributes back afterwards."""
        values = {name: value.detach().clone() for name, value in self.model.state_dict().items()}
        attributes = {ATTRIBUTES[name]: getattr(setting, name) for name in sorted(self.adjustable)}
        if hasattr(self.optimizer, "generator"):
            attributes["generator"] = torch.Generator().manual_seed(seed)
        if hasattr(self.optimizer, "step_hook"):
            attributes["step_hook"] = None  # through which Opacus' optimisers tell the accountant of a step
        before = {name: getattr(self.optimizer, name) for name in attributes}
        for name, value in attributes.items():
            setattr(self.optimizer, name, value)
        try:
            with torch.random.fork_rng(devices=[]):
                torch.default_generator.manual_seed(seed)  # dropout of the user's model, put back when the fork ends
                yield
        finally:
            for name, value in before.items():
                setattr(self.optimizer, name, value)
            self.model.load_state_dict(values)


@contextmanager
def _released_gradients(names: dict[int, str]) -> Iterator[Tensors]:
    """Collect the gradients that torch optimisers are given, by parameter name; put the optimisers' state back afterwards."""
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    gradients: Tensors = {}
    states: list[tuple[Any, dict[Any, Any]]] = []

    def collect(optimizer: Any, *_: Any) -> None:
        states.append((optimizer.state, {key: copy.deepcopy(value) for key, value in optimizer.state.items()}))
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if id(parameter) in names and parameter.grad is not None:
                    gradients[names[id(parameter)]] = to_float64(parameter.grad)

    handle = register_optimizer_step_pre_hook(collect)
    try:
        yield gradients
    finally:
        handle.remove()
        for state, before in reversed(states):
            state.clear()
            state.update(before)
