"""Levels of the tests of each size if nothing leaks: how often they refute what is exactly true, given the draws of the size.

    python benchmarks/levels.py --sizes 20:500                    add the sizes that benchmarks/levels.csv lacks
    python benchmarks/levels.py --write docs/evidence/calibration.md       the section "Levels of each size" from that file

The area under the ROC has an exact law if nothing leaks (Mann and Whitney 1947), so its levels are exact, at every size from 20
a side on, round or odd, also with unequal sides. Delete the file when the draws change.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np
from page_sections import replace_section

from audit.stats.bounds import least_favourable, rank_sums
from audit.stats.bounds.shifts import GdpShift

TITLE = "Levels of each size"
STORE = Path(__file__).with_suffix(".csv")
SIGNIFICANCE = 0.05
SHARES = (1, 2, 3, 4, 5, 10, 20)  # of the error budget
FEW_DRAWS, EVERY = 5, 10  # the largest share whose draws are cheap, and every how many sizes the others are measured
UNEQUAL = 0.78  # nonmembers per member in every third row
COLUMNS = ("members", "nonmembers", "share", "gaussian", "fdp_rank")


def levels(members: int, nonmembers: int, shares: tuple[int, ...]) -> list[tuple[float, float | None]]:
    """Exact levels at each share of the budget: of `gaussian`, and of `fdp_rank` by the AUC if the share is in `shares`."""
    scores, result = least_favourable.auc_scores(members + nonmembers), []
    least = int(scores[:members].sum())
    test = least_favourable.PointTest(GdpShift(), 0.0, scores, members=members, significance=SIGNIFICANCE / max(shares))
    for share in SHARES:
        level = SIGNIFICANCE / share
        exact = rank_sums.tail(members, nonmembers, rank_sums.critical_wins(members, nonmembers, level))
        if share not in shares:
            result.append((exact, None))
            continue
        drawn = rank_sums.tail(members, nonmembers, test.critical_sum(level) - least + 1)
        result.append((exact, min(exact, drawn)))  # it asks for both
    return result


def sides(size: int) -> tuple[int, int]:
    """Members and nonmembers: equal, but for every third size."""
    return (size, round(size * UNEQUAL)) if size % 3 == 0 else (size, size)


def read() -> list[dict[str, float]]:
    """Rows of the stored table; NaN if a level was not measured."""
    if not STORE.exists():
        return []
    with STORE.open(encoding="utf-8", newline="") as file:
        return [{column: float(row[column] or "nan") for column in COLUMNS} for row in csv.DictReader(file)]


def extend(sizes: range) -> None:
    """Measure the sizes that are not stored yet; each is written when it is finished."""
    stored = {int(row["members"]) for row in read()}
    if not stored:
        STORE.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")
    for size in sizes:
        if size in stored:
            continue
        members, nonmembers = sides(size)
        shares = SHARES if size % EVERY == 0 else tuple(share for share in SHARES if share <= FEW_DRAWS)
        with STORE.open("a", encoding="utf-8") as file:
            for share, (exact, level) in zip(SHARES, levels(members, nonmembers, shares), strict=True):
                drawn = "" if level is None else f"{level:.8f}"
                file.write(f"{members},{nonmembers},{share},{exact:.8f},{drawn}\n")


def page() -> list[str]:
    """Lines of the section: per range of sizes, share and estimator, the mean and the largest level over the nominal one."""
    rows = read()
    lines = [
        "Made by `python benchmarks/levels.py --write docs/evidence/calibration.md` from `benchmarks/levels.csv`.",
        "",
        "The exact chance of refuting that nothing leaks if that is true, over the nominal one. `gaussian` has the largest",
        "attainable level, which no draws decide; `fdp_rank` by the area under the ROC has the level that the draws of its",
        "size leave. Mean over the sizes, and the largest of any size in brackets; every third size has 78 nonmembers for 100",
        "members.",
        f"{len({row['members'] for row in rows})} sizes are stored; below 1 % `fdp_rank` is measured at every {EVERY}th. "
        "`tests/stats/test_least_favourable.py` asserts each row.",
        "",
        "| estimator | members | " + " | ".join(f"{100 * SIGNIFICANCE / share:.3g} %" for share in SHARES) + " |",
        "|---" * (len(SHARES) + 2) + "|",
    ]
    for estimator in ("gaussian", "fdp_rank"):
        for first, last in ((20, 49), (50, 99), (100, 199), (200, 349), (350, 500)):
            cells = []
            for share in SHARES:
                of_share = [row for row in rows if first <= row["members"] <= last and row["share"] == share]
                ratios = [row[estimator] * share / SIGNIFICANCE for row in of_share if not np.isnan(row[estimator])]
                cells.append(f"{np.mean(ratios):.3f} ({max(ratios):.3f})" if ratios else "-")
            lines.append(f"| {estimator} | {first} to {last} | " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    """Read the options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="", help="first:last or first:last:step, inclusive")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    if options.sizes:
        first, last, *step = (int(part) for part in options.sizes.split(":"))
        extend(range(first, last + 1, *step))
    if options.write is not None:
        replace_section(options.write, TITLE, page())
    else:
        print("\n".join(page()))


if __name__ == "__main__":
    main()
