"""The noisy sums behind the models that a federation releases, read off these models alone."""

import torch
from torch import Tensor

from audit.core.errors import ObservationError
from audit.core.training import TrainingJob
from audit.engine.optimizing import ReadableOptimizer, build_optimizer

_ROUNDING = 1e-3  # of a step: float32 keeps seven digits of a model, of which a step is a small part


class ReleasedSums:
    """What each released model says of its round's sum, whatever the server says of it.

    After plain and momentum steps the sum follows from two models. After others it does so in exact arithmetic alone: then the
    step is taken again from the sum that the server states, and one that gives another model is refused.

    Args:
        job: with the server's optimiser.
        rounds: of the training.
        denominator: by which a sum is divided before it moves the model, a public constant.
    """

    def __init__(self, job: TrainingJob, rounds: int, denominator: float) -> None:
        optimizer = build_optimizer(job)
        self.kind, self.denominator = job.optimizer.get("kind", "sgd"), denominator
        self.reader = optimizer.read(rounds) if isinstance(optimizer, ReadableOptimizer) else None
        self.twin = optimizer.start(rounds)

    def sum_behind(self, before: Tensor, after: Tensor, logged_sum: Tensor) -> Tensor:
        """Return the sums `(N, width)` of a round that moved models from `before` to `after`.

        Raises:
            ObservationError: the sum does not follow from the models, and `logged_sum` leads to others.
        """
        if self.reader is not None:
            return self.reader.gradient(before, after) * self.denominator
        again = before.clone()
        self.twin.step(again, logged_sum / self.denominator)
        largest = (again - before).abs().amax().clamp(min=1e-30)
        if not torch.allclose(again, after, rtol=1e-5, atol=float(largest) * _ROUNDING, equal_nan=True):
            raise ObservationError(
                f"a released model is not what optimizer '{self.kind}' makes of the sum that its round states (they differ by "
                f"{float((again - after).abs().amax()):.3g}, a step is {float(largest):.3g}); release the model that the noisy "
                "sum leads to, or use optimizer 'sgd', whose sums are read off the models"
            )
        return logged_sum
