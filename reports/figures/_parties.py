"""The drawing of each party's promise and proof: trainings down, parties across."""

import math
from collections.abc import Sequence
from typing import Any

from audit.core.access import Access
from audit.core.lower_bounds import read_ceiling, read_epsilon
from audit.core.results import AuditReport
from reports import parties
from reports.figures import _plots
from reports.figures._bounds import describe_bound
from reports.figures._plots import COLOURS, Plan
from reports.pages.blocks import Tone
from reports.parties import PartyResult
from reports.words import named
from reports.words.language import down, elide, power, say, up

NAME = "parties"
ROW_MM, HIGH_ROW_MM, FOOT_MM, HEAD_MM = 10.0, 17.0, 9.5, 5.0  # high: numbers below each other
LEFT_MARGIN, RIGHT, GAP = 0.17, 0.995, 0.02  # of the width: labels, end, space between panels
MOST_LETTERS = 18
MOST_BESIDE = 4  # parties whose panels are wide enough for a proof and the claim side by side
HEADROOM = 1.25  # the axes end at so many times the largest finite claim or proof; what is beyond is an arrow
CLAIM, MEASURED, CHANCE = COLOURS[Tone.CLAIM], COLOURS[Tone.MEASURED], COLOURS[Tone.CHANCE]


def plan(report: AuditReport) -> Plan:
    """Return the drawing of a report in which some training is seen by several parties."""
    results = parties.of_report(report)
    rows = list(dict.fromkeys((result.training, result.unit) for result in results))
    return Plan(
        name=NAME,
        caption=say("party_figure.caption", power=power(report.delta)),
        alt=say("bar.bar_chart") + say("separator.clauses").join(map(_description, results)) + say("separator.end"),
        height_mm=_find_height(len(rows), results),
        paint=lambda figure: _paint(figure, rows, results),
    )


def _fit_beside(results: Sequence[PartyResult]) -> bool:
    """Return whether proof and claim of a cell fit into a line: few panels, and one bound in each cell."""
    has_room = len(parties.accesses(tuple(results))) <= MOST_BESIDE
    return has_room and not any(result.free and result.inside is result.largest for result in results)


def _find_height(rows: int, results: Sequence[PartyResult]) -> float:
    return HEAD_MM + FOOT_MM + (ROW_MM if _fit_beside(results) else HIGH_ROW_MM) * rows


def _description(result: PartyResult) -> str:
    """A cell as a screen reader says it."""
    proof = say("bar.nothing_proven") if result.largest is None else describe_bound(result.largest)
    return f"{result.training}, {named.protected_unit(result.unit)}, {named.level(result.access)}: {proof}, {_claimed(result)}"


def _claimed(result: PartyResult) -> str:
    return say("bar.claimed", epsilon=up(result.claim.epsilon)) if result.claim else say("bar.no_claim")


def _paint(figure: Any, rows: Sequence[tuple[str, str]], results: tuple[PartyResult, ...]) -> None:
    beside = _fit_beside(results)
    height = _find_height(len(rows), results)
    panels = parties.accesses(results)
    width = (RIGHT - LEFT_MARGIN - GAP * (len(panels) - 1)) / len(panels)
    top = HEADROOM * max([1.0, *(value for result in results for value in _finite(result))])
    for place, access in enumerate(panels):
        box = (LEFT_MARGIN + place * (width + GAP), FOOT_MM / height, width, 1 - (FOOT_MM + HEAD_MM) / height)
        axes = figure.add_axes(box)
        _paint_panel(axes, access, rows, results, top, beside=beside)
        labels = (
            [f"{elide(training, MOST_LETTERS)}\n{named.protected_unit(unit)}" for training, unit in rows] if place == 0 else []
        )
        axes.set_yticks([-row for row in range(len(labels))], labels)


def _paint_panel(
    axes: Any, access: Access, rows: Sequence[tuple[str, str]], results: tuple[PartyResult, ...], top: float, *, beside: bool
) -> None:
    axes.set_xlim(0, top)
    axes.set_ylim(-len(rows) + 0.45, 0.55)
    axes.set_title(elide(named.level(access), MOST_LETTERS + 2), loc="left", fontsize=7.5)
    axes.set_xlabel("ε", labelpad=1)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    _plots.grid(axes, "x")
    for result in results:
        if result.access == access:
            _paint_cell(axes, -rows.index((result.training, result.unit)), result, top, beside=beside)


def _paint_cell(axes: Any, y: float, result: PartyResult, top: float, *, beside: bool) -> None:
    """Bars of both bounds (grey: void), a tick of the claim, and the numbers below them, beside or below each other."""
    void = result.result.is_void
    colour = CHANCE if void else MEASURED
    bar_y, bar_height, tick = (y + 0.12, 0.3, 0.22) if beside else (y + 0.32, 0.2, 0.16)
    for bound, alpha in ((result.inside, 0.28), (result.free, 1.0)):  # the pale bar first: the other covers it
        if bound is not None:
            axes.barh(bar_y, min(read_epsilon(bound), top), height=bar_height, color=colour, alpha=alpha, linewidth=0, zorder=2)
            axes.plot([0, min(read_ceiling(bound), top)], [bar_y] * 2, color=CHANCE, linewidth=0.6, zorder=1)
            mark = ">" if read_ceiling(bound) > top else "|"
            axes.plot(
                [min(read_ceiling(bound), top)], [bar_y], marker=mark, markersize=4, color=CHANCE, clip_on=False, zorder=1
            )
    if result.claim is not None:
        axes.plot([result.claim.epsilon] * 2, [bar_y - tick, bar_y + tick], color=CLAIM, linewidth=2.0, zorder=3)
    text = {"fontsize": 7.5, "va": "center"}
    lines = _write_proof(result)
    for place, line in enumerate(lines):
        axes.text(0, y - (0.27 if beside else 0.2 * place), line, color=colour, **text)
    x, below, side = (top, 0.27, "right") if beside else (0, 0.2 * len(lines), "left")
    axes.text(x, y - below, _claimed(result), color=CLAIM if result.claim else CHANCE, ha=side, **text)


def _write_proof(result: PartyResult) -> list[str]:
    """Return what is proven for any mechanism, and what inside a family only, each with its condition."""
    void = result.result.is_void
    texts = []
    if result.free is not None:
        key = "party_figure.void" if void else "party_figure.proven"
        texts.append(say(key, epsilon=down(read_epsilon(result.free))))
    if result.inside is not None and result.inside is result.largest:
        key = "party_figure.void_inside" if void else "party_figure.inside"
        texts.append(say(key, epsilon=down(read_epsilon(result.inside))))
    return texts or [say("bar.nothing_proven")]


def _finite(result: PartyResult) -> list[float]:
    """Return the numbers of a cell that the axis has to reach."""
    values = [read_epsilon(bound) for bound in (result.free, result.inside) if bound is not None]
    values += [result.claim.epsilon] if result.claim is not None else []
    return [value for value in values if math.isfinite(value)]
