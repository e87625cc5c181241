"""Canary clients in a federation that runs: a substitute without Flower, and Flower's own strategies if it is installed."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import audit
from audit.core.errors import ConfigError, DataError
from audit.stats.curves import tradeoff
from audit.step_checks.rounds import wire
from audit.step_checks.rounds.live import CanaryRounds, plant_canary_clients
from tests.step_checks import flower_stand_in as stand_in

EXPORTER = Path(__file__).resolve().parents[2] / "examples" / "federated_rounds.py"
CLIENTS, CANARIES, ROUNDS = 8, 150, 6
SHAPES = {"weight": (20, 12), "scale": ()}


class Grid:
    """Clients in this process: each moves the model by its own fixed step."""

    def __init__(self, records: Any) -> None:
        self.records = records

    def get_node_ids(self) -> list[int]:
        return list(range(1, CLIENTS + 1))

    def send_and_receive(self, messages: Iterable[Any], **options: Any) -> list[Any]:
        return [self.answer(message) for message in messages]

    def answer(self, message: Any) -> Any:
        (arrays,) = message.content.array_records.values()
        generator = np.random.default_rng(message.metadata.dst_node_id if self.records is not stand_in else 1)
        model = {name: array.numpy() for name, array in arrays.items()}
        moved = {name: np.asarray(value + generator.normal(0, 0.1, value.shape), value.dtype) for name, value in model.items()}
        content = {"arrays": wire.to_record(self.records, moved), "metrics": self.records.MetricRecord({"num-examples": 20})}
        return self.records.Message(self.records.RecordDict(content), dst_node_id=0, message_type="train")


def play(strategy: Any, records: Any) -> None:
    """As Flower's own `start` does: configure, send, aggregate, a round after the other."""
    arrays = wire.to_record(records, {name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()})
    for number in range(1, ROUNDS + 1):
        grid = Grid(records)
        messages = strategy.configure_train(number, arrays, records.ConfigRecord(), grid)
        arrays, _ = strategy.aggregate_train(number, grid.send_and_receive(messages))


def bound(rounds: CanaryRounds) -> float:
    scores, coins = rounds.scores()
    return float(audit.lower_bound(scores[coins], scores[~coins], delta=1e-5, adjacency="zero_out").epsilon)


def claim(noise_multiplier: float) -> float:
    return tradeoff.gdp_epsilon(np.sqrt(ROUNDS) / noise_multiplier, 1e-5)


class Playing(stand_in.Correct):
    """The substitute with every node in its grid, and canary clients among the planned ones."""

    def __init__(self, noise_multiplier: float) -> None:
        super().__init__(noise_multiplier=noise_multiplier, num_sampled_clients=CLIENTS + CANARIES)


@pytest.mark.slow
def test_canary_clients_prove_what_a_strategy_releases_and_no_more() -> None:
    for noise, low in ((1.0, 1.0), (20.0, 0.0)):
        strategy = Playing(noise)
        rounds = plant_canary_clients(strategy, count=CANARIES, clip_norm=1.0, seed=7, records=stand_in)
        play(strategy, stand_in)
        assert len(rounds.rounds) == ROUNDS and rounds.rounds[0].shape == (241,)
        assert low <= bound(rounds) < claim(noise)


def test_a_strategy_that_does_not_clip_is_refuted() -> None:
    strategy = stand_in.NotClipped(3.0, num_sampled_clients=CLIENTS + CANARIES)
    rounds = plant_canary_clients(strategy, count=CANARIES, clip_norm=1.0, seed=7, records=stand_in)
    play(strategy, stand_in)
    assert bound(rounds) > 3 and claim(3.0) > 3, "canary clients send a thousand clip norms: as good as without noise"


def test_rounds_are_read_by_the_exchange_file(tmp_path: Path) -> None:
    strategy = Playing(2.0)
    rounds = plant_canary_clients(strategy, count=CANARIES, clip_norm=1.0, seed=7, records=stand_in)
    play(strategy, stand_in)
    rounds.write(str(tmp_path / "rounds.npz"))
    scores, coins = runpy.run_path(str(EXPORTER))["scores"](str(tmp_path / "rounds.npz"))
    own, own_coins = rounds.scores()
    np.testing.assert_allclose(scores, own, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(coins, own_coins)


def test_what_does_not_fit_is_refused() -> None:
    options: dict[str, Any] = {"count": CANARIES, "clip_norm": 1.0, "records": stand_in}
    with pytest.raises(ConfigError, match="has no configure_train"):
        plant_canary_clients(object(), **options)
    with pytest.raises(ConfigError, match="show nothing"):
        plant_canary_clients(Playing(1.0), **{**options, "count": 1})
    with pytest.raises(ConfigError, match="expected fewer than those"):
        play(_planted(Playing(1.0), {**options, "count": 241}), stand_in)
    with pytest.raises(DataError, match="num_sampled_clients=158"):
        play(_planted(stand_in.Correct(num_sampled_clients=CLIENTS), options), stand_in)
    with pytest.raises(DataError, match="no round was released"):
        plant_canary_clients(Playing(1.0), **options).scores()
    with pytest.raises(DataError, match="no client replied"):
        _planted(Playing(1.0), options).aggregate_train(1, [])


def _planted(strategy: Any, options: dict[str, Any]) -> Any:
    plant_canary_clients(strategy, **options)
    return strategy


def test_flower_s_own_strategies() -> None:
    """flwr 1.41: fixed clipping at the server holds under canary clients, and plain averaging gives them away."""
    records = pytest.importorskip("flwr.app", reason="needs flwr >= 1.41 (docs/use/federated.md)")
    from flwr.serverapp import strategy as flower

    with wire.task_identity(sys.modules["flwr.app"]):
        inner = flower.FedAvg(fraction_evaluate=0.0)
        fixed = flower.DifferentialPrivacyServerSideFixedClipping(inner, 2.0, 1.0, CLIENTS + CANARIES)
        for strategy, refuted in ((fixed, False), (flower.FedAvg(fraction_evaluate=0.0), True)):
            rounds = plant_canary_clients(strategy, count=CANARIES, clip_norm=1.0, seed=7)
            arrays = wire.to_record(records, {"weight": np.zeros((20, 12), np.float32), "bias": np.zeros(3, np.float32)})
            strategy.start(grid=Grid(records), initial_arrays=arrays, num_rounds=ROUNDS)
            assert (bound(rounds) > 3) is refuted
            if not refuted:
                assert 0 < bound(rounds) < claim(2.0)
