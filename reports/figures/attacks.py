"""The drawing of `audit attack compare`: each figure of each attack over targets, with its standard error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from audit.core.rounding import elide
from reports.figures import _plots
from reports.figures._plots import COLOURS
from reports.pages.blocks import Tone

if TYPE_CHECKING:
    from audit.core.evaluation import AttackFigure

ROW_MM, FOOT_MM = 6.0, 18.0
MOST_LETTERS = 26


def draw(rows: Sequence[AttackFigure]) -> dict[str, bytes]:
    """Return a comparison as `{"svg": ..., "png": ...}`: a panel for each figure, a row for each attack, strongest on top."""
    attacks = list(dict.fromkeys(row.attack for row in rows))
    svg, png = _plots.draw(FOOT_MM + ROW_MM * len(attacks), lambda figure: _paint(figure, rows))
    return {"svg": svg, "png": png}


def _paint(figure: Any, rows: Sequence[AttackFigure]) -> None:
    names = list(dict.fromkeys(row.figure for row in rows))
    decisive = names[min(1, len(names) - 1)]  # a TPR at few false positives if there is one, else the AUC
    order = [row.attack for row in sorted(rows, key=lambda row: -row.mean) if row.figure == decisive]
    height, margin = FOOT_MM + ROW_MM * len(order), 0.3
    width = (1 - margin) / len(names)
    for place, name in enumerate(names):
        axes = figure.add_axes((margin + place * width, (FOOT_MM - 6) / height, width * 0.88, 1 - FOOT_MM / height))
        _plots.grid(axes, "x")
        by_attack = {row.attack: row for row in rows if row.figure == name}
        means = [by_attack[attack].mean for attack in order]
        errors = [by_attack[attack].error if by_attack[attack].targets > 1 else 0.0 for attack in order]
        axes.errorbar(means, range(len(order)), xerr=errors, fmt="o", markersize=3, color=COLOURS[Tone.MEASURED], linewidth=1)
        labels = [elide(attack, MOST_LETTERS) for attack in order] if place == 0 else [""] * len(order)
        axes.set_yticks(range(len(order)), labels)
        axes.set_ylim(len(order) - 0.5, -0.5)
        axes.set_xlabel(name.upper().replace("AT", "at"))
