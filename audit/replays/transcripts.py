"""The rows of two transcripts beside each other, cut into parts that share no draw."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit.replays.derived import dependent, name_law
from audit.replays.recording import EVENT, NUMBER, SELECTION, Array, Recording, ReleaseEntry
from audit.stats import unit_laws


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TranscriptPart:
    """NoiseRows of both runs that share draws with no other row: `value + weight @ z`, the draws in the same order on both
    sides.

    Attributes:
        first, second: values on the data and on the neighbour, `(m,)`.
        first_weights, second_weights: `(m, k)`.
        laws: of the draws, `k`; "unknown" if a draw is not followed.
        kinds: of the release of each row.
        outputs: what the program was given: numbers, whether a row is above 0, which row is largest.
        releases: number of the release of each row.
    """

    first: Array
    second: Array
    first_weights: Array
    second_weights: Array
    laws: tuple[str, ...]
    kinds: tuple[str, ...]
    outputs: Array
    releases: NDArray[np.int64]
    sites: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Side:
    """All rows of one run, the draws that they use numbered 0, 1, ... in order of drawing."""

    value: Array
    entries: list[dict[int, float]]
    laws: list[str]


def _side(recording: Recording, releases: Sequence[ReleaseEntry]) -> _Side:
    entries: list[dict[int, float]] = []
    laws: dict[int, tuple[str, float]] = {}
    for release in releases:
        for names, weights in zip(release.rows.index.tolist(), release.rows.weight.tolist(), strict=True):
            row: dict[int, float] = {}
            for name, weight in zip(names, weights, strict=True):
                if weight:
                    if name not in laws:
                        laws[name] = _law(recording, name)
                    row[name] = row.get(name, 0.0) + weight * laws[name][1]
            entries.append(row)
    order = {name: i for i, name in enumerate(sorted(laws))}
    return _Side(
        value=np.concatenate([release.rows.value for release in releases] or [np.zeros(0)]),
        entries=[{order[name]: weight for name, weight in row.items()} for row in entries],
        laws=[laws[name][0] for name in sorted(laws)],
    )


def _law(recording: Recording, draw: int) -> tuple[str, float]:
    law = recording.laws[draw]
    return (name_law(recording, draw) or ("unknown", 1.0)) if law == "derived" else (law, 1.0)


def cut(first: Recording, second: Recording, subset: Sequence[int]) -> list[TranscriptPart] | str:
    """Return the parts of the subset releases, or what makes the draws of both runs incomparable."""
    names = [i for i in subset if first.releases[i].kind in (NUMBER, EVENT, SELECTION)]
    releases = [first.releases[i] for i in names]
    for run in (first, second):
        released = [run.releases[i].rows for i in names]
        if dependent(run, sorted({i for part in released for i in part.index[part.weight != 0].tolist()})):
            return "the noise is made of draws that other noise is made of as well"
    sides = [_side(run, [run.releases[i] for i in names]) for run in (first, second)]
    is_aligned = sides[0].laws == sides[1].laws
    if not is_aligned and set(sides[0].laws) | set(sides[1].laws) != {"normal"}:
        return f"the noise of both runs is made of other draws: {len(sides[0].laws)} and {len(sides[1].laws)}"
    owners = np.concatenate(
        [np.full(len(release.rows.value), i) for release, i in zip(releases, names, strict=True)]
        or [np.zeros(0, dtype=np.int64)]
    )
    kinds = [release.kind for release in releases for _ in release.rows.value]
    outputs = np.concatenate(
        [np.broadcast_to(np.asarray(release.output, dtype=np.float64), release.rows.value.shape) for release in releases]
        or [np.zeros(0)]
    )
    parts = []
    for rows in _components(sides, owners, kinds, is_aligned):
        used = [
            sorted({draw for i in rows for side in group for draw in side.entries[i]})
            for group in ((sides,) * 2 if is_aligned else ((sides[0],), (sides[1],)))
        ]
        dense = []
        for side, draws in zip(sides, used, strict=True):
            column = {draw: j for j, draw in enumerate(draws)}
            table = np.zeros((len(rows), len(draws)))
            for i, row in enumerate(rows):
                for draw, weight in side.entries[row].items():
                    table[i, column[draw]] = weight
            dense.append(table)
        parts.append(
            TranscriptPart(
                first=sides[0].value[rows],
                second=sides[1].value[rows],
                first_weights=dense[0],
                second_weights=dense[1],
                laws=tuple(sides[0].laws[draw] for draw in used[0]),
                kinds=tuple(kinds[i] for i in rows),
                outputs=outputs[rows],
                releases=owners[rows].astype(np.int64),
                sites=tuple(first.releases[int(owners[i])].site for i in rows),
            )
        )
    return [_pair_draws(part) for part in parts]


def _components(sides: list[_Side], owners: Array, kinds: list[str], is_aligned: bool) -> list[list[int]]:
    """Return groups of rows, ascending, that are joined by a draw on either side, or by one selection."""
    parent: dict[object, object] = {}

    def root(node: object) -> object:
        while parent.setdefault(node, node) != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for i in range(len(kinds)):
        root(("row", i))
        for s, side in enumerate(sides):
            for draw in side.entries[i]:
                parent[root(("draw", draw if is_aligned else (s, draw)))] = root(("row", i))
        if kinds[i] == SELECTION:
            parent[root(("release", int(owners[i])))] = root(("row", i))
    groups: dict[object, list[int]] = {}
    for i in range(len(kinds)):
        groups.setdefault(root(("row", i)), []).append(i)
    return list(groups.values())


def _pair_draws(part: TranscriptPart) -> TranscriptPart:
    """Return a part in which two draws that only ever appear as their difference are the one draw that it is."""
    laws = list(part.laws)
    tables = [part.first_weights, part.second_weights]
    if part.first_weights.shape != part.second_weights.shape:
        return part
    partners: set[int] = set()
    for i in range(len(laws)):
        name = unit_laws.pair_law(laws[i])
        for j in range(i + 1, len(laws)):
            if name is None or i in partners or j in partners or laws[j] != laws[i]:
                continue
            if all(np.array_equal(table[:, i], -table[:, j]) for table in tables):
                laws[i] = name
                partners.add(j)
    if not partners:
        return part
    keep = [i for i in range(len(laws)) if i not in partners]
    return TranscriptPart(
        first=part.first, second=part.second, first_weights=tables[0][:, keep], second_weights=tables[1][:, keep],
        laws=tuple(laws[i] for i in keep), kinds=part.kinds, outputs=part.outputs, releases=part.releases, sites=part.sites,
    )  # fmt: skip
