"""Epsilon at a delta of twenty programs: by exact losses of transcripts, by outputs alone (`audit.mechanism`), and as it is.

python -m benchmarks.transcript_losses --runs 400 --samples 20000
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import audit
from audit.core.errors import ConfigError
from audit.replays.run import Program
from audit.replays.transcript_bound import bound_epsilon
from audit.stats.curves import tradeoff

DELTA = 0.01
PAIR = np.zeros(3), np.zeros(4)


def _laplace(loss: float) -> float:
    """Return epsilon at delta of one Laplace draw that moves by `loss` of its scale."""
    return max(0.0, loss + 2 * math.log(1 - DELTA))


def _tree(data: Any, rng: Any) -> Any:
    nodes = rng.normal(0, 2, 3)
    return np.array([len(data) + nodes[0], len(data) + nodes[1], nodes[2], len(data) + nodes[0]])


PROGRAMS: dict[str, tuple[Callable[[Any, Any], Any], float | None]] = {
    "Laplace, scale 1": (lambda d, rng: len(d) + rng.laplace(), _laplace(1.0)),
    "Laplace, scale 1/4": (lambda d, rng: len(d) + rng.laplace(0, 0.25), _laplace(4.0)),
    "Laplace, scale 4": (lambda d, rng: len(d) + rng.laplace(0, 4), _laplace(0.25)),
    "logistic": (lambda d, rng: len(d) + rng.logistic(), None),
    "normal, 1": (lambda d, rng: len(d) + rng.normal(), tradeoff.gdp_epsilon(1.0, DELTA)),
    "normal, 1/2": (lambda d, rng: len(d) + rng.normal(0, 0.5), tradeoff.gdp_epsilon(2.0, DELTA)),
    "normal, 4": (lambda d, rng: len(d) + rng.normal(0, 4), tradeoff.gdp_epsilon(0.25, DELTA)),
    "four normals": (lambda d, rng: len(d) + rng.normal(0, 2, 4), tradeoff.gdp_epsilon(1.0, DELTA)),
    "sixteen normals": (lambda d, rng: len(d) + rng.normal(0, 4, 16), tradeoff.gdp_epsilon(1.0, DELTA)),
    "tree": (_tree, tradeoff.gdp_epsilon(2**-0.5, DELTA)),
    "prefix sums": (lambda d, rng: np.cumsum(np.eye(4)[0] * len(d) + rng.normal(0, 1, 4)), tradeoff.gdp_epsilon(1.0, DELTA)),
    "two Laplace": (lambda d, rng: len(d) + rng.laplace(0, 2, 2), None),
    "histogram": (lambda d, rng: np.bincount([0] * len(d), minlength=8) + rng.laplace(0, 1, 8), _laplace(1.0)),
    "ten Laplace": (lambda d, rng: len(d) + rng.laplace(0, 10, 10), None),
    "Laplace and normal": (lambda d, rng: [len(d) + rng.laplace(0, 2), len(d) + rng.normal(0, 2)], None),
    "two-sided geometric": (lambda d, rng: len(d) + rng.geometric(0.5) - rng.geometric(0.5), math.log(2 - 3 * DELTA)),
    "randomised response": (lambda d, rng: int(rng.binomial(1, 0.75 if len(d) > 3 else 0.25)), math.log((0.75 - DELTA) / 0.25)),
    "noisy largest": (lambda d, rng: int(np.argmax(np.array([len(d), 3.5]) + rng.gumbel(0, 2, 2))), None),
    "threshold": (lambda d, rng: bool(len(d) + rng.laplace() > 3.5), None),
    "two steps": (lambda d, rng: [(y := len(d) + rng.normal(0, 2)), len(d) * (y > 3) + rng.normal(0, 2)], None),
}


def measure(name: str, runs: int, samples: int) -> str:
    """Return the row of a program: what is known, both intervals' lower ends, and CPU seconds of both."""
    program, known = PROGRAMS[name]
    start = time.process_time()
    try:
        interval = bound_epsilon(Program(program), PAIR, runs=runs, delta=DELTA)
        ends = f"{interval.lower:.3f} to {interval.upper:.3f}"
    except ConfigError as error:
        ends = f"not followed ({error})"
    middle = time.process_time()
    report = audit.mechanism(program, epsilon=50.0, delta=DELTA, pairs=[PAIR], samples=samples)
    bound = report.verdict.bound
    seconds = middle - start, time.process_time() - middle
    below = "" if bound is None else f"{bound.epsilon:.3f}"
    return f"| {name} | {'' if known is None else f'{known:.3f}'} | {ends} | {below} | {seconds[0]:.1f}, {seconds[1]:.1f} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400, help="transcripts on each side")
    parser.add_argument("--samples", type=int, default=20_000, help="outputs on each side")
    options = parser.parse_args()
    print(f"| program | epsilon at {DELTA:g} | {options.runs} transcripts | {options.samples:,} outputs | CPU s |")
    print("|---|---|---|---|---|")
    for name in PROGRAMS:
        print(measure(name, options.runs, options.samples), flush=True)


if __name__ == "__main__":
    main()
