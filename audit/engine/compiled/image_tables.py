"""Where compiled code for convolutional networks reads and writes: tables of places, made once for an architecture.

All places are counted in vectors, of which one holds a number of each record that goes through together.
"""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.core.data import Array
from audit.engine.compiled.image_geometry import Pair, Stage
from audit.engine.compiled.straight_line import AVERAGE, CONVOLUTION, MAXIMUM, NORMALISATION

_WHOLE, _TABLE = ctypes.c_int64, ctypes.c_void_p
_KINDS = (CONVOLUTION, MAXIMUM, AVERAGE, NORMALISATION)


class ImageStruct(ctypes.Structure):
    """An image between two stages: its values, and the derivatives of the loss by them."""

    _fields_ = (
        *((name, _WHOLE) for name in ("channels", "positions", "values", "value_area", "signals", "signal_area")),
        ("value_places", _TABLE),
        ("signal_places", _TABLE),
    )


class ShareStruct(ctypes.Structure):
    """Positions before a convolution that the same taps of its kernel reach."""

    _fields_ = (
        *((name, _WHOLE) for name in ("taps", "positions", "packing")),
        *((name, _TABLE) for name in ("tap_numbers", "reach", "from", "to")),
    )


class StageStruct(ctypes.Structure):
    """A convolution or a pooling."""

    _fields_ = (
        *((n, _WHOLE) for n in ("kind", "activation", "weight", "bias", "gradient", "depth", "packing", "shares")),
        *((name, _TABLE) for name in ("reach", "from", "shared", "starts", "members", "divisors")),
        ("groups", _WHOLE),
        ("epsilon", ctypes.c_double),
    )


@dataclass(frozen=True, slots=True)
class Plane:
    """Rows and columns of one channel with margins of zeros round `size` positions."""

    size: Pair
    before: Pair  # margins ahead of the first
    rows: int  # positions, margins included, as are columns
    columns: int

    @property
    def area(self) -> int:
        """Positions, margins included."""
        return self.rows * self.columns

    def places(self, rows: Sequence[int] | None = None, columns: Sequence[int] | None = None) -> Array:
        """Places of positions, which may be in the margins: those of a grid of rows and columns, or all of `size`."""
        height, width = self.size
        row, column = np.asarray(range(height) if rows is None else rows), range(width) if columns is None else columns
        grid: Array = (row[:, None] + self.before[0]) * self.columns + np.asarray(column) + self.before[1]
        return grid.flatten()


def planes(shape: tuple[int, int, int], stages: Sequence[Stage]) -> tuple[list[Plane], list[Plane | None]]:
    """Planes of the values and of the signals of all images; None if no parameter needs the signals."""
    sizes = [(shape[1], shape[2]), *(stage.size for stage in stages)]
    values, signals = [], list[Plane | None]()
    for number, size in enumerate(sizes):
        if number < len(stages) and stages[number].axes:
            rows, columns = stages[number].axes
            values.append(Plane(size, (rows.padding, columns.padding), rows.extent, columns.extent))
        else:
            values.append(Plane(size, (0, 0), *size))
        if not any(stage.path for stage in stages[:number]):
            signals.append(None)
            continue
        margins = [] if signals[number - 1] is None else [axis.margin for axis in stages[number - 1].axes]
        (top, below), (first, last) = margins or [(0, 0), (0, 0)]
        signals.append(Plane(size, (top, first), size[0] + top + below, size[1] + first + last))
    return values, signals


def workspace_vectors(shape: tuple[int, int, int], stages: Sequence[Stage]) -> int:
    """Return how many vectors the images and their signals take."""
    values, signals = planes(shape, stages)
    channels = [shape[0], *(stage.channels for stage in stages)]
    areas = [plane.area + (signal.area if signal is not None else 0) for plane, signal in zip(values, signals, strict=True)]
    return sum(count * area for count, area in zip(channels, areas, strict=True))


class Tables:
    """Tables of one architecture (of a `Network`), and the memory they are in; compiled code is given `images` and `list`."""

    def __init__(
        self, shape: tuple[int, int, int], stages: Sequence[Stage], weights: Sequence[int], biases: Sequence[int]
    ) -> None:
        self._memory: list[Any] = []
        self._values, self._signals = planes(shape, stages)
        self._channels = [shape[0], *(stage.channels for stage in stages)]
        self.vectors = self.gradients = self.packing = 0
        self.images = (ImageStruct * (len(stages) + 1))(*(self._image(number) for number in range(len(stages) + 1)))
        starts = iter(zip(weights, biases, strict=True))
        structs = []
        for number, stage in enumerate(stages):
            weight, bias = next(starts) if stage.path else (-1, -1)
            if stage.axes:
                structs.append(self._convolution(number, stage, weight, bias))
            elif stage.windows:
                structs.append(self._pooling(number, stage))
            else:
                structs.append(self._normalisation(stage, weight, bias))
        self.list = (StageStruct * len(stages))(*structs)

    def _table(self, values: Any) -> int:
        table = np.ascontiguousarray(values, dtype=np.int32).flatten()
        self._memory.append(table)
        return int(table.ctypes.data)

    def _image(self, number: int) -> ImageStruct:
        values, signals, channels = self._values[number], self._signals[number], self._channels[number]
        struct = ImageStruct(
            channels=channels, positions=math.prod(values.size), values=self.vectors, value_area=values.area, signals=-1,
            value_places=self._table(values.places()),
        )  # fmt: skip
        self.vectors += channels * values.area
        if signals is not None:
            struct.signals, struct.signal_area = self.vectors, signals.area
            struct.signal_places = self._table(signals.places())
            self.vectors += channels * signals.area
        return struct

    def _convolution(self, number: int, stage: Stage, weight: int, bias: int) -> StageStruct:
        plane, channels, outputs = self._values[number], self._channels[number], stage.channels
        rows, columns = stage.axes
        taps = [
            row * rows.dilation * plane.columns + column * columns.dilation
            for row, column in itertools.product(range(rows.kernel), range(columns.kernel))
        ]
        height, width = (np.arange(axis.out) * axis.stride for axis in stage.axes)
        depth = channels * stage.taps
        struct = StageStruct(
            kind=_KINDS.index(stage.kind), activation=stage.activation, weight=weight, bias=bias, gradient=self.gradients,
            depth=depth, packing=self.packing,
            reach=self._table([channel * plane.area + tap for channel in range(channels) for tap in taps]),
        )  # fmt: skip
        setattr(struct, "from", self._table(height[:, None] * plane.columns + width))
        self.gradients += outputs * (depth + (bias >= 0))
        self.packing += outputs * depth
        if self._signals[number] is not None:
            shares = self._shares(number, stage)
            self._memory.append((ShareStruct * len(shares))(*shares))
            struct.shares, struct.shared = len(shares), ctypes.addressof(self._memory[-1])
        return struct

    def _shares(self, number: int, stage: Stage) -> list[ShareStruct]:
        """Return how the signals after a convolution become those before it, by the remainders of the stride."""
        before, after = self._signals[number], self._signals[number + 1]
        if before is None or after is None:
            raise ValueError(f"stage {number} has no signals on one of its sides")
        shares = []
        for rows, columns in itertools.product(*(list(axis.remainders()) for axis in stage.axes)):
            if not rows[0] or not columns[0]:
                continue
            steps = [row * after.columns + column for row, column in itertools.product(rows[3], columns[3])]
            taps = [row * stage.axes[1].kernel + column for row, column in itertools.product(rows[2], columns[2])]
            share = ShareStruct(
                taps=len(taps), positions=len(rows[0]) * len(columns[0]), packing=self.packing, tap_numbers=self._table(taps),
                reach=self._table([output * after.area + step for output in range(stage.channels) for step in steps]),
                to=self._table(before.places(rows[0], columns[0])),
            )  # fmt: skip
            setattr(share, "from", self._table(after.places(rows[1], columns[1])))
            self.packing += stage.channels * len(taps) * self._channels[number]
            shares.append(share)
        return shares

    def _normalisation(self, stage: Stage, weight: int, bias: int) -> StageStruct:
        struct = StageStruct(
            kind=_KINDS.index(stage.kind), activation=stage.activation, weight=weight, bias=bias, gradient=self.gradients,
            depth=1, groups=stage.groups, epsilon=stage.epsilon,
        )  # fmt: skip
        self.gradients += stage.channels * ((weight >= 0) + (bias >= 0))
        return struct

    def _pooling(self, number: int, stage: Stage) -> StageStruct:
        width = self._values[number].size[1]
        members, divisors = [], []
        for row, column in itertools.product(*stage.windows):
            pairs = itertools.product(range(row.start, row.stop), range(column.start, column.stop))
            members.append([y * width + x for y, x in pairs])
            divisors.append(row.divisor * column.divisor)
        return StageStruct(
            kind=_KINDS.index(stage.kind), activation=stage.activation, weight=-1, bias=-1,
            starts=self._table(np.cumsum([0, *map(len, members)])), members=self._table(list(itertools.chain(*members))),
            divisors=self._table(divisors),
        )  # fmt: skip
