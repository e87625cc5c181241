"""Membership inference on real data, with and without DP-SGD: every model once the target, 16 references.

For each recipe (no DP, and DP-SGD at each target epsilon) 17 models train on one pool of records, each
record in each model by an independent coin; every scorer attacks every model with the other 16 as
references. Prints accuracy, AUC and TPR at 1 % and 0.1 % FPR with the sample standard deviation over
targets. Descriptive: these figures prove no epsilon (see audit.evaluation); `audit run` does.

    python benchmarks/real_data.py DATA --root FOLDER [--epsilons 1 4 8] [--models 17] [--pool N] [--markdown]

DATA is location30, adult, mnist, fashion_mnist or cifar10; FOLDER holds location30/dataset_location.tgz,
adult/adult.data.gz, MNIST/, FashionMNIST/, or cifar10_train.npz and cifar10_test.npz.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import tarfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from audit import calibration, evaluation, plugins
from audit.core.game import Access
from audit.core.mechanism import Mechanism, NonPrivate
from audit.core.protocols import TrainingJob
from audit.core.records import Array, Canaries, Dataset, Records, ReferenceView
from audit.core.seeds import Seed
from audit.stats import signals
from audit.training import data, observe

DELTA = 1e-5
SHARED = 100  # records in every model
SCORERS: list[dict[str, Any]] = [
    {"kind": "loss"},
    {"kind": "attack_p"},
    {"kind": "attack_r"},
    {"kind": "quantile"},
    {"kind": "offset"},
    {"kind": "rmia"},
    {"kind": "lira", "online": False},
    {"kind": "lira"},
    {"kind": "lira", "shift": "shrunk"},
    {"kind": "learned_combination"},
]
ADULT_COLUMNS = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
]


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A data set with the recipe that fits it: batch in expected members, epochs over them."""

    pool: int
    test: int
    model: Mapping[str, Any]
    plain: Mapping[str, Any]
    private: Mapping[str, Any]
    batch: int = 64
    epochs: int = 20
    private_batch: int = 256
    private_epochs: int = 20


CNN = {"kind": "cnn"}
ADAM = {"kind": "adam", "learning_rate": 1e-3}
PROBLEMS = {
    "location30": Problem(
        pool=4000,
        test=910,
        model={"kind": "mlp", "hidden": [128], "activation": "tanh"},
        plain=ADAM,
        private={"kind": "sgd", "learning_rate": 4.0},
        epochs=30,
    ),
    "adult": Problem(
        pool=10000,
        test=5000,
        model={"kind": "mlp", "hidden": [128]},
        plain=ADAM,
        private={"kind": "sgd", "learning_rate": 1.0},
        epochs=30,
    ),
    "mnist": Problem(pool=6000, test=2000, model=CNN, plain=ADAM, private={"kind": "sgd", "learning_rate": 1.0}),
    "fashion_mnist": Problem(pool=6000, test=2000, model=CNN, plain=ADAM, private={"kind": "sgd", "learning_rate": 1.0}),
    "cifar10": Problem(pool=6000, test=2000, model=CNN, plain=ADAM, private={"kind": "sgd", "learning_rate": 1.0}),
}


def read(name: str, root: Path, problem: Problem, seed: Seed) -> Dataset:
    counts = {"train": SHARED, "pool": problem.pool, "test": problem.test, "root": str(root)}
    if name == "location30":
        return location30(root, problem, seed)
    if name == "adult":
        table = {
            "kind": "table",
            "path": "adult/adult.data.gz",
            "test_path": "adult/adult.test.gz",
            "test_skip_rows": 1,
            "label_suffix": ".",
            "columns": ADULT_COLUMNS,
            "categorical": [ADULT_COLUMNS[i] for i in (1, 3, 5, 6, 7, 8, 9, 13)],
            "label": "income",
            "ranges": {
                "age": [17, 90],
                "fnlwgt": [0, 1500000],
                "education-num": [1, 16],
                "capital-gain": [0, 99999],
                "capital-loss": [0, 4356],
                "hours-per-week": [1, 99],
            },
        }
        return data.load({**table, **counts}, seed)
    if name == "cifar10":
        return data.load({"kind": "npz", "path": "cifar10_train.npz", "test_path": "cifar10_test.npz", **counts}, seed)
    return data.load({"kind": name, "path": {"mnist": "MNIST", "fashion_mnist": "FashionMNIST"}[name], **counts}, seed)


def location30(root: Path, problem: Problem, seed: Seed) -> Dataset:
    with tarfile.open(root / "location30" / "dataset_location.tgz") as archive:
        text = archive.extractfile("bangkok").read().decode().replace('"', "")  # type: ignore[union-attr]
    table = np.loadtxt(text.splitlines(), delimiter=",", dtype=np.int64)
    everything = Records(inputs=table[:, 1:].astype(np.float32), labels=table[:, 0] - 1)
    rows = seed.child("split").numpy().permutation(len(table))
    train, pool, test = np.split(rows, [SHARED, SHARED + problem.pool])
    return Dataset(
        name="location30",
        source="Location-30 (Bangkok)",
        sha256="",
        classes=30,
        train=everything.take(train),
        pool=everything.take(pool),
        test=everything.take(test),
        pool_index=pool,
    )


def recipes(problem: Problem, epsilons: list[float]) -> list[tuple[str, Mechanism, Mapping[str, Any]]]:
    rate = problem.batch / (problem.pool / 2)
    found: list[tuple[str, Mechanism, Mapping[str, Any]]] = [
        ("without DP", NonPrivate(sample_rate=rate, steps=round(problem.epochs / rate)), problem.plain)
    ]
    rate = problem.private_batch / (problem.pool / 2)
    accountant = plugins.build("audit.accountants", {"kind": "pld"})
    for epsilon in epsilons:
        mechanism = calibration.calibrate_noise(
            accountant,
            target_epsilon=epsilon,
            delta=DELTA,
            sample_rate=rate,
            steps=round(problem.private_epochs / rate),
        )
        found.append(
            (f"DP-SGD, epsilon {epsilon:g} (noise multiplier {mechanism.noise_multiplier:.2f})", mechanism, problem.private)
        )
    return found


def trained(
    dataset: Dataset, problem: Problem, recipe: tuple[str, Mechanism, Mapping[str, Any]], models: int, seed: Seed
) -> tuple[ReferenceView, float]:
    """Logits of all models for the whole pool, with the coins, and the mean accuracy on the test records."""
    _, mechanism, optimizer = recipe
    included = seed.child("coins").numpy().random((models, len(dataset.pool))) < 0.5
    canaries = Canaries(
        kind="held_out", description="all records of the pool", records=dataset.pool, identifiers=dataset.pool_index
    )
    job = TrainingJob(
        dataset=dataset,
        canaries=canaries,
        included=included,
        seeds=tuple(seed.child("model", one) for one in range(models)),
        mechanism=mechanism,
        model=problem.model,
        optimizer=optimizer,
        access=Access.FINAL_MODEL,
    )
    trainer = plugins.build("audit.trainers", {"kind": "sgd" if isinstance(mechanism, NonPrivate) else "dpsgd"})
    weights = trainer.fit(job, lambda steps: None).weights
    logits = observe.logits(problem.model, weights, dataset.pool.inputs, dataset.classes)
    test = observe.logits(problem.model, weights, dataset.test.inputs, dataset.classes)
    return ReferenceView(included=included, logits=logits), float(signals.correct(test, dataset.test.labels).mean())


def attack_table(models: ReferenceView, labels: Array, markdown: bool) -> None:
    header = ["score", "AUC", "TPR at 1 % FPR", "TPR at 0.1 % FPR", "found again"]
    print("| " + " | ".join(header) + " |\n|" + "---|" * len(header) if markdown else "  ".join(header))
    for spec in SCORERS:
        attack = plugins.build("attacks.scorers", spec)
        result = evaluation.leave_one_out(attack, models, labels, Seed(0))
        exposed = evaluation.exposure(result)
        name = " ".join(str(value) if key == "kind" else f"{key}={value}" for key, value in spec.items())
        cells = [f"{one.mean:.3f} ± {one.std:.3f}" for one in evaluation.spreads(result)]
        cells.append(f"{exposed.reproducibility:.2f} (chance {exposed.chance:.2f})")
        print("| " + " | ".join([name, *cells]) + " |" if markdown else f"{name:28s}" + "".join(f"{c:>18s}" for c in cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", choices=sorted(PROBLEMS))
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--epsilons", type=float, nargs="*", default=[8.0])
    parser.add_argument("--models", type=int, default=17)
    parser.add_argument("--pool", type=int, default=None)
    parser.add_argument("--epochs", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    problem = PROBLEMS[options.data]
    problem = replace(problem, pool=options.pool or problem.pool, epochs=options.epochs or problem.epochs)
    seed = Seed(options.seed)
    dataset = read(options.data, options.root, problem, seed.child("data"))
    print(f"machine: {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, NumPy {np.__version__}")
    print(f"{options.data}: pool of {len(dataset.pool)}, {options.models} models, seed {options.seed}, {dict(problem.model)}")
    for index, recipe in enumerate(recipes(problem, options.epsilons)):
        began = time.process_time()
        models, test_accuracy = trained(dataset, problem, recipe, options.models, seed.child("recipe", index))
        right = signals.correct(models.logits, dataset.pool.labels)
        mechanism = recipe[1]
        print(
            f"\n{recipe[0]}: {mechanism.steps} steps, sample rate {mechanism.sample_rate:.4f}; accuracy on members "
            f"{right[models.included].mean():.3f}, on others {right[~models.included].mean():.3f}, on test records "
            f"{test_accuracy:.3f}; {time.process_time() - began:.0f} CPU s\n",
            flush=True,
        )
        attack_table(models, dataset.pool.labels, options.markdown)
    print(f"\npeak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB")


if __name__ == "__main__":
    main()
