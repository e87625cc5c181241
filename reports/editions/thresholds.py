"""Rates, curves and histograms of an attack at thresholds so far apart that no difference of two speaks of a few records.

Nor of records of one side alone: whoever can score a record reads its place off the thresholds, and where all records between
two of them are members, or none is, learns whether that one was.
"""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import replace
from itertools import accumulate, pairwise

from audit.core.game_results import AttackResult, Histogram, RocCurve, SecretFigures, TprAtFpr
from audit.core.lower_bounds import ReportedBound

SMALLEST_GROUP = 10
SMALLEST_SIDE = 2
"""Of the records between two thresholds, so many are members and as many are not: one of them may be the reader's own."""

Cut = tuple[int, int]
"""Members and nonmembers above a threshold."""

_GUESSES = re.compile(r"[\d,]+ of ([\d,]+) guesses right")
_RANK = re.compile(r"([\d,]+) of [\d,]+ (?:non)?members (above|below) (?:non)?member ([\d,]+) from")


def coarse(attack: AttackResult) -> AttackResult:
    """Return the attack at so few thresholds that between any two of them, whatever row tells them, enough of both sides lie.

    The guesses that a bound ended on are thresholds as well, since its epsilon follows from them.
    """
    cuts: list[Cut] = [(0, 0), (attack.roc.members, attack.roc.nonmembers)]
    counts = _guess_counts(attack)
    rates = []
    for rate in attack.tpr_at:
        is_told = rate.tpr is not None and _may_tell(_positives(rate), cuts, counts)
        rates.append(rate if is_told else TprAtFpr.blank(rate.target_fpr, rate.allowed))
        if is_told:
            insort(cuts, _positives(rate))
    secrets = None if attack.secrets is None else _secrets(attack.secrets, cuts, counts)
    histogram = _histogram(attack.histogram, cuts, counts)
    for cut in _above(histogram):
        insort(cuts, cut)
    return replace(
        attack,
        roc=_roc(attack.roc, cuts, counts),
        tpr_at=tuple(rates),
        histogram=histogram,
        secrets=secrets,
    )


def _secrets(figures: SecretFigures, cuts: list[Cut], counts: list[int]) -> SecretFigures:
    """The levels that may be told beside the cuts, to which they are added: a level is a threshold of the attack's scores."""
    levels = []
    for level in figures.levels:
        if _may_tell((level.members, level.nonmembers), cuts, counts):
            levels.append(level)
            insort(cuts, (level.members, level.nonmembers))
    return replace(figures, levels=tuple(levels))


def _guess_counts(attack: AttackResult) -> list[int]:
    """Return how many records lie above the thresholds that bounds ended on: of guesses, half lie at either end."""
    records = attack.roc.members + attack.roc.nonmembers
    counts = []
    for bound in attack.bounds:
        if guesses := _GUESSES.search(bound.selected):
            half = _number(guesses[1]) // 2
            counts += [half, records - half]
        if rank := _RANK.search(bound.selected):
            above = _number(rank[1]) + _number(rank[3])
            counts.append(above if rank[2] == "above" else records - above)
    return counts


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def without_counts(bound: ReportedBound, remark: str) -> ReportedBound:
    """The bound with `remark` in place of the threshold or the guesses that it ended on; what follows from neither stays."""
    ending, *clauses = bound.selected.split("; ")
    return replace(bound, selected="; ".join([remark if re.search(r"\d", ending) else ending, *clauses]))


def _positives(rate: TprAtFpr) -> Cut:
    """Return the records that an attack calls members at its threshold."""
    return rate.true_positives or 0, rate.false_positives or 0


def _may_tell(cut: Cut, cuts: list[Cut], counts: Iterable[int]) -> bool:
    """True if a threshold is one of `cuts` (sorted), or leaves enough of both sides between it and its neighbours there.

    Args:
        counts: of records above further thresholds, of which the sides are not told; the new one may equal them, or be far.
    """
    if cut in cuts:
        return True
    place = bisect_left(cuts, cut)
    neighbours = cuts[max(0, place - 1) : place + 1]
    between = all(_is_large(cut, neighbour) for neighbour in neighbours)
    return between and all(sum(cut) == count or abs(sum(cut) - count) >= SMALLEST_GROUP for count in counts)


def _is_large(cut: Cut, neighbour: Cut) -> bool:
    """True if enough records lie between two thresholds, and enough of either side."""
    members, nonmembers = abs(cut[0] - neighbour[0]), abs(cut[1] - neighbour[1])
    return members + nonmembers >= SMALLEST_GROUP and min(members, nonmembers) >= SMALLEST_SIDE


def _roc(curve: RocCurve, cuts: list[Cut], counts: Iterable[int]) -> RocCurve:
    """The curve at points far from each other and from all thresholds told elsewhere: its steps would tell records' sides."""
    last = len(curve.fpr) - 1
    indices: list[int] = []
    thresholds = list(cuts)
    for index in range(last):
        cut = _above_point(curve, index)
        if _may_tell(cut, thresholds, counts):
            indices.append(index)
            if cut not in thresholds:
                insort(thresholds, cut)
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


def _above_point(curve: RocCurve, index: int) -> Cut:
    """Return the records that an attack calls members at a point."""
    return round(curve.tpr[index] * curve.members), round(curve.fpr[index] * curve.nonmembers)


def _histogram(histogram: Histogram, cuts: Iterable[Cut] = (), counts: Iterable[int] = ()) -> Histogram:
    """The counts in as few bins of equal width as it takes for each to hold enough records of both sides.

    No edge lies between a threshold told elsewhere and fewer records than that.

    As in any histogram of a report, the outermost bins take in what lies outside.
    """
    count = len(histogram.members)
    thresholds = sorted(cuts)
    for width in (width for width in range(1, count + 1) if count % width == 0):
        candidate = _fold(_merge(histogram, width))
        edges = [(0, 0), *_above(candidate)]
        apart = all(_is_large(*pair) for pair in pairwise(edges))
        if apart and all(_may_tell(edge, thresholds, counts) for edge in edges[1:-1]):
            return candidate
    return _merge(histogram, count)


def _above(histogram: Histogram) -> list[Cut]:
    """Return the records above the lower edge of each bin, from the last one on."""
    sides = (accumulate(reversed(side)) for side in (histogram.members, histogram.nonmembers))
    return list(zip(*sides, strict=True))


def _merge(histogram: Histogram, width: int) -> Histogram:
    starts = range(0, len(histogram.members), width)
    return Histogram(
        edges=(*(histogram.edges[start] for start in starts), histogram.edges[-1]),
        members=tuple(sum(histogram.members[start : start + width]) for start in starts),
        nonmembers=tuple(sum(histogram.nonmembers[start : start + width]) for start in starts),
    )


def _fold(histogram: Histogram) -> Histogram:
    """The same without small or one-sided bins at its ends, which their neighbours take in."""
    while len(histogram.members) > 1 and not _is_bin_large(histogram, 0):
        histogram = Histogram(
            edges=histogram.edges[1:], members=_first(histogram.members), nonmembers=_first(histogram.nonmembers)
        )
    while len(histogram.members) > 1 and not _is_bin_large(histogram, -1):
        members, nonmembers = _first(histogram.members[::-1])[::-1], _first(histogram.nonmembers[::-1])[::-1]
        histogram = Histogram(edges=histogram.edges[:-1], members=members, nonmembers=nonmembers)
    return histogram


def _first(counts: tuple[int, ...]) -> tuple[int, ...]:
    """The counts with the first two as one."""
    return (counts[0] + counts[1], *counts[2:])


def _is_bin_large(histogram: Histogram, index: int) -> bool:
    return _is_large((histogram.members[index], histogram.nonmembers[index]), (0, 0))
