"""Sums of rows and products of N models: the same bits for any N, and those of plain arithmetic."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from audit.engine.gradients.clipping import Clip, Rows
from audit.engine.gradients.ghost_clipping import TapeGradients
from audit.engine.layers import batched_matmul
from audit.engine.layers.batched_matmul import add_outer, rowwise, weighted_rows

STREAM = torch.Generator().manual_seed(3)


def test_weighted_rows_are_the_sum_of_products_and_do_not_depend_on_the_models_beside() -> None:
    values, factors = torch.randn(3, 48, 640, generator=STREAM), torch.rand(3, 48, generator=STREAM)
    sums = weighted_rows(values, factors)
    torch.testing.assert_close(sums, (values * factors.unsqueeze(2)).sum(1))
    for model in range(3):
        assert torch.equal(weighted_rows(values[model : model + 1], factors[model : model + 1])[0], sums[model])


@pytest.mark.parametrize("blas", [True, False])
def test_a_product_of_one_model_has_the_bits_of_one_among_several(blas: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batched_matmul, "_blas_takes_vectors", lambda: blas)
    first, right = torch.randn(3, 480, 64, generator=STREAM), torch.randn(3, 128, 64, generator=STREAM)
    bias = torch.randn(3, 128, generator=STREAM)
    first.requires_grad_()
    together = rowwise(first, right, bias)
    alone = rowwise(first[1:2], right[1:2], bias[1:2])
    assert torch.equal(together[1], alone[0])
    (gradient,) = torch.autograd.grad(together.square().sum(), first)
    (alone_gradient,) = torch.autograd.grad(alone.square().sum(), first)
    assert torch.equal(gradient[1], alone_gradient[1])
    sums, signal = torch.zeros(3, 128, 64), together.detach()
    add_outer(sums, signal, first.detach())
    add_outer(alone_sums := torch.zeros(1, 128, 64), signal[1:2], first.detach()[1:2])
    assert torch.equal(sums[1], alone_sums[0])


class Pooled(nn.Module):
    """A linear layer at seven positions of a record, and their mean."""

    def __init__(self, columns: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(columns, outputs)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        pooled: torch.Tensor = self.linear(inputs).tanh().mean(1)
        return pooled


@pytest.mark.parametrize(("columns", "outputs"), [(3, 40), (40, 3), (6, 6)])
def test_kept_gradients_of_any_shape_make_the_clipped_sum_of_plain_autograd(columns: int, outputs: int) -> None:
    module = Pooled(columns, outputs).double()
    state = {name: torch.stack([value.detach(), 2 * value.detach()]) for name, value in module.named_parameters()}
    inputs = torch.randn(2 * 5, 7, columns, generator=STREAM, dtype=torch.float64)
    labels, mask = torch.arange(10) % outputs, torch.ones(2, 5, dtype=torch.bool)
    fast = TapeGradients(module, state)
    fast.module.linear.ghost = False  # type: ignore[union-attr, assignment]
    total = torch.zeros_like(fast.flat)
    fast.add_sum(Rows(inputs=inputs, labels=labels, mask=mask), Clip(norm=0.1), total)
    for model in range(2):
        weights = {name: value[model].requires_grad_() for name, value in state.items()}
        sums = {name: torch.zeros_like(value) for name, value in weights.items()}
        for record in range(5 * model, 5 * model + 5):
            scores = torch.func.functional_call(module, weights, (inputs[record : record + 1],))
            loss = nn.functional.cross_entropy(scores, labels[record : record + 1])
            gradients = dict(zip(weights, torch.autograd.grad(loss, list(weights.values())), strict=True))
            norm = torch.stack([gradient.square().sum() for gradient in gradients.values()]).sum().sqrt()
            for name, gradient in gradients.items():
                sums[name] += gradient * (0.1 / norm).clamp(max=1.0)
        for slot in fast.layout.slots:
            torch.testing.assert_close(slot.view(total)[model], sums[slot.name], rtol=1e-10, atol=1e-13)


def test_norms_by_gram_matrices_or_not_is_no_matter_of_the_models_beside() -> None:
    """Of one model the gradients stay in the cache; were those of all counted, several models took the other way."""
    module = Pooled(64, 64)
    states = [{name: value.detach().expand(models, *value.shape).clone() for name, value in module.named_parameters()}
              for models in (4, 1)]  # fmt: skip
    inputs, labels, norms = torch.randn(4 * 128, 20, 64, generator=STREAM), torch.arange(4 * 128) % 64, []
    for state in states:
        fast, count = TapeGradients(module, state), 128 * len(state["linear.bias"])
        rows = Rows(inputs=inputs[:count], labels=labels[:count], mask=torch.ones(count // 128, 128, dtype=torch.bool))
        clipping = fast.add_sum(rows, Clip(norm=0.1), torch.zeros_like(fast.flat))
        assert clipping is not None
        norms.append(clipping.norms[0])
    assert torch.equal(*norms)


@pytest.mark.parametrize(("positions", "width", "rows", "by_grams"), [
    (1, 2, 16, True), (4, 64, 16, True), (64, 4, 16, False),
    (20, 64, 128, False), (20, 64, 512, True),  # gradients of 128 rows stay in the cache, those of 512 do not
])  # fmt: skip
def test_gram_matrices_are_taken_where_they_cost_less(positions: int, width: int, rows: int, by_grams: bool) -> None:
    module = Pooled(width, width)
    fast = TapeGradients(module, {name: value.detach().unsqueeze(0) for name, value in module.named_parameters()})
    assert fast.module.linear.takes_ghost(positions, width, rows) is by_grams  # type: ignore[union-attr, operator]
