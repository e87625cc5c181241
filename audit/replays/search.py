"""The replay of a program on many pairs: until one refutes it, which is shrunk, or all are tried."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from audit.core.errors import ConfigError
from audit.replays.check import PairResult, ReplayVerdict, check_pair
from audit.replays.claims import ReplayClaim
from audit.replays.neighbours import NamedPair, shrink
from audit.replays.run import Program

_SHRINKING_SECONDS = 10.0
Decide = Callable[[Program, tuple[Any, Any], ReplayClaim], str | None]


def search(
    function: Callable[..., Any],
    pairs: Sequence[NamedPair],
    claim: ReplayClaim,
    *,
    decide: Decide | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[PairResult]:
    """Return the result of each pair; the first that refutes the claim is the last, shrunk to the smallest that still does.

    If none does, `decide` says why the worst of those that are left open refutes it, or None.

    Raises:
        ConfigError: the function cannot be called.
    """
    if not callable(function):
        raise ConfigError(f"the program is a {type(function).__name__}; expected a function (data, rng) -> output")
    program = Program(function)
    results: list[PairResult] = []
    for i, (name, data, neighbour) in enumerate(pairs):
        results.append(check_pair(program, (data, neighbour), claim, name))
        if progress is not None:
            progress(i + 1, len(pairs))
        if results[-1].verdict is ReplayVerdict.REFUTED:
            results[-1] = _shrink(program, results[-1], claim)
            return results
    open_pairs = [result for result in results if result.verdict is not ReplayVerdict.PROVED and _may_break(result, claim)]
    if open_pairs and decide is not None:
        worst = max(open_pairs, key=lambda result: result.loss)
        reason = decide(program, (worst.data, worst.neighbour), claim)
        if reason is not None:
            verdict = ReplayVerdict.REFUTED
            results.append(replace(worst, verdict=verdict, reason=f"{worst.reason}: {reason}", method="sampling", exact=False))
    return results


def _may_break(result: PairResult, claim: ReplayClaim) -> bool:
    return not math.isfinite(result.loss) or result.loss > (claim.epsilon if claim.mu is None else claim.mu)


def _shrink(program: Program, result: PairResult, claim: ReplayClaim) -> PairResult:
    end = time.perf_counter() + _SHRINKING_SECONDS
    smallest = result

    def refutes(data: Any, neighbour: Any) -> bool:
        nonlocal smallest
        if time.perf_counter() > end:
            return False
        attempt = check_pair(program, (data, neighbour), claim, result.name)
        if attempt.verdict is ReplayVerdict.REFUTED:
            smallest = attempt
        return attempt.verdict is ReplayVerdict.REFUTED

    try:
        shrink((result.data, result.neighbour), refutes)
    except ConfigError:
        return result  # data of a type that is not taken apart
    return smallest
