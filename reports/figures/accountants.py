"""Drawings of what accountants say: epsilon over steps, and claims against their brackets. Plain numbers in."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from reports.figures import _labels, _plots
from reports.figures._plots import Curve
from reports.pages.blocks import Tone
from reports.words.language import power, say

LARGEST_FACTOR = 30.0
_LABEL_MARGIN = 0.04  # of an axis: half the width of an order's label
BAND_POINTS = 5.0  # a bracket is narrower than a line; its rim shows beside the lines that run in it
_DASHES = (*_plots.DASHES, (0, (9, 2)), (0, (6, 2, 1, 2, 1, 2)))  # five accountants are usual
_MARKS = {"EXACT": (Tone.PLAIN, "o"), "LOOSE": (Tone.CLAIM, "^"), "WRONG": (Tone.MEASURED, "X")}


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnCosts:
    """Claims by accountant at each of some places on an axis, and the bracket on the truth there."""

    claims: Mapping[str, Sequence[float | None]]
    places: Sequence[float]
    bracket: tuple[Sequence[float], Sequence[float]]


def epsilon_over_steps(curves: Mapping[str, tuple[Sequence[float], Sequence[float]]], delta: float) -> tuple[bytes, bytes]:
    """SVG and PNG of claimed epsilon over steps, one line an accountant."""

    def paint(figure: Any) -> None:
        axes = figure.add_axes((0.09, 0.14, 0.66, 0.8))
        for place, (name, (steps, epsilons)) in enumerate(curves.items()):
            finite = np.where(np.isfinite(epsilons), epsilons, np.nan)
            dash = _plots.DASHES[place % len(_plots.DASHES)]
            axes.plot(steps, finite, label=name, color=_plots.COLOURS[Tone.CLAIM], linestyle=dash, linewidth=1.1)
        axes.set_xlabel("steps")
        axes.set_ylabel(f"claimed epsilon at delta {delta:g}")
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        _plots.grid(axes)
        axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False, fontsize=7)

    return _plots.draw(80.0, paint)


def paint_privacy_curve(figure: Any, costs: DrawnCosts, *, lower: float = 0.0) -> None:
    """Draw epsilon over delta on what lies above `lower`, a share of the figure's height."""
    axes = _frame(figure, lower, 1 - lower)
    axes.set(xscale="log", xlabel="δ", ylabel="ε", xlim=(min(costs.places), max(costs.places)))
    axes.xaxis.set_major_formatter(lambda value, _: power(value))
    axes.xaxis.set_minor_formatter(lambda value, _: "")
    _paint_claims(axes, costs)


def paint_course(figure: Any, costs: DrawnCosts, orders: Sequence[str], delta: float, *, share: float = 1.0) -> None:
    """Draw epsilon over the steps on the lower `share` of a figure, with the Renyi order that decides at each.

    Names are followed by the last claim over the upper end of the bracket: how much of it is looseness.
    """
    axes = _frame(figure, 0.0, share)
    last = max(costs.places)
    axes.set(xlabel=say("costs.steps"), ylabel=say("bar.at", power=power(delta)), xlim=(0, last))
    end = costs.bracket[1][-1]
    _paint_claims(axes, costs, {name: f"\u2002×{row[-1] / end:.2f}" for name, row in costs.claims.items() if row[-1] and end})
    for step, order in zip(costs.places, orders, strict=True):
        if order and step >= _LABEL_MARGIN * last:  # further left there is the axis
            where = {"xycoords": axes.get_xaxis_transform(), "xytext": (0, 3), "textcoords": "offset points"}
            axes.annotate(f"α {order}", (step, 0.0), fontsize=6, color=_plots.SOFT, ha="center", **where)
            axes.plot([step], [0.0], "|", transform=axes.get_xaxis_transform(), color=_plots.SOFT, markersize=4, clip_on=False)


def _frame(figure: Any, lower: float, share: float) -> Any:
    return figure.add_axes((0.075, lower + 0.14 * share, 0.70, 0.82 * share))


def _paint_claims(axes: Any, costs: DrawnCosts, remarks: Mapping[str, str] = MappingProxyType({})) -> None:
    """Draw band and lines, finite values alone, each with name and remark at its end, once the axis has its limits."""
    low, high = (np.where(np.isfinite(end), end, np.nan) for end in costs.bracket)
    axes.fill_between(costs.places, low, high, color=_plots.COLOURS[Tone.CHANCE], alpha=0.4, linewidth=BAND_POINTS)
    labels = _ends(say("costs.band"), costs.places, high, Tone.CHANCE)
    tightest = sorted(costs.claims.items(), key=lambda item: item[1][-1] or math.inf)  # the solid line, as in other figures
    for dash, (name, epsilons) in zip(itertools.cycle(_DASHES), tightest, strict=False):
        values = np.array([math.nan if value is None else value for value in epsilons])
        finite = np.where(np.isfinite(values), values, np.nan)
        axes.plot(costs.places, finite, color=_plots.COLOURS[Tone.CLAIM], linestyle=dash, linewidth=1.1)
        labels += _ends(name + remarks.get(name, ""), costs.places, finite, Tone.CLAIM)
    axes.set_ylim(bottom=0)
    _plots.grid(axes)
    _labels.label_ends(axes, labels)


def _ends(name: str, deltas: Sequence[float], values: _plots.Floats, tone: Tone) -> list[Curve]:
    """The curve with its name, if any of it can be drawn."""
    keep = np.isfinite(values)
    return [Curve(x=np.asarray(deltas, dtype=np.float64)[keep], y=values[keep], name=name, tone=tone)] if keep.any() else []


def claims_against_brackets(rows: Sequence[tuple[str, float, float]], name: str) -> tuple[bytes, bytes]:
    """SVG and PNG of an accountant's claims beside the brackets on the truth, case by case in the order given.

    Rows are finding, claim over the bracket's upper end, and the lower end over the upper; beyond a factor of 30 at the edge.
    """
    finite = [row for row in rows if row[0] in _MARKS and math.isfinite(row[1]) and row[1] != 0]

    def paint(figure: Any) -> None:
        axes = figure.add_axes((0.09, 0.14, 0.87, 0.74))
        axes.axhline(1.0, color=_plots.SOFT, linewidth=0.8)
        lows = np.clip([low for _, _, low in finite], 1 / LARGEST_FACTOR, 1.0)
        axes.vlines(
            np.arange(len(finite)), lows * 0.985, 1.015, color=_plots.COLOURS[Tone.CHANCE], linewidth=2.0, label="bracket"
        )
        for kind, (tone, mark) in _MARKS.items():
            points = [(place, factor) for place, (finding, factor, _) in enumerate(finite) if finding == kind]
            heights = np.clip([abs(factor) for _, factor in points], 1 / LARGEST_FACTOR, LARGEST_FACTOR)
            axes.plot(
                [place for place, _ in points],
                heights,
                mark,
                markersize=5 if kind == "WRONG" else 3,
                color=_plots.COLOURS[tone],
                linestyle="none",
                label=f"{kind} ({len(points)})",
            )
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_xlabel("case of the battery")
        axes.set_ylabel("claim / upper end of the truth")
        _plots.grid(axes, "y")
        axes.set_title(name, loc="left")
        axes.legend(loc="upper right", ncols=4, frameon=False, fontsize=7, bbox_to_anchor=(1.0, 1.12))

    return _plots.draw(80.0, paint)
