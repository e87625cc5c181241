"""DP-FTRL by a banded matrix factorisation: noise that later steps partly take back, each record once in a cycle of steps."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from audit.core.data import Array
from audit.core.deployed_events import MatrixFactorization
from audit.core.errors import UnsupportedMechanism
from audit.core.events import dp_sgd
from audit.core.training import Progress, TrainedModels, TrainingJob
from audit.engine.dp_options import Technique
from audit.engine.ensemble import train
from audit.engine.random.cyclic_batches import places
from audit.engine.read.subject import Ensemble
from audit.engine.schedule import ScheduleSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixFactorizationTrainer:
    """Trains with clipped sums and noise that is correlated over steps by the inverse of the mechanism's encoder C.

    Each record has a place in a cycle of as many steps as the mechanism separates its participations by, drawn uniformly and
    independently of all others; a canary's gradient enters at its own place. Only `C (sums + noise)` matters to privacy: the
    noise that was really added is put through C again, and what comes out is measured against the accounted one.

    Attributes:
        model_chunk: models trained together; None finds a number that suits cache and memory.
        clipping: "flat" over all parameters, or "per_layer".
        averaging: decay of the moving average of weights that is released; 0 releases the last ones.
        compile: as for trainer `dpsgd`.

    References:
        Kairouz et al. 2021, arXiv 2103.00039. Denisov et al. 2022, arXiv 2202.08312. Choquette-Choo et al. 2023,
        arXiv 2306.08153 (bands, and cycles of batches).
    """

    takes_losses: ClassVar[bool] = True

    model_chunk: int | None = None
    clipping: str = "flat"
    averaging: float = 0.0
    compile: str = "auto"

    def __post_init__(self) -> None:
        self._technique(None)
        self._settings()

    def _settings(self) -> ScheduleSettings:
        return ScheduleSettings(model_chunk=self.model_chunk, compile=self.compile)

    def _technique(self, encoder: tuple[float, ...] | None) -> Technique:
        if self.clipping == "adaptive":
            raise UnsupportedMechanism(
                "trainer 'matrix_factorization' clips to one norm in all steps; use clipping flat or per_layer"
            )
        return Technique(clipping=self.clipping, averaging=self.averaging, encoder=encoder or ())

    def fit(self, job: TrainingJob, progress: Progress) -> Ensemble:
        """The trained models of `job`.

        `UnsupportedMechanism` if it is no matrix factorisation, a record takes part more often than is accounted for, or a
        layer of the model mixes examples.
        """
        event = job.mechanism
        if not isinstance(event, MatrixFactorization):
            raise UnsupportedMechanism(
                f"trainer 'matrix_factorization' executes a matrix factorisation but the job demands {job.mechanism}; use "
                "mechanism 'matrix_factorization'"
            )
        turns = -(-event.steps // event.separation)
        if event.participations < turns:
            raise UnsupportedMechanism(
                f"{event.steps} steps in cycles of {event.separation} take a record {turns} times, and {event} accounts for "
                f"{event.participations}"
            )
        steps = dp_sgd(
            noise_multiplier=event.noise_multiplier,
            clip_norm=event.clip_norm,
            sample_rate=1 / event.separation,
            steps=event.steps,
        )
        models = train(replace(job, mechanism=steps), progress, self._settings(), self._technique(event.coefficients))
        if models.products is not None:
            models = replace(models, products=_matched_filter(models, job, event))
        return Ensemble(job, models)


def _matched_filter(models: TrainedModels, job: TrainingJob, event: MatrixFactorization) -> Array:
    """`(N, m, steps)` products; their sum over steps is the most powerful statistic of a canary's membership.

    The released rows are put through C (their noise is then independent, with deviation `noise_multiplier`), and weighed by
    what the canary would have put there, a vector of length one. Both are known to whoever sees all steps and knows a canary's
    place, which is public.
    """
    products = np.asarray(models.products, dtype=np.float64)
    encoder = encoder_matrix(event)
    count = len(job.dataset.train) + len(job.canaries)
    own = [places(seed.child("batches"), count, event.separation)[len(job.dataset.train) :] for seed in job.seeds]
    pattern = np.arange(event.steps) % event.separation == np.stack(own)[..., None]
    weights = pattern @ encoder.T
    lengths = np.linalg.norm(weights, axis=2, keepdims=True)
    scores = products @ encoder.T * weights / np.where(lengths > 0, lengths, 1.0)
    return np.asarray(scores, dtype=np.float32)


def encoder_matrix(event: MatrixFactorization) -> Array:
    """C of the event, `(steps, steps)`."""
    matrix = np.zeros((event.steps, event.steps))
    for distance, coefficient in enumerate(event.coefficients[: event.steps]):
        matrix += coefficient * np.eye(event.steps, k=-distance)
    return matrix


PLUGIN = MatrixFactorizationTrainer
