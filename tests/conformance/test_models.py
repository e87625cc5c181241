"""Every architecture: the shapes it takes, one output a class, the same weights for the same seed, records apart."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from audit import plugins
from audit.core.errors import ConfigError
from audit.core.seeds import Seed
from audit.models.build import initialise_model, refuse_mixing_layers

ARCHITECTURES = plugins.names(plugins.FOLDERS["models"])
IMAGES, TOKENS, VECTORS = (1, 8, 8), (6,), (5,)
SETTINGS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "cnn": (IMAGES, {}),
    "wide_resnet": (IMAGES, {"depth": 10, "widen": 1}),
    "vit": (IMAGES, {}),
    "transformer": (TOKENS, {"vocabulary": 7}),
    "per_record": ((1, 5), {"model": {"kind": "mlp"}}),
    "recurrent": (TOKENS, {"vocabulary": 7}),
}


def built(name: str, seed: int = 0, classes: int = 3) -> tuple[torch.nn.Module, torch.Tensor]:
    shape, options = SETTINGS.get(name, (VECTORS, {}))
    inputs = torch.randn(4, *shape, generator=torch.Generator().manual_seed(1)) * 3
    return initialise_model({"kind": name, **options}, shape, classes, Seed(seed)), inputs


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_one_output_a_class_and_one_for_regression(name: str) -> None:
    for classes, outputs in ((3, 3), (0, 1)):
        module, inputs = built(name, classes=classes)
        assert module(inputs).shape == (4, outputs)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_weights_follow_the_seed(name: str) -> None:
    first, again, peer = (built(name, seed)[0].state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(value, again[key]) for key, value in first.items())
    assert any(not torch.equal(value, peer[key]) for key, value in first.items())


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_records_have_gradients_of_their_own(name: str) -> None:
    module, inputs = built(name)
    refuse_mixing_layers(module)
    torch.testing.assert_close(module(inputs)[:1], module(inputs[:1]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_an_unknown_key_is_named(name: str) -> None:
    with pytest.raises(ConfigError, match=f"model.{name}: unknown key 'no_such_key'"):
        plugins.build(plugins.FOLDERS["models"], {"kind": name, "no_such_key": 1}, "model")
