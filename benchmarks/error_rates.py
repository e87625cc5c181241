"""How often each public function is wrong: audits of nothing, and of a claim that is exactly true, at sizes drawn at random.

    python benchmarks/error_rates.py                    makes the rows that docs/evidence/tables/error-rates.csv lacks
    python benchmarks/error_rates.py --paths KEY ...    those of some paths only
    python benchmarks/error_rates.py --audits 400 200   at most so many of nothing, and at the claim: a later call goes on
    python benchmarks/error_rates.py --write docs/evidence/calibration.md    the section "Error rates of each public path"

An audit is the call that a user makes, with scores of a law whose epsilon is known. Sizes come from a fixed stream: new ones
for each audit if a test draws nothing, else few, so that the draws of a size serve several audits; "worst" are
sizes at which a test has, or once had, the largest level that enumeration finds. If a whole bound takes long, the truth is put
to the same test as the bound's own search, and every tenth audit makes the bound as well. A row is written after every
100 audits and continued from there.
"""

from __future__ import annotations

import argparse
import csv
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import error_rates_games
import evidence_tables
import numpy as np
from page_sections import replace_section
from scipy import stats

import audit
from audit import plugins
from audit.bounds import claim_test
from audit.core.events import dp_sgd
from audit.core.game import Game
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.event_curves import find_curves
from audit.experiment.external import inspection
from audit.experiment.external.scores import inspect_scores
from audit.stats.bounds.score_distributions import ScoreLaw, draw_curve_scores

TITLE = "Error rates of each public path"
STORE = Path(__file__).resolve().parents[1] / "docs" / "evidence" / "tables" / "error-rates.csv"
COLUMNS = ("path", "truth", "sizes", "audits", "wrong", "rate", "chance of as many")
TRUTHS = {
    "nothing": "nothing leaks",
    "flat": "randomised response",
    "tied": "randomised response, tied scores",
    "gdp": "Gaussian, mu 1",
    "dp_sgd": "DP-SGD as claimed",
}
NOMINAL = 0.05
DELTA = 1e-5
SIZES = 20  # drawn at random, of tests that draw for each size
RUN_SIZES = 4  # of runs, whose coins divide each number of canaries in many ways
STEP = 100  # audits between two writings of a row
WHOLE = 10  # audits to one whose bound is made, where that takes long
TRAINING = dp_sgd(noise_multiplier=2.0, clip_norm=1.0, sample_rate=0.2, steps=50)
EPSILONS = (0.5, 1.0, 2.5)  # of randomised response
LEVEL = 0.95

Rng = np.random.Generator
Wrong = Callable[[np.ndarray, np.ndarray, float, int], bool]
"""Scores, memberships, true epsilon and number of an audit to whether it says too much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicPath:
    """One public call.

    Attributes:
        wrong: makes one audit.
        law: of the scores where a claim is exactly true.
        coins: each coin is tossed, else both sides have their sizes.
        draws: of how many sizes the test draws, which then serve several audits; 0 if it draws nothing.
        worst: pairs of sizes to try besides those drawn at random.
        audits: of nothing, and at the claim.
    """

    wrong: Wrong
    law: str = "flat"
    coins: bool = False
    draws: int = 0
    worst: tuple[tuple[int, int], ...] = ()
    audits: tuple[int, int] = (1000, 400)


def draw_law(name: str, index: int) -> tuple[float, Callable[..., np.ndarray]]:
    """Return the true epsilon of an audit, and how its scores are drawn."""
    if name == "nothing":
        return 0.0, ScoreLaw(kind="null").draw
    if name == "gdp":
        gaussian = ScoreLaw(kind="gaussian", parameter=1.0, delta=DELTA)
        return gaussian.epsilon, gaussian.draw
    if name == "dp_sgd":
        curves = find_curves(TRAINING)
        assert curves is not None
        noise = curves.noise_multiplier
        return curves.epsilon(noise, DELTA), functools.partial(draw_curve_scores, curves.at(noise))
    epsilon = EPSILONS[index % len(EPSILONS)]
    flat = ScoreLaw(kind="flat", parameter=epsilon)
    return epsilon, (lambda *drawing: np.sign(flat.draw(*drawing))) if name == "tied" else flat.draw


def by_bound(**options: Any) -> Wrong:
    """Return audits by `audit.lower_bound` with these options."""

    def wrong(values: np.ndarray, included: np.ndarray, truth: float, index: int) -> bool:
        bound = audit.lower_bound(values[included], values[~included], delta=DELTA, certificates=0, **options)
        return bound.epsilon > truth

    return wrong


def by_test(kind: str, **options: Any) -> Wrong:
    """Return audits by the test that a bound of independent trials inverts, and every tenth time by the bound too."""
    estimator, bound = plugins.build("audit.bounds.estimators", {"kind": kind}), by_bound(game="independent_trials", **options)
    is_quick = kind != "sequential"  # at bounds that refute nothing

    def wrong(values: np.ndarray, included: np.ndarray, truth: float, index: int) -> bool:
        if (truth == 0 and is_quick) or index % WHOLE == 0:
            return bound(values, included, truth, index)
        game = Game.of_scores("independent_trials", len(values))
        scores = Scores(values=values, included=included, game=game, mechanism=options.get("mechanism"))
        return claim_test.refutes(estimator, scores, epsilon=truth, delta=DELTA, confidence=LEVEL, seed=Seed(0))

    return wrong


def by_columns(values: np.ndarray, included: np.ndarray, truth: float, index: int) -> bool:
    """Three attacks' columns of the same canaries, of which the largest bound is kept."""
    noise = np.random.default_rng(index).normal(size=(3, len(values))) * np.array([[0.0], [0.2], [0.5]])
    bound = by_bound(attacks=3)
    return any(bound(column, included, truth, index) for column in values + noise)


def by_report(values: np.ndarray, included: np.ndarray, truth: float, index: int) -> bool:
    """`audit scores`: the report of a table with two columns."""
    second = values + 0.3 * np.random.default_rng(index).normal(size=len(values))
    settings = inspection.Settings(delta=DELTA, certificates=0, seed=0, title="table")
    report = inspect_scores({"first": values, "second": second}, included, settings, game="one_run", name="table")
    return any(bound.epsilon > truth for bound in report.mechanisms[0].bounds)


def by_delta(game: str) -> Wrong:
    """Return audits by `audit.delta_lower_bound` at half the true epsilon of pure randomised response."""

    def wrong(values: np.ndarray, included: np.ndarray, truth: float, index: int) -> bool:
        at = truth / 2
        rate = 1 / (1 + math.exp(-truth))  # the true delta at `at`: how far a threshold at 0 exceeds it
        bound = audit.delta_lower_bound(values[included], values[~included], epsilon=at, game=game)
        return bound.delta > rate - math.exp(at) * (1 - rate) + 1e-12

    return wrong


def by_secrets(values: np.ndarray, included: np.ndarray, truth: float, index: int) -> bool:
    """`audit.secret_lower_bound`: five equally likely values, named by k-ary randomised response."""
    rng, count, choices = np.random.default_rng(index), len(values), 5
    drawn = rng.integers(choices, size=count)
    right = rng.random(count) < math.exp(truth) / (math.exp(truth) + choices - 1)
    named = np.where(right, drawn, (drawn + rng.integers(1, choices, count)) % choices)
    scores = rng.random((count, choices)) + np.eye(choices)[named]
    return audit.secret_lower_bound(scores, drawn, delta=DELTA).epsilon > truth


TRIALS = {"game": "independent_trials"}
SAMPLED = {"family": "dp_sgd", "mechanism": TRAINING}
SPLIT = {"kind": "clopper_pearson", "threshold_by": "split"}
# levels of .048 to .050 at the claims of `EPSILONS`, then if nothing leaks (worst_sizes.py); of coins the sum alone counts
GUESSED = ((30, 30), (37, 37), (43, 43), (28, 27), (20, 21), (27, 26))
SECRETS = ((50, 49), (21, 21), (126, 125), (71, 71), (46, 46), (49, 48))
ANSWERED = ((132, 132), (82, 82), (38, 38), (61, 61), (40, 40), (145, 144))
LUCKY = ((127, 99), (231, 231), (97, 122))  # once above the truth in 74, 45 and 30 % of audits of tied answers
PATHS = {
    "lower_bound, one run": PublicPath(wrong=by_bound(), coins=True, worst=GUESSED),
    "lower_bound, one run, the best of three attacks": PublicPath(wrong=by_columns, coins=True, worst=GUESSED),
    "lower_bound, one run, gdp": PublicPath(wrong=by_bound(family="gdp"), law="gdp", coins=True),
    "lower_bound, one run, dp_sgd": PublicPath(wrong=by_bound(**SAMPLED), law="dp_sgd", coins=True, draws=SIZES),
    "lower_bound, trials": PublicPath(wrong=by_test("both_ends"), draws=SIZES, worst=((100, 100), (500, 500))),
    "lower_bound, trials, gdp": PublicPath(
        wrong=by_test("gaussian", family="gdp"), law="gdp", draws=SIZES, worst=((100, 100), (430, 430))
    ),
    "lower_bound, trials, dp_sgd": PublicPath(
        wrong=by_test("fdp_rank", **SAMPLED), law="dp_sgd", draws=SIZES, worst=((100, 100), (37, 37))
    ),
    "lower_bound, rank_exact": PublicPath(wrong=by_bound(estimator="rank_exact", **TRIALS), law="tied", worst=LUCKY),
    "lower_bound, clopper_pearson": PublicPath(wrong=by_bound(estimator="clopper_pearson", **TRIALS), law="tied", worst=LUCKY),
    "lower_bound, clopper_pearson by split": PublicPath(wrong=by_bound(estimator=SPLIT, **TRIALS), law="tied", worst=LUCKY),
    "lower_bound, sequential": PublicPath(
        wrong=by_test("sequential", estimator="sequential"), law="tied", worst=((43, 43), (127, 99))
    ),
    "delta_lower_bound, one run": PublicPath(wrong=by_delta("one_run"), coins=True),
    "delta_lower_bound, trials": PublicPath(wrong=by_delta("independent_trials"), draws=SIZES),
    "secret_lower_bound": PublicPath(wrong=by_secrets, coins=True, worst=SECRETS),
    "reconstruction_bound": PublicPath(wrong=error_rates_games.by_answers, coins=True, worst=ANSWERED),
    "audit scores, two attacks": PublicPath(wrong=by_report, coins=True, worst=GUESSED),
}
GAMES = error_rates_games.paths(TRAINING)
PATHS |= {
    key: PublicPath(
        wrong=wrong,
        law=law,
        coins=True,
        draws=RUN_SIZES * (law != "flat"),
        worst=GUESSED
        if wrong in error_rates_games.GUESSING
        else error_rates_games.WORST.get(key.removeprefix("audit.run, "), ()),
    )
    for key, (wrong, law) in GAMES.items()
}


def draw_memberships(path: PublicPath, sizes: tuple[tuple[int, int], ...], index: int, rng: Rng) -> np.ndarray:
    """Return memberships in random order, of given sizes or of some that are drawn, with a member and a nonmember at least."""
    source = np.random.default_rng([29, index % path.draws]) if path.draws else rng
    members, nonmembers = sizes[index % len(sizes)] if sizes else (int(number) for number in source.integers(20, 151, 2))
    count = members + nonmembers
    if path.coins:
        included = (source if path.draws else rng).random(count) < 0.5
        included[:2] = (True, False) if included.all() or not included.any() else included[:2]
        return np.asarray(included)
    return np.asarray(rng.permutation(count) < members)


def count_wrong(path: PublicPath, name: str, sizes: tuple[tuple[int, int], ...], audits: range) -> int:
    """Return how many audits of a law say too much."""
    wrong = 0
    for index in audits:
        rng = np.random.default_rng([2027, index, len(sizes), int(name == "nothing")])
        truth, draw = draw_law(name, index)
        included = draw_memberships(path, sizes, index, rng)
        wrong += path.wrong(draw(included, rng), included, truth, index)
    return wrong


def read_rows() -> dict[tuple[str, str, str], tuple[int, int]]:
    """Return audits and wrong ones of each path, truth and sizes that are stored."""
    if not STORE.exists():
        return {}
    with STORE.open(encoding="utf-8", newline="") as file:
        return {
            (row["path"], row["truth"], row["sizes"]): (int(row["audits"]), int(row["wrong"])) for row in csv.DictReader(file)
        }


def write_rows(rows: dict[tuple[str, str, str], tuple[int, int]]) -> None:
    """Write all rows."""
    with STORE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for key, (audits, wrong) in rows.items():
            chance = float(stats.binom.sf(wrong - 1, audits, NOMINAL))
            writer.writerow([*key, audits, wrong, f"{100 * wrong / audits:.1f} %", f"{chance:.2g}"])


def make_row(key: str, name: str, sizes: tuple[tuple[int, int], ...], most: tuple[int, int]) -> None:
    """Make or continue one row, of at most so many audits of nothing, or at the claim."""
    path = PATHS[key]
    shown = "; ".join(f"{members} and {nonmembers}" for members, nonmembers in sizes) or "drawn"
    place, wanted = (key, TRUTHS[name], shown), min(path.audits[name != "nothing"], most[name != "nothing"])
    done, wrong = read_rows().get(place, (0, 0))
    while done < wanted:
        step = range(done, min(done + STEP, wanted))
        wrong, done = wrong + count_wrong(path, name, sizes, step), step.stop
        write_rows(read_rows() | {place: (done, wrong)})
        print(*place, wrong, done, flush=True)


def page() -> list[str]:
    """Return the lines of the section."""
    return [
        "Made by `python benchmarks/error_rates.py --write docs/evidence/calibration.md`, which adds what the table lacks.",
        "",
        "How often a public call says more than is true, at a nominal 5 %: audits of nothing, and of a mechanism whose",
        "epsilon is exactly the claim. Drawn sizes are 20 to 150 a side, from a fixed stream; the others are those at which a",
        "test has, or once had, the largest level that enumeration finds. The last column is the chance of as many or more",
        "at a rate of 5 %. A call that takes long has fewer audits; a later run of the command goes on. Checks that could only",
        "void a bound are left out: negative controls, the test of inputs without a model.",
        "",
        "After scores are made, every game of `audit.run`, `audit.frontier`, `audit.check`, `audit scores`, canaries in texts",
        "and systems that are trained (`check_training`, `check_unlearning`, generators of tables and of texts) is bounded by",
        "one function, `audit.experiment.line.findings.bound_game`; a row stands for each way of making scores and each game",
        "that has estimators of its own. Users, backdoors, poisoned membership and canaries of other kinds are one-run games",
        "with other records. Natural identifiers are bounded by `secret_lower_bound`.",
        "",
        "No epsilon is proved by samples in: `audit.check` without coins (its bound is None), `dataset_usage` (limits of a",
        "share), `table_risks` (a test of excess), `check_step`, `check_optimizer`, `check_trainer` and `check_strategy`",
        "(noise and clip beside the claim), `replay` without transcripts (a proof or a witness), `estimates`, `roc`,",
        "`compare_attacks`, `audit diff`, `plan`, `certify`.",
        "",
        "<!-- table: tables/error-rates.csv -->",
        "<!-- end of table -->",
    ]


def main() -> None:
    """Make what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paths", nargs="*", default=list(PATHS), choices=list(PATHS))
    parser.add_argument("--audits", nargs=2, type=int, default=(1000, 400), metavar=("NOTHING", "CLAIM"))
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    error_rates_games.spare_repetition()
    for key in options.paths:
        for name in ("nothing", PATHS[key].law):
            for sizes in ((), PATHS[key].worst) if PATHS[key].worst else ((),):
                make_row(key, name, sizes, tuple(options.audits))
    if options.write is not None:
        replace_section(options.write, TITLE, page())
        options.write.write_text(evidence_tables.fill(options.write), encoding="utf-8")


if __name__ == "__main__":
    main()
