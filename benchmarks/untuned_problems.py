"""Eight data sets and models trained on them: credit, reviews, news, bank customers, places, incomes, clothes, photographs.

One pool of records each; every record is in each model by an independent fair coin, batches by Poisson sampling. What is kept
are coins, labels and outputs, one file a data set, so that a later call starts from there.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import lzma
import re
import tarfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from real_data import kept_arrays

from attacks.signals.logits import Logits
from attacks.signals.nearby_confidences import NearbyConfidences
from audit.core.access import Access
from audit.core.canaries import Canaries, CanaryRecords
from audit.core.data import Array, Dataset, Records
from audit.core.events import sgd
from audit.core.models import Subject
from audit.core.seeds import Seed
from audit.core.training import TrainingJob
from audit.core.views import View
from audit.engine.read import observe
from audit.experiment.external.external_models import RecordedOutputs
from audit.trainers._ensemble import SgdTrainer

WORDS = 2000  # columns of a bag of words
TEST = 64  # records that the engine measures the utility on; no figure here uses them


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A data set with the recipe that its models are trained by.

    Attributes:
        records: reads inputs `(n, features)` float32 and labels `(n,)` from the folder of data sets.
        pool: records that draw coins.
    """

    records: Callable[[Path], tuple[Array, Array]]
    pool: int
    classes: int
    epochs: int
    batch: int = 64
    model: Mapping[str, Any]


def table(rows: list[list[str]], labels: Array) -> tuple[Array, Array]:
    """Rows of text as numbers: columns of numbers standardised, all others one column a value."""
    columns = []
    for column in zip(*rows, strict=True):
        try:
            values = np.asarray(column, dtype=np.float64)
            columns.append(((values - values.mean()) / (values.std() or 1.0))[:, None])
        except ValueError:
            values = np.unique(column)
            columns.append((np.asarray(column)[:, None] == values).astype(np.float64))
    return np.concatenate(columns, axis=1).astype(np.float32), labels


def words(texts: list[str], labels: Array) -> tuple[Array, Array]:
    """Bags of the commonest words: whether a text holds each."""
    bags = [set(re.findall(r"[a-z']+", text.lower())) for text in texts]
    common = [word for word, _ in Counter(word for bag in bags for word in sorted(bag)).most_common(WORDS)]
    return np.array([[word in bag for word in common] for bag in bags], dtype=np.float32), labels


def german(root: Path) -> tuple[Array, Array]:
    with gzip.open(root / "german_credit" / "german.data.gz", "rt") as stream:
        rows = [line.split() for line in stream]
    return table([row[:-1] for row in rows], np.array([int(row[-1]) - 1 for row in rows]))


def bank(root: Path) -> tuple[Array, Array]:
    with gzip.open(root / "bank_marketing" / "bank-additional-full.csv.gz", "rt") as stream:
        rows = list(csv.reader(stream, delimiter=";"))[1:]
    return table([row[:-1] for row in rows], np.array([int(row[-1] == "yes") for row in rows]))


def imdb(root: Path) -> tuple[Array, Array]:
    with lzma.open(root / "imdb_subset" / "train.jsonl.xz", "rt", encoding="utf-8") as stream:
        reviews = [json.loads(line) for line in stream]
    return words([review["text"] for review in reviews], np.array([review["label"] for review in reviews]))


def ag_news(root: Path) -> tuple[Array, Array]:
    with gzip.open(root / "ag_news" / "test.csv.gz", "rt", encoding="utf-8", newline="") as stream:
        rows = list(csv.reader(stream))
    return words([f"{title} {text}" for _, title, text in rows], np.array([int(label) - 1 for label, _, _ in rows]))


def location30(root: Path) -> tuple[Array, Array]:
    with tarfile.open(root / "location30" / "dataset_location.tgz") as archive:
        lines = archive.extractfile("bangkok").read().decode().replace('"', "").splitlines()  # type: ignore[union-attr]
    values = np.loadtxt(lines, delimiter=",", dtype=np.int64)
    return values[:, 1:].astype(np.float32), values[:, 0] - 1


def adult(root: Path) -> tuple[Array, Array]:
    with gzip.open(root / "adult" / "adult.data.gz", "rt") as stream:
        rows = [row for row in csv.reader(stream, skipinitialspace=True) if row]
    return table([row[:-1] for row in rows], np.array([int(row[-1] == ">50K") for row in rows]))


def fashion_mnist(root: Path) -> tuple[Array, Array]:
    folder = root / "FashionMNIST" / "raw"
    with (
        gzip.open(folder / "train-images-idx3-ubyte.gz") as images,
        gzip.open(folder / "train-labels-idx1-ubyte.gz") as classes,
    ):
        pixels, labels = (np.frombuffer(stream.read()[skip:], np.uint8) for stream, skip in ((images, 16), (classes, 8)))
    return pixels.reshape(len(labels), -1).astype(np.float32) / 255, labels


def cifar10(root: Path) -> tuple[Array, Array]:
    """Images of the first batch, from a file of colour differences and differences between neighbours."""
    with lzma.open(root / "CIFAR10" / "train_batch_1.xz") as stream:
        packed = np.frombuffer(stream.read(), np.uint8).reshape(3, -1, 32, 32)
    planes = np.cumsum(np.cumsum(packed, 2, dtype=np.uint8), 3, dtype=np.uint8)
    pixels = np.stack([planes[1] + planes[0], planes[0], planes[2] + planes[0]], axis=1).astype(np.float32) / 255
    return pixels, np.load(root / "CIFAR10" / "labels.npz")["train_labels"][: len(pixels)]


_MLP = {"kind": "mlp", "hidden": [64], "activation": "relu"}
PROBLEMS = {
    "german": Problem(records=german, pool=900, classes=2, epochs=60, batch=32, model=_MLP),
    "imdb": Problem(records=imdb, pool=3000, classes=2, epochs=10, model=_MLP),
    "ag_news": Problem(records=ag_news, pool=3000, classes=4, epochs=15, model=_MLP),
    "bank": Problem(records=bank, pool=3000, classes=2, epochs=40, model=_MLP),
    "location30": Problem(records=location30, pool=3000, classes=30, epochs=30, model=_MLP),
    "adult": Problem(records=adult, pool=3000, classes=2, epochs=30, model=_MLP),
    "fashion_mnist": Problem(records=fashion_mnist, pool=3000, classes=10, epochs=30, model=_MLP),
    "cifar10": Problem(records=cifar10, pool=3000, classes=10, epochs=25, model={"kind": "cnn"}),
}


def pool_and_test(problem: Problem, root: Path, seed: Seed) -> tuple[Records, Records]:
    """Records that draw coins, and further ones."""
    inputs, labels = problem.records(root)
    if len(labels) < problem.pool + TEST:
        name = problem.records.__name__
        raise SystemExit(f"{name} has {len(labels)} records; expected {problem.pool + TEST} for this --pool and {TEST} more")
    rows = seed.child("pool").numpy().permutation(len(labels))[: problem.pool + TEST]
    everything = Records(inputs=inputs[rows], labels=labels[rows].astype(np.int64))
    return everything.take(np.arange(problem.pool)), everything.take(np.arange(problem.pool, problem.pool + TEST))


def trained(problem: Problem, root: Path, models: int, seed: Seed) -> tuple[TrainingJob, Subject]:
    """Models trained here, and the job that they were trained by: its canaries are the pool."""
    pool, test = pool_and_test(problem, root, seed)
    rate = problem.batch / (problem.pool / 2)
    job = TrainingJob(
        dataset=Dataset(
            name="untuned",
            source="public",
            sha256="",
            classes=problem.classes,
            train=test,
            pool=pool,
            test=test,
            pool_index=np.arange(problem.pool),
        ),
        canaries=Canaries(
            kind="held_out", description="all records", payload=CanaryRecords(records=pool, identifiers=np.arange(problem.pool))
        ),
        included=seed.child("coins").numpy().random((models, problem.pool)) < 0.5,
        seeds=tuple(seed.child("model", number) for number in range(models)),
        mechanism=sgd(sample_rate=rate, steps=round(problem.epochs / rate)),
        model=problem.model,
        optimizer={"kind": "adam", "learning_rate": 1e-3},
        access=Access.FINAL_MODEL,
    )
    return job, SgdTrainer().fit(job, lambda done: None)


def observed(problem: Problem, root: Path, models: int, seed: Seed) -> dict[str, Array]:
    """Coins `(models, pool)`, labels `(pool,)` and logits `(models, pool, classes)` of models trained here."""
    job, subject = trained(problem, root, models, seed)
    pool = job.dataset.pool
    logits = observe.logits(problem.model, subject.weights, pool.inputs, problem.classes)
    return {"included": job.included, "labels": pool.labels, "logits": logits}


def options(description: str | None) -> argparse.ArgumentParser:
    """Return a parser of what every benchmark on these models takes; others may add to it."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", nargs="*", choices=sorted(PROBLEMS), default=list(PROBLEMS))
    parser.add_argument("--models", type=int, default=17)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pool", type=int, default=None, help="records that draw coins; default: as the problem says")
    return parser


def make_problem(name: str, chosen: argparse.Namespace) -> Problem:
    """The problem of a name, with as many records as the options ask for."""
    return PROBLEMS[name] if chosen.pool is None else replace(PROBLEMS[name], pool=chosen.pool)


def stem(name: str, chosen: argparse.Namespace) -> str:
    """What files of these models are called."""
    return f"{name}-{chosen.models}-{chosen.seed}" + ("" if chosen.pool is None else f"-{chosen.pool}")


def kept_models(name: str, chosen: argparse.Namespace) -> tuple[dict[str, Array], Seed]:
    """Return what the models of a problem show, trained if `--out` does not hold it yet, and the problem's seed."""
    chosen.out.mkdir(parents=True, exist_ok=True)
    seed = Seed(chosen.seed).child(name)
    path = chosen.out / f"{stem(name, chosen)}.npz"
    return kept_arrays(path, lambda: observed(make_problem(name, chosen), chosen.root, chosen.models, seed)), seed


def kept_game(name: str, chosen: argparse.Namespace, columns: Array | None = None) -> tuple[View, Array]:
    """Return what attacks see of these models, and labels: of all records or of `columns`, with what near records show."""
    arrays, seed = kept_models(name, chosen)
    pool, _ = pool_and_test(make_problem(name, chosen), chosen.root, seed)
    if not np.array_equal(pool.labels, arrays["labels"]):
        raise SystemExit(f"the models of {name} in {chosen.out} were trained on records with labels unlike {chosen.root}'s")
    rows = np.arange(len(pool)) if columns is None else columns
    canaries = Canaries(kind="held_out", description="records of the pool", payload=CanaryRecords(records=pool.take(rows)))
    shown = RecordedOutputs(logits=arrays["logits"][:, rows].astype(np.float32))
    visited = shown.read({Logits(), NearbyConfidences()}, canaries)
    return View.of(included=arrays["included"][:, rows], **visited), pool.labels[rows]
