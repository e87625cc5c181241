"""Membership signals of classifiers, read off logits in float64; every function is vectorised over leading axes.

Logits have shape `(..., m, classes)` and labels `(m,)`; results have shape `(..., m)`. A log-probability never passes through
a probability: `log(p) - log(1 - p)` saturates if `p` rounds to one.
"""

from collections.abc import Callable

import numpy as np

from audit.stats.arrays import AnyArray

_NARROW = 16  # classes
_BLOCK = 1 << 16  # logits handled at once: 512 KiB in float64, so that they stay in the cache of a core


def cross_entropy(logits: AnyArray, labels: AnyArray) -> AnyArray:
    """Loss `-log p_y` of each record, `(..., m)`, in nats; `ValueError` if shapes do not fit, for one class, or a label that
    is none.

    >>> cross_entropy(np.array([[0.0, 0.0]]), np.array([1])).round(4).tolist()
    [0.6931]
    """
    return np.asarray(np.logaddexp(0.0, -scaled_confidence(logits, labels)))


def binary_cross_entropy(logits: AnyArray, labels: AnyArray) -> AnyArray:
    """Loss of several yes or no labels a record, added up, `(..., m)` in nats, from logits `(..., m, labels)`.

    >>> binary_cross_entropy(np.array([[0.0, 0.0]]), np.array([[True, False]])).round(4).tolist()
    [1.3863]
    """
    values = np.asarray(logits, dtype=np.float64)
    return np.asarray(np.logaddexp(0.0, np.where(np.asarray(labels) == 1, -values, values)).sum(axis=-1))


def scaled_confidence(logits: AnyArray, labels: AnyArray, temperature: float = 1.0) -> AnyArray:
    """Logit-scaled confidence `z_y - logsumexp(z_j, j != y)` of each record, which equals `log(p_y / (1 - p_y))`; `ValueError`
    as `cross_entropy`.

    Logits are divided by `temperature` first.

    References: Carlini et al. 2022, arXiv 2112.03570, section IV-A.

    >>> scaled_confidence(np.array([[2.0, 0.0, 0.0]]), np.array([0])).round(4).tolist()
    [1.3069]
    """
    if temperature == 1:
        return _blockwise(_scaled_confidence, logits, labels)
    return _blockwise(lambda z, own: _scaled_confidence(np.divide(z, temperature, out=z), own), logits, labels)


def loss_confidences(losses: AnyArray) -> AnyArray:
    """The same quantity from losses `-log p_y` alone: `-loss - log(1 - exp(-loss))`.

    A loss below half the spacing of its floating type at one (if the probability was rounded to
    one before the logarithm) is read as that value, so the result is finite.

    >>> bool(abs(loss_confidences(np.log([2.0]))[0]) < 1e-12)
    True
    """
    losses = np.asarray(losses)
    spacing = np.finfo(losses.dtype if losses.dtype.kind == "f" else np.float64).eps / 2
    floors = np.maximum(losses.astype(np.float64), spacing)
    return np.asarray(-floors - np.log(-np.expm1(-floors)))


def entropy(logits: AnyArray) -> AnyArray:
    """Shannon entropy of the predicted distribution in nats, `(..., m)`; `ValueError` for one class only.

    >>> entropy(np.array([[1.0, 1.0]])).round(4).tolist()
    [0.6931]
    """
    return _blockwise(lambda z, _: _entropy(z), logits, np.zeros(np.shape(logits)[-2], dtype=np.int64))


def modified_entropy(logits: AnyArray, labels: AnyArray) -> AnyArray:
    """Entropy that also knows the label: `-(1 - p_y) log p_y - sum_{j != y} p_j log(1 - p_j)`; `ValueError` as
    `cross_entropy`.

    Zero for a certain and right prediction, unbounded for a certain and wrong one.

    References: Song and Mittal 2021, arXiv 2003.10595, equation 8.

    >>> modified_entropy(np.array([[50.0, 0.0]]), np.array([0])).round(6).tolist()
    [0.0]
    """
    return _blockwise(_modified_entropy, logits, labels)


def correct(logits: AnyArray, labels: AnyArray) -> AnyArray:
    """True if the label has the (first) largest logit, `(..., m)` bool.

    >>> correct(np.array([[1.0, 3.0], [2.0, 0.0]]), np.array([1, 1])).tolist()
    [True, False]
    """
    return np.asarray(np.argmax(logits, axis=-1) == np.asarray(labels))


def log_output_gradient_norm(logits: AnyArray, labels: AnyArray) -> AnyArray:
    """Log of the l2 norm of the loss gradient in the logits, `softmax(z) - one_hot(y)`, `(..., m)`; `ValueError` as
    `cross_entropy`.

    >>> np.exp(log_output_gradient_norm(np.array([[0.0, 0.0]]), np.array([0]))).round(4).tolist()
    [0.7071]
    """
    return _blockwise(_log_output_gradient_norm, logits, labels)


def top_confidences(logits: AnyArray, labels: AnyArray, count: int) -> AnyArray:
    """The `count` (at most `classes`) largest log-probabilities, falling, then that of the label, `(..., m, features)`."""
    z = np.asarray(logits, dtype=np.float64)
    log_p = z - _logsumexp(z)[..., None]
    size = min(count, z.shape[-1])
    top = -np.sort(-log_p, axis=-1)[..., :size]
    return np.concatenate([top, _at_label(log_p, np.asarray(labels))], axis=-1)


def _scaled_confidence(z: AnyArray, labels: AnyArray) -> AnyArray:
    """`scaled_confidence` in place: `z` loses the logit of its label."""
    own = _at_label(z, labels)[..., 0]
    np.put_along_axis(z, _label_index(z, labels), -np.inf, axis=-1)
    return np.asarray(own - _logsumexp(z))


def _entropy(z: AnyArray) -> AnyArray:
    top = np.argmax(z, axis=-1)
    log_p = z - _logsumexp(z)[..., None]
    log_top = -np.logaddexp(0.0, -_scaled_confidence(z, top))  # a probability near one keeps its distance from one
    np.put_along_axis(log_p, _label_index(z, top), log_top[..., None], axis=-1)
    return np.asarray(-np.sum(np.exp(log_p) * log_p, axis=-1))


def _modified_entropy(z: AnyArray, labels: AnyArray) -> AnyArray:
    # log p_j and log(1 - p_j) from u_j = log(p_j / (1 - p_j)), itself from the two halves of the sum without j
    log_p = z - _logsumexp(z)[..., None]
    own = -np.logaddexp(0.0, -_scaled_confidence(z.copy(), labels))
    p = np.exp(log_p)
    order = _label_index(z, labels)
    top = np.argmax(z, axis=-1)[..., None]
    log_rest = np.log1p(-np.minimum(p, 0.75))  # accurate for all but a dominating class
    other_logits = z.copy()
    np.put_along_axis(other_logits, top, -np.inf, axis=-1)
    np.put_along_axis(log_rest, top, (_logsumexp(other_logits) - _logsumexp(z))[..., None], axis=-1)
    terms = p * log_rest
    np.put_along_axis(terms, order, np.exp(np.take_along_axis(log_rest, order, -1)) * own[..., None], axis=-1)
    return np.asarray(np.maximum(-terms.sum(axis=-1), 0.0))


def _log_output_gradient_norm(z: AnyArray, labels: AnyArray) -> AnyArray:
    log_terms = z - _logsumexp(z)[..., None]
    log_wrong = -np.logaddexp(0.0, _scaled_confidence(z, labels))  # log(1 - p_y); leaves z without its label
    np.put_along_axis(log_terms, _label_index(z, labels), log_wrong[..., None], axis=-1)
    return np.asarray(0.5 * _logsumexp(2 * log_terms))


def _logsumexp(z: AnyArray) -> AnyArray:
    peak = _peak(z)
    terms = z - peak[..., None]
    return np.asarray(peak + np.log(np.exp(terms, out=terms).sum(axis=-1)))


def _peak(z: AnyArray) -> AnyArray:
    """`z.max(axis=-1)`; of few classes column by column, some three times as fast."""
    if z.shape[-1] > _NARROW:
        return np.asarray(z.max(axis=-1))
    peak = z[..., 0].copy()
    for column in range(1, z.shape[-1]):
        np.maximum(peak, z[..., column], out=peak)
    return peak


def _label_index(z: AnyArray, labels: AnyArray) -> AnyArray:
    return np.broadcast_to(labels[:, None], (*z.shape[:-1], 1))


def _at_label(z: AnyArray, labels: AnyArray) -> AnyArray:
    return np.take_along_axis(z, _label_index(z, labels), axis=-1)


def _blockwise(signal: Callable[[AnyArray, AnyArray], AnyArray], logits: AnyArray, labels: AnyArray) -> AnyArray:
    """`signal` over flattened leading axes, a bounded number of logits at a time, each block in float64."""
    logits, labels = np.asarray(logits), np.asarray(labels)
    m, classes = logits.shape[-2:]
    if labels.shape != (m,):
        raise ValueError(f"labels of shape {labels.shape} with logits of shape {logits.shape}; expected ({m},)")
    if classes < 2:
        raise ValueError(f"logits of shape {logits.shape}; expected at least 2 classes on the last axis")
    if m and (labels.min() < 0 or labels.max() >= classes):
        raise ValueError(f"labels from {labels.min()} to {labels.max()} with {classes} classes; expected 0 to {classes - 1}")
    flat = logits.reshape(-1, m, classes)
    out = np.empty(flat.shape[:2])
    rows = max(1, _BLOCK // max(classes, 1))
    for model in range(len(flat)):
        for start in range(0, m, rows):
            part = slice(start, start + rows)
            out[model, part] = signal(np.array(flat[model, part], dtype=np.float64), labels[part].astype(np.int64))
    return out.reshape(logits.shape[:-1])
