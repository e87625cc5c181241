"""What a convolution sees: patches of images, and products with them, image by image."""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.grad import conv2d_input

from audit.engine.device import on_device
from audit.engine.layers.batched_matmul import steady_bmm
from audit.engine.layers.gram_norms import ghost_squares, join_squares
from audit.engine.parameter_layout import ALIGNMENT

# numbers of patches to compute at a time: as the cache holds, and 1 GB on a device
_CACHED_NUMBERS, _DEVICE_NUMBERS = 1 << 18, 1 << 28
# multiplications of one model, from which a device's library is worth a call of its own (docs/evidence/gpu.md)
_LIBRARY_WORK = 1 << 27


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """What a convolution does in addition to its weights."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]

    def out(self, height: int, width: int) -> tuple[int, int]:
        """Rows and columns of the result, for a padded image."""
        sizes = zip((height, width), self.kernel, self.stride, self.dilation, strict=True)
        rows, cols = ((size - dilation * (kernel - 1) - 1) // stride + 1 for size, kernel, stride, dilation in sizes)
        return rows, cols

    def pad(self, inputs: Tensor) -> Tensor:
        """The images `(n, c, h, w)` with their margins of zeros."""
        top, first = self.padding
        return F.pad(inputs, (first, first, top, top)) if top or first else inputs

    def patches(self, inputs: Tensor, *, positions_first: bool) -> Tensor:
        """Return what the kernel sees at P positions of images that are `pad`: `(n, P, c * kernel)` or `(n, c * kernel, P)`."""
        places = _places(self, tuple(inputs.shape[1:]), positions_first, inputs.device)
        return inputs.flatten(1).index_select(1, places.flatten()).view(inputs.shape[0], *places.shape)

    def fold(self, patches: Tensor, shape: torch.Size, *, positions_first: bool) -> Tensor:
        """The transpose of `patches`: every number is added to the place of the image `(n, *shape)` that it came from."""
        (top, first), (height, width) = self.padding, shape[1:]
        if on_device(patches):  # adding by index has no fixed order there
            columns = patches.transpose(1, 2) if positions_first else patches
            options = (self.kernel, self.dilation, self.padding, self.stride)
            return F.fold(columns, (height, width), *options)
        full = (shape[0], height + 2 * top, width + 2 * first)
        places = _places(self, full, positions_first, patches.device)
        padded_rows = patches.new_zeros(patches.shape[0], math.prod(full))
        padded_rows.index_add_(1, places.flatten(), patches.flatten(1))
        return padded_rows.view(-1, *full)[:, :, top : top + height, first : first + width]

    def backward(
        self, signal: Tensor, inputs: Tensor, weight: Tensor, model_gradients: tuple[bool, bool], models: int = 1
    ) -> tuple[Tensor, Tensor]:
        """Return derivatives by inputs and weight, if `model_gradients` asks, of one model or several in channel groups."""
        options = (self.stride, self.padding, self.dilation, False, (0, 0), models, (*model_gradients, False))
        gradients: list[Tensor] = torch.ops.aten.convolution_backward(signal, inputs, weight, None, *options)
        return gradients[0], gradients[1]


def read_geometry(plain: nn.Conv2d) -> Geometry:
    top, first = margins(plain)
    return Geometry(
        kernel=(plain.kernel_size[0], plain.kernel_size[1]),
        stride=(plain.stride[0], plain.stride[1]),
        padding=(top, first),
        dilation=(plain.dilation[0], plain.dilation[1]),
    )


def margins(plain: Any) -> tuple[int, ...]:
    """Return how many zeros a convolution adds on both sides of each axis."""
    if plain.padding == "valid":
        return (0,) * len(plain.kernel_size)
    if plain.padding == "same":
        # with an even kernel, whose margins differ, `audit.engine.layers.convolution` makes them first
        return tuple(dilation * (kernel - 1) // 2 for kernel, dilation in zip(plain.kernel_size, plain.dilation, strict=True))
    return tuple(plain.padding)


@functools.lru_cache(maxsize=128)
def _places(geometry: Geometry, shape: tuple[int, int, int], positions_first: bool, device: torch.device) -> Tensor:
    """Return where in a flattened, padded image of `shape` the patches' numbers are: `(P, c * kernel)` or `(c * kernel, P)`."""
    channels, height, width = shape
    (dil_h, dil_w), (out_h, out_w) = geometry.dilation, geometry.out(height, width)
    rows = dil_h * torch.arange(geometry.kernel[0]).view(-1, 1) + geometry.stride[0] * torch.arange(out_h)
    cols = dil_w * torch.arange(geometry.kernel[1]).view(-1, 1) + geometry.stride[1] * torch.arange(out_w)
    planes = height * width * torch.arange(channels).view(-1, 1, 1, 1, 1)
    places = planes + width * rows.view(1, -1, 1, out_h, 1) + cols.view(1, 1, -1, 1, out_w)
    table = places.reshape(channels * geometry.kernel[0] * geometry.kernel[1], out_h * out_w)
    return (table.t().contiguous() if positions_first else table).to(device)


class PatchRows(torch.autograd.Function):
    """Patches of images that are not padded yet, positions first; differentiable."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, geometry: Geometry) -> Tensor:  # type: ignore[override]
        ctx.geometry, ctx.shape = geometry, inputs.shape[1:]
        return geometry.patches(geometry.pad(inputs), positions_first=True)

    @staticmethod
    def backward(ctx: Any, signal: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        return ctx.geometry.fold(signal, ctx.shape, positions_first=True), None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageProducts:
    """A convolution of N models as one small matrix product an image, a few images at a time so that patches stay in cache.

    On a device the library convolves one model alone, and differentiates large convolutions by the images, model by model.
    """

    geometry: Geometry
    weight: Tensor  # (N, groups, outputs / groups, columns)
    shape: torch.Size  # of one image, not padded
    positions: int

    def blocks(self, images: int) -> Iterator[tuple[slice, slice]]:
        """Parts of so many images, some of one model's, a multiple of 16, or all of some models; and which models these are."""
        models, groups, _, columns = self.weight.shape
        images_per_model = images // models
        numbers = groups * columns * self.positions
        fitting = _DEVICE_NUMBERS if on_device(self.weight) else _CACHED_NUMBERS
        batch = max(ALIGNMENT, fitting // numbers // ALIGNMENT * ALIGNMENT)
        for model in range(0, models, max(1, batch // images_per_model)):
            last = min(models, model + max(1, batch // images_per_model))
            for start in range(0, images_per_model, batch):
                part = min(batch, images_per_model - start) if batch < images_per_model else images_per_model
                begin = model * images_per_model + start
                yield slice(begin, begin + (last - model) * part), slice(model, last)

    def weights(self, part: slice, models: slice) -> Tensor:
        """`(part * groups, outputs / groups, columns)` weight of each image of a part."""
        images = (part.stop - part.start) // (models.stop - models.start)
        return self.weight[models].unsqueeze(1).expand(-1, images, -1, -1, -1).flatten(0, 2)

    def patches(self, padded_images: Tensor) -> Tensor:
        """`(images * groups, columns, P)`."""
        patches = self.geometry.patches(padded_images, positions_first=False)
        return patches.view(-1, self.weight.shape[3], self.positions)

    def product(self, padded_images: Tensor, bias: Tensor | None) -> Tensor:
        """The result `(images, outputs, P)`; `bias` is `(N, outputs)`."""
        models, groups, outputs, _ = self.weight.shape
        if models == 1 and on_device(self.weight):
            shift, geometry = None if bias is None else bias[0], self.geometry
            return F.conv2d(padded_images, self._kernels()[0], shift, geometry.stride, 0, geometry.dilation, groups).flatten(2)
        images = padded_images.shape[0]
        product = padded_images.new_empty(images * groups, outputs, self.positions)
        view = product.view(images, groups * outputs, self.positions)
        for part, own_models in self.blocks(images):
            steady_bmm(
                self.weights(part, own_models),
                self.patches(padded_images[part]),
                product[part.start * groups : part.stop * groups],
            )
            if bias is not None:
                own = bias[part.start * models // images : -(-part.stop * models // images)]
                view[part].unflatten(0, (own.shape[0], -1)).add_(own.view(-1, 1, groups * outputs, 1))
        return view

    def back(self, signal: Tensor) -> Tensor:
        """The derivative by the images, of a signal `(images, outputs, P)`."""
        groups, outputs, columns = self.weight.shape[1:]
        if self._takes_library(signal):
            return self._back_by_library(signal)
        parts = []
        for part, own_models in self.blocks(signal.shape[0]):
            signals = signal[part].reshape(-1, outputs, signal.shape[2])
            weight = self.weights(part, own_models)
            column_gradient = steady_bmm(weight.transpose(1, 2), signals).view(-1, groups * columns, signal.shape[2])
            parts.append(self.geometry.fold(column_gradient, self.shape, positions_first=False))
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def pull_rows_back(self, signal: Tensor) -> Tensor:
        """Return what `back` does, of a signal `(N, rows * P, outputs)`."""
        if self._takes_library(signal):
            return self._back_by_library(signal.reshape(-1, self.positions, signal.shape[2]).transpose(1, 2).contiguous())
        patches = torch.bmm(signal, self.weight.squeeze(1)).view(-1, self.positions, self.weight.shape[3])
        return self.geometry.fold(patches, self.shape, positions_first=True)

    def _takes_library(self, signal: Tensor) -> bool:
        return on_device(signal) and signal.numel() // len(self.weight) * self.weight.shape[3] >= _LIBRARY_WORK

    def _back_by_library(self, signal: Tensor) -> Tensor:
        geometry, (models, groups, _, _) = self.geometry, self.weight.shape
        (top, first), (height, width) = geometry.padding, self.shape[1:]
        places = geometry.out(height + 2 * top, width + 2 * first)
        signals = signal.unflatten(2, places).unflatten(0, (models, -1))
        size = (signals.shape[1], *self.shape)
        options = (geometry.stride, geometry.padding, geometry.dilation, groups)
        parts = [conv2d_input(size, *part, *options) for part in zip(self._kernels(), signals, strict=True)]
        return parts[0] if models == 1 else torch.cat(parts)

    def _kernels(self) -> Tensor:
        """`(N, outputs, channels / groups, *kernel)`."""
        kernels: Tensor = self.weight.flatten(1, 2).unflatten(2, (-1, *self.geometry.kernel))
        return kernels

    def gradients(self, padded_images: Tensor, signal: Tensor) -> Tensor:
        """`(images, outputs, columns)` weight gradient of each image."""
        groups, outputs, columns = self.weight.shape[1:]
        gradient = padded_images.new_empty(padded_images.shape[0] * groups, outputs, columns)
        for part, _ in self.blocks(padded_images.shape[0]):
            signals = signal[part].reshape(-1, outputs, signal.shape[2])
            place = gradient[part.start * groups : part.stop * groups]
            steady_bmm(signals, self.patches(padded_images[part]).transpose(1, 2), place)
        return gradient.view(padded_images.shape[0], groups * outputs, columns)

    def ghost_norms(self, padded_images: Tensor, signal: Tensor, bias: float) -> tuple[Tensor, Tensor | None]:
        """`(images,)` squared norms by Gram matrices of one group, and where they are lost in rounding; see `ghost_squares`."""
        return join_squares(
            [
                ghost_squares(self.patches(padded_images[part]).transpose(1, 2), signal[part].transpose(1, 2), bias)
                for part, _ in self.blocks(padded_images.shape[0])
            ]
        )
