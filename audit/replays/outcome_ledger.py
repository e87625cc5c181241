"""The outcomes of decisions that the paths of a program took, and paths to the others."""

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
from audit.replays.ranges import ends, value_beyond
from audit.replays.recording import CHOICE, EVENT, NUMBER, SELECTION, Array, Recording, ReleaseEntry, Schedule
from audit.replays.run import Program
from audit.replays.turns import find_threshold, flip, outcome_chances, path_to, select, selection_chances, taken_outcomes

_FEW_RUNS = 12  # with another outcome, of each pair
_MOST_NUMBERS = 8  # in the code, at which numbers are released
_AROUND = ((0, -1), (0, 0), (0, 1), (1, 1), (-1, -1))  # steps from them and sides: just beyond them, before and after rounding
_MOST_ROWS = 64  # released at once, that are moved together
_MOST_ORDERED = 12  # comparisons, or numbers, of one line that are turned or put in another order
_FURTHER, _SLOW_FURTHER = 60, 8  # of such paths, of a program
_LEANS = 6  # numbers in the code that all choices take as their outcome
Key = tuple[tuple[str, int], Any]  # line and instruction, and an outcome


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
        end, count, is_slow = time.process_time() + (seconds or 0.0), 0, program.is_slow
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
            chances = outcome_chances(recording, entry) if claim.delta else None
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
                path = [*taken_outcomes(recording, place), option]
                if is_choice:
                    terms: dict[str, Any] | None = path_to(recording, outcomes=path)
                else:
                    terms = flip(recording, place, i) if entry.kind == EVENT else select(recording, entry.rows, place, option)
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
                if key not in self._visits and (not delta or outcome_chances(recording, entries[i])[row] > delta):
                    terms = flip(recording, place, row)
                    yield from [] if terms is None else [(key, terms)]
            if kind != NUMBER or len(members) < 2:
                continue
            rows = stack_rows([entry.rows.take([row]) for entry, (_, row) in zip(entries, members, strict=True)])
            for sign in (1.0, -1.0):
                rows_by_side = replace(rows, value=sign * rows.value, weight=sign * rows.weight)
                first = int(np.argmax(recording.evaluate(rows_by_side)))
                chances = selection_chances(recording, rows_by_side, first) if delta else np.ones(len(members))
                for i in np.flatnonzero(chances > delta).tolist():
                    key = site, ("largest" if sign > 0 else "smallest", i)
                    terms = None if i == first or key in self._visits else select(recording, rows_by_side, members[-1][0], i)
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
            for draw, threshold in filter(None, (find_threshold(recording, from_point, row) for row in range(count))):
                law = recording.laws[draw]
                value = value_beyond(law, threshold, side) if point is not None else (ends(law) or (0.0, 0.0))[(side + 1) // 2]
                draws |= {} if value is None else {draw: value}
            targets |= {key: path_to(recording, place, draws)} if draws else {}
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
