"""The user's own training function: targets and reference models trained by code that this project knows nothing of."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from audit import plugins
from audit.core.data import Array
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.training import Executed, Progress, TrainedModels, TrainingJob, text_rows
from audit.engine.device import find_device
from audit.engine.measurements import export
from audit.engine.read.subject import Ensemble
from audit.engine.record_rows import training_tensors
from audit.engine.trial.model_source import ModelSource
from audit.models.build import seeded_stream, tensors


@dataclass(frozen=True, slots=True, kw_only=True)
class UserFunction:
    """Calls `function(model, inputs, labels, seed=..., **arguments)` once for each model.

    The function gets the config's model, freshly initialised, and all records of that run as tensors on the job's device, in
    an order that says nothing of the canaries. It trains the model in place, or returns another one with the same
    parameters. Torch's global stream is seeded for each call, so a function that draws from it repeats itself; other
    generators take `seed`. Nothing that it executes is measured: the report says so, and any claim is as declared.

    Attributes:
        function: "package.module:callable".
        arguments: further keyword arguments.
    """

    function: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.function.count(":") != 1:
            raise ConfigError(f"user_function.function is '{self.function}'; expected 'package.module:callable'")

    def fit(self, job: TrainingJob, progress: Progress) -> Ensemble:
        """The trained models of `job`; its checkpoints and canaries that are gradients are an `UnsupportedMechanism`.

        `ConfigError` if the function cannot be loaded, returned something else than a model, or changed what the model holds
        outside of parameters and buffers.
        """
        if job.canaries.are_gradients or job.checkpoints:
            raise UnsupportedMechanism(
                "trainer 'user_function' shows the final model alone; use canaries that are records, with access "
                "label_only, final_model or final_weights"
            )
        function: Callable[..., Any] = plugins.foreign(self.function, "user_function")
        device = find_device(job.device)
        inputs, labels = training_tensors(job, torch.float32, device)
        states, own_modules, source = [], [], ModelSource.of(job)
        for model, seed in enumerate(job.seeds):
            module = source.make(model)
            own_modules.append(text_rows(source.compare([module]) or "", 1))
            module.to(device)
            rows = np.concatenate(
                [np.arange(len(job.dataset.train)), len(job.dataset.train) + np.flatnonzero(job.included[model])]
            )
            order = torch.from_numpy(seed.child("order").numpy().permutation(rows)).to(device)
            with seeded_stream(seed.child("user function")), plugins.foreign_code(f"user_function '{self.function}'"):
                result = function(
                    module, inputs[order], labels[order], seed=seed.child("user seed").integer() % 2**32, **self.arguments
                )
            trained = module if result is None else result
            states.append(_state(trained, module, self.function))
            with plugins.foreign_code("the trained model, asked beside the config's", whole=False):
                source.refuse_other(model, trained.cpu())
            progress(job.steps)
        count = len(job.seeds)
        unknown = np.zeros(count)
        models = TrainedModels(
            weights={name: np.stack([state[name] for state in states]) for name in states[0]},
            executed=Executed(
                steps=0,
                batch_sizes=np.zeros((count, 0), dtype=np.int64),
                population=len(job.dataset.train) + job.included.sum(axis=1),
                noise_multiplier=unknown,
                noise_draws=0,
                largest_norm=unknown,
                skipped=np.zeros(count, dtype=np.int64),
                measured=False,
                own_modules=np.concatenate(own_modules),
            ),
        )
        return Ensemble(job, models)


def _state(result: Any, module: nn.Module, name: str) -> dict[str, Array]:
    if not isinstance(result, nn.Module):
        raise ConfigError(f"user_function '{name}' returned {type(result).__name__}; expected a torch.nn.Module, or None")
    state = export(tensors(result))
    shapes = {key: tuple(value.shape) for key, value in tensors(module).items()}
    if {key: value.shape for key, value in state.items()} != shapes:
        raise ConfigError(f"user_function '{name}' returned a model with other parameters than the config's model")
    return state


PLUGIN = UserFunction
