"""Every optimiser: downhill, each model on its own, and the same path as the optimiser of torch that it names."""

from __future__ import annotations

import pytest
import torch

from audit import plugins
from audit.core.errors import ConfigError
from audit.engine.optimizing import Optimizer, PlainOptimizer

OPTIMIZERS = tuple(name for name in plugins.names(plugins.FOLDERS["optimizers"]) if name != "from_torch")
STEPS = 40


def built(name: str, **options: object) -> Optimizer:
    optimizer: Optimizer = plugins.build(plugins.FOLDERS["optimizers"], {"kind": name, "learning_rate": 0.05, **options})
    return optimizer


def path(optimizer: Optimizer, flat: torch.Tensor) -> torch.Tensor:
    """Return where the parameters `(N, width)` of half their squared length end."""
    flat, state = flat.clone(), optimizer.start(STEPS)
    for _ in range(STEPS):
        state.step(flat, flat.clone())
    return flat


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_bowl_is_walked_down_by_each_model_alone(name: str) -> None:
    start = torch.tensor([[1.0, -2.0], [0.5, 3.0]], dtype=torch.float64)
    together = path(built(name), start)
    assert (together.norm(dim=1) < start.norm(dim=1)).all()
    for model in range(2):
        torch.testing.assert_close(path(built(name), start[model : model + 1])[0], together[model])


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_path_is_that_of_torch(name: str) -> None:
    optimizer = built(name, weight_decay=0.1)
    assert isinstance(optimizer, PlainOptimizer)
    parameter = torch.nn.Parameter(torch.tensor([1.0, -2.0], dtype=torch.float64))
    plain = optimizer.plain([parameter])
    for _ in range(STEPS):
        parameter.grad = parameter.detach().clone()
        plain.step()
    mine = path(optimizer, torch.tensor([[1.0, -2.0]], dtype=torch.float64))[0]
    torch.testing.assert_close(mine, parameter.detach(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize(
    "option",
    [
        {"learning_rate": 0.0},
        {"learning_rate": 1e308},
        {"weight_decay": -1.0},
        {"weight_decay": 1e39},
        {"schedule": "cosin"},
        {"warmup": -1},
    ],
)
def test_values_out_of_range_are_named(name: str, option: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=f"optimizer.{next(iter(option))}"):
        built(name, **option)
