"""What `audit mechanism` proves of mechanisms with a known epsilon, at growing numbers of outputs: docs/use/mechanisms.md.

python benchmarks/mechanisms.py 10000 100000
python benchmarks/mechanisms.py ceiling 50000 1000000

The second prints what counted outputs of a Gaussian mechanism that is worth exactly (1, 1e-5) prove at its best threshold,
which is found by the truth (any other event has a lower ratio, Neyman and Pearson), at the counts that are expected.
"""

from __future__ import annotations

import inspect
import math
import sys

import numpy as np
from scipy import stats

import audit
from audit.stats.bounds.planned_event import epsilon_bound, mu_bound
from audit.stats.bounds.rank_exact import Precedence
from audit.stats.curves import tradeoff
from tests.mechanism_checks.controls.catalogue import KnownMechanism, controls, wrong_twins

SLOW = 20_000  # outputs of functions that give one at a time


def main(sizes: list[int]) -> None:
    columns = [f"{size:,} outputs" for size in sizes]
    print("| Mechanism | Claim | True epsilon | " + " | ".join(columns) + " |")
    print("|---|---|---|" + "---|" * len(columns))
    for known in (*controls(), *wrong_twins()):
        claim = f"{known.epsilon:g}" + (f", {known.delta:g}" if known.delta else "")
        cells = [cell(known, size) for size in sizes]
        print(f"| {known.name} | {claim} | {true(known)} | " + " | ".join(cells) + " |")


def true(known: KnownMechanism) -> str:
    if known.exact is None:
        return "not known"
    return "infinite" if math.isinf(known.exact) else f"{known.exact:.3f}"


def cell(known: KnownMechanism, size: int) -> str:
    if "size" not in inspect.signature(known.function).parameters:
        size = min(size, SLOW)
    report = audit.mechanism(
        known.function,
        epsilon=known.epsilon,
        delta=known.delta,
        pairs=[(known.pair.data, known.pair.neighbour)],
        family=known.family,
        floating_point=known.floating_point,
        samples=size,
    )
    parts = [f"{report.epsilon.epsilon:.3f}"]
    if report.delta.delta > known.delta:
        parts.append(f"delta {report.delta.delta:.3g}")
    if report.fit is not None:
        parts.append(f"fit {report.fit.epsilon:.2f}")
    if report.floating_point is not None:
        parts.append(f"bits {report.floating_point.delta:.2f}")
    text = ", ".join(parts)
    return f"**{text}**" if report.exit_code == 1 else text


def ceiling(size: int) -> None:
    """Print what `size` outputs on either data set prove: as an audit spends them, then all of them on one question."""
    mu = tradeoff.gdp_mu(1.0, 1e-5)
    for counted, level in ((2 * size // 3, 0.05 / 3), (size, 0.05)):
        events = [
            Precedence(
                count=round(counted * stats.norm.sf(threshold - mu)),
                sample=counted,
                rank=max(1, round(counted * stats.norm.sf(threshold))),
                reference=counted,
                from_top=True,
            )
            for threshold in np.arange(-1.0, 4.0, 0.1)
        ]
        most = max(epsilon_bound(event, 1e-5, level) for event in events)
        fit = tradeoff.gdp_epsilon(max(mu_bound(event, level) for event in events[:30]), 1e-5)
        print(f"{counted:,} counted, level {level:.3f}: epsilon {most:.3f} by counts, {fit:.3f} inside the family 'gdp'")


if __name__ == "__main__":
    if sys.argv[1:2] == ["ceiling"]:
        for argument in sys.argv[2:] or ["50000"]:
            ceiling(int(argument))
        raise SystemExit
    main([int(size) for size in sys.argv[1:]] or [10_000, 100_000])
