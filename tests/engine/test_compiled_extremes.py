"""Compiled sums if numbers are nearly equal, very large or no numbers, and models that have no shape."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from audit.core.errors import ConfigError
from audit.engine import compile_c
from audit.engine.compiled.compiled_cnn import SOURCE
from audit.engine.compiled.compiled_gradients import client_steps, compilable, compiled_gradients
from audit.engine.gradients.clipping import Clip, Clipping, Rows, stacked_state
from audit.engine.parameter_layout import Layout

pytestmark = pytest.mark.skipif(compile_c.library(SOURCE) is None, reason="this machine has no C compiler")


def compiled_sum(module: nn.Module, inputs: Tensor, labels: Tensor, clip: Clip | None) -> tuple[Tensor, Clipping | None]:
    """Flat sum `(width,)` of one model, in one pass."""
    state = stacked_state([module], torch.float32, torch.device("cpu"))
    architecture = compilable(module, tuple(inputs.shape[1:]))
    assert architecture is not None
    compiled = compiled_gradients(architecture, module, state)
    assert compiled is not None
    total = torch.zeros_like(compiled.flat)
    rows = Rows(inputs=inputs, labels=labels, mask=torch.ones(1, len(inputs), dtype=torch.bool))
    return total[0], compiled.add_sum(rows, clip, total)


def assert_as_exact(module: nn.Module, inputs: torch.Tensor, labels: torch.Tensor, limit: float) -> None:
    """The compiled sum is that of double precision, to `limit` of its largest number."""
    summed, _ = compiled_sum(module, inputs, labels, None)
    loss = F.cross_entropy(module.double()(inputs.double()), labels, reduction="sum")
    parts = torch.autograd.grad(loss, list(module.parameters()))
    largest = max(float(part.abs().max()) for part in parts)
    for slot, part in zip(Layout.of(module).slots, parts, strict=True):
        assert float((slot.view(summed.unsqueeze(0))[0] - part).abs().max()) < limit * largest, slot.name


@pytest.mark.parametrize("offset", [0.0, 100.0, 10_000.0])
def test_group_norm_of_nearly_equal_numbers_is_as_exact_as_of_any(offset: float) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.GroupNorm(1, 2), nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    inputs, labels = offset + torch.randn(8, 2, 6, 6), torch.arange(8) % 3
    assert_as_exact(module, inputs, labels, 1e-6)


def test_group_norm_of_a_deviation_below_the_rounding_of_the_mean() -> None:
    """Numbers 1/128 apart near 100,000, if a float is 1/128 from the next: their mean is none of them."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.GroupNorm(1, 2), nn.Conv2d(2, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(64, 3))
    inputs, labels = 100_000.0 + torch.randint(0, 3, (8, 2, 6, 6)) / 128.0, torch.arange(8) % 3
    assert_as_exact(module, inputs, labels, 1e-5)


@pytest.mark.parametrize("kind", ["alike", "tanh", "normalised"])
def test_a_contribution_stays_within_the_clip_norm_where_all_rounding_goes_one_way(kind: str) -> None:
    """Equal numbers are rounded alike: nothing averages out in a sum of their squares."""
    between: list[nn.Module] = {"alike": [], "tanh": [nn.Tanh()], "normalised": [nn.GroupNorm(1, 32), nn.Tanh()]}[kind]
    for number in range(12):
        torch.manual_seed(number)
        module = nn.Sequential(nn.Conv2d(3, 32, 3), *between, nn.Flatten(), nn.Linear(32 * 144, 3))
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.fill_(float(torch.randn(())))
        inputs = torch.full((1, 3, 14, 14), float(torch.randn(()).exp()))
        summed, clipping = compiled_sum(module, inputs, torch.tensor([number % 3]), Clip(norm=1e-3))
        assert clipping is not None and float(summed.double().norm()) <= 1e-3 * (1 + 1e-6)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("name", ["0.weight", "2.bias", "5.weight"])
def test_weights_that_are_no_numbers_add_nothing_under_a_clip_and_show_without(name: str, value: float) -> None:
    module = nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Conv2d(3, 4, 2), nn.Tanh(), nn.Flatten(), nn.Linear(36, 3)
    )  # fmt: skip
    with torch.no_grad():
        module.get_parameter(name).flatten()[0] = value
    inputs, labels = torch.randn(5, 1, 6, 6), torch.arange(5) % 3
    summed, clipping = compiled_sum(module, inputs, labels, Clip(norm=1.0))
    plain = torch.autograd.grad(F.cross_entropy(module(inputs), labels), list(module.parameters()))
    diverged = not all(bool(part.isfinite().all()) for part in plain)
    assert clipping is not None and bool(summed.isfinite().all()) and float(summed.norm()) <= 5.0 * (1 + 1e-6)
    assert diverged is not bool(clipping.norms.isfinite().all())
    assert bool(compiled_sum(module, inputs, labels, None)[0].isfinite().all()) is not diverged


@pytest.mark.parametrize("module", [nn.LazyConv2d(4, 3), nn.LazyLinear(3), nn.LazyBatchNorm2d(affine=False)])
def test_a_lazy_layer_that_was_never_called_is_named(module: nn.Module) -> None:
    full = nn.Sequential(nn.Conv2d(2, 2, 1), module)
    with pytest.raises(ConfigError, match=r"layer '1' \(Lazy.*has no shape yet"):
        compilable(full, (2, 6, 6))
    with pytest.raises(ConfigError, match="has no shape yet; run one batch through the model"):
        client_steps(full, (torch.zeros(3, 2, 6, 6), torch.zeros(3, dtype=torch.int64)), "on", 1.0)
