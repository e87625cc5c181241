"""Membership of a record judged beside the records near it: if a model is surer of them too, less is the record's own."""

import numpy as np

from audit.stats.arrays import AnyArray
from audit.stats.scoring import learned_score, reference_fit
from audit.stats.spread import evenly, parts

_BLOCK = 1 << 22  # similarities, or numbers of inputs, held at once: 16 MiB, and as much for what is made of them


def near_weights(inputs: AnyArray, labels: AnyArray, *, count: int, candidates: int) -> tuple[AnyArray, AnyArray, AnyArray]:
    """The nearest other records of each: positions, weights that add up to 1 (or to 0), and whether their label is the same.

    All `(m, count)`; fewer columns if there are fewer records. Near is a large cosine between inputs from which the mean
    over records was subtracted; a negative one has weight zero.

    Args:
        inputs: `(m, ...)` real numbers; read in parts.
        labels: `(m,)`.
        candidates: records among which they are looked for, evenly spread; the cost is `m * candidates * features`.

    >>> positions, weights, same = near_weights(np.array([[2.0], [1.0], [-3.0]]), np.array([0, 1, 1]), count=1, candidates=10)
    >>> positions[:2].ravel().tolist(), weights.ravel().tolist(), same[:2].ravel().tolist()
    ([1, 0], [1.0, 1.0, 0.0], [False, False])
    """
    features = int(np.prod(inputs.shape[1:]))
    mean = _mean(inputs, features)
    pool = evenly(len(inputs), candidates)
    near = np.empty((len(pool), features), dtype=np.float32)
    for part in parts(len(pool), features):
        near[part] = _units(inputs[pool[part]], mean)
    count = min(count, max(len(pool) - 1, 1))
    positions = np.empty((len(inputs), count), dtype=np.int32)
    weights = np.empty(positions.shape, dtype=np.float32)
    rows = max(1, _BLOCK // max(len(pool), features))
    for start in range(0, len(inputs), rows):
        block = np.arange(start, min(start + rows, len(inputs)))
        similar = _units(inputs[block], mean) @ near.T
        similar[block[:, None] == pool] = -2.0
        nearest = np.argpartition(similar, len(pool) - count, axis=1)[:, len(pool) - count :]
        positions[block] = pool[nearest]
        weights[block] = np.take_along_axis(similar, nearest, axis=1)
    weights = np.maximum(weights, 0.0)
    weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1e-12)
    return positions, weights, labels[positions] == labels[:, None]


def _mean(inputs: AnyArray, features: int) -> AnyArray:
    """Mean over records `(features,)` float64."""
    total = np.zeros(features)
    for part in parts(len(inputs), features):
        total += np.asarray(inputs[part]).reshape(-1, features).sum(axis=0, dtype=np.float64)
    return total / len(inputs)


def _units(inputs: AnyArray, mean: AnyArray) -> AnyArray:
    """Some inputs less the mean, as float32 rows of length one; a row without a length stays zero."""
    flat = np.asarray(inputs, dtype=np.float64).reshape(len(inputs), -1) - mean
    return np.asarray(flat / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-300), dtype=np.float32)


def nearby_log_odds(target_values: AnyArray, reference_values: AnyArray, included: AnyArray, rows: int) -> AnyArray:
    """Log odds of membership of each record `(m,)` from its confidence, and from that in the records near it.

    What a model says of near records above the mean of the other models is taken off the record's own confidence, as far as a
    regression over the references says; features are those of `learned_score.learned_log_odds` of the confidence as it was and
    as it is then, that excess, and its products with how far the confidence is from the middle of members' and nonmembers'.
    Fitted on references, each once in the target's place; nothing of the target takes part.

    Args:
        target_values: `(signals, m)`: the record's confidence, and weighted sums of the confidences in near records.
        reference_values: `(k, signals, m)`, `k` at least 3.
        included: `(k, m)` bool.
    """
    models, columns = pairs = reference_fit.training_pairs(included, rows)
    own = np.ascontiguousarray(reference_values[:, 0])
    near = np.moveaxis(reference_values[:, 1:], 1, -1)
    total = near.sum(axis=0)
    # the mean of the other models, without this one, so that references are treated as the target is
    excess = near - (total - near) / (len(near) - 1)
    target_excess = np.moveaxis(target_values[1:], 0, -1) - total / len(near)
    unit = np.where((spread := excess.std(axis=(0, 1))) > 0, spread, 1.0)
    excess, target_excess = excess / unit, target_excess / unit
    everyone = reference_fit.sides(own, included)
    remainder = reference_fit.leave_one_out(own, included, None, everyone)
    slopes = _slopes(excess, own - np.where(included, remainder[0].mean, remainder[1].mean))
    plain = learned_score.comparison(target_values[0], own, included, pairs)
    comparison = learned_score.comparison(target_values[0] - target_excess @ slopes, own - excess @ slopes, included, pairs)
    scale = everyone[1].fixed_std
    middle = (remainder[0].mean + remainder[1].mean) / 2
    depth = ((own - middle) / scale)[:models, columns].reshape(-1, 1)
    nearby = excess[:models, columns].reshape(len(depth), -1)
    design = np.column_stack([plain[0], comparison[0], nearby, nearby * depth])
    classifier = learned_score.tail_fit(design, included[:models, columns].ravel())
    target_depth = ((target_values[0] - (everyone[0].mean + everyone[1].mean) / 2) / scale)[:, None]
    out = np.empty(len(target_depth))
    for part in parts(len(out)):
        around, own_depth = target_excess[part], target_depth[part]
        out[part] = classifier.log_odds(np.column_stack([plain[1](part), comparison[1](part), around, around * own_depth]))
    return out


def _slopes(excess: AnyArray, residuals: AnyArray) -> AnyArray:
    """Least squares of residuals `(k, m)` on excesses `(k, m, signals)`, with an intercept that is dropped."""
    design = excess.reshape(-1, excess.shape[-1])
    design = design - design.mean(axis=0)
    return np.asarray(np.linalg.lstsq(design, residuals.ravel() - residuals.mean(), rcond=None)[0])
