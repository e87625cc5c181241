"""`auto` beside RMIA, LiRA and the offset on twice twelve models with tied outputs: docs/evidence/results.md.

The choice of `auto` was settled with a look at the first twelve; those of `HELD_OUT` came after it.

Each row trains models of one kind on half of a data set of scikit-learn, half of the records by their own coins for each
model, and scores every model with all others as references. Outputs are probabilities as the model gives them, or rounded
if the row's name says so.

    python benchmarks/discrete_outputs.py [--held-out] [--models 17] [--targets 9] [--only tree forest ...]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from audit import plugins
from audit.core.data import Array
from audit.core.views import View
from audit.experiment.external.attack_comparison import compare
from audit.experiment.external.model_answers import read_outputs

RIVALS = ("rmia", "lira", "offset")
FIGURES = ("auc", "tpr at 1% fpr")
Data = tuple[Array, Array]


def digits() -> Data:
    records = datasets.load_digits()
    return records.data / 16, records.target


def cancer() -> Data:
    records = datasets.load_breast_cancer()
    return (records.data - records.data.mean(0)) / records.data.std(0), records.target


def imbalanced() -> Data:
    """Digits, of which one in ten is to be distinguished from the others."""
    inputs, labels = digits()
    return inputs, (labels == 8).astype(np.int64)


def network(seed: int) -> Any:
    return MLPClassifier((64,), max_iter=200, tol=0, n_iter_no_change=200, random_state=seed)


def top_label(probabilities: Array) -> Array:
    return np.eye(probabilities.shape[1])[probabilities.argmax(1)]


def rounded(digits: int) -> Callable[[Array], Array]:
    def shown(probabilities: Array) -> Array:
        values = probabilities.round(digits)
        return values / values.sum(1, keepdims=True)

    return shown


def all_at_once(probabilities: Array) -> Array:
    return probabilities


Row = tuple[Callable[[], Data], Callable[[int], Any], Callable[[Array], Array]]
ROWS: Mapping[str, Row] = {
    "tree": (digits, lambda seed: DecisionTreeClassifier(random_state=seed), all_at_once),
    "pruned tree": (digits, lambda seed: DecisionTreeClassifier(min_samples_leaf=3, random_state=seed), all_at_once),
    "forest": (digits, lambda seed: RandomForestClassifier(100, random_state=seed), all_at_once),
    "small forest": (digits, lambda seed: RandomForestClassifier(10, random_state=seed), all_at_once),
    "imbalanced forest": (imbalanced, lambda seed: RandomForestClassifier(50, random_state=seed), all_at_once),
    "bagging": (cancer, lambda seed: BaggingClassifier(n_estimators=25, random_state=seed), all_at_once),
    "5-NN": (digits, lambda _: KNeighborsClassifier(5), all_at_once),
    "15-NN": (digits, lambda _: KNeighborsClassifier(15), all_at_once),
    "naive Bayes": (digits, lambda _: GaussianNB(), all_at_once),
    "SVM, two digits": (digits, lambda seed: SVC(C=10, probability=True, random_state=seed), rounded(2)),
    "network, label": (digits, network, top_label),
    "network, two digits": (digits, network, rounded(2)),
}


HELD_OUT: Mapping[str, Row] = {
    "AdaBoost": (cancer, lambda seed: AdaBoostClassifier(n_estimators=25, random_state=seed), rounded(2)),
    "extra trees": (digits, lambda seed: ExtraTreesClassifier(50, random_state=seed), all_at_once),
    "shallow tree": (cancer, lambda seed: DecisionTreeClassifier(max_depth=4, random_state=seed), all_at_once),
    "weighted 5-NN": (digits, lambda _: KNeighborsClassifier(5, weights="distance"), all_at_once),
    "1-NN": (digits, lambda _: KNeighborsClassifier(1), all_at_once),
    "9-NN": (cancer, lambda _: KNeighborsClassifier(9), all_at_once),
    "Bernoulli naive Bayes": (digits, lambda _: BernoulliNB(binarize=0.5), rounded(3)),
    "naive Bayes, cancer": (cancer, lambda _: GaussianNB(), all_at_once),
    "boosted trees, two digits": (
        cancer,
        lambda seed: HistGradientBoostingClassifier(max_iter=20, random_state=seed),
        rounded(2),
    ),
    "forest, one digit": (digits, lambda seed: RandomForestClassifier(50, random_state=seed), rounded(1)),
    "logistic, one digit": (digits, lambda _: LogisticRegression(C=100, max_iter=300), rounded(1)),
    "forest, label": (imbalanced, lambda seed: RandomForestClassifier(25, random_state=seed), top_label),
}
"""Rows that no choice of `auto` was made by."""


def shown_models(row: Row, models: int) -> tuple[View, Array]:
    """Outputs and coins of all models of a row, as files of recorded outputs hold them."""
    data, make, shown = row
    inputs, labels = data()
    coins = np.random.default_rng(0).random((models, len(labels))) < 0.5
    outputs = []
    for seed in range(models):
        model = make(seed).fit(inputs[coins[seed]], labels[coins[seed]])
        outputs.append(read_outputs(shown(model.predict_proba(inputs)), labels).values)
    return View(signals={"logits": np.stack(outputs)}, included=coins), labels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=17)
    parser.add_argument("--targets", type=int, default=9)
    parser.add_argument("--held-out", action="store_true", help="the twelve rows of HELD_OUT")
    parser.add_argument("--only", nargs="*", choices=[*ROWS, *HELD_OUT])
    chosen = parser.parse_args()
    auto, *rivals = (plugins.build("attacks.scorers", {"kind": name}) for name in ("auto", *RIVALS))
    print(f"AUC / TPR at 1 % FPR, mean over {chosen.targets} targets; in brackets: how many standard errors of the difference,")
    print("target by target, `auto` is ahead\n")
    print(f"| model | auto | {' | '.join(RIVALS)} |\n|---|---|{'---|' * len(RIVALS)}")
    for name in chosen.only or (HELD_OUT if chosen.held_out else ROWS):
        began = time.process_time()
        view, labels = shown_models({**ROWS, **HELD_OUT}[name], chosen.models)
        cells = []
        for rival, attack in zip(RIVALS, rivals, strict=True):  # the choice of `auto` is made once
            both = {"auto": auto, rival: attack}
            table = compare(both, view, labels, references=chosen.models - 1, targets=chosen.targets).rows
            cells.append(f"{_figures(table, rival)} ({', '.join(_lead(table, rival, figure) for figure in FIGURES)})")
        print(f"| {name} | {_figures(table, 'auto')} | {' | '.join(cells)} |", flush=True)
        print(f"# {time.process_time() - began:.0f} CPU s", flush=True)


def _figures(table: Any, attack: str) -> str:
    return " / ".join(f"{find_row(table, attack, figure).mean:.3f}" for figure in FIGURES)


def find_row(table: Any, attack: str, figure: str) -> Any:
    """Return the row of an attack and a figure."""
    return next(row for row in table if row.attack == attack and row.figure == figure)


def _lead(table: Any, rival: str, figure: str) -> str:
    return f"{lead(table, rival, figure):+.1f}".replace("+0.0", "=")


def lead(table: Any, rival: str, figure: str) -> float:
    """Return by how many standard errors `auto` is ahead of a rival."""
    auto_row, rival_row = find_row(table, "auto", figure), find_row(table, rival, figure)
    return (auto_row.gap - rival_row.gap) / max(auto_row.gap_error, rival_row.gap_error, 1e-12)


if __name__ == "__main__":
    main()
