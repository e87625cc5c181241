"""What stopping at the first proof saves and costs: runs until a false claim is refuted, beside numbers fixed in advance.

Scores are ideal ones of a Gaussian mechanism, one canary a run, coins and all. For each claim and truth: the runs after which
the e-process refutes the claim (10 %, median, 80 % and 90 % of simulated audits; one that ends without proof counts as
infinite), and the number of runs that an estimator of fixed size needs to refute it with 80 % probability.

    python benchmarks/stopping.py [--draws 200] [--most 4000]
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import time
from typing import Any

PAIRS = (  # family, claimed epsilon, true epsilon, estimator of fixed size
    ("gdp", 1.0, 2.0, {"kind": "gaussian"}),
    ("gdp", 1.0, 4.0, {"kind": "gaussian"}),
    ("gdp", 1.0, 10.0, {"kind": "gaussian"}),
    ("gdp", 4.0, 10.0, {"kind": "gaussian"}),
    ("any", 0.5, 10.0, {"kind": "rank_exact"}),
    ("any", 1.0, 10.0, {"kind": "rank_exact"}),
    ("any", 1.0, 30.0, {"kind": "rank_exact"}),
    ("any", 4.0, 50.0, {"kind": "rank_exact"}),
)
DELTA, CONFIDENCE, POWER = 1e-5, 0.95, 0.8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--most", type=int, default=4000)
    options = parser.parse_args()
    started = time.process_time()
    print("| claim | truth | 10 % | median | 80 % | 90 % | fixed size, 80 % power | estimator of fixed size |")
    print("|---|---|---|---|---|---|---|---|")
    for family, claimed, truth, fixed in PAIRS:
        ends = proofs((family, claimed, truth), options.draws, options.most)
        needed = runs_needed(fixed, claimed, truth)
        cells = [ends[min(int(share * len(ends)), len(ends) - 1)] for share in (0.1, 0.5, 0.8, 0.9)]
        reported = " | ".join(f"over {options.most}" if math.isinf(item) else f"{item:.0f}" for item in cells)
        print(f"| {claimed:g}, {family} | {truth:g} | {reported} | {needed} | {fixed['kind']} |")
    spent = time.process_time() - started
    print(f"\nn = {options.draws} simulated audits a row, at {CONFIDENCE:.0%} and delta {DELTA:g}; {spent:.0f} CPU s")
    print(f"machine: {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")


def game(runs: int) -> Any:
    """One canary a run."""
    from audit.core.access import Access
    from audit.core.adjacency import Adjacency
    from audit.core.game import Game, Inclusion

    return Game(adjacency=Adjacency.ADD_REMOVE, access=Access.ALL_STEPS, inclusion=Inclusion.COINS, canaries=1, runs=runs)


def proofs(row: tuple[str, float, float], draws: int, most: int) -> list[float]:
    """Runs until the claim is refuted, ascending; infinite if it is not within `most`."""
    from audit import plugins
    from audit.bounds import power
    from audit.core.adjacency import Adjacency
    from audit.core.claims import Claim

    family, claimed, truth = row
    estimator = plugins.build("audit.bounds.estimators", {"kind": "sequential", "family": family})
    claim = Claim(epsilon=claimed, delta=DELTA, adjacency=Adjacency.ADD_REMOVE, source="stated", family="gdp")
    question = power.Question(delta=DELTA, confidence=CONFIDENCE, claim=claimed, power=POWER, draws=draws)
    requested = power.PowerQuery(estimator=estimator, game=game(most), question=question)
    return power.proofs(requested, truth, claim)


def runs_needed(fixed: dict[str, Any], claimed: float, truth: float) -> str:
    """Runs with which an estimator of fixed size refutes the claim with probability `POWER`."""
    from audit import plugins
    from audit.bounds import power

    question = power.Question(delta=DELTA, confidence=CONFIDENCE, claim=claimed, power=POWER, draws=100)
    result = power.scores_needed(plugins.build("audit.bounds.estimators", fixed), game(2), truth, question)
    return "over 200,000" if result is None else str(result)


if __name__ == "__main__":
    main()
