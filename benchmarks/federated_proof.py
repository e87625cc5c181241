"""What share of a claim canary clients prove to whoever sees all released models, inside the family of Gaussian mechanisms.

    python benchmarks/federated_proof.py                 # 1,000 canary clients, claims of 1.99 and 10, 8 federations each

Trains federations on digits with central noise and plain averaging by the trainer that audits use, 20 rounds in which every
client takes part, so that the noise of all rounds together is that of one release at noise multiplier 2 (epsilon 1.99 at delta
1e-5) or 0.5 (epsilon 10). Each federation is its own audit: its released models give each canary client a score, and
estimators a lower bound at 95 %. Prints the mean over the audits, the share of the claim, and how many exceed it.
"""

from __future__ import annotations

import argparse
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from audit.bounds.estimators.gaussian import Gaussian
from audit.bounds.estimators.one_run import OneRun
from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.events import dp_sgd
from audit.core.game import Game, Inclusion
from audit.core.seeds import Seed
from audit.core.training import TrainingJob
from audit.core.views import Scores
from audit.data.load import load
from audit.models.build import parameter_count
from audit.plugins import FOLDERS, build
from audit.stats.curves import tradeoff
from audit.trainers.federated import FederatedTrainer

DELTA, CONFIDENCE, ROUNDS, CLIENTS = 1e-5, 0.95, 20, 50
MODEL = {"kind": "mlp", "hidden": [32]}


def scores(multiplier: float, canaries: int, audits: int) -> list[Scores]:
    """Return the scores of the canaries of each federation, for a release at this noise multiplier in all rounds together."""
    data = load({"kind": "digits", "train": 1000, "pool": 200}, Seed(1))
    shape = data.train.inputs.shape[1:]
    planted = build(FOLDERS["canaries"], {"kind": "signed_cosine"}).make(
        data, canaries, parameter_count(MODEL, shape, data.classes), Seed(2)
    )
    event = dp_sgd(noise_multiplier=multiplier * ROUNDS**0.5, clip_norm=1.0, sample_rate=1.0, steps=ROUNDS, unit="client")
    included = np.random.default_rng(3).random((audits, canaries)) < 0.5
    job = TrainingJob(
        dataset=data,
        canaries=planted,
        included=included,
        seeds=tuple(Seed(4).child("federation", index) for index in range(audits)),
        mechanism=event,
        model=MODEL,
        optimizer={"kind": "sgd", "learning_rate": 1.0},
        access=Access.RELEASED_MODELS,
    )
    trainer = FederatedTrainer(clients=CLIENTS, local_steps=5, local_batch=10, local_learning_rate=0.2)
    products = trainer.fit(job, lambda steps: None).models.extra["models/products"].sum(2)
    game = Game(
        adjacency=Adjacency.ZERO_OUT,
        access=Access.RELEASED_MODELS,
        inclusion=Inclusion.COINS,
        canaries=canaries,
        independent_noise=True,
    )
    return [
        Scores(values=row, included=coins, game=game, mechanism=event) for row, coins in zip(products, included, strict=True)
    ]


def main() -> None:
    """Print a line for each claim and estimator."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--canaries", type=int, default=1000)
    parser.add_argument("--audits", type=int, default=8)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for claim in (tradeoff.gdp_epsilon(0.5, DELTA), 10.0):
        multiplier = 1 / tradeoff.gdp_mu(claim, DELTA)
        start = time.process_time()
        audits = scores(multiplier, options.canaries, options.audits)
        for estimator in (Gaussian(), OneRun()):
            bounds = [
                estimator.lower_bound(row, delta=DELTA, confidence=CONFIDENCE, seed=Seed(5).child("audit", index)).epsilon
                for index, row in enumerate(audits)
            ]
            mean = float(np.mean(bounds))
            print(
                f"claim {claim:.2f} (noise {multiplier:.3f}), {options.canaries} canaries, {type(estimator).__name__}: mean of "
                f"{options.audits} audits {mean:.2f} ({mean / claim:.0%}), {min(bounds):.2f} to {max(bounds):.2f}, "
                f"{sum(bound > claim for bound in bounds)} above the claim; {time.process_time() - start:.0f} CPU s",
                flush=True,
            )


if __name__ == "__main__":
    main()
