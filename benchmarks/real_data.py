"""Membership inference on real data, with and without DP-SGD: every model once the target, 16 references.

For each data set and each recipe (no DP, and DP-SGD at each target epsilon) 17 models train on one pool of
records, each record in each model by an independent coin; every scorer attacks every model with the other 16
as references. Private recipes train one model more, with crafted gradients seen at every step. What was
observed, and what the attacks made of it, is kept in OUT, one file a recipe, so that the command continues if it
was stopped.

Writes the tables of docs/evidence/real-data.md as CSV files into OUT/tables, one ROC figure a data set (both axes
logarithmic) and one figure of what each adversary proves into OUT/images. The tables of attacks are descriptive (see
`audit.experiment.describe.leave_one_out`); bounds hold at 95 % each on its own.

    python benchmarks/real_data.py --root FOLDER --out OUT [--data location30 adult mnist fashion_mnist cifar10]
        [--epsilons 1 4 8] [--models 17] [--seed 0] [--only train|report]

FOLDER holds location30/dataset_location.tgz, adult/adult.data.gz and adult.test.gz, MNIST/, FashionMNIST/, and
cifar10_train.npz with cifar10_test.npz (or cifar10_to_npz.py, which makes them).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import evidence_tables
import numpy as np
import real_figures
import real_problems
import real_scores
import torch
from real_problems import TrainingDesign

from audit.core.access import Access
from audit.core.data import Array
from audit.core.event_reading import sample_rate, steps
from audit.core.seeds import Seed
from audit.execution import code
from audit.experiment.line import provenance

TITLES = {
    "location30": "Location-30 (446 binary features, 30 classes)",
    "adult": "UCI Adult",
    "mnist": "MNIST",
    "fashion_mnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
}
FIGURES = ("auc", "tpr at fpr 0.01", "tpr at fpr 0.001")
SUMMARISED = ("loss", "LiRA, fixed variance", "learned combination")  # attacks of the summary, by their names in the rows
LEVELS = {
    Access.LABEL_ONLY: "predicted labels",
    Access.FINAL_MODEL: "outputs",
    Access.FINAL_WEIGHTS: "final weights",
    Access.ALL_STEPS: "every step",
}


def kept_arrays(path: Path, compute: Callable[[], Mapping[str, Array]]) -> dict[str, Array]:
    """The arrays of a file, computed and written first if it does not exist."""
    if not path.is_file():
        temporary = path.with_suffix(".tmp.npz")
        np.savez(temporary, **compute())
        os.replace(temporary, path)
    with np.load(path, allow_pickle=False) as stored:
        return dict(stored)


def kept_values(path: Path, compute: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """The plain data of a file, likewise."""
    if not path.is_file():
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(compute()))
        os.replace(temporary, path)
    result: dict[str, Any] = json.loads(path.read_text())
    return result


def training(name: str, training_design: TrainingDesign, number: int, options: argparse.Namespace) -> dict[str, Any]:
    """Trains and scores one recipe, or reads what an earlier call did."""
    stem = options.out / f"{name}-{training_design.name}-{options.models}-{options.seed}"
    problem, seed = real_problems.PROBLEMS[name], Seed(options.seed)

    def train() -> Mapping[str, Array]:
        if options.only == "report":
            raise SystemExit(f"{stem}.npz is missing and --only report trains nothing")
        dataset = real_problems.read(name, options.root, options.out, problem, seed.child("data"))
        actual = real_problems.observed(dataset, problem, training_design, options.models, seed.child("recipe", number))
        return {**actual, "code": np.asarray(code.digest()[:12])}

    def train_inside() -> Mapping[str, Array]:
        dataset = real_problems.read(name, options.root, options.out, problem, seed.child("data"))
        return real_problems.white_box(dataset, problem, training_design, seed.child(f"inside {name}", number))

    actual = kept_arrays(stem.with_suffix(".npz"), train)
    print(f"{stem.name}: trained in {float(actual['seconds']):.0f} CPU s", flush=True)
    if options.only == "train":
        return {}
    result = kept_values(stem.with_suffix(".json"), lambda: real_scores.scored(actual))
    if training_design.epsilon is None:
        return {**result, "claim": None, "bounds": []}
    inside = kept_arrays(stem.with_name(f"{stem.name}-inside.npz"), train_inside)
    return result | kept_values(
        stem.with_name(f"{stem.name}-bounds.json"), lambda: real_scores.bounds(actual, inside, training_design)
    )


def tables(name: str, training_designs: list[TrainingDesign], results: list[dict[str, Any]]) -> dict[str, list[list[str]]]:
    """Rows about one data set for each CSV file, by the file's name; the header comes first."""
    data = TITLES[name].split(" (")[0]
    pairs = list(zip(training_designs, results, strict=True))
    trainings = [["data", "training", "steps", "sample rate", "accuracy: members", "others", "test"]]
    attacks = [["data", "training", "score", "AUC", "TPR at 1 % FPR", "TPR at 0.1 % FPR", "found again"]]
    summary = [["data", "DP", "accuracy on members / test", "loss: AUC / TPR at 1 % / 0.1 %", *SUMMARISED[1:]]]
    for training_design, result in pairs:
        accuracy = {side: f"{result['accuracy'][side]:.3f}" for side in ("members", "others", "test")}
        mechanism = training_design.mechanism
        row = [data, title(training_design), str(steps(mechanism)), f"{sample_rate(mechanism):.4f}", *accuracy.values()]
        trainings.append(row)
        attacks += [[data, title(training_design), *cells] for cells in attack_rows(result)]
        level = "none" if training_design.epsilon is None else f"ε {training_design.epsilon:g}"
        means = [" / ".join(f"{result['rows'][score]['figures'][figure][0]:.3f}" for figure in FIGURES) for score in SUMMARISED]
        summary.append([data, level, f"{accuracy['members']} / {accuracy['test']}", *means])
    header, *proven = bound_rows(training_designs, results)
    bounds = [["data", *header], *([data, *cells] for cells in proven)]
    return {"trainings": trainings, "attacks": attacks, "summary": summary, "bounds": bounds}


def title(training_design: TrainingDesign) -> str:
    return "without DP" if training_design.epsilon is None else f"DP-SGD, epsilon {training_design.epsilon:g}"


def attack_rows(result: dict[str, Any]) -> list[list[str]]:
    """A row per attack: mean and deviation over targets of AUC and TPR with bands, and how often records are found again."""
    rows = []
    for name, row in result["rows"].items():
        cells = [name]
        for figure, band in zip(FIGURES, (None, "0.01", "0.001"), strict=True):
            limits = row["bands"].get(band) if band else None
            actual = row["figures"].get(figure)
            text = "not resolved" if actual is None else f"{actual[0]:.3f} ± {actual[1]:.3f}"
            cells.append(text + (f" [{limits[0]:.3f}, {limits[1]:.3f}]" if limits else ""))
        again, chance = row["again"]
        cells.append("none found" if np.isnan(again) else f"{again:.2f} (chance {chance:.2f})")
        rows.append(cells)
    return rows


def bound_rows(training_designs: list[TrainingDesign], results: list[dict[str, Any]]) -> list[list[str]]:
    """Proven epsilon for each access level: median, and median and range of its share of the claim, over runs.

    No epsilon says that no noise of the family fits.
    """
    private = [
        (training_design, result) for training_design, result in zip(training_designs, results, strict=True) if result["claim"]
    ]
    rows = [["the adversary sees", "attack, estimator", *(f"claim {result['claim']:.2f}" for _, result in private)]]
    for index, row in enumerate(private[0][1]["bounds"] if private else []):
        family = f" (inside {row['family']})" if row["family"] else ""
        cells = [LEVELS[Access(row["access"])], f"{row['attack']}, {row['estimator']}{family}"]
        for _, result in private:
            proven = np.array([np.inf if epsilon is None else epsilon for epsilon in result["bounds"][index]["epsilon"]])
            shares = proven / result["claim"]
            most = "no noise fits" if np.isinf(proven.max()) else f"{shares.max():.2f}"
            cells.append(f"{np.median(proven):.2f}: {np.median(shares):.2f} ({shares.min():.2f} to {most})")
        rows.append(cells)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", nargs="*", choices=sorted(real_problems.PROBLEMS), default=list(real_problems.PROBLEMS))
    parser.add_argument("--epsilons", type=float, nargs="*", default=[1.0, 4.0, 8.0])
    parser.add_argument("--models", type=int, default=17)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=["train", "report"], default=None)
    options = parser.parse_args()
    (options.out / "images").mkdir(parents=True, exist_ok=True)
    (options.out / "tables").mkdir(exist_ok=True)
    files: dict[str, list[list[str]]] = {}
    everything = {}
    for name in options.data:
        training_designs = real_problems.training_designs(real_problems.PROBLEMS[name], options.epsilons)
        results = [training(name, training_design, number, options) for number, training_design in enumerate(training_designs)]
        if options.only == "train":
            continue
        for file, rows in tables(name, training_designs, results).items():
            files.setdefault(file, rows[:1]).extend(rows[1:])
        everything[name] = [
            (title(training_design), result) for training_design, result in zip(training_designs, results, strict=True)
        ]
        (options.out / "images" / f"results-{name}.png").write_bytes(real_figures.curves(everything[name]))
    if files:
        shown = {name: TITLES[name].split(" (")[0] for name in everything}
        (options.out / "images" / "results-access.png").write_bytes(real_figures.access(everything, shown))
        for file, rows in files.items():
            (options.out / "tables" / f"real-data-{file}.csv").write_text(evidence_tables.write_csv(rows), encoding="utf-8")
        commit = provenance.provenance(command="", seed=0, config_sha256="", device="cpu", threads=1).code_commit
        versions = f"Python {platform.python_version()}, torch {torch.__version__}, NumPy {np.__version__}"
        print(f"written: {options.out / 'tables'} ({versions}; commit {commit})")


if __name__ == "__main__":
    main()
