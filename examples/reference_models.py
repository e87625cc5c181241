"""Audit a model with reference models of your own: LiRA and RMIA compare the target with models trained on other records.

    python examples/reference_models.py

The audit trains the reference models by the same function as the target, each on the records that its own coins chose. An
attack that knows how such models answer for a record, with and without it, proves more than one that looks at the target alone.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

import audit

REFERENCES = 16
RECORDS = 600


def main() -> None:
    """Train a target and its references, and print each attack without and with the references."""
    inputs, labels = load_digits(return_X_y=True)
    inputs, labels = (inputs[:RECORDS] / 16).astype(np.float32), labels[:RECORDS]

    coins = audit.draw_coins(RECORDS)
    members, nonmembers = (inputs[coins], labels[coins]), (inputs[~coins], labels[~coins])
    model = train(members, seed=0)
    settings = audit.Settings(coins=coins)
    references = audit.ReferenceTraining(train=train, runs=REFERENCES)

    for title, others in (("the target alone", None), (f"with {REFERENCES} reference models", references)):
        report = audit.inspect(model, members, nonmembers, settings, others)
        attacks = report.mechanisms[0].games[0].attacks
        best = max(attacks, key=lambda attack: attack.auc)
        proven = max(bound.epsilon for bound in report.mechanisms[0].bounds)
        print(f"{title}: {len(attacks)} attacks; the strongest, {best.scorer}, has AUC {best.auc:.3f}; epsilon >= {proven:.2f}")


def train(records: tuple[np.ndarray, np.ndarray], seed: int) -> RandomForestClassifier:
    """Return a random forest; `predict_proba` of any classifier can be audited."""
    return RandomForestClassifier(50, min_samples_leaf=8, random_state=seed).fit(*records)


if __name__ == "__main__":
    main()
