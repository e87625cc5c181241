"""Opake's clipping, noise, sampler and accounting through our checks; they run if it is installed (Python 3.13)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from audit.stats.sampling_tests import membership, poisson_tails
from audit.step_checks.run import check_step

SIGNIFICANCE = 1e-7

dpsgd = pytest.importorskip("opake.dpsgd", reason="needs opake, and Python 3.13")
key = pytest.importorskip("opake.random", reason="needs opake, and Python 3.13").key


def loss(params: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return the mean cross entropy of a batch, as Opake asks for it."""
    return torch.nn.functional.cross_entropy(x @ params["weight"].T + params["bias"], y)


def step(
    params: Any, batch: Any, generator: torch.Generator, *, noise_multiplier: float, clip_norm: float, divisor: float
) -> Any:
    """Return the parameters after one step of Opake's clipped gradient and noise."""
    clip, clip_state = dpsgd.clipped_grad(loss, clipping_norm=clip_norm, batch_argnums=(1, 2))
    seed = int(torch.randint(2**31, (), generator=generator))
    noise, noise_state = dpsgd.gaussian_noise(noise_multiplier=noise_multiplier, key=key(seed))
    total, _ = clip(params, *batch, state=clip_state)
    release, _ = noise(total, noise_state)
    return {name: value - release.pytree[name] / divisor for name, value in params.items()}


def test_the_step_is_not_accused() -> None:
    stream, generator = np.random.default_rng(0), torch.Generator().manual_seed(1)
    params = {"weight": torch.randn((3, 6), generator=generator) * 0.5, "bias": torch.zeros(3)}
    sample = (stream.normal(size=(16, 6)).astype(np.float32), stream.integers(3, size=16))
    report = check_step(step, params, sample, noise_multiplier=1.0, clip_norm=0.5, divisor=16.0)
    assert report.failures == (), str(report)


def test_the_sampler_draws_poisson_samples() -> None:
    sampler = dpsgd.PoissonSampler(range(500), sample_rate=0.05, n_steps=200, key=key(3))
    tails = poisson_tails(membership(list(sampler), 500), 0.05)
    assert min(tails.values()) > SIGNIFICANCE


@pytest.mark.parametrize(("sigma", "rate", "steps"), [(1.0, 0.01, 1000), (0.7, 0.05, 100), (2.0, 1.0, 20)])
def test_the_accounting_lies_in_the_bracket(sigma: float, rate: float, steps: int) -> None:
    from audit.api import accountant
    from audit.core.events import dp_sgd

    accounting = dpsgd.accounting
    item = accounting.poisson(accounting.gaussian(sigma), rate)
    bracket = accountant.epsilon(
        dp_sgd(noise_multiplier=sigma, clip_norm=1.0, sample_rate=rate, steps=steps), delta=1e-5, accountants=["pld"]
    )
    stated = (item * steps).epsilon_at(1e-5)
    assert bracket.lower - 1e-6 <= stated <= bracket.upper + 1e-3  # at rate 1 it is 2e-8 below the proved lower end
