"""What `audit mechanism` proves of mechanisms whose epsilon is known, at growing numbers of outputs: docs/use/mechanisms.md.

python benchmarks/mechanisms.py 10000 100000
"""

from __future__ import annotations

import inspect
import math
import sys

import audit
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


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or [10_000, 100_000])
