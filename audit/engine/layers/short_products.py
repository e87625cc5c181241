"""Products on a GPU's matrix units, which read at most eleven significant bits of a number (TF32), and what stays exact.

A product of two numbers of eleven bits is exact in single precision. So once inputs and signals of a layer are rounded, an
example's gradient from them is the same in the kernels for norms and in those for sums. A signal times a clip factor has up to
24 bits; it is the sum of three numbers of eleven bits each, whose products are exact again. What is left is how sums round.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from audit.engine.device import switched

_LOST_BITS = (1 << 13) - 1  # bits of a number in single precision that the units do not read


def short_kernels(*, active: bool) -> AbstractContextManager[None]:
    """A scope in which a GPU may multiply and convolve by matrix units that read eleven bits, if `active`.

    The switches are the process's: trainings on a GPU run in one thread.
    """
    matmul: Any = torch.backends.cuda.matmul
    convolutions: Any = torch.backends.cudnn
    if not active:
        return nullcontext()
    by_name = hasattr(matmul, "fp32_precision")  # from torch 2.9 on
    places = [matmul, convolutions.conv] if by_name else [matmul, convolutions]
    name, value = ("fp32_precision", "tf32") if by_name else ("allow_tf32", True)
    return switched([(place, name, value) for place in places])


def round_to_eleven_bits(values: Tensor) -> Tensor:
    """`values` in single precision, rounded to eleven significant bits, ties to even; other types and infinities stay."""
    if values.dtype != torch.float32:
        return values
    bits = values.contiguous().view(torch.int32)
    short = bits.add(_LOST_BITS >> 1).add_((bits >> 13) & 1).bitwise_and_(~_LOST_BITS).view(torch.float32)
    return torch.where(values.isfinite(), short, values)


def thirds(values: Tensor) -> tuple[Tensor, ...]:
    """Three tensors of eleven significant bits that add up to `values` exactly; `values` alone in another type."""
    if values.dtype != torch.float32:
        return (values,)
    high = _cut(values)
    middle = _cut(values - high)
    return high, middle, values - high - middle


def _cut(values: Tensor) -> Tensor:
    return values.contiguous().view(torch.int32).bitwise_and(~_LOST_BITS).view(torch.float32)
