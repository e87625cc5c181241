"""Slopes of outputs enter a backward pass by two ways, which give the same bits."""

import itertools

import pytest
import torch

from audit.engine.gradients import ghost_clipping


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("special", [0.0, float("inf"), float("nan")])
def test_early_and_late_passes_give_the_same_bits(dtype: torch.dtype, special: float, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = torch.Generator().manual_seed(0)
    weight = torch.randn(5, 3, generator=stream).to(dtype).requires_grad_()
    foreign = torch.ones(2, requires_grad=True)
    records, slopes = (torch.randn(7, width, generator=stream).to(dtype) for width in (5, 3))
    slopes[2, 1] = special
    results = []
    for start in (0, ghost_clipping._EXTRA_NODES):
        monkeypatch.setattr(ghost_clipping, "_PASSES", itertools.count(start))
        gradient, nothing = ghost_clipping.pull_back(records @ weight, slopes, [weight, foreign])
        assert gradient is not None and nothing is None
        results.append(gradient)
    assert torch.equal(*(gradient.nan_to_num() for gradient in results))
    assert torch.equal(*(gradient.isnan() for gradient in results))
