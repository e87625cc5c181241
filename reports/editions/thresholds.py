"""Rates, curves and histograms of an attack at thresholds so far apart that no difference of two speaks of a few records."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate

from audit.core.game_results import AttackResult, Histogram, RocCurve, TprAtFpr

SMALLEST_GROUP = 10


def coarse(attack: AttackResult) -> AttackResult:
    """Return the attack at so few thresholds that between any two of them, whatever row tells them, enough records lie."""
    cuts = [0, attack.roc.members + attack.roc.nonmembers]
    rates = []
    for rate in attack.tpr_at:
        apart = _apart(_positives(rate), cuts)
        rates.append(rate if apart else TprAtFpr.blank(rate.target_fpr, rate.allowed))
        cuts += [_positives(rate)] if apart else []
    histogram = _histogram(attack.histogram, cuts)
    return replace(
        attack,
        roc=_roc(attack.roc, [*cuts, *_above(histogram)]),
        tpr_at=tuple(rates),
        histogram=histogram,
    )


def _positives(rate: TprAtFpr) -> int:
    """Return how many records an attack calls members at its threshold."""
    return (rate.true_positives or 0) + (rate.false_positives or 0)


def _apart(count: int, cuts: Iterable[int]) -> bool:
    """True if a threshold with `count` records above it is one of `cuts`, or lies far from each of them."""
    return all(count == cut or abs(count - cut) >= SMALLEST_GROUP for cut in cuts)


def _roc(curve: RocCurve, cuts: Iterable[int]) -> RocCurve:
    """The curve at points far from each other and from all thresholds told elsewhere: its steps would tell records' sides."""
    thresholds = sorted(set(cuts))
    last = len(curve.fpr) - 1
    indices: list[int] = []
    before = 0
    for index in range(last):
        count = _above_point(curve, index)
        place = bisect_left(thresholds, count)
        if _apart(count, (before, *thresholds[max(0, place - 1) : place + 1])):
            indices.append(index)
            before = count
    indices.append(last)

    def column_at(column: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(column[index] for index in indices)

    return replace(
        curve,
        fpr=column_at(curve.fpr),
        tpr=column_at(curve.tpr),
        lower=column_at(curve.lower),
        upper=column_at(curve.upper),
    )


def _above_point(curve: RocCurve, index: int) -> int:
    """Return how many records an attack calls members at a point."""
    return round(curve.tpr[index] * curve.members + curve.fpr[index] * curve.nonmembers)


def _histogram(histogram: Histogram, cuts: Sequence[int] = ()) -> Histogram:
    """The counts in as few bins of equal width as it takes for each to be empty or hold `SMALLEST_GROUP` records.

    No edge lies between a threshold told elsewhere (`cuts`, by the number of records above it) and fewer records than that.

    As in any histogram of a report, the outermost bins take in what lies outside.
    """
    count = len(histogram.members)
    for width in (width for width in range(1, count + 1) if count % width == 0):
        candidate = _fold(_merge(histogram, width))
        large = all(total == 0 or total >= SMALLEST_GROUP for total in _totals(candidate))
        if large and all(_apart(above, cuts) for above in _above(candidate)):
            return candidate
    return _merge(histogram, count)


def _above(histogram: Histogram) -> list[int]:
    """Return how many records lie above the lower edge of each bin, from the last one on."""
    return list(accumulate(reversed(_totals(histogram))))


def _merge(histogram: Histogram, width: int) -> Histogram:
    starts = range(0, len(histogram.members), width)
    return Histogram(
        edges=(*(histogram.edges[start] for start in starts), histogram.edges[-1]),
        members=tuple(sum(histogram.members[start : start + width]) for start in starts),
        nonmembers=tuple(sum(histogram.nonmembers[start : start + width]) for start in starts),
    )


def _fold(histogram: Histogram) -> Histogram:
    """The same without small bins at its ends, which their neighbours take in."""
    while len(histogram.members) > 1 and _totals(histogram)[0] < SMALLEST_GROUP:
        histogram = Histogram(
            edges=histogram.edges[1:], members=_first(histogram.members), nonmembers=_first(histogram.nonmembers)
        )
    while len(histogram.members) > 1 and _totals(histogram)[-1] < SMALLEST_GROUP:
        members, nonmembers = _first(histogram.members[::-1])[::-1], _first(histogram.nonmembers[::-1])[::-1]
        histogram = Histogram(edges=histogram.edges[:-1], members=members, nonmembers=nonmembers)
    return histogram


def _first(counts: tuple[int, ...]) -> tuple[int, ...]:
    """The counts with the first two as one."""
    return (counts[0] + counts[1], *counts[2:])


def _totals(histogram: Histogram) -> list[int]:
    return [members + nonmembers for members, nonmembers in zip(histogram.members, histogram.nonmembers, strict=True)]
