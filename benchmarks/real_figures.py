"""The figures of `real_data.py`: blue is a claim, red and grey are measurements."""

from __future__ import annotations

import io
import math
import statistics
from collections.abc import Mapping
from typing import Any

from real_scores import AUDITOR, CURVE, DRAWN

SHADES = ("#c9ced3", "#7a848c", "#e0a458", "#5b8e7d", "#b3321f", "#1b2733")
LEVELS = {
    "label_only": "predicted labels",
    "final_model": "outputs",
    "final_weights": "final weights",
    "all_steps": "every step",
}


def curves(training_designs: list[tuple[str, dict[str, Any]]]) -> bytes:
    """One panel a recipe: mean TPR over targets at each FPR, both axes logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(
        1, len(training_designs), figsize=(2.9 * len(training_designs), 3.1), sharey=True, squeeze=False
    )
    for axes, (title, result) in zip(panels[0], training_designs, strict=True):
        axes.plot(CURVE, CURVE, color="#d9dee3", linewidth=0.8)
        for name, colour in zip(DRAWN, SHADES, strict=True):
            axes.plot(CURVE, result["curves"][name], color=colour, linewidth=1.4, label=name)
        axes.set(xscale="log", yscale="log", xlim=(CURVE[0], 1), ylim=(CURVE[0], 1.1), title=title, xlabel="FPR")
        axes.grid(True, color="#eceff1", linewidth=0.6)
    panels[0][0].set_ylabel("TPR, mean over targets")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="lower center", ncol=3, fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0.14, 1, 1))
    return _png(figure, pyplot)


def access(everything: Mapping[str, list[tuple[str, dict[str, Any]]]], titles: Mapping[str, str]) -> bytes:
    """For every data set and claim: the median share of it that each adversary proves; pale inside a declared family."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    private = {name: [(title, item) for title, item in result if item["claim"]] for name, result in everything.items()}
    height = max(len(result) for result in private.values())
    figure, panels = pyplot.subplots(height, len(private), figsize=(2.6 * len(private), 1.35 * height + 0.5), squeeze=False)
    for column, (name, result) in enumerate(private.items()):
        for row, (title, item) in enumerate(result):
            axes = panels[row][column]
            for place, level in enumerate(reversed(list(LEVELS))):
                here = [bound for bound in item["bounds"] if bound["access"] == level and bound["attack"] != AUDITOR]
                for family, alpha in ((True, 0.3), (False, 1.0)):
                    proven = [bound["epsilon"] for bound in here if bool(bound["family"]) is family]
                    best = max(
                        (statistics.median(math.inf if one is None else one for one in runs) for runs in proven), default=0.0
                    )
                    axes.barh(place, best / item["claim"], height=0.6, color="#b3321f", alpha=alpha)
            axes.axvline(1, color="#1f5fa8", linewidth=2)
            axes.set(xlim=(0, 1.08), title=f"{titles[name]}, {title.split(', ')[-1]}")
            axes.title.set_fontsize(8)
            axes.set_yticks(range(len(LEVELS)), reversed(list(LEVELS.values())) if column == 0 else [""] * len(LEVELS))
            axes.tick_params(labelsize=7)
            for side in ("top", "right"):
                axes.spines[side].set_visible(False)
    for axes in panels[-1]:
        axes.set_xlabel("share of the claim that is proven", fontsize=7)
    figure.tight_layout()
    return _png(figure, pyplot)


def _png(figure: Any, pyplot: Any) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=110, metadata={"Software": None})
    pyplot.close(figure)
    return stream.getvalue()
