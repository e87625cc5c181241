"""Paths of a program that its plain runs seldom take: near decisions, far out, and with each other outcome of a decision."""

import itertools
import math
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from audit.replays.attempts import Attempt, replay
from audit.replays.claims import ReplayClaim
from audit.replays.gaussian_loss import stack_rows
from audit.replays.ranges import ends, other_chances, value_beyond
from audit.replays.recording import CHOICE, EVENT, NUMBER, SELECTION, Array, NoiseRows, Recording, ReleaseEntry, Schedule
from audit.replays.run import Program

SLOW = 0.3  # seconds of a run from which one path of each pair has to do
_MOST_PATHS = 3  # near decisions, of a pair
_PATHS = 8  # of a program that compares; half as many of one that releases several numbers
_LONGEST = 24  # comparisons that are turned on a path, one after the other, so that it goes on
_OUTCOMES = 12  # comparisons with an outcome that is changed, one at a time
_FEW_RUNS = 12  # with another outcome, of each pair
_MOST_NUMBERS = 8  # in the code, at which numbers are released
_AROUND = ((0, -1), (0, 0), (0, 1), (1, 1), (-1, -1))  # steps from them and sides: just beyond them, before and after rounding
_MOST_INTERVALS = 24  # between numbers at which comparisons flip
_MOST_ROWS = 64  # released at once, that are moved together
_MOST_ORDERED = 12  # comparisons, or numbers, of one line that are turned or put in another order
_FURTHER, _SLOW_FURTHER = 60, 8  # of such paths, of a program
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
            # the draw is put between the places where the comparison flips on the data and on the neighbour
            low, high = np.clip(thresholds, *(ends(late[0].laws[draw]) or (0.0, 0.0)))
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
    if not names.size or ends(recording.laws[int(names.max())]) is None:
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


def between_thresholds(program: Program, attempt: Attempt) -> Iterator[Attempt]:
    """Yield replays with one draw put between each two numbers at which comparisons by it alone flip, on either data set.

    Several comparisons with one draw have few joint outcomes, and one of them may be impossible on the neighbour.
    """
    queue, history = [attempt], set[tuple[int, float]]()
    while queue:
        attempt = queue.pop(0)
        first, flips = attempt.recording, dict[int, set[float]]()
        for run in attempt.runs:
            for draw, threshold in _own_thresholds(run.recording):
                flips.setdefault(draw, set()).add(round(threshold, 9))
        for draw, thresholds in flips.items():
            limits = np.sort(np.clip([*thresholds, *(limits := ends(first.laws[draw]) or (0.0, 0.0))], *limits))
            for point in ((limits[1:] + limits[:-1])[limits[1:] > limits[:-1]] / 2).tolist() if len(thresholds) > 2 else ():
                if (draw, point) in history or len(history) == _MOST_INTERVALS:
                    continue
                history.add((draw, point))
                recording = Recording(seed=first.seed, schedule=first.schedule, chosen=first.chosen | {draw: point})
                queue.append(replay(program, attempt.sides, program.run(attempt.sides[0], recording)))
                yield queue[-1]


def _own_thresholds(recording: Recording) -> Iterator[tuple[int, float]]:
    """Yield the draw of each comparison by one draw alone, and the value of it at which the comparison flips."""
    for entry in recording.releases:
        for row in np.flatnonzero((entry.rows.weight != 0).sum(axis=1) == 1).tolist() if entry.kind == EVENT else ():
            crossing = _threshold(recording, entry.rows, row)
            if crossing is not None:
                yield crossing


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
        terms = _flip(recording, places[-1], row) if places else None
        if terms is None or (claim.delta and _chances(recording, recording.releases[places[-1]])[row] <= claim.delta):
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


def _flip(recording: Recording, place: int, row: int) -> dict[str, Any] | None:
    """Return what makes a comparison come out otherwise, None if it cannot."""
    entry = recording.releases[place]
    crossing = _threshold(recording, entry.rows, row)
    if crossing is None:
        outcomes = _outcomes(recording, place) + [int(output) for output in np.ravel(entry.output)[:row]]
        return _path_to(recording, outcomes=[*outcomes, 1 - int(np.ravel(entry.output)[row])])
    draw, threshold = crossing
    value = value_beyond(recording.laws[draw], threshold, 1 if threshold > recording.draws[draw] else -1)
    return None if value is None else _path_to(recording, place, draws={draw: value})


def _select(recording: Recording, rows: NoiseRows, place: int, option: int) -> dict[str, Any] | None:
    """Return what makes another row the largest, by its own draw or by those of all that are above it; None if it cannot."""
    values, uses = recording.evaluate(rows), np.bincount(rows.index[rows.weight != 0], minlength=len(recording.laws))

    def beyond(row: int, number: float, side: int) -> dict[int, float] | None:
        alone = [j for j in range(rows.index.shape[1]) if rows.weight[row, j] != 0 and uses[rows.index[row, j]] == 1]
        if not alone:
            return None
        draw, weight = int(rows.index[row, alone[0]]), float(rows.weight[row, alone[0]])
        threshold = recording.draws[draw] + (number - values[row]) / weight
        value = value_beyond(recording.laws[draw], float(threshold), side if weight > 0 else -side)
        return None if value is None else {draw: value}

    top = float(np.delete(values, option).max())
    higher = beyond(option, top + 1.0, 1) or beyond(option, top, 1)  # rounded, too
    if higher is not None:
        return _path_to(recording, place, higher)
    lows = [
        beyond(row, float(values[option]), -1) for row in np.flatnonzero(values >= values[option]).tolist() if row != option
    ]
    draws = {draw: value for choice in lows if choice is not None for draw, value in choice.items()}
    return _path_to(recording, place, draws) if draws and None not in lows else None


def _selection_chances(recording: Recording, rows: NoiseRows, first: int) -> Array:
    """Return for each row at most the probability that it is above one of them."""
    base = rows.take(np.full(len(rows.value), first))
    index, weight = np.hstack([rows.index, base.index]), np.hstack([rows.weight, -base.weight])
    above = NoiseRows(value=rows.value - base.value, index=index, weight=weight)
    return other_chances(recording.laws, above, np.zeros(len(rows.value)))


def _path_to(
    recording: Recording, place: int = 0, draws: dict[int, float] | None = None, outcomes: list[int] | None = None
) -> dict[str, Any]:
    """Return what leads along a path to one of its releases, and makes that come out otherwise."""
    terms: dict[str, Any] = {"lean": recording.lean, "tail": recording.tail, "chosen": recording.chosen | (draws or {})}
    if outcomes is None and recording.outcomes is not None:
        outcomes = _outcomes(recording, place)
    return terms if outcomes is None else terms | {"outcomes": outcomes}


def _chances(recording: Recording, entry: ReleaseEntry) -> Array:
    """Return the probability of each option of a choice, of each row of a selection at most, and of the other outcome of each
    comparison at most."""
    if entry.kind == SELECTION:
        return _selection_chances(recording, entry.rows, int(entry.output))
    if entry.log_probabilities is not None:
        return np.asarray(np.exp(entry.log_probabilities - np.logaddexp.reduce(entry.log_probabilities)))
    return other_chances(recording.laws, entry.rows, np.ravel(entry.output))


class OutcomeLedger:
    """Which outcomes of decisions were taken on some path of some pair, by line.

    Attributes:
        open_outcomes: outcomes that no path has taken, each with how it is forced.
        rare_outcomes: those of them with at most the claimed delta.
    """

    def __init__(self, constants: list[Any]) -> None:
        self.open_outcomes, self.rare_outcomes = dict[Key, dict[str, Any]](), dict[Key, dict[str, Any]]()
        self._visits = set[Key]()
        self._turns, self._further_count = 0, 0
        self._further = dict[Key, dict[str, Any]]()  # paths that are tried, and not needed for a proof
        # of the pair that is replayed now: what was taken, which rare outcomes are not private, how likely these are on a path
        self._own_visits, self._leaks, self._masses = set[Key](), set[Key](), list[dict[Key, float]]()
        self._options_of_lines: set[tuple[str, bytes]] = set()
        numbers = [number for item in constants if abs(number := _number(item)) < 1e9]
        self._numbers = list(dict.fromkeys(numbers))[:_MOST_NUMBERS]
        whole = [item for item in constants if type(item) is int and item > 0]
        self._likely = {option for item in whole for option in (item, item - 1)}
        self._leans = [0, -1, *sorted(self._likely)[:_LEANS]]

    @property
    def rare_mass(self) -> float:
        """The probability of outcomes with at most delta each that are not private or not tried, on the worst path tried."""
        keys = self._leaks | self.rare_outcomes.keys()
        return max((sum(mass for key, mass in path.items() if key in keys) for path in self._masses), default=0.0)

    def replays(self, program: Program, base: Attempt, claim: ReplayClaim, seconds: float | None = None) -> Iterator[Attempt]:
        """Yield replays of a pair with other outcomes than any path had before: a few, or as many as there is time for."""
        seed = base.recording.seed
        self.rare_outcomes, self._own_visits, self._leaks, self._masses = {}, set(), set(), []
        late = program.record(base.sides[0], seed, Schedule.LATE).recording
        for recording in dict.fromkeys((late, *(run.recording for run in base.runs))):
            self._note(recording, claim, is_copy=recording is base.runs[1].recording)
        end, count, is_slow = time.process_time() + (seconds or 0.0), 0, program.seconds > SLOW
        first = base.recording
        decides = first.drawn_seeds or "uniform" in first.laws or any(not entry.at_return for entry in first.releases)
        leans = self._leans if decides and seconds is None else []
        if is_slow:  # each on some pairs, in turn
            self._turns += 1
            leans = leans[self._turns // 2 % len(leans) :][:1] if leans and self._turns % 2 else []
        for lean in leans:
            yield self._run(program, base, claim, {"lean": lean, "tail": claim.delta})
        while self.open_outcomes and (count < _FEW_RUNS if seconds is None else time.process_time() < end):
            key, terms = next(iter(self.open_outcomes.items()))
            self._take(key)
            yield self._run(program, base, claim, terms)
            count += 1
        while self._further and seconds is None and self._further_count < (_SLOW_FURTHER if is_slow else _FURTHER):
            key, terms = next(iter(self._further.items()))
            self._visits.add(key)
            del self._further[key]
            self._further_count += 1
            yield self._run(program, base, claim, terms)
        # rare outcomes may break the claim as long as delta pays for them: those that do are counted, not reported
        for key in list(self.rare_outcomes)[: _FEW_RUNS if seconds is None else 0]:
            if not self._run(program, base, claim, self.rare_outcomes.pop(key), notes=False).passes(claim):
                self._leaks.add(key)

    def _run(self, program: Program, base: Attempt, claim: ReplayClaim, terms: dict[str, Any], notes: bool = True) -> Attempt:
        recording = Recording(seed=base.recording.seed, schedule=base.recording.schedule, **terms)
        attempt = replay(program, base.sides, program.run(base.sides[0], recording))
        for run in attempt.runs if notes else ():
            self._note(run.recording, claim, is_copy=run is attempt.runs[1])
        return attempt

    def _note(self, recording: Recording, claim: ReplayClaim, is_copy: bool) -> None:
        """Note the outcomes of a path, and those that it could have had; of a neighbour's copy, how likely these were."""
        new, rare, masses = dict[Key, dict[str, Any]](), dict[Key, dict[str, Any]](), dict[Key, float]()
        for place, entry in enumerate(recording.releases):
            site = entry.site, entry.offset
            is_choice = entry.kind == CHOICE and entry.log_probabilities is not None
            if entry.kind == NUMBER and not entry.at_return and not is_copy:
                new |= self._targets(recording, place)
            if entry.kind not in (EVENT, SELECTION) and not is_choice:
                continue
            # at delta 0 no outcome is rare enough to be left out, so no chance is needed
            chances = _chances(recording, entry) if claim.delta else None
            outputs = np.ravel(entry.output).astype(int).tolist()
            for output in outputs:
                self._take((site, output))
            if entry.kind == SELECTION:
                options = [option for option in range(len(entry.rows.value)) if option != outputs[0]]
            else:
                options = [1 - output for output in outputs] if entry.kind == EVENT else self._options(entry, chances)
            for i, option in enumerate(options):
                chance, key = 1.0 if chances is None else float(chances[i if entry.kind == EVENT else option]), (site, option)
                if chance <= claim.delta:
                    masses[key] = masses.get(key, 0.0) + chance
                group = rare if chance <= claim.delta else new
                visits = self._own_visits if group is rare else self._visits
                if is_copy or key in group or key in visits or key in self.open_outcomes:
                    continue
                path = [*_outcomes(recording, place), option]
                if is_choice:
                    terms: dict[str, Any] | None = _path_to(recording, outcomes=path)
                else:
                    terms = _flip(recording, place, i) if entry.kind == EVENT else _select(recording, entry.rows, place, option)
                group |= {} if terms is None else {key: terms}
        if not is_copy:
            self._further |= {
                key: terms for key, terms in self._further_paths(recording, claim.delta) if key not in self._visits
            }
        self._masses += [masses] if masses else []
        self.open_outcomes = new | self.open_outcomes  # what has just been reached comes first
        self.rare_outcomes = {k: v for k, v in (rare | self.rare_outcomes).items() if k not in self.open_outcomes}

    def _further_paths(self, recording: Recording, delta: float) -> Iterator[tuple[Key, dict[str, Any]]]:
        """Yield paths on which a later comparison of a line comes out otherwise, or numbers of a line have another order."""
        lines: dict[tuple[str, str, int], list[tuple[int, int]]] = {}
        for place, entry in enumerate(recording.releases):
            members = lines.setdefault((entry.kind, entry.site, entry.offset), [])
            if entry.kind in (EVENT, NUMBER) and not entry.at_return and len(members) < _MOST_ORDERED:
                members += [(place, row) for row in range(len(entry.rows.value))][: _MOST_ORDERED - len(members)]
        for (kind, line, offset), members in lines.items():
            site = line, offset
            entries = [recording.releases[place] for place, _ in members]
            for i, (place, row) in enumerate(members[1:] if kind == EVENT else (), 1):
                key = site, ("again", i)
                if key not in self._visits and (not delta or _chances(recording, entries[i])[row] > delta):
                    terms = _flip(recording, place, row)
                    yield from [] if terms is None else [(key, terms)]
            if kind != NUMBER or len(members) < 2:
                continue
            rows = stack_rows([entry.rows.take([row]) for entry, (_, row) in zip(entries, members, strict=True)])
            for sign in (1.0, -1.0):
                rows_by_side = replace(rows, value=sign * rows.value, weight=sign * rows.weight)
                first = int(np.argmax(recording.evaluate(rows_by_side)))
                chances = _selection_chances(recording, rows_by_side, first) if delta else np.ones(len(members))
                for i in np.flatnonzero(chances > delta).tolist():
                    key = site, ("largest" if sign > 0 else "smallest", i)
                    terms = None if i == first or key in self._visits else _select(recording, rows_by_side, members[-1][0], i)
                    yield from [] if terms is None else [(key, terms)]

    def _options(self, entry: ReleaseEntry, chances: Array | None) -> list[int]:
        """Return the options of a choice, the likely ones first; of a place of a random order, these and both ends.

        Where all of a line were returned before, only those whose chances are asked for.
        """
        logs = np.asarray(entry.log_probabilities)
        options = np.flatnonzero(np.isfinite(logs))
        if entry.terms:
            options = options[np.isin(options, [*self._likely, 0, len(logs) - 1])]
        key = entry.site, options.tobytes()
        if key in self._options_of_lines and chances is None:
            return []
        self._options_of_lines.add(key)
        return sorted(options.tolist(), key=lambda option: option not in self._likely)

    def _targets(self, recording: Recording, place: int) -> dict[Key, dict[str, Any]]:
        """Return paths on which numbers are released beside one of the code, rounded or not, or at an end of their law."""
        entry = recording.releases[place]
        targets, rows, site = dict[Key, dict[str, Any]](), entry.rows, (entry.site, entry.offset)
        points: list[tuple[float | None, int]] = [(None, -1), (None, 1)]
        points += [(number + step, side) for number in self._numbers for step, side in _AROUND]
        for (point, side), count in itertools.product(points, sorted({1, min(len(rows.value), _MOST_ROWS)})):
            key = site, (point, side, count)
            if key in self._visits or key in self.open_outcomes:
                continue
            self._visits.add(key)
            from_point, draws = replace(rows, value=rows.value - (point or 0.0)), dict[int, float]()
            for draw, threshold in filter(None, (_threshold(recording, from_point, row) for row in range(count))):
                law = recording.laws[draw]
                value = value_beyond(law, threshold, side) if point is not None else (ends(law) or (0.0, 0.0))[(side + 1) // 2]
                draws |= {} if value is None else {draw: value}
            targets |= {key: _path_to(recording, place, draws)} if draws else {}
        return targets

    def _take(self, key: Key) -> None:
        self._visits.add(key)
        self._own_visits.add(key)
        self.open_outcomes.pop(key, None)
        self.rare_outcomes.pop(key, None)


def _number(item: Any) -> float:
    """Return a constant as a number, a text's too: noise may be written down before it is compared."""
    try:
        return float(item)
    except (TypeError, ValueError, OverflowError):
        return math.inf
