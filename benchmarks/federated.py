"""What clipping and noise cost a federated training: accuracy, F1, AUC, rounds, spread, bytes, time and memory, by epsilon.

    python benchmarks/federated.py --data DIR --write docs/use/federated.md
    python benchmarks/federated.py --data DIR --only adult --rounds 20

Trains `--seeds` federations at once for each data set, split and epsilon. DIR holds the folders MNIST and adult, as
configs/mnist-cnn.yaml and configs/adult-mlp.yaml read them. Bytes are those of the model as float32, and of an update as
indices and values of its top 1 % or as one byte a number; compression is counted, not trained with.
"""

from __future__ import annotations

import argparse
import resource
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from audit import plugins
from audit.accounting import calibration
from audit.config import parse
from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.canaries import Canaries, CoordinateGradients
from audit.core.data import Dataset
from audit.core.event_reading import phases
from audit.core.events import dp_sgd, sgd
from audit.core.seeds import Seed
from audit.core.training import TrainingJob
from audit.data.load import load
from audit.engine.read.subject import Ensemble
from audit.experiment.games.utility_figures import CLASSIFICATION
from audit.models.build import parameter_count
from audit.trainers.federated import FederatedTrainer

DELTA = 1e-5
EPSILONS = (1.0, 4.0, 8.0, None)
SIZES = {"train": 20000, "pool": 10, "test": 4000}
MARK = ("<!-- utility: written by benchmarks/federated.py -->", "<!-- end of utility -->")


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One data set, split over clients."""

    name: str
    data: dict[str, Any]
    model: dict[str, Any]
    split: str
    clients: int = 1000
    rate: float = 0.1
    clip_norm: float = 1.0


def problems(folder: str) -> list[Problem]:
    """MNIST dealt out evenly and by a Dirichlet law, Adult by a Dirichlet law; as the shipped configs read them."""
    mnist, adult = ({**read_config(name, [f"data.root={folder}"]).data, **SIZES} for name in ("mnist-cnn", "adult-mlp"))
    mlp = {"kind": "mlp", "hidden": [32]}
    return [
        Problem(name="MNIST, IID", data=mnist, model=mlp, split="uniform"),
        Problem(name="MNIST, Dirichlet 0.3", data=mnist, model=mlp, split="dirichlet"),
        Problem(name="Adult, Dirichlet 0.3", data=adult, model={"kind": "logistic"}, split="dirichlet"),
    ]


def read_config(name: str, overrides: list[str]) -> Any:
    """Return a shipped config."""
    return parse((Path(__file__).parents[1] / "configs" / f"{name}.yaml").read_text(), overrides).config


def row(problem: Problem, dataset: Dataset, epsilon: float | None, options: argparse.Namespace) -> list[str]:
    """Return the cells of one line: what `options.seeds` federations came to."""
    event = sgd(sample_rate=problem.rate, steps=options.rounds, unit="client")
    if epsilon is not None:
        calibrated = calibration.calibrate_noise(
            plugins.build(plugins.FOLDERS["accountants"], {"kind": "pld"}),
            target_epsilon=epsilon,
            delta=DELTA,
            sample_rate=problem.rate,
            steps=options.rounds,
            clip_norm=problem.clip_norm,
            adjacency=Adjacency.ZERO_OUT,
        )
        event = dp_sgd(
            noise_multiplier=phases(calibrated)[0][0],
            clip_norm=problem.clip_norm,
            sample_rate=problem.rate,
            steps=options.rounds,
            unit="client",
        )
    shape = dataset.train.inputs.shape[1:]
    job = TrainingJob(
        dataset=dataset,
        canaries=Canaries(
            kind="none", description="no canaries", payload=CoordinateGradients(coordinates=np.zeros(1, dtype=np.int64))
        ),
        included=np.zeros((options.seeds, 1), dtype=bool),
        seeds=tuple(Seed(7).child("federation", index) for index in range(options.seeds)),
        mechanism=event,
        model=problem.model,
        optimizer={"kind": "sgd", "learning_rate": 1.0},
        access=Access.FINAL_MODEL,
        checkpoints=tuple(range(1, options.rounds + 1)),
    )
    trainer = FederatedTrainer(
        clients=problem.clients,
        noise="none" if epsilon is None else "central",
        local_steps=5,
        local_batch=10,
        local_learning_rate=0.1,
        split=problem.split,
    )
    start = time.process_time()
    subject = trainer.fit(job, lambda steps: None)
    seconds = time.process_time() - start
    labels = dataset.test.labels
    by_round = np.array([_accuracies(item, dataset) for item in subject.checkpoints()])  # (rounds, seeds)
    logits = subject.outputs(dataset.test.inputs).astype(np.float64)
    figures = [[figure(labels, item) for item in logits] for figure in CLASSIFICATION.values()]
    near = [int(np.argmax(column >= 0.95 * column[-1])) + 1 for column in by_round.T]
    size = 4 * parameter_count(problem.model, shape, dataset.classes)
    return [
        problem.name,
        "none" if epsilon is None else f"{epsilon:g}",
        "0" if epsilon is None else f"{phases(event)[0][0]:.2f}",
        *(f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}" for values in figures),
        f"{np.mean(near):.0f}",
        f"{size / 1000:.1f}",
        f"{size / 1000:.1f} / {size / 4 * 0.01 * 8 / 1000:.2f} / {size / 4 / 1000:.1f}",
        f"{seconds:.1f}",
    ]


def _accuracies(models: Ensemble, dataset: Dataset) -> np.ndarray:
    return np.asarray((models.outputs(dataset.test.inputs).argmax(-1) == dataset.test.labels).mean(1))


HEADER = (
    "Clients",
    "ε",
    "noise multiplier",
    "accuracy",
    "macro-F1",
    "AUC",
    "rounds to 95 % of the last accuracy",
    "kB down",
    "kB up: plain / top 1 % / 8 bits",
    "CPU s",
)


def main() -> None:
    """Print the table, and write it between its marks if a page is named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder that holds MNIST and adult")
    parser.add_argument("--only", default="", help="part of the name of the problems to run")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--write", type=Path, help="page to write the table into")
    parser.add_argument("--times", action="store_true", help="add CPU seconds and peak memory; on a quiet machine only")
    options = parser.parse_args()
    header = HEADER if options.times else HEADER[:-1]
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    for problem in problems(options.data):
        if options.only.lower() in problem.name.lower():
            dataset = load(problem.data, Seed(1))
            for epsilon in EPSILONS:
                lines.append("| " + " | ".join(row(problem, dataset, epsilon, options)[: len(header)]) + " |")
                print(lines[-1], flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    memory = f"; peak memory {peak:.2f} GiB" if options.times else ""
    lines += ["", f"{options.seeds} federations of {options.rounds} rounds each, trained at once{memory}."]
    print("\n".join(lines))
    if options.write is not None:
        before, remainder = options.write.read_text().split(MARK[0])
        options.write.write_text(before + MARK[0] + "\n" + "\n".join(lines) + "\n" + MARK[1] + remainder.split(MARK[1])[1])


if __name__ == "__main__":
    main()
