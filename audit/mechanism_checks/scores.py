"""Scores that order a mechanism's outputs: learned on some, so that an event is a threshold on others.

The best event at any epsilon and delta is a set of outputs whose likelihood ratio is high, so every score estimates that ratio,
or is something that it may depend on.

References:
    Bichsel, Steffen, Bogunovic, Vechev 2021, "DP-Sniper", theorem 1.
"""

import functools
import math
from collections.abc import Callable, Iterator

import numpy as np

from audit.core.data import Array
from audit.stats.scoring import logistic

Score = Callable[[Array], Array]  # from outputs `(n, width)` to `(n,)`: higher is likelier on the data, lower on the neighbour

MOST_COLUMNS = 12  # of an output, that are scored alone
BINS = 48
CLASSIFIER_ROWS = 20_000
LINEAR_ROWS, MOST_LINEAR = 100_000, 100
LINEAR_NUMBERS = 1_000_000  # of a side that the linear classifier learns from, and of a batch that it scores
MOST_MARKS, MARK_SHARE = 4, 0.01  # values that many numbers share, and how many at least
CLIP = 0.002  # share of outputs at either end that the classifier does not tell apart
LARGE = 1e29  # size from which on numbers are taken by their logarithm
LATTICE_NUMBERS, LEAST_LEVELS = 2_000, 20  # that are looked at for a lattice, and values that it has to show at least
REPEATS = 2e-3  # share of outputs that repeat, below which a table of values says nothing


def learned_scores(first: Array, second: Array) -> Iterator[tuple[str, Score]]:
    """Yield scores, by name, learned on outputs `(n, width)` of either side."""
    if _repeats(first) or _repeats(second):
        yield "values seen before", value_table(first, second)
    columns = range(min(first.shape[1], MOST_COLUMNS))
    varying = [j for j in columns if np.ptp(finite(np.concatenate([first[:, j], second[:, j]]))) > 0]
    for j in varying:
        name = f"number {j}" if first.shape[1] > 1 else "the output"
        yield from _both_ways(name, functools.partial(_column, j))
    for j in varying:
        yield f"histogram of number {j}", histogram(first[:, [j]], second[:, [j]], [j])
    for j in varying:
        if (step := lattice_step(first[:, j])) is not None or (step := lattice_step(second[:, j])) is not None:
            yield f"remainder of number {j} by {step:.4g}", remainders(first[:, j], second[:, j], j, step)
    if len(varying) > 1:
        yield "histograms of all numbers", histogram(first[:, varying], second[:, varying], varying)
        yield from _both_ways("the largest number", lambda rows: finite(rows).max(axis=1))
        yield from _both_ways("the smallest number", lambda rows: finite(rows).min(axis=1))
        yield "classifier", classifier(first[:, varying], second[:, varying], varying)
        yield "linear classifier", linear_classifier(first, second)


def granularity_scores(width: int) -> Iterator[tuple[str, Score]]:
    """Yield scores by the lowest bit of a number: sums in floating point are on a grid that depends on what was added.

    References:
        Mironov 2012, "On significance of the least significant bits for differential privacy".
    """
    for j in range(min(width, MOST_COLUMNS)):
        yield from _both_ways(f"lowest bit of number {j}", functools.partial(_lowest_bit, j))


def _both_ways(name: str, score: Score) -> Iterator[tuple[str, Score]]:
    """Yield a score that was not learned, and its negative: either side may have the larger values."""
    yield name, score
    yield f"minus {name}", lambda rows: -score(rows)


def lowest_bit(values: Array) -> Array:
    """Return the exponent of the largest power of two that divides each number; 1024 for 0 and what is not finite.

    >>> lowest_bit(np.array([1.0, 6.0, 0.75, 0.0])).tolist()
    [0.0, 1.0, -2.0, 1024.0]
    """
    mantissa, exponent = np.frexp(np.where(np.isfinite(values), values, 0.0))
    full = np.abs(mantissa * 2.0**53).astype(np.int64)
    trailing = np.log2(np.maximum(full & -full, 1).astype(np.float64))
    return np.where(full > 0, exponent - 53 + trailing, 1024.0)


def lattice_step(values: Array) -> float | None:
    """Return the step of the lattice, through any of them, that holds all finite numbers; None if it is that of rounding alone.

    It is the greatest common divisor of their differences, by Euclid's algorithm up to rounding.

    >>> lattice_step(np.random.default_rng(0).integers(-(10**6), 10**6, 300) + 0.5)
    1.0
    """
    differences = np.diff(np.unique(values[np.isfinite(values)][:LATTICE_NUMBERS]))
    if differences.size < LEAST_LEVELS:
        return None
    rounding = 64 * float(np.finfo(np.float64).eps) * float(np.abs(values[np.isfinite(values)]).max())
    step = 0.0
    for difference in differences.tolist():
        larger, step = difference, step or difference
        while step > rounding and (rest := math.fmod(larger, step)) > rounding and step - rest > rounding:
            larger, step = step, rest
        if step < 1000 * rounding:
            return None
    return round(step, 12)


def remainders(first: Array, second: Array, column: int, step: float) -> Score:
    """Return the log ratio of how often each remainder by the step of a lattice occurred: off the lattice, sums show."""

    def remainder(values: Array) -> Array:
        return np.asarray(np.round(np.mod(finite(values) / step, 1.0), 3) % 1.0)[:, None]

    table = value_table(remainder(first), remainder(second))
    return lambda rows: table(remainder(rows[:, column]))


def value_table(first: Array, second: Array) -> Score:
    """Log ratio of how often each output occurred on either side; 0 for one that did not."""
    keys, inverse = np.unique(np.concatenate([_keys(first), _keys(second)]), return_inverse=True)
    counts = [np.bincount(part, minlength=len(keys)) + 0.5 for part in (inverse[: len(first)], inverse[len(first) :])]
    ratios = np.log(counts[0]) - np.log(counts[1])

    def score(rows: Array) -> Array:
        queries = _keys(rows)
        at = np.minimum(np.searchsorted(keys, queries), len(keys) - 1)
        return np.asarray(np.where(keys[at] == queries, ratios[at], 0.0))

    return score


def histogram(first: Array, second: Array, columns: list[int]) -> Score:
    """Sum over columns of the log ratio of counts between quantiles of both sides together (columns as if independent)."""
    edges, ratios = [], []
    for a, b in zip(finite(first).T, finite(second).T, strict=True):
        cuts = np.unique(np.quantile(np.concatenate([a, b]), np.linspace(0, 1, BINS + 1)[1:-1]))
        counts = [np.bincount(np.searchsorted(cuts, side), minlength=len(cuts) + 1) + 0.5 for side in (a, b)]
        edges.append(cuts)
        ratios.append(np.log(counts[0] / counts[0].sum()) - np.log(counts[1] / counts[1].sum()))

    def score(rows: Array) -> Array:
        numbers = finite(rows[:, columns]).T
        return np.asarray(sum(ratio[np.searchsorted(cuts, x)] for x, cuts, ratio in zip(numbers, edges, ratios, strict=True)))

    return score


def classifier(first: Array, second: Array, columns: list[int]) -> Score:
    """Log odds of a logistic regression on the numbers, clipped at the ends, and all their products of two."""
    rows = np.concatenate([finite(first)[:CLASSIFIER_ROWS], finite(second)[:CLASSIFIER_ROWS]])
    low, high = np.quantile(rows, [CLIP, 1 - CLIP], axis=0)

    def features(values: Array) -> Array:
        return logistic.with_squares(np.clip(finite(values), low, high))

    positive = np.arange(len(rows)) < min(len(first), CLASSIFIER_ROWS)
    model = logistic.fit(features(rows), positive)
    return lambda values: model.log_odds(features(values[:, columns]))


def linear_classifier(first: Array, second: Array) -> Score:
    """Log odds of a logistic regression on many numbers as they are, with one input more for each value that many share.

    Without products it learns from more columns, if the best event is a sum over all of them. It learns from fewer rows of
    wide outputs, and scores in batches, so that memory does not grow with outputs.
    """
    first, second = first[:, :MOST_LINEAR], second[:, :MOST_LINEAR]
    limit = min(LINEAR_ROWS, LINEAR_NUMBERS // first.shape[1])
    rows = np.concatenate([finite(first[:limit]), finite(second[:limit])])
    low, high = np.quantile(rows, [CLIP, 1 - CLIP], axis=0)
    values, counts = np.unique(rows, return_counts=True)
    often = np.argsort(-counts, kind="stable")[:MOST_MARKS]
    marks = values[often[counts[often] > MARK_SHARE * rows.size]]

    def features(outputs: Array) -> Array:
        numbers = finite(outputs)
        indicators = [numbers == mark for mark in marks]
        is_mark = np.any(indicators, axis=0) if indicators else np.zeros(numbers.shape, bool)
        plain = np.where(is_mark, 0.0, np.clip(numbers, low, high))
        return np.concatenate([plain, *indicators], axis=1)

    model = logistic.fit(features(rows), np.arange(len(rows)) < min(len(first), limit))

    def score(outputs: Array) -> Array:
        columns = outputs[:, :MOST_LINEAR]
        batch = LINEAR_NUMBERS // columns.shape[1]
        starts = range(0, max(len(columns), 1), batch)
        return np.concatenate([model.log_odds(features(columns[start : start + batch])) for start in starts])

    return score


def _column(column: int, rows: Array) -> Array:
    return finite(rows[:, column])


def _lowest_bit(column: int, rows: Array) -> Array:
    return lowest_bit(rows[:, column])


def finite(values: Array) -> Array:
    """Values in their order, within a range whose squares can be added up: NaN below all, what is beyond by its logarithm."""
    beyond = np.abs(values) > LARGE
    if beyond.any():
        logarithms = 1 + np.log(np.abs(values, where=beyond, out=np.full(values.shape, LARGE)) / LARGE)
        values = np.where(beyond, np.sign(values) * LARGE * logarithms, values)
    return np.nan_to_num(values, nan=-1e34, posinf=1e33, neginf=-1e33)


def _repeats(values: Array) -> bool:
    return len(np.unique(_keys(values))) < (1 - REPEATS) * len(values)


def _keys(values: Array) -> Array:
    """One comparable value per row: the number itself, or the bytes of a longer row."""
    rows = np.ascontiguousarray(finite(values))
    if rows.shape[1] == 1:
        return rows[:, 0]
    return np.asarray(rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel())
