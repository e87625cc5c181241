"""False alarms and reach of every estimator on laws with known epsilon, beside jax-privacy where it is installed.

    python benchmarks/estimators.py                       both tables, 500 and 1000 draws a cell
    python benchmarks/estimators.py --draws 50            quicker, coarser
    python benchmarks/estimators.py --only alarms --write docs/calibration.md

The peer is imported into the same process; without it its column says so. Every draw is seeded.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from audit import plugins
from audit.core.game import Access, Game, Inclusion
from audit.core.mechanism import Adjacency, DpSgd
from audit.core.records import Scores
from audit.core.seeds import Seed
from audit.stats import limits
from audit.stats.laws import Law

try:
    from jax_privacy import __version__ as jax_version
    from jax_privacy import auditing as jax_auditing
except ImportError:
    jax_auditing, jax_version = None, "not installed"

CONFIDENCE = 0.95
SIGNIFICANCE = 1 - CONFIDENCE
NOISES = (0.1, 0.3, 0.6, 1.0)  # of four further attacks, in standard deviations of the best one's scores


def played(law: Law, included: np.ndarray, seed: Seed, *, one_run: bool) -> Scores:
    """Scores of `law` for these memberships, with the game they come from."""
    count = len(included)
    game = Game(
        adjacency=Adjacency.ADD_REMOVE,
        access=Access.ALL_STEPS,
        inclusion=Inclusion.COINS,
        canaries=count if one_run else 1,
        runs=1 if one_run else count,
        independent_noise=True,
    )
    mechanism = None
    if law.kind == "gaussian":
        mechanism = DpSgd(noise_multiplier=2 / law.parameter, clip_norm=1.0, sample_rate=1.0, steps=4)
    elif law.kind == "null":
        mechanism = DpSgd(noise_multiplier=1e6, clip_norm=1.0, sample_rate=1.0, steps=4)
    values = law.draw(included, seed.child("scores").numpy())
    return Scores(values=values, included=included, game=game, mechanism=mechanism)


def two_sides(law: Law, count: int, seed: Seed) -> Scores:
    """`count` members and `count` nonmembers, a training each."""
    return played(law, np.arange(2 * count) < count, seed, one_run=False)


def coins(law: Law, count: int, seed: Seed) -> Scores:
    """One run with `count` fair coins."""
    return played(law, seed.child("coins").numpy().random(count) < 0.5, seed, one_run=True)


def ours(spec: dict, scores: Scores, delta: float, seed: Seed, confidence: float = CONFIDENCE) -> float:
    """The bound of one of this project's estimators."""
    return plugins.build("audit.estimators", spec).lower_bound(scores, delta=delta, confidence=confidence, seed=seed).epsilon


def best_of_five(spec: dict, scores: Scores, delta: float, seed: Seed) -> float:
    """The largest bound over five attacks on the same runs, the error rate split over them."""
    spread = float(np.std(scores.values)) or 1.0
    found = []
    for index, noise in enumerate((0.0, *NOISES)):
        view = scores.values + spread * noise * seed.child("attack", index).numpy().normal(size=len(scores.values))
        one = Scores(values=view, included=scores.included, game=scores.game, mechanism=scores.mechanism)
        found.append(ours(spec, one, delta, seed.child("bound", index), 1 - SIGNIFICANCE / 5))
    return max(found)


# ------------------------------------------------------------------------------------------------ the peer


def peer(method: str, strategy: str, scores: Scores, delta: float, seed: Seed) -> float:
    """A bound of jax-privacy; nan where it fails."""
    auditor = jax_auditing.CanaryScoreAuditor(scores.members, scores.nonmembers)
    options = {}
    if strategy:
        split = functools.partial(jax_auditing.Split, seed=seed.integer() % 2**31)
        options["threshold_strategy"] = {"bonferroni": jax_auditing.Bonferroni, "split": split}[strategy]()
    if method == "epsilon_clopper_pearson":
        options["one_sided"] = False
    try:
        return float(getattr(auditor, method)(SIGNIFICANCE, delta=delta, **options))
    except ValueError:
        return float("nan")


CP = (("epsilon_clopper_pearson", "bonferroni"), ("epsilon_clopper_pearson", "split"))
GDP = (("epsilon_from_gdp", ""), *CP)
ONE_RUN = (("epsilon_one_run", "split"),)
ONE_RUN_FDP = (("epsilon_one_run_fdp", "bonferroni"), ("epsilon_one_run_fdp", "split"))


# ------------------------------------------------------------------------------------------------ reach


@dataclass(frozen=True)
class Row:
    """One line of the table of medians: our estimators, the peer's, the figure to reach, and the limit."""

    law: Law
    count: int
    claim: str
    specs: list[dict]
    peers: tuple[tuple[str, str], ...]
    goal: float
    limit: Callable[[], float]
    one_run: bool = False


def rows() -> list[Row]:
    """The table of the project's statistics issue."""
    found = []
    for law, goals in (
        (Law(kind="flat", parameter=1.0), (0.58, 0.84)),
        (Law(kind="flat", parameter=3.0), (2.2, 2.70)),
        (Law(kind="laplace", parameter=1.0), (0.52, 0.79)),
        (Law(kind="gaussian", parameter=1.0, delta=1e-5), (0.80, 1.65)),
    ):
        for count, goal in zip((100, 1000), goals, strict=True):
            limit = functools.partial(limits.of_claim, law, count, count)
            found.append(Row(law, count, "(epsilon, delta)", [{"kind": "rank_exact"}], CP, goal, limit))
    law = Law(kind="gaussian", parameter=1.0, delta=1e-5)
    for count, goal in ((100, 3.1), (1000, 3.9)):
        limit = functools.partial(limits.of_gdp, 1.0, law.delta, count, count)
        found.append(Row(law, count, "GDP", [{"kind": "gaussian"}, {"kind": "fdp_rank"}], GDP, goal, limit))
    for count, goals in ((1000, (1.5, 2.1, 3.4)), (10_000, (float("nan"), 2.7, 4.1))):
        half = count // 2
        free = functools.partial(limits.of_claim, law, half, half)
        inside = functools.partial(limits.of_gdp, 1.0, law.delta, half, half)
        for kind, claim, peers, goal, limit in (
            ("one_run", "(epsilon, delta)", ONE_RUN, goals[0], free),
            ("one_run_fdp", "GDP", ONE_RUN_FDP, goals[1], inside),
            ("product_channel", "GDP, granted independence", GDP, goals[2], inside),
        ):
            found.append(Row(law, count, claim, [{"kind": kind}], peers, goal, limit, one_run=True))
    return found


def reach(draws: int) -> list[str]:
    """Lines of the table of medians."""
    lines = [
        f"Median lower bound over up to {draws} draws at {CONFIDENCE:.0%}; n per side, or m coins of one run. The limit is the "
        "largest median that any valid test can have against one nearby alternative (audit.stats.limits).",
        "",
        "| law | size | claim | estimator | median | over the truth | jax-privacy (medians) "
        "| ratio to its best valid one | goal | limit | truth |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows():
        lines += _reach_row(row, draws)
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


def _reach_row(row: Row, draws: int) -> list[str]:
    make = coins if row.one_run else two_sides
    found: dict[str, list[float]] = {spec["kind"]: [] for spec in row.specs}
    for draw in range(_affordable(draws, row.specs[0], row.count)):
        seed = Seed(1).child(f"{row.law.name} {row.count} {row.claim}", draw)
        scores = make(row.law, row.count, seed)
        for spec in row.specs:
            found[spec["kind"]].append(ours(spec, scores, row.law.delta, seed))
    shown, best = "not installed", float("nan")
    if jax_auditing is not None:
        shown, best = _best_peer(row, _affordable(min(draws, PEER_DRAWS), row.specs[0], row.count))
    size = f"m={row.count}" if row.one_run else f"n={row.count}"
    lines = []
    for name, values in found.items():
        median, over = statistics.median(values), np.mean(np.array(values) > row.law.epsilon)
        ratio = f"{median / best:.2f}" if best > 0 else "-"
        lines.append(
            f"| {row.law.name} | {size} | {row.claim} | {name} | {median:.3f} | {over:.1%} of {len(values)} | {shown} "
            f"| {ratio} | {'-' if np.isnan(row.goal) else f'{row.goal:g}'} | {row.limit():.3f} | {row.law.epsilon:.3f} |"
        )
    return lines


def _best_peer(row: Row, draws: int) -> tuple[str, float]:
    """The largest median among the peer's methods that are not seen to be invalid on this law or on the null."""
    make, shown, best = coins if row.one_run else two_sides, [], float("nan")
    for method, strategy in row.peers:
        medians, wrong = [], 0.0
        for law in (row.law, Law(kind="null")):
            seeds = [Seed(1).child(f"{law.name} {row.count} {row.claim}", draw) for draw in range(draws)]
            delta = max(row.law.delta, 1e-12)
            values = [peer(method, strategy, make(law, row.count, seed), delta, seed) for seed in seeds]
            kept = np.array([value for value in values if not np.isnan(value)])
            wrong = max(wrong, float(np.mean(kept > law.epsilon)))
            medians.append(float(np.median(kept)))
        name = f"{method} {strategy}".strip().removeprefix("epsilon_")
        valid = wrong <= SIGNIFICANCE + 3 * (SIGNIFICANCE * (1 - SIGNIFICANCE) / draws) ** 0.5
        shown.append(f"{name} {medians[0]:.3f}" + ("" if valid else f" (invalid: wrong in {wrong:.0%})"))
        if valid and not medians[0] <= best:
            best = medians[0]
    return "; ".join(shown), best


def _affordable(draws: int, spec: dict, count: int) -> int:
    """Fewer draws where a bound takes long; fixed beforehand, since stopping by the clock would bias the rates."""
    slow = (spec["kind"] in SIMULATING and count >= 1000) or count >= 10_000
    return max(20, draws // 5) if slow else draws


PEER_DRAWS = 100


# ------------------------------------------------------------------------------------------------ false alarms


def alarms(draws: int) -> list[str]:
    """Lines of the table of false alarm rates."""
    laws = (
        Law(kind="null"),
        Law(kind="flat", parameter=1.0),
        Law(kind="flat", parameter=3.0),
        Law(kind="laplace", parameter=1.0),
        Law(kind="gaussian", parameter=1.0, delta=0.1),
    )
    lines = [
        f"How often the bound lies above the true epsilon, at a nominal {SIGNIFICANCE:.0%}, with the number of simulated "
        'audits. "x5" is the largest of five attacks on the same runs with the error rate split. A family\'s estimator is '
        "tested on laws inside its family only.",
        "",
        "| estimator | size | " + " | ".join(law.name for law in laws) + " | nothing leaks, x5 | flat 1, x5 |",
        "|---|---|" + "---|" * (len(laws) + 2),
    ]
    for spec, one_run, sizes in alarm_cases():
        for size in sizes:
            cells = [_alarm_cell(spec, law, size, one_run=one_run, draws=draws) for law in laws]
            for law in laws[:2]:
                cells.append(_alarm_cell(spec, law, size, one_run=one_run, draws=draws // 2, five=True))
            label = ", ".join([spec["kind"], *[f"{key}={value}" for key, value in spec.items() if key != "kind"]])
            lines.append(f"| {label} | {'m' if one_run else 'n'}={size} | " + " | ".join(cells) + " |")
            print(lines[-1], file=sys.stderr, flush=True)
    return lines


def alarm_cases() -> list[tuple[dict, bool, tuple[int, ...]]]:
    """Every estimator with default arguments, and the further choices of some, with the sizes they are tried at."""
    trials = [{"kind": name} for name in plugins.names("audit.estimators") if name not in ONE_RUN_NAMES]
    trials += [{"kind": "clopper_pearson", "threshold_by": "split"}, {"kind": "rank_exact", "family": "gdp"}]
    trials += [{"kind": "gaussian", "statistic": "paired"}]
    single = [{"kind": name} for name in plugins.names("audit.estimators") if name in ONE_RUN_NAMES]
    cases = [(spec, False, (100, 1000)) for spec in trials] + [(spec, True, (200, 1000, 20_000)) for spec in single]
    return sorted(cases, key=lambda case: case[0]["kind"] in SIMULATING and "statistic" not in case[0])  # slow ones last


SIMULATING = ("gaussian", "fdp_rank")
ONE_RUN_NAMES = ("one_run", "one_run_fdp", "product_channel")


def _alarm_cell(spec: dict, law: Law, size: int, *, one_run: bool, draws: int, five: bool = False) -> str:
    make, over, count = coins if one_run else two_sides, 0, _affordable(draws, spec, size)
    for draw in range(count):
        seed = Seed(2).child(f"{spec} {law.name} {size} {five}", draw)
        scores = make(law, size, seed)
        if draw == 0 and not _speaks_about(spec, scores, law):
            return "-"
        bound = best_of_five(spec, scores, law.delta, seed) if five else ours(spec, scores, law.delta, seed)
        over += bound > law.epsilon
    return f"{over / count:.1%} of {count}"


def _speaks_about(spec: dict, scores: Scores, law: Law) -> bool:
    """False where the estimator is about a family that the law is not in, or needs a mechanism that the law has not."""
    if law.kind in ("null", "gaussian"):
        return True
    if spec["kind"] == "fdp_rank":
        return False
    probe = plugins.build("audit.estimators", spec)
    return probe.lower_bound(scores, delta=law.delta, confidence=CONFIDENCE, seed=Seed(0)).family is None


# ------------------------------------------------------------------------------------------------ command


def main() -> None:
    """Print or write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=500, help="audits behind each median; twice as many behind each rate")
    parser.add_argument("--only", choices=("reach", "alarms"))
    parser.add_argument("--write", type=Path, help="a Markdown file to write instead of printing")
    options = parser.parse_args()
    started = time.perf_counter()
    lines = ["# Calibration", "", "Made by `python benchmarks/estimators.py --write docs/calibration.md`; do not edit.", ""]
    with warnings.catch_warnings(), contextlib.redirect_stdout(sys.stderr):
        warnings.simplefilter("ignore")
        if options.only != "alarms":
            lines += ["## Reach", "", *reach(options.draws), ""]
        if options.only != "reach":
            lines += ["## False alarms", "", *alarms(2 * options.draws), ""]
    lines += [
        f"jax-privacy {jax_version}; numpy {np.__version__}; Python {platform.python_version()}; {platform.machine()}, "
        f"{os.cpu_count()} cores; {time.perf_counter() - started:.0f} s.",
        "",
    ]
    if options.write:
        options.write.write_text("\n".join(lines))
    else:
        print("\n".join(lines))


if __name__ == "__main__":
    main()
