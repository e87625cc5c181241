"""How a path is led to another outcome of one of its decisions, and how likely that is at most."""

from typing import Any

import numpy as np

from audit.replays.ranges import ends, other_chances, value_beyond
from audit.replays.recording import CHOICE, EVENT, SELECTION, Array, NoiseRows, Recording, ReleaseEntry


def find_threshold(recording: Recording, rows: NoiseRows, place: int) -> tuple[int, float] | None:
    """Return the last draw of a row and the value of it at which the row is 0, or None if it has none of a known range."""
    index, weight = rows.index[place], rows.weight[place]
    names = index[weight != 0]
    if not names.size or ends(recording.laws[int(names.max())]) is None:
        return None
    draw = int(names.max())
    own = float(weight[(index == draw) & (weight != 0)].sum())
    rest = float(rows.value[place] + weight @ recording.draws[index]) - own * float(recording.draws[draw])
    return (draw, -rest / own) if own and np.isfinite(rest) else None


def taken_outcomes(recording: Recording, before: int | None = None) -> list[int]:
    """Return the outcomes of comparisons and choices, of the releases before one."""
    entries = recording.releases[:before]
    return [int(part) for entry in entries if entry.kind in (EVENT, CHOICE) for part in np.ravel(entry.output)]


def flip(recording: Recording, place: int, row: int) -> dict[str, Any] | None:
    """Return what makes a comparison come out otherwise, None if it cannot."""
    entry = recording.releases[place]
    crossing = find_threshold(recording, entry.rows, row)
    if crossing is None:
        outcomes = taken_outcomes(recording, place) + [int(output) for output in np.ravel(entry.output)[:row]]
        return path_to(recording, outcomes=[*outcomes, 1 - int(np.ravel(entry.output)[row])])
    draw, threshold = crossing
    value = value_beyond(recording.laws[draw], threshold, 1 if threshold > recording.draws[draw] else -1)
    return None if value is None else path_to(recording, place, draws={draw: value})


def select(recording: Recording, rows: NoiseRows, place: int, option: int) -> dict[str, Any] | None:
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
        return path_to(recording, place, higher)
    lows = [
        beyond(row, float(values[option]), -1) for row in np.flatnonzero(values >= values[option]).tolist() if row != option
    ]
    draws = {draw: value for choice in lows if choice is not None for draw, value in choice.items()}
    return path_to(recording, place, draws) if draws and None not in lows else None


def selection_chances(recording: Recording, rows: NoiseRows, first: int) -> Array:
    """Return for each row at most the probability that it is above one of them."""
    base = rows.take(np.full(len(rows.value), first))
    index, weight = np.hstack([rows.index, base.index]), np.hstack([rows.weight, -base.weight])
    above = NoiseRows(value=rows.value - base.value, index=index, weight=weight)
    return other_chances(recording.laws, above, np.zeros(len(rows.value)))


def path_to(
    recording: Recording, place: int = 0, draws: dict[int, float] | None = None, outcomes: list[int] | None = None
) -> dict[str, Any]:
    """Return what leads along a path to one of its releases, and makes that come out otherwise."""
    terms: dict[str, Any] = {"lean": recording.lean, "tail": recording.tail, "chosen": recording.chosen | (draws or {})}
    if outcomes is None and recording.outcomes is not None:
        outcomes = taken_outcomes(recording, place)
    return terms if outcomes is None else terms | {"outcomes": outcomes}


def outcome_chances(recording: Recording, entry: ReleaseEntry) -> Array:
    """Return the probability of each option of a choice, of each row of a selection at most, and of the other outcome of each
    comparison at most."""
    if entry.kind == SELECTION:
        return selection_chances(recording, entry.rows, int(entry.output))
    if entry.log_probabilities is not None:
        return np.asarray(np.exp(entry.log_probabilities - np.logaddexp.reduce(entry.log_probabilities)))
    return other_chances(recording.laws, entry.rows, np.ravel(entry.output))
