"""The real data sets of `real_data.py`, their recipes, and what is observed of the models trained on them."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from white_box import taken_part

from audit import plugins
from audit.accounting import calibration
from audit.core import event_reading
from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.canaries import Canaries, CanaryRecords
from audit.core.data import Array, Dataset, Records
from audit.core.events import Event, sgd
from audit.core.seeds import Seed
from audit.core.training import TrainingJob
from audit.data import load
from audit.engine.random.sampling import Law
from audit.engine.read import observe
from audit.models import build
from audit.trainers._ensemble import DpSgdTrainer, SgdTrainer

DELTA = 1e-5
SHARED = 100  # records in every model
GRADIENTS = 1000  # crafted gradients in each white-box run of a private recipe
INSIDE_RUNS = 5  # of those
ADULT_COLUMNS = [
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
    *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income"),
]
ADULT = {
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
IMAGES = Problem(pool=4000, test=2000, model=CNN, plain=ADAM, private={"kind": "sgd", "learning_rate": 1.0})
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
    "mnist": replace(IMAGES, epochs=20),
    "fashion_mnist": replace(IMAGES, epochs=20),
    "cifar10": replace(IMAGES, epochs=40),
}


@dataclass(frozen=True, kw_only=True)
class TrainingDesign:
    """One way to train: `epsilon` of the claim, None if it is not private."""

    name: str
    epsilon: float | None
    mechanism: Event
    optimizer: Mapping[str, Any]

    @property
    def trainer(self) -> SgdTrainer | DpSgdTrainer:
        return SgdTrainer() if self.epsilon is None else DpSgdTrainer()


def read(name: str, root: Path, work: Path, problem: Problem, seed: Seed) -> Dataset:
    """The data set, split once; CIFAR-10 is unpacked into `work` if `root` holds the packed form."""
    counts = {"train": SHARED, "pool": problem.pool, "test": problem.test, "root": str(root)}
    if name == "location30":
        return _location30(root, problem, seed)
    if name == "adult":
        return load.load({**ADULT, **counts}, seed)
    if name == "cifar10":
        spec = {"kind": "npz", "path": "cifar10_train.npz", "test_path": "cifar10_test.npz"}
        converter = root / "cifar10_to_npz.py"
        if not (root / "cifar10_train.npz").is_file() and converter.is_file():
            if not (work / "cifar10_train.npz").is_file():
                subprocess.run([sys.executable, str(converter), str(work)], check=True)
            counts["root"] = str(work)
        return load.load({**spec, **counts}, seed)
    return load.load({"kind": name, **counts}, seed)


def _location30(root: Path, problem: Problem, seed: Seed) -> Dataset:
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


def training_designs(problem: Problem, epsilons: list[float]) -> list[TrainingDesign]:
    """Training without privacy, then DP-SGD with the noise that the PLD accountant asks for at each epsilon."""
    rate = problem.batch / (problem.pool / 2)
    plain = sgd(sample_rate=rate, steps=round(problem.epochs / rate))
    result = [TrainingDesign(name="without-dp", epsilon=None, mechanism=plain, optimizer=problem.plain)]
    rate = problem.private_batch / (problem.pool / 2)
    accountant = plugins.build("audit.accounting.accountants", {"kind": "pld"})
    for epsilon in epsilons:
        mechanism = calibration.calibrate_noise(
            accountant, target_epsilon=epsilon, delta=DELTA, sample_rate=rate, steps=round(problem.private_epochs / rate)
        )
        result.append(
            TrainingDesign(name=f"epsilon-{epsilon:g}", epsilon=epsilon, mechanism=mechanism, optimizer=problem.private)
        )
    return result


def claim(training_design: TrainingDesign) -> float:
    """The epsilon that the PLD accountant states of a private recipe."""
    accountant = plugins.build("audit.accounting.accountants", {"kind": "pld"})
    return float(accountant.claim(training_design.mechanism, delta=DELTA, adjacency=Adjacency.ADD_REMOVE).epsilon)


def planned(dataset: Dataset, problem: Problem, training_design: TrainingDesign, count: int, seed: Seed) -> TrainingJob:
    """`count` models on the pool, each record in each by a coin."""
    included = seed.child("coins").numpy().random((count, len(dataset.pool))) < 0.5
    canaries = Canaries(
        kind="held_out",
        description="all records of the pool",
        payload=CanaryRecords(records=dataset.pool, identifiers=dataset.pool_index),
    )
    return TrainingJob(
        dataset=dataset,
        canaries=canaries,
        included=included,
        seeds=tuple(seed.child("model", item) for item in range(count)),
        mechanism=training_design.mechanism,
        model=problem.model,
        optimizer=training_design.optimizer,
        access=Access.FINAL_WEIGHTS,
    )


def observed(dataset: Dataset, problem: Problem, training_design: TrainingDesign, count: int, seed: Seed) -> dict[str, Array]:
    """Coins, outputs and white-box signals of all models for the whole pool, and outputs for the test records."""
    began = time.process_time()
    job = planned(dataset, problem, training_design, count, seed)
    weights = training_design.trainer.fit(job, lambda steps: None).weights
    trained = observe.EnsembleReader(problem.model, weights, dataset.pool.inputs[:2], dataset.classes)
    inside = trained.representations(dataset.pool)
    if inside is None:
        raise SystemExit("the model has no last linear layer")
    return {
        "included": job.included,
        "labels": dataset.pool.labels,
        "logits": trained.outputs(dataset.pool.inputs),
        "gradient_norms": trained.gradient_norms(dataset.pool),
        "last_gradient_norms": inside.last_gradient_norms,
        "class_distances": inside.class_distances,
        "test_labels": dataset.test.labels,
        "test_logits": trained.outputs(dataset.test.inputs),
        "seconds": np.asarray(time.process_time() - began),
    }


def white_box(dataset: Dataset, problem: Problem, training_design: TrainingDesign, seed: Seed) -> dict[str, Array]:
    """Some trainings of the same mechanism with crafted gradients, seen steps and as a difference of weights."""
    began = time.process_time()
    half = Dataset(
        name=dataset.name,
        source=dataset.source,
        sha256=dataset.sha256,
        classes=dataset.classes,
        train=dataset.pool.take(np.arange(len(dataset.pool) // 2)),
        pool=dataset.pool,
        test=dataset.test,
        pool_index=dataset.pool_index,
    )
    parameters = build.parameter_count(problem.model, half.train.inputs.shape[1:], half.classes)
    canaries = plugins.build("attacks.canaries", {"kind": "dirac_gradient"}).make(half, GRADIENTS, parameters, seed)
    included = seed.child("coins").numpy().random((INSIDE_RUNS, GRADIENTS)) < 0.5
    job = TrainingJob(
        dataset=half,
        canaries=canaries,
        included=included,
        seeds=tuple(seed.child("run", run) for run in range(INSIDE_RUNS)),
        mechanism=training_design.mechanism,
        model=problem.model,
        optimizer=training_design.optimizer,
        access=Access.ALL_STEPS,
    )
    trained = training_design.trainer.fit(job, lambda steps: None).models
    if trained.products is None or trained.initial is None:
        raise SystemExit("the trainer recorded no products")
    final = {name: value for name, value in trained.weights.items() if name in trained.initial}
    law = Law(population=len(half.train) + GRADIENTS, rate=event_reading.sample_rate(training_design.mechanism))
    batches = tuple(item.child("batches") for item in job.seeds)
    return {
        "included": included,
        "took": taken_part(law, event_reading.steps(training_design.mechanism), batches, included),
        "products": trained.products,
        "weight_products": observe.weight_products(trained.initial, final, canaries),
        "seconds": np.asarray(time.process_time() - began),
    }
