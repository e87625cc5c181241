"""Compiled sums of small convolutional networks: as exact as torch's, the same bits beside any neighbours, or left to torch."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from audit.core.canaries import Canaries, CoordinateGradients
from audit.core.errors import DataError, ExecutionMismatch
from audit.core.event_reading import noisy_steps
from audit.core.events import Repeated, dp_sgd, sgd
from audit.engine import compile_c
from audit.engine.compiled.compiled_cnn import SOURCE, find_network
from audit.engine.compiled.compiled_gradients import CompiledGradients, client_steps, compilable, compiled_gradients
from audit.engine.dp_options import Technique
from audit.engine.ensemble import train
from audit.engine.gradients.adaptive_clipping import Quantile
from audit.engine.gradients.clipping import Clip, Rows, stacked_state
from audit.engine.gradients.ghost_clipping import TapeGradients
from audit.engine.schedule import ScheduleSettings, arrange
from audit.engine.trial.clip_check import plain_gradient
from audit.models.build import build
from tests.engine import cases
from tests.engine.compiled_trainings import ON, train_both_ways
from tests.engine.random_networks import random_network

NOISY = dp_sgd(noise_multiplier=1.5, clip_norm=0.4, sample_rate=0.3, steps=12)
SHAPE = (2, 7, 6)

pytestmark = pytest.mark.skipif(compile_c.library(SOURCE) is None, reason="this machine has no C compiler")


class Lenet(nn.Module):
    """A forward pass in the user's own words, as examples of DP-SGD on MNIST have it."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 16, 8, 2, padding=3), nn.Conv2d(16, 32, 4, 2)
        self.third, self.last = nn.Linear(512, 32), nn.Linear(32, 3)
        self.way = way

    def forward(self, images: Tensor) -> Tensor:
        if self.way == "pooled first":
            small = F.relu(F.max_pool2d(self.first(images), 2, stride=1))
        else:
            small = F.max_pool2d(torch.relu(self.first(images)), kernel_size=2, stride=1)
        small = F.avg_pool2d(F.relu(self.second(small)), 2, 1)
        match self.way:
            case "size":
                flat = small.view(small.size(0), -1)
            case "shape":
                flat = small.reshape(small.shape[0], -1)
            case "numbers":
                flat = small.view(-1, 512)
            case "mixing":
                flat = small.view(-1, 256)
            case _:
                flat = torch.flatten(small, 1)
        return self.last(F.relu(self.third(flat)))


NETWORKS: dict[str, tuple[tuple[int, int, int], list[nn.Module]]] = {
    "benchmark": ((1, 28, 28), [
        nn.Conv2d(1, 8, 5, stride=2, padding=2), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU(), nn.Flatten(),
        nn.Linear(576, 3)]),
    "shipped": ((3, 32, 32), [build({"kind": "cnn"}, (3, 32, 32), 3)]),
    "tanh, averages": ((1, 14, 14), [
        nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5, bias=False), nn.Tanh(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(16, 12), nn.Tanh(), nn.Linear(12, 3)]),
    "odd, overlapping": ((3, 17, 13), [
        nn.Conv2d(3, 5, 3, padding=1, bias=False), nn.MaxPool2d(3, 2, 1), nn.ReLU(), nn.Conv2d(5, 7, (3, 2), (2, 1), (1, 0)),
        nn.ReLU(), nn.Conv2d(7, 3, 1, stride=2), nn.AdaptiveAvgPool2d((2, 1)), nn.Flatten(), nn.Linear(6, 3)]),
    "dilated": ((2, 15, 15), [
        nn.Conv2d(2, 4, 3, padding="same", dilation=2), nn.ReLU(), nn.Conv2d(4, 9, 4, stride=3, padding=2, dilation=2),
        nn.Flatten(), nn.Linear(225, 3)]),
    "stride beyond kernel": ((2, 9, 8), [
        nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Conv2d(3, 33, 1, stride=3), nn.AvgPool2d(2, 1, padding=1), nn.Flatten(),
        nn.Linear(33 * 12, 3)]),
    "wide": ((8, 6, 5), [
        nn.Conv2d(8, 32, 3, padding=2), nn.ReLU(), nn.Conv2d(32, 17, 2), nn.ReLU(), nn.MaxPool2d(2, ceil_mode=True),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(17, 3)]),
    "normalised": ((3, 11, 9), [
        nn.GroupNorm(1, 3, affine=False), nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(4, 8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 6, 3, bias=False), nn.GroupNorm(6, 6), nn.Tanh(), nn.Flatten(), nn.Linear(36, 3)]),
    "pooled first": ((1, 9, 9), [
        nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False), nn.Conv2d(1, 4, 2), nn.Flatten(), nn.Linear(64, 3)]),
    "own words": ((1, 28, 28), [Lenet("size")]),
}  # fmt: skip
TIGHT = 2e-6  # of the largest number, by which sums in single precision may be off
CLIPS = (None, Clip(norm=1e6), Clip(norm=0.7), Clip(norm=0.7, per_layer=True), Clip(norm=torch.tensor([[0.3], [0.9]])))


def pair(name: str) -> tuple[CompiledGradients, TapeGradients, nn.Module]:
    """Two models by compiled code and by torch in double precision, and their plain module."""
    shape, parts = NETWORKS[name]
    module = parts[0] if len(parts) == 1 else nn.Sequential(*parts)
    torch.manual_seed(0)
    values = {key: torch.randn(2, *value.shape) * 0.7 / max(1, value[0].numel()) ** 0.5
              for key, value in module.state_dict().items()}  # fmt: skip
    architecture = compilable(module, shape)
    assert architecture is not None, name
    compiled = compiled_gradients(architecture, module, values)
    assert compiled is not None
    return compiled, TapeGradients(module, {key: value.double() for key, value in values.items()}), module


def rows_for(shape: tuple[int, ...], rows: int, outputs: int = 3) -> Rows:
    generator = torch.Generator().manual_seed(rows)
    return Rows(
        inputs=torch.randn(2 * rows, *shape, generator=generator),
        labels=torch.randint(0, outputs, (2 * rows,), generator=generator),
        mask=torch.rand(2, rows, generator=generator) < 0.7,
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_sums_and_norms_equal_those_in_double_precision(name: str) -> None:
    compiled, exact, _ = pair(name)
    rows = rows_for(NETWORKS[name][0], 37)  # more than go through at once, and not a multiple of it
    for clip in CLIPS:
        total, wanted = torch.zeros_like(compiled.flat), torch.zeros_like(exact.flat)
        observed = compiled.add_sum(rows, clip, total)
        known = exact.add_sum(replace(rows, inputs=rows.inputs.double()), clip, wanted)
        assert float((total - wanted).abs().max() / wanted.abs().max()) < TIGHT
        if observed is not None and known is not None:
            torch.testing.assert_close(observed.norms[rows.mask].double(), known.norms[rows.mask], rtol=1e-5, atol=1e-6)
            torch.testing.assert_close(observed.left.double(), known.left, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, pytest.param(40, marks=pytest.mark.slow)])
def test_random_networks_equal_those_in_double_precision(first: int) -> None:
    for seed in range(first, 40 if first == 0 else 600):
        generator = np.random.default_rng(seed)
        torch.manual_seed(seed)
        module, shape = random_network(generator, outputs=int(generator.integers(2, 19)))
        state = stacked_state([module] * 2, torch.float32, torch.device("cpu"))
        architecture = compilable(module, shape)
        assert architecture is not None, module
        compiled = compiled_gradients(architecture, module, state)
        exact = TapeGradients(module, {name: value.double() for name, value in state.items()})
        rows = rows_for(shape, int(generator.integers(1, 20)), outputs=2)
        rows.mask[:, 0] = True
        clip = CLIPS[int(generator.integers(len(CLIPS)))]
        single = TapeGradients(module, state)
        total, torchs, wanted = (torch.zeros_like(way.flat) for way in (compiled, single, exact))
        compiled.add_sum(rows, clip, total)
        single.add_sum(rows, clip, torchs)
        exact.add_sum(replace(rows, inputs=rows.inputs.double()), clip, wanted)
        error, rounding = (float((sums - wanted).abs().max() / wanted.abs().max()) for sums in (total, torchs))
        # of few or nearly equal numbers, normalised, rounding is a large share in anyone's arithmetic
        normalised = any(isinstance(layer, nn.GroupNorm) for layer in module)
        assert error < (5 * TIGHT + 2 * rounding if normalised else TIGHT), (seed, error, rounding, module)


def test_a_single_example_equals_plain_autograd() -> None:
    """The tape in double precision is the reference elsewhere; here a gradient that shares no arithmetic with the engine."""
    for name in ("benchmark", "odd, overlapping", "own words"):
        compiled, _, module = pair(name)
        rows = rows_for(NETWORKS[name][0], 5)
        for model in range(2):
            rows.mask[:] = False
            rows.mask[model, 3] = True
            total = torch.zeros_like(compiled.flat)
            compiled.add_sum(rows, None, total)
            place = model * 5 + 3
            example = replace(rows, inputs=rows.inputs[place : place + 1].double(), labels=rows.labels[place : place + 1])
            values = {key: value[model].double() for key, value in compiled.state().items()}
            plain, _ = plain_gradient(module.double(), values, example)
            size = max(float(value.abs().max()) for value in plain.values())
            for slot in compiled.layout.slots:
                assert float((slot.view(total)[model] - plain[slot.name]).abs().max()) < TIGHT * size, (name, slot.name)
            assert float(total[1 - model].abs().max()) == 0.0
        module.float()


def test_regression_and_one_output() -> None:
    module = nn.Sequential(nn.Conv2d(2, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(80, 1))
    state = stacked_state([module] * 2, torch.float32, torch.device("cpu"))
    architecture = compilable(module, SHAPE)
    assert architecture is not None
    compiled = compiled_gradients(architecture, module, state)
    exact = TapeGradients(module, {name: value.double() for name, value in state.items()})
    rows = replace(rows_for(SHAPE, 20), labels=torch.randn(40))
    total, wanted = torch.zeros_like(compiled.flat), torch.zeros_like(exact.flat)
    compiled.add_sum(rows, Clip(norm=0.5), total)
    exact.add_sum(replace(rows, inputs=rows.inputs.double(), labels=rows.labels.double()), Clip(norm=0.5), wanted)
    assert float((total - wanted).abs().max() / wanted.abs().max()) < TIGHT


def test_equal_numbers_in_a_window_pass_the_signal_to_the_first() -> None:
    compiled, exact, _ = pair("own words")
    rows = rows_for((1, 28, 28), 9)
    rows = replace(rows, inputs=(rows.inputs > 0.5).float())  # whole patches are alike, so are their results
    total, wanted = torch.zeros_like(compiled.flat), torch.zeros_like(exact.flat)
    compiled.add_sum(rows, None, total)
    exact.add_sum(replace(rows, inputs=rows.inputs.double()), None, wanted)
    assert float((total - wanted).abs().max() / wanted.abs().max()) < TIGHT


def test_one_example_adds_at_most_the_clip_norm() -> None:
    compiled, _, _ = pair("odd, overlapping")
    rows = rows_for((3, 17, 13), 6)
    for per_layer in (False, True):
        for row in range(6):
            rows.mask[:] = False
            rows.mask[:, row] = True
            total = torch.zeros_like(compiled.flat)
            compiled.add_sum(rows, Clip(norm=0.01, per_layer=per_layer), total)
            lengths = total.double().norm(dim=1)
            assert (lengths <= 0.01 * (1 + 1e-6)).all() and (lengths > 0.004).all()


@pytest.mark.parametrize("name", ["benchmark", "own words", "pooled first"])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 3e38])
def test_a_record_without_finite_gradient_adds_nothing(name: str, value: float) -> None:
    compiled, _, _ = pair(name)
    rows = rows_for(NETWORKS[name][0], 20)
    rows.mask[:] = True
    rows.inputs.unflatten(0, (2, 20))[1, 4] = value
    total, without = torch.zeros_like(compiled.flat), torch.zeros_like(compiled.flat)
    observed = compiled.add_sum(rows, Clip(norm=0.3), total)
    assert observed is not None and not observed.finite
    assert not observed.norms[1, 4].isfinite() and observed.left[1, 4] == 0
    rows.mask[1, 4] = False
    compiled.add_sum(rows, Clip(norm=0.3), without)
    torch.testing.assert_close(total, without, rtol=1e-5, atol=1e-6)


def test_empty_batches_add_nothing() -> None:
    compiled, _, _ = pair("dilated")
    rows = rows_for((2, 15, 15), 8)
    rows.mask[:] = False
    total = torch.zeros_like(compiled.flat)
    observed = compiled.add_sum(rows, Clip(norm=0.3), total)
    assert observed is not None and float(total.abs().max()) == 0.0 and float(observed.norms.abs().max()) == 0.0


def test_a_model_does_not_see_its_neighbours_nor_earlier_calls() -> None:
    compiled, _, module = pair("wide")
    rows, state = rows_for((8, 6, 5), 33), compiled.state()
    architecture = compilable(module, (8, 6, 5))
    assert architecture is not None
    for clip in (None, Clip(norm=0.2)):
        both = torch.zeros_like(compiled.flat)
        compiled.add_sum(rows, clip, both)
        for model in range(2):
            alone = compiled_gradients(architecture, module, {name: value[model : model + 1] for name, value in state.items()})
            part = slice(model * 33, (model + 1) * 33)
            single = Rows(inputs=rows.inputs[part], labels=rows.labels[part], mask=rows.mask[model : model + 1])
            for _ in range(2):
                total = torch.zeros_like(alone.flat)
                alone.add_sum(single, clip, total)
                assert torch.equal(total[0], both[model])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mechanism", [NOISY, sgd(sample_rate=0.3, steps=12)], ids=["dpsgd", "plain"])
def test_training_agrees_with_torch_and_not_with_the_chunk(mechanism: Repeated) -> None:
    job = cases.job(mechanism, models=5, model={"kind": "cnn", "channels": [4, 6]}, data=cases.dataset(SHAPE))
    plain, full = train_both_ways(job)
    assert 0 <= full.executed.recomputed.max() < 1e-5
    if noisy_steps(mechanism) is not None:
        np.testing.assert_allclose(full.executed.noise_multiplier, plain.executed.noise_multiplier, rtol=1e-5)


@pytest.mark.parametrize("mechanism", [NOISY, sgd(sample_rate=0.3, steps=12)], ids=["dpsgd", "plain"])
def test_wrong_sums_end_the_training_at_the_third_step(mechanism: Repeated, monkeypatch: pytest.MonkeyPatch) -> None:
    honest, steps = CompiledGradients.add_rows, []

    def wrong(self: CompiledGradients, *arguments: object) -> object:
        clipping = honest(self, *arguments)  # type: ignore[arg-type]
        arguments[-1][1][:, 0] *= 1.1  # type: ignore[index]
        steps.append(arguments)
        return clipping

    monkeypatch.setattr(CompiledGradients, "add_rows", wrong)
    job = cases.job(mechanism, model={"kind": "cnn"}, data=cases.dataset(SHAPE))
    with pytest.raises(ExecutionMismatch, match="step 3"):
        train(job, cases.silent, ON)
    assert 0 < len(steps) < 20


def test_adaptive_clipping_and_gradient_canaries_go_through_compiled_sums() -> None:
    job = cases.job(NOISY, model={"kind": "cnn"}, data=cases.dataset(SHAPE))
    adaptive = Technique(clipping="adaptive", quantile=Quantile(count_noise=1.0))
    item, peer = (train(job, cases.silent, settings, adaptive) for settings in (ScheduleSettings(), ON))
    np.testing.assert_allclose(item.extra["clip_norm"], peer.extra["clip_norm"], rtol=1e-4)
    canaries = Canaries(kind="dirac", description="", payload=CoordinateGradients(coordinates=np.arange(4)))
    planted = cases.job(NOISY, canaries=canaries, model={"kind": "cnn"}, data=cases.dataset(SHAPE))
    item, peer = (train(planted, cases.silent, settings) for settings in (ScheduleSettings(), ON))
    np.testing.assert_allclose(item.products, peer.products, atol=1e-4)


def test_local_steps_of_clients_equal_those_in_double_precision() -> None:
    compiled, exact, module = pair("odd, overlapping")
    generator = torch.Generator().manual_seed(3)
    records = torch.randn(30, 3, 17, 13, generator=generator), torch.randint(0, 3, (30,), generator=generator)
    rows, real = torch.randint(0, 30, (2, 4, 20), generator=generator), torch.rand(2, 4, 20, generator=generator) < 0.6
    real[1, 2] = False  # a step without records
    steps = client_steps(module, records, "on", 1.0)
    assert steps is not None
    flat = compiled.flat.clone()
    steps.descend(flat, rows, real, 0.3)
    for step in range(4):
        total, places = torch.zeros_like(exact.flat), rows[:, step].flatten()
        batch = Rows(inputs=records[0][places].double(), labels=records[1][places], mask=real[:, step])
        exact.add_sum(batch, None, total)
        exact.flat.sub_(0.3 * total / real[:, step].sum(1, keepdim=True).clamp(min=1))
    assert float((flat - exact.flat).abs().max() / exact.flat.abs().max()) < TIGHT
    assert not torch.equal(flat, compiled.flat)


@pytest.mark.parametrize("way", ["size", "shape", "numbers", "flatten", "pooled first"])
def test_networks_are_found_however_they_are_written(way: str) -> None:
    network = find_network(Lenet(way), (1, 28, 28))
    assert network is not None and [stage.size for stage in network.stages] == [(14, 14), (13, 13), (5, 5), (4, 4)]
    assert network.tail.sizes == (512, 32, 3)


def tied() -> nn.Module:
    module = nn.Sequential(nn.Conv2d(2, 2, 3, padding=1), nn.ReLU(), nn.Conv2d(2, 2, 3), nn.Flatten(), nn.Linear(40, 3))
    module[2].weight = module[0].weight
    return module


@pytest.mark.parametrize(
    "module",
    [
        nn.Sequential(nn.Conv2d(2, 4, 3, groups=2), nn.Flatten(), nn.Linear(80, 3)),
        nn.Sequential(nn.Conv2d(2, 4, 3, padding=1, padding_mode="circular"), nn.Flatten(), nn.Linear(168, 3)),
        nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(80, 3)),
        nn.Sequential(nn.Conv2d(2, 4, 3), nn.Dropout(0.2), nn.Flatten(), nn.Linear(80, 3)),
        nn.Sequential(nn.Conv2d(2, 4, 3), nn.GELU(), nn.Flatten(), nn.Linear(80, 3)),
        nn.Sequential(nn.Conv2d(2, 4, 3), nn.MaxPool2d(2, dilation=2), nn.Flatten(), nn.Linear(24, 3)),
        nn.Sequential(nn.Conv2d(2, 4, 3), nn.AvgPool2d(2, divisor_override=3), nn.Flatten(), nn.Linear(16, 3)),
        nn.Sequential(nn.Conv2d(2, 4, 3), nn.Linear(4, 3), nn.Flatten()),
        nn.Sequential(nn.Conv2d(2, 4, 3), nn.Flatten()),
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(80, 3)),
        nn.Sequential(nn.Conv2d(2, 4, 3).requires_grad_(False), nn.Flatten(), nn.Linear(80, 3)),
        nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Tanh(), nn.Flatten(), nn.Linear(80, 3)),
        nn.Sequential(nn.Conv2d(2, 512, 3, padding=60), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 3)),
        tied(),
        Lenet("mixing"),
    ],
)
def test_all_else_is_left_to_torch(module: nn.Module) -> None:
    assert compilable(module, SHAPE) is None and compilable(module, (1, 28, 28)) is None


def test_what_cannot_be_compiled_is_said(caplog: pytest.LogCaptureFixture) -> None:
    job = cases.job(NOISY, model={"kind": "cnn", "activation": "gelu"}, data=cases.dataset(SHAPE))
    with caplog.at_level(logging.WARNING):
        assert arrange(job, ON).architecture is None
    assert "compile: on has no effect: the model is not a chain of linear layers" in caplog.text
    assert "behind convolutions" in caplog.text


def test_auto_looks_at_one_model() -> None:
    jobs = [
        cases.job(replace(NOISY, count=steps), models=models, model={"kind": "cnn"}, data=cases.dataset(SHAPE))
        for steps in (10**2, 10**6)
        for models in (1, 100)
    ]
    decided = [arrange(item, ScheduleSettings(compile="auto")).architecture is not None for item in jobs]
    assert decided == [False, False, True, True]


def test_memory_is_guarded() -> None:
    compiled, _, _ = pair("dilated")
    rows = rows_for((2, 15, 15), 16)
    with pytest.raises(DataError, match="labels up to 3"):
        compiled.add_sum(replace(rows, labels=rows.labels + 1), Clip(norm=1.0), torch.zeros_like(compiled.flat))
    with pytest.raises(DataError, match=r"392 torch\.float32"):
        compiled.add_sum(rows_for((2, 14, 14), 16), Clip(norm=1.0), torch.zeros_like(compiled.flat))
