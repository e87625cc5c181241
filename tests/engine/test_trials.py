"""Outputs that differ by rounding alone, and by more."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from audit.engine.gradients.trials import agree

_SHARE = 1e-3


def _values() -> Tensor:
    return torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_rounding_is_forgiven_by_the_size_of_each_part() -> None:
    values = _values()
    values[2] *= 1e6
    apart = values.clone()
    apart[2] += 100.0
    assert agree(apart, values, _SHARE)
    apart[0, 0, 0] += 1.0  # less than a thousandth of the third part, more than its own that
    assert not agree(apart, values, _SHARE)
    assert agree(apart, values, _SHARE, torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_agree_with_themselves_alone(value: float) -> None:
    values, peer = _values(), _values()
    values[1, 2, 3] = value
    assert agree(values, values.clone(), _SHARE)
    assert not agree(values, peer, _SHARE)
    assert not agree(peer, values, _SHARE)
    peer[1, 2, 3] = -value if math.isinf(value) else math.inf
    assert not agree(peer, values, _SHARE)


def test_other_shapes_do_not_agree() -> None:
    assert not agree(_values(), _values()[:, :2], _SHARE)
    assert agree(torch.zeros(2, 0), torch.zeros(2, 0), _SHARE)
