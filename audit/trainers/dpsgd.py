"""DP-SGD by the ensemble engine: exact per-example clipping for many models at once."""

from __future__ import annotations

from dataclasses import dataclass

from audit.core.errors import UnsupportedMechanism
from audit.core.mechanism import DpSgd
from audit.core.protocols import Progress, TrainingJob
from audit.core.records import TrainedModels
from audit.training.arrange import Settings
from audit.training.ensemble import train


@dataclass(frozen=True, slots=True, kw_only=True)
class DpSgdTrainer:
    """Trains with Poisson batches, per-example clipping over all parameters and Gaussian noise on the sum.

    Attributes:
        model_chunk: models trained together; None finds a number that suits cache and memory.
    """

    model_chunk: int | None = None

    def fit(self, job: TrainingJob, progress: Progress) -> TrainedModels:
        """The trained models of `job`.

        Raises:
            UnsupportedMechanism: the job is not `DpSgd`, or a layer of the model mixes examples.
        """
        if not isinstance(job.mechanism, DpSgd):
            raise UnsupportedMechanism(
                f"trainer 'dpsgd' clips and adds noise but the job demands {type(job.mechanism).__name__}; use trainer 'sgd'"
            )
        return train(job, progress, Settings(model_chunk=self.model_chunk))


PLUGIN = DpSgdTrainer
