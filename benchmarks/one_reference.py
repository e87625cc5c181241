"""`auto` with one reference model beside each formula alone: docs/evidence/results.md, "One reference".

Models whose outputs are not tied, below, and the 24 kinds of `discrete_outputs.py`; each is trained on half of its data 17
times, and each of 16 models is attacked with the next one as its only reference.

    python benchmarks/one_reference.py [--models 17] [--targets 16]
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import numpy as np
from discrete_outputs import (
    FIGURES,
    HELD_OUT,
    ROWS,
    Data,
    Row,
    all_at_once,
    cancer,
    digits,
    find_row,
    lead,
    network,
    shown_models,
)
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from audit import plugins
from audit.experiment.external.attack_comparison import compare

RIVALS: Mapping[str, dict[str, object]] = {
    "rmia": {"kind": "rmia"},
    "rmia, temperature 1": {"kind": "rmia", "temperature": 1.0},
    "offset": {"kind": "offset"},
    "loss": {"kind": "loss"},
}


def clusters() -> Data:
    """Twenty classes of normal records in 40 dimensions."""
    random = np.random.default_rng(0)
    centres, labels = random.normal(size=(20, 40)), random.integers(0, 20, 1000)
    return centres[labels] + 2.0 * random.normal(size=(1000, 40)), labels


SMOOTH: Mapping[str, Row] = {
    "network": (digits, network, all_at_once),
    "SVM": (digits, lambda seed: SVC(C=10, probability=True, random_state=seed), all_at_once),
    "logistic": (digits, lambda _: LogisticRegression(C=100, max_iter=300), all_at_once),
    "network, cancer": (cancer, network, all_at_once),
    "boosted trees, cancer": (cancer, lambda seed: GradientBoostingClassifier(n_estimators=50, random_state=seed), all_at_once),
    "network, 20 classes": (clusters, network, all_at_once),
    "logistic, 20 classes": (clusters, lambda _: LogisticRegression(max_iter=300), all_at_once),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=17)
    parser.add_argument("--targets", type=int, default=16)
    chosen = parser.parse_args()
    print("| models | attack | AUC | TPR at 1 % FPR | kinds in which `auto` is behind |\n|---|---|---|---|---|")
    for group, kinds in {"not tied": SMOOTH, "tied": ROWS, "tied, held out": HELD_OUT}.items():
        shown = [shown_models(row, chosen.models) for row in kinds.values()]
        for rival, form in RIVALS.items():
            attacks = {
                name: plugins.build("attacks.scorers", kind) for name, kind in (("auto", {"kind": "auto"}), (rival, form))
            }
            tables = [compare(attacks, *models, references=1, targets=chosen.targets).rows for models in shown]
            if rival == next(iter(RIVALS)):
                print(f"| {group} | auto | {_means(tables, 'auto')} | |")
            behind = [sum(lead(table, rival, figure) < -2 for table in tables) for figure in FIGURES]
            print(
                f"| {group} | {rival} | {_means(tables, rival)} | {behind[0]} of {len(kinds)} (AUC), {behind[1]} (TPR) |",
                flush=True,
            )


def _means(tables: list[Any], attack: str) -> str:
    areas, tails = ([find_row(table, attack, figure).mean for table in tables] for figure in FIGURES)
    return f"{np.mean(areas):.3f} | {np.mean(tails):.4f}"


if __name__ == "__main__":
    main()
