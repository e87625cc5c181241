"""`auto` beside RMIA, LiRA and the offset on twelve models whose outputs are tied: docs/evidence/results.md.

Each row trains models of one kind on half of a data set of scikit-learn, half of the records by their own coins for each
model, and scores every model with all others as references. Outputs are probabilities as the model gives them, or rounded.

    python benchmarks/discrete_outputs.py [--models 17] [--targets 9] [--only tree forest ...]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from audit import plugins
from audit.core.data import Array
from audit.core.views import View
from audit.experiment.external.attack_comparison import compare
from audit.experiment.external.model_answers import read_outputs

ATTACKS = ("auto", "rmia", "lira", "offset")
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


def whole(probabilities: Array) -> Array:
    return probabilities


ROWS: Mapping[str, tuple[Callable[[], Data], Callable[[int], Any], Callable[[Array], Array]]] = {
    "tree": (digits, lambda seed: DecisionTreeClassifier(random_state=seed), whole),
    "pruned tree": (digits, lambda seed: DecisionTreeClassifier(min_samples_leaf=3, random_state=seed), whole),
    "forest": (digits, lambda seed: RandomForestClassifier(100, random_state=seed), whole),
    "small forest": (digits, lambda seed: RandomForestClassifier(10, random_state=seed), whole),
    "imbalanced forest": (imbalanced, lambda seed: RandomForestClassifier(50, random_state=seed), whole),
    "bagging": (cancer, lambda seed: BaggingClassifier(n_estimators=25, random_state=seed), whole),
    "5-NN": (digits, lambda _: KNeighborsClassifier(5), whole),
    "15-NN": (digits, lambda _: KNeighborsClassifier(15), whole),
    "naive Bayes": (digits, lambda _: GaussianNB(), whole),
    "SVM, two digits": (digits, lambda seed: SVC(C=10, probability=True, random_state=seed), rounded(2)),
    "network, label": (digits, network, top_label),
    "network, two digits": (digits, network, rounded(2)),
}


def shown_models(name: str, models: int) -> tuple[View, Array]:
    """Outputs and coins of all models of a row, as files of recorded outputs hold them."""
    data, make, shown = ROWS[name]
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
    parser.add_argument("--only", nargs="*", choices=list(ROWS), default=list(ROWS))
    chosen = parser.parse_args()
    attacks = {name: plugins.build("attacks.scorers", {"kind": name}) for name in ATTACKS}
    print(
        f"AUC and TPR at 1 % FPR, mean over {chosen.targets} targets; behind: `auto` less the best of the others, in standard"
    )
    print("errors of the difference target by target\n")
    print(f"| model | {' | '.join(ATTACKS)} | behind (AUC, TPR) |\n|---|{'---|' * len(ATTACKS)}---|")
    for name in chosen.only:
        began = time.process_time()
        view, labels = shown_models(name, chosen.models)
        table = compare(attacks, view, labels, references=chosen.models - 1, targets=chosen.targets).rows
        cells = [" / ".join(f"{_row(table, attack, figure).mean:.3f}" for figure in FIGURES) for attack in ATTACKS]
        behind = ", ".join(_behind(table, figure) for figure in FIGURES)
        print(f"| {name} | {' | '.join(cells)} | {behind} |", flush=True)
        print(f"# {time.process_time() - began:.0f} CPU s", flush=True)


def _row(table: Any, attack: str, figure: str) -> Any:
    return next(row for row in table if row.attack == attack and row.figure == figure)


def _behind(table: Any, figure: str) -> str:
    rows = {row.attack: row for row in table if row.figure == figure}
    best = max((row for row in rows.values() if row.attack != "auto"), key=lambda row: row.mean)
    if rows["auto"].mean >= best.mean:
        return "ahead"
    return f"{rows['auto'].gap / max(rows['auto'].gap_error, 1e-12):+.1f}"


if __name__ == "__main__":
    main()
