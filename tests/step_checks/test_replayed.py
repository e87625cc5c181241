"""A step's replay proves right steps at 1/sigma and names what is wrong with others, without statistics."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from audit.step_checks.findings import Finding, PropertyStatus
from audit.step_checks.optimizer_step import OptimizerStep
from audit.step_checks.replayed import replay_findings
from audit.step_checks.step_under_test import StepUnderTest
from audit.step_checks.steps import FunctionStep, Setting
from tests.step_checks import library_steps, replayed_steps, unusual_steps

SIGMA = 1.3
QUICK = ("torch.normal", "foreach", "Adam", "shares of micro-batches", "vmap")
RIGHT = replayed_steps.RIGHT | library_steps.RIGHT | unusual_steps.RIGHT
WRONG = replayed_steps.WRONG | library_steps.WRONG | unusual_steps.WRONG
LOSS, STATE = "replay.loss", "replay.state"


def replay(step: Any, sample: Any, clip: float = 1.0, divisor: float = 12.0) -> dict[str, Finding]:
    setting = Setting(noise_multiplier=SIGMA, clip_norm=clip, divisor=divisor)
    bench = StepUnderTest(step=step, sample=tuple(part.numpy() for part in sample), claimed=setting)
    return {finding.check: finding for finding in replay_findings(bench)}


def replay_function(function: Any) -> dict[str, Finding]:
    step = FunctionStep(function=function, params=replayed_steps.parameters())
    return replay(step, replayed_steps.sample())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in RIGHT])
def test_a_right_step_moves_by_one_over_sigma(name: str) -> None:
    findings = replay_function(RIGHT[name])
    assert findings[LOSS].status is PropertyStatus.PASSED, findings[LOSS].message
    assert findings[LOSS].measured == pytest.approx(1 / SIGMA, rel=1e-4)
    assert findings[STATE].status in (PropertyStatus.PASSED, PropertyStatus.QUESTION), findings[STATE].message


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "name", [name if name in replayed_steps.WRONG else pytest.param(name, marks=pytest.mark.slow) for name in WRONG]
)
def test_a_wrong_step_is_refuted(name: str) -> None:
    findings = replay_function(WRONG[name])
    result = [finding.status for finding in findings.values()]
    assert (PropertyStatus.GAP if name in unusual_steps.NOT_FOLLOWED else PropertyStatus.FAILED) in result


@pytest.mark.parametrize("name", replayed_steps.PROBED)
def test_noise_that_cannot_be_followed_is_left_to_the_probes(name: str) -> None:
    findings = replay_function(replayed_steps.PROBED[name])
    assert [finding.status for finding in findings.values()] == [PropertyStatus.GAP]


def cnn() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(4 * 36, 2))


class _MemoryOfInputs(nn.Module):
    """Keeps a running mean of raw outputs in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.net = cnn()
        self.register_buffer("mean", torch.zeros(2))

    def forward(self, x: Any) -> Any:
        output = self.net(x)
        if len(x):
            self.mean.copy_(0.9 * self.mean + 0.1 * output.detach().mean(0))
        return output


class _RawSecondMoment(torch.optim.SGD):
    """Divides by the raw gradient."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.sub_(0.1 * parameter.grad / (parameter.grad_sample.sum(0).abs() + 1e-3))


class _RawMean(torch.optim.SGD):
    """Applies the raw mean past the released gradient."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.sub_(0.1 * parameter.grad_sample.mean(0))


def replay_opacus(model: nn.Module, inner: Any, criterion: Any, mode: str = "hooks", clip: Any = 0.7, **options: Any) -> Any:
    opacus = pytest.importorskip("opacus")
    x, y = torch.randn(24, 1, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(24) % 2
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=8)
    private = opacus.PrivacyEngine().make_private(
        module=model,
        optimizer=inner(model.parameters()),
        data_loader=loader,
        criterion=criterion,
        noise_multiplier=SIGMA,
        max_grad_norm=clip,
        grad_sample_mode=mode,
        poisson_sampling=False,
        **options,
    )
    step = OptimizerStep(model=private[0], optimizer=private[1], criterion=private[2] if mode == "ghost" else criterion)
    return replay(step, (x, y), clip=0.7, divisor=8.0)


def sgd(parameters: Any) -> Any:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


RIGHT_SETUPS: dict[str, dict[str, Any]] = {
    "hooks": {"inner": sgd},
    "Adam": {"inner": torch.optim.Adam},
    "fused Adam": {"inner": lambda p: torch.optim.Adam(p, fused=True)},
    "functorch": {"inner": sgd, "mode": "functorch"},
    "ghost": {"inner": sgd, "mode": "ghost"},
    "per layer": {"inner": sgd, "clip": [0.35] * 4, "clipping": "per_layer"},
}


@pytest.mark.sampled(2)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", ["ghost", *(pytest.param(name, marks=pytest.mark.slow) for name in RIGHT_SETUPS if name != "ghost")]
)
def test_opacus_is_right_at_one_over_sigma(name: str) -> None:
    findings = replay_opacus(cnn(), criterion=nn.CrossEntropyLoss(), **RIGHT_SETUPS[name])
    assert [finding.status for finding in findings.values()] == [PropertyStatus.PASSED] * 2, findings
    assert findings[LOSS].measured == pytest.approx(1 / SIGMA, rel=1e-4)


def _contrast(output: Any, labels: Any) -> Any:
    unit = nn.functional.normalize(output, dim=1)
    return nn.functional.cross_entropy(2 * unit @ unit.T.detach(), torch.arange(len(output)))


WRONG_SETUPS: dict[str, tuple[str, dict[str, Any]]] = {
    "buffer of raw outputs": (STATE, {"model": _MemoryOfInputs(), "inner": sgd, "criterion": nn.CrossEntropyLoss()}),
    "second moment of raw gradients": (LOSS, {"model": cnn(), "inner": lambda p: _RawSecondMoment(p, lr=0.1)}),
    "raw mean applied": (LOSS, {"model": cnn(), "inner": lambda p: _RawMean(p, lr=0.1)}),
    "loss over the sum of weights": (
        LOSS,
        {"model": cnn(), "criterion": nn.CrossEntropyLoss(weight=torch.tensor([1.0, 20.0]))},
    ),
    "loss in the batch": (LOSS, {"model": cnn(), "criterion": _contrast}),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", WRONG_SETUPS)
def test_what_passes_by_opacus_is_refuted(name: str) -> None:
    check, options = WRONG_SETUPS[name]
    findings = replay_opacus(**{"inner": sgd, "criterion": nn.CrossEntropyLoss()} | options)
    assert findings[check].status is PropertyStatus.FAILED, findings
