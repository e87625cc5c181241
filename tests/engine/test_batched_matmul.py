"""Sums of rows and products of N models: the same bits for any N, and those of plain arithmetic."""

from __future__ import annotations

import torch

from audit.engine.batched_matmul import rowwise, weighted_rows

STREAM = torch.Generator().manual_seed(3)


def test_weighted_rows_are_the_sum_of_products_and_do_not_depend_on_the_models_beside() -> None:
    values, factors = torch.randn(3, 48, 640, generator=STREAM), torch.rand(3, 48, generator=STREAM)
    sums = weighted_rows(values, factors)
    torch.testing.assert_close(sums, (values * factors.unsqueeze(2)).sum(1))
    for model in range(3):
        assert torch.equal(weighted_rows(values[model : model + 1], factors[model : model + 1])[0], sums[model])


def test_a_product_of_one_model_has_the_bits_of_one_among_several() -> None:
    left, right = torch.randn(3, 480, 64, generator=STREAM), torch.randn(3, 128, 64, generator=STREAM)
    bias = torch.randn(3, 128, generator=STREAM)
    left.requires_grad_()
    together = rowwise(left, right, bias)
    alone = rowwise(left[1:2], right[1:2], bias[1:2])
    assert torch.equal(together[1], alone[0])
    (gradient,) = torch.autograd.grad(together.square().sum(), left)
    (own,) = torch.autograd.grad(alone.square().sum(), left)
    assert torch.equal(gradient[1], own[1])
