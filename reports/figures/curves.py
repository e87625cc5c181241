"""The points of the named curve of a game's ROC that say their rates to whoever points at them, in a browser."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from audit.core.game_results import AttackResult
from audit.core.results import AuditReport
from reports import headline
from reports.figures import _plots
from reports.words.language import say
from reports.words.numbers import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

APART = 12.0  # points from one spot to the next, so that each can be pointed at
RADIUS = 5


def spots(report: AuditReport, name: str, figure: Figure) -> str:
    """Circles for the drawing of that name if it is the ROC of a game, else ""; `figure` is that drawing."""
    for mechanism in report.mechanisms:
        for game in mechanism.games:
            if game.attacks and _plots.file_name("roc", mechanism.name, game.name) == name:
                return _compare_attack(headline.leading(game), figure)
    return ""


def _compare_attack(attack: AttackResult, figure: Figure) -> str:
    """Spots along one attack's curve, within the axes on the left, from the smallest false-positive rate on."""
    axes = figure.axes[0]
    rates = np.column_stack([attack.roc.fpr, attack.roc.tpr])
    corner, end = np.array([axes.get_xlim(), axes.get_ylim()]).T
    rates = rates[((rates >= corner) & (rates <= end)).all(axis=1)]
    if not len(rates):
        return ""
    places = axes.transData.transform(rates) * 72 / figure.dpi
    height = figure.get_figheight() * 72
    circles, last = [], np.full(2, -np.inf)
    for (fpr, tpr), place in zip(rates, places, strict=True):
        if np.hypot(*(place - last)) < APART:
            continue
        last = place
        words = escape(say("curve.guessing", name=attack.scorer, tpr=percent(float(tpr)), fpr=percent(float(fpr))))
        circles.append(f'<circle cx="{place[0]:.0f}" cy="{height - place[1]:.0f}" r="{RADIUS}"><title>{words}</title></circle>')
    return f'<g class="hover">{"".join(circles)}</g>'
