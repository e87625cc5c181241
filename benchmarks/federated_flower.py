"""How long a round of a federation takes in Flower's own simulation, and in the trainer that audits use, in turn.

    pip install 'flwr[simulation]>=1.41,<1.42' && pip install epsilon-audit     # in their own environment
    python benchmarks/federated_flower.py                                       # minutes

Both train the MLP of 9,946 parameters of benchmarks/federated_speed.py: 100 of 1,000 clients a round, five local steps of 10
records by plain SGD, updates clipped to norm 1, noise multiplier 1 at the server. Flower starts its workers before the first
round is answered, so its time until then is a figure of its start, and a round costs what is between one answer and the
next: a simulation of R + 1 rounds gives R such times, and their median counts. The trainer is measured over a whole run of
`--audit` rounds, with all that it sets up, before and after Flower, and its slower run counts. Times are of the wall clock,
since Flower's work is in many processes: nothing else may run beside it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import numpy as np
import torch
from federated_speed import BATCH, CLASSES, CLIENTS, HELD, HIDDEN, INPUTS, RATE, STEPS, TAKING_PART, batched, dataset
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
from flwr.simulation import run_simulation
from torch.nn import functional as F


def model() -> torch.nn.Sequential:
    """Return the MLP of both sides."""
    return torch.nn.Sequential(torch.nn.Linear(INPUTS, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, CLASSES))


def train(message: Message, context: Context) -> Message:
    """Answer a round as a client does: local steps on its own records, which are drawn from its number."""
    torch.set_num_threads(1)
    random = np.random.default_rng(int(context.node_config["partition-id"]))
    inputs = torch.from_numpy(random.normal(size=(HELD, INPUTS)).astype(np.float32))
    labels = torch.from_numpy(random.integers(0, CLASSES, HELD))
    module = model()
    module.load_state_dict(message.content["arrays"].to_torch_state_dict())
    parameters = list(module.parameters())
    for _ in range(STEPS):
        rows = random.choice(HELD, BATCH, replace=False)
        gradients = torch.autograd.grad(F.cross_entropy(module(inputs[rows]), labels[rows]), parameters)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.sub_(gradient, alpha=RATE)
    metrics = MetricRecord({"num-examples": HELD})
    return Message(RecordDict({"arrays": ArrayRecord(module.state_dict()), "metrics": metrics}), reply_to=message)


class Timed(FedAvg):
    """Averaging that notes when the answers of each round have come in and are added up."""

    moments: list[float]

    def aggregate_train(self, server_round: int, replies: Any) -> Any:
        built = super().aggregate_train(server_round, replies)
        self.moments.append(time.perf_counter())
        return built


def simulate(rounds: int, workers: int) -> tuple[float, list[float]]:
    """Return the seconds before the first round was answered, and those of each of `rounds` further ones."""
    share = TAKING_PART / CLIENTS
    strategy = Timed(fraction_train=share, fraction_evaluate=0.0, min_available_nodes=CLIENTS)
    strategy.moments = []
    server = ServerApp()

    @server.main()
    def _main(grid: Grid, context: Context) -> None:
        private = DifferentialPrivacyServerSideFixedClipping(strategy, 1.0, 1.0, num_sampled_clients=TAKING_PART)
        arrays = ArrayRecord(model().state_dict())
        private.start(grid=grid, initial_arrays=arrays, num_rounds=rounds + 1, train_config=ConfigRecord({}))

    client = ClientApp()
    client.train()(train)
    start = time.perf_counter()
    backend = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": workers}}
    run_simulation(server, client, num_supernodes=CLIENTS, backend_config=backend)
    if len(strategy.moments) != rounds + 1:
        raise SystemExit(f"the simulation ended {len(strategy.moments)} of {rounds + 1} rounds")
    return strategy.moments[0] - start, np.diff(strategy.moments).tolist()


def ours(data: Any, rounds: int, compiled: bool) -> float:
    """Return the seconds of a round of the trainer, with a share of all that it sets up."""
    start = time.perf_counter()
    batched(data, 1, rounds, compiled=compiled)
    return (time.perf_counter() - start) / rounds


def main() -> None:
    """Print a line for each side and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="of Flower's simulation that are timed")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--audit", type=int, default=50, help="rounds of one audited run")
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = dataset()
    for compiled in (False, True):  # imports and the compiler are not part of either figure
        batched(data, 1, 1, compiled=compiled)
    before = [ours(data, options.audit, compiled) for compiled in (False, True)]
    first, further = simulate(options.rounds, options.workers)
    after = [ours(data, options.audit, compiled) for compiled in (False, True)]
    flower = statistics.median(further)
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, {options.workers} workers; seconds of the wall clock")
    print(f"Flower: first answer after {first:.1f} s, then {', '.join(f'{value:.2f}' for value in further)} a round")
    for name, item, two in zip(("torch", "compiled"), before, after, strict=True):
        print(
            f"trainer, {name}: {item:.4f} and {two:.4f} a round; Flower's round is {flower / max(item, two):.0f} times as long"
        )
        full = first + (options.audit - 1) * flower
        print(
            f"  a run of {options.audit} rounds: {options.audit * max(item, two):.2f} s, Flower's {full:.0f} s with its start "
            f"(extrapolated from {options.rounds} rounds)"
        )


if __name__ == "__main__":
    main()
