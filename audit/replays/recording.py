"""What one run of a program drew and released; in a replay, the releases that are handed back.

A *base draw* has a law of `audit.stats.unit_laws` with location 0 and scale 1, and independent of all others.
`Recording.draw` makes
blocks of them. A noisy number is `value + sum of weight * draw` (`audit.replays.noisy`); `Recording.release` is called when
one leaves
the linear world, and returns plain numbers: those of this run, or in a replay those of the recorded run.

Another library of arrays plugs in by making its noise from the same base draws: it calls `draw` in its sampler, keeps
`index` and
`weight` beside its tensors (or keeps a `NoisyArray` as their shadow), and calls `release` before the numbers are read.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.replays.ranges import ends

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
NUMBER, EVENT, SELECTION, CHOICE, DECLARED = "number", "event", "selection", "choice", "declared"
_LIBRARIES = (
    *("numpy", "scipy", "random.py", "audit/replays", "audit\\replays", "contextlib.py", "pandas"),
    *("packages/torch/", "packages/opacus/"),
)
_MOST_LEANED = 64  # draws and choices that lean: a loop may wait for another


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoiseRows:
    """Linear forms of base draws: `value[i] + sum over j of weight[i, j] * draw[index[i, j]]`.

    Attributes:
        value: `(m,)`.
        index: `(m, w)`: which base draws; 0 with weight 0 fills up.
        weight: `(m, w)`.
    """

    value: Array
    index: Integers
    weight: Array

    @property
    def noisy(self) -> NDArray[np.bool_]:
        """Return which rows hold noise, `(m,)`."""
        return np.asarray(np.any(self.weight != 0, axis=-1))

    def take(self, places: Any) -> NoiseRows:
        """Return some of the rows."""
        return NoiseRows(value=self.value[places], index=self.index[places], weight=self.weight[places])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReleaseEntry:
    """Something that left the run.

    Attributes:
        kind: NUMBER (rows are released as they are), EVENT (only whether each row is above 0), SELECTION (only which row is
        largest),
            CHOICE (one of several, with `log_probabilities`), DECLARED (by `audit.release`).
        rows: the noisy numbers; of a choice, none; of a declared release, its input with no draws.
        output: what the program was given for it, `(m,)` or a single number.
        site: file and line of the program.
        offset: of the instruction: comparisons on one line differ in it.
        at_return: True if it is part of what the program returned.
        log_probabilities: of a choice.
        terms: of a declared release: sensitivity, metric, epsilon and so on.
    """

    kind: str
    rows: NoiseRows
    output: Any
    site: str
    offset: int = 0
    at_return: bool = False
    log_probabilities: Array | None = None
    terms: tuple[Any, ...] = ()


_make_generator = np.random.default_rng  # not the one that stands there while a program runs


class Schedule(StrEnum):
    """When noisy numbers are released; each is a separate program, and its loss is an upper bound."""

    LATE = "late"  # as they leave the linear world
    EARLY = "early"  # at the first sum with data
    COINS = "coins"  # early; uniform draws when drawn, noise when a matrix mixes it; orders are drawn anew on either side


class Recording:
    """One run: its base draws, its releases in order, and remarks on what could not be followed."""

    def __init__(
        self,
        *,
        seed: int,
        frozen: Recording | None = None,
        schedule: Schedule | None = None,
        spread: float = 1.0,
        tail: float = 0.0,
        chosen: dict[int, float] | None = None,
        outcomes: Sequence[int] | None = None,
        coins_for_events: bool = False,
        lean: int | None = None,
        turns: dict[Any, int] | None = None,
    ) -> None:
        self.releases: list[ReleaseEntry] = []
        self.gaps: list[str] = []  # sources of randomness whose law is not known
        self.read_early: list[str] = []  # those of them that are noise of a known law, read before it was added
        self.seeds: list[str] = []  # of generators that the program made
        self.drawn_seeds: dict[str, str] = {}  # numbers that it drew and may use as seeds, with the gap that they are else
        self.used_seeds: set[str] = set()
        self.entropies_given, self.entropies_drawn = set[Any](), set[Any]()  # of sources of bits: by the program, by the system
        self.constants: dict[int, tuple[Any, Any]] = {}  # generators by id whose seed is no secret, with one of plain numbers
        self.twins, self.twin_draws = (
            dict[int, list[Any]](),
            dict[int, set[int]](),
        )  # generators and copies, which of them drew
        self.seed, self.coins = seed, list[Any]()  # coins: draws that choose, of a library of tensors
        self.entropy = _make_generator(seed)
        self.frozen, self.schedule, self.spread, self.tail = frozen, schedule or Schedule.LATE, spread, tail
        self.outcomes = None if outcomes is None else list(outcomes)  # handed in at comparisons and choices, as far as they go
        self.coins_for_events = _make_generator(seed) if coins_for_events else None
        self.chosen = chosen or {}  # values of some draws, by index
        self.lean, self._lean_count = (
            lean,
            0,
        )  # option of the first choices; 0 and -1 send the first draws to one end or the other
        # tests of the code that are to come out otherwise, and how often at most; those that did, their outcomes and arguments
        self.turns, self.turn_log = turns or {}, list[Any]()
        self.parts = dict[Any, list[Any]]()
        self.tests, self.computations, self.test_count, self.note_place = set[tuple[Any, bool]](), set[Any](), 0, 0
        self.public_seeds: frozenset[str] | None = None  # of a library of tensors; None: all but its run's and drawn ones
        self.divergence: str | None = None
        self.at_return = False
        self.laws: list[str] = []  # of each base draw
        self.expressions: dict[str, Any] = {}  # of derived draws, by their index
        self.expression_draws: dict[Any, int] = {}  # index of each expression
        self._draws: Array = np.zeros(0)
        self._size = 0
        self._starts: list[int] = []  # first base draw of each block
        self._sites: list[str] = []  # line that drew it

    @property
    def draws(self) -> Array:
        """The base draws so far, `(k,)`."""
        return self._draws[: self._size]

    def draw(self, law: str, values: Array) -> Integers:
        """Add base draws of a law and return their indices, in the shape of `values`."""
        flat = np.asarray(values, dtype=np.float64).ravel()
        # what is beyond `tail` is paid for by delta: no draw is sent there
        limits = None if self.spread == 1.0 and self.lean is None else ends(law, self.tail)
        if limits is not None and self.spread != 1.0 and law in ("normal", "laplace"):
            flat = np.clip(flat * self.spread, *limits)
        if limits is not None and self.lean in (0, -1) and self._leans():
            flat = np.full(flat.shape, limits[-self.lean if law == "uniform" else 1 + self.lean])
        start, self._size = self._size, self._size + flat.size
        if inside := {i: value for i, value in self.chosen.items() if start <= i < self._size}:
            flat = flat.copy()
            flat[[i - start for i in inside]] = list(inside.values())
        if self._size > self._draws.size:
            self._draws = np.concatenate([self._draws, np.zeros(max(self._size, 256))])
        self._draws[start : self._size] = flat
        self._starts.append(start)
        self._sites.append(find_place()[0])
        self.laws += [law] * flat.size
        return np.arange(start, self._size).reshape(np.shape(values))

    def _leans(self) -> bool:
        self._lean_count += self.lean is not None
        return self.lean is not None and self._lean_count <= _MOST_LEANED

    def evaluate(self, rows: NoiseRows) -> Array:
        """Return the numbers that rows amount to in this run, `(m,)`."""
        if not self._size:
            return rows.value.copy()
        return np.asarray(rows.value + (rows.weight * self._draws[rows.index]).sum(-1))

    def remark_early_read(self, how: str) -> None:
        """Remark that noise of a known law was read before it was added to data."""
        self.gaps.append(f"noise {how} before it was added")
        self.read_early.append(self.gaps[-1])

    def release(self, kind: str, rows: NoiseRows, output: Any, **terms: Any) -> Any:
        """Record a release and return its output: in a replay, the recorded one as long as both runs agree."""
        site, offset = (self._draw_site(rows), 0) if self.at_return else find_place()
        count = len(self.releases)
        if kind in (EVENT, CHOICE) and self.outcomes is not None:
            size = int(np.size(output))
            prefix, self.outcomes = self.outcomes[:size], self.outcomes[size:]
            rest = self._fair_coins(size, terms.get("log_probabilities")) if self.coins_for_events else np.ravel(output)
            output = np.array([*prefix, *rest[len(prefix) :]]).reshape(np.shape(output))
            output = output.astype(bool) if kind == EVENT else int(output)
        elif kind == CHOICE and self._leans():
            output = self._lean(output, terms["log_probabilities"])
        entry = ReleaseEntry(kind=kind, rows=rows, output=output, site=site, offset=offset, at_return=self.at_return, **terms)
        if self.frozen is not None and self.divergence is None:
            self.divergence = self._difference(entry, count)
            if self.divergence is None:
                first = self.frozen.releases[count].output
                entry = replace(entry, output=np.copy(first) if isinstance(output, np.ndarray) else first)
        self.releases.append(entry)
        return entry.output

    def _fair_coins(self, size: int, logs: Array | None) -> Any:
        """Return outcomes of comparisons, or one of the options of a choice, with equal chances."""
        coins = self.coins_for_events or self.entropy
        return coins.random(size) < 0.5 if logs is None else coins.choice(np.flatnonzero(np.isfinite(logs)), size)

    def _lean(self, output: int, logs: Array) -> int:
        options, lean = np.flatnonzero(np.isfinite(logs)), self.lean or 0
        if lean in (0, -1):  # the first or last that is left: an order as it was, or turned round
            return int(options[lean]) if options.size else output
        return lean if lean in options else output

    def _draw_site(self, rows: NoiseRows) -> str:
        """Return the line that drew the last noise of rows: what is returned leaves at no line of the program."""
        last = int(rows.index[rows.weight != 0].max(initial=0))
        return self._sites[int(np.searchsorted(self._starts, last, side="right")) - 1] if self._sites else ""

    def _difference(self, entry: ReleaseEntry, count: int) -> str | None:
        """Return how a release differs in kind, place or size from the recorded one of the same number."""
        earlier, site = self.frozen.releases if self.frozen is not None else [], entry.site
        if count >= len(earlier):
            return f"a release more, at {site}"
        first = earlier[count]
        if (first.kind, first.site) != (entry.kind, site) and not (first.at_return and entry.at_return):
            return f"another release: {first.kind} at {first.site} became {entry.kind} at {site}"
        items = [None if part is None else len(part) for part in (first.log_probabilities, entry.log_probabilities)]
        if items[0] != items[1]:
            return f"a choice among {items[0]} items at {site} became one among {items[1]}"
        if first.rows.value.shape != entry.rows.value.shape or np.shape(first.output) != np.shape(entry.output):
            return f"{len(first.rows.value)} numbers released at {site} became {len(entry.rows.value)}"
        return None


@functools.lru_cache(maxsize=1024)
def is_library(filename: str) -> bool:
    """Return whether code is that of a library, or of this package, and not the program's."""
    return any(part in filename for part in _LIBRARIES)


def find_place() -> tuple[str, int]:
    """Return `file:line` of the code of the program that is running, and its instruction."""
    frame = sys._getframe(1)
    while frame.f_back is not None and is_library(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}", frame.f_lasti


_active: list[Recording] = []


def active() -> Recording | None:
    """Return the recording of the program that runs now, or None."""
    return _active[-1] if _active else None


def activate(recording: Recording) -> None:
    """Make a recording that of the program which runs now."""
    _active.append(recording)


def deactivate() -> None:
    """End the recording of the program that ran."""
    _active.pop()
