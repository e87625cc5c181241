"""Levels at each size of tests that draw or choose among several: how often they refute a claim that is exactly true.

    python benchmarks/levels_combined.py            adds what docs/evidence/tables/levels-combined.csv lacks
    python benchmarks/levels_combined.py --write docs/evidence/calibration.md

`both_ends` refutes from a critical statistic on, which the draws of a size decide: it is found with the public test, and fresh
samples count how often they reach it; to that comes the share of the rank tests, a hundredth of the level, as if each of
them were an error. `clopper_pearson` by split and `sequential` are asked about tied answers, all tables of a size at once.
`gaussian` refutes from a number of wins on, whose chance at the claimed mu is the mean tail over fresh centred samples.
`fdp_rank` refutes beyond a sum of rank scores: fresh samples of DP-SGD as claimed, and of nothing, count how often.
"""

from __future__ import annotations

import argparse
import csv
import functools
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
from page_sections import replace_section
from scipy import stats

from audit import plugins
from audit.bounds import claim_test
from audit.bounds.estimators import fdp_rank
from audit.core.game import Game
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.event_curves import DpSgdCurves
from audit.stats.bounds import both_ends, gdp_area, least_favourable
from audit.stats.bounds.shifts import CurveShift

TITLE = "Levels of each size, tests that choose"
STORE = Path(__file__).resolve().parents[1] / "docs" / "evidence" / "tables" / "levels-combined.csv"
COLUMNS = ("estimator", "members", "nonmembers", "epsilon", "nominal", "samples", "refuted", "rate over nominal")
DELTA, LEVEL = 1e-5, 0.05
SIZES = tuple((size, size if step % 3 else round(0.78 * size)) for step, size in enumerate([*range(21, 500, 37), 500]))
WORST = ((100, 100), (500, 500), (43, 43), (127, 99), (231, 231), (97, 122))
SAMPLES = {"sequential": 1000, "clopper_pearson by split": 1000, "gaussian": 8000, "both_ends": 40_000, "fdp_rank": 400_000}
SHARES = {"both_ends": (1, 3), "gaussian": (1, 3), "fdp_rank": (1, 3)}  # of the error budget
CLAIMS = {
    "both_ends": (0.0, 1.0, 3.0),
    "sequential": (2.5,),
    "clopper_pearson by split": (2.5,),
    "gaussian": (0.5, 1.0, 3.0),
    "fdp_rank": (0.0, 0.5),
}
"""Epsilon of randomised response, or mu, or the inverse of the noise multiplier."""
TRAINING = DpSgdCurves(noise_multiplier=2.0, sample_rate=0.2, steps=50)


def draw_rankings(sides: tuple[int, int], epsilon: float, samples: int, rng: np.random.Generator) -> np.ndarray:
    """Return memberships by rank, `(samples, n)`, of the least favourable pair of (epsilon, delta)-DP."""
    members, nonmembers = sides
    right = rng.random((samples, members + nonmembers)) < 1 / (1 + math.exp(-epsilon))
    is_member = np.arange(members + nonmembers) < members
    levels = np.where(right == is_member, 1.0, 0.0)
    levels[rng.random(levels.shape) < DELTA] = 2.0
    levels = np.where((levels == 2) & ~is_member, -1.0, levels)
    return np.asarray(is_member[np.argsort(-(levels + rng.random(levels.shape)), axis=1)])


def count_both_ends(sides: tuple[int, int], epsilon: float, level: float, rng: np.random.Generator) -> float:
    """Return how many of `SAMPLES` fresh rankings reach the critical statistic, and those that rank tests may add."""
    samples, design = SAMPLES["both_ends"], both_ends.Design(members=sides[0], nonmembers=sides[1])
    edges = both_ends.ladder(design)
    step = int(np.searchsorted(edges, epsilon, side="right")) - 1
    statistics, examples = [], []
    for _ in range(0, samples, 4000):
        rankings = draw_rankings(sides, epsilon, 4000, rng)
        right = np.stack([both_ends.right_guesses(ranking) for ranking in rankings])
        values = both_ends.excess(right, (edges[step] + edges[step + 1]) / 2, design).max(axis=1)
        statistics.append(values)
        examples += [
            (value, rankings[place]) for place, value in enumerate(values) if value > np.quantile(values, 1 - 3 * level)
        ]
    values = np.concatenate(statistics)
    examples.sort(key=lambda example: example[0])
    first, last = 0, len(examples)
    while first < last:
        middle = (first + last) // 2
        if both_ends.refutes(examples[middle][1], epsilon, DELTA, level):
            last = middle
        else:
            first = middle + 1
    reached = int((values >= examples[first][0] - both_ends.ROUNDING).sum()) if first < len(examples) else 0
    return reached + both_ends.RANKS * level * samples


def count_tied(name: str, sides: tuple[int, int], epsilon: float, level: float, rng: np.random.Generator) -> float:
    """Return how many of `SAMPLES` tables of tied answers are refuted at the exact claim."""
    kind = {"kind": "sequential"} if name == "sequential" else {"kind": "clopper_pearson", "threshold_by": "split"}
    estimator, members = plugins.build("audit.bounds.estimators", kind), sides[0]
    game, included = Game.of_scores("independent_trials", sum(sides)), np.arange(sum(sides)) < members
    tables = []
    for _ in range(SAMPLES[name]):
        right = rng.random(sum(sides)) < 1 / (1 + math.exp(-epsilon))
        tables.append(Scores(values=np.where(right == included, 1.0, 0.0), included=included, game=game))
    options = {"epsilon": epsilon, "delta": 0.0, "confidence": 1 - level}
    return float(sum(claim_test.refutes_tables(estimator, tables, seeds=[Seed(0)] * len(tables), **options)))


def count_gaussian(sides: tuple[int, int], mu: float, level: float, rng: np.random.Generator) -> float:
    """Return the chance of as many wins as refute mu, times `SAMPLES`: the mean tail over centred samples."""
    wins = gdp_area.critical_wins(*sides, mu, level)
    if wins > sides[0] * sides[1]:
        return 0.0
    draws = rng.standard_normal((SAMPLES["gaussian"], sum(sides)), dtype=np.float32)
    own, others = draws[:, : sides[0]], draws[:, sides[0] :]
    centred = own - own.mean(axis=1, keepdims=True), others - others.mean(axis=1, keepdims=True)
    kept, gdp_area._residuals = gdp_area._residuals, lambda *about: centred
    crossings = gdp_area._crossings.__wrapped__(*sides, wins, len(draws))
    gdp_area._residuals = kept
    return float(stats.norm.cdf((mu - crossings) / math.sqrt(1 / sides[0] + 1 / sides[1])).sum())


def count_fdp_rank(sides: tuple[int, int], signal: float, level: float, rng: np.random.Generator) -> float:
    """Return how many of `SAMPLES` fresh samples of DP-SGD with this noise have a sum of likelihood ratios that refutes it."""
    scores = fdp_rank.FdpRank()._rank_scores(sides, TRAINING)
    shift, members = CurveShift(fdp_rank._curve(TRAINING)), sides[0]
    test = least_favourable.PointTest(shift, signal, scores, members=members, significance=level)
    critical, place, beyond = test.critical_sum(), shift.lifted(signal), 0
    for _ in range(0, SAMPLES["fdp_rank"], 2000):
        draws = rng.standard_normal((2000, sum(sides)), dtype=np.float32)
        sums = least_favourable.simulated_sums(place(shift.encode(draws[:, :members])), draws[:, members:], scores)
        beyond += int((sums > critical).sum())
    return float(beyond)


def read_keys() -> set[tuple[str, ...]]:
    """Return estimator, sizes, epsilon and level of the rows that are stored."""
    if not STORE.exists():
        STORE.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")
    with STORE.open(encoding="utf-8", newline="") as file:
        return {tuple(row[column] for column in COLUMNS[:5]) for row in csv.DictReader(file)}


def count(name: str) -> Callable[[tuple[int, int], float, float, np.random.Generator], float]:
    """Return what counts refuted samples of an estimator, from sizes, claim, level and stream."""
    own = {"both_ends": count_both_ends, "gaussian": count_gaussian, "fdp_rank": count_fdp_rank}
    return own[name] if name in own else functools.partial(count_tied, name)


def make_row(name: str, sides: tuple[int, int], epsilon: float, share: int) -> None:
    """Append one row."""
    rng, level = np.random.default_rng([41, *sides, round(10 * epsilon), share]), LEVEL / share
    refuted = count(name)(sides, epsilon, level, rng)
    rate = refuted / SAMPLES[name] / level
    cells = [name, *sides, f"{epsilon:g}", f"{100 * level:.3g} %", SAMPLES[name], f"{refuted:g}", f"{rate:.3f}"]
    with STORE.open("a", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerow(cells)
    print(*cells, flush=True)


def page() -> list[str]:
    """Return the lines of the section: of each estimator, claim and level the mean over the sizes and the largest."""
    with STORE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    lines = [
        "Made by `python benchmarks/levels_combined.py --write docs/evidence/calibration.md`; each size is a row of",
        "`tables/levels-combined.csv`.",
        "",
        "How often a claim that is exactly true is refuted, over the nominal rate: mean over the sizes, and the largest.",
        "`gaussian`: mu, by the mean tail over fresh centred samples. `fdp_rank`: DP-SGD of rate 0.2 and 50 steps, the inverse",
        "of its noise. The others epsilon of randomised response; `both_ends`: fresh samples beyond the critical statistic,",
        "and the share of its rank tests as if each were an error; the rest: audits of tied answers.",
        "",
        "| estimator | claim | nominal | sizes | samples each | mean | largest | at |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for key in sorted({(row["estimator"], row["epsilon"], row["nominal"]) for row in rows}):
        chosen = [row for row in rows if (row["estimator"], row["epsilon"], row["nominal"]) == key]
        rates = [float(row["rate over nominal"]) for row in chosen]
        worst = chosen[int(np.argmax(rates))]
        cells = [*key, len(chosen), chosen[0]["samples"], f"{np.mean(rates):.3f}", f"{max(rates):.3f}"]
        lines.append(f"| {' | '.join(map(str, cells))} | {worst['members']} and {worst['nonmembers']} |")
    return lines


def main() -> None:
    """Make what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path)
    options, stored = parser.parse_args(), read_keys()
    for name in SAMPLES:
        for sides in (*WORST, *SIZES):
            for epsilon in CLAIMS[name]:
                for share in SHARES.get(name, (1,)):
                    if (name, str(sides[0]), str(sides[1]), f"{epsilon:g}", f"{100 * LEVEL / share:.3g} %") not in stored:
                        make_row(name, sides, epsilon, share)
    if options.write is not None:
        replace_section(options.write, TITLE, page())


if __name__ == "__main__":
    main()
