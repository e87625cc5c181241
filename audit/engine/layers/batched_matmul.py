"""Batched matrix products of N models, by whichever kernel is faster for their size.

`torch.bmm` hands a batch to the BLAS that torch was built with. For products that are large enough, one call a
model to oneDNN is up to twice as fast on processors with wide vectors that that BLAS leaves unused, and slower on all
others (measured: docs/evidence/speed.md). The choice depends on sizes and the processor's maker alone, so it is the same for
every model and every run on a machine.
"""

import functools
import platform
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from audit.engine.device import on_device

_WORTH_A_CALL = 4_000_000  # operations of one model, from which its own call is faster (measured: docs/evidence/speed.md)

# The gradient of `first` is a product with `second` as it lies in memory. With fewer columns than this, rows one after
# another take 1.5 to 5 times as long as columns one after another, since the BLAS fills each row up to its vectors' width.
_NARROW = 16

# Up to so many columns the BLAS makes each number in one block, so a bias added in place gives the same bits as one that the
# product begins with; products of at least so many numbers are read and written once less that way.
_BLOCK, _LARGE = 384, 1 << 14


def rowwise(first: Tensor, second: Tensor, bias: Tensor | None = None) -> Tensor:
    """`(N, m, o)` = `first` `(N, m, k)` @ `second` `(N, o, k)` transposed, plus `bias` `(N, o)`; differentiable in `first`."""
    if not _loop_is_faster(first, first.shape[1] * first.shape[2] * second.shape[1]):
        if second.shape[1] == 1 or second.shape[2] == 1:
            product = torch.sum(first.unsqueeze(2) * second.unsqueeze(1), 3)  # a vector kernel's sums depend on N
            return product if bias is None else product + bias.unsqueeze(1)
        if second.shape[2] < _NARROW and not on_device(second):
            second = second.transpose(1, 2).contiguous().transpose(1, 2)
        columns = second.transpose(1, 2)
        if bias is None:
            return torch.bmm(first, columns)
        large = first.shape[1] * second.shape[1] >= _LARGE and _NARROW <= second.shape[2] <= _BLOCK
        if not large or on_device(second):
            return torch.baddbmm(bias.unsqueeze(1), first, columns)
        product = torch.bmm(first, columns)
        product.detach().add_(bias.unsqueeze(1))  # of the same numbers, without a node of its own on the way back
        return product
    result: Tensor = _Rowwise.apply(first, second, bias)
    return result


def add_outer(total: Tensor, signal: Tensor, columns: Tensor) -> None:
    """Adds `signal` `(N, m, o)` transposed @ `columns` `(N, m, k)` to `total` `(N, o, k)`."""
    if not _loop_is_faster(columns, signal.numel() // signal.shape[0] * columns.shape[2]):
        total.baddbmm_(signal.transpose(1, 2), columns)
        return
    for place, signal_block, column in zip(total, signal, columns, strict=True):
        place.add_(_linear(signal_block.t(), column.t(), None))


def steady_bmm(first: Tensor, second: Tensor, out: Tensor | None = None) -> Tensor:
    """`(n, m, o)` = `first` `(n, m, k)` @ `second` `(n, k, o)`, with items that do not depend on n.

    A product with one row or one column would go through vector kernels that order their sums by the whole batch.
    """
    if first.shape[1] == 1 or second.shape[2] == 1:
        return torch.sum(first.unsqueeze(3) * second.unsqueeze(1), 2, out=out)
    return torch.bmm(first, second, out=out)


def weighted_rows(values: Tensor, factors: Tensor) -> Tensor:
    """`(N, numbers)`: the rows of `values` `(N, rows, numbers)` added up, times `factors` `(N, rows)`.

    On a CPU one call a model, since products of all models with one row order their sums by N.
    """
    if on_device(values):
        return torch.einsum("nr,nrk->nk", factors, values)
    if len(values) == 1:
        return torch.mv(values[0].t(), factors[0]).unsqueeze(0)
    return torch.stack([torch.mv(block.t(), own) for block, own in zip(values, factors, strict=True)])


@functools.cache
def _blas_takes_vectors() -> bool:
    """True for MKL on a processor of its own maker; on others it leaves vectors of 512 bits unused."""
    maker = platform.processor()
    with suppress(OSError), Path("/proc/cpuinfo").open(encoding="utf-8") as file:
        maker = file.read(4096)
    return torch.backends.mkl.is_available() and "GenuineIntel" in maker


def _loop_is_faster(like: Tensor, multiplications: int) -> bool:
    return (
        2 * multiplications >= _WORTH_A_CALL
        and not _blas_takes_vectors()
        and like.device.type == "cpu"
        and like.dtype == torch.float32
        and torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


def _linear(first: Tensor, second: Tensor, bias: Tensor | None) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(first, second, bias, "none", [], "")
    return product


class _Rowwise(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, first: Tensor, second: Tensor, bias: Tensor | None) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(second)
        if len(first) == 1:
            return _linear(first[0], second[0], None if bias is None else bias[0]).unsqueeze(0)
        biases = [None] * len(first) if bias is None else list(bias)
        out = first.new_empty(first.shape[0], first.shape[1], second.shape[1])
        for place, block, weight_block, shift in zip(out, first, second, biases, strict=True):
            place.copy_(_linear(block, weight_block, shift))
        return out

    @staticmethod
    def backward(ctx: Any, signal: Tensor) -> tuple[Tensor, None, None]:  # type: ignore[override]
        (second,) = ctx.saved_tensors
        if len(signal) == 1:
            return _linear(signal[0], second[0].t(), None).unsqueeze(0), None, None
        gradient = signal.new_empty(signal.shape[0], signal.shape[1], second.shape[2])
        for place, block, weight_block in zip(gradient, signal, second, strict=True):
            place.copy_(_linear(block, weight_block.t(), None))
        return gradient, None, None
