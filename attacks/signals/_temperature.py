"""Log probabilities at a temperature other than the model's, and the one that distinguishes members best among the
references."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from attacks.signals import _reading as reading
from attacks.signals import _reductions
from attacks.signals._reductions import confidences_key
from audit.core.coins import as_coins
from audit.core.data import Array
from audit.core.views import View
from audit.stats.scoring import membership, signals, strength
from audit.stats.spread import evenly, parts

# outputs that choose among four temperatures: of 32,000 nonmembers 320 are above the threshold at 1 % false positives
_PAIRS, _FEWEST_RECORDS = 64_000, 1000

_KINDS = ("logits", "losses", reading.CONFIDENCES)
_WIDE = ("logits", _reductions.NEARBY_CONFIDENCES)  # with an axis after that of records


def tempered_log_p(target: View, reference: View, attack: str, degree: float) -> tuple[Array, Array]:
    """Log probabilities of the label, logits divided by `degree` first, averaged over queries: new arrays `(m,)` and `(k, m)`;
    errors as of `confidences`.

    If only losses are shown, the confidence is divided: exact for two classes.
    """
    if degree != 1 and target.get(confidences_key(degree)) is not None:
        shared = reading.signal_pair(confidences_key(degree), target, reference, attack)
        target_values, reference_values = (
            reading.with_queries(values, axes) for values, axes in zip(shared, (2, 3), strict=True)
        )
    elif degree == 1 or target.get("logits") is None or reading.is_regression(target, "logits"):
        target_values, reference_values = (values / degree for values in reading.exact_confidences(target, reference, attack))
    else:
        labels = reading.class_labels(target, attack)
        target_values, reference_values = (
            reading.with_queries(signals.scaled_confidence(values, labels, degree), axes)
            for values, axes in zip(reading.signal_pair("logits", target, reference, attack), (2, 3), strict=True)
        )
    target_losses, reference_losses = map(reading.confidence_losses, (target_values, reference_values))
    # in place: with a million records the references' take more memory than anything else here
    log_p, their_log_p = (np.negative(losses, out=losses) for losses in (target_losses, reference_losses))
    return reading.query_mean(log_p, 0), reading.query_mean(their_log_p, 1)


def refuse_unusable(target: View, reference: View, attack: str, degree: float) -> None:
    """Raise `ObservationError` with the number of all values that log probabilities cannot be made of, in whatever block."""
    keys = (confidences_key(degree), "logits", reading.CONFIDENCES, "losses")
    key = next((key for key in keys if target.get(key) is not None), None)
    if key is not None:
        reading.signal_pair(key, target, reference, attack)


def with_tempered_confidences(models: View, labels: Array | None) -> View:
    """The view with the confidences of its models, as they are and at each temperature, once for several attacks on it."""
    models = reading.with_confidences(models, labels)
    if models.get(reading.CONFIDENCES) is None or labels is None:
        return models
    logits = np.asarray(models["logits"])
    tempered = {
        confidences_key(degree): signals.scaled_confidence(logits, np.asarray(labels), degree)
        for degree in strength.GRID
        if degree != 1
    }
    return replace(models, signals={**models.signals, **tempered})


def in_blocks(target: View, reference: View) -> Iterator[tuple[View, View]]:
    """Both views of some records after the other, with what ratios of probabilities are made of; nothing is copied.

    Of a regression all at once: the scale of its errors is that of all records.
    """
    if reading.is_regression(target, "logits"):
        yield target, reference
        return
    records = as_coins(reference.included).shape[1]
    for part in parts(records, len(reference)):
        yield _part(target, part), _part(reference, part)


def _part(models: View, part: slice) -> View:
    shown_signals = {
        key: array[..., part, :] if key == "logits" else array[..., part]
        for key, array in models.signals.items()
        if key.split("/")[0] in _KINDS
    }
    labels = None if models.labels is None else np.asarray(models.labels)[part]
    coins = None if models.included is None else as_coins(models.included)[:, part]
    return replace(models, signals=shown_signals, labels=labels, included=coins)


def some_records(models: View, columns: Array) -> View:
    """The models on some of their records, with what `auto` reads: logits, losses, confidences, and those in near records."""
    parts = {
        key: np.take(array, columns, axis=-2 if key in _WIDE else -1)
        for key, array in models.signals.items()
        if key.split("/")[0] in (*_KINDS, *_WIDE)
    }
    labels = None if models.labels is None else np.asarray(models.labels)[columns]
    coins = None if models.included is None else as_coins(models.included)[:, columns]
    return replace(models, signals=parts, labels=labels, included=coins)


def fitted_temperature(
    target: View,
    reference: View,
    attack: str,
    *,
    online: bool,
    offline_weight: float = membership.OFFLINE_WEIGHT,
    pairs: int = 64_000,
) -> float:
    """The temperature fitted on the references, of which about 64,000 outputs decide; nothing of the target takes part."""
    coins = as_coins(reference.included)
    columns = evenly(coins.shape[1], max(_FEWEST_RECORDS, _PAIRS // max(len(coins), 1)))
    subset = some_records(reference, columns)
    labels = None if target.labels is None else np.asarray(target.labels)[columns]
    # the target lends its labels and nothing else: of each pair below only the references' values ([1]) are read
    stand_in = View(signals={key: array[0] for key, array in subset.signals.items()}, labels=labels)
    return strength.fit(
        lambda degree: tempered_log_p(stand_in, subset, attack, degree)[1],
        np.asarray(subset.included, dtype=bool),
        online=online,
        offline_weight=offline_weight,
    )
