"""One attempt at a pair: a recorded run, its replay on the neighbour, and whether both together pass."""

import math
from typing import Any, NamedTuple

from audit.replays.claims import ReplayClaim
from audit.replays.comparison import ReplayComparison, compare
from audit.replays.recording import Recording, Schedule
from audit.replays.run import Program, ProgramRun
from audit.replays.unvisited import PathTree


class Attempt(NamedTuple):
    """The two runs, what differs between them, and their data sets."""

    runs: tuple[ProgramRun, ProgramRun]
    comparison: ReplayComparison
    sides: tuple[Any, Any]

    @property
    def recording(self) -> Recording:
        """The recording of the first run."""
        return self.runs[0].recording

    def passes(self, claim: ReplayClaim) -> bool:
        """True if the pair differs in nothing but releases of a loss that the claim covers."""
        loss = self.comparison.loss
        return self.comparison.is_clean and loss is not None and loss.meets(claim.epsilon, claim.delta, claim.mu)

    def size(self, claim: ReplayClaim) -> float:
        """Return epsilon (or mu) of the pair; infinite if it is not known."""
        loss = self.comparison.loss
        if loss is None or self.comparison.differences:
            return math.inf
        if claim.mu is None:
            return loss.epsilon(claim.delta)
        return loss.mu if not loss.pure and not loss.laplace and loss.divergences is None else math.inf


def replay(program: Program, sides: tuple[Any, Any], first: ProgramRun) -> Attempt:
    """Hand the releases of a recorded run of the first data set back on the second."""
    earlier = first.recording
    terms: dict[str, Any] = {name: getattr(earlier, name) for name in ("chosen", "spread", "tail", "lean", "turns")}
    second = program.run(sides[1], Recording(seed=earlier.seed, schedule=earlier.schedule, frozen=earlier, **terms))
    for recording, data in zip((earlier, second.recording), sides, strict=True):
        program.branches.visit(recording, data)
    if earlier.schedule is Schedule.LATE and not earlier.turns:
        program.paths.setdefault(id(sides[0]), PathTree()).add(earlier)
    return Attempt((first, second), compare(first, second), sides)
