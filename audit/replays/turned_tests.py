"""Paths that begin at a test of the code which no draw led to another outcome: it is turned round by force."""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from audit.replays.attempts import Attempt, replay
from audit.replays.branches import Point
from audit.replays.check import SEEDS, PairResult, ReplayVerdict, check_pair, describe
from audit.replays.claims import ReplayClaim
from audit.replays.recording import Recording, Schedule
from audit.replays.run import Program

_TIMES = (1, 1000)  # a test is turned once, and in each turn of a loop
_MOST_TESTS = 100
_TERMS = ("seed", "lean", "tail", "spread", "chosen", "turns")
Test = tuple[Point, bool]


def try_turned_tests(program: Program, results: list[PairResult], claim: ReplayClaim, seconds: float) -> PairResult | None:
    """Return the result of a proved pair on which an outcome that a test had in no run is not private, None if there is none.

    What such a test depends on may be too rare for any search: twenty coins at once. If all is well where it is turned by
    force, no matter how rarely it is. Pairs take turns for so many seconds of the processor.
    """
    tests, tried_tests, end = dict.fromkeys(program.branches.open_tests()), set[Test](), time.process_time() + seconds
    for result in results if tests else ():
        base, own = _base(program, result, claim), set[Test]()
        while waiting_tests := [
            test for test in tests if test not in own and (test not in tried_tests or time.process_time() < end)
        ]:
            if len(tried_tests) > _MOST_TESTS:
                file, line, *_ = waiting_tests[0][0]
                reason = f"{len(waiting_tests)} tests had one outcome on all paths, such as that of {file}:{line}"
                return replace(result, verdict=ReplayVerdict.BOUND, exact=False, reason=reason)
            tried_tests.add(waiting_tests[0])
            own.add(waiting_tests[0])
            failure = _turn(program, base, result, waiting_tests[0], claim)
            if failure is not None:
                return failure
            tests |= dict.fromkeys(program.branches.open_tests())  # reached by force
    return None


def _base(program: Program, result: PairResult, claim: ReplayClaim) -> Attempt | None:
    """Return a replay of a pair that passes; None if only its law does."""
    pair = result.data, result.neighbour
    attempts = (replay(program, pair, program.record(pair[0], SEEDS[0], schedule)) for schedule in Schedule)
    return next((attempt for attempt in attempts if attempt.passes(claim)), None)


def passing_schedule(program: Program, result: PairResult, claim: ReplayClaim) -> Schedule | None:
    """Return the schedule by which a pair passes; None if only its law does."""
    base = _base(program, result, claim)
    return None if base is None else base.recording.schedule


def _turn(program: Program, base: Attempt | None, result: PairResult, test: Test, claim: ReplayClaim) -> PairResult | None:
    point, outcome = test
    sentence = f"{point[0]}:{point[1]} has a test that was {not outcome} on all paths; where it is {outcome}, "
    for attempt in () if base is None else _attempts(program, base, test):
        if attempt.comparison.error is None and not attempt.passes(claim):
            reason = sentence + describe(attempt.comparison)
            return replace(result, verdict=ReplayVerdict.BOUND, loss=attempt.size(claim), exact=False, reason=reason)
    if base is None:
        route = program.branches.routes[point, not outcome]
        try:
            program.turns = route.turns | {point: _TIMES[0]}
            answer = check_pair(program, (result.data, result.neighbour), claim, result.name)
        finally:
            program.turns = {}
        if answer.verdict is not ReplayVerdict.PROVED and "raised" not in answer.reason:
            return replace(answer, verdict=ReplayVerdict.BOUND, reason=sentence + answer.reason)
    return None


def _attempts(program: Program, base: Attempt, test: Test) -> Iterator[Attempt]:
    """Yield replays of a pair on which a test is turned, by the way on which it was reached."""
    point, outcome = test
    route = program.branches.routes[point, not outcome]
    for times in _TIMES:
        for sides in (base.sides, base.sides[::-1]):
            terms: dict[str, Any] = {name: getattr(route, name) for name in _TERMS}
            terms["turns"] = route.turns | {point: times}
            recording = Recording(schedule=base.recording.schedule, **terms)
            attempt = replay(program, sides, program.run(sides[0], recording))
            yield attempt
            if any(point in run.recording.turn_log for run in attempt.runs):
                break
