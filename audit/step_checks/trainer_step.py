"""A step given as a Hugging Face `Trainer`: its own `training_step`, what its loop does to gradients, and its optimiser."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor

from audit.core.errors import ConfigError, DataError
from audit.step_checks.optimizer_step import OptimizerStep

LABELS = ("labels", "label", "label_ids")
METHODS = ("training_step", "create_optimizer", "callback_handler", "accelerator")


@dataclass(kw_only=True, eq=False)
class TrainerStep(OptimizerStep):
    """One step of a trainer's loop, without its schedulers, logs and counters."""

    # its `training_step` computes gradients; callbacks that act before the optimiser are called, and the batch's gradient
    # is clipped if `args.max_grad_norm` says so, as in its loop
    trainer: Any
    names: Sequence[str]  # of the arrays of a batch, in order
    place: ClassVar[str] = "the trainer"
    model: Any = field(init=False)
    optimizer: Any = field(init=False)
    criterion: Any = field(init=False, default=None)

    def __post_init__(self) -> None:
        missing = [name for name in METHODS if not hasattr(self.trainer, name)]
        if missing:
            raise ConfigError(
                f"trainer is a {type(self.trainer).__name__} without {', '.join(missing)}; expected a transformers.Trainer"
            )
        if self.trainer.args.gradient_accumulation_steps > 1:
            raise ConfigError("gradient_accumulation_steps is above 1; check a trainer that takes one batch a step")
        if self.trainer.args.world_size > 1:
            raise ConfigError(f"the trainer runs in {self.trainer.args.world_size} processes; check it in one")
        self.model = self.trainer.model
        if self.trainer.optimizer is None:
            self.trainer.create_optimizer()
        optimizer = self.trainer.optimizer
        # Accelerate's wrapper, which is there after a training has begun, hides the settings of the private optimiser in it
        self.optimizer = optimizer.optimizer if type(optimizer).__name__ == "AcceleratedOptimizer" else optimizer
        super().__post_init__()

    def call(self, batch: Sequence[Tensor]) -> None:
        """Call what the trainer's loop calls for one batch, up to the step of the optimiser."""
        trainer = self.trainer
        inputs = dict(zip(self.names, batch, strict=True))
        items = trainer._get_num_items_in_batch([inputs], trainer.args.device)
        trainer.current_gradient_accumulation_steps = 1
        self._training_step(inputs, items)
        limit = trainer.args.max_grad_norm
        if limit is not None and limit > 0:
            trainer.accelerator.clip_grad_norm_(self.model.parameters(), limit)
        trainer.callback_handler.on_pre_optimizer_step(trainer.args, trainer.state, trainer.control)
        self.optimizer.step()

    def _training_step(self, inputs: dict[str, Tensor], items: Any) -> None:
        """Call `training_step` with the batch's number of labels, or without if it is older than transformers 4.46."""
        method = self.trainer.training_step
        try:
            inspect.signature(method).bind(self.model, inputs, items)
        except TypeError:
            method(self.model, inputs)
        else:
            method(self.model, inputs, items)


def sample_arrays(sample: Mapping[str, Any]) -> tuple[list[str], list[Any]]:
    """Return the names and arrays of a sample of a trainer's data set, labels last.

    Raises:
        DataError: the sample has no labels, or nothing else.
    """
    labels = next((name for name in LABELS if name in sample), None)
    if not isinstance(sample, Mapping) or labels is None or len(sample) < 2:
        keys = ", ".join(sample) if isinstance(sample, Mapping) else type(sample).__name__
        raise DataError(
            f"the sample holds {keys}; expected a mapping of the model's inputs and 'labels' to arrays, one row a record"
        )
    names = [*(name for name in sample if name != labels), labels]
    return names, [sample[name] for name in names]
