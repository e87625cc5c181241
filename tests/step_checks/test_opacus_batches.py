"""Opacus in physical batches: right walks over one logical batch fail by nothing, wrong ones by what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from audit.step_checks.batches import Batch
from audit.step_checks.replayed import replay_findings
from audit.step_checks.run import check_step
from audit.step_checks.step_under_test import StepUnderTest
from audit.step_checks.steps import FunctionStep, Setting

opacus = pytest.importorskip("opacus", reason="needs the extra 'opacus'")
PARAMS = {"weight": torch.randn(3, 4, generator=torch.Generator().manual_seed(0)), "bias": torch.zeros(3)}
SAMPLE: Batch = (torch.randn(16, 4, generator=torch.Generator().manual_seed(1)).numpy(), torch.arange(16).numpy() % 3)
CLAIM = {"noise_multiplier": 1.0, "clip_norm": 0.5, "divisor": 8.0}


def private_step(walk: Callable[..., None]) -> Callable[..., dict[str, torch.Tensor]]:
    """Return a step of Opacus that walks over the physical batches of one logical batch."""

    def step(
        params: Any, batch: Any, generator: Any, *, noise_multiplier: float, clip_norm: float, divisor: float
    ) -> dict[str, torch.Tensor]:
        model = nn.Linear(4, 3)
        model.load_state_dict(params)
        setting = {"noise_multiplier": noise_multiplier, "max_grad_norm": clip_norm, "expected_batch_size": divisor}
        private = opacus.GradSampleModule(model)
        optimizer = opacus.optimizers.DPOptimizer(torch.optim.SGD(private.parameters(), lr=1.0), generator=generator, **setting)
        walk(private, optimizer, torch.utils.data.TensorDataset(*batch))
        return {name: value.detach().clone() for name, value in model.state_dict().items()}

    return step


def pieces(records: Any) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return physical batches of up to 4 records; one without records for a logical batch of none."""
    return list(zip(*(values.split(4) for values in records.tensors), strict=True))


def virtual_steps(model: Any, optimizer: Any, records: Any) -> None:
    """Walk as documented: all physical batches but the last are skipped steps."""
    for i, (x, y) in enumerate(parts := pieces(records)):
        functional.cross_entropy(model(x), y).backward()
        optimizer.signal_skip_step(i < len(parts) - 1)
        optimizer.step()
        optimizer.zero_grad()


def memory_manager(model: Any, optimizer: Any, records: Any) -> None:
    from opacus.utils.batch_memory_manager import BatchMemoryManager

    loader = torch.utils.data.DataLoader(records, batch_sampler=[range(len(records))])
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=4, optimizer=optimizer) as parts:
        for x, y in parts:
            functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()


def steps_of_their_own(model: Any, optimizer: Any, records: Any) -> None:
    """Walk as if each physical batch were accounted for: noise in each."""
    for x, y in pieces(records):
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()


def several_backwards(model: Any, optimizer: Any, records: Any) -> None:
    """Collect gradients of all physical batches; Opacus then divides by their number, which a record changes."""
    for x, y in pieces(records):
        functional.cross_entropy(model(x), y).backward()
    optimizer.step()


def last_piece_alone(model: Any, optimizer: Any, records: Any) -> None:
    """Forget the gradients of all physical batches but the last: a record moves others into it or out of it."""
    for x, y in pieces(records):
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
    optimizer.step()


def no_loop_over_empty(model: Any, optimizer: Any, records: Any) -> None:
    """Walk by a loader, which has no physical batch for a logical batch of none: no noise then."""
    if len(records):
        virtual_steps(model, optimizer, records)


def clipped_after_the_sum(model: Any, optimizer: Any, records: Any) -> None:
    """Accumulate as without privacy, and clip once."""
    parameters = list(model.parameters())
    for x, y in pieces(records):
        functional.cross_entropy(model(x), y, reduction="sum").backward()
    nn.utils.clip_grad_norm_(parameters, optimizer.max_grad_norm * max(1, len(records)))
    for parameter in parameters:
        noise = torch.randn(parameter.shape, generator=optimizer.generator)
        parameter.grad.add_(noise, alpha=optimizer.noise_multiplier * optimizer.max_grad_norm)
        parameter.grad.div_(optimizer.expected_batch_size)
    optimizer.original_optimizer.step()


def less_noise_in_each(model: Any, optimizer: Any, records: Any) -> None:
    """Add the noise in equal parts that sum to the deviation instead of the variance."""
    parts = pieces(records)
    optimizer.noise_multiplier /= len(parts)
    for x, y in parts:
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.slow
@pytest.mark.parametrize("walk", [virtual_steps, memory_manager])
def test_right_walks_fail_by_nothing(walk: Any) -> None:
    report = check_step(private_step(walk), PARAMS, SAMPLE, **CLAIM)
    assert report.failures == report.open == ()


@pytest.mark.slow
def test_a_loop_that_adds_no_noise_without_records_fails_by_it() -> None:
    report = check_step(private_step(no_loop_over_empty), PARAMS, SAMPLE, **CLAIM)
    # the replay sees it too: beside none, one record alone is released with noise
    assert {finding.check for finding in report.failures} == {"replay.loss", "replay.state", "noise.missing"}
    assert "the empty batch" in report.failures[-1].message


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("walk", "words"),
    [
        (steps_of_their_own, "another release"),
        (several_backwards, "the deviation of noise changes"),
        (last_piece_alone, "moves the releases by mu"),
        (clipped_after_the_sum, "moves the releases by mu"),
        (less_noise_in_each, "another release"),
    ],
)
def test_wrong_walks_are_named_by_their_replay(walk: Any, words: str) -> None:
    step = FunctionStep(function=private_step(walk), params=PARAMS)
    loss, *_ = replay_findings(StepUnderTest(step=step, sample=SAMPLE, claimed=Setting(**CLAIM)))
    assert loss.check == "replay.loss" and words in loss.message
