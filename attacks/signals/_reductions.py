"""What is kept of outputs if no one reads all of them: numbers that are made while models are observed.

Models x records x classes numbers become models x records for each number that an attack reads (`Needs.reductions`), with the
same scores to the last bit.
"""

from collections.abc import Callable, Mapping

import numpy as np

from attacks.signals._sizes import OnePerCanary
from audit.core.canaries import Canaries
from audit.core.data import Array
from audit.core.models import Models, Reduction
from audit.stats.scoring import signals

CONFIDENCES = "confidences"
NEARBY_CONFIDENCES = "nearby_confidences"
OUTPUT_FIGURES = "output_figures"
PREDICTED_CLASSES = "predicted_classes"
REPEATED_OUTPUTS = "repeated_outputs"


def confidences_key(temperature: float) -> str:
    """Return the key of the confidences at a temperature.

    >>> confidences_key(1), confidences_key(2.0), confidences_key(0.5)
    ('confidences', 'confidences/2', 'confidences/0.5')
    """
    # 17 digits: equal keys are equal temperatures
    return CONFIDENCES if temperature == 1 else f"{CONFIDENCES}/{temperature:.17g}"


def read(reduction: Reduction, models: Models, canaries: Canaries) -> Array | None:
    """Return the reduction of the models' outputs if canaries are records of one class each; else None."""
    records = canaries.records
    if records is None or not records.are_classified:
        return None
    outputs = models.outputs(records.inputs)
    return reduction.reduce(outputs, outputs[:, 0], records.labels)


def _top_confidence(logits: Array, labels: Array) -> Array:
    """Return the log odds of the predicted class, whatever the label."""
    rows = logits.reshape(-1, *logits.shape[-2:])
    values = [signals.scaled_confidence(scores, np.argmax(scores, axis=-1)) for scores in rows]
    return np.reshape(values, logits.shape[:-1])


def _entropy(logits: Array, labels: Array) -> Array:
    return signals.entropy(logits)


# from outputs `(..., m, classes)` and labels `(m,)` to `(..., m)` float64
FIGURES: Mapping[str, Callable[[Array, Array], Array]] = {
    "entropy": _entropy,
    "modified_entropy": signals.modified_entropy,
    "top_confidence": _top_confidence,
    "log_gradient_norm": signals.log_output_gradient_norm,
}


class PredictedClasses(OnePerCanary):
    """The first class with the largest output: what accuracies of groups and sides are counted from."""

    key = PREDICTED_CLASSES
    source = "outputs"

    def reduce(self, outputs: Array, first: Array, labels: Array) -> Array:
        """`(N, rows)`, a byte each if there are 256 classes or fewer."""
        return np.asarray(np.argmax(outputs, axis=-1), np.min_scalar_type(outputs.shape[-1] - 1))

    def read(self, models: Models, canaries: Canaries) -> Array | None:
        """`(N, m)`; None if canaries are no records of one class each."""
        return read(self, models, canaries)


class RepeatedOutputs(OnePerCanary):
    """True of each record whose outputs are those of the first: of all if a model shows nothing (`View.is_silent`)."""

    key = REPEATED_OUTPUTS
    source = "outputs"

    def reduce(self, outputs: Array, first: Array, labels: Array) -> Array:
        """`(N, rows)` bool."""
        return np.asarray((outputs == first[:, None]).all(axis=-1))

    def read(self, models: Models, canaries: Canaries) -> Array | None:
        """`(N, m)` bool; None if canaries are no records of one class each."""
        return read(self, models, canaries)
