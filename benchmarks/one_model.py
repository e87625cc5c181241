"""Attacks on one model without references, on data that no scorer was developed on: docs/evidence/results.md.

Takes the models that `untuned_data.py` trained and kept in OUT, or trains them; each is attacked alone.

    python benchmarks/one_model.py --root FOLDER --out OUT [--data german imdb ag_news bank] [--models 17] [--seed 0]
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from untuned_problems import PROBLEMS, kept_models, options

from audit.core.data import Array
from audit.core.seeds import Seed
from audit.experiment.external.nonmember_medians import cross_fitted_medians
from audit.stats.bounds import roc
from audit.stats.scoring.signals import entropy, scaled_confidence
from audit.stats.scoring.strength import tpr_at


def records(name: str, root: Path, seed: Seed) -> Array:
    """Inputs of the pool, in the order of the kept outputs."""
    problem = PROBLEMS[name]
    inputs, labels = problem.records(root)
    return inputs[seed.child("pool").numpy().permutation(len(labels))[: problem.pool]]


def main() -> None:
    chosen = options(__doc__).parse_args()
    print("| data | attack | AUC | TPR at 1 % FPR | gain in AUC over the loss |\n|---|---|---|---|---|")
    for name in chosen.data:
        arrays, seed = kept_models(name, chosen)
        show(name, attack(arrays, records(name, chosen.root, seed), seed))


def attack(arrays: dict[str, Array], inputs: Array, seed: Seed) -> dict[str, Array]:
    """AUC and TPR `(models, 2)` of each attack."""
    figures: dict[str, list[tuple[float, float]]] = {}
    labels = arrays["labels"]
    for number, (included, logits) in enumerate(zip(arrays["included"], arrays["logits"], strict=True)):
        confidences = scaled_confidence(logits, labels)
        medians = cross_fitted_medians(inputs, labels, included, confidences, seed.child("medians", number))
        scores = {
            "loss": confidences,
            "entropy": -entropy(logits),
            "label right": (logits.argmax(axis=-1) == labels).astype(float),
            "quantile_regression": confidences - np.asarray(medians),
        }
        for kind, values in scores.items():
            sides = values[included], values[~included]
            figures.setdefault(kind, []).append((float(roc.auc(*sides)), tpr_at(*sides, 0.01)))
    return {kind: np.array(values) for kind, values in figures.items()}


def show(name: str, figures: dict[str, Array]) -> None:
    for kind, values in figures.items():
        gain = values[:, 0] - figures["loss"][:, 0]
        cells = [_cell(values[:, 0]), _cell(values[:, 1]), _cell(gain, "+")]
        print("| " + " | ".join([name, kind, *cells]) + " |", flush=True)


def _cell(values: Array, sign: str = "") -> str:
    return f"{values.mean():{sign}.3f} ± {values.std(ddof=1) / len(values) ** 0.5:.3f}"


if __name__ == "__main__":
    main()
