"""The replay of a program on many pairs: until one refutes it, which is shrunk, or all are tried and the worst is varied."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from audit import plugins
from audit.core.errors import ConfigError
from audit.replays.check import PairResult, ReplayVerdict, check_pair
from audit.replays.claims import ReplayClaim
from audit.replays.neighbours import NamedPair, shrink, vary
from audit.replays.run import Program

_SHRINKING_SECONDS = 10.0
_STARTS, _PATIENCE, _VARYING_SECONDS = 4, 60, 2.0  # of the processor; ten times as long by the clock
Decide = Callable[[Program, tuple[Any, Any], ReplayClaim], str | None]


def search(
    function: Callable[..., Any],
    pairs: Sequence[NamedPair],
    claim: ReplayClaim,
    *,
    varied: bool = False,
    decide: Decide | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[PairResult]:
    """Return the result of each pair; the first that refutes the claim is the last, shrunk to the smallest that still does.

    If all are proved below the claim and `varied`, the worst pair is varied towards a larger loss, which is one result more;
    its data sets must be records that may be left out, repeated and moved. If some are left open, `decide` says why the worst
    of them refutes it, or None.

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
            with plugins.foreign_code("progress, called with the pairs done and all pairs"):
                progress(i + 1, len(pairs))
        if results[-1].verdict is ReplayVerdict.REFUTED:
            results[-1] = _shrink(program, results[-1], claim)
            return results
    if varied and all(result.verdict is ReplayVerdict.PROVED for result in results):
        results += _climb(program, results, claim)
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


def _climb(program: Program, results: Sequence[PairResult], claim: ReplayClaim) -> list[PairResult]:
    """Return the pair of the largest loss that random changes of the worst ones reach; none if no loss is larger.

    A program that reaches its claim is left alone: its noise was made for such a pair. Of pairs of one loss one is varied, of
    those that move nothing none.
    """
    ranked = sorted({result.loss: result for result in results if result.loss > 0}.values(), key=lambda result: -result.loss)
    if not ranked or not _is_below(ranked[0], claim):
        return []
    best, stream = ranked[0], np.random.default_rng(0)
    end, latest = time.process_time() + _VARYING_SECONDS, time.perf_counter() + 10 * _VARYING_SECONDS
    for start in ranked[:_STARTS]:
        current, tries = start, 0
        while tries < _PATIENCE:  # changes since the loss grew
            pair = vary((current.data, current.neighbour), stream)
            if pair is None or time.process_time() > end or time.perf_counter() > latest:
                break
            attempt = check_pair(program, pair, claim, "the worst pair, varied")
            tries = 0 if attempt.loss > current.loss else tries + 1
            current = attempt if not attempt.loss < current.loss else current
            if not _is_below(current, claim):
                return [current]
        best = max(best, current, key=lambda result: result.loss)
    return [best] if best.loss > ranked[0].loss else []


def _is_below(result: PairResult, claim: ReplayClaim) -> bool:
    bound = claim.epsilon if claim.mu is None else claim.mu
    return result.verdict is ReplayVerdict.PROVED and result.loss < bound * (1 - 1e-6)


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
