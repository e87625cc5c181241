"""Private optimisers as steps: releases are read from gradients, and what was changed is put back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from audit.core.errors import ConfigError
from audit.step_checks.findings import StepReport
from audit.step_checks.optimizer_step import OptimizerStep
from audit.step_checks.probes._state import State
from audit.step_checks.run import check_optimizer
from audit.step_checks.step_under_test import StepUnderTest
from audit.step_checks.steps import Setting


def sample() -> tuple[Any, Any]:
    stream = np.random.default_rng(0)
    return stream.normal(size=(16, 6)).astype(np.float32), stream.integers(3, size=16)


def network() -> nn.Module:
    generator = torch.Generator().manual_seed(1)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.5)
    return model


class BatchClipping:
    """An optimiser that clips the gradient of the batch, as home-made code does, around Adam with weight decay."""

    def __init__(self, model: nn.Module) -> None:
        self.inner = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
        self.noise_multiplier, self.max_grad_norm, self.expected_batch_size = 1.0, 1.0, 16.0
        self.generator: torch.Generator | None = None

    def zero_grad(self) -> None:
        self.inner.zero_grad()

    def step(self) -> None:
        parameters = [parameter for group in self.inner.param_groups for parameter in group["params"]]
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        nn.utils.clip_grad_norm_(parameters, self.max_grad_norm)
        for parameter in parameters:
            noise = torch.randn(parameter.shape, generator=self.generator)
            deviation = self.noise_multiplier * self.max_grad_norm
            parameter.grad = (parameter.grad + deviation * noise) / self.expected_batch_size
        self.inner.step()


def summed(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(outputs, labels, reduction="sum")


def checked(model: Any, optimizer: Any, criterion: Any = summed) -> StepReport:
    claim = {"noise_multiplier": 1.0, "clip_norm": 1.0, "divisor": 16.0}
    return check_optimizer(model, optimizer, criterion, sample(), **claim)


class Refusing(BatchClipping):
    """An optimiser that divides by the records that it saw."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.count = 0
        model.register_forward_hook(lambda _, inputs, outputs: setattr(self, "count", len(outputs)))

    def step(self) -> None:
        _ = 1 / self.count
        super().step()


class Accumulating(BatchClipping):
    """One whose gradients stay from batch to batch."""

    def zero_grad(self) -> None:
        pass


def bench(model: nn.Module, optimizer: Any) -> StepUnderTest:
    step = OptimizerStep(model=model, optimizer=optimizer, criterion=summed)
    return StepUnderTest(step=step, sample=sample(), claimed=Setting(noise_multiplier=1.0, clip_norm=1.0, divisor=16.0))


def test_what_an_optimiser_raises_on_an_empty_batch_is_its_refusal() -> None:
    model = network()
    assert "optimiser, given 0 records: ZeroDivisionError" in bench(model, Refusing(model)).empty_error
    assert bench(model, BatchClipping(model)).empty_error == ""


@pytest.mark.parametrize(("kind", "status"), [(BatchClipping, "passed"), (Accumulating, "failed")])
def test_gradients_that_stay_until_the_next_batch_are_a_failure(kind: Any, status: str) -> None:
    model = network()
    state, _ = State().run(bench(model, kind(model)))
    assert (state.check, state.status) == ("step.state", status)


def test_an_error_of_the_check_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def release(*_: Any) -> None:
        raise TypeError("of the check")

    monkeypatch.setattr(OptimizerStep, "release", release)
    model = network()
    with pytest.raises(TypeError, match="of the check"):
        _ = bench(model, BatchClipping(model)).empty_error


class LaplaceNoise(BatchClipping):
    """An optimiser with Laplace noise, whose scale has to be positive."""

    def step(self) -> None:
        noise = torch.distributions.Laplace(0.0, self.noise_multiplier * self.max_grad_norm)
        for group in self.inner.param_groups:
            nn.utils.clip_grad_norm_(group["params"], self.max_grad_norm)
            for parameter in group["params"]:
                parameter.grad = (parameter.grad + noise.sample(parameter.shape)) / self.expected_batch_size
        self.inner.step()


@pytest.mark.slow
def test_noise_whose_scale_has_to_be_positive_is_checked_without_noise_all_the_same() -> None:
    model = network()
    report = checked(model, LaplaceNoise(model))
    assert {"noise.law", "clip.add"} <= {finding.check for finding in report.failures}


@pytest.mark.slow
def test_clipping_of_the_batch_is_refuted_whatever_adam_and_weight_decay_do() -> None:
    model = network()
    optimizer = BatchClipping(model)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    failed = {finding.check for finding in checked(model, optimizer).failures}
    assert "clip.add" in failed
    assert not failed & {"noise.variance", "noise.law", "noise.repeats", "step.empty"}
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert (optimizer.noise_multiplier, optimizer.max_grad_norm, optimizer.generator) == (1.0, 1.0, None)


def test_an_optimiser_with_less_noise_than_claimed_is_refuted_though_checks_replace_its_noise_multiplier() -> None:
    model = network()
    optimizer = BatchClipping(model)
    optimizer.noise_multiplier = 0.5
    claim = {"noise_multiplier": 1.0, "clip_norm": 1.0, "divisor": 16.0}
    *_, finding = check_optimizer(model, optimizer, summed, sample(), **claim).failures
    assert (finding.check, finding.measured, finding.claimed) == ("noise.variance", 0.5, 1.0)


def test_what_is_no_optimiser_or_trains_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="step and zero_grad"):
        checked(network(), object())
    frozen = network().requires_grad_(False)
    with pytest.raises(ConfigError, match="trainable"):
        checked(frozen, BatchClipping(network()))


@pytest.mark.slow
@pytest.mark.parametrize(("weights", "additive"), [(None, True), ([1.0, 1.0, 20.0], False)])
def test_opacus_with_a_loss_whose_denominator_depends_on_the_batch(weights: list[float] | None, additive: bool) -> None:
    opacus = pytest.importorskip("opacus", reason="needs the extra 'opacus'")
    from torch.utils.data import DataLoader, TensorDataset

    inputs, labels = sample()
    model, data = network(), TensorDataset(torch.tensor(inputs), torch.tensor(labels))
    model, optimizer, _ = opacus.PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(data, batch_size=16),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        poisson_sampling=False,
    )
    criterion = nn.CrossEntropyLoss(weight=None if weights is None else torch.tensor(weights))
    report = checked(model, optimizer, criterion)
    failed = {finding.check for finding in report.failures}
    assert ("sum.additive" not in failed) is additive
    if additive:  # Opacus lets gradients that are not finite pass the clip
        assert [finding.check for finding in report.weaknesses] == ["clip.non_finite"] and not failed


class Flat(nn.Module):
    """A network that takes no empty batch, as tutorials write it."""

    def __init__(self) -> None:
        super().__init__()
        self.body = network()

    def forward(self, x: torch.Tensor) -> Any:
        return self.body(x.view(x.size(0), -1, 2).flatten(1))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "private", "weak"),
    [
        (network, {"grad_sample_mode": "ghost"}, {"clip.non_finite"}),
        (network, {"clipping": "per_layer", "max_grad_norm": [0.5] * 4}, {"clip.non_finite"}),
        (Flat, {}, {"clip.non_finite", "step.empty"}),
    ],
)
def test_opacus_clips_where_its_mode_keeps_the_clip_norm(model: Any, private: dict[str, Any], weak: set[str]) -> None:
    opacus = pytest.importorskip("opacus", reason="needs the extra 'opacus'")
    from torch.utils.data import DataLoader, TensorDataset

    inputs, labels = sample()
    module = model()
    module, optimizer, *criterion, _ = opacus.PrivacyEngine().make_private(
        module=module,
        optimizer=torch.optim.SGD(module.parameters(), lr=0.1),
        data_loader=DataLoader(TensorDataset(torch.tensor(inputs), torch.tensor(labels)), batch_size=16),
        criterion=nn.CrossEntropyLoss(),
        poisson_sampling=False,
        **{"noise_multiplier": 1.0, "max_grad_norm": 1.0} | private,
    )
    report = checked(module, optimizer, criterion[0] if criterion else nn.CrossEntropyLoss())
    assert report.failures == () and {finding.check for finding in report.weaknesses} == weak


class RememberingNetwork(Flat):
    """Keeps a running mean of its raw inputs in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(6))

    def forward(self, x: torch.Tensor) -> Any:
        if len(x):
            self.mean.copy_(0.9 * self.mean + 0.1 * x.detach().mean(0))
        return self.body(x)


@pytest.mark.slow
def test_a_buffer_of_raw_inputs_is_a_release() -> None:
    model = RememberingNetwork()
    failures = {finding.check: finding.message for finding in checked(model, BatchClipping(model)).failures}
    assert "mean" in failures["step.elsewhere"]


class Counting(BatchClipping):
    """Informs an accountant of every step, as Opacus' optimisers do."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.counted: list[float] = []
        self.step_hook: Any = lambda optimizer: optimizer.counted.append(optimizer.noise_multiplier)

    def step(self) -> None:
        if self.step_hook:
            self.step_hook(self)
        super().step()


@pytest.mark.slow
def test_a_training_goes_on_after_the_check_as_if_there_had_been_none() -> None:
    plain, examined = network(), network()
    optimizers = [Counting(plain), Counting(examined)]

    def train(model: nn.Module, optimizer: Counting, steps: int) -> None:
        inputs, labels = (torch.as_tensor(array) for array in sample())
        optimizer.noise_multiplier = 0.0
        for _ in range(steps):
            optimizer.zero_grad()
            summed(model(inputs), labels).backward()
            optimizer.step()

    for model, optimizer in zip((plain, examined), optimizers, strict=True):
        train(model, optimizer, 2)
    checked(examined, optimizers[1])
    for model, optimizer in zip((plain, examined), optimizers, strict=True):
        train(model, optimizer, 2)
    assert optimizers[1].counted == [0.0] * 4  # no probe was accounted for
    for ours, theirs in zip(examined.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)  # nor moved Adam's averages


@pytest.mark.slow
def test_opacus_accounts_for_no_step_of_the_check() -> None:
    opacus = pytest.importorskip("opacus", reason="needs the extra 'opacus'")
    from torch.utils.data import DataLoader, TensorDataset

    inputs, labels = sample()
    model, engine = network(), opacus.PrivacyEngine()
    model, optimizer, _ = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(TensorDataset(torch.tensor(inputs), torch.tensor(labels)), batch_size=16),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        poisson_sampling=False,
    )
    checked(model, optimizer, nn.CrossEntropyLoss())
    assert engine.accountant.history == []
    assert optimizer.step_hook is not None
