"""The informed adversary: who knows all records but one reads that one off a trained convex model.

At the minimum of a regularised loss all gradients sum to zero, so those of the known records leave that of the missing one,
and the gradient of a softmax regression is its record times its error.

References: Balle, Cherubin and Hayes 2022, arXiv 2201.04845, section 3 (generalised linear models in closed form).
"""

from dataclasses import dataclass

import numpy as np

from attacks.reconstruction import closed_form
from audit.core import checks
from audit.core.data import Array, Records
from audit.core.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftmaxRegression:
    """Weights that minimise the sum of the records' cross-entropies plus `ridge / 2` times the sum of their squares.

    Attributes:
        weights: `(classes, features)`.
        biases: `(classes,)`, regularised like the weights.
        ridge: of the sum, above 0; a mean loss over n records has n times its penalty.
    """

    weights: Array
    biases: Array
    ridge: float

    def __post_init__(self) -> None:
        checks.nonnegative(self.ridge, "ridge")
        if self.weights.ndim != 2 or self.biases.shape != self.weights.shape[:1]:
            raise ConfigError(
                f"weights of shape {self.weights.shape} and biases of shape {self.biases.shape}; expected (classes, features) "
                "and (classes,)"
            )

    def errors(self, inputs: Array, classes: Array) -> Array:
        """Probabilities less the labels' indicators, `(n, classes)`: gradients of the losses in the biases."""
        outputs = inputs @ self.weights.T + self.biases
        shares = np.exp(outputs - outputs.max(axis=1, keepdims=True))  # the largest exponent is 0, so none overflows
        return np.asarray(shares / shares.sum(axis=1, keepdims=True) - np.eye(len(self.biases))[classes])

    def gradients(self, inputs: Array, classes: Array) -> tuple[Array, Array]:
        """Sums over records of the gradients in the weights `(classes, features)` and in the biases `(classes,)`."""
        errors = self.errors(inputs, classes)
        return errors.T @ inputs, errors.sum(axis=0)


def missing_record(model: SoftmaxRegression, peers: Records) -> tuple[Array, int]:
    """The input `(features,)` and the label of the one training record that is not among `peers`; `ObservationError` if the
    missing record left no gradient.

    Exact up to how far from its minimum the model was stopped. If noise was added to the weights, what comes out is
    another record: the error of the sum is divided by the missing record's own error.

    Args:
        peers: `n - 1` records, which the adversary knows.
    """
    # in double precision: one record's gradient is what a sum over all the others leaves
    inputs = peers.inputs.reshape(len(peers), -1).astype(np.float64)
    known_weights, known_biases = model.gradients(inputs, peers.labels)
    own_weights = -(model.ridge * model.weights + known_weights)
    own_biases = -(model.ridge * model.biases + known_biases)
    label = int(closed_form.single(own_biases[None])[0])
    return closed_form.inputs(own_weights[None], own_biases[None])[0], label
