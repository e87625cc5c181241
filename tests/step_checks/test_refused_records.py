"""Steps that refuse some of the records or settings that checks try: they are checked with those that they take."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy

import audit
from audit.core.errors import ConfigError
from audit.step_checks.findings import PropertyStatus, StepReport
from audit.zoo._reference import DpSgdStep, Tensors, copies, outputs, small_parameters


def refuse_beyond_one(inputs: Tensor, labels: Tensor) -> None:
    if len(inputs) and not 0 <= inputs.min() <= inputs.max() <= 1:
        raise ValueError("inputs beyond [0, 1]")


def refuse_non_finite(inputs: Tensor, labels: Tensor) -> None:
    assert torch.isfinite(inputs).all()


def refuse_one_record(inputs: Tensor, labels: Tensor) -> None:
    if len(inputs) == 1:
        raise RuntimeError("size mismatch")


def refuse_empty(inputs: Tensor, labels: Tensor) -> None:
    if not len(inputs):
        raise ZeroDivisionError


@dataclass(frozen=True, eq=False)
class RefusingStep(DpSgdStep):
    """A step that refuses records, with a share of the claimed noise."""

    refuse: Callable[[Tensor, Tensor], None]
    share: float
    law: str

    def record_gradients(self, params: Tensors, inputs: Tensor, labels: Tensor) -> Tensors:
        self.refuse(inputs, labels)
        if not labels.is_floating_point():
            return super().record_gradients(params, inputs, labels)
        weights = copies(params, len(labels))
        loss = binary_cross_entropy(torch.sigmoid(outputs(weights, inputs)[:, 0]), labels, reduction="sum")
        return dict(zip(weights, torch.autograd.grad(loss, list(weights.values())), strict=True))

    def noise(
        self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: torch.Generator
    ) -> Tensors:
        if self.law != "normal":
            return super().noise(params, count, self.share * noise_multiplier, clip_norm, generator)
        draws = torch.distributions.Normal(0.0, self.share * noise_multiplier * clip_norm)  # whose scale has to be positive
        return {name: draws.sample(value.shape) for name, value in params.items()}


def check(*, refuse: Any = refuse_beyond_one, share: float = 1.0, law: str = "", probabilities: bool = False) -> StepReport:
    stream = torch.Generator().manual_seed(0)
    labels: Tensor = torch.randint(0, 2, (40,), generator=stream)
    sample = torch.rand(40, 6, generator=stream), labels.float() if probabilities else labels
    step = RefusingStep(refuse=refuse, share=share, law=law)
    return audit.check_step(step, small_parameters(), sample, noise_multiplier=1.1, clip_norm=1.0, divisor=20)


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


def test_a_witness_holds_no_batch_that_the_step_refuses() -> None:
    class Loose(RefusingStep):
        def factors(self, gradients: Tensors, clip_norm: float) -> Tensor:
            return 2 * super().factors(gradients, clip_norm)

    sample = torch.rand(40, 6, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 2
    step = Loose(refuse=refuse_empty, share=1.0, law="")
    report = audit.check_step(step, small_parameters(), sample, noise_multiplier=1.1, clip_norm=1.0, divisor=20)
    witness = next(finding.witness for finding in report.failures if finding.check == "clip.add")
    assert witness is not None and len(witness.base[0])
