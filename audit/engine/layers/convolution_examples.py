"""What single examples add to the weight of a convolution with many channels: their gradients, and norms without them."""

import math

import torch
from torch import Tensor

from audit.engine.layers.convolution_patches import Geometry
from audit.engine.parameter_layout import ALIGNMENT

_GROUPED_POSITIONS = 128  # of an example, from which a grouped library call is faster than products (docs/evidence/speed.md)
_GROUPED_CHANNELS = 16  # whose multiples the library has vectors for
_PATCH_NUMBERS = 1 << 21


def example_gradients(geometry: Geometry, inputs: Tensor, signal: Tensor, rows: int) -> Tensor:
    """Return each example's gradient of the weight, `(rows, outputs, channels, *kernel)`.

    Inputs are `(rows * copies, channels, h, w)`, the signal `(rows * copies, outputs, ...)`. If images are large, by library
    convolutions in which every example is a group; else by products with patches.
    """
    channels, outputs, positions = inputs.shape[1], signal.shape[1], signal.shape[2] * signal.shape[3]
    full = channels % _GROUPED_CHANNELS == 0 and outputs % _GROUPED_CHANNELS == 0
    wide = math.prod(geometry.kernel) > 1 and positions >= _GROUPED_POSITIONS
    if full and wide and inputs.dtype == torch.float32:
        return _by_groups(geometry, inputs, signal, rows)
    signals = _positions_first(signal).reshape(rows, -1, outputs)
    products, copies = signal.new_empty(rows, outputs, math.prod(geometry.kernel) * channels), len(inputs) // rows
    batch = batch_size(geometry, inputs, positions, copies)
    for start in range(0, rows, batch):  # patches of a few examples stay in the cache
        part = signals[start : start + batch]
        patches = columns(geometry, inputs[start * copies : (start + batch) * copies])
        torch.bmm(part.transpose(1, 2), patches.reshape(*part.shape[:2], -1), out=products[start : start + batch])
    return products.view(rows, outputs, *geometry.kernel, channels).permute(0, 1, 4, 2, 3)


def _by_groups(geometry: Geometry, inputs: Tensor, signal: Tensor, rows: int) -> Tensor:
    """`example_gradients` of 16 examples a call, so that one example's bits do not depend on how many there are."""
    copies, shape = len(inputs) // rows, (inputs.shape[1], *geometry.kernel)
    parts = []
    for start in range(0, rows, ALIGNMENT):
        count = min(ALIGNMENT, rows - start)
        piece = slice(start * copies, (start + count) * copies)
        images, signals = (examples_as_channels(values[piece], count) for values in (inputs, signal))
        kernels = signal.new_empty(count * signal.shape[1], *shape)  # of which only the shape is read
        gradient = geometry.backward(signals, images, kernels, (False, True), count)[1]
        parts.append(gradient.view(count, signal.shape[1], *shape))
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def examples_as_channels(images: Tensor, rows: int) -> Tensor:
    """`(copies, rows * channels, h, w)` from `(rows * copies, channels, h, w)`."""
    channels: Tensor = images.unflatten(0, (rows, -1)).transpose(0, 1).flatten(1, 2).contiguous()
    return channels


def _positions_first(images: Tensor) -> Tensor:
    """`(n, h * w, channels)` from `(n, channels, h, w)`."""
    return images.permute(0, 2, 3, 1).reshape(len(images), -1, images.shape[1])


def columns(geometry: Geometry, inputs: Tensor) -> Tensor:
    """Return what the kernel sees at P positions, channels last: `(n, P, kernel * channels)`."""
    images = geometry.pad(inputs).permute(0, 2, 3, 1).contiguous()
    count, height, width, channels = images.shape
    (high, wide), (step_h, step_w), (dil_h, dil_w) = geometry.kernel, geometry.stride, geometry.dilation
    out_h, out_w = geometry.out(height, width)
    line = width * channels
    strides = (height * line, step_h * line, step_w * channels, dil_h * line, dil_w * channels, 1)
    windows = images.as_strided((count, out_h, out_w, high, wide, channels), strides)
    return windows.reshape(count, out_h * out_w, -1)


def gram(geometry: Geometry, inputs: Tensor) -> Tensor:
    """Return the products of what the kernel sees at any two positions, `(n, P, P)`.

    With a step of one they are sums over the kernel of products of two pixels, which are made once.
    """
    if not _by_pixels(geometry, inputs):
        patches = columns(geometry, inputs)
        return torch.bmm(patches, patches.transpose(1, 2))
    images = geometry.pad(inputs)
    (height, width), pixels = images.shape[2:], _positions_first(images)
    places = geometry.out(height, width)
    products = torch.bmm(pixels, pixels.transpose(1, 2)).view(-1, height, width, height, width)
    for axis, (taps, step, length) in enumerate(zip(geometry.kernel, geometry.dilation, places, strict=True), 1):
        total = products.narrow(axis, 0, length).narrow(axis + 2, 0, length)
        for tap in range(1, taps):
            total = total + products.narrow(axis, tap * step, length).narrow(axis + 2, tap * step, length)
        products = total
    return products.reshape(len(inputs), math.prod(places), -1)


def _sizes(geometry: Geometry, inputs: Tensor) -> tuple[int, int]:
    """Pixels of an image with its margins, and positions of the kernel on it."""
    height, width = (size + 2 * margin for size, margin in zip(inputs.shape[2:], geometry.padding, strict=True))
    return height * width, math.prod(geometry.out(height, width))


def _by_pixels(geometry: Geometry, inputs: Tensor) -> bool:
    """True if `gram` takes fewer multiplications from pixels than from patches."""
    pixels, positions = _sizes(geometry, inputs)
    return geometry.stride == (1, 1) and pixels**2 < positions**2 * math.prod(geometry.kernel)


def takes_gram(geometry: Geometry, inputs: Tensor, outputs: int) -> bool:
    """True if norms from Gram matrices take half the multiplications of gradients."""
    (pixels, positions), channels, taps = _sizes(geometry, inputs), inputs.shape[1], math.prod(geometry.kernel)
    of_inputs = pixels**2 if _by_pixels(geometry, inputs) else positions**2 * taps
    multiplications = of_inputs * channels + positions**2 * outputs
    return 2 * multiplications <= positions * outputs * taps * channels


def batch_size(geometry: Geometry, inputs: Tensor, positions: int, copies: int) -> int:
    """Return how many examples to compute with at a time, so that their patches stay in the cache.

    Multiples or parts of 16, so that no block has examples of two models.
    """
    numbers = copies * positions * inputs.shape[1] * math.prod(geometry.kernel)
    fitting = max(1, _PATCH_NUMBERS // numbers)
    return fitting // ALIGNMENT * ALIGNMENT if fitting >= ALIGNMENT else 1 << (fitting.bit_length() - 1)
