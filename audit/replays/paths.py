"""Paths of a program that its plain runs seldom take: near decisions, far out, and with each other outcome of a decision."""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from audit.replays.attempts import Attempt, replay
from audit.replays.claims import ReplayClaim
from audit.replays.recording import CHOICE, EVENT, NUMBER, NoiseRows, Recording, ReleaseEntry, Schedule
from audit.replays.run import Program

# A draw is put between the places where a comparison flips on the data and on the neighbour.
_RANGES = {"normal": (-30.0, 30.0), "laplace": (-30.0, 30.0), "uniform": (0.0, 1.0), "exponential": (0.0, 30.0)}
_GRAIN = 2.0**-53  # of what generators draw from 0 to 1: nothing is drawn inside a narrower range
_MOST_PATHS = 3  # near decisions, of a pair
_PATHS = 8  # of a program that compares; half as many of one that releases several numbers
_LONGEST = 24  # comparisons that are turned on a path, one after the other, so that it goes on
_OUTCOMES = 12  # comparisons with an outcome that is changed, one at a time
_FEW_RUNS = 12  # with another outcome, of each pair
_MOST_NUMBERS = 8  # in the code, at which numbers are released
_LEANS = 6  # numbers in the code that all choices take as their outcome
Runs = tuple[Recording, Recording]
Key = tuple[tuple[str, int], Any]  # line and instruction, and an outcome


def find_flips(late: Runs, early: Runs) -> list[dict[int, float]]:
    """Return, for some comparisons with an outcome that the data can change, the last draw of it and a value at which they do.

    Earlier draws are left as they were, so that the path up to the comparison stays the same.

    Args:
        late: recordings of the data and the neighbour with noise kept to the end, which shows what is compared.
        early: of the same draws with noise released at the first sum: the neighbour is handed those sums.
    """
    paths: list[dict[int, float]] = []
    for left, right in zip(late[0].releases, late[1].releases, strict=False):
        if left.kind != EVENT or right.kind != EVENT or left.rows.value.shape != right.rows.value.shape:
            continue
        for i in range(len(left.rows.value)):
            flips = [_threshold(side, entry.rows, i) for side, entry in zip(late, (left, right), strict=True)]
            if flips[0] is None or flips[1] is None or flips[0][0] != flips[1][0]:
                continue
            draw = flips[0][0]
            thresholds = np.sort([flips[0][1], flips[1][1] + _shift(early, draw)])
            low, high = np.clip(thresholds, *_RANGES[late[0].laws[draw]])
            if high - low > 1e-9 * (1 + abs(low)):
                paths.append({draw: float((low + high) / 2)})
    if not paths:
        return []
    return [paths[i] for i in np.unique(np.linspace(0, len(paths) - 1, min(_MOST_PATHS, len(paths))).astype(int))]


def _shift(early: Runs, draw: int) -> float:
    """Return by how much of a draw the released sum moves that holds it, 0 if it is released alone."""
    for left, right in zip(early[0].releases, early[1].releases, strict=False):
        if left.kind != NUMBER or left.rows.value.shape != right.rows.value.shape:
            continue
        rows, columns = np.nonzero((left.rows.index == draw) & (left.rows.weight != 0))
        if rows.size:
            movement = right.rows.value[rows[0]] - left.rows.value[rows[0]]
            return float(movement / left.rows.weight[rows[0], columns[0]])
    return 0.0


def _threshold(recording: Recording, rows: NoiseRows, place: int) -> tuple[int, float] | None:
    """Return the last draw of a row and the value of it at which the row is 0, or None if it has none of a known range."""
    index, weight = rows.index[place], rows.weight[place]
    names = index[weight != 0]
    if not names.size or recording.laws[int(names.max())] not in _RANGES:
        return None
    draw = int(names.max())
    own = float(weight[(index == draw) & (weight != 0)].sum())
    rest = float(rows.value[place] + weight @ recording.draws[index]) - own * float(recording.draws[draw])
    return (draw, -rest / own) if own and np.isfinite(rest) else None


def near_decisions(program: Program, late: Attempt, early: list[Attempt]) -> list[Attempt]:
    """Return replays of paths on which the data can change what a comparison says, up to the first that is not clean."""
    replays: list[Attempt] = []
    for attempt in early:
        runs = attempt.runs[0].recording, attempt.runs[1].recording
        if runs[0].seed != late.recording.seed:
            continue
        for chosen in find_flips((late.recording, late.runs[1].recording), runs):
            recording = Recording(seed=late.recording.seed, schedule=runs[0].schedule, chosen=chosen)
            replays.append(replay(program, late.sides, program.run(late.sides[0], recording)))
            if not replays[-1].comparison.is_clean:
                return replays
    return replays


def far_paths(program: Program, pair: tuple[Any, Any], attempt: Attempt, claim: ReplayClaim) -> list[Attempt]:
    """Return replays of paths that are seldom taken, since each path has its own loss: with draws farther out.

    If nothing but comparisons is released, any outcomes may be handed in: random ones, then the worst with one changed at a
    time.
    """
    records, schedule = attempt.recording.releases, attempt.recording.schedule
    compares, decides = (test(entry.kind == EVENT for entry in records) for test in (any, all))
    replays: list[Attempt] = []
    for i in range(_PATHS if compares else _PATHS // 2):
        sides = pair[:: (-1) ** i]
        terms: dict[str, Any] = {"spread": 4.0 if i % 4 < 2 else 25.0, "tail": claim.delta}
        terms = {"outcomes": [], "coins_for_events": True} if decides else terms
        first = program.run(sides[0], Recording(seed=3 + i, schedule=schedule, **terms))
        replays.append(replay(program, sides, first))
        if not replays[-1].passes(claim):
            return replays
    if compares and not decides:
        replays += _longer_paths(program, attempt, claim)
    worst = max(replays, key=lambda attempt: attempt.size(claim))
    for place in range(_OUTCOMES if decides else 0):
        outcomes = _outcomes(worst.recording)
        if place < len(outcomes):
            outcomes[place] = not outcomes[place]
            recording = Recording(seed=worst.recording.seed, schedule=schedule, outcomes=outcomes, coins_for_events=True)
            replays.append(replay(program, worst.sides, program.run(worst.sides[0], recording)))
            worst = max(worst, replays[-1], key=lambda attempt: attempt.size(claim))
    return replays


def _longer_paths(program: Program, attempt: Attempt, claim: ReplayClaim) -> Iterator[Attempt]:
    """Yield replays on which the last comparison comes out otherwise, as long as the path grows by it.

    A loop that ends at a comparison costs most where it ends late, which plain runs seldom do.
    """
    for _ in range(_LONGEST):
        recording, length = attempt.recording, len(attempt.recording.releases)
        places = [place for place, entry in enumerate(recording.releases) if entry.kind == EVENT]
        row = recording.releases[places[-1]].rows.value.size - 1 if places else 0
        terms = _flip(recording, places[-1], row, claim) if places else None
        if terms is None:
            return
        first = program.run(attempt.sides[0], Recording(seed=recording.seed, schedule=recording.schedule, **terms))
        attempt = replay(program, attempt.sides, first)
        if len(attempt.recording.releases) <= length:
            return
        yield attempt
        if not attempt.passes(claim):
            return


def _outcomes(recording: Recording, before: int | None = None) -> list[int]:
    """Return the outcomes of comparisons and choices, of the releases before one."""
    entries = recording.releases[:before]
    return [int(part) for entry in entries if entry.kind in (EVENT, CHOICE) for part in np.ravel(entry.output)]


def _flip(recording: Recording, place: int, row: int, claim: ReplayClaim) -> dict[str, Any] | None:
    """Return what makes a comparison come out otherwise, None if it cannot, or only with at most the claimed delta."""
    entry = recording.releases[place]
    crossing = _threshold(recording, entry.rows, row)
    if crossing is None:
        outcomes = _outcomes(recording, place) + [int(output) for output in np.ravel(entry.output)[:row]]
        return {"outcomes": [*outcomes, 1 - int(np.ravel(entry.output)[row])]}
    draw, threshold = crossing
    side = 1 if threshold > recording.draws[draw] else -1
    value = _value_beyond(recording, draw, threshold, side, claim.delta)
    return None if value is None else {"chosen": {**recording.chosen, draw: value}}


def _value_beyond(recording: Recording, draw: int, threshold: float, side: int, delta: float = 0.0) -> float | None:
    """Return a value of a draw just beyond one, None if it has none there that is as likely as delta."""
    law = recording.laws[draw]
    low, high = _RANGES[law]
    tail = delta if law == "uniform" else 0.0
    room = side * ((low + tail if side < 0 else high - tail) - threshold)
    value = float(threshold + side * min(1e-7 * (1 + abs(threshold)), room / 2))
    is_far = delta > 0 and law != "uniform" and abs(value) > recording.farthest(law, delta)
    return value if room > _GRAIN and not is_far else None


class OutcomeLedger:
    """Which outcomes of decisions were taken on some path of some pair, by line.

    Attributes:
        open_outcomes: outcomes that no path has taken, each with how it is forced.
    """

    def __init__(self, constants: list[Any]) -> None:
        self.open_outcomes: dict[Key, dict[str, Any]] = {}
        self._visits: set[Key] = set()
        self._options_of_lines: set[tuple[str, bytes]] = set()
        self._numbers = [float(item) for item in constants if type(item) in (int, float) and abs(item) < 1e9][:_MOST_NUMBERS]
        numbers = [item for item in constants if type(item) is int and item > 0]
        self._likely = {option for item in numbers for option in (item, item - 1)}
        self._leans = [0, -1, *sorted(self._likely)[:_LEANS]]

    def replays(self, program: Program, base: Attempt, claim: ReplayClaim, seconds: float | None = None) -> Iterator[Attempt]:
        """Yield replays of a pair with other outcomes than any path had before: a few, or as many as there is time for."""
        schedule, seed = base.recording.schedule, base.recording.seed
        self._note(program.record(base.sides[0], seed, Schedule.LATE).recording, claim)
        if schedule is not Schedule.LATE:
            self._note(base.recording, claim)
        end, count = time.process_time() + (seconds or 0.0), 0
        decides = bool(self._visits) or "uniform" in base.recording.laws
        for lean in self._leans if decides and seconds is None else ():
            yield self._run(program, base, claim, {"lean": lean, "tail": claim.delta})
        while self.open_outcomes and (count < _FEW_RUNS if seconds is None else time.process_time() < end):
            key = next(iter(self.open_outcomes))
            self._visits.add(key)
            yield self._run(program, base, claim, self.open_outcomes.pop(key))
            count += 1

    def _run(self, program: Program, base: Attempt, claim: ReplayClaim, terms: dict[str, Any]) -> Attempt:
        recording = Recording(seed=base.recording.seed, schedule=base.recording.schedule, **terms)
        attempt = replay(program, base.sides, program.run(base.sides[0], recording))
        self._note(attempt.recording, claim)
        return attempt

    def _note(self, recording: Recording, claim: ReplayClaim) -> None:
        new: dict[Key, dict[str, Any]] = {}
        for place, entry in enumerate(recording.releases):
            if entry.kind == EVENT:
                for i, output in enumerate(np.ravel(entry.output).tolist()):
                    self._take((entry.site, entry.offset), int(output))
                    key = (entry.site, entry.offset), 1 - int(output)
                    if key not in self._visits and key not in self.open_outcomes and key not in new:
                        new |= {key: terms} if (terms := _flip(recording, place, i, claim)) is not None else {}
            elif entry.kind == CHOICE and entry.log_probabilities is not None:
                self._take((entry.site, entry.offset), int(entry.output))
                for option in self._options(entry, claim):
                    key = (entry.site, entry.offset), option
                    if key not in self._visits and key not in self.open_outcomes and key not in new:
                        new[key] = {"outcomes": [*_outcomes(recording, place), option]}
            elif entry.kind == NUMBER and not entry.at_return:
                new |= self._targets(recording, entry, claim)
        self.open_outcomes = new | self.open_outcomes  # what has just been reached comes first

    def _options(self, entry: ReleaseEntry, claim: ReplayClaim) -> list[int]:
        """Return the options of a choice that have more than the claimed delta, none if the line's were returned before."""
        logs = np.asarray(entry.log_probabilities)
        options = np.flatnonzero(np.exp(logs - np.logaddexp.reduce(logs)) > claim.delta)
        if entry.terms:  # a place of a random order
            options = options[np.isin(options, [*self._likely, 0, len(logs) - 1])]
        key = entry.site, options.tobytes()
        if key in self._options_of_lines:
            return []
        self._options_of_lines.add(key)
        return sorted(options.tolist(), key=lambda option: option not in self._likely)

    def _targets(self, recording: Recording, entry: ReleaseEntry, claim: ReplayClaim) -> dict[Key, dict[str, Any]]:
        """Return paths on which a number is released just above or below one of the code."""
        targets: dict[Key, dict[str, Any]] = {}
        for number in self._numbers:
            for side in (-1, 1):
                key = (entry.site, entry.offset), (number, side)
                rows = NoiseRows(value=entry.rows.value - number, index=entry.rows.index, weight=entry.rows.weight)
                crossing = None if key in self._visits or key in self.open_outcomes else _threshold(recording, rows, 0)
                self._visits.add(key)
                if crossing is not None and (value := _value_beyond(recording, *crossing, side, claim.delta)) is not None:
                    targets[key] = {"chosen": {**recording.chosen, crossing[0]: value}}
        return targets

    def _take(self, site: tuple[str, int], outcome: int) -> None:
        self._visits.add((site, outcome))
        self.open_outcomes.pop((site, outcome), None)
