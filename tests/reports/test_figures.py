"""Drawings: colours mean one thing, labels cover nothing, curves stay small, bytes stay the same."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from audit.core.results import AuditReport
from reports.figures import _labels, _plots
from reports.figures._plots import Curve
from reports.formats import figures
from reports.pages.blocks import Tone
from tests.reports import sample


@pytest.fixture(scope="module")
def report() -> AuditReport:
    return sample.run()


def test_every_game_and_claim_has_its_figures(report: AuditReport) -> None:
    names = [plan.name for plan in figures.plans(report)]
    assert len(names) == len(set(names))
    assert {"overview", "budget.dp_sgd", "utility"} <= set(names)
    for mechanism in report.mechanisms:
        for game in mechanism.games:
            assert {f"roc.{mechanism.name}.{game.name}", f"scores.{mechanism.name}.{game.name}"} <= set(names)
    assert "budget.non_private" not in names


@pytest.mark.slow
def test_svg_uses_the_colours_and_no_other_hue(report: AuditReport) -> None:
    grey = {"#ffffff", "#000000", _plots.INK, _plots.SOFT, _plots.FAINT}
    allowed = {*_plots.COLOURS.values(), *grey}
    for item in figures.drawings(report).values():
        used = set(re.findall(r"#[0-9a-f]{6}", item.svg.decode()))
        assert used <= allowed, (item.name, used - allowed)


@pytest.mark.slow
def test_svg_holds_no_date_and_no_machine(report: AuditReport) -> None:
    for item in figures.drawings(report).values():
        assert not re.search(rb"20[0-9]{2}-[0-9]{2}|<dc:date>|/home/|/tmp/", item.svg), item.name
        assert len(item.svg) < 400_000, item.name


def test_a_long_curve_is_thinned_and_keeps_its_ends() -> None:
    x, y = _plots.thin(range(10_000), [value**0.5 for value in range(10_000)])
    assert len(x) == len(y) <= _plots.MOST_POINTS
    assert (x[0], x[-1]) == (0, 9999)


def _axes() -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3), dpi=100)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.1, 0.1, 0.85, 0.85))
    axes.set(xlim=(0, 1), ylim=(0, 1))
    return axes


@pytest.mark.parametrize("slope", [0.0, 0.3, 0.9])
def test_labels_cover_no_curve_and_no_label(slope: float) -> None:
    axes = _axes()
    x = np.linspace(0, 1, 300)
    curves = [
        Curve(x=x, y=np.clip(level + slope * x, 0, 1), name=f"curve {level}", tone=Tone.CLAIM) for level in (0.05, 0.1, 0.6)
    ]
    for item in curves:
        axes.plot(item.x, item.y)
    _labels.label(axes, curves)
    renderer = axes.figure.canvas.get_renderer()
    boxes = [text.get_window_extent(renderer) for text in axes.texts]
    assert len(boxes) == 3
    frame = axes.get_window_extent(renderer)
    for i, box in enumerate(boxes):
        assert frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1
        assert not any(box.overlaps(peer) for peer in boxes[i + 1 :])
        for item in curves:
            points = axes.transData.transform(np.column_stack([item.x, item.y]))
            inside = (points[:, 0] > box.x0) & (points[:, 0] < box.x1) & (points[:, 1] > box.y0) & (points[:, 1] < box.y1)
            assert not inside.any()


def test_importing_reports_does_not_import_matplotlib_or_typst() -> None:
    import subprocess
    import sys
    from pathlib import Path

    code = (
        "import sys, reports, reports.pages.document, reports.formats.figures;"
        "import reports.formats._pipelines, reports.formats.pdf;"
        "assert not {'matplotlib', 'typst'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).resolve().parents[2])


def test_the_global_state_of_matplotlib_is_left_alone(report: AuditReport) -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    _plots.draw(20, lambda figure: figure.add_axes((0.1, 0.1, 0.8, 0.8)))
    assert dict(matplotlib.rcParams) == before


def test_alt_texts_carry_the_numbers(report: AuditReport) -> None:
    plans = {plan.name: plan for plan in figures.plans(report)}
    assert "claimed 8.00" in plans["overview"].alt and "ceiling 9.40" in plans["overview"].alt
    assert "PLD ends at 8.00" in plans["budget.dp_sgd"].alt
    assert "AUC 0.931" in plans["roc.non_private.black_box"].alt
    assert "0.881" in plans["utility"].alt


def test_the_limit_is_the_lower_of_the_claim_and_the_mechanism() -> None:
    from dataclasses import replace

    from reports.figures._scores import _limit

    dp = sample.dp_sgd()
    tight = tuple(replace(claim, epsilon=0.1) for claim in dp.claims)
    grid, both = _limit(replace(dp, claims=tight), 1000) or (None, None)
    _, only_claim = _limit(replace(dp, claims=tight, limit=None), 1000) or (None, None)
    _, only_mechanism = _limit(replace(dp, claims=()), 1000) or (None, None)
    assert grid is not None and both is not None and only_claim is not None and only_mechanism is not None
    assert (both == np.minimum(only_claim, only_mechanism)).all()
    assert (both[grid > 0.01] < only_mechanism[grid > 0.01]).any()
    assert _limit(sample.non_private(), 1000) is None
