"""Paths of a program that its plain runs seldom take: near decisions, between thresholds, far out."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from audit.replays.attempts import Attempt, replay
from audit.replays.claims import ReplayClaim
from audit.replays.ranges import ends
from audit.replays.recording import EVENT, NUMBER, Recording
from audit.replays.run import Program
from audit.replays.turns import find_threshold, flip, outcome_chances, taken_outcomes

_MOST_PATHS = 3  # near decisions, of a pair
_PATHS = 8  # of a program that compares; half as many of one that releases several numbers
_LONGEST = 24  # comparisons that are turned on a path, one after the other, so that it goes on
_OUTCOMES = 12  # comparisons with an outcome that is changed, one at a time
_MOST_INTERVALS = 24  # between numbers at which comparisons flip
Runs = tuple[Recording, Recording]


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
            flips = [find_threshold(side, entry.rows, i) for side, entry in zip(late, (left, right), strict=True)]
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
            crossing = find_threshold(recording, entry.rows, row)
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
        outcomes = taken_outcomes(worst.recording)
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
        terms = flip(recording, places[-1], row) if places else None
        if terms is None or (claim.delta and outcome_chances(recording, recording.releases[places[-1]])[row] <= claim.delta):
            return
        first = program.run(attempt.sides[0], Recording(seed=recording.seed, schedule=recording.schedule, **terms))
        attempt = replay(program, attempt.sides, first)
        if len(attempt.recording.releases) <= length:
            return
        yield attempt
        if not attempt.passes(claim):
            return
