"""The law of what a program returns that does nothing with its noise but decide: responses, random orders, choices.

The same output may come from other coins on the neighbour, which a replay of equal outcomes cannot see. So the decisions are
enumerated: all of them, or, since coins that the data do not move may be held fixed, a few in a row (docs/theory/replay.md).
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.replays.claims import ReplayClaim
from audit.replays.recording import CHOICE, EVENT, Array, Recording
from audit.replays.run import Program
from audit.stats import event_probability, unit_laws

_MOST_RUNS, _FEW_RUNS, _LONGEST = 300, 40, 5  # of an enumeration of all decisions; of a few, and so many in a row
_SECONDS, _FAILURES = 1.0, 3  # of the processor, for each enumeration; pairs without an answer after which none is looked for
_WORDS = ((1, 1), (2, 1), (2, 2), (3, 3))  # decisions of the recorded path that are enumerated, and the fewest in their place
_PATHS = (1, 2, 3)  # seeds of the decisions that are held fixed


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionPath:
    """A run: the atoms that it left, its outcomes in order, and the log probabilities of the options of each."""

    atoms: dict[str, str]
    outcomes: tuple[int, ...]
    logs: tuple[Array, ...]

    @property
    def result(self) -> str:
        """All atoms."""
        return repr(self.atoms)

    def log_probabilities(self, start: int, end: int) -> list[float]:
        """Return those of its outcomes from `start` on, before `end`."""
        return [float(logs[outcome]) for outcome, logs in zip(self.outcomes[start:end], self.logs[start:end], strict=True)]


Law = dict[str, float]  # of results


def decided_loss(program: Program, pair: tuple[Any, Any], claim: ReplayClaim) -> tuple[float, bool] | None:
    """Return epsilon at delta of a pair and whether it is exact, or only of the paths that were tried; None if not known."""
    paths = [_follow(program, pair[0], None, seed) for seed in _PATHS] if program.undecided < _FAILURES else [None]
    first = paths[0]
    again = None if first is None or not first.outcomes else _follow(program, pair[0], first.outcomes, 99)
    if first is None or again is None or again.result != first.result:
        return None  # it does something else with its noise, or some noise is not followed
    bound = 0.0
    for path in paths:
        if math.isfinite(bound):
            bound = max(bound, math.inf if path is None else _conditional_loss(program, pair, path.outcomes, claim.delta))
    if bound <= claim.epsilon * (1 + 1e-6) + 1e-9:
        return bound, False
    end = time.process_time() + _SECONDS
    laws = [_law(program, data, ((), ()), 0, end) for data in pair]
    if laws[0] is not None and laws[1] is not None:
        return _epsilon(laws[0][0], laws[1][0], claim.delta), True
    program.undecided += 1
    return (bound, False) if math.isfinite(bound) else None


def _follow(program: Program, data: Any, outcomes: Sequence[int] | None, seed: int = 1) -> DecisionPath | None:
    run = program.run(data, Recording(seed=seed, outcomes=outcomes))
    recording, draws = run.recording, set[int]()
    results: list[int] = []
    logs: list[Array] = []
    if run.error is not None or recording.gaps:
        return None
    for entry in recording.releases:
        if entry.kind == CHOICE and entry.log_probabilities is not None:
            results.append(int(entry.output))
            logs.append(entry.log_probabilities - np.logaddexp.reduce(entry.log_probabilities))
            continue
        if entry.kind != EVENT:
            return None
        for i, output in enumerate(np.ravel(entry.output).tolist()):
            used = entry.rows.weight[i] != 0
            names = entry.rows.index[i][used].tolist()
            if len(names) != 1 or names[0] in draws or not unit_laws.is_known(recording.laws[names[0]]):
                return None
            draws.add(names[0])
            row = entry.rows.value[i : i + 1], np.zeros(1), entry.rows.weight[i][used], ("", [recording.laws[names[0]]])
            logs.append(np.array([event_probability.log_all_above(*row, np.array([sign])) for sign in (-1.0, 1.0)]))
            results.append(int(output))
    atoms = {name: repr(atom) for name, atom in run.atoms if not name.startswith("data")}
    return DecisionPath(atoms=atoms, outcomes=tuple(results), logs=tuple(logs))


def _law(
    program: Program, data: Any, fixed: tuple[tuple[int, ...], tuple[int, ...]], shortest: int, end: float
) -> tuple[Law, list[float]] | None:
    """Return the law of the result given decisions before and after a word of at least `shortest`, and the chances of those.

    Words are extended until what comes after them is taken as it was recorded: they are a complete code, so that their
    probabilities add up to 1, and all have the same decisions before and after with the same probabilities.
    """
    (before, after), runs, law = fixed, 0, Law()
    rest: list[float] | None = None
    words: list[tuple[int, ...]] = [()]
    while words:
        word = words.pop()
        runs += 1
        path = _follow(program, data, (*before, *word, *after))
        place = len(before) + len(word)
        if path is None or runs > (_FEW_RUNS if after else _MOST_RUNS) or time.process_time() > end:
            return None
        rest_logs = [*path.log_probabilities(0, len(before)), *path.log_probabilities(place, len(path.outcomes))]
        complete = len(word) >= shortest and len(path.outcomes) == place + len(after)
        if complete and (rest is None or np.allclose(rest_logs, rest, rtol=1e-9, atol=1e-12)):
            rest = rest_logs
            chance = math.exp(math.fsum(path.log_probabilities(len(before), place)))
            law[path.result] = law.get(path.result, 0.0) + chance
        elif (after and len(word) >= _LONGEST) or len(path.outcomes) <= place:
            return None
        else:
            words += [(*word, option) for option in np.flatnonzero(np.isfinite(path.logs[place])).tolist()]
    return (law, rest) if rest is not None else None


def _conditional_loss(program: Program, pair: tuple[Any, Any], outcomes: tuple[int, ...], delta: float) -> float:
    """Return the least loss given all decisions but a few in a row, infinite if none is known."""
    end = time.process_time() + _SECONDS
    starts = _starts(program, pair, outcomes)
    for length, shortest in _WORDS:
        for start in (place for place in starts if place + length <= len(outcomes)):
            fixed = outcomes[:start], outcomes[start + length :]
            laws = [_law(program, data, fixed, shortest, end) for data in pair]
            if laws[0] is None or laws[1] is None or len(laws[0][1]) != len(laws[1][1]):
                continue
            if np.allclose(laws[0][1], laws[1][1], rtol=1e-9, atol=1e-12):
                loss = _epsilon(laws[0][0], laws[1][0], delta)
                if math.isfinite(loss):
                    return loss
    return math.inf


def _starts(program: Program, pair: tuple[Any, Any], outcomes: tuple[int, ...]) -> list[int]:
    """Return the decisions that alter in what way the results of the data sets differ."""
    first, before = _difference(program, pair, outcomes)
    starts = []
    for place in range(0 if first is None else min(len(outcomes), _MOST_RUNS)):
        option = (outcomes[place] + 1) % len(first.logs[place]) if first is not None else 0
        if _difference(program, pair, (*outcomes[:place], option, *outcomes[place + 1 :]))[1] != before:
            starts.append(place)
    return starts


def _difference(
    program: Program, pair: tuple[Any, Any], outcomes: tuple[int, ...]
) -> tuple[DecisionPath | None, dict[str, Any] | None]:
    """Return the path of the first data set, and the atoms of both by their name if they differ."""
    first, second = (_follow(program, data, outcomes) for data in pair)
    if first is None or second is None:
        return None, None
    return first, {name: (atom, second.atoms.get(name)) for name, atom in first.atoms.items() if second.atoms.get(name) != atom}


def _epsilon(first: Law, second: Law, delta: float) -> float:
    """Return the least epsilon at which both laws differ by no more than delta."""
    results = sorted({*first, *second})
    sides = np.array([[law.get(result, 0.0) for result in results] for law in (first, second)])

    def excess(epsilon: float) -> float:
        return max(float(np.maximum(p - math.exp(epsilon) * q, 0).sum()) for p, q in (sides, sides[::-1]))

    with np.errstate(divide="ignore"):
        logs = np.abs(np.log(sides[0]) - np.log(sides[1]))
    largest = float(logs[np.isfinite(logs)].max(initial=0.0))
    if excess(largest) > delta + 1e-12:
        return math.inf
    if not delta:
        return largest
    low, high = 0.0, largest
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if excess(middle) <= delta else (middle, high)
    return high
