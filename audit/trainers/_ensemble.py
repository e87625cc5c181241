"""Training by the ensemble engine, many models at once: plain, and DP-SGD with exact per-example clipping."""

from dataclasses import dataclass, replace
from typing import ClassVar

from audit.core.errors import UnsupportedMechanism
from audit.core.event_reading import is_non_private
from audit.core.training import Progress, TrainingJob
from audit.engine.dp_options import Technique
from audit.engine.ensemble import train
from audit.engine.gradients.adaptive_clipping import Quantile
from audit.engine.read.subject import Ensemble
from audit.engine.schedule import ScheduleSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsembleTrainer:
    """What both trainers are told, and how they train.

    Attributes:
        model_chunk: models trained together; None finds a number that suits cache and memory.
        copies: augmented views of each sampled image, averaged, before one clip if there is any.
        flip: views are mirrored at random.
        shift: views are moved at random by up to so many pixels.
        augmentation: of your own, "package.module:function": it is handed records of a batch `(n, ...)` and a `torch.Generator`
            and returns as many views of them, each of one record alone.
        averaging: decay of the moving average of weights that is released; 0 releases the last ones.
        compile: "auto" computes MLPs and small CNNs by code that the machine's C compiler makes, 2 to 8 times as fast, if
            the training repays the compiler; "on" always. As exact, but not the same to the last bit as "off".
        precision: "bfloat16" multiplies in it on the way forward and back, which is faster for wide layers, and "tf32" lets a
            GPU read eleven bits of each number; norms, clipping, sums, noise and parameters stay in float32, and one example
            still moves the sum by at most the clip norm.
    """

    takes_losses: ClassVar[bool] = True

    model_chunk: int | None = None
    copies: int = 1
    flip: bool = False
    shift: int = 0
    augmentation: str | None = None
    averaging: float = 0.0
    compile: str = "auto"
    precision: str = "float32"

    def __post_init__(self) -> None:
        self._technique()
        self._settings()

    def _settings(self) -> ScheduleSettings:
        return ScheduleSettings(model_chunk=self.model_chunk, compile=self.compile, precision=self.precision)

    def _technique(self) -> Technique:
        return Technique(
            copies=self.copies, flip=self.flip, shift=self.shift, averaging=self.averaging, augmentation=self.augmentation
        )

    def _train(self, job: TrainingJob, progress: Progress) -> Ensemble:
        return Ensemble(job, train(job, progress, self._settings(), self._technique()))


@dataclass(frozen=True, slots=True, kw_only=True)
class SgdTrainer(EnsembleTrainer):
    """Trains with Poisson batches, without clipping and without noise."""

    def fit(self, job: TrainingJob, progress: Progress) -> Ensemble:
        """The trained models of `job`; `UnsupportedMechanism` if it demands noise."""
        if not is_non_private(job.mechanism):
            raise UnsupportedMechanism(
                f"trainer 'sgd' trains without privacy but the job demands {job.mechanism}; use trainer 'dpsgd'"
            )
        return self._train(job, progress)


@dataclass(frozen=True, slots=True, kw_only=True)
class DpSgdTrainer(EnsembleTrainer):
    """Trains with Poisson batches, per-example clipping over all parameters and Gaussian noise on the sum.

    Attributes:
        clipping: "flat" over all parameters; "per_layer" with thresholds that add up in squares to the squared clip norm;
            "adaptive" with a clip norm that starts at the mechanism's and follows a quantile of the gradients' norms. The
            mechanism that is accounted is the same each time: with "adaptive" the noise multiplier covers the sum and the
            count of clipped examples together.
        quantile: share of examples that "adaptive" leaves as they are.
        clip_rate: of the geometric update of the adaptive clip norm.
        count_noise: standard deviation of the noise on the adaptive count; None takes a twentieth of the expected batch,
            or twice the noise multiplier if that is more.
    """

    clipping: str = "flat"
    quantile: float = 0.5
    clip_rate: float = 0.2
    count_noise: float | None = None

    def _technique(self) -> Technique:
        quantile = Quantile(target=self.quantile, rate=self.clip_rate, count_noise=self.count_noise)
        return replace(EnsembleTrainer._technique(self), clipping=self.clipping, quantile=quantile)

    def fit(self, job: TrainingJob, progress: Progress) -> Ensemble:
        """The trained models of `job`; `UnsupportedMechanism` if it is not DP-SGD, or a layer of the model mixes examples."""
        if job.noisy is None:
            raise UnsupportedMechanism(
                f"trainer 'dpsgd' clips and adds noise but the job demands {job.mechanism}; use trainer 'sgd'"
            )
        return self._train(job, progress)
