"""Model specs: shapes, parameter counts, clear refusals, initialisation from the seed alone."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.seeds import Seed
from audit.training.models import build, initialised, parameter_count, refuse_mixing_layers, refuse_mixing_outputs
from tests.training import cases


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
        ({}, "It may be: logistic"),
        ({"kind": "mlp", "hiden": [4]}, "unknown key 'hiden'. Did you mean 'hidden'"),
        ({"kind": "mlp", "hidden": [0]}, "at least 1"),
        ({"kind": "mlp", "hidden": 64}, "list of widths"),
        ({"kind": "mlp", "activation": "rleu"}, "Did you mean 'relu'"),
        ({"kind": "cnn"}, "expected images"),
        ({"kind": "wide_resnet"}, "expected images"),
        ({"kind": "logistic", "hidden": [4]}, "It takes: no keys"),
        ({"factory": "tests.training.cases"}, "package.module:callable"),
        ({"factory": "tests.training.nothing:make"}, "cannot load"),
        ({"factory": "tests.training.cases:make", "arguments": {"nam": "tied"}}, "nam"),
        ({"factory": "tests.training.cases:make", "argument": {}}, "Did you mean 'arguments'"),
        ({"factory": "tests.training.cases:silent", "arguments": {"_": 1}}, "expected a torch.nn.Module"),
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


def test_initialisation_depends_on_the_seed_alone() -> None:
    spec = {"kind": "mlp", "hidden": [4]}
    before = torch.random.get_rng_state()
    first, again, other = (initialised(spec, (5,), 3, Seed(number)).state_dict() for number in (1, 1, 2))
    assert torch.equal(before, torch.random.get_rng_state())
    for name, value in first.items():
        assert torch.equal(value, again[name])
        assert not torch.equal(value, other[name])


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
    with pytest.raises(UnsupportedMechanism, match="batch axis"):
        refuse_mixing_outputs(cases.Mixing(), torch.randn(4, 5))
    refuse_mixing_outputs(cases.UsedTwice(), torch.randn(4, 5))
