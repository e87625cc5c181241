"""The rows of two transcripts beside each other, cut into parts that share no draw."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from audit.replays.derived import dependent, name_law
from audit.replays.gaussian_loss import stack_rows
from audit.replays.recording import EVENT, NUMBER, SELECTION, Array, Integers, NoiseRows, Recording
from audit.stats import unit_laws
from audit.stats.blockwise_noise import components


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
    releases: Integers
    sites: tuple[str, ...]

    @property
    def sides(self) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """Return values and weights on the data and on the neighbour."""
        return (self.first, self.first_weights), (self.second, self.second_weights)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Side:
    """All rows of one run: their entries by row and draw, the draws numbered 0, 1, ... in order of drawing."""

    value: Array
    rows: Integers
    draws: Integers
    weights: Array
    laws: list[str]


def _side(recording: Recording, parts: Sequence[NoiseRows]) -> _Side:
    table = stack_rows(parts)
    rows, columns = np.nonzero(table.weight)
    names, draws = np.unique(table.index[rows, columns], return_inverse=True)
    laws = [_law(recording, name) for name in names.tolist()]
    scales = np.array([scale for _, scale in laws])
    weights = table.weight[rows, columns] * scales[draws]
    return _Side(value=table.value, rows=rows, draws=draws, weights=weights, laws=[law for law, _ in laws])


def _law(recording: Recording, draw: int) -> tuple[str, float]:
    law = recording.laws[draw]
    return (name_law(recording, draw) or ("unknown", 1.0)) if law == "derived" else (law, 1.0)


def cut(first: Recording, second: Recording, subset: Sequence[int]) -> list[TranscriptPart] | str:
    """Return the parts of the subset releases, or what makes the draws of both runs incomparable."""
    names = [i for i in subset if first.releases[i].kind in (NUMBER, EVENT, SELECTION)]
    runs = [(run, [run.releases[i].rows for i in names]) for run in (first, second)]
    for run, released in runs:
        if dependent(run, sorted({i for part in released for i in part.index[part.weight != 0].tolist()})):
            return "the noise is made of draws that other noise is made of as well"
    sides = [_side(run, released) for run, released in runs]
    is_aligned = sides[0].laws == sides[1].laws
    # draw by draw only if both runs use the same draws; normal sums are compared by their covariance, whatever they are of
    if not is_aligned and set(sides[0].laws) | set(sides[1].laws) != {"normal"}:
        return f"the noise of both runs is made of other draws: {len(sides[0].laws)} and {len(sides[1].laws)}"
    releases = [first.releases[i] for i in names]
    shapes = [release.rows.value.shape for release in releases]
    owners = np.repeat(np.array(names, dtype=np.int64), [shape[0] for shape in shapes])
    kinds = [release.kind for release, shape in zip(releases, shapes, strict=True) for _ in range(shape[0])]
    outputs = [np.broadcast_to(np.float64(release.output), shape) for release, shape in zip(releases, shapes, strict=True)]
    # an empty first part: no releases are an empty array, which concatenate refuses to make
    numbers = np.concatenate([np.zeros(0), *outputs])
    parts = []
    for rows, entries in _components(sides, owners, kinds, is_aligned):
        draws_of_sides = [np.unique(side.draws[places]) for side, places in zip(sides, entries, strict=True)]
        # one column per draw of either run; a run that does not use it has weight 0
        draws_of_sides = [np.union1d(*draws_of_sides)] * 2 if is_aligned else draws_of_sides
        dense = [np.zeros((len(rows), len(draws))) for draws in draws_of_sides]
        for side, places, draws, table in zip(sides, entries, draws_of_sides, dense, strict=True):
            cells = np.searchsorted(rows, side.rows[places]), np.searchsorted(draws, side.draws[places])
            np.add.at(table, cells, side.weights[places])
        parts.append(
            TranscriptPart(
                first=sides[0].value[rows],
                second=sides[1].value[rows],
                first_weights=dense[0],
                second_weights=dense[1],
                laws=tuple(sides[0].laws[draw] for draw in draws_of_sides[0].tolist()),
                kinds=tuple(kinds[i] for i in rows.tolist()),
                outputs=numbers[rows],
                releases=owners[rows],
                sites=tuple(first.releases[i].site for i in owners[rows].tolist()),
            )
        )
    return [_pair_draws(part) for part in parts]


def _components(
    sides: list[_Side], owners: Integers, kinds: list[str], is_aligned: bool
) -> Iterator[tuple[Integers, list[Integers]]]:
    """Yield groups of rows, ascending, that are joined by a draw on either side or by one selection, and their entries."""
    count, shift = len(kinds), 0 if is_aligned else len(sides[0].laws)
    choices = np.flatnonzero(np.array(kinds, dtype=object) == SELECTION)
    rows = np.concatenate([sides[0].rows, sides[1].rows, choices])
    width = shift + len(sides[1].laws)
    columns = np.concatenate([sides[0].draws, sides[1].draws + shift, owners[choices] + width])
    labels = components(rows, columns, (count, int(columns.max(initial=0)) + 1))[:count]
    names, starts, labels = np.unique(labels, return_index=True, return_inverse=True)
    groups = [_by_label(part, len(names)) for part in (labels, *(labels[side.rows] for side in sides))]
    for name in np.argsort(starts).tolist():
        yield groups[0][name], [group[name] for group in groups[1:]]


def _by_label(labels: Integers, count: int) -> list[Integers]:
    """Return the places of each label from 0 on, ascending."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.cumsum(np.bincount(labels, minlength=count))[:-1])


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
    first, second = (table[:, keep] for table in tables)
    return replace(part, first_weights=first, second_weights=second, laws=tuple(laws[i] for i in keep))
