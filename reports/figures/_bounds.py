"""Drawings of claims against bounds: the overview of the cover, and epsilon over training."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from audit.core.claims import Claim
from audit.core.lower_bounds import ReportedBound, VoidBound, largest_bound, read_ceiling, read_course, read_epsilon
from audit.core.results import AuditReport, MechanismResult
from reports import answer, headline
from reports.figures import _labels, _plots
from reports.figures._plots import COLOURS, DASHES, Curve, Plan
from reports.pages.blocks import Tone
from reports.words import named
from reports.words.language import count, down, elide, power, say, up
from reports.words.phrases import join_words

CLAIM, MEASURED, CHANCE = COLOURS[Tone.CLAIM], COLOURS[Tone.MEASURED], COLOURS[Tone.CHANCE]
INSIDE = _plots.INK  # of words on a bound inside a family, which is no proof for any mechanism
MOST_ROWS = 5
MOST_TRAININGS = 3  # with more, the figure and its caption would not fit below the answer on the first page
MOST_LINES = 2  # of a name beside an axis
MOST_LETTERS, END_LETTERS = 18, 26  # of a name beside an axis, and at the end of a curve
ROW_MM, FOOT_MM, HEAD_MM = 11.0, 9.5, 1.5
LINE = 0.29  # between two lines of text beside a bar, in rows
MOST_EMPTY = 1.6  # the axis ends at so many times the largest claim or proof; ceilings beyond it are arrows


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One line of the overview: the largest bound for any mechanism and inside a family; None if there is none."""

    name: str
    free: ReportedBound | None
    inside: ReportedBound | None
    claims: tuple[Claim, ...]
    void: bool

    @property
    def bounds(self) -> tuple[ReportedBound, ...]:
        """The bounds that are there; one inside a family only where it proves more than the other."""
        # a bound inside a family asks for more, so one that proves no more adds nothing
        larger = self.inside is not None and (self.free is None or read_epsilon(self.inside) > read_epsilon(self.free))
        return tuple(bound for bound in (self.free, self.inside if larger else None) if bound is not None)

    @property
    def claim(self) -> Claim | None:
        """The tightest finite claim."""
        finite = [claim for claim in self.claims if math.isfinite(claim.epsilon)]
        return min(finite, key=lambda claim: claim.epsilon, default=None)


def overview(report: AuditReport) -> Plan:
    """Bars of what is proven against marks of what is claimed and of what could have been shown."""
    bars, trainings = _bars(report)
    descriptions = [f"{bar.name.replace(chr(10), ', ')}: {_description(bar)}, {_claimed(bar)}" for bar in bars]
    pale = any(bound.family for bar in bars for bound in bar.bounds)
    several = any(len(bar.claims) > 1 for bar in bars)
    return Plan(
        name="overview",
        caption=say("bar.claim_and_evidence_red_the")
        + (say("bar.pale_only_inside_a_declared") if pale else "")
        + (say("bar.grey_bars_are_void") if any(bar.void for bar in bars) else "")
        + say("bar.grey_lines_the_ceiling_of")
        + (
            say("bar.blue_the_tightest_claim") + (say("bar.thin_the_other_claims") if several else "") + say("separator.end")
            if any(bar.claim for bar in bars)
            else ""
        )
        + (say("bar.gravest", bars=len(bars), all=trainings) if trainings > len(bars) else ""),
        alt=say("bar.bar_chart") + say("separator.clauses").join(descriptions) + say("separator.end"),
        height_mm=HEAD_MM + FOOT_MM + ROW_MM * len(bars),
        paint=lambda figure: _paint_overview(figure, bars),
    )


def access(mechanism: MechanismResult) -> Plan:
    """Return what each adversary can show of the claim: bars by its access to the training, from least to most."""
    claim = headline.tightest(mechanism)
    levels = headline.levels(mechanism).items()
    bars = [_bar(named.level(level), mechanism, [place.bound for place in places]) for level, places in levels]
    descriptions = []
    for bar in bars:
        highest, share = max((read_epsilon(bound) for bound in bar.bounds), default=0.0), ""
        if claim is not None:
            part = down(highest / claim.epsilon) if claim.epsilon > 0 else say("proof.nothing")
            share = say("bar.of_the_claim", part=part)
        descriptions.append(f"{bar.name}: {_description(bar)}{share}")
    return Plan(
        name=_plots.file_name("access", mechanism.name),
        caption=say(
            "bar.what_each_adversary_could_have_shown" if mechanism.is_void else "bar.what_each_adversary_can_show",
            name=mechanism.name,
        )
        + (say("bar.blue_the_tightest_claim_2", up=up(claim.epsilon)) if claim else ""),
        alt=say("bar.bar_chart") + say("separator.clauses").join(descriptions) + say("separator.end"),
        height_mm=HEAD_MM + FOOT_MM + ROW_MM * len(bars),
        paint=lambda figure: _paint_overview(figure, bars),
    )


def _description(bar: Bar) -> str:
    """A bar as a screen reader says it."""
    return say("separator.clauses").join(map(describe_bound, bar.bounds)) or say("bar.nothing_proven")


def describe_bound(bound: ReportedBound) -> str:
    """Return a bound with its ceiling and its condition, as a screen reader says it."""
    inside = say("bar.only_inside", family=named.family(bound.family)) if bound.family else ""
    key = "bar.void_bound" if isinstance(bound, VoidBound) else "bar.proven_bound"
    return say(key, epsilon=down(read_epsilon(bound)), inside=inside, ceiling=down(read_ceiling(bound)))


def _claimed(bar: Bar) -> str:
    if bar.claim is not None:
        return say("bar.claimed", epsilon=up(bar.claim.epsilon))
    return say("bar.infinite_claim" if bar.claims else "bar.no_claim")


def _bar(name: str, mechanism: MechanismResult, bounds: Sequence[ReportedBound]) -> Bar:
    free = largest_bound(bound for bound in bounds if bound.family is None)
    inside = largest_bound(bound for bound in bounds if bound.family is not None)
    return Bar(name=name, free=free, inside=inside, claims=mechanism.claims, void=mechanism.is_void)


def _bars(report: AuditReport) -> tuple[list[Bar], int]:
    """A bar for each game, or where these are many for each of the gravest trainings; and how many trainings there are."""
    games = [(mechanism, game) for mechanism in headline.by_gravity(report) for game in mechanism.games if game.bounds]
    owners = list({id(mechanism): mechanism for mechanism, _ in games}.values())
    if len(games) <= MOST_ROWS:
        return [_bar(f"{mechanism.name}\n{game.name}", mechanism, game.bounds) for mechanism, game in games], len(owners)
    gravest = answer.gravest(report, owners)[:MOST_TRAININGS]
    return [_bar(owner.name, owner, owner.all_bounds) for owner in owners if owner in gravest], len(owners)


def _paint_overview(figure: Any, bars: Sequence[Bar]) -> None:
    height = HEAD_MM + FOOT_MM + ROW_MM * len(bars)
    axes = figure.add_axes((0.165, FOOT_MM / height, 0.535, 1 - (FOOT_MM + HEAD_MM) / height))
    epsilons = [read_epsilon(bound) for bar in bars for bound in bar.bounds]
    tightest = [bar.claim.epsilon for bar in bars if bar.claim is not None]  # any other claim beyond the axis is not drawn
    levels = [value for value in (*epsilons, *tightest) if math.isfinite(value)]
    reach = [read_ceiling(bound) for bar in bars for bound in bar.bounds if math.isfinite(read_ceiling(bound))]
    # a ceiling may be far beyond all that is claimed or proven, and would press those bars to nothing
    top = min(max([1.0, *levels, *reach]) * 1.03, MOST_EMPTY * max([1.0, *levels]))
    axes.set_xlim(0, top)
    axes.set_ylim(-0.55, len(bars) - 0.45)
    for place, bar in enumerate(bars):
        y = len(bars) - 1 - place  # axes count from below, and the first bar is on top
        _paint_bar(axes, y, bar, top)
        _write_bar(axes, y, bar)
    names = [_two_lines(bar.name) for bar in reversed(bars)]
    axes.set_yticks(range(len(bars)), names)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("ε", labelpad=1)
    _plots.grid(axes, "x")


def _two_lines(name: str) -> str:
    """A name of two lines, or one that is broken at a space if that keeps all its letters; what is longer is elided."""
    lines = name.split("\n") if "\n" in name else wrap(name, MOST_LETTERS, break_long_words=False, break_on_hyphens=False)
    lines = lines if len(lines) <= MOST_LINES else [name]
    return "\n".join(elide(line, MOST_LETTERS) for line in lines)


def _paint_bar(axes: Any, y: float, bar: Bar, top: float) -> None:
    colour = CHANCE if bar.void else MEASURED
    for bound in reversed(bar.bounds):  # the bound for any mechanism last, since it covers the pale one
        axes.plot([0, min(read_ceiling(bound), top)], [y, y], color=CHANCE, linewidth=0.7, zorder=1)
        if read_ceiling(bound) <= top:
            axes.plot([read_ceiling(bound)] * 2, [y - 0.17, y + 0.17], color=CHANCE, linewidth=1.4, zorder=1)
        else:
            axes.plot([top], [y], marker=">", markersize=4.5, color=CHANCE, clip_on=False, zorder=1)
        pale = 0.28 if bound.family else 1.0
        axes.barh(y, min(read_epsilon(bound), top), height=0.36, color=colour, alpha=pale, linewidth=0, zorder=2)
    for claim in bar.claims:
        if claim.epsilon <= top:
            width, order = (2.2, 4) if claim == bar.claim else (0.8, 3)
            axes.plot([claim.epsilon] * 2, [y - 0.46, y + 0.46], color=CLAIM, linewidth=width, zorder=order)


def _write_bar(axes: Any, y: float, bar: Bar) -> None:
    """The numbers in a column beside the drawing, if nothing can cover them; each bound with its own ceiling."""
    place = {"transform": axes.get_yaxis_transform(), "va": "center", "fontsize": 7.5}
    key = "bar.void" if bar.void else "bar.proven"
    lines = [
        (
            say("bar.inside" if bound.family else key, epsilon=down(read_epsilon(bound)), ceiling=down(read_ceiling(bound))),
            INSIDE if bound.family else MEASURED,
        )
        for bound in bar.bounds
    ]
    lines = [(text, CHANCE if bar.void else colour) for text, colour in lines]
    lines.append((_claimed(bar), CLAIM if bar.claim else CHANCE))
    for row, (text, colour) in enumerate(lines):
        axes.text(1.03, y + LINE * ((len(lines) - 1) / 2 - row), text, color=colour, **place)


def budget(report: AuditReport, mechanism: MechanismResult) -> Plan:
    """Claimed and proven epsilon over training steps."""
    ends = [
        say("bar.ends_at", accountant=trajectory.accountant, up=up(trajectory.epsilon[-1]))
        for trajectory in mechanism.trajectories
        if trajectory.epsilon
    ]
    ends += [
        say(
            "bar.void_end" if mechanism.is_void else "bar.proves",
            label=trajectory.label,
            down=down(read_course(trajectory)[-1]),
        )
        for trajectory in mechanism.bound_trajectories
        if trajectory.steps
    ]
    last = max((trajectory.steps[-1] for trajectory in mechanism.trajectories if trajectory.steps), default=0)
    return Plan(
        name=_plots.file_name("budget", mechanism.name),
        caption=_budget_caption(mechanism),
        alt=say("bar.line_chart_over_training_steps", count=count(last), power=power(report.delta))
        + say("separator.clauses").join(ends)
        + say("separator.end"),
        height_mm=56,
        paint=lambda figure: _paint_budget(figure, report, mechanism),
    )


def _budget_caption(mechanism: MechanismResult) -> str:
    begin = say("bar.privacy_budget_of_over_training", name=mechanism.name)
    if not mechanism.bound_trajectories:
        return begin + say("bar.what_attacks_prove_nothing_is")
    scorers = list(dict.fromkeys(trajectory.label.partition(",")[0] for trajectory in mechanism.bound_trajectories))
    if mechanism.is_void:
        return say("bar.privacy_budget_of_a_void_audit", name=mechanism.name, join_words=join_words(scorers))
    inside = any(bound.bound.family for bound in headline.game_bounds(mechanism))
    only = say("bar.some_of_these_bounds_hold") if inside else ""
    return begin + say("bar.what_proves_from_the_steps", join_words=join_words(scorers), only=only)


def _paint_budget(figure: Any, report: AuditReport, mechanism: MechanismResult) -> None:
    axes = figure.add_axes((0.075, 0.185, 0.645, 0.795))
    curves = []
    claims, proofs = mechanism.trajectories, mechanism.bound_trajectories
    tone = Tone.CHANCE if mechanism.is_void else Tone.MEASURED
    for dash, name, claim in zip(DASHES * 9, _labels.short([claim.accountant for claim in claims]), claims, strict=False):
        x, y = _finite(claim.steps, claim.epsilon)
        axes.plot(x, y, color=CLAIM, linewidth=1.5, linestyle=dash)
        curves += [Curve(x=x, y=y, name=f"{elide(name, END_LETTERS)}, {up(float(y[-1]))}", tone=Tone.CLAIM)] if len(y) else []
    for dash, name, proof in zip(DASHES * 9, _labels.short([proof.label for proof in proofs]), proofs, strict=False):
        x, y = _finite(proof.steps, read_course(proof))
        axes.plot(x, y, color=_plots.COLOURS[tone], linewidth=1.2, linestyle=dash, marker="o", markersize=2.4)
        if len(y):
            label, end = elide(name, END_LETTERS), down(float(y[-1]))
            text = say("bar.void_end", label=label, down=end) if mechanism.is_void else f"{label}, {end}"
            curves.append(Curve(x=x, y=y, name=text, tone=tone))
    axes.set_ylim(0, max([float(curve.y.max()) for curve in curves], default=1.0) * 1.08 + 1e-9)  # of zeros alone, too
    axes.set_xlim(0, max([float(curve.x.max()) for curve in curves], default=1.0))
    axes.set_xlabel(say("bar.training_step"))
    axes.set_ylabel(say("bar.at", power=power(report.delta)))
    _plots.grid(axes)
    _labels.label_ends(axes, curves)


def _finite(steps: Sequence[int], epsilon: Sequence[float]) -> tuple[Any, Any]:
    """The points that can be drawn: an infinite claim has no place on the axis."""
    import numpy as np

    x, y = _plots.thin(steps, epsilon)
    keep = np.isfinite(y)
    return x[keep], y[keep]
