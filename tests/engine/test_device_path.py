"""Training and observing on another device: no tensor is left behind, and a real GPU computes what the CPU does."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from audit.core.access import Access
from audit.core.canaries import Canaries, CanaryRecords, CoordinateGradients, DirectionGradients
from audit.core.events import dp_sgd, sgd
from audit.core.training import TrainingJob
from audit.engine.dp_options import Technique
from audit.engine.ensemble import train
from audit.engine.gradients.clipping import Clip, Rows
from audit.engine.gradients.ghost_clipping import TapeGradients
from audit.engine.layers import batched_matmul, convolution, convolution_patches, gram_norms
from audit.engine.layers.layers import Tape
from audit.engine.random import noise, sampling
from audit.engine.read.observe import EnsembleReader
from audit.engine.schedule import ScheduleSettings
from audit.engine.trial.clip_check import Recomputation
from tests.engine import cases
from tests.engine.pretend_device import PRETENDED, MixedDevicesError, pretended
from tests.marks import slow

NOISY = dp_sgd(noise_multiplier=1.5, clip_norm=0.4, sample_rate=0.3, steps=4)
QUIET = dp_sgd(noise_multiplier=0.0, clip_norm=0.4, sample_rate=0.3, steps=8)
PLAIN = sgd(sample_rate=0.3, steps=4)
# moving a module to a device without data unties shared parameters, which moving it to a GPU does not
UNTIED = ("tied",)
RECURRENT = ("gru", "lstm", "recurrent")
SLOW = ("attending", "crossing", "encoder", "grouped", "lstm", "recurrent", "sneaky", "transformer", "transposed", "used_twice")
SLOW += ("vision", "vit", "wide_resnet")
COVERED = [*slow(sorted(set(cases.MODELS) - set(UNTIED) - {"gru"}), SLOW), pytest.param("gru", marks=pytest.mark.calibration)]
absent = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def make_job(name: str, mechanism: Any, **changes: Any) -> TrainingJob:
    spec, shape = cases.MODELS[name]
    return replace(cases.job(mechanism, model=spec, data=cases.dataset(shape), models=3), device="cuda", **changes)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [NOISY, PLAIN], ids=["dpsgd", "plain"])
@pytest.mark.parametrize("name", COVERED)
def test_nothing_is_left_on_the_cpu(name: str, mechanism: Any) -> None:
    job = make_job(name, mechanism, access=Access.FINAL_WEIGHTS)
    if name in RECURRENT:
        job = small(job)
    with pretended():
        done = train(job, cases.silent)
    assert all(value.shape[0] == len(job.seeds) for value in done.weights.values())


def small(job: TrainingJob) -> TrainingJob:
    """The job with few records, models and steps: its examples are taken one after another, each a hundred operations."""
    data = cases.dataset(job.dataset.train.inputs.shape[1:], train=4, pool=2)
    canaries = Canaries(kind="held_out", description="", payload=CanaryRecords(records=data.pool))
    mechanism = replace(job.mechanism, count=2)  # type: ignore[type-var]
    return replace(
        job, dataset=data, canaries=canaries, included=job.included[:2, :2], seeds=job.seeds[:2], mechanism=mechanism
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "technique",
    [
        Technique(clipping="per_layer"),
        Technique(clipping="adaptive"),
        Technique(averaging=0.9),
    ],
    ids=["per_layer", "adaptive", "averaged"],
)
def test_techniques_stay_on_the_device(technique: Technique) -> None:
    with pretended():
        train(make_job("mlp", NOISY), cases.silent, ScheduleSettings(model_chunk=2), technique)


@pytest.mark.slow
def test_augmented_images_stay_on_the_device() -> None:
    with pretended():
        train(make_job("cnn", NOISY), cases.silent, None, Technique(flip=True, shift=2, copies=2))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["adam", "adamw"])
def test_optimisers_keep_their_state_on_the_device(kind: str) -> None:
    with pretended():
        train(make_job("mlp", NOISY, optimizer={"kind": kind, "learning_rate": 0.1}), cases.silent)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "planted",
    [CoordinateGradients(coordinates=np.array([15, 3, 8])), DirectionGradients(directions=np.eye(3, 75, dtype=np.float32))],
    ids=["dirac", "dense"],
)
def test_planted_gradients_are_seen_at_every_step(planted: CoordinateGradients | DirectionGradients) -> None:
    canaries = Canaries(kind="planted", description="", payload=planted)
    job = cases.job(NOISY, models=2, canaries=canaries, access=Access.ALL_STEPS)
    with pretended():
        done = train(replace(job, device="cuda"), cases.silent)
    assert done.products is not None and done.products.shape == (2, 3, NOISY.count)


@pytest.mark.slow
@pytest.mark.parametrize("name", slow(["mlp", "cnn", "sequences", "gru"], ["gru"]))
def test_observing_stays_on_the_device(name: str) -> None:
    job = make_job(name, PLAIN)
    data = job.dataset
    with pretended():
        done = train(job, cases.silent)
        models = EnsembleReader(job.model, done.weights, data.train.inputs[:2], data.classes, device="cuda")
        assert models.outputs(data.pool.inputs).shape == (3, len(data.pool), data.classes)
        assert models.gradient_norms(data.pool).shape == (3, len(data.pool))
        models.representations(data.pool)


def test_the_pretended_device_sees_what_is_left_behind() -> None:
    with pretended():
        away = torch.ones(3, 3, device=PRETENDED)
        for first in (
            lambda: away @ torch.ones(3, 3),
            lambda: away.index_select(0, torch.tensor([1])),
            lambda: away + torch.ones(3),
            lambda: torch.where(away > 0, away, torch.zeros(())),
        ):
            with pytest.raises(MixedDevicesError, match="cpu"):
                first()
        assert torch.where(away > 0, away + torch.ones(()), 0.0).device == PRETENDED
        assert (away.cpu() == 0).all() and float(away.sum()) == 1.0


@pytest.mark.gpu
@absent
@pytest.mark.parametrize("mechanism", [QUIET, NOISY, replace(PLAIN, count=8)], ids=["quiet", "noisy", "plain"])
@pytest.mark.parametrize("name", sorted(cases.MODELS))
def test_a_gpu_computes_what_the_cpu_does(name: str, mechanism: Any) -> None:
    double = ScheduleSettings(dtype=torch.float64, counters=True)  # batches, noise and dropout are the same on both
    there = train(make_job(name, mechanism), cases.silent, double)
    here = train(replace(make_job(name, mechanism), device="cpu"), cases.silent, double)
    for parameter, value in here.weights.items():
        np.testing.assert_allclose(there.weights[parameter], value, rtol=1e-6, atol=1e-8, err_msg=parameter)


@pytest.mark.gpu
@absent
def test_noise_on_a_gpu_has_the_stated_size_and_repeats() -> None:
    job = make_job("mlp", replace(NOISY, count=200))
    first, again = (train(job, cases.silent) for _ in range(2))
    np.testing.assert_allclose(first.executed.noise_multiplier, 1.5, rtol=0.05)
    for parameter, value in first.weights.items():
        np.testing.assert_array_equal(again.weights[parameter], value, err_msg=parameter)


@pytest.mark.gpu
@absent
def test_observing_on_a_gpu_gives_what_the_cpu_gives() -> None:
    job = make_job("cnn", PLAIN)
    done, data = train(job, cases.silent), job.dataset
    observed = [
        EnsembleReader(job.model, done.weights, data.train.inputs[:2], data.classes, device=device).outputs(data.pool.inputs)
        for device in ("cuda", "cpu")
    ]
    np.testing.assert_allclose(observed[0], observed[1], rtol=1e-3, atol=1e-4)


# what moves no numbers on a device
_VIEWS = frozenset((
    "view", "_unsafe_view", "_reshape_alias", "t", "transpose", "permute", "expand", "select", "slice", "unsqueeze", "squeeze",
    "detach", "alias", "as_strided", "unbind", "split", "unfold", "diagonal", "empty", "new_empty", "empty_like", "lift_fresh",
    "empty_strided",
))  # fmt: skip


class Launches(TorchDispatchMode):
    """Counts the operations that a device would run, the times the host waits for a number of it, and copies to it or back."""

    def __init__(self) -> None:
        super().__init__()
        self.work: Counter[str] = Counter()
        self.waits, self.transfers = 0, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        result = func(*args, **(kwargs or {}))
        tensors = [item for item in tree_flatten((args, kwargs, result))[0] if isinstance(item, torch.Tensor)]
        if any(item.device == PRETENDED for item in tensors):
            self.waits += name == "_local_scalar_dense"
            self.transfers += any(item.device != PRETENDED and item.dim() for item in tensors)
            self.work[name] += name not in _VIEWS and name != "_local_scalar_dense"
        return result


def launches(
    spec: dict[str, Any],
    shape: tuple[int, ...],
    models: int,
    steps: int,
    technique: Technique | None = None,
    *,
    event: Any = NOISY,
) -> Launches:
    data = cases.dataset(shape, train=200)
    job = cases.job(replace(event, count=steps), model=spec, data=data, models=models, access=Access.FINAL_WEIGHTS)
    with pretended(), Launches() as counted:
        train(replace(job, device="cuda"), cases.silent, None, technique)
    return counted


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "shape", "technique"),
    [
        ({"kind": "mlp", "hidden": [64]}, (64,), None),
        ({"factory": "tests.engine.cases:dropping", "arguments": {"raw": False}}, (5,), Technique(clipping="adaptive")),
        pytest.param({"kind": "cnn"}, (1, 8, 8), Technique(flip=True, shift=2, copies=2), marks=pytest.mark.slow),
        pytest.param({"kind": "cnn", "channels": [16, 32]}, (3, 8, 8), None, marks=pytest.mark.slow),
        pytest.param({"kind": "vit", "patch": 4, "width": 16, "depth": 1, "heads": 2}, (3, 8, 8), None, marks=pytest.mark.slow),
    ],
    ids=["mlp", "dropout", "augmented", "cnn", "vit"],
)
def test_a_step_launches_as_much_for_six_models_as_for_two_and_never_waits(
    spec: dict[str, Any], shape: tuple[int, ...], technique: Technique | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Recomputation, "due", lambda *_: False)
    steps = {}
    launches(spec, shape, 2, 1)  # tables of where patches are are made once
    for models in (2, 6):  # one alone spares the copies that put the models of several side by side
        short, long = (launches(spec, shape, models, count, technique) for count in (1, 2))
        assert (long.waits, long.transfers) == (short.waits, short.transfers)
        steps[models] = long.work - short.work
    assert steps[2] == steps[6]
    assert sum(steps[6].values()) < 400


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "numbers"), [(0.3, 150), (0.05, 25)])  # blocks of two steps, by coins and by distances
def test_a_block_of_steps_is_drawn_by_as_many_launches_for_six_models_as_for_two(
    rate: float, numbers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches and noise of many steps: the host waits once, for the lengths of the batches, and sends nothing."""
    monkeypatch.setattr(Recomputation, "due", lambda *_: False)
    monkeypatch.setattr(sampling, "_BLOCK_DRAWS", numbers)
    event = dp_sgd(noise_multiplier=1.5, clip_norm=0.4, sample_rate=rate, steps=4)
    monkeypatch.setattr(noise, "_BLOCK_STEPS", 2)
    spec, shape, draws = {"kind": "mlp", "hidden": [8]}, (5,), {}
    launches(spec, shape, 2, 1)
    for models in (2, 6):
        end, beyond = (launches(spec, shape, models, steps, event=event) for steps in (2, 3))
        assert (beyond.waits, beyond.transfers) == (end.waits, end.transfers + 1)
        draws[models] = beyond.work - end.work
    assert draws[2] == draws[6]
    assert 150 < sum(draws[6].values()) < 400


def as_on_a_device(patch: pytest.MonkeyPatch, library_work: int) -> None:
    """Let a CPU convolve as a device does, calling its library from so many multiplications of a model on."""
    for module in (batched_matmul, convolution, convolution_patches, gram_norms):
        patch.setattr(module, "on_device", lambda _: True)
    patch.setattr(convolution_patches, "_LIBRARY_WORK", library_work)


@pytest.mark.parametrize("library_work", [0, 1 << 62], ids=["library", "products"])
@pytest.mark.parametrize("models", [1, 3])
@pytest.mark.parametrize("name", slow(["many_channels", "grouped", "sequences", "wide_resnet", "cnn"], ["wide_resnet", "cnn"]))
def test_a_device_convolves_as_the_cpu(name: str, models: int, library_work: int, monkeypatch: pytest.MonkeyPatch) -> None:
    job = replace(make_job(name, QUIET), device="cpu")
    job = replace(job, included=job.included[:models], seeds=job.seeds[:models])
    usual = train(job, cases.silent, ScheduleSettings(dtype=torch.float64))
    as_on_a_device(monkeypatch, library_work)
    device = train(job, cases.silent, ScheduleSettings(dtype=torch.float64))
    for parameter, value in usual.weights.items():
        np.testing.assert_allclose(device.weights[parameter], value, rtol=1e-9, atol=1e-12, err_msg=parameter)


@pytest.mark.parametrize("library_work", [0, 1 << 62], ids=["library", "products"])
@pytest.mark.parametrize("models", [1, 2])
@pytest.mark.parametrize(
    ("plain", "size"),
    [
        (nn.Conv2d(3, 4, (1, 3), padding=(0, 1)), (1, 8)),  # a convolution of sequences: patches that lie in one another
        (nn.Conv2d(3, 4, (1, 2), stride=2), (1, 7)),
        (nn.Conv2d(3, 4, 1), (1, 6)),
        (nn.Conv2d(3, 4, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2)), (6, 7)),
        (nn.Conv2d(3, 4, 3, padding=3, bias=False), (5, 5)),
        (nn.Conv2d(3, 40, 3), (7, 7)),  # fewer positions than outputs
        (nn.Conv2d(4, 6, 3, groups=2, padding=1), (4, 5)),
    ],
)
def test_a_device_convolves_as_the_library(plain: nn.Conv2d, size: tuple[int, int], models: int, library_work: int) -> None:
    tape, rows = Tape(models=models), 5
    values = {name: torch.randn(models, *value.shape, dtype=torch.float64) for name, value in plain.named_parameters()}
    inputs = torch.randn(models, rows, plain.in_channels, *size, dtype=torch.float64, requires_grad=True)
    with pytest.MonkeyPatch.context() as patch:
        as_on_a_device(patch, library_work)
        outputs = convolution.convolution_layer(plain, tape, values, {})(inputs.flatten(0, 1))
        slopes = torch.linspace(-1, 1, outputs.numel(), dtype=torch.float64).view_as(outputs)
        (signal,) = torch.autograd.grad((outputs * slopes).sum(), inputs)
    options = (plain.stride, plain.padding, plain.dilation, plain.groups)
    each = [
        nn.functional.conv2d(images, weight, bias, *options)
        for images, weight, bias in zip(inputs, values["weight"], values.get("bias", [None] * models), strict=True)
    ]
    torch.testing.assert_close(outputs, torch.cat(each), rtol=1e-9, atol=1e-12)
    (expected,) = torch.autograd.grad((torch.cat(each) * slopes).sum(), inputs)
    torch.testing.assert_close(signal, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("offset", [0.0, 1e5, 1e6])
def test_no_record_moves_a_sum_on_a_device_by_more_than_the_clip_norm(offset: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Norms of few positions come from Gram matrices in double precision, sums do not: what nearly cancels is lost in these."""
    as_on_a_device(monkeypatch, 1 << 62)
    generator = torch.Generator().manual_seed(3)
    module = nn.Sequential(nn.Conv2d(16, 64, 3), Centred(), nn.Flatten(), nn.Linear(64 * 36, 3))
    models = TapeGradients(module, {name: value.detach().unsqueeze(0) for name, value in module.named_parameters()})
    labels, mask, shares = torch.zeros(128, dtype=torch.int64), torch.arange(128).eq(5).unsqueeze(0), []
    for _ in range(8):
        inputs, total = offset + torch.randn(128, 16, 8, 8, generator=generator), torch.zeros_like(models.flat)
        models.add_sum(Rows(inputs=inputs, labels=labels, mask=mask), Clip(norm=1e-3), total)
        shares.append(float(total.double().norm()) / 1e-3)
    assert 0.98 < min(shares) <= max(shares) <= 1 + 1e-6
    assert offset > 0 or min(shares) >= 1 - 1e-6


class Centred(nn.Module):
    """Less the mean over positions: signals of a convolution before it add up to zero."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images - images.mean(dim=(2, 3), keepdim=True)


@absent
@pytest.mark.gpu
def test_a_record_without_a_finite_gradient_is_left_out_on_a_gpu(caplog: pytest.LogCaptureFixture) -> None:
    job = make_job("cnn", NOISY)
    inputs = np.array(job.dataset.train.inputs)
    inputs[-1] = np.inf
    job = replace(job, dataset=replace(job.dataset, train=replace(job.dataset.train, inputs=inputs)))
    done = train(job, cases.silent)
    assert "begins again" in caplog.text and done.executed.skipped.sum() > 0
    assert all(np.isfinite(value).all() for value in done.weights.values())
