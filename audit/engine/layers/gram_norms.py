"""Norms of sums of outer products by Gram matrices, and where single precision loses them."""

from collections.abc import Sequence

import torch
from torch import Tensor

from audit.engine.device import on_device

# share of the sizes of its terms by which a sum in single precision may be off: 2^-30 was seen in examples made for it
_ROUNDING = 2.0**-25
CANCELLATION = 2.0**-8  # share of a sum's terms that has to be left of it for single precision to hold its size


def ghost_squares(inputs: Tensor, signals: Tensor, bias: float) -> tuple[Tensor, Tensor | None]:
    """Squared norms `(n,)` of the gradients `signals.T @ inputs`, and where they are lost in rounding, or None if nowhere.

    Gram matrices of inputs `(n, P, columns)` and signals `(n, P, outputs)` add P^2 numbers with sizes that add up to at most
    `(sum |input| |signal|)^2` over the P positions. If inputs are large and alike and signals oppose, what is left of them is
    small, and rounding of single precision is not. `bias` is 1 if one takes part, else 0.
    """
    if on_device(inputs):
        # no look at numbers in between: double precision has room for what cancels, and a norm is larger by what the sum, in
        # single precision, may miss, so that no example moves it by more than the clip norm
        inputs, signals, dtype = inputs.double(), signals.double(), inputs.dtype
        gram, slopes = torch.bmm(inputs, inputs.transpose(1, 2)).add_(bias), torch.bmm(signals, signals.transpose(1, 2))
        missed = 0.0 if dtype == torch.float64 else _ROUNDING * _sizes(gram, slopes)
        return gram.mul_(slopes).sum((1, 2)).clamp_(min=0.0).sqrt_().add_(missed).square_().to(dtype), None
    return gram_squares(torch.bmm(inputs, inputs.transpose(1, 2)).add_(bias), torch.bmm(signals, signals.transpose(1, 2)))


def gram_squares(gram: Tensor, slopes: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return what `ghost_squares` returns, of Gram matrices of inputs and signals `(n, P, P)`; the first is overwritten."""
    sizes = _sizes(gram, slopes).square_()
    squares = gram.mul_(slopes).sum((1, 2)).clamp_(min=0.0)
    if squares.dtype == torch.float64:
        return squares, None
    cancellation = squares < CANCELLATION * sizes
    return squares, cancellation if bool(cancellation.any()) else None


def join_squares(parts: Sequence[tuple[Tensor, Tensor | None]]) -> tuple[Tensor, Tensor | None]:
    """Return what `ghost_squares` says of several parts as one."""
    squares = torch.cat([part for part, _ in parts])
    if all(cancellation is None for _, cancellation in parts):
        return squares, None
    masks = [torch.zeros_like(part, dtype=torch.bool) if mask is None else mask for part, mask in parts]
    return squares, torch.cat(masks)


def _sizes(gram: Tensor, slopes: Tensor) -> Tensor:
    """Return the sum of the sizes of the products of signals and inputs, `(n,)`, of their Gram matrices."""
    return (gram.diagonal(dim1=1, dim2=2) * slopes.diagonal(dim1=1, dim2=2)).clamp_(min=0.0).sqrt_().sum(1)
