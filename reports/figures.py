"""The drawings of a report: blue is a claim, red a measurement, grey chance and ceilings. Every alt text is made of the numbers drawn."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from audit.core.results import AttackResult, AuditReport, Claim, GameResult, MechanismResult, Metric
from reports import plots, reading
from reports.blocks import Tone
from reports.plots import COLOURS, Curve
from reports.rounding import confidence, count, down, near, percent, plural, power, up

CLAIM, MEASURED, CHANCE = COLOURS[Tone.CLAIM], COLOURS[Tone.MEASURED], COLOURS[Tone.CHANCE]
DASHES = ("solid", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1, 2)))
MOST_HISTOGRAMS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """One figure in both formats, with its caption and the text that stands for it."""

    name: str
    caption: str
    alt: str
    svg: bytes
    png: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A figure before it is drawn."""

    name: str
    caption: str
    alt: str
    height_mm: float
    paint: Callable[[Any], None]


class Figures:
    """Renders figures/<name>.svg and figures/<name>.png."""

    def render(self, report: AuditReport) -> Mapping[str, bytes]:
        """Each drawing of the report under both names."""
        files = {}
        for one in drawings(report).values():
            files[f"figures/{one.name}.svg"] = one.svg
            files[f"figures/{one.name}.png"] = one.png
        return files


@lru_cache(maxsize=2)
def drawings(report: AuditReport) -> Mapping[str, Drawing]:
    """All drawings of the report by name, each drawn once."""
    found = {}
    for plan in plans(report):
        svg, png = plots.draw(plan.height_mm, plan.paint)
        found[plan.name] = Drawing(name=plan.name, caption=plan.caption, alt=plan.alt, svg=svg, png=png)
    return found


def plans(report: AuditReport) -> Iterator[Plan]:
    """Which figures this report has, in the order of its pages."""
    if any(True for one in report.mechanisms for _ in reading.placed(one)):
        yield overview(report)
    for mechanism in report.mechanisms:
        if mechanism.trajectories:
            yield budget(report, mechanism)
        for game in mechanism.games:
            if game.attacks:
                yield roc(report, mechanism, game)
                yield scores(mechanism, game)
    if any(one.utility for one in report.mechanisms):
        yield utility(report)


def file_name(*parts: str) -> str:
    """A file name of plain letters for whatever a user called things."""
    return "-".join(re.sub(r"[^A-Za-z0-9]+", "_", part).strip("_") or "unnamed" for part in parts)


# --- claim, proof and ceiling of every training and game -------------------------------------------------------------


def overview(report: AuditReport) -> Plan:
    """Bars of what is proven against ticks of what is claimed and of what could have been shown."""
    rows = [(one, game) for one in report.mechanisms for game in one.games if any(a.bounds for a in game.attacks)]
    said = []
    for mechanism, game in rows:
        free, inside, ceiling = _row(mechanism, game)
        claim = reading.tightest(mechanism)
        words = f"{mechanism.name}, {game.name}: proven epsilon {down(free)}"
        words += f", {down(inside)} inside a declared family" if inside > free else ""
        words += f", ceiling {down(ceiling)}, "
        said.append(words + (f"claimed {up(claim.epsilon)}" if claim else "no claim"))
    return Plan(
        name="overview",
        caption="Claimed, proven and provable epsilon. Red bars end at the epsilon that is proven (pale: proven only inside a "
        "declared family of mechanisms), grey ticks mark the ceiling, the blue line the tightest claim. A red bar that "
        "crosses the blue line refutes the claim.",
        alt="Bar chart. " + "; ".join(said) + ".",
        height_mm=16 + 11 * len(rows),
        paint=lambda figure: _paint_overview(figure, rows),
    )


def _row(mechanism: MechanismResult, game: GameResult) -> tuple[float, float, float]:
    """Proven for any mechanism, proven inside a family, and the ceiling, of one game."""
    bounds = [bound for attack in game.attacks for bound in attack.bounds]
    free = max((one.epsilon for one in bounds if one.family is None), default=0.0)
    inside = max((one.epsilon for one in bounds if one.family is not None), default=0.0)
    return free, inside, max(one.ceiling for one in bounds)


def _paint_overview(figure: Any, rows: Sequence[tuple[MechanismResult, GameResult]]) -> None:
    axes = figure.add_axes((0.21, 0.42 / (0.63 + 0.433 * len(rows)), 0.76, 1 - 0.47 / (0.63 + 0.433 * len(rows))))
    values = [[*_row(*one), *(c.epsilon for c in [reading.tightest(one[0])] if c)] for one in rows]
    top = max([1.0, *(value for row in values for value in row if math.isfinite(value))]) * 1.12
    for place, (mechanism, game) in enumerate(rows):
        y = len(rows) - 1 - place
        free, inside, ceiling = (min(value, top) for value in _row(mechanism, game))
        axes.plot([0, ceiling], [y, y], color=CHANCE, linewidth=0.7, zorder=1)
        axes.plot([ceiling, ceiling], [y - 0.2, y + 0.2], color=CHANCE, linewidth=1.4, zorder=1)
        if inside > free:
            axes.barh(y, inside, height=0.34, color=MEASURED, alpha=0.28, linewidth=0, zorder=2)
        axes.barh(y, free, height=0.34, color=MEASURED, linewidth=0, zorder=2)
        plots.write(
            axes, max(free, inside) + top * 0.008, y + 0.3, f"proven {down(max(free, inside))}", Tone.MEASURED, fontsize=7
        )
        plots.write(axes, ceiling, y - 0.34, f"ceiling {down(ceiling)}", Tone.CHANCE, fontsize=7, ha="center")
        claim = reading.tightest(mechanism)
        if claim:
            axes.plot([claim.epsilon] * 2, [y - 0.5, y + 0.5], color=CLAIM, linewidth=2, zorder=3)
            if game is mechanism.games[0]:
                plots.write(axes, claim.epsilon + top * 0.008, y + 0.36, f"claimed {up(claim.epsilon)}", Tone.CLAIM, fontsize=7)
    axes.set_yticks(range(len(rows)), [f"{m.name}\n{g.name}" for m, g in reversed(rows)])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlim(0, top)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xlabel("ε")
    plots.grid(axes, "x")


# --- epsilon over training ---------------------------------------------------------------------------------------


def budget(report: AuditReport, mechanism: MechanismResult) -> Plan:
    """Claimed and proven epsilon over training steps."""
    ends = [f"{one.accountant} ends at {up(one.epsilon[-1])}" for one in mechanism.trajectories if one.epsilon]
    ends += [f"{one.label} proves {down(one.epsilon[-1])}" for one in mechanism.bound_trajectories if one.epsilon]
    last = max((one.steps[-1] for one in mechanism.trajectories if one.steps), default=0)
    return Plan(
        name=file_name("budget", mechanism.name),
        caption=f"Privacy budget of {mechanism.name} over training. Blue is what the accountants claim after each step, red what the "
        "attacks prove from the steps so far. A red point above the lowest blue line would contradict the claim.",
        alt=f"Line chart over {count(last)} training steps at delta {power(report.delta)}. " + "; ".join(ends) + ".",
        height_mm=72,
        paint=lambda figure: _paint_budget(figure, report, mechanism),
    )


def _paint_budget(figure: Any, report: AuditReport, mechanism: MechanismResult) -> None:
    axes = figure.add_axes((0.075, 0.155, 0.9, 0.815))
    curves = []
    for dash, one in zip(DASHES * 9, mechanism.trajectories, strict=False):
        x, y = _finite(one.steps, one.epsilon)
        axes.plot(x, y, color=CLAIM, linewidth=1.5, linestyle=dash)
        curves.append(Curve(x=x, y=y, name=f"claimed, {one.accountant}", tone=Tone.CLAIM))
    for dash, proof in zip(DASHES * 9, mechanism.bound_trajectories, strict=False):
        x, y = _finite(proof.steps, proof.epsilon)
        axes.plot(x, y, color=MEASURED, linewidth=1.3, linestyle=dash, marker="o", markersize=2.6)
        curves.append(Curve(x=x, y=y, name=f"proven, {proof.label}", tone=Tone.MEASURED))
    tops = [float(one.y.max()) for one in curves if len(one.y)]
    steps = [float(one.x.max()) for one in curves if len(one.x)]
    axes.set_ylim(0, max([*tops, 1e-3]) * 1.12)
    axes.set_xlim(0, max([*steps, 1.0]) * 1.01)
    axes.set_xlabel("training step")
    axes.set_ylabel(f"ε at δ = {power(report.delta)}")
    plots.grid(axes)
    plots.label(axes, [one for one in curves if len(one.x)])


def _finite(steps: Sequence[int], epsilon: Sequence[float]) -> tuple[Any, Any]:
    x, y = plots.thin(steps, epsilon)
    keep = np.isfinite(y)
    return x[keep], y[keep]


# --- ROC and trade-off -------------------------------------------------------------------------------------------


def roc(report: AuditReport, mechanism: MechanismResult, game: GameResult) -> Plan:
    """The leading attack of a game as a ROC on log axes and as a trade-off between its two errors."""
    lead, claim = reading.leading(game), reading.tightest(mechanism)
    curve = lead.roc
    size = f"{plural(curve.members, 'member')} and {plural(curve.nonmembers, 'nonmember')}"
    rates = [
        f"at {percent(one.realised_fpr)} false positives it finds {percent(one.tpr)} of the members"
        for one in lead.tpr_at
        if one.tpr is not None
    ]
    limit = f" The blue curve is the most that a claim of ε = {up(claim.epsilon)} allows." if claim else ""
    others = len(game.attacks) - 1
    return Plan(
        name=file_name("roc", mechanism.name, game.name),
        caption=f"{mechanism.name}, {game.name}: attack {lead.scorer} on {size}. Left: ROC on log axes, cut at one false positive; "
        f"the band holds for all points at once with {confidence(curve.confidence)} confidence ({curve.band}). "
        f"Right: the same as a trade-off between the two errors.{limit}"
        + (f" Thin: {plural(others, 'other attack')}." if others else ""),
        alt=f"Two charts of attack {lead.scorer} with AUC {near(lead.auc, 3)} on {size}: "
        + "; ".join(rates)
        + "."
        + (f" A claim of epsilon {up(claim.epsilon)} sets the limit curve." if claim else ""),
        height_mm=78,
        paint=lambda figure: _paint_roc(figure, game, lead, claim),
    )


def _paint_roc(figure: Any, game: GameResult, lead: AttackResult, claim: Claim | None) -> None:
    left, right = figure.add_axes((0.085, 0.145, 0.385, 0.82)), figure.add_axes((0.585, 0.145, 0.385, 0.82))
    least = 1 / max(lead.roc.nonmembers, 2)
    grid = np.geomspace(least, 1, 200)
    fpr, tpr, low, high = plots.thin(lead.roc.fpr, lead.roc.tpr, lead.roc.lower, lead.roc.upper)
    for axes, flip in ((left, False), (right, True)):
        turn = (lambda y: 1 - np.asarray(y)) if flip else np.asarray
        curves = [Curve(x=grid, y=turn(grid), name="chance", tone=Tone.CHANCE)]
        axes.plot(grid, turn(grid), color=CHANCE, linewidth=0.9, linestyle=DASHES[1])
        for other in game.attacks:
            if other is not lead:
                x, y = plots.thin(other.roc.fpr, other.roc.tpr)
                axes.plot(x, turn(y), color=MEASURED, linewidth=0.6, alpha=0.55, drawstyle="steps-post")
                curves.append(Curve(x=x, y=turn(y)))
        axes.fill_between(fpr, turn(low), turn(high), step="post", color=MEASURED, alpha=0.16, linewidth=0)
        axes.plot(fpr, turn(tpr), color=MEASURED, linewidth=1.3, drawstyle="steps-post")
        curves += [
            Curve(x=fpr, y=turn(tpr), name="measured", tone=Tone.MEASURED),
            Curve(x=fpr, y=turn(low)),
            Curve(x=fpr, y=turn(high)),
        ]
        if claim:
            fine = np.unique(np.r_[grid, np.linspace(least, 1, 200)])
            limit = np.array([reading.allowed_tpr(float(one), claim.epsilon, claim.delta) for one in fine])
            axes.plot(fine, turn(limit), color=CLAIM, linewidth=1.5)
            curves.append(Curve(x=fine, y=turn(limit), name="limit of the claim", tone=Tone.CLAIM))
        _frame_roc(axes, flip, least)
        plots.label(axes, curves)


def _frame_roc(axes: Any, flip: bool, least: float) -> None:
    if flip:
        axes.set(
            xlim=(0, 1), ylim=(0, 1), xlabel="type I error (nonmember called member)", ylabel="type II error (member missed)"
        )
    else:
        axes.set(xscale="log", yscale="log", xlim=(least, 1), ylim=(least, 1.15))
        axes.set(xlabel="false positive rate", ylabel="true positive rate")
    plots.grid(axes)


# --- scores ------------------------------------------------------------------------------------------------------


def scores(mechanism: MechanismResult, game: GameResult) -> Plan:
    """Outlines of member and nonmember scores, one panel for each of the leading attacks."""
    shown = sorted(game.attacks, key=lambda one: -one.auc)[:MOST_HISTOGRAMS]
    said = [f"{one.scorer}: AUC {near(one.auc, 3)}" for one in shown]
    left_out = len(game.attacks) - len(shown)
    return Plan(
        name=file_name("scores", mechanism.name, game.name),
        caption=f"{mechanism.name}, {game.name}: scores of members (red) and nonmembers (grey, dashed). The further the two outlines lie "
        "apart, the more the model gives away."
        + (f" {plural(left_out, 'attack')} with a smaller AUC not drawn." if left_out else ""),
        alt="Histograms of attack scores of members and nonmembers. " + "; ".join(said) + ".",
        height_mm=50,
        paint=lambda figure: _paint_scores(figure, shown),
    )


def _paint_scores(figure: Any, shown: Sequence[AttackResult]) -> None:
    width = 0.93 / len(shown)
    for place, attack in enumerate(shown):
        axes = figure.add_axes((0.06 + place * width, 0.2, width - 0.035, 0.68))
        edges = np.asarray(attack.histogram.edges)
        curves = []
        for counts, tone, dash, name in (
            (attack.histogram.nonmembers, Tone.CHANCE, DASHES[1], "nonmembers"),
            (attack.histogram.members, Tone.MEASURED, DASHES[0], "members"),
        ):
            share = np.asarray(counts) / max(1, sum(counts))
            axes.stairs(share, edges, color=COLOURS[tone], linewidth=1.2, linestyle=dash)
            curves.append(Curve(x=(edges[1:] + edges[:-1]) / 2, y=share, name=name, tone=tone))
        axes.set_title(f"{attack.scorer}, AUC {near(attack.auc, 3)}", loc="left")
        axes.set_xlabel("score")
        axes.set_xlim(edges[0], edges[-1])
        axes.set_ylim(0, max(float(one.y.max()) for one in curves) * 1.25 + 1e-9)
        axes.tick_params(axis="y", labelleft=place == 0)
        if place == 0:
            axes.set_ylabel("share of scores")
        plots.grid(axes, "y")
        plots.label(axes, curves)


# --- utility -----------------------------------------------------------------------------------------------------


def utility(report: AuditReport) -> Plan:
    """What each training is good for, side by side."""
    rows = [(one.name, metric) for one in report.mechanisms for metric in one.utility]
    names = list(dict.fromkeys(metric.name for _, metric in rows))
    said = [f"{owner} {metric.name} {near(metric.value, 3)}" for owner, metric in rows]
    owners = len({owner for owner, _ in rows})
    panels = _panels(names, rows)
    return Plan(
        name="utility",
        caption="Utility on the test set. Dots are means over models, lines one standard deviation to each side.",
        alt="Dot chart of utility. " + "; ".join(said) + ".",
        height_mm=14 + 5.5 * owners * len(names) + 8 * (len(panels) - 1),
        paint=lambda figure: _paint_utility(figure, rows, panels),
    )


def _panels(names: Sequence[str], rows: Sequence[tuple[str, Metric]]) -> list[list[str]]:
    """Metrics that live in [0, 1] share an axis; every other metric has its own."""
    unit = [name for name in names if all(0 <= metric.value <= 1 for _, metric in rows if metric.name == name)]
    return [group for group in [unit, *([name] for name in names if name not in unit)] if group]


def _paint_utility(figure: Any, rows: Sequence[tuple[str, Metric]], panels: Sequence[Sequence[str]]) -> None:
    owners = list(dict.fromkeys(owner for owner, _ in rows))
    grid = figure.add_gridspec(
        len(panels), 1, height_ratios=[len(one) for one in panels], left=0.22, right=0.93, top=0.97, bottom=0.14, hspace=0.5
    )
    for place, names in enumerate(panels):
        axes = figure.add_subplot(grid[place])
        ticks = []
        for row, name in enumerate(names):
            for line, owner in enumerate(owners):
                y = -(row * (len(owners) + 0.6) + line)
                ticks.append((y, f"{name}, {owner}"))
                for metric in [metric for who, metric in rows if who == owner and metric.name == name]:
                    low, high = metric.value - metric.spread, metric.value + metric.spread
                    axes.plot([low, high], [y, y], color=plots.INK, linewidth=1.1)
                    axes.plot(
                        [metric.value],
                        [y],
                        marker="o" if line == 0 else "D",
                        markersize=4.2,
                        color=plots.INK,
                        fillstyle="full" if line == 0 else "none",
                    )
                    axes.annotate(near(metric.value, 3), (high, y), (4, 0), textcoords="offset points", va="center", fontsize=7)
        axes.set_yticks([y for y, _ in ticks], [text for _, text in ticks])
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.margins(x=0.12, y=0.12)
        plots.grid(axes)
