"""Hugging Face trainers as steps: their own `training_step`, callbacks before the optimiser, and their optimiser."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from audit.core.errors import ConfigError, DataError
from audit.step_checks.findings import StepReport
from audit.step_checks.run import check_trainer

CLAIM = {"noise_multiplier": 1.0, "clip_norm": 0.4, "divisor": 16.0}
"""A clip norm that the records reach, since steps whose settings are fixed are tested at the claimed one alone."""


def sample() -> dict[str, Any]:
    stream = np.random.default_rng(0)
    return {"x": stream.normal(size=(16, 6)).astype(np.float32), "labels": stream.integers(3, size=16)}


class Network(nn.Module):
    """A classifier that returns its loss, as models of transformers do."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.body = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.5)

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        logits = self.body(x)
        return (
            {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}
            if labels is not None
            else {"logits": logits}
        )


class StandIn:
    """What the step uses of a trainer; trains without privacy."""

    def __init__(self, model: nn.Module, **args: Any) -> None:
        self.model, self.optimizer = model, None
        self.args = SimpleNamespace(
            **{"gradient_accumulation_steps": 1, "world_size": 1, "max_grad_norm": 0.0, "device": "cpu"} | args
        )
        self.accelerator = SimpleNamespace(clip_grad_norm_=nn.utils.clip_grad_norm_)
        self.callback_handler = SimpleNamespace(on_pre_optimizer_step=lambda *_: self.before_step())
        self.state = self.control = None

    def create_optimizer(self) -> None:
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, weight_decay=0.1)

    def _get_num_items_in_batch(self, batches: Any, device: str) -> None:
        return None

    def training_step(self, model: nn.Module, inputs: dict[str, torch.Tensor], items: Any) -> None:
        model(**inputs)["loss"].backward()

    def before_step(self) -> None:
        pass


class PrivateStandIn(StandIn):
    """Clips each record in its own `training_step` and adds noise in a callback."""

    def training_step(self, model: nn.Module, inputs: dict[str, torch.Tensor], items: Any) -> None:
        totals = [torch.zeros_like(parameter) for parameter in model.parameters()]
        for i in range(len(inputs["labels"])):
            loss = model(inputs["x"][i : i + 1], inputs["labels"][i : i + 1])["loss"]
            gradients = torch.autograd.grad(loss, list(model.parameters()))
            norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
            factor = min(1.0, CLAIM["clip_norm"] / float(norm)) if torch.isfinite(norm) else 0.0
            if factor:
                totals = [total + gradient * factor for total, gradient in zip(totals, gradients, strict=True)]
        for parameter, total in zip(model.parameters(), totals, strict=True):
            parameter.grad = total

    def before_step(self) -> None:
        for parameter in self.model.parameters():
            assert parameter.grad is not None
            parameter.grad += CLAIM["clip_norm"] * torch.randn(parameter.shape)
            parameter.grad /= CLAIM["divisor"]


class TutorialTrainer(StandIn):
    """The trainer of tutorials: `training_step` of the older signature clips each tensor of the batch's mean, and steps."""

    def training_step(self, model: nn.Module, inputs: dict[str, torch.Tensor]) -> torch.Tensor:  # type: ignore[override]
        loss = model(**inputs)["loss"]
        loss.backward()
        for parameter in model.parameters():
            assert parameter.grad is not None
            parameter.grad *= min(1.0, CLAIM["clip_norm"] / (float(parameter.grad.norm()) + 1e-6))
            parameter.grad += CLAIM["clip_norm"] * CLAIM["noise_multiplier"] * torch.randn_like(parameter.grad)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()


def codes(report: StepReport) -> set[str]:
    return {finding.check for finding in report.failures}


@pytest.mark.slow
def test_a_private_training_step_with_noise_in_a_callback_is_not_accused() -> None:
    model = Network()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    trainer = PrivateStandIn(model)
    report = check_trainer(trainer, sample(), **CLAIM)
    assert report.failures == () and report.name == "PrivateStandIn on Network"
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert trainer.optimizer is not None and not trainer.optimizer.state


@pytest.mark.slow
def test_clipping_of_the_batch_and_no_noise_are_refuted() -> None:
    report = check_trainer(StandIn(Network(), max_grad_norm=CLAIM["clip_norm"] / CLAIM["divisor"]), sample(), **CLAIM)
    assert "noise.missing" in codes(report)
    assert "clip.add" in codes(report)


@pytest.mark.slow
def test_the_trainer_of_tutorials_ends_in_its_finding() -> None:
    assert {"clip.add", "replay.loss"} <= codes(check_trainer(TutorialTrainer(Network()), sample(), **CLAIM))


def test_what_cannot_be_checked_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"transformers\.Trainer"):
        check_trainer(object(), sample(), **CLAIM)
    with pytest.raises(ConfigError, match="gradient_accumulation_steps"):
        check_trainer(StandIn(Network(), gradient_accumulation_steps=4), sample(), **CLAIM)
    with pytest.raises(ConfigError, match="2 processes"):
        check_trainer(StandIn(Network(), world_size=2), sample(), **CLAIM)
    with pytest.raises(DataError, match="labels"):
        check_trainer(StandIn(Network()), {"x": sample()["x"]}, **CLAIM)


@pytest.mark.slow
@pytest.mark.parametrize("private", [False, True])
def test_the_trainer_of_transformers(private: bool, tmp_path: Any) -> None:
    transformers = pytest.importorskip("transformers", reason="needs the extra 'llm'")
    opacus = pytest.importorskip("opacus", reason="needs the extra 'opacus'")
    from torch.utils.data import DataLoader, TensorDataset

    arrays = sample()
    model: nn.Module = Network()
    optimizer: Any = torch.optim.SGD(model.parameters(), lr=0.1)
    if private:
        data = TensorDataset(torch.tensor(arrays["x"]), torch.tensor(arrays["labels"]))
        model, optimizer, _ = opacus.PrivacyEngine().make_private(
            module=model,
            optimizer=optimizer,
            data_loader=DataLoader(data, batch_size=16),
            noise_multiplier=1.0,
            max_grad_norm=CLAIM["clip_norm"],
            poisson_sampling=False,
        )
    model.accepts_loss_kwargs = False  # Opacus' wrapper takes any keyword, so the trainer would count labels of each batch
    args = transformers.TrainingArguments(output_dir=str(tmp_path), report_to=[], use_cpu=True)
    trainer = transformers.Trainer(model=model, args=args, optimizers=(optimizer, None))
    result = codes(check_trainer(trainer, arrays, **CLAIM))
    if private:
        assert result == set()
    else:
        assert {"noise.missing", "clip.add"} <= result
