"""What linear layers give away exactly: the input of the first is the ratio of two gradients, those of the last tell labels.

References:
    Zhao, Mopuri and Bilen 2020, arXiv 2001.02610 (iDLG); Geng et al. 2021, arXiv 2105.13929, and others, for counts.
    Geiping et al. 2020, arXiv 2003.14053, proposition 3.1; Fowl et al. 2022, arXiv 2110.13057 (imprint modules).
"""

import statistics
from dataclasses import dataclass

import numpy as np

from audit.core import checks
from audit.core.data import Array, Records
from audit.core.errors import ConfigError, ObservationError


def single(bias_gradients: Array) -> Array:
    """The label `(N,)` of one record each: the only class with a negative bias gradient (its probability less one).

    Args:
        bias_gradients: `(N, classes)` of the last layer, under cross-entropy.

    >>> single(np.array([[0.1, -0.8, 0.7]])).tolist()
    [1]
    """
    return np.asarray(bias_gradients.argmin(axis=1))


def counts(bias_gradients: Array, probabilities: Array, batch: int) -> Array:
    """Return how many records of each class a batch held, `(N, classes)`, summing to `batch`.

    The bias gradient of class c under the mean loss is its mean probability less its share of the labels. That probability is
    taken from public records, which holds for fresh models; after training it fails (docs/evidence/reconstruction.md).

    Args:
        bias_gradients: `(N, classes)`.
        probabilities: `(n, classes)` of public records under the same model.

    >>> counts(np.array([[0.25 - 0.5, 0.25, 0.5 - 0.5]]), np.array([[0.25, 0.25, 0.5]]), 2).tolist()
    [[1, 0, 1]]
    """
    if batch < 1:
        raise ConfigError(f"batch is {batch}; expected at least one record")
    # public records' probabilities only come near
    shares = np.maximum(probabilities.mean(axis=0) - bias_gradients, 0.0) * batch
    full = np.floor(shares).astype(np.int64)
    for index, share in enumerate(shares):
        missing, remainder = batch - int(full[index].sum()), share - full[index]
        if missing > 0:
            # the largest remainders are rounded up first; the modulus starts again if more are missing than there are classes
            places = np.argsort(-remainder, kind="stable")[np.arange(missing) % len(remainder)]
            np.add.at(full[index], places, 1)
        for _ in range(-missing):
            full[index, int(np.where(full[index] > 0, remainder, np.inf).argmin())] -= 1
    return np.asarray(full)


def inputs(weight_gradients: Array, bias_gradients: Array) -> Array:
    """The inputs `(N, features)` of a linear layer with a bias, each from the gradients of one record; `ObservationError` if
    all bias gradients of a target are 0: no unit of the layer was active.

    The gradient of row j of the weights is the input times the gradient of bias j; the largest of these is divided by.

    Args:
        weight_gradients: `(N, outputs, features)`.
        bias_gradients: `(N, outputs)`.

    >>> inputs(np.array([[[2.0, 4.0], [0.0, 0.0]]]), np.array([[2.0, 0.0]])).tolist()
    [[1.0, 2.0]]
    """
    # all rows give the same ratio; the largest divisor loses the fewest digits to noise
    largest = np.abs(bias_gradients).argmax(axis=1)
    rows = np.arange(len(bias_gradients))
    divisors = bias_gradients[rows, largest]
    if (divisors == 0).any():
        target = int(np.flatnonzero(divisors == 0)[0])
        raise ObservationError(
            f"target {target}: all bias gradients are 0, so its input cannot be read off; no unit was active"
        )
    return np.asarray(weight_gradients[rows, largest] / divisors[:, None])


def imprint_layer(brightness: Array, bins: int) -> tuple[Array, Array]:
    """Weights `(bins, features)` and biases `(bins,)` of a layer that a malicious server puts first.

    Unit i is active for records brighter than the i-th quantile of a normal law fitted to `brightness`, so the difference
    between the gradients of neighbouring units belongs to the records of one bin. The model is changed: an honest server does
    not do it.

    Args:
        brightness: `(n, features)` public records of the same kind, from which mean brightness is estimated.
    """
    if bins < 2 or len(brightness) < 2:
        raise ConfigError(f"{bins} bins from {len(brightness)} public records; expected at least 2 of each")
    means = brightness.mean(axis=1)
    law = statistics.NormalDist(float(means.mean()), max(float(means.std()), 1e-12))  # of equal images: 0 is refused
    cuts = np.array([law.inv_cdf((i + 0.5) / (bins + 0.5)) for i in range(bins)])
    weights = np.full((bins, brightness.shape[1]), 1 / brightness.shape[1])
    return weights, -cuts


def imprinted_inputs(weight_gradients: Array, bias_gradients: Array) -> Array:
    """The records `(found, features)` that were alone in a bin of `imprint_layer`, from one batch's summed gradients.

    A bin of several records gives an average of them, which is returned too: nothing in the gradients distinguishes it.

    Args:
        weight_gradients: `(bins, features)`.
        bias_gradients: `(bins,)`.
    """
    # unit i is active for all records above its cut, so the next unit's are subtracted; the last bin is its own
    weights = np.concatenate([weight_gradients[:-1] - weight_gradients[1:], weight_gradients[-1:]])
    biases = np.concatenate([bias_gradients[:-1] - bias_gradients[1:], bias_gradients[-1:]])
    # of bins without a record the difference of two sums is rounding error, not 0
    rows_with_records = np.abs(biases) > 1e-9 * max(float(np.abs(biases).max()), 1e-300)
    return np.asarray(weights[rows_with_records] / biases[rows_with_records, None])


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
    known_inputs = peers.inputs.reshape(len(peers), -1).astype(np.float64)
    known_weights, known_biases = model.gradients(known_inputs, peers.labels)
    own_weights = -(model.ridge * model.weights + known_weights)
    own_biases = -(model.ridge * model.biases + known_biases)
    label = int(single(own_biases[None])[0])
    return inputs(own_weights[None], own_biases[None])[0], label
