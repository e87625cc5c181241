"""False alarms and reach of every estimator on laws with known epsilon, beside jax-privacy if it is installed.

    python benchmarks/estimators.py                       both tables, 500 draws a median, 1000 a rate
    python benchmarks/estimators.py --draws 50            quicker, coarser
    python benchmarks/estimators.py --only alarms --kind gaussian
    python benchmarks/estimators.py --write docs/evidence/calibration.md   as its sections "Reach" and "False alarms"
    python benchmarks/estimators.py --kind NAME --write docs/evidence/calibration.md   its rows alone; the others stay
    python benchmarks/estimators.py --speed               process time of every estimator on 10^4 scores, of the default on 10^6

Finished cells are kept in `--store` and used again if the code gives the same bounds; if a run is interrupted, the next
continues it. The peer is imported into the same process; without it its column says so. Every draw is seeded.
"""

from __future__ import annotations

import argparse
import functools
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import reachable_bounds
from estimator_cells import CONFIDENCE, SIGNIFICANCE, Cell, Store, jax_auditing, jax_version, ours, played
from page_sections import read_section, replace_section

from audit import lower_bound, plugins
from audit.core.seeds import Seed
from audit.stats.bounds.score_distributions import ScoreLaw

COMMAND = "python benchmarks/estimators.py --write docs/evidence/calibration.md"
CP = (("epsilon_clopper_pearson", "bonferroni"), ("epsilon_clopper_pearson", "split"))
GDP = (("epsilon_from_gdp", ""), *CP)
ONE_RUN = (("epsilon_one_run", "split"),)
ONE_RUN_FDP = (("epsilon_one_run_fdp", "bonferroni"), ("epsilon_one_run_fdp", "split"))
ANY = ({"kind": "rank_exact"},)
SIMULATING = ("gaussian", "fdp_rank")
ONE_RUN_NAMES = ("one_run", "one_run_fdp", "product_channel")
ELSEWHERE = ("both_ends", "one_run_secrets", "reconstruction")  # default_trials.py has the first, error_rates.py all
KEYS = {"Reach": 4, "False alarms": 2}  # columns that name a row


# ------------------------------------------------------------------------------------------------ reach


@dataclass(frozen=True)
class Row:
    """One line of the table of medians: our estimators, the peer's, the figure to reach, and the limit."""

    law: ScoreLaw
    count: int
    claim: str
    specs: tuple[dict, ...]
    peers: tuple[tuple[str, str], ...]
    goal: float
    limit: Callable[[], float]
    one_run: bool = False

    def cell(self, spec: dict, law: ScoreLaw | None = None) -> Cell:
        """The draws of one estimator in this row."""
        return Cell(spec, law or self.law, self.count, self.one_run, "reach")


def rows() -> list[Row]:
    """The table of the project's statistics issue."""
    result = []
    for law, goals in (
        (ScoreLaw(kind="flat", parameter=1.0), (0.58, 0.84)),
        (ScoreLaw(kind="flat", parameter=3.0), (2.2, 2.70)),
        (ScoreLaw(kind="laplace", parameter=1.0), (0.52, 0.79)),
        (ScoreLaw(kind="gaussian", parameter=1.0, delta=1e-5), (0.80, 1.65)),
    ):
        for count, goal in zip((100, 1000), goals, strict=True):
            limit = functools.partial(reachable_bounds.claim_limit, law, count, count)
            result.append(Row(law, count, "(epsilon, delta)", ANY, CP, goal, limit))
    law = ScoreLaw(kind="gaussian", parameter=1.0, delta=1e-5)
    for count, goal in ((100, 3.1), (1000, 3.9)):
        limit = functools.partial(reachable_bounds.gdp_limit, 1.0, law.delta, count, count)
        result.append(Row(law, count, "GDP", ({"kind": "gaussian"}, {"kind": "fdp_rank"}), GDP, goal, limit))
    for count, goals in ((1000, (1.5, 2.1, 3.4)), (10_000, (float("nan"), 2.7, 4.1))):
        half = count // 2
        free = functools.partial(reachable_bounds.claim_limit, law, half, half)
        inside = functools.partial(reachable_bounds.gdp_limit, 1.0, law.delta, half, half)
        for kind, claim, peers, goal, limit in (
            ("one_run", "(epsilon, delta)", ONE_RUN, goals[0], free),
            ("one_run_fdp", "GDP", ONE_RUN_FDP, goals[1], inside),
            ("product_channel", "GDP, granted independence", GDP, goals[2], inside),
        ):
            specs = ({"kind": kind}, {"kind": "gaussian"}) if kind == "product_channel" else ({"kind": kind},)
            result.append(Row(law, count, claim, specs, peers, goal, limit, one_run=True))
    return result


def reach(store: Store, draws: int, kinds: list[str]) -> list[str]:
    """Lines of the table of medians."""
    lines = [
        f"Median lower bound over {draws} draws at {CONFIDENCE:.0%}; n per side, or m coins of one run. The limit is the "
        "largest median that any valid test can have against one nearby alternative "
        "(benchmarks/reachable_bounds.py). A peer method is "
        "called invalid where it was wrong significantly more often than 5 % on this law or where nothing leaks.",
        "",
        "| law | size | claim | estimator | median | over the truth | jax-privacy (medians) "
        "| ratio to its best valid one | goal | limit | truth |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows():
        specs = [spec for spec in row.specs if not kinds or spec["kind"] in kinds]
        if not specs:
            continue
        shown, best = _best_peer(store, row, draws) if jax_auditing is not None else ("not installed", float("nan"))
        for spec in specs:
            result = store.bounds(row.cell(spec), draws)
            if len(result):
                lines.append(_reach_line(row, spec, result, shown, best))
                print(lines[-1], file=sys.stderr, flush=True)
    return lines


def _reach_line(row: Row, spec: dict, values: np.ndarray, shown: str, best: float) -> str:
    size = f"m={row.count}" if row.one_run else f"n={row.count}"
    median, over = float(np.median(values)), float(np.mean(values > row.law.epsilon))
    ratio = f"{median / best:.2f}" if best > 0 else "-"
    return (
        f"| {row.law.name} | {size} | {row.claim} | {spec['kind']} | {median:.3f} | {over:.1%} of {len(values)} | {shown} "
        f"| {ratio} | {'-' if np.isnan(row.goal) else f'{row.goal:g}'} | {row.limit():.3f} | {row.law.epsilon:.3f} |"
    )


def _best_peer(store: Store, row: Row, draws: int) -> tuple[str, float]:
    """The largest median among the peer's methods that are not seen to be invalid on this law or on the null."""
    shown, best = [], float("nan")
    for method, strategy in row.peers:
        medians, wrong = [], 0.0
        for law in (row.law, ScoreLaw(kind="null", delta=row.law.delta)):
            values = store.bounds(row.cell({"peer": method, "strategy": strategy}, law), draws)
            retained = values[~np.isnan(values)]
            wrong = max(wrong, float(np.mean(retained > law.epsilon)))
            medians.append(float(np.median(retained)))
        name = f"{method} {strategy}".strip().removeprefix("epsilon_")
        valid = wrong <= SIGNIFICANCE + 3 * (SIGNIFICANCE * (1 - SIGNIFICANCE) / draws) ** 0.5
        shown.append(f"{name} {medians[0]:.3f}" + ("" if valid else f" (invalid: wrong in {wrong:.0%})"))
        if valid and not medians[0] <= best:
            best = medians[0]
    return "; ".join(shown), best


# ------------------------------------------------------------------------------------------------ false alarms

LAWS = (
    ScoreLaw(kind="null"),
    ScoreLaw(kind="flat", parameter=1.0),
    ScoreLaw(kind="flat", parameter=3.0),
    ScoreLaw(kind="laplace", parameter=1.0),
    ScoreLaw(kind="gaussian", parameter=1.0, delta=0.1),
)


def alarms(store: Store, draws: int, kinds: list[str]) -> list[str]:
    """Lines of the table of false alarm rates."""
    lines = [
        f"How often the bound lies above the true epsilon, at a nominal {SIGNIFICANCE:.0%}, over {draws} simulated audits "
        f"(two standard errors: {2 * (SIGNIFICANCE * (1 - SIGNIFICANCE) / draws) ** 0.5:.1%}). "
        '"x5" is the largest of five attacks on the same runs with the error rate split. A family\'s estimator is '
        "tested on laws inside its family only.",
        "",
        "| estimator | size | " + " | ".join(law.name for law in LAWS) + " | nothing leaks, x5 | flat 1, x5 |",
        "|---|---|" + "---|" * (len(LAWS) + 2),
    ]
    for spec, one_run, sizes in alarm_cases():
        if kinds and spec["kind"] not in kinds:
            continue
        for size in sizes:
            row = [Cell(spec, law, size, one_run, "alarms") for law in LAWS]
            row += [Cell(spec, law, size, one_run, "alarms", five=True) for law in LAWS[:2]]
            cells = [_rate(store, cell, draws) if cell.possible else "-" for cell in row]
            label = ", ".join([spec["kind"], *[f"{key}={value}" for key, value in spec.items() if key != "kind"]])
            lines.append(f"| {label} | {'m' if one_run else 'n'}={size} | " + " | ".join(cells) + " |")
            print(lines[-1], file=sys.stderr, flush=True)
    return lines


def _rate(store: Store, cell: Cell, draws: int) -> str:
    """The share of bounds above the truth, with its number of audits if that is not the one asked for."""
    result = store.bounds(cell, draws)
    if len(result) == 0:
        return "not run"
    return f"{np.mean(result > cell.law.epsilon):.1%}" + ("" if len(result) == draws else f" of {len(result)}")


def alarm_cases() -> list[tuple[dict, bool, tuple[int, ...]]]:
    """Every estimator with default arguments, and the further choices of some, with the sizes they are tried at."""
    apart = (*ONE_RUN_NAMES, *ELSEWHERE)
    trials = [{"kind": name} for name in plugins.names("audit.bounds.estimators") if name not in apart]
    trials += [{"kind": "clopper_pearson", "threshold_by": "split"}, {"kind": "rank_exact", "family": "gdp"}]
    trials += [{"kind": "gaussian", "statistic": "paired"}]
    single = [{"kind": name} for name in plugins.names("audit.bounds.estimators") if name in ONE_RUN_NAMES]
    single += [{"kind": "product_channel", "family": "any"}, {"kind": "one_run", "calibration": "each"}]
    cases = [(spec, False, (100, 1000)) for spec in trials] + [(spec, True, (200, 1000, 20_000)) for spec in single]
    return sorted(cases, key=lambda case: case[0]["kind"] in SIMULATING and "statistic" not in case[0])  # slow ones last


# ------------------------------------------------------------------------------------------------ speed


def speed(repeats: int = 5) -> list[str]:
    """Lines of the table of process times."""
    law = ScoreLaw(kind="gaussian", parameter=1.0, delta=1e-5)
    lines = ["| estimator | scores | seconds of process time, first | later (median) |", "|---|---|---|---|"]
    total = [0.0, 0.0]
    for kind in plugins.names("audit.bounds.estimators"):
        spent = []
        for turn in range(repeats):
            seed = Seed(5).child("speed", turn)
            scores = played(law, np.arange(10_000) % 2 == 0, seed, one_run=kind in ONE_RUN_NAMES)
            started = time.process_time()
            ours({"kind": kind}, scores, law.delta, seed)
            spent.append(time.process_time() - started)
        first, later = spent[0], float(np.median(spent[1:]))
        total = [total[0] + first, total[1] + later]
        lines.append(f"| {kind} | 10,000 | {first:.3f} | {later:.3f} |")
    lines.append(f"| all of them | 10,000 | {total[0]:.3f} | {total[1]:.3f} |")
    draw = np.random.default_rng(0)
    members, nonmembers = draw.normal(1, 1, 500_000), draw.normal(0, 1, 500_000)
    for game in ("independent_trials", "one_run"):
        spent = []
        for _ in range(3):
            started = time.process_time()
            result = lower_bound(members, nonmembers, delta=1e-5, game=game)
            spent.append(time.process_time() - started)
        lines.append(f"| the default, {result.estimator} | 1,000,000 | {spent[0]:.3f} | {min(spent[1:]):.3f} |")
    return lines


# ------------------------------------------------------------------------------------------------ command


def replace_rows(old: list[str], new: list[str], key: int) -> list[str]:
    """Return a section's lines with rows of a table replaced by those of the same first cells.

    Raises:
        SystemExit: the section has no such row.
    """

    def cells(line: str) -> list[str]:
        return [cell.strip() for cell in line.split("|")[1 : key + 1]]

    made = {tuple(cells(line)): line for line in new if line.startswith("| ")}
    absent = set(made) - {tuple(cells(line)) for line in old}
    if absent:
        raise SystemExit(f"no row {sorted(absent)} in the section; write it with all estimators once")
    return [made.get(tuple(cells(line)), line) for line in old]


def main() -> None:
    """Print or write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=500, help="audits behind each median; twice as many behind each rate")
    parser.add_argument("--only", choices=("reach", "alarms"))
    parser.add_argument("--kind", action="append", default=[], help="estimators to simulate; may repeat. Default: all.")
    parser.add_argument("--store", type=Path, default=Path("runs/calibration"), help="folder of finished cells")
    parser.add_argument("--closed", action="store_true", help="tables of what the store holds; simulate nothing")
    parser.add_argument("--speed", action="store_true", help="the table of process times alone")
    parser.add_argument("--write", type=Path, help="a Markdown file to write instead of printing")
    options = parser.parse_args()
    store = Store(options.store, options.closed)
    sections: dict[str, list[str]] = {}
    if options.speed:
        sections["Speed"] = speed()
    elif options.only != "alarms":
        sections["Reach"] = reach(store, options.draws, options.kind)
    if not options.speed and options.only != "reach":
        sections["False alarms"] = alarms(store, 2 * options.draws, options.kind)
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    versions = f"jax-privacy {jax_version}; numpy {np.__version__}; Python {platform.python_version()}; {machine}."
    for title, lines in sections.items():
        if options.write and options.kind:
            replace_section(options.write, title, replace_rows(read_section(options.write, title), lines, KEYS[title]))
        elif options.write:
            replace_section(options.write, title, [f"Made by `{COMMAND}`.", "", *lines, "", versions])
        else:
            print("\n".join(["", f"## {title}", "", *lines, "", versions]))


if __name__ == "__main__":
    main()
