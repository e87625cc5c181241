"""How a small convolutional network moves over images: sizes, windows, and which positions a kernel's taps reach."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from torch import nn

from audit.engine.compiled.straight_line import ADAPTIVE, AVERAGE, CONVOLUTION, MAXIMUM, NORMALISATION, ForwardStep
from audit.engine.layers.convolution import has_even_margins
from audit.engine.layers.convolution_patches import read_geometry

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Window:
    """Positions along one axis that pooling takes together, and its part of what an average divides by."""

    start: int
    stop: int
    divisor: int


@dataclass(frozen=True, slots=True)
class Axis:
    """A convolution along one axis."""

    size: int
    kernel: int
    stride: int
    padding: int
    dilation: int

    @property
    def out(self) -> int:
        return (self.size + 2 * self.padding - self.dilation * (self.kernel - 1) - 1) // self.stride + 1

    @property
    def extent(self) -> int:
        """Positions from the first that the kernel sees to the last of them, margins included, and those of the records."""
        return max(self.size + self.padding, (self.out - 1) * self.stride + (self.kernel - 1) * self.dilation + 1)

    def remainders(self) -> Iterator[tuple[list[int], list[int], list[int], list[int]]]:
        """Yield for each remainder of the stride: positions before the convolution, the place of each among those after it,
        the taps of the kernel that reach it, and how far from there the result of each tap is."""
        for remainder in range(self.stride):
            positions = [x for x in range(self.size) if (x + self.padding) % self.stride == remainder]
            taps = [tap for tap in range(self.kernel) if (remainder - tap * self.dilation) % self.stride == 0]
            places = [(x + self.padding) // self.stride for x in positions]
            yield positions, places, taps, [(remainder - tap * self.dilation) // self.stride for tap in taps]

    @property
    def margin(self) -> Pair:
        """Positions before the result's first and after its last that the way back reads."""
        ends = [place + step for _, places, _, steps in self.remainders() for place in places for step in steps]
        return max(0, -min(ends, default=0)), max(0, max(ends, default=0) + 1 - self.out)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A convolution, a normalisation of groups of channels or a pooling, and the activation after it."""

    kind: str  # `CONVOLUTION`, `NORMALISATION`, `MAXIMUM` or `AVERAGE`
    channels: int  # of the result
    size: Pair  # rows and columns of the result
    axes: tuple[Axis, ...] = ()  # of a convolution: rows and columns
    windows: tuple[tuple[Window, ...], ...] = ()  # of pooling: those of rows and of columns
    activation: int = 0  # 0 none, 1 ReLU, 2 tanh
    path: str = ""  # of the layer with its parameters; "" if it has none
    groups: int = 0  # of normalisation
    epsilon: float = 0.0  # the constant added to the variance

    @property
    def taps(self) -> int:
        """Numbers of a channel that a convolution's kernel sees at a time."""
        return math.prod(axis.kernel for axis in self.axes)


def find_stage(step: ForwardStep, channels: int, size: Pair) -> Stage | None:
    """The stage that a step is for images of some channels and size, or None if compiled code has none for it."""
    match step.layer:
        case nn.Conv2d() as layer if step.kind == CONVOLUTION:
            return _convolution(layer, step.path, channels, size)
        case nn.MaxPool2d() as layer if step.kind == MAXIMUM and _pairs(layer.dilation) == (1, 1) and not layer.return_indices:
            return _pooling(layer, channels, size)
        case nn.AvgPool2d() as layer if step.kind == AVERAGE and layer.divisor_override is None:
            return _pooling(layer, channels, size)
        case nn.AdaptiveAvgPool2d() as layer if step.kind == ADAPTIVE:
            counts = layer.output_size if isinstance(layer.output_size, tuple) else (layer.output_size, layer.output_size)
            windows = tuple(_adaptive(n, n if count is None else count) for n, count in zip(size, counts, strict=True))
            return _pooled(AVERAGE, channels, windows)
        case nn.GroupNorm() as layer if step.kind == NORMALISATION and layer.num_channels == channels:
            path = step.path if layer.affine else ""
            return Stage(
                kind=NORMALISATION, channels=channels, size=size, path=path, groups=layer.num_groups, epsilon=layer.eps
            )
    return None


def _convolution(layer: nn.Conv2d, path: str, channels: int, size: Pair) -> Stage | None:
    if type(layer) is not nn.Conv2d or layer.groups != 1 or layer.in_channels != channels or not has_even_margins(layer):
        return None
    geometry = read_geometry(layer)
    numbers = zip(size, geometry.kernel, geometry.stride, geometry.padding, geometry.dilation, strict=True)
    axes = tuple(Axis(*axis) for axis in numbers)
    if min(axis.out for axis in axes) < 1:
        return None
    rows, columns = axes
    return Stage(kind=CONVOLUTION, channels=layer.out_channels, size=(rows.out, columns.out), axes=axes, path=path)


def _pooling(layer: nn.MaxPool2d | nn.AvgPool2d, channels: int, size: Pair) -> Stage | None:
    kernel, padding = _pairs(layer.kernel_size), _pairs(layer.padding)
    stride = _pairs(layer.kernel_size if layer.stride is None else layer.stride)
    full = isinstance(layer, nn.AvgPool2d) and layer.count_include_pad
    numbers = zip(size, kernel, stride, padding, strict=True)
    windows = tuple(_windows(n, k, s, p, ceil=layer.ceil_mode, whole=full) for n, k, s, p in numbers)
    if not all(axis and all(window.start < window.stop for window in axis) for axis in windows):
        return None
    return _pooled(MAXIMUM if isinstance(layer, nn.MaxPool2d) else AVERAGE, channels, windows)


def _pooled(kind: str, channels: int, windows: tuple[tuple[Window, ...], ...]) -> Stage:
    rows, columns = windows
    return Stage(kind=kind, channels=channels, size=(len(rows), len(columns)), windows=windows)


def _windows(size: int, kernel: int, stride: int, padding: int, *, ceil: bool, whole: bool) -> tuple[Window, ...]:
    """Return the windows of pooling along one axis; with `whole` an average counts the margin."""
    count = (size + 2 * padding - kernel + (stride - 1 if ceil else 0)) // stride + 1
    if ceil and (count - 1) * stride >= size + padding:  # torch drops a window that begins in the far margin
        count -= 1
    windows = []
    for start in range(-padding, count * stride - padding, stride):
        first, last = max(start, 0), min(start + kernel, size)
        # rounded up, the last window may reach beyond the margin, which no average counts
        windows.append(Window(first, last, min(start + kernel, size + padding) - start if whole else last - first))
    return tuple(windows)


def _adaptive(size: int, count: int) -> tuple[Window, ...]:
    # torch's rule: from the floor of one edge to the ceiling of the next, so neighbours may overlap
    parts = [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]
    return tuple(Window(start, stop, stop - start) for start, stop in parts)


def _pairs(value: int | tuple[int, ...]) -> Pair:
    first, second = value if isinstance(value, tuple | list) else (value, value)
    return first, second


def multiplications(channels: int, stages: tuple[Stage, ...]) -> list[int]:
    """Products of two numbers in one pass through each convolution, for one record."""
    counts = [channels, *(stage.channels for stage in stages)]
    return [
        before * after * stage.taps * math.prod(stage.size)
        for (before, after), stage in zip(pairwise(counts), stages, strict=True)
        if stage.axes
    ]
