"""Levels of the simulated tests at each size: how often a test refutes what is exactly true, given the draws of its size.

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

from audit.stats.bounds import least_favourable
from audit.stats.bounds.validation import Array

TITLE = "Levels of each size"
STORE = Path(__file__).with_suffix(".csv")
SIGNIFICANCE = 0.05
SHARES = (1, 2, 3, 4, 5, 10, 20)  # of the error budget
UNEQUAL = 0.78  # nonmembers per member in every third row
COLUMNS = ("members", "nonmembers", "share", "level", "exact test")


def win_chances(members: int, nonmembers: int) -> Array:
    """`(members * nonmembers + 1,)` chances of the pairs that members win if all orders are equally likely.

    The generating function is the product of `(1 - q^(n + i)) / (1 - q^i)` over its value at 1; on the unit circle its factors
    are ratios of sines, at roots of unity of a prime order, which no denominator meets.
    """
    order = _prime_from(members * nonmembers + 1)
    place = np.arange(1, order // 2 + 1)
    values = np.ones(len(place))
    for factor in range(1, members + 1):
        values *= np.sin(np.pi / order * (place * (nonmembers + factor) % (2 * order)))
        values /= np.sin(np.pi / order * (place * factor % (2 * order)))
        values *= factor / (nonmembers + factor)
    turned = values * np.exp(-1j * np.pi / order * (place * members * nonmembers % (2 * order)))
    return np.asarray(np.fft.irfft(np.append(1.0, turned), order)[: members * nonmembers + 1])


def _prime_from(number: int) -> int:
    """The least odd prime from a number on."""
    candidate = number | 1
    while any(candidate % divisor == 0 for divisor in range(3, int(candidate**0.5) + 1, 2)):
        candidate += 2
    return candidate


def levels(members: int, nonmembers: int) -> list[tuple[float, float]]:
    """The exact level at each share of the budget, and that of the exact test, which no draws decide."""
    tail = np.append(np.cumsum(win_chances(members, nonmembers)[::-1])[::-1], 0.0)
    scores = least_favourable.auc_scores(members + nonmembers)
    least = int(scores[:members].sum())
    result = []
    for share in SHARES:
        critical = least_favourable.critical_sum(
            least_favourable.gdp_shift, 0.0, scores, members=members, significance=SIGNIFICANCE / share
        )
        result.append((float(tail[critical - least + 1]), float(tail[tail <= SIGNIFICANCE / share].max())))
    return result


def sides(size: int) -> tuple[int, int]:
    """Members and nonmembers: equal, but for every third size."""
    return (size, round(size * UNEQUAL)) if size % 3 == 0 else (size, size)


def read() -> list[dict[str, float]]:
    """Rows of the stored table."""
    if not STORE.exists():
        return []
    with STORE.open(encoding="utf-8", newline="") as file:
        return [{column: float(row[column]) for column in COLUMNS} for row in csv.DictReader(file)]


def extend(sizes: range) -> None:
    """Measure the sizes that are not stored yet; each is written when it is finished."""
    stored = {int(row["members"]) for row in read()}
    if not stored:
        STORE.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")
    for size in sizes:
        if size in stored:
            continue
        members, nonmembers = sides(size)
        result = levels(members, nonmembers)
        with STORE.open("a", encoding="utf-8") as file:
            for share, (level, exact) in zip(SHARES, result, strict=True):
                file.write(f"{members},{nonmembers},{share},{level:.8f},{exact:.8f}\n")


def page() -> list[str]:
    """Lines of the section: per range of sizes and share, the mean and the largest level over the nominal one."""
    rows = read()
    lines = [
        "Made by `python benchmarks/levels.py --write docs/evidence/calibration.md` from `benchmarks/levels.csv`.",
        "",
        "`gaussian` has the largest attainable level if nothing leaks, at every size (`tests/stats/test_gdp_area.py` asserts",
        "it from 20 to 500). Below is `fdp_rank` by the area under the ROC:",
        "the exact chance that it refutes the claim that nothing leaks where that is true, over the nominal one, given",
        "the draws that the size fixes. Mean over the sizes, and the largest of any size in brackets; every third size has 78",
        f"nonmembers for 100 members. {len({row['members'] for row in rows})} sizes were measured.",
        "",
        "| members | " + " | ".join(f"{100 * SIGNIFICANCE / share:.3g} %" for share in SHARES) + " |",
        "|---" * (len(SHARES) + 1) + "|",
    ]
    for first, last in ((20, 49), (50, 99), (100, 199), (200, 349), (350, 500)):
        cells = []
        for share in SHARES:
            ratios = [
                row["level"] * share / SIGNIFICANCE for row in rows if first <= row["members"] <= last and row["share"] == share
            ]
            cells.append(f"{np.mean(ratios):.3f} ({max(ratios):.3f})" if ratios else "-")
        lines.append(f"| {first} to {last} | " + " | ".join(cells) + " |")
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
