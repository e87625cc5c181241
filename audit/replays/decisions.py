"""The law of what a program returns that does nothing with its noise but decide: responses, random orders, choices.

The same output may come from other coins on the neighbour, which a replay of equal outcomes cannot see. So the decisions are
enumerated: all of them, or, since coins that the data do not move may be held fixed, a few in a row (docs/theory/replay.md).
"""

import functools
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.replays.claims import ReplayClaim
from audit.replays.recording import CHOICE, EVENT, Array, Recording, Schedule
from audit.replays.run import Program, ProgramRun
from audit.stats import event_probability, unit_laws

_MOST_RUNS, _FEW_RUNS, _LONGEST = 300, 40, 5  # of an enumeration of all decisions; of a few, and so many in a row
_SECONDS, _FAILURES = 1.0, 3  # of the processor, for each enumeration; pairs without an answer after which none is looked for
_MOST_SECONDS = 6.0  # of the processor, for laws of all decisions that turned out to be too many
_WORDS = ((1, 1), (2, 1), (2, 2), (3, 3))  # decisions of the recorded path that are enumerated, and the fewest in their place
_MOST_GROUPS = 24  # of decisions that are tried with another outcome at once: with fewer decisions, each alone
_STARTS = 6  # decisions at which a word may begin
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


Law = dict[str, float]  # log probabilities of results
Code = tuple[int, list[tuple[tuple[int, ...], ...]]]  # the first decision, and the words in its place on either data set
Deadline = tuple[float, float]  # of the processor and of the clock


def enumerated_loss(program: Program, pair: tuple[Any, Any], claim: ReplayClaim) -> tuple[float, bool] | None:
    """Return epsilon at delta of a pair by the law of all decisions, and if it is beyond rounding; None if they are many."""
    if program.spent > _MOST_SECONDS or not all(_only_decides(program, data) for data in pair):
        return None
    start, end, laws = time.process_time(), _deadline(), list[Law]()
    for data in pair:
        answer = _law(program, data, ((), ()), 0, end)
        if answer is None:
            program.spent += time.process_time() - start
            return None
        laws.append(answer[0])
    return _epsilon(laws[0], laws[1], claim.delta)


def decided_loss(program: Program, pair: tuple[Any, Any], claim: ReplayClaim) -> float | None:
    """Return a bound of epsilon at delta of a pair: the largest by the words of the paths that were tried, None if not known.

    Tried are the paths of a few seeds, then each of their decisions with another outcome: one path without a bound is enough
    for none.
    """
    if program.failures >= _FAILURES or not _only_decides(program, pair[0]):
        return None
    bound, claimed, end = 0.0, claim.epsilon * (1 + 1e-6) + 1e-9, _deadline(16 * _SECONDS)
    codes: list[Code] = []
    paths: list[tuple[int, ...]] = []
    for outcomes in _forced_paths(program, pair, end):
        if outcomes is None:
            bound = math.inf
            break
        loss = min((_coded_loss(program, pair, outcomes, code, claim.delta) for code in codes), default=math.inf)
        if loss > claimed:
            component, code = _conditional_loss(program, pair, outcomes, claim.delta)
            codes += [code] if code is not None and component <= claimed else []
            loss = min(loss, component)
        if loss > claimed and len(paths) < _FAILURES:
            paths.append(outcomes)  # the code of another path may do
        else:
            bound = max(bound, loss)
    for outcomes in paths:
        bound = max(bound, min((_coded_loss(program, pair, outcomes, code, claim.delta) for code in codes), default=math.inf))
    if math.isinf(bound):
        program.failures += 1
        return None
    return bound


def _only_decides(program: Program, data: Any) -> bool:
    """False if a program does something else with its noise, or some noise is not followed."""
    first = _follow(program, data, None)
    again = None if first is None or not first.outcomes else _follow(program, data, first.outcomes, 99)
    return first is not None and again is not None and again.result == first.result


def _forced_paths(program: Program, pair: tuple[Any, Any], end: Deadline) -> Iterator[tuple[int, ...] | None]:
    """Yield the outcomes of paths: of a few seeds, then of each decision of either data set with each other outcome.

    None is one that cannot be followed, or that all cannot be tried in time.
    """
    paths = [_follow(program, pair[0], None, seed) for seed in _PATHS]
    yield from (None if path is None else path.outcomes for path in paths)
    for path, data in zip([paths[0], _follow(program, pair[1], None, _PATHS[-1] + 1)], pair, strict=True):
        if path is None:
            continue
        groups = _option_groups(path)
        while groups:
            if _is_over(end):
                yield None
                return
            group = groups.pop()
            forced = _follow(program, data, _altered(path, group), 11)
            if len(group) > 1 and (forced is None or len(forced.outcomes) != len(path.outcomes)):
                groups += [{place: option} for place, option in group.items()]  # one of them is another way
            else:
                yield None if forced is None else forced.outcomes


def _option_groups(path: DecisionPath) -> list[dict[int, int]]:
    """Return other outcomes by decision: each alone, or groups of distant ones if there are many."""
    rows = [
        [option for option in np.flatnonzero(np.isfinite(logs)).tolist() if option != outcome]
        for logs, outcome in zip(path.logs, path.outcomes, strict=True)
    ]
    count, groups = min(len(rows), _MOST_GROUPS), list[dict[int, int]]()
    for turn in range(max(map(len, rows), default=0)):
        for start in range(count):
            groups.append({place: rows[place][turn] for place in range(start, len(rows), count) if turn < len(rows[place])})
    return [group for group in groups if group]


def _altered(path: DecisionPath, group: dict[int, int]) -> tuple[int, ...]:
    """Return the outcomes of a path up to the last decision of a group, with the outcomes of the group."""
    return tuple(group.get(place, path.outcomes[place]) for place in range(max(group) + 1))


def _deadline(seconds: float = _SECONDS) -> Deadline:
    return time.process_time() + seconds, time.perf_counter() + 10 * seconds


def _is_over(end: Deadline) -> bool:
    return time.process_time() > end[0] or time.perf_counter() > end[1]


def _follow(program: Program, data: Any, outcomes: Sequence[int] | None, seed: int = 1) -> DecisionPath | None:
    """Return a path, None if it cannot be followed; pairs that share a data set share those of a slow program."""
    key = id(data), None if outcomes is None else tuple(outcomes), seed
    table: dict[Any, tuple[Any, DecisionPath | None]] = program.decision_paths
    if key in table:
        return table[key][1]
    if outcomes is None and program.is_slow:
        return _read_path(program.record(data, seed, Schedule.LATE))
    path = _read_path(program.run(data, Recording(seed=seed, outcomes=outcomes)))
    if program.is_slow:
        table[key] = data, path  # the data are kept: so is their id
    return path


def _read_path(run: ProgramRun) -> DecisionPath | None:
    recording, draws = run.recording, set[int]()
    results: list[int] = []
    logs: list[Array] = []
    if run.error is not None or recording.gaps:
        return None
    for entry in recording.releases:
        if entry.kind == CHOICE and entry.log_probabilities is not None:
            results.append(int(entry.output))
            if results[-1] >= len(entry.log_probabilities):
                return None  # handed in for another choice
            logs.append(entry.log_probabilities - np.logaddexp.reduce(entry.log_probabilities))
            continue
        if entry.kind != EVENT:
            return None
        for i, output in enumerate(np.ravel(entry.output).tolist()):
            used = entry.rows.weight[i] != 0
            names = entry.rows.index[i][used].tolist()
            # chances multiply only if no draw decides twice
            if len(names) != 1 or names[0] in draws or not unit_laws.is_known(recording.laws[names[0]]):
                return None
            draws.add(names[0])
            weight = float(entry.rows.weight[i][used][0])
            logs.append(_comparison_logs(recording.laws[names[0]], float(entry.rows.value[i]), weight))
            results.append(int(output))
    atoms = {name: _text(atom) for name, atom in run.atoms if not name.startswith("data")}
    return DecisionPath(atoms=atoms, outcomes=tuple(results), logs=tuple(logs))


@functools.lru_cache(maxsize=4096)
def _comparison_logs(law: str, value: float, weight: float) -> Array:
    """Return the log probabilities that `value + weight * draw` is not above 0, and that it is."""
    row = np.array([value]), np.zeros(1), np.array([weight]), ("", [law])
    return np.array([event_probability.log_all_above(*row, np.array([sign])) for sign in (-1.0, 1.0)])


def _text(atom: Any) -> str:
    """Return a text that is the same for equal numbers."""
    return repr(int(atom) if isinstance(atom, int | float) and math.isfinite(atom) and atom == int(atom) else atom)


def _law(
    program: Program, data: Any, fixed: tuple[tuple[int, ...], tuple[int, ...]], shortest: int, end: Deadline
) -> tuple[Law, list[float], tuple[tuple[int, ...], ...]] | None:
    """Return the law of the result given decisions before and after words of at least `shortest`, their chances, the words.

    Words are extended until what comes after them is taken as it was recorded: they are a complete code, so that their
    probabilities add up to 1, and all have the same decisions before and after with the same probabilities.
    """
    (before, after), runs, law = fixed, 0, Law()
    rest: list[float] | None = None
    words: list[tuple[int, ...]] = [()]
    code: list[tuple[int, ...]] = []
    while words:
        word = words.pop()
        runs += 1
        path = _follow(program, data, (*before, *word, *after))
        place = len(before) + len(word)
        if path is None or runs > (_FEW_RUNS if after else _MOST_RUNS) or _is_over(end):
            return None
        rest_logs = [*path.log_probabilities(0, len(before)), *path.log_probabilities(place, len(path.outcomes))]
        complete = len(word) >= shortest and len(path.outcomes) == place + len(after)
        if complete and (rest is None or np.allclose(rest_logs, rest, rtol=1e-9, atol=1e-12)):
            rest = rest_logs
            code.append(word)
            chance = math.fsum(path.log_probabilities(len(before), place))
            law[path.result] = float(np.logaddexp(law.get(path.result, -math.inf), chance))
        elif (after and len(word) >= _LONGEST) or len(path.outcomes) <= place:
            return None
        else:
            # an outcome of chance 0 begins no word
            words += [(*word, option) for option in np.flatnonzero(np.isfinite(path.logs[place])).tolist()]
    return (law, rest, tuple(code)) if rest is not None else None


def _conditional_loss(
    program: Program, pair: tuple[Any, Any], outcomes: tuple[int, ...], delta: float
) -> tuple[float, Code | None]:
    """Return the least loss given all decisions but a few in a row, infinite if none is known, and the words of these."""
    starts, end = _starts(program, pair, outcomes, _deadline()), _deadline()
    for length, shortest in _WORDS:
        for start in (place for place in starts if place + length <= len(outcomes)):
            fixed = outcomes[:start], outcomes[start + length :]
            laws = [_law(program, data, fixed, shortest, end) for data in pair]
            if laws[0] is None or laws[1] is None or len(laws[0][1]) != len(laws[1][1]):
                continue
            if np.allclose(laws[0][1], laws[1][1], rtol=1e-9, atol=1e-12):
                loss = _epsilon(laws[0][0], laws[1][0], delta)[0]
                if math.isfinite(loss):
                    return loss, (start, [laws[0][2], laws[1][2]])
    return math.inf, None


def _coded_loss(program: Program, pair: tuple[Any, Any], outcomes: tuple[int, ...], code: Code, delta: float) -> float:
    """Return the loss given all decisions but a word of another path's code, infinite if that is none on this one."""
    start, codes = code
    word = next((word for word in codes[0] if outcomes[start : start + len(word)] == word), None)
    if word is None:
        return math.inf
    laws, rest = list[Law](), None
    for data, words in zip(pair, codes, strict=True):
        law = Law()
        for option in words:
            path = _follow(program, data, (*outcomes[:start], *option, *outcomes[start + len(word) :]))
            end = start + len(option)
            if path is None or len(path.outcomes) != len(outcomes) - len(word) + len(option):
                return math.inf
            logs = [*path.log_probabilities(0, start), *path.log_probabilities(end, len(path.outcomes))]
            if rest is not None and not np.allclose(logs, rest, rtol=1e-9, atol=1e-12):
                return math.inf
            rest = logs
            law[path.result] = float(np.logaddexp(law.get(path.result, -math.inf), sum(path.log_probabilities(start, end))))
        if abs(float(np.logaddexp.reduce(list(law.values())))) > 1e-9:
            return math.inf
        laws.append(law)
    return _epsilon(laws[0], laws[1], delta)[0]


def _starts(program: Program, pair: tuple[Any, Any], outcomes: tuple[int, ...], end: Deadline) -> list[int]:
    """Return the decisions that alter in what way the results of the data sets differ.

    Halves of all decisions are altered together, then each decision alone, because two changes may cancel.
    """
    first, before = _difference(program, pair, outcomes)
    starts: list[int] = []
    if first is None:
        return starts
    count = min(len(outcomes), len(first.logs), _MOST_RUNS)  # one data set may decide less often
    for spans in ([(0, count)], [(place, place + 1) for place in reversed(range(count))]):
        while spans and len(starts) < _STARTS and not _is_over(end):
            start, stop = spans.pop()
            altered = [_next_option(first.logs[i], outcomes[i]) for i in range(start, stop)]
            if _difference(program, pair, (*outcomes[:start], *altered, *outcomes[stop:]))[1] == before:
                continue
            if stop - start <= 1:
                starts += [start] * (start < stop)
            else:
                spans += [((start + stop) // 2, stop), (start, (start + stop) // 2)]
        if starts:
            break
    return starts


def _next_option(logs: Array, outcome: int) -> int:
    """Return the next possible outcome of a decision, the same outcome if only one is possible."""
    options = np.flatnonzero(np.isfinite(logs))
    later = options[options > outcome]
    return int(later[0] if later.size else options[0]) if options.size else outcome


def _difference(
    program: Program, pair: tuple[Any, Any], outcomes: tuple[int, ...]
) -> tuple[DecisionPath | None, dict[str, Any] | None]:
    """Return the path of the first data set, and the atoms of both by their name if they differ."""
    first, second = (_follow(program, data, outcomes) for data in pair)
    if first is None or second is None:
        return None, None
    return first, {name: (atom, second.atoms.get(name)) for name, atom in first.atoms.items() if second.atoms.get(name) != atom}


def _epsilon(first: Law, second: Law, delta: float) -> tuple[float, bool]:
    """Return the least epsilon at which both laws differ by no more than delta, and whether that is more than rounding."""
    results = sorted({*first, *second})
    logs = np.array([[law.get(result, -math.inf) for result in results] for law in (first, second)])
    sides, one_sided = np.exp(logs), np.isinf(logs).any(axis=0)
    alone = float(sides[:, one_sided].sum(axis=1).max())
    if one_sided.any() and (not delta or alone > delta * (1 + 1e-9) + 1e-15):
        return math.inf, alone > delta + 1e-12
    largest = float(np.abs(logs[0] - logs[1])[~one_sided].max(initial=0.0))
    if not delta:
        return largest, True

    def excess(epsilon: float) -> float:
        return max(float(np.maximum(p - math.exp(epsilon) * q, 0).sum()) for p, q in (sides, sides[::-1]))

    low, high = 0.0, largest
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if excess(middle) <= delta else (middle, high)
    return high, True
