"""What an audit says of a model that learned nothing and of one that memorised everything.

Null: labels are random and both sides are fresh records that the model never saw; if a tool finds leakage there, it is wrong.
Memory: a model that is right on all of its training records, though labels are random.

    python benchmarks/null_and_memory.py [--repetitions 50] [--first-seed 0] [--models "null, logistic regression" ...]
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.tree import DecisionTreeClassifier

import audit
from audit.core.data import Array

FEATURES = 10


def fresh(random: np.random.Generator, count: int) -> tuple[Array, Array]:
    """Records with fair coins as labels: nothing but memory distinguishes them."""
    return random.normal(size=(count, FEATURES)).astype(np.float32), random.integers(0, 2, count)


def outcome(make: Callable[[int], Any], count: int, seed: int, memory: bool) -> tuple[bool, bool, bool, float]:
    """Return if the AUC's band is above a half, of any attack and of the loss; if epsilon is above 0; the best AUC."""
    random = np.random.default_rng(seed)
    coins = audit.draw_coins(2 * count, seed + 10**6)
    inputs, labels = fresh(random, 2 * count)
    trained = (inputs[coins], labels[coins]) if memory else fresh(random, count)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an optimiser that stops early is no matter here
        model = make(seed).fit(*trained)
    members, nonmembers = (inputs[coins], labels[coins]), (inputs[~coins], labels[~coins])
    result = audit.check(model, members, nonmembers, coins=coins, quiet=True)
    rows = [row for row in result.attacks if row.status == "run"]
    bound = result.bound
    loss = next(row for row in rows if row.attack == "loss")
    return (
        any((row.auc_lower or 0) > 0.5 for row in rows),
        (loss.auc_lower or 0) > 0.5,
        bound is not None and bound.epsilon > 0,
        max(row.auc or 0 for row in rows),
    )


MODELS: dict[str, tuple[Callable[[int], Any], bool]] = {
    "null, logistic regression": (lambda seed: LogisticRegression(), False),
    "null, constant model": (lambda seed: DummyClassifier(), False),
    "null, decision tree": (lambda seed: DecisionTreeClassifier(random_state=seed), False),
    "memory, decision tree": (lambda seed: DecisionTreeClassifier(random_state=seed), True),
    "memory, MLP": (lambda seed: MLPClassifier((256,), max_iter=600, random_state=seed), True),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=50)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--models", nargs="*", choices=MODELS, default=list(MODELS), metavar="MODEL")
    options = parser.parse_args()
    print("| model | records a side | any attack's band above 0.5 | the loss's | epsilon proven | best AUC, mean |")
    print("|---|---|---|---|---|---|")
    for name in options.models:
        make, memory = MODELS[name]
        for count in (100, 500) if not memory else (200,):
            repetitions = options.repetitions if not memory else max(1, options.repetitions // 5)
            seeds = range(options.first_seed, options.first_seed + repetitions)
            result = np.array([outcome(make, count, seed, memory) for seed in seeds])
            shares = [f"{int(column.sum())}/{repetitions}" for column in result.T[:3]]
            print(f"| {name} | {count} | {' | '.join(shares)} | {result[:, 3].mean():.3f} |", flush=True)


if __name__ == "__main__":
    main()
