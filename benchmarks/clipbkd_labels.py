"""ClipBKD canaries of one run with balanced labels, beside the label that a linear model finds least likely.

    python benchmarks/clipbkd_labels.py --mnist FOLDER [--model mlp|cnn] [--seeds 20] [--count 700 --norm 2 --rate 2]

MNIST, 1000 records, DP-SGD at epsilon 8, one black-box run, scorer `loss`. Both kinds of
label meet the same seed: the same directions, signs, coins and noise.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from attacks.canaries._pool_records import ClipBkd
from audit.config import parse
from audit.core.canaries import Canaries
from audit.core.data import Dataset
from audit.core.lower_bounds import read_epsilon
from audit.core.seeds import Seed
from audit.execution.store import Store
from audit.experiment.line import assemble, run
from audit.stats.scoring import linear_probe

CONFIG = """
version: 1
name: clipbkd-labels
seed: {seed}
delta: 1e-5
data: {{kind: mnist, path: {folder}, train: 1000, pool: 2000, test: 500}}
model: {model}
training: {{optimizer: sgd, learning_rate: {rate}, sample_rate: 0.25, steps: {steps}}}
mechanisms: [{{name: dp, kind: dp_sgd, target_epsilon: 8.0, clip_norm: 1.0}}]
games:
  - {{name: g, access: final_model, canaries: {canaries}, count: {count}, scorers: [loss], estimators: [one_run, one_run_fdp]}}
accountants: [pld]
certificates: 0
"""
MODELS = {"mlp": "{kind: mlp, hidden: [32]}", "cnn": "{kind: cnn}"}
KINDS = {"balanced": "clipbkd", "least likely": "clipbkd_labels:LeastLikely"}


class LeastLikely(ClipBkd):
    """The same records, each with the label that a linear model finds least likely."""

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        canaries = ClipBkd.make(self, dataset, count, parameters, seed)
        flat = dataset.pool.inputs.reshape(len(dataset.pool), -1)
        weights = linear_probe.fit(flat, dataset.pool.labels, dataset.classes)
        payload: Any = canaries.payload
        values = payload.records.inputs.reshape(count, -1) @ weights[:-1] + weights[-1]
        # inputs, coins and noise stay as they were, so that a seed's two audits differ in labels alone
        records = replace(payload.records, labels=np.argmin(values, axis=1).astype(np.int64))
        return replace(canaries, payload=replace(payload, records=records))


def audit(config: str) -> list[float]:
    """Return the proven epsilons of both estimators, then the AUC."""
    resolved = parse(config, ())
    with tempfile.TemporaryDirectory() as folder:
        results, _ = run.run(assemble.assemble(resolved.config), Store.start(Path(folder) / "run", resolved.sha256))
    (game,) = results[0].games
    return [*(read_epsilon(bound) for bound in game.bounds), game.attacks[0].auc]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mnist", type=Path, required=True)
    parser.add_argument("--model", choices=sorted(MODELS), default="mlp")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--norm", type=float, default=1.0)
    parser.add_argument("--rate", type=float, default=0.5)
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    rows: dict[str, list[list[float]]] = {kind: [] for kind in KINDS}
    for seed in range(1, options.seeds + 1):
        for kind, canaries in KINDS.items():
            config = CONFIG.format(
                seed=seed,
                folder=options.mnist,
                model=MODELS[options.model],
                canaries=f"{{kind: '{canaries}', norm: {options.norm}}}",
                count=options.count,
                rate=options.rate,
                steps=options.steps,
            )
            rows[kind].append(audit(config))
            print(seed, kind, rows[kind][-1], flush=True)
    figures = {kind: np.array(values) for kind, values in rows.items()}
    figures["gain"] = figures["balanced"] - figures["least likely"]
    print("| labels | any mechanism | family gdp | AUC |\n|---|---|---|---|")
    for kind, values in figures.items():
        errors = values.std(axis=0, ddof=1) / len(values) ** 0.5
        print(f"| {kind} | {' | '.join(f'{m:.2f} ({e:.2f})' for m, e in zip(values.mean(axis=0), errors, strict=True))} |")


if __name__ == "__main__":
    main()
