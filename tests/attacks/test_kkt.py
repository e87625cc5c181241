"""Records from the weights of a ReLU network at rest: points of the plane come back, points never seen do not."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path

import pytest
import torch

from audit.core.errors import ConfigError, ObservationError

_SPEC = importlib.util.spec_from_file_location("kkt_attack", Path(__file__).parents[2] / "benchmarks" / "kkt_attack.py")
assert _SPEC is not None and _SPEC.loader is not None
kkt_attack = sys.modules["kkt_attack"] = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(kkt_attack)
StationaryRecords, TrainingPastZeroLoss, TwoLayers = (
    kkt_attack.StationaryRecords,
    kkt_attack.TrainingPastZeroLoss,
    kkt_attack.TwoLayers,
)
residual, with_constant = kkt_attack.residual, kkt_attack.with_constant


def ring(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Points of the plane in a ring, their classes in turn."""
    generator, kind = torch.Generator().manual_seed(seed), {"dtype": torch.float64}
    places = torch.arange(count) + 0.8 * torch.rand(count, generator=generator, **kind) + torch.rand(1, generator=generator)
    radii = 0.6 + 0.4 * torch.rand(count, generator=generator, **kind)
    angles = places * 2 * math.pi / count
    classes = torch.ones(count, **kind)
    classes[1::2] = -1
    return torch.stack([angles.cos() * radii, angles.sin() * radii], dim=1), classes


def some_network(units: int = 7, features: int = 3) -> TwoLayers:
    generator = torch.Generator().manual_seed(4)
    first = torch.randn((units, features + 1), generator=generator, dtype=torch.float64)
    return TwoLayers(
        hidden=first[:, :-1], biases=first[:, -1], outputs=torch.randn(units, generator=generator, dtype=torch.float64)
    )


def test_the_residual_is_that_of_the_gradients() -> None:
    network = some_network()
    records = torch.randn((5, 3), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    multipliers = torch.tensor([0.3, -0.2, 1.5, 0.0, -2.0], dtype=torch.float64)
    first, outputs = network.first.clone().requires_grad_(True), network.outputs.clone().requires_grad_(True)
    answers = torch.relu(with_constant(records) @ first.T) @ outputs
    slopes = torch.autograd.grad((multipliers * answers).sum(), [first, outputs])
    missing = (network.first - slopes[0]).square().sum() + (network.outputs - slopes[1]).square().sum()
    expected = float(missing) / network.norm**2
    assert float(residual(network, records, multipliers)) == pytest.approx(expected, rel=1e-12)
    assert float(residual(network, records, multipliers, 1e9)) == pytest.approx(expected, rel=1e-9)
    assert torch.allclose(network.answers(records), answers.detach())


def test_slopes_of_the_residual_equal_finite_differences() -> None:
    network = some_network()
    records = torch.randn((4, 3), generator=torch.Generator().manual_seed(2), dtype=torch.float64).requires_grad_(True)
    multipliers = torch.tensor([0.3, -0.2, 1.5, -1.0], dtype=torch.float64).requires_grad_(True)
    assert torch.autograd.gradcheck(lambda x, m: residual(network, x, m, 3.0), (records, multipliers))


def test_true_records_of_a_network_at_rest_leave_nothing() -> None:
    """Two records, each seen by one unit of its class alone: their stationary weights in closed form."""
    records = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], dtype=torch.float64)
    inputs, outputs = with_constant(records), torch.tensor([2.0**0.5, -(2.0**0.5)], dtype=torch.float64)
    network = TwoLayers(hidden=outputs.abs()[:, None] * records / 2**0.5, biases=outputs.abs() / 2**0.5, outputs=outputs)
    multipliers = torch.tensor([1.0, -1.0], dtype=torch.float64) / 2**0.5
    assert torch.allclose(network.first, outputs.abs()[:, None] * inputs / 2**0.5)
    assert float(residual(network, records, multipliers)) < 1e-20
    assert float(residual(network, records + 0.1, multipliers)) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_points_of_the_plane_come_back_and_points_never_seen_do_not(seed: int) -> None:
    records, classes = ring(10, seed)
    training = TrainingPastZeroLoss(units=200, steps=12_000)
    network = training.network(records, classes, torch.Generator().manual_seed(seed))
    attack = StationaryRecords(candidates=40)
    result = attack.reconstruct(network, -1.0, 1.0, torch.Generator().manual_seed(0))
    again = attack.reconstruct(network, -1.0, 1.0, torch.Generator().manual_seed(0))
    assert torch.equal(result.records, again.records)
    peers = torch.cat([ring(10, 1000 + index)[0] for index in range(20)])
    near, far = (torch.cdist(part, result.heaviest()).min(dim=1).values.median() for part in (records, peers))
    assert near < far / 4
    assert float(result.records.abs().max()) <= 1 and float(result.multipliers.min()) > 0


def test_what_cannot_be_attacked_is_refused() -> None:
    network = some_network()
    with pytest.raises(ConfigError, match="expected \\(units, features\\)"):
        TwoLayers(hidden=network.hidden, biases=network.biases[:2], outputs=network.outputs)
    with pytest.raises(ConfigError, match=r"outputs \(7, 1\)"):
        TwoLayers(hidden=network.hidden, biases=network.biases, outputs=network.outputs[:, None])
    with pytest.raises(ObservationError, match="norm nan"):
        TwoLayers(hidden=network.hidden * math.nan, biases=network.biases, outputs=network.outputs)
    with pytest.raises(ConfigError, match="1 candidates"):
        StationaryRecords(candidates=1)
    with pytest.raises(ConfigError, match="spread"):
        StationaryRecords(candidates=4, spread=0.0)
    with pytest.raises(ConfigError, match="expected the first below the second"):
        StationaryRecords(candidates=4).reconstruct(network, 1.0, 1.0, torch.Generator())
    records, classes = ring(10, 0)
    with pytest.raises(ObservationError, match="wrong side"):
        TrainingPastZeroLoss(units=5, steps=3).network(records, classes, torch.Generator().manual_seed(0))
    with pytest.raises(ObservationError, match=r"squared norm is 0\.0"):  # no unit answers: its slope is 0 and stays so
        TrainingPastZeroLoss(units=1, steps=3).network(
            torch.full_like(records, 10.0), classes, torch.Generator().manual_seed(4)
        )
