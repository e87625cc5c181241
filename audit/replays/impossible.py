"""Outputs that a program gives on the data and never on the neighbour: the numbers in them fix all that was released, and
given these the rest of the output is another one on the neighbour (docs/theory/replay.md)."""

import math
import time
from typing import Any

import numpy as np

from audit.replays.accusations import SIGNIFICANCE, Accusation, Places, common_places, number_places
from audit.replays.attempts import Attempt, replay
from audit.replays.claims import ReplayClaim
from audit.replays.recording import NUMBER, Recording
from audit.replays.run import Program, ProgramRun
from audit.stats.bounds.binomial import upper_tail

_LOOKS, _FEWEST = (6, 12, 24, 48), 3  # runs after which is counted; outputs
_SECONDS = 4.0  # of the processor
_FIRST, _OWN = 7_000_003, 9_000_011  # seeds of the first run, and of the first on the neighbour with releases of its own
_WIDE = 25.0  # how far out draws of every other such run are, which exchanges what a program sorts
_AGAIN = 2  # further runs of either side on which what differs has to be as it was
_ROUNDING = 1e-6  # relative difference of numbers that the order of a sum may cause


def impossible_outputs(program: Program, attempt: Attempt, claim: ReplayClaim) -> Accusation | None:
    """Count runs on the data with such outputs; they refute the claim if so many cannot be as seldom as its delta."""
    schedule, delta = attempt.recording.schedule, 0.0 if claim.mu is not None else claim.delta
    end, count, path = time.process_time() + _SECONDS, 0, ""
    places: Places | None = None
    for i in range(max(_LOOKS)):
        first = program.run(attempt.sides[0], Recording(seed=_FIRST + i, schedule=schedule))
        runs, comparison, _ = replay(program, attempt.sides, first)
        if comparison.error or comparison.gaps or comparison.divergence:
            return None
        spread = _WIDE if i % 2 else 1.0
        own = [program.run(side, Recording(seed=_OWN + i, schedule=schedule, spread=spread)) for side in attempt.sides]
        if not all(map(_releases_numbers, (*runs, *own))):
            return None
        places = common_places(*([] if places is None else [places]), *map(number_places, (*runs, *own)))
        if not all(places.values()):
            return None  # which number was released for which is not known from the output
        difference = _difference(*runs)
        if difference is not None and _varies(program, attempt.sides, runs):
            return None  # by randomness that is not followed
        count += difference is not None
        path = path or difference or ""
        if i + 1 in _LOOKS and count >= _FEWEST and upper_tail(count, i + 1, delta) <= SIGNIFICANCE / len(_LOOKS):
            text = f"{path} is fixed by the data and by numbers that are returned, and differs on the neighbour"
            return Accusation(reason=text, loss=math.inf, method=f"{count} of {i + 1} outputs that the neighbour never gives")
        if time.process_time() > end:
            break
    return None


def _releases_numbers(run: ProgramRun) -> bool:
    releases = run.recording.releases
    return bool(releases) and run.error is None and all(release.kind == NUMBER for release in releases)


def _varies(program: Program, sides: tuple[Any, Any], runs: tuple[ProgramRun, ProgramRun]) -> bool:
    """True if a side with the same releases and other draws gives another output: then it depends on more than releases."""
    frozen, schedule = runs[0].recording, runs[0].recording.schedule
    for side, run in zip(sides, runs, strict=True):
        for i in range(_AGAIN):
            again = program.run(side, Recording(seed=_OWN - 1 - i, schedule=schedule, frozen=frozen))
            if again.error is not None or _difference(run, again) is not None:
                return True
    return False


def _output(run: ProgramRun) -> dict[str, Any]:
    return {path: atom for path, atom in run.atoms if path.startswith(("returned", "written"))}


def _difference(first: ProgramRun, second: ProgramRun) -> str | None:
    """Return where the outputs differ by more than rounding."""
    sides = _output(first), _output(second)
    for path in {**sides[0], **sides[1]}:
        atom, neighbour_atom = (side.get(path) for side in sides)
        if isinstance(atom, float) and isinstance(neighbour_atom, float):
            if not np.isclose(atom, neighbour_atom, rtol=_ROUNDING, atol=_ROUNDING, equal_nan=True):
                return path
        elif atom != neighbour_atom:
            return path
    return None
