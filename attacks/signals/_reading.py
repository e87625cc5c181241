"""Reads one signal off what the adversary sees, the same way for the target and for the reference models.

Logits may carry an axis of queries before the records, `(queries, m, classes)` for the target and
`(k, queries, m, classes)` for references: several augmented views of the same records.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from attacks.signals import _reductions
from attacks.signals._nonmember_medians import NonmemberMedians
from audit.core.coins import as_coins
from audit.core.data import Array
from audit.core.errors import ObservationError
from audit.core.phrases import join_clauses, phrase
from audit.core.protocols import Needs
from audit.core.views import View
from audit.stats.scoring import resolution, signals

# logit-scaled confidences `(..., m)` beside the logits that they were computed from, once for several attacks
CONFIDENCES = _reductions.CONFIDENCES

# beginnings of the keys of what was computed from logits; `RepeatedOutputs` says of these what `View.is_silent` asks
REDUCTIONS = (CONFIDENCES, _reductions.OUTPUT_FIGURES, _reductions.PREDICTED_CLASSES)

LARGEST = 1e100  # size of a number beyond which its squares, and with them variances, are no longer finite

NO_REFERENCE = View(included=np.empty((0, 0), dtype=bool))  # for attacks that look at the target alone


def view_keys(needs: Needs) -> frozenset[str]:
    """Keys of all that a view for an attack may hold: the signals that it names, and numbers that were made of them."""
    of_logits = {CONFIDENCES} if "logits" in needs.keys else set()
    reductions = {reduction.key for reduction in needs.reductions}
    return needs.keys | of_logits | reductions | ({_reductions.REPEATED_OUTPUTS} if reductions else set())


def without_reductions(models: View) -> View:
    """The view with what models showed alone, without numbers that were made of their outputs.

    Of confidences in near records, which sums over neighbourhoods make unlike even if all records have the same, the
    record's own are left.
    """
    own = {key: array for key, array in models.signals.items() if key.split("/")[0] not in REDUCTIONS}
    own.pop(NonmemberMedians.key, None)  # what nonmembers show, not the record
    nearby = own.get(_reductions.NEARBY_CONFIDENCES)
    if nearby is not None and "logits" in own:  # which are equal if confidences, of different classes, are not
        del own[_reductions.NEARBY_CONFIDENCES]
    elif nearby is not None:
        own[_reductions.NEARBY_CONFIDENCES] = nearby[..., 0]
    return replace(models, signals=own)


def outcomes(models: View, labels: Array | None) -> tuple[Array, Array] | None:
    """Losses in nats and whether the predicted class is the true one, `(..., m)` each; None if views show neither.

    Read off logits, or off what was made of them while the models were observed.
    """
    logits_of_models, classes = models.get("logits"), models.get(_reductions.PREDICTED_CLASSES)
    if labels is None:
        return None
    if logits_of_models is not None:
        return signals.cross_entropy(logits_of_models, labels), signals.correct(logits_of_models, labels)
    if classes is None or models.get(CONFIDENCES) is None:
        return None
    return np.asarray(np.logaddexp(0.0, -models[CONFIDENCES])), np.asarray(classes == np.asarray(labels))


def predicted_classes(models: Mapping[str, Array], rows: Any = slice(None)) -> Array | None:
    """The first class with the largest output, of some of the models `(rows, m)`; None if signals do not show it."""
    if "logits" in models:
        return np.asarray(models["logits"][rows].argmax(axis=-1))
    return np.asarray(models[_reductions.PREDICTED_CLASSES][rows]) if _reductions.PREDICTED_CLASSES in models else None


def output_figure(target: View, figure: str, attack: str) -> Array:
    """A figure of the target's outputs (`_reductions.FIGURES`), `(queries, m)` float64; `ObservationError` if neither logits
    nor the figure were observed, or they are not finite.
    """
    own_figure = target.get(f"{_reductions.OUTPUT_FIGURES}/{figure}")
    if own_figure is not None:
        return with_queries(checked(own_figure, attack), 2)
    values, labels = logits(target, attack)
    return _reductions.FIGURES[figure](values, labels)


def confidences(target: View, reference: View, attack: str, key: str = "logits") -> tuple[Array, Array]:
    """Logit-scaled confidences of the target `(queries, m)` and of the references `(k, queries, m)`; `ObservationError` if
    neither logits nor losses were observed, or they are not finite.

    If the references give probabilities of exactly 0 or 1 (shares of trees or neighbours, rounded outputs), those of all
    models are smoothed by the step that the references resolve: a log odds of 0 or 1 is a constant of the arithmetic.

    Args:
        key: of the logits; if a view has none, losses are read.
    """
    target_values, reference_values = exact_confidences(target, reference, attack, key)
    resolved = None if is_regression(target, key) else resolution.resolution(reference_values)
    if resolved is None:
        return target_values, reference_values
    return resolution.smooth(target_values, resolved), resolution.smooth(reference_values, resolved)


def step(target: View, reference: View, attack: str) -> float | None:
    """The least probability that the references resolve; None if none is exactly 0 or 1, and for a regression."""
    return None if is_regression(target, "logits") else resolution.resolution(exact_confidences(target, reference, attack)[1])


def exact_confidences(target: View, reference: View, attack: str, key: str = "logits") -> tuple[Array, Array]:
    """The same without smoothing, for attacks that compare probabilities, or a target's records alone."""
    if key == "logits" and target.get(CONFIDENCES) is not None:
        target_values, reference_values = signal_pair(CONFIDENCES, target, reference, attack)
        return with_queries(target_values, 2), with_queries(reference_values, 3)
    if is_regression(target, key):
        target_values, reference_values = signal_pair(key, target, reference, attack)
        truths = np.asarray(target.labels)
        sides = [resolution.prediction_confidences(side[..., 0], truths) for side in (target_values, reference_values)]
        return with_queries(sides[0], 2), with_queries(sides[1], 3)
    if target.get(key) is not None:
        labels = class_labels(target, attack)
        target_values, reference_values = signal_pair(key, target, reference, attack)
        reference_scaled = (
            signals.scaled_confidence(reference_values, labels) if len(reference_values) else np.empty((0, len(labels)))
        )
        return with_queries(signals.scaled_confidence(target_values, labels), 2), with_queries(reference_scaled, 3)
    if target.get("losses") is not None:
        target_values, reference_values = signal_pair("losses", target, reference, attack)
        of_losses = signals.loss_confidences
        return with_queries(of_losses(target_values), 2), with_queries(of_losses(reference_values), 3)
    raise ObservationError(
        f"attack '{attack}' reads {key} or losses of records and the target shows neither; "
        "gradient canaries are scored by gradient_product"
    )


def with_confidences(models: View, labels: Array | None) -> View:
    """The view with the confidences of its models, so that no attack on it computes them again.

    Without logits, or labels of classes, as it is.
    """
    logits_of_models = models.get("logits")
    if logits_of_models is None or labels is None or np.asarray(labels).dtype.kind not in "iu":
        return models
    values = np.asarray(logits_of_models)
    if unusable(values):
        return models  # the attack that reads them says so
    return replace(models, signals={**models.signals, CONFIDENCES: signals.scaled_confidence(values, np.asarray(labels))})


def mean_confidences(target: View, reference: View, attack: str) -> tuple[Array, Array]:
    """The same averaged over queries: `(m,)` and `(k, m)`."""
    target_values, reference_values = confidences(target, reference, attack)
    return query_mean(target_values, 0), query_mean(reference_values, 1)


def losses(target: View, reference: View, attack: str) -> tuple[Array, Array]:
    """Losses in nats, averaged over queries: `(m,)` and `(k, m)`; errors as of `confidences`."""
    if target.get("logits") is None and target.get(CONFIDENCES) is None and target.get("losses") is not None:
        target_values, reference_values = (
            np.asarray(side, dtype=np.float64) for side in signal_pair("losses", target, reference, attack)
        )
        return query_mean(with_queries(target_values, 2), 0), query_mean(with_queries(reference_values, 3), 1)
    target_values, reference_values = exact_confidences(target, reference, attack)
    return query_mean(confidence_losses(target_values), 0), query_mean(confidence_losses(reference_values), 1)


def is_regression(target: View, key: str) -> bool:
    """True if records have numbers for labels and the model predicts one."""
    outputs = target.get(key)
    has_numbers = target.labels is not None and np.asarray(target.labels).dtype.kind == "f"
    return has_numbers and outputs is not None and outputs.shape[-1] == 1


def logits(target: View, attack: str) -> tuple[Array, Array]:
    """The target's logits `(queries, m, classes)` and its labels `(m,)`, both checked; `ObservationError` if no logits or
    labels were observed, or they are not finite.
    """
    signal_values = target.get("logits")
    if signal_values is None:
        raise ObservationError(
            f"attack '{attack}' reads the logits of all classes and the target shows none; "
            "give logits, or use an attack that needs losses only (loss, lira, offset, attack_r, attack_p)"
        )
    values = checked(signal_values, attack)
    return values.reshape(-1, *values.shape[-2:]), class_labels(target, attack)


def reference_logits(reference: View, attack: str) -> Array:
    """The references' logits `(k, m, classes)` or `(k, queries, m, classes)`, checked; `ObservationError` if none were
    observed, or they are not finite.
    """
    signal_values = reference.get("logits")
    if signal_values is None:
        raise ObservationError(f"attack '{attack}' reads logits of all classes and its references show none")
    return checked(signal_values, attack)


def right_predictions(target: View, reference: View, attack: str, key: str) -> tuple[Array, Array]:
    """Share of each record's views that are classified correctly, `(m,)` and `(k, m)` float64; `ObservationError` if no
    predicted labels, or no true ones, were observed.
    """
    labels = class_labels(target, attack)
    target_values, reference_values = signal_pair(key, target, reference, attack)
    shares = [np.asarray((side == labels).mean(axis=-2), dtype=np.float64) for side in (target_values, reference_values)]
    return shares[0], shares[1]


def log_lengths(target: View, reference: View, attack: str, key: str) -> tuple[Array, Array]:
    """Logs of a signal that is a length, `(m,)` and `(k, m)`; a length of zero counts as the least normal float. Raises
    `ObservationError` if none were observed, or they are not finite.
    """
    target_values, reference_values = signal_pair(key, target, reference, attack)
    smallest = np.finfo(np.float32).tiny
    return np.log(np.maximum(target_values, smallest, dtype=np.float64)), np.log(
        np.maximum(reference_values, smallest, dtype=np.float64)
    )


def mean_queries(target: View, reference: View, attack: str, key: str) -> tuple[Array, Array]:
    """A signal `(m, q)` of a canary's queries averaged over them, `(m,)` and `(k, m)` float64; `ObservationError` if none were
    observed, or they are not finite.
    """
    target_values, reference_values = signal_pair(key, target, reference, attack)
    return target_values.mean(axis=-1, dtype=np.float64), reference_values.mean(axis=-1, dtype=np.float64)


def trajectories(target: View, reference: View, attack: str) -> tuple[Array, Array]:
    """Logit-scaled confidences at the checkpoints, `(m, checkpoints)` and `(k, m, checkpoints)`; `ObservationError` if none
    were observed, or they are not finite.
    """
    target_values, reference_values = signal_pair("loss_trajectory", target, reference, attack)
    return signals.loss_confidences(target_values), signals.loss_confidences(reference_values)


def boundaries(target: View, reference: View, attack: str, key: str) -> tuple[Array, Array]:
    """Distances to the decision boundary, `(m,)` and `(k, m)`; `ObservationError` if none were observed, or they are not
    finite.
    """
    return signal_pair(key, target, reference, attack)


def memberships(reference: View, fewest: int, attack: str, *, online: bool) -> Array:
    """The references' coins `(k, m)`, an array or bits (`audit.core.coins`), such as an online or offline attack can work
    with; `ObservationError` if there are fewer than `fewest` references, none without canaries, or (online) none with them.
    """
    if len(reference) < fewest:
        raise ObservationError(
            f"attack '{attack}' got {len(reference)} reference model(s) and needs at least {fewest}; "
            "raise game.references or choose an attack that needs fewer (loss needs none)"
        )
    included: Array = as_coins(reference.included)
    members = int(included.sum())
    if members == included.size:
        raise ObservationError(
            f"every reference model of attack '{attack}' trained on every canary; it compares with models that did not"
        )
    if online and not members:
        raise ObservationError(
            join_clauses(
                (
                    phrase("no reference model of attack '{attack}' trained on any canary", attack=attack),
                    "set online: false, or let references draw coins",
                )
            )
        )
    return included


def signal_pair(key: str, target: View, reference: View, attack: str) -> tuple[Array, Array]:
    """One signal of records, `(..., m)` of the target and `(k, ..., m)` of the references; `ObservationError` if it was not
    observed, or is not finite.
    """
    target_values, reference_values = target.get(key), reference.get(key)
    if target_values is None or (reference_values is None and len(reference)):
        reason = (
            "the target does not show them" if target_values is None else f"none of its {len(reference)} references shows them"
        )
        raise ObservationError(
            f"attack '{attack}' reads {key} of records and {reason}; give models that do, or choose another attack"
        )
    target_values = checked(target_values, attack)
    return target_values, np.empty((0, *target_values.shape)) if reference_values is None else checked(reference_values, attack)


def class_labels(target: View, attack: str) -> Array:
    """The true classes of the records, `(m,)`; `ObservationError` if none were given, or they are not integers."""
    if target.labels is None:
        raise ObservationError(f"attack '{attack}' reads the confidence in the true label and no labels were given")
    labels = np.asarray(target.labels)
    if labels.dtype.kind not in "iu":
        raise ObservationError(
            f"attack '{attack}' needs class labels and got labels of type {labels.dtype}; for regression give losses"
        )
    return labels


def with_queries(values: Array, axes: int) -> Array:
    """Return `values` with an axis of queries before that of records: one query if it lacks it."""
    return values if values.ndim == axes else values.reshape(*values.shape[:-1], 1, values.shape[-1])


def query_mean(values: Array, axis: int) -> Array:
    """The mean over an axis of queries; of a single query itself, without a copy."""
    return np.asarray(values.mean(axis=axis)) if values.shape[axis] != 1 else values.squeeze(axis)


def confidence_losses(confidences: Array) -> Array:
    """Losses in nats of logit-scaled confidences, of the same shape."""
    losses = np.negative(confidences)
    return np.asarray(np.logaddexp(0.0, losses, out=losses))


def unusable(values: Array) -> int:
    """Return how many numbers are not finite or too large to compute with.

    >>> unusable(np.array([1.0, np.nan, -np.inf, 1e200]))
    3
    """
    if values.size == 0 or (float(values.min()) >= -LARGEST and float(values.max()) <= LARGEST):  # both False of NaN
        return 0
    rows = values if values.ndim > 1 else values[None]  # one after the other: all as float64 may be more than memory holds
    return int(values.size - sum(int((np.abs(row.astype(np.float64)) <= LARGEST).sum()) for row in rows))


def checked(values: Array, attack: str) -> Array:
    values = np.asarray(values)
    bad = unusable(values)
    if bad:
        raise ObservationError(
            f"attack '{attack}': {bad} of {values.size} observed values are not finite or larger than {LARGEST:g}; "
            "did the training diverge? lower the learning rate or check the records"
        )
    return values
