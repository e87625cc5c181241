"""The toolkit for accuracy: each part equals its slow definition and leaves the mechanism alone."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from audit import plugins
from audit.core.errors import ConfigError
from audit.core.events import dp_sgd, sgd
from audit.core.seeds import Seed
from audit.engine.dp_options import Augmentation, AveragedWeights, Technique
from audit.engine.ensemble import train
from audit.engine.gradients.clipping import Clip, Rows, stacked_state
from audit.engine.gradients.dispatch import model_gradients
from audit.engine.schedule import ScheduleSettings
from audit.models.build import initialise_model
from audit.optimizers._schedule import rate_factor
from audit.trainers._ensemble import DpSgdTrainer
from tests.engine import cases

QUIET = dp_sgd(noise_multiplier=0.0, clip_norm=0.4, sample_rate=0.3, steps=6)
DOUBLE = ScheduleSettings(dtype=torch.float64)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("force_loop", [False, True])
@pytest.mark.parametrize("name", ["mlp", "cnn", "wide_resnet", "used_twice", "many_channels"])
def test_per_layer_clipping_equals_a_slow_loop(name: str, force_loop: bool) -> None:
    spec, shape = cases.MODELS[name]
    modules = [initialise_model(spec, shape, 3, Seed(index)).double() for index in range(2)]
    models = model_gradients(modules[0], stacked_state(modules, torch.float64, torch.device("cpu")), force_loop=force_loop)
    generator = torch.Generator().manual_seed(0)
    rows = Rows(
        inputs=torch.randn(32, *shape, dtype=torch.float64, generator=generator),
        labels=torch.randint(0, 3, (32,), generator=generator),
        mask=torch.rand(2, 16, generator=generator) < 0.7,
    )
    total = torch.zeros_like(models.flat)
    clipped = models.add_sum(rows, Clip(norm=0.5, per_layer=True), total)
    assert clipped is not None
    for index, module in enumerate(modules):
        names = [parameter for parameter, value in module.named_parameters() if value.requires_grad]
        layers = sorted({parameter.rpartition(".")[0] for parameter in names})
        bound = 0.5 / math.sqrt(len(layers))
        expected = {parameter: torch.zeros(()) for parameter in names}
        for row in range(16):
            if not rows.mask[index, row]:
                assert clipped.left[index, row] == 0
                continue
            number = 16 * index + row
            parts = cases.slow_sum(module, rows.inputs[number : number + 1], rows.labels[number : number + 1], None)[0]
            gradients = dict(zip(names, parts, strict=True))
            squared = 0.0
            for layer in layers:
                mine = [parameter for parameter in names if parameter.rpartition(".")[0] == layer]
                norm = math.sqrt(sum(float((gradients[parameter] ** 2).sum()) for parameter in mine))
                factor = min(1.0, bound / norm) if norm else 1.0
                squared += (norm * factor) ** 2
                for parameter in mine:
                    expected[parameter] = expected[parameter] + factor * gradients[parameter]
            assert float(clipped.left[index, row]) == pytest.approx(math.sqrt(squared), rel=1e-9)
            assert math.sqrt(squared) <= 0.5 * (1 + 1e-12)
        for slot in models.layout.slots:
            np.testing.assert_allclose(slot.view(total)[index], expected[slot.name], rtol=1e-6, atol=1e-9)


def test_per_layer_clipping_reaches_training_and_keeps_the_bound() -> None:
    job = cases.job(cases.varied(QUIET, clip_norm=0.01))
    flat = train(job, cases.silent, DOUBLE)
    layered = train(job, cases.silent, DOUBLE, Technique(clipping="per_layer"))
    assert any(not np.allclose(flat.weights[name], layered.weights[name]) for name in flat.weights)
    assert (layered.executed.largest_norm <= 1 + 1e-9).all() and (layered.executed.largest_norm > 0.9).all()


def test_copies_without_augmentation_change_nothing() -> None:
    job = cases.job(QUIET, model={"kind": "cnn", "channels": [3]}, data=cases.dataset((2, 6, 6)))
    once, thrice = (train(job, cases.silent, DOUBLE, Technique(copies=copies)) for copies in (1, 3))
    for name, value in once.weights.items():
        np.testing.assert_allclose(value, thrice.weights[name], rtol=1e-9, atol=1e-12)


def test_augmented_views_are_flips_and_shifts_of_the_record() -> None:
    technique = Technique(copies=40, flip=True, shift=1)
    seeds = (Seed(0), Seed(1))
    augmentation = Augmentation(technique, seeds, (1, 4, 4))
    images = torch.arange(1.0, 65.0).view(4, 1, 4, 4)
    augmentation.start_step(3)
    views = augmentation.views(images).view(4, 40, 4, 4)
    for image, built in zip(images[:, 0], views, strict=True):
        padded = torch.nn.functional.pad(torch.stack([image, image.flip(-1)]), (1, 1, 1, 1))
        allowed = [padded[way, down : down + 4, right : right + 4] for way in (0, 1) for down in range(3) for right in range(3)]
        observed = {next(number for number, item in enumerate(allowed) if torch.equal(item, view)) for view in built}
        assert len(observed) >= 12  # of 18 views, 40 draws: fewer than 12 has probability below 1e-6
    alone = Augmentation(technique, seeds[1:], (1, 4, 4))
    alone.start_step(3)
    assert torch.equal(alone.views(images[2:]).view(2, 40, 4, 4), views[2:])
    alone.start_step(4)
    assert not torch.equal(alone.views(images[2:]).view(2, 40, 4, 4), views[2:])


def test_augmented_training_does_not_depend_on_the_chunk() -> None:
    job = cases.job(
        cases.varied(QUIET, noise_multiplier=1.0),
        model={"kind": "cnn", "channels": [3]},
        data=cases.dataset((2, 6, 6)),
        models=4,
    )
    technique = Technique(copies=2, flip=True, shift=1)
    full = train(job, cases.silent, ScheduleSettings(), technique)
    parts = train(job, cases.silent, ScheduleSettings(model_chunk=1), technique)
    for name, value in full.weights.items():
        np.testing.assert_array_equal(value, parts.weights[name])
    assert (full.executed.largest_norm <= 1 + 1e-6).all()
    plain = train(job, cases.silent)
    assert any((value != plain.weights[name]).any() for name, value in full.weights.items())


def test_averaged_weights_follow_their_definition() -> None:
    job = cases.job(sgd(sample_rate=0.3, steps=5))
    path = [train(replace(job, mechanism=sgd(sample_rate=0.3, steps=steps)), cases.silent, DOUBLE) for steps in range(6)]
    done = train(job, cases.silent, DOUBLE, Technique(averaging=0.25))
    for name, value in done.weights.items():
        average = path[0].weights[name]
        for step in range(1, 6):
            decay = min(0.25, (1 + step) / (10 + step))
            average = decay * average + (1 - decay) * path[step].weights[name]
        np.testing.assert_allclose(value, average, rtol=1e-9, atol=1e-12)
    first = AveragedWeights(0.9, torch.zeros(1))
    first.step(torch.ones(1))
    assert float(first.average) == pytest.approx(1 - 2 / 11)


@pytest.mark.parametrize("kind", ["sgd", "adamw"])
@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
def test_schedules_equal_those_of_torch(schedule: str, kind: str) -> None:
    steps, warmup = 9, 3
    generator = torch.Generator().manual_seed(0)
    gradients = torch.randn(steps, 4, dtype=torch.float64, generator=generator)
    parameter = torch.nn.Parameter(torch.ones(4, dtype=torch.float64))
    options = {"learning_rate": 0.3, "weight_decay": 0.1}
    reference = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[kind]([parameter], lr=0.3, weight_decay=0.1)

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        done = (step - warmup) / (steps - warmup)
        return {"constant": 1.0, "linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2}[schedule]

    scheduler = torch.optim.lr_scheduler.LambdaLR(reference, factor)
    mine = plugins.build("audit.optimizers", {"kind": kind, **options, "schedule": schedule, "warmup": warmup}).start(steps)
    flat = torch.ones(1, 4, dtype=torch.float64)
    for gradient in gradients:
        parameter.grad = gradient.clone()
        reference.step()
        scheduler.step()
        mine.step(flat, gradient.unsqueeze(0))
    np.testing.assert_allclose(flat[0], parameter.detach(), rtol=1e-9)
    assert rate_factor(schedule, 0, 0, steps) == 1.0


def test_large_batches_in_several_passes_equal_one_pass() -> None:
    job = cases.job(cases.varied(QUIET, noise_multiplier=1.0, sample_rate=0.9), models=2)
    item, several = (train(job, cases.silent, ScheduleSettings(dtype=torch.float64, rows=rows)) for rows in (64, 16))
    for name, value in item.weights.items():
        np.testing.assert_allclose(value, several.weights[name], rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(item.executed.batch_sizes, several.executed.batch_sizes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clipping": "global"}, "flat, per_layer"),
        ({"copies": 0}, "at least 1"),
        ({"shift": -1}, "at least"),
        ({"averaging": 1.0}, r"decay in \[0, 1\)"),
    ],
)
def test_bad_techniques_are_named(options: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        DpSgdTrainer(**options)


def test_augmentation_of_features_is_refused() -> None:
    with pytest.raises(ConfigError, match="need images"):
        train(cases.job(QUIET), cases.silent, None, Technique(flip=True))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"kind": "sdg", "learning_rate": 1.0}, "adam, adamw, from_torch, sgd"),
        ({"kind": "adam"}, "learning_rate"),
        ({"kind": "sgd", "learning_rate": 0.0}, "above 0"),
        ({"kind": "sgd", "learning_rate": 1.0, "momentum": 1.0}, "momentum"),
        ({"kind": "sgd", "learning_rate": 1.0, "schedul": "cosine"}, "Did you mean 'schedule'"),
        ({"kind": "adam", "learning_rate": 1.0, "schedule": "cosin"}, "constant, linear, cosine"),
        ({"kind": "sgd", "learning_rate": 1.0, "warmup": -1}, "warmup"),
        ({"kind": "adam", "learning_rate": 1.0, "beta2": 1.0}, "beta2"),
    ],
)
def test_bad_optimisers_are_named(spec: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        plugins.build("audit.optimizers", spec, "optimizer")
