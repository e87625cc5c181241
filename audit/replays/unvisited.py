"""How likely the outcomes of decisions are, in their order, that no replayed run of a data set had."""

from collections.abc import Iterator

import numpy as np

from audit.replays.recording import CHOICE, EVENT, NUMBER, SELECTION, Recording
from audit.replays.turns import outcome_chances

_MOST_DECISIONS = 64  # of a path; what follows is not known
Step = tuple[int, dict[int, float], bool]  # the outcome, at most how likely each is, and whether they are independent of others


class PathTree:
    """The paths that runs on one data set took, decision by decision."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[int, ...], tuple[float, dict[int, float], bool, set[int]]] = {}
        self._cut = dict[tuple[int, ...], float]()  # paths of which the rest is not known, and how likely each is

    @property
    def mass(self) -> float:
        """At most the probability of all other paths."""
        parts = (
            weight * chance if is_free else min(weight, chance)
            for weight, chances, is_free, options in self._nodes.values()
            for option, chance in chances.items()
            if option not in options
        )
        return min(1.0, sum(parts) + sum(self._cut.values()))

    def add(self, recording: Recording) -> None:
        """Add the path of a run."""
        path, weight = tuple[int, ...](), 1.0
        for outcome, chances, is_free in _steps(recording):
            if len(path) == _MOST_DECISIONS or not chances:
                self._cut[path] = weight
                return
            self._nodes.setdefault(path, (weight, chances, is_free, set()))[3].add(outcome)
            weight *= chances[outcome] if is_free else 1.0
            path = (*path, outcome)


def _steps(recording: Recording) -> Iterator[Step]:
    """Yield each decision of a run; one after released numbers, on which it may depend, has no chances."""
    draws, has_numbers = set[int](), False
    for entry in recording.releases:
        has_numbers |= entry.kind == NUMBER and not entry.at_return
        is_choice = entry.kind == CHOICE and entry.log_probabilities is not None
        if entry.kind not in (EVENT, SELECTION) and not is_choice:
            continue
        chances, outputs = outcome_chances(recording, entry), np.ravel(entry.output).astype(int).tolist()
        if entry.kind != EVENT:
            options = {i: float(chance) for i, chance in enumerate(chances)}
            yield outputs[0], {} if has_numbers else options if is_choice else options | {outputs[0]: 1.0}, is_choice
            continue
        for row, output in enumerate(outputs):
            names = set(entry.rows.index[row][entry.rows.weight[row] != 0].tolist())
            is_free, rest_chance = len(names) == 1 and not names & draws, float(chances[row])
            draws |= names
            yield output, {} if has_numbers else {output: 1 - rest_chance if is_free else 1.0, 1 - output: rest_chance}, is_free
