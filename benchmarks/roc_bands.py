"""Critical values of bands on a ROC, and the share of curves that such bands cover.

    python benchmarks/roc_bands.py --critical                 the table CRITICAL of audit/stats/bounds/roc_band.py
    python benchmarks/roc_bands.py --coverage --draws 1000    the table of docs/theory/roc.md, section "Bands on a ROC"
    python benchmarks/roc_bands.py --ties --draws 400         the same for scores of few values

Critical values are quantiles of the departure of a curve from its samples, the larger of those of two curves: of scores that
say nothing and of randomised response. Coverage is counted on curves given by their corners, at these and on a grid of rates.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable

import numpy as np
from scipy import special

from audit.stats.arrays import Array, Counts
from audit.stats.bounds import ranks, roc_band
from audit.stats.bounds.roc_band import LEVELS, SIZES, ThresholdPath

POINTS = 3.0  # of the curve that are looked at in each standard error of a rate, in addition to its corners
FEW = 250  # corners, which are all looked at
SMOOTH = 10  # scores a side from which quantiles follow a parabola in the logarithm of their number
CONFIDENCE = 0.95
Corners = tuple[Array, Array]
"""False and true positive rates of the corners of a curve, from (0, 0) to (1, 1)."""


def diagonal() -> Corners:
    """Scores that say nothing."""
    return np.array([0.0, 1.0]), np.array([0.0, 1.0])


def binormal(shift: float, spread: float = 1.0) -> Corners:
    """Members normal around `shift` with standard deviation `spread`, nonmembers standard normal."""
    place = np.linspace(-7, 7, 4001)
    return _closed(special.ndtr(-place), special.ndtr((shift - place) / spread))


def grouped(curve: Corners, values: int) -> Corners:
    """A curve if scores take so many values, about as many scores having each: straight between their thresholds."""
    fpr, tpr = curve
    thresholds = np.arange(values + 1) / values
    return tuple(np.interp(thresholds, (fpr + tpr) / 2, rates) for rates in (fpr, tpr))  # type: ignore[return-value]


def _closed(fpr: Array, tpr: Array) -> Corners:
    return np.concatenate([[0.0], fpr[::-1], [1.0]]), np.concatenate([[0.0], tpr[::-1], [1.0]])


def flat(epsilon: float, delta: float = 0.0) -> Corners:
    """The most that (epsilon, delta)-DP allows."""
    bend = (1 - delta) / (1 + math.exp(epsilon))
    return np.array([0.0, 0.0, bend, 1 - delta, 1.0]), np.array([0.0, delta, 1 - bend, 1.0, 1.0])


def staircase(steps: int, size: int) -> Corners:
    """Groups of members and of nonmembers in turn, as large in standard errors at the ends as in the middle."""
    ends = math.log(4 * size)
    cuts = np.concatenate([[0.0], special.expit(np.linspace(-ends, ends, steps + 1)[1:-1]), [1.0]])
    return np.repeat(cuts, 2)[:-1], np.repeat(cuts, 2)[1:]


def sampled(corners: Corners, members: int, nonmembers: int, draw: np.random.Generator) -> tuple[Array, Array]:
    """Scores of both sides that have the curve as their ROC: the place along it, falling."""
    fpr, tpr = corners
    return -_places(tpr, draw.random(members)), -_places(fpr, draw.random(nonmembers))


def _places(rates: Array, uniform: Array) -> Array:
    cell = np.clip(np.searchsorted(rates, uniform, side="left") - 1, 0, len(rates) - 2)
    return np.asarray(cell + (uniform - rates[cell]) / (rates[cell + 1] - rates[cell]))


def departures(corners: Corners, members: int, nonmembers: int, draws: int, *, ties: bool = False) -> Array:
    """`(draws,)` of the curve from as many samples; with `ties` all scores between two corners are equal."""
    draw, size = np.random.default_rng([members, nonmembers, len(corners[0])]), members + nonmembers
    pooled = (members * corners[1] + nonmembers * corners[0]) / size
    grid = np.sin(np.linspace(0, math.pi / 2, max(FEW, math.ceil(POINTS * math.pi * math.sqrt(size))))[1:-1]) ** 2
    places = np.interp(grid, pooled, np.arange(len(pooled)))
    if len(pooled) < FEW:
        places = np.sort(np.concatenate([places, np.arange(len(pooled))]))
    fpr, tpr = (np.interp(places, np.arange(len(pooled)), rates) for rates in corners)
    result = []
    for _ in range(draws):
        scores = np.concatenate(sampled(corners, members, nonmembers, draw))
        ranking = np.argsort(-scores) < members
        if ties:
            ranking = ranks.spread_evenly(np.ceil(scores), np.arange(size) < members)
        result.append(roc_band.departure(ThresholdPath.of(ranking), fpr, tpr))
    return np.array(result)


def critical(draws: int) -> None:
    """Print quantiles of the departure: as simulated or as smoothed over sizes from `SMOOTH` on, whichever is larger.

    At a size are made as many draws as one core makes in about the same time.
    """
    counts = np.array([max(draws // 3, min(4 * draws, round(draws * 30 / math.sqrt(size)))) for size in SIZES])
    tables = [smoothed(curve, counts) for curve in (diagonal(), flat(3.0))]
    for row in np.maximum(*tables):
        print("    (" + ", ".join(f"{value:.2f}" for value in row) + "),")


def smoothed(curve: Corners, counts: Counts) -> Array:
    """`(sizes, levels)` quantiles of a curve's departure."""
    table = []
    for size, count in zip(SIZES, counts.tolist(), strict=True):
        table.append(np.quantile(departures(curve, size, size, count), [1 - level for level in LEVELS]))
        print(f"{size} ({count} draws): {np.round(table[-1], 2).tolist()}", file=sys.stderr, flush=True)
    values, large = np.array(table), np.array(SIZES) >= SMOOTH
    logs = np.log(np.array(SIZES)[large])
    for column in values.T:
        smooth = np.polyval(np.polyfit(logs, column[large], 2, w=np.sqrt(counts[large])), logs)
        column[large] = np.maximum(column[large], smooth)
    return np.maximum.accumulate(values, axis=1)


CURVES: dict[str, Callable[[int], Corners]] = {
    "nothing leaks": lambda size: diagonal(),
    "binormal, shift 0.5": lambda size: binormal(0.5),
    "binormal, shift 1": lambda size: binormal(1.0),
    "binormal, shift 2": lambda size: binormal(2.0),
    "binormal, shift 1, spread 2": lambda size: binormal(1.0, 2.0),
    "flat, epsilon 1": lambda size: flat(1.0),
    "flat, epsilon 3": lambda size: flat(3.0),
    "flat, epsilon 1, delta 0.1": lambda size: flat(1.0, 0.1),
    "staircase of 4": lambda size: staircase(4, size),
    "staircase of 8": lambda size: staircase(8, size),
    "staircase of 16": lambda size: staircase(16, size),
}
SIDES = ((100, 100), (1000, 1000), (10_000, 10_000), (50, 950))


def coverage(draws: int) -> None:
    """Print the share of samples with a band that holds the whole curve."""
    print("| curve | " + " | ".join(f"{members:,} and {nonmembers:,}" for members, nonmembers in SIDES) + " |")
    print("|---|" + "---|" * len(SIDES), flush=True)
    for name, curve in CURVES.items():
        cells = []
        for sides in SIDES:
            result = departures(curve(max(sides)), *sides, draws)
            cells.append(f"{np.mean(result <= roc_band.critical_value(*sides, CONFIDENCE)):.1%}")
            print(name, sides, cells[-1], file=sys.stderr, flush=True)
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def ties(draws: int) -> None:
    """Print the share of samples with a band that holds the whole curve if scores are tied."""
    sides = SIDES[:2]
    print("| values | shift | " + " | ".join(f"{members:,} and {nonmembers:,}" for members, nonmembers in sides) + " |")
    print("|---|---|" + "---|" * len(sides), flush=True)
    for values in (2, 3, 5, 10, 20, 50):
        for shift in (0.0, 1.0, 2.0):
            result = [departures(grouped(binormal(shift), values), *side, draws, ties=True) for side in sides]
            limits = [roc_band.critical_value(*side, CONFIDENCE) for side in sides]
            cells = [f"{np.mean(row <= limit):.1%}" for row, limit in zip(result, limits, strict=True)]
            print(f"| {values} | {shift:g} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    """Print one of the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--critical", action="store_true")
    parser.add_argument("--coverage", action="store_true")
    parser.add_argument("--ties", action="store_true")
    parser.add_argument("--draws", type=int, default=500)
    options = parser.parse_args()
    if options.critical:
        critical(options.draws)
    if options.coverage:
        coverage(options.draws)
    if options.ties:
        ties(options.draws)


if __name__ == "__main__":
    main()
