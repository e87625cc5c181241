"""Model specs: shapes, parameter counts, clear refusals, initialisation from the seed alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from audit.checks.execution import check_executed
from audit.core.data import Records
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.events import dp_sgd
from audit.core.seeds import Seed
from audit.engine.ensemble import train
from audit.engine.losses import USUAL
from audit.engine.read.observe import logits
from audit.engine.trial.examine import Probe, examine
from audit.models.build import build, initialise_model, parameter_count, refuse_mixing_layers
from tests.engine import cases
from tests.marks import slow


@pytest.mark.parametrize(
    ("spec", "shape", "classes", "parameters"),
    [
        ({"kind": "logistic"}, (64,), 10, 650),
        ({"kind": "logistic"}, (1, 8, 8), 10, 650),
        ({"kind": "mlp", "hidden": [64]}, (64,), 10, 4810),
        ({"kind": "mlp", "hidden": [128], "activation": "tanh"}, (600,), 100, 600 * 128 + 128 + 128 * 100 + 100),
        ({"kind": "mlp", "hidden": []}, (7,), 0, 8),
        ({"kind": "cnn", "channels": [8, 16]}, (1, 28, 28), 10, 8 * 9 + 8 + 16 * 72 + 16 + 784 * 10 + 10),
        ({"kind": "wide_resnet", "depth": 16, "widen": 4}, (3, 32, 32), 10, 2_748_890),
        ({"kind": "vit", "width": 8, "depth": 1}, (3, 8, 8), 10, (48 * 8 + 8) + 4 * 8 + 4 * 72 + 2 * 136 + 8 + 48 + 90),
        ({"kind": "transformer", "vocabulary": 9, "width": 8, "depth": 1}, (5,), 2, 72 + 40 + 4 * 72 + 2 * 136 + 8 + 48 + 18),
        ({"kind": "recurrent", "vocabulary": 9, "width": 8}, (5,), 2, 72 + 4 * (64 + 64 + 16) + 18),
        ({"kind": "recurrent", "vocabulary": 9, "width": 8, "cell": "gru", "depth": 2}, (5,), 0, 72 + 6 * (64 + 64 + 16) + 9),
    ],
)
def test_built_in_models(spec: dict, shape: tuple[int, ...], classes: int, parameters: int) -> None:
    module = build(spec, shape, classes)
    assert module(torch.zeros(2, *shape)).shape == (2, max(classes, 1))
    assert parameter_count(spec, shape, classes) == parameters
    refuse_mixing_layers(module)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"kind": "mpl"}, "Did you mean 'mlp'"),
        ({}, "name one of cnn, logistic"),
        ({"kind": "mlp", "hiden": [4]}, "unknown key 'hiden'. Did you mean 'hidden'"),
        ({"kind": "mlp", "hidden": [0]}, "at least 1"),
        ({"kind": "transformer", "vocabulary": 9, "depth": 10**6}, "depth is 1000000; expected at most 4,096"),
        ({"kind": "mlp", "hidden": 64}, "list of widths"),
        ({"kind": "mlp", "activation": "rleu"}, "Did you mean 'relu'"),
        ({"kind": "cnn"}, "expected images"),
        ({"kind": "wide_resnet"}, "expected images"),
        ({"kind": "logistic", "hidden": [4]}, "It takes: no keys"),
        ({"kind": "vit"}, "expected images"),
        ({"kind": "transformer"}, "transformer.vocabulary is 0"),
        ({"kind": "transformer", "vocabulary": 5, "heads": 3}, "divides the width"),
        ({"kind": "recurrent", "vocabulary": 5, "cell": "gur"}, "Did you mean 'gru'"),
        ({"kind": "recurrent", "vocabulary": 5, "depth": 0}, "recurrent.depth is 0"),
        ({"factory": "tests.engine.cases"}, "package.module:callable"),
        ({"factory": "tests.engine.nothing:make"}, "cannot load"),
        ({"factory": "tests.engine.cases:make", "arguments": {"nam": "tied"}}, "nam"),
        ({"factory": "tests.engine.cases:make", "argument": {}}, "Did you mean 'arguments'"),
        ({"factory": "tests.engine.cases:silent", "arguments": {"_": 1}}, "expected a torch.nn.Module"),
    ],
)
def test_bad_specs_are_named(spec: dict, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(spec, (64,), 10)
    assert message in str(caught.value)


@pytest.mark.parametrize("options", [{"depth": 12}, {"depth": 4}, {"widen": 0}, {"groups": 0}])
def test_bad_wide_resnets_are_named(options: dict) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        build({"kind": "wide_resnet", **options}, (3, 32, 32), 10)


def test_a_vit_needs_patches_that_fit() -> None:
    with pytest.raises(ConfigError, match=r"patch is 3 for images of 8 x 8"):
        build({"kind": "vit", "patch": 3}, (3, 8, 8), 10)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "name", slow(["vit", "transformer", "recurrent", "wide_resnet", "cnn", "mlp"], ["recurrent", "transformer", "wide_resnet"])
)
def test_every_kind_trains_privately_and_learns(name: str) -> None:
    """Four classes that one number of the record shows: with little noise, all models do far better than 1/4."""
    spec, shape = cases.MODELS[name]
    data = cases.dataset(shape, train=160, classes=4)
    labels = np.arange(160) % 4
    inputs = np.repeat(labels, int(np.prod(shape))).reshape(160, *shape).astype(np.float32)
    if "vocabulary" in spec:
        spec = {**spec, "vocabulary": 4}
    else:
        inputs -= 1.5
    data = replace(data, train=Records(inputs=inputs, labels=labels))
    slow = name in ("recurrent", "wide_resnet")
    mechanism = dp_sgd(noise_multiplier=0.3, clip_norm=1.0, sample_rate=0.2, steps=20 if slow else 40)
    job = cases.job(
        mechanism, model=spec, data=data, models=2, optimizer={"kind": "adam", "learning_rate": 0.04 if slow else 0.02}
    )
    done = train(job, cases.silent)
    assert all(check.status == "checked" for check in check_executed(mechanism, done.executed))
    guessed = logits(spec, done.weights, inputs[:40], 4).argmax(-1)
    assert ((guessed == labels[:40]).mean(1) > 0.6).all()


def test_initialisation_depends_on_the_seed_alone() -> None:
    spec = {"kind": "mlp", "hidden": [4]}
    before = torch.random.get_rng_state()
    first, again, peer = (initialise_model(spec, (5,), 3, Seed(number)).state_dict() for number in (1, 1, 2))
    assert torch.equal(before, torch.random.get_rng_state())
    for name, value in first.items():
        assert torch.equal(value, again[name])
        assert not torch.equal(value, peer[name])


@pytest.mark.parametrize(
    ("layer", "named"),
    [
        (nn.BatchNorm2d(4), "BatchNorm2d"),
        (nn.SyncBatchNorm(4), "SyncBatchNorm"),
        (nn.InstanceNorm2d(4, track_running_stats=True), "InstanceNorm2d"),
    ],
)
def test_layers_that_mix_examples_are_refused_by_path(layer: nn.Module, named: str) -> None:
    module = nn.Sequential(nn.Identity(), nn.Sequential(nn.Identity(), layer))
    with pytest.raises(UnsupportedMechanism, match=rf"'1\.1' \({named}\).*GroupNorm"):
        refuse_mixing_layers(module)
    refuse_mixing_layers(nn.Sequential(nn.InstanceNorm2d(4, affine=True), nn.GroupNorm(2, 4), nn.LayerNorm(4)))


def test_mixing_in_forward_is_found_by_trying() -> None:
    probe = Probe(inputs=torch.randn(4, 5), labels=torch.zeros(4, dtype=torch.int64), loss=USUAL, classes=3)
    with pytest.raises(UnsupportedMechanism, match="batch axis"):
        examine(cases.Mixing(), probe, private=True)
    examine(cases.UsedTwice(), probe, private=True)
