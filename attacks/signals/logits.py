"""Outputs of the final model, and the numbers of them that attacks read."""

from dataclasses import dataclass

import numpy as np

from attacks.signals import _reductions
from audit.core import checks
from audit.core.canaries import Canaries
from audit.core.data import Array, Records
from audit.core.errors import ConfigError
from audit.core.models import Models
from audit.stats.scoring import signals, texts


@dataclass(frozen=True, slots=True, kw_only=True)
class Logits:
    """Outputs for each record."""

    key = "logits"
    source = "outputs"

    def size(self, classes: int, steps: int) -> int:
        return max(classes, 1)

    def read(self, models: Models, canaries: Canaries) -> Array | None:
        """`(N, m, classes)`, of a regression `(N, m, 1)`.

        None if canaries are gradients, for texts (their outputs are one number per token), and for records that have
        several labels or no class: their losses are read.
        """
        records = canaries.records
        if records is None or records.labels.ndim > 1:
            return None
        outputs = models.outputs(records.inputs)
        return None if records.labels.dtype.kind == "f" and outputs.shape[-1] != 1 else outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """The cross-entropy loss of each record in nats, over several labels added up; of a regression `log(1 + error^2)`.

    Of models that were trained by a user's own loss, which may be any real number, `log(1 + exp(loss))`: attacks read minus the
    loss off it.

    Attacks that read losses take them from logits if they can: small losses keep their order there.
    """

    key = "losses"
    source = "losses"

    def size(self, classes: int, steps: int) -> int:
        return 1

    def read(self, models: Models, canaries: Canaries) -> Array | None:
        """`(N, m)`; of a text the mean over the tokens to predict. None if canaries are gradients."""
        if canaries.records is None:
            return None
        if canaries.records.are_texts:
            return texts.mean_losses(models.outputs(canaries.records.inputs), canaries.records.labels)
        losses = models.own_losses(canaries.records)
        return _output_losses(models, canaries.records) if losses is None else np.logaddexp(0.0, losses)


def _output_losses(models: Models, records: Records) -> Array:
    """The usual loss of the records' labels; of a regression attacks read minus the log of the square off it."""
    outputs, labels = models.outputs(records.inputs), records.labels
    if labels.dtype.kind == "b":
        return signals.binary_cross_entropy(outputs, labels)
    if labels.dtype.kind == "f":
        squares = np.square(outputs.reshape(len(outputs), *labels.shape) - labels, dtype=np.float64)
        return np.asarray(np.log1p(squares.reshape(*squares.shape[:2], -1).sum(axis=-1)))
    return signals.cross_entropy(outputs, labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Confidences:
    """Logit-scaled confidence in the true class, `log(p / (1 - p))`, with all logits divided by a temperature first.

    Not a number if an output is not finite, so that the model counts as diverged, as it does by its outputs.

    Attributes:
        temperature: by which logits are divided; 1 leaves them as they are.
    """

    temperature: float = 1.0

    source = "outputs"

    def __post_init__(self) -> None:
        if not 0 < self.temperature < np.inf:
            raise ConfigError(f"confidences.temperature is {self.temperature}; expected a finite number above 0")

    @property
    def key(self) -> str:
        return _reductions.confidences_key(self.temperature)

    def size(self, classes: int, steps: int) -> int:
        return 2  # numbers of four bytes, and it is one of eight

    def reduce(self, outputs: Array, first: Array, labels: Array) -> Array:
        """`(N, rows)` float64."""
        with np.errstate(over="ignore", invalid="ignore"):
            values = signals.scaled_confidence(outputs, labels, self.temperature)
        return np.where(np.isfinite(outputs).all(axis=-1), values, np.nan)

    def read(self, models: Models, canaries: Canaries) -> Array | None:
        """`(N, m)` float64; None if canaries are no records of one class each."""
        return _reductions.read(self, models, canaries)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFigures:
    """A figure of each record's outputs (`_reductions.FIGURES`); not a number if an output is not finite.

    Attributes:
        figure: its name: the entropy of the prediction, that which knows the label, the log odds of the predicted class, or
            the log of the length of the loss gradient in the outputs.
    """

    figure: str

    source = "outputs"

    def __post_init__(self) -> None:
        checks.choice(self.figure, "output_figures.figure", _reductions.FIGURES)

    @property
    def key(self) -> str:
        return f"{_reductions.OUTPUT_FIGURES}/{self.figure}"

    def size(self, classes: int, steps: int) -> int:
        return 2

    def reduce(self, outputs: Array, first: Array, labels: Array) -> Array:
        """`(N, rows)` float64."""
        with np.errstate(invalid="ignore"):
            values = _reductions.FIGURES[self.figure](outputs, labels)
        return np.where(np.isfinite(outputs).all(axis=-1), values, np.nan)

    def read(self, models: Models, canaries: Canaries) -> Array | None:
        """`(N, m)` float64; None if canaries are no records of one class each."""
        return _reductions.read(self, models, canaries)


PLUGIN = Logits
