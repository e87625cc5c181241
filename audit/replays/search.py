"""The replay of a program on many pairs: until one refutes it, which is shrunk; if all are proved, random ones as well."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from audit import plugins
from audit.core.errors import ConfigError
from audit.replays.attempts import replay
from audit.replays.check import SEEDS, PairResult, ReplayVerdict, check_pair, try_all_outcomes
from audit.replays.claims import ReplayClaim
from audit.replays.neighbours import NamedPair, PairPool, shrink
from audit.replays.recording import Recording, Schedule
from audit.replays.run import Program
from audit.replays.turned_tests import passing_schedule, try_turned_tests

_SHRINKING_SECONDS = 10.0
_RANDOM_SECONDS = 2.0  # of the processor; ten times as long by the clock
_TURNED_SECONDS = 5.0  # for tests of the code that had one outcome on all paths
_ONE_PATH = 8  # one in so many random pairs is tried on all paths, others only if they cost more than any before
_OUTCOME_SECONDS = 5.0  # for outcomes of decisions that no path took
Decide = Callable[[Program, tuple[Any, Any], ReplayClaim], str | None]


def search(
    function: Callable[..., Any],
    pairs: Sequence[NamedPair],
    claim: ReplayClaim,
    *,
    pool: Callable[[Sequence[Any]], PairPool] | None = None,
    decide: Decide | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[PairResult]:
    """Return the result of each pair; the first that refutes the claim is the last, shrunk to the smallest that still does.

    If all are proved, random pairs of a `pool`, which is given the constants of the program's code, are tried towards a larger
    loss: the worst is one result more. If some are left open, `decide` says why the worst of them refutes it, or None.

    Raises:
        ConfigError: the function cannot be called, or raises in every call, on the data themselves too.
    """
    if not callable(function):
        raise ConfigError(f"function: the program is a {type(function).__name__}; expected a function (data, rng) -> output")
    program = Program(function, notes_tests=True)
    results: list[PairResult] = []
    for i, (name, data, neighbour) in enumerate(pairs):
        results.append(check_pair(program, (data, neighbour), claim, name))
        if progress is not None:
            with plugins.foreign_code("progress, called with the pairs done and all pairs"):
                progress(i + 1, len(pairs))
        if results[-1].verdict is ReplayVerdict.REFUTED:
            results[-1] = _shrink(program, results[-1], claim)
            return results
    _refuse_failing(program, pairs)
    if pool is not None and all(result.verdict is ReplayVerdict.PROVED for result in results):
        random_pairs = pool(program.surroundings.constants)
        results += _try_sizes(program, random_pairs, results, claim) or _try_random(program, random_pairs, results, claim)
        if results[-1].verdict is ReplayVerdict.REFUTED:
            results[-1] = _shrink(program, results[-1], claim)
            return results
    if all(result.verdict is ReplayVerdict.PROVED for result in results):
        rest = try_all_outcomes(program, results, claim, _OUTCOME_SECONDS)
        rest = try_turned_tests(program, results, claim, _TURNED_SECONDS) if rest is None else rest
        results += [] if rest is None else [rest]
    open_pairs = [result for result in results if result.verdict is not ReplayVerdict.PROVED and _may_break(result, claim)]
    if open_pairs and decide is not None:
        # of equally bad pairs that of the least data: one record changes most of what is returned
        worst = max(open_pairs, key=lambda result: (result.loss, -len(repr(result.data))))
        reason = decide(program, (worst.data, worst.neighbour), claim)
        if reason is not None:
            verdict = ReplayVerdict.REFUTED
            results.append(replace(worst, verdict=verdict, reason=f"{worst.reason}: {reason}", method="sampling", exact=False))
    return results


def _refuse_failing(program: Program, pairs: Sequence[NamedPair]) -> None:
    """Raise `ConfigError` if a program raises the same error on all data; if it depends on them, that is a finding."""
    errors = (program.record(side, SEEDS[0], Schedule.LATE).error for _, *sides in pairs for side in sides)
    first = next(errors, None)
    if first is not None and all(error == first for error in errors):
        raise ConfigError(
            f"function: the program raised {first} on the data itself, and the same on every neighbour; "
            "give a program (data, rng) -> output that runs on the data"
        )


def _may_break(result: PairResult, claim: ReplayClaim) -> bool:
    return not math.isfinite(result.loss) or result.loss > (claim.epsilon if claim.mu is None else claim.mu)


def _try_sizes(program: Program, pool: PairPool, results: Sequence[PairResult], claim: ReplayClaim) -> list[PairResult]:
    """Return the first pair of larger data sets that is not proved; none if what is released grows with the data."""
    if len({result.releases for result in results}) > 1:
        return []
    end = time.process_time() + _RANDOM_SECONDS
    for drawn in pool.of_sizes():
        attempt = check_pair(program, pool.build(drawn), claim, "a pair of many records")
        if attempt.verdict is not ReplayVerdict.PROVED:
            return [attempt]
        if time.process_time() > end:
            break
    return []


def _try_random(program: Program, pool: PairPool, results: Sequence[PairResult], claim: ReplayClaim) -> list[PairResult]:
    """Return the first random pair that is not proved, or else that of the largest loss if no earlier pair has so much."""
    before = max((result.loss for result in results), default=0.0)
    worst: PairResult | None = None
    best, largest, stream = None, -1.0, np.random.default_rng(0)
    schedule, steepest, count = passing_schedule(program, results[0], claim) if results else None, -1.0, 0
    end, latest = time.process_time() + _RANDOM_SECONDS, time.perf_counter() + 10 * _RANDOM_SECONDS
    while time.process_time() < end and time.perf_counter() < latest:
        drawn, count = pool.draw(stream, best), count + 1
        pair = pool.build(drawn)
        if schedule is not None and count % _ONE_PATH:  # many pairs on one path, a few on all
            path = replay(program, pair, program.run(pair[0], Recording(seed=SEEDS[0], schedule=schedule)))
            if path.comparison.is_clean:
                if path.size(claim) <= steepest:
                    continue
                steepest = path.size(claim)
        attempt = check_pair(program, pair, claim, "a random pair")
        if attempt.verdict is not ReplayVerdict.PROVED:
            return [attempt]
        if attempt.loss >= largest:
            best, largest = drawn, attempt.loss
            worst = attempt if largest > before else worst
    return [] if worst is None else [worst]


def _shrink(program: Program, result: PairResult, claim: ReplayClaim) -> PairResult:
    end = time.process_time() + _SHRINKING_SECONDS
    smallest = result

    def refutes(data: Any, neighbour: Any) -> bool:
        nonlocal smallest
        if time.process_time() > end:
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
