"""Steps that refuse some of the records or settings that checks try: they are checked with those that they take."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy, cross_entropy

import audit
from audit.core.errors import ConfigError
from audit.step_checks.findings import PropertyStatus, StepReport

PARAMS = {"weight": torch.linspace(-0.2, 0.2, 12).reshape(6, 2), "bias": torch.zeros(2)}


def refuse_beyond_one(inputs: Tensor, labels: Tensor) -> None:
    if len(inputs) and not 0 <= inputs.min() <= inputs.max() <= 1:
        raise ValueError("inputs beyond [0, 1]")


def refuse_non_finite(inputs: Tensor, labels: Tensor) -> None:
    assert torch.isfinite(inputs).all()


def refuse_one_record(inputs: Tensor, labels: Tensor) -> None:
    if len(inputs) == 1:
        raise RuntimeError("size mismatch")


def make_step(*, refuse: Callable[[Tensor, Tensor], None], share: float, law: str) -> Callable[..., Mapping[str, Tensor]]:
    def step(
        params: Mapping[str, Tensor],
        batch: tuple[Tensor, Tensor],
        generator: torch.Generator,
        *,
        noise_multiplier: float,
        clip_norm: float,
        divisor: float,
    ) -> Mapping[str, Tensor]:
        inputs, labels = batch
        refuse(inputs, labels)
        total = {name: torch.zeros_like(value) for name, value in params.items()}
        for record, label in zip(inputs, labels, strict=True):
            own = {name: value.clone().requires_grad_() for name, value in params.items()}
            logits = record @ own["weight"] + own["bias"]
            if labels.is_floating_point():
                loss = binary_cross_entropy(torch.sigmoid(logits[0]), label)
            else:
                loss = cross_entropy(logits, label)
            gradients = torch.autograd.grad(loss, list(own.values()))
            length = torch.sqrt(sum((part**2).sum() for part in gradients))
            for name, part in zip(own, gradients, strict=True):
                total[name] += part * (clip_norm / length).clamp(max=1.0) if torch.isfinite(length) else 0.0
        deviation = share * noise_multiplier * clip_norm
        noise = {name: torch.randn(value.shape, generator=generator) * deviation for name, value in params.items()}
        if law == "normal":  # whose scale has to be positive
            noise = {name: torch.distributions.Normal(0.0, deviation).sample(value.shape) for name, value in params.items()}
        return {name: value - (total[name] + noise[name]) / divisor for name, value in params.items()}

    return step


def check(*, refuse: Any = refuse_beyond_one, share: float = 1.0, law: str = "", probabilities: bool = False) -> StepReport:
    stream = torch.Generator().manual_seed(0)
    labels: Tensor = torch.randint(0, 2, (40,), generator=stream)
    sample = torch.rand(40, 6, generator=stream), labels.float() if probabilities else labels
    step = make_step(refuse=refuse, share=share, law=law)
    return audit.check_step(step, PARAMS, sample, noise_multiplier=1.1, clip_norm=1.0, divisor=20)


def failed(report: StepReport) -> set[str]:
    return {finding.check for finding in report.findings if finding.status is PropertyStatus.FAILED}


def test_a_step_that_refuses_inputs_beyond_their_range_is_checked_with_others() -> None:
    report = check()
    assert not failed(report)
    reached = next(finding for finding in report.findings if finding.check == "clip.reached")
    assert "refuses these records: scaled by 1e5" in reached.message


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [{"refuse": refuse_non_finite}, {"probabilities": True, "refuse": refuse_non_finite}, {"law": "normal"}],
    ids=["non-finite inputs", "labels that are no probabilities", "noise multiplier of 0"],
)
def test_what_a_step_refuses_neither_ends_its_check_nor_hides_a_defect(kind: dict[str, Any]) -> None:
    assert not failed(check(**kind))
    assert {"noise.variance", "replay.loss"} <= failed(check(**kind, share=0.8))


def test_a_batch_of_one_record_that_is_refused_is_named_with_the_usual_cause() -> None:
    with pytest.raises(ConfigError, match=r"given 1 record: RuntimeError: size mismatch.*squeeze\(1\)"):
        check(refuse=refuse_one_record)
