"""Losses of a user's own, of several labels and of numbers: every path gives the gradients of a slow loop, or refuses."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from attacks.signals.logits import Losses
from audit.core.canaries import Canaries, CanaryRecords
from audit.core.data import Dataset, Records
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.events import dp_sgd, sgd
from audit.core.training import TrainingJob
from audit.engine.ensemble import train
from audit.engine.gradients.clipping import Clip, Rows, stacked_state
from audit.engine.gradients.dispatch import model_gradients
from audit.engine.losses import UsualLoss, find_loss
from audit.engine.read.subject import Ensemble
from audit.engine.schedule import ScheduleSettings
from audit.engine.trial.loss_trial import examine_loss
from audit.experiment.external.external_models import RecordedOutputs
from tests.engine import cases

PRIVATE = dp_sgd(noise_multiplier=1e-9, clip_norm=0.3, sample_rate=1.0, steps=2)
PLAIN = sgd(sample_rate=1.0, steps=2)


class Tokens(nn.Module):
    """Logits of the next token at each place, from whole numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(5, 4), nn.Linear(4, 5)

    def forward(self, inputs: Tensor) -> Tensor:
        if inputs.dtype != torch.int64:
            raise TypeError(f"tokens are whole numbers, got {inputs.dtype}")
        return self.head(torch.tanh(self.embed(inputs)))


def tokens() -> nn.Module:
    return Tokens()


def focal(outputs: Tensor, labels: Tensor) -> Tensor:
    chances = torch.softmax(outputs, 1).gather(1, labels.unsqueeze(1)).squeeze(1)
    return -((1 - chances) ** 2) * chances.log()


def quantile(outputs: Tensor, labels: Tensor) -> Tensor:
    error = labels - outputs[:, 0]
    return torch.maximum(0.8 * error, -0.2 * error)


def of_tokens(outputs: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(outputs.flatten(0, 1), labels.long().flatten(), reduction="none").view(len(labels), -1).mean(1)


def asymmetric(outputs: Tensor, labels: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(outputs, labels.to(outputs.dtype), reduction="none").pow(1.5).sum(1)


def contrastive(outputs: Tensor, labels: Tensor) -> Tensor:
    near = outputs @ outputs.T / 0.5
    return F.cross_entropy(near, torch.arange(len(outputs)), reduction="none")


def averaged(outputs: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(outputs, labels)


def balanced(outputs: Tensor, labels: Tensor) -> Tensor:
    counts = torch.bincount(labels, minlength=outputs.shape[1])
    return F.cross_entropy(outputs, labels, reduction="none") / counts[labels]


def late(outputs: Tensor, labels: Tensor) -> Tensor:
    """Couples records if their loss is small, which no record's is before training."""
    values = F.cross_entropy(outputs, labels, reduction="none")
    return torch.where(values < 0.3, values * values.mean(), values)


def far(outputs: Tensor, labels: Tensor) -> Tensor:
    """Couples records that are far from their label."""
    values = F.cross_entropy(outputs, labels, reduction="none")
    return torch.where(values > 9, values + outputs.sum(), values)


def of_chances(outputs: Tensor, labels: Tensor) -> Tensor:
    """Fails if outputs are no chances."""
    return F.binary_cross_entropy(outputs, labels.to(outputs.dtype), reduction="none").sum(1)


def noisy(outputs: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(outputs, labels, reduction="none") * next(_COUNTER)


_COUNTER = iter(range(1, 10**6))


def detached(outputs: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(outputs.detach(), labels, reduction="none")


def broken(outputs: Tensor, labels: Tensor) -> Tensor:
    return outputs.gather(1, labels)


def dataset(inputs: NDArray[Any], labels: NDArray[Any], classes: int = 0) -> Dataset:
    parts = [Records(inputs=inputs[rows], labels=labels[rows]) for rows in (slice(0, 20), slice(20, 28), slice(28, 36))]
    train_part, pool, test = parts
    return replace(cases.dataset((5,)), classes=classes, train=train_part, pool=pool, test=test, pool_index=np.arange(8))


def material(kind: str) -> Dataset:
    generator = np.random.default_rng(0)
    real = generator.normal(size=(36, 5)).astype(np.float32)
    labels: dict[str, Callable[[], Dataset]] = {
        "classes": lambda: dataset(real, generator.integers(0, 3, 36), 3),
        "numbers": lambda: dataset(real, generator.normal(size=36)),
        "several numbers": lambda: dataset(real, generator.normal(size=(36, 3))),
        "several labels": lambda: dataset(real, generator.random((36, 3)) < 0.4),
        "tokens": lambda: dataset(generator.integers(0, 5, (36, 6)), generator.integers(0, 5, (36, 6)).astype(np.float64)),
    }
    return labels[kind]()


def job(data: Dataset, loss: str, mechanism: Any = PRIVATE) -> TrainingJob:
    model = {"kind": "mlp", "hidden": [6]}
    if data.train.inputs.dtype.kind == "i":
        model = {"factory": "tests.engine.test_losses:tokens"}
    canaries = Canaries(kind="held_out", description="", payload=CanaryRecords(records=data.pool))
    return replace(
        cases.job(mechanism, model=model, data=data, canaries=canaries), loss=loss and f"tests.engine.test_losses:{loss}"
    )


KINDS = [
    ("classes", ""),
    ("classes", "focal"),
    ("numbers", ""),
    ("numbers", "quantile"),
    ("several numbers", ""),
    ("several labels", ""),
    ("several labels", "asymmetric"),
    ("tokens", "of_tokens"),
]
SLOW: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "classes": lambda outputs, label: -torch.log_softmax(outputs, 0)[label],
    "numbers": lambda outputs, label: (outputs[0] - label) ** 2,
    "several numbers": lambda outputs, label: ((outputs - label) ** 2).sum(),
    "several labels": lambda outputs, label: -(torch.where(label, outputs.sigmoid(), 1 - outputs.sigmoid())).log().sum(),
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("kind", "loss"), KINDS)
@pytest.mark.parametrize("clip_norm", [None, 0.3])
@pytest.mark.parametrize("sequential", [False, True])
def test_sums_are_those_of_a_slow_loop(kind: str, loss: str, clip_norm: float | None, sequential: bool) -> None:
    data = material(kind)
    torch.manual_seed(0)
    outputs = 3 if data.classes or data.train.labels.ndim == 2 else 1
    modules = [tokens() if kind == "tokens" else nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, outputs)) for _ in "ab"]
    modules = [module.double() for module in modules]
    inputs, labels = torch.from_numpy(np.array(data.train.inputs)), torch.from_numpy(np.array(data.train.labels))
    inputs = inputs.double() if inputs.is_floating_point() else inputs
    state = stacked_state(modules, torch.float64, torch.device("cpu"))
    models = model_gradients(modules[0], state, inputs, force_loop=sequential)
    chosen = find_loss(f"tests.engine.test_losses:{loss}" if loss else "")
    mask = torch.ones(2, 10, dtype=torch.bool)
    mask[1, 7:] = False
    total = torch.zeros_like(models.flat)
    clip = None if clip_norm is None else Clip(norm=clip_norm)
    models.add_sum(Rows(inputs=inputs, labels=labels, mask=mask, loss=chosen), clip, total)
    for number, module in enumerate(modules):
        rows = [10 * number + row for row in range(10) if mask[number, row]]
        expected = slow_sum(
            module, [(inputs[row], labels[row]) for row in rows], (loss and globals()[loss]) or SLOW[kind], clip_norm
        )
        for slot, reference in zip(models.layout.slots, expected, strict=True):
            torch.testing.assert_close(slot.view(total)[number], reference, rtol=1e-9, atol=1e-12)


def slow_sum(
    module: nn.Module, records: list[tuple[Tensor, Tensor]], loss: Callable[[Tensor, Tensor], Tensor], clip_norm: float | None
) -> list[Tensor]:
    """Clipped sum by plain autograd, a record at a time; a user's own loss gets a batch of one."""
    module, parameters = copy.deepcopy(module), []
    parameters = list(module.parameters())
    total = [torch.zeros_like(parameter) for parameter in parameters]
    for record, label in records:
        outputs = module(record.unsqueeze(0))
        value = loss(outputs[0], label) if loss in SLOW.values() else loss(outputs, label.unsqueeze(0))[0]
        gradients = torch.autograd.grad(value, parameters)
        norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
        factor = 1.0 if clip_norm is None else min(1.0, clip_norm / float(norm))
        for part, gradient in zip(total, gradients, strict=True):
            part.add_(factor * gradient)
    return total


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float64])
def test_slopes_are_derivatives_of_values(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    outputs = torch.randn(7, 4, dtype=torch.float64, requires_grad=True)
    labels = {
        torch.int64: torch.randint(0, 4, (7,)),
        torch.bool: torch.rand(7, 4) < 0.5,
        torch.float64: torch.randn(7, 4).double(),
    }
    values = UsualLoss().values(outputs, labels[dtype])
    assert values.shape == (7,)
    (expected,) = torch.autograd.grad(values.sum(), outputs)
    torch.testing.assert_close(UsualLoss().slopes(outputs.detach(), labels[dtype]), expected)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("kind", "loss"), KINDS)
def test_a_training_is_recomputed_and_its_losses_are_read(kind: str, loss: str) -> None:
    data = material(kind)
    for mechanism in (PRIVATE, PLAIN):
        models = train(job(data, loss, mechanism), cases.silent)
        assert (models.executed.recomputed >= 0).all() and (models.executed.recomputed < 1e-4).all()
    subject = Ensemble(job(data, loss, PLAIN), models)
    values = subject.own_losses(data.test)
    assert (values is None) == (loss == "")
    if values is None:
        return
    outputs = torch.from_numpy(subject.outputs(data.test.inputs))
    shape = (5,) if kind == "tokens" else ()
    labels = torch.from_numpy(np.array(data.test.labels))
    for number in range(len(models)):
        predictions = outputs[number].reshape(len(labels), -1, *shape) if shape else outputs[number]
        torch.testing.assert_close(torch.from_numpy(values[number]).float(), globals()[loss](predictions, labels).float())
    assert subject.gradient_norms(data.test).shape == values.shape


def test_models_do_not_depend_on_their_neighbours() -> None:
    training = job(material("several labels"), "asymmetric")
    together, apart = (train(training, cases.silent, ScheduleSettings(model_chunk=chunk)) for chunk in (3, 1))
    for name, value in together.weights.items():
        np.testing.assert_array_equal(value, apart.weights[name])


@pytest.mark.parametrize("mechanism", [PRIVATE, PLAIN])
@pytest.mark.parametrize("loss", ["contrastive", "balanced"])
def test_losses_over_a_batch_are_refused(loss: str, mechanism: Any) -> None:
    with pytest.raises(
        UnsupportedMechanism, match=f"loss 'tests.engine.test_losses:{loss}': a record's loss changes with the other"
    ):
        train(job(material("classes"), loss, mechanism), cases.silent)


@pytest.mark.parametrize("loss", ["late", "far"])
def test_losses_that_mix_records_once_a_model_fits_or_misses_are_refused(loss: str) -> None:
    with pytest.raises(UnsupportedMechanism, match="a record's loss changes with the other"):
        train(job(material("classes"), loss), cases.silent)


def test_labels_keep_their_precision_in_trials() -> None:
    """The library's backward pass of Huber's loss refuses single precision beside double."""
    values = torch.randn(36, 3, generator=torch.Generator().manual_seed(0))
    examine_loss(find_loss("tests.experiment.test_several_labels:huber"), values, values.flip(0))


def test_a_loss_that_takes_chances_alone_is_tried_where_it_can_be() -> None:
    loss = find_loss("tests.engine.test_losses:of_chances")
    examine_loss(
        loss, torch.rand(36, 3, generator=torch.Generator().manual_seed(0)), torch.eye(3, dtype=torch.bool).repeat(12, 1)
    )


@pytest.mark.parametrize(
    ("loss", "sentence"),
    [
        ("averaged", r"returns torch.float\d+ of shape \(\) for 28 records; expected one real number a record, \(28,\)"),
        ("noisy", "gives other numbers when it is called again"),
        ("detached", "does not depend on the model's outputs"),
        (
            "broken",
            r"fails on outputs of shape \(28, 3\) and labels of shape \(28,\), int64: .* \(in test_losses.py line \d+\)",
        ),
        ("absent", "absent"),
    ],
)
def test_what_is_no_loss_is_refused_by_a_sentence(loss: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        train(job(material("classes"), loss), cases.silent)


def test_labels_without_a_logit_each_are_refused() -> None:
    data = material("several labels")
    wide = replace(job(data, ""), model={"factory": "tests.engine.cases:make", "arguments": {"name": "raw"}})
    with pytest.raises(ConfigError, match=r"returns \(28, 3\) for labels of shape \(28, 2\)"):
        parts = {
            part: replace(getattr(data, part), labels=getattr(data, part).labels[:, :2]) for part in ("train", "pool", "test")
        }
        canaries = Canaries(kind="held_out", description="", payload=CanaryRecords(records=parts["pool"]))
        train(replace(wide, dataset=replace(data, **parts), canaries=canaries), cases.silent)


def test_recorded_outputs_have_the_usual_loss_of_their_labels() -> None:
    data = material("classes")
    logits = np.random.default_rng(0).normal(size=(2, 8, 3))
    canaries = Canaries(kind="held_out", description="", payload=CanaryRecords(records=data.pool))
    values = RecordedOutputs(logits=logits).read([Losses()], canaries)["losses"]
    chances = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    np.testing.assert_allclose(values, -np.log(chances[:, np.arange(8), data.pool.labels]))
