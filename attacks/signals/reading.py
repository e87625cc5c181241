"""Reads one signal off what the adversary sees, the same way for the target and for the reference models.

Logits may carry an axis of queries before the records, `(queries, m, classes)` for the target and
`(k, queries, m, classes)` for references: several augmented views of the same records.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from audit.core.data import Array, ReferenceView, TargetView
from audit.core.errors import ObservationError
from audit.stats.scoring import signals

NO_REFERENCE = ReferenceView(included=np.empty((0, 0), dtype=bool))
"""For attacks that look at the target alone."""


def confidences(target: TargetView, reference: ReferenceView, attack: str) -> tuple[Array, Array]:
    """Logit-scaled confidences of the target `(queries, m)` and of the references `(k, queries, m)`.

    Raises:
        ObservationError: neither logits nor losses were observed, or they are not finite.
    """
    if target.logits is not None:
        labels = _labels(target, attack)
        return (
            _with_queries(signals.scaled_confidence(_finite(target.logits, attack), labels), 2),
            _with_queries(_of_references(signals.scaled_confidence, reference, labels, attack), 3),
        )
    if target.losses is not None:
        of_losses = signals.scaled_confidence_of_losses
        return (
            _with_queries(of_losses(_finite(target.losses, attack)), 2),
            _with_queries(of_losses(_losses_of(reference, np.shape(target.losses), attack)), 3),
        )
    raise ObservationError(
        f"attack '{attack}' reads logits or losses of records and the target shows neither; "
        "gradient canaries are scored by gradient_product"
    )


def augmented(target: TargetView, reference: ReferenceView, count: int, attack: str) -> tuple[TargetView, ReferenceView]:
    """Target and references with the logits of the first `count` views of each record as queries; as they are for one.

    Raises:
        ObservationError: fewer views were observed.
    """
    if count == 1:
        return target, reference
    ours, theirs = _observed("augmented_logits", target, reference, attack, "a game whose models can be queried (audit run)")
    if len(ours) < count:
        raise ObservationError(f"attack '{attack}' asks about {count} views of each record and {len(ours)} were observed")
    seen = theirs[:, :count] if len(reference) else None
    return replace(target, logits=ours[:count]), replace(reference, logits=seen)


def mean_confidences(target: TargetView, reference: ReferenceView, attack: str) -> tuple[Array, Array]:
    """The same averaged over queries: `(m,)` and `(k, m)`."""
    ours, theirs = confidences(target, reference, attack)
    return ours.mean(axis=0), theirs.mean(axis=1)


def losses(target: TargetView, reference: ReferenceView, attack: str) -> tuple[Array, Array]:
    """Losses in nats, averaged over queries: `(m,)` and `(k, m)`.

    Raises:
        ObservationError: neither logits nor losses were observed, or they are not finite.
    """
    if target.logits is None and target.losses is not None:
        ours = np.asarray(_finite(target.losses, attack), dtype=np.float64)
        theirs = np.asarray(_losses_of(reference, ours.shape, attack), dtype=np.float64)
        return _with_queries(ours, 2).mean(axis=0), _with_queries(theirs, 3).mean(axis=1)
    ours, theirs = confidences(target, reference, attack)
    return np.logaddexp(0.0, -ours).mean(axis=0), np.logaddexp(0.0, -theirs).mean(axis=1)


def logits(target: TargetView, attack: str) -> tuple[Array, Array]:
    """The target's logits `(queries, m, classes)` and its labels `(m,)`, both checked.

    Raises:
        ObservationError: no logits or labels were observed, or they are not finite.
    """
    if target.logits is None:
        raise ObservationError(
            f"attack '{attack}' reads the logits of all classes and the target shows none; "
            "give logits, or use an attack that needs losses only (loss, lira, offset, attack_r, attack_p)"
        )
    values = _finite(target.logits, attack)
    return values.reshape(-1, *values.shape[-2:]), _labels(target, attack)


def reference_logits(reference: ReferenceView, attack: str) -> Array:
    """The references' logits `(k, m, classes)` or `(k, queries, m, classes)`, checked.

    Raises:
        ObservationError: none were observed, or they are not finite.
    """
    if reference.logits is None:
        raise ObservationError(f"attack '{attack}' reads logits of all classes and its references show none")
    return _finite(reference.logits, attack)


def log_lengths(target: TargetView, reference: ReferenceView, attack: str, signal: str) -> tuple[Array, Array]:
    """Logs of a signal that is a length, `(m,)` and `(k, m)`; a length of zero counts as the least normal float.

    Args:
        signal: gradient_norms, last_gradient_norms or class_distances.

    Raises:
        ObservationError: none were observed, or they are not finite.
    """
    source = "access final_weights or all_steps"
    if signal != "gradient_norms":
        source += " and a model whose outputs come from a linear layer"
    ours, theirs = _observed(signal, target, reference, attack, source)
    least = np.finfo(np.float32).tiny
    return np.log(np.maximum(ours, least, dtype=np.float64)), np.log(np.maximum(theirs, least, dtype=np.float64))


def trajectories(target: TargetView, reference: ReferenceView, attack: str) -> tuple[Array, Array]:
    """Logit-scaled confidences at the checkpoints, `(m, checkpoints)` and `(k, m, checkpoints)`.

    Raises:
        ObservationError: none were observed, or they are not finite.
    """
    ours, theirs = _observed("trajectory", target, reference, attack, "access all_steps and a trainer that keeps checkpoints")
    return signals.scaled_confidence_of_losses(ours), signals.scaled_confidence_of_losses(theirs)


def boundaries(target: TargetView, reference: ReferenceView, attack: str) -> tuple[Array, Array]:
    """Distances to the decision boundary, `(m,)` and `(k, m)`.

    Raises:
        ObservationError: none were observed, or they are not finite.
    """
    return _observed("boundary", target, reference, attack, "a game whose models can be queried (audit run)")


def products(values: Array, attack: str, *, per_step: bool) -> Array:
    """Inner products with gradient canaries, `(m, steps)` or `(m,)` float64, checked.

    Raises:
        ObservationError: they have another shape or are not finite.
    """
    found = np.asarray(values, dtype=np.float64)
    bad = int(found.size - np.isfinite(found).sum())
    if found.ndim != 1 + per_step or bad:
        raise ObservationError(
            f"attack '{attack}' got products of shape {found.shape}, {bad} of them not finite; "
            f"expected finite {'(m, steps)' if per_step else '(m,)'}"
        )
    return found


def memberships(reference: ReferenceView, fewest: int, attack: str, *, online: bool) -> Array:
    """The references' coins `(k, m)`, checked to be what an online or offline attack can work with.

    Raises:
        ObservationError: fewer than `fewest` references, none without canaries, or (online) none with.
    """
    if len(reference) < fewest:
        raise ObservationError(
            f"attack '{attack}' got {len(reference)} reference model(s) and needs at least {fewest}; "
            "raise game.references or choose an attack that needs fewer (loss needs none)"
        )
    included = np.asarray(reference.included, dtype=bool)
    if included.all():
        raise ObservationError(
            f"every reference model of attack '{attack}' trained on every canary; it compares with models that did not"
        )
    if online and not included.any():
        raise ObservationError(
            f"no reference model of attack '{attack}' trained on any canary; set online: false, or let references draw coins"
        )
    return included


def _observed(signal: str, target: TargetView, reference: ReferenceView, attack: str, source: str) -> tuple[Array, Array]:
    """One signal of records, of the target and of the references, where it was observed."""
    ours, theirs = getattr(target, signal), getattr(reference, signal)
    if ours is None or (theirs is None and len(reference)):
        whom = "the target" if ours is None else f"its {len(reference)} references"
        raise ObservationError(
            f"attack '{attack}' reads {signal} of records and none were observed of {whom}; it takes {source}"
        )
    ours = _finite(ours, attack)
    return ours, np.empty((0, *ours.shape)) if theirs is None else _finite(theirs, attack)


def _labels(target: TargetView, attack: str) -> Array:
    if target.labels is None:
        raise ObservationError(f"attack '{attack}' reads the confidence in the true label and no labels were given")
    labels = np.asarray(target.labels)
    if labels.dtype.kind not in "iu":
        raise ObservationError(
            f"attack '{attack}' needs class labels and got labels of type {labels.dtype}; for regression give losses"
        )
    return labels


def _of_references(signal: Callable[[Array, Array], Array], reference: ReferenceView, labels: Array, attack: str) -> Array:
    if len(reference) == 0:
        return np.empty((0, len(labels)))
    if reference.logits is None:
        raise ObservationError(f"attack '{attack}' got logits of the target but none of its {len(reference)} references")
    return signal(_finite(reference.logits, attack), labels)


def _losses_of(reference: ReferenceView, shape: tuple[int, ...], attack: str) -> Array:
    if len(reference) == 0:
        return np.empty((0, *shape))
    if reference.losses is None:
        raise ObservationError(f"attack '{attack}' got losses of the target but none of its {len(reference)} references")
    return _finite(reference.losses, attack)


def _with_queries(values: Array, axes: int) -> Array:
    return values if values.ndim == axes else values.reshape(*values.shape[:-1], 1, values.shape[-1])


def _finite(values: Array, attack: str) -> Array:
    values = np.asarray(values)
    bad = int(values.size - np.isfinite(values).sum())
    if bad:
        raise ObservationError(
            f"attack '{attack}': {bad} of {values.size} observed values are not finite; "
            "did the training diverge? lower the learning rate or check the records"
        )
    return values
