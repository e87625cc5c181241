"""Figures of other packages' attacks on the models of `eight_data_sets.py`, stored beside it as numbers.

One row of the file is one figure of one attack, a column a target; `probability` is the mean probability of the true class
under each model, by which a reader sees that its own figures are models.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from audit.core.data import Array

PATH = Path(__file__).with_name("eight_data_sets_peers.csv")
FIGURES = ("AUC", "TPR at 1 % FPR", "TPR at 0.1 % FPR")
PROBABILITY = "probability"
TOLERANCE = 1e-4  # of a mean probability; models of another seed differ by a hundred times as much

Figures = Mapping[str, Array]
"""By attack, `(targets, 3)`; NaN where too few nonmembers resolve a rate."""


def stored(game: str, name: str, probability: Array) -> dict[str, Array]:
    """The figures on all models of a data set, by attack.

    Args:
        probability: `(k,)` mean probability of the true class under each model.

    Raises:
        SystemExit: nothing is stored of this data set, or the figures are of other models.
    """
    rows = {tuple(cells[:4]): _numbers(cells[4:]) for cells in _lines() if cells[:2] == [game, name]}
    means = rows.pop((game, name, "models", PROBABILITY), None)
    if means is None:
        raise SystemExit(f"{PATH.name} holds nothing of {name} {game}; give --sources, so that the packages score the models")
    if means.shape != probability.shape or np.abs(means - probability).max() > TOLERANCE:
        raise SystemExit(
            f"the figures of other packages in {PATH.name} are of other models of {name} than these (mean probability of the "
            f"true class {means[0]:.5f} and {probability[0]:.5f} under the first); give --sources, so that they score these"
        )
    attacks = dict.fromkeys(key[2] for key in rows)
    return {attack: np.stack([rows[game, name, attack, figure] for figure in FIGURES], axis=1) for attack in attacks}


def store(game: str, name: str, probability: Array, figures: Figures) -> None:
    """Put figures of a data set into the file: in place of those of the same attacks, or of all if models changed."""
    lines = _lines() if PATH.is_file() else []
    models = [game, name, "models", PROBABILITY, *_cells(probability)]
    replaced = {"models", *figures}
    retained = [row for row in lines if row[:2] != [game, name] or (models in lines and row[2] not in replaced)]
    fresh = [models]
    for attack, values in figures.items():
        fresh += [[game, name, attack, figure, *_cells(column)] for figure, column in zip(FIGURES, values.T, strict=True)]
    with PATH.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows(sorted(retained + fresh))


def _lines() -> list[list[str]]:
    with PATH.open(encoding="utf-8", newline="") as stream:
        return list(csv.reader(stream))


def _numbers(cells: list[str]) -> Array:
    return np.array([float(cell or "nan") for cell in cells])


def _cells(values: Array) -> list[str]:
    return ["" if np.isnan(value) else f"{value:.6g}" for value in values.tolist()]
