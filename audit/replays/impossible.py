"""Outputs that a program gives on the data and never on the neighbour: the numbers in them fix all that was released, and
given these the rest of the output is another one on the neighbour (docs/theory/replay.md)."""

import math
import time
from typing import Any

import numpy as np

from audit.replays.accusations import SIGNIFICANCE, Accusation
from audit.replays.attempts import Attempt, replay
from audit.replays.claims import ReplayClaim
from audit.replays.recording import NUMBER, Recording
from audit.replays.run import Program, ProgramRun
from audit.stats.bounds.binomial import upper_tail

_LOOKS, _FEWEST = (6, 12, 24, 48), 3  # runs after which is counted; outputs
_SECONDS = 4.0  # of the processor
_FIRST = 7_000_003  # seed of the first run
_ROUNDING = 1e-6  # relative difference of numbers that the order of a sum may cause
Places = dict[tuple[int, int], set[str]]  # paths of the output at which each released number stands


def impossible_outputs(program: Program, attempt: Attempt, claim: ReplayClaim) -> Accusation | None:
    """Count runs on the data with such outputs; they refute the claim if so many cannot be as seldom as its delta."""
    schedule, delta = attempt.recording.schedule, 0.0 if claim.mu is not None else claim.delta
    end, count, path = time.process_time() + _SECONDS, 0, ""
    places: Places | None = None
    for i in range(max(_LOOKS)):
        first = program.run(attempt.sides[0], Recording(seed=_FIRST + i, schedule=schedule))
        runs, comparison, _ = replay(program, attempt.sides, first)
        sides = [_places(run) for run in runs]
        if comparison.error or comparison.gaps or comparison.divergence or None in sides:
            return None
        for table in sides:
            places = table if places is None else {key: places.get(key, set()) & part for key, part in (table or {}).items()}
        if places is None or not all(places.values()):
            return None  # which number was released for which is not known from the output
        difference = _difference(*runs)
        count += difference is not None
        path = path or difference or ""
        if i + 1 in _LOOKS and count >= _FEWEST and upper_tail(count, i + 1, delta) <= SIGNIFICANCE / len(_LOOKS):
            text = f"{path} is fixed by the data and by numbers that are returned, and differs on the neighbour"
            return Accusation(reason=text, loss=math.inf, method=f"{count} of {i + 1} outputs that the neighbour never gives")
        if time.process_time() > end:
            break
    return None


def _places(run: ProgramRun) -> Places | None:
    """Return the places of the released numbers in the output, None if something else was released."""
    releases = run.recording.releases
    if not releases or any(release.kind != NUMBER for release in releases):
        return None
    by_number: dict[float, set[str]] = {}
    for path, atom in _output(run).items():
        if isinstance(atom, float):
            by_number.setdefault(atom, set()).add(path)
    numbers = [np.ravel(release.output).tolist() for release in releases]
    return {(i, j): by_number.get(number, set()) for i, part in enumerate(numbers) for j, number in enumerate(part)}


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
