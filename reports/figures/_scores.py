"""Drawings of scores: ROC on log axes, trade-off between the two errors, outlines of members and nonmembers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from audit.core.game_results import AttackResult, GameResult
from audit.core.results import AuditReport, MechanismResult
from reports import headline
from reports.figures import _labels, _plots
from reports.figures._plots import COLOURS, DASHES, Curve, Floats, Plan
from reports.pages.blocks import Tone
from reports.words.language import area, confidence, elide, many, percent, power, rate, recorded, say, up

if TYPE_CHECKING:
    from matplotlib.figure import Figure


CLAIM, MEASURED, CHANCE = COLOURS[Tone.CLAIM], COLOURS[Tone.MEASURED], COLOURS[Tone.CHANCE]
MOST_HISTOGRAMS = 3
Turn = Callable[[Any], Floats]


def roc(mechanism: MechanismResult, game: GameResult) -> Plan:
    """The leading attack of a game as a ROC on log axes and as a trade-off between its two errors."""
    lead = headline.leading(game)
    curve = lead.roc
    size = say("curve.and", many=many("noun.member", curve.members), many_2=many("noun.nonmember", curve.nonmembers))
    points = [
        say(
            "curve.at_false_positives_it_finds",
            rate=rate(point.target_fpr if point.realised_fpr is None else point.realised_fpr, curve.nonmembers),
            rate_2=rate(point.tpr, curve.members),
        )
        for point in lead.tpr_at
        if point.tpr is not None
    ]
    single = game.game.copies == 1  # what is claimed for one record limits no attack on a group
    limit = _limit_in_words(mechanism) if single else ""
    thin_count = len(game.attacks) - 1
    return Plan(
        name=_plots.file_name("roc", mechanism.name, game.name),
        caption=say(
            "curve.attack_on_left_roc_on",
            name=mechanism.name,
            name_2=game.name,
            scorer=lead.scorer,
            size=size,
            confidence=confidence(curve.confidence),
            band=recorded(curve.band),
            limit=limit,
        )
        + (say("curve.thin", many=many("noun.other_attack", thin_count)) if thin_count else ""),
        alt=say(
            "curve.two_charts_of_attack_with",
            scorer=lead.scorer,
            near=area(lead),
            size=size,
            join=say("separator.clauses").join(points),
            limit=limit,
        ),
        height_mm=62,
        paint=lambda figure: _paint_roc(figure, game, lead, _limit(mechanism, curve.nonmembers) if single else None),
    )


def _limit(mechanism: MechanismResult, nonmembers: int) -> tuple[Floats, Floats] | None:
    """The curve no attack can cross if the claims hold: the lower of the mechanism's own and the tightest (epsilon, delta)."""
    claim, own = headline.tightest(mechanism), mechanism.limit
    if claim is None and own is None:
        return None
    smallest = 1 / max(nonmembers, 2)  # a logarithmic axis has no 0, so it begins at one nonmember
    # dense for both panels: the left one has logarithmic axes, the right one linear ones
    grid = np.unique(np.r_[np.geomspace(smallest, 1, 200), np.linspace(smallest, 1, 200)])
    limit = np.ones(len(grid))
    if claim is not None:
        limit = np.array([headline.allowed_tpr(float(rate), claim.epsilon, claim.delta) for rate in grid])
    if own is not None:
        limit = np.minimum(limit, np.interp(grid, own.fpr, own.tpr))
    return grid, limit


def _limit_in_words(mechanism: MechanismResult) -> str:
    claim, own = headline.tightest(mechanism), mechanism.limit
    sources = [f"ε = {up(claim.epsilon)}"] if claim is not None else []
    sources += [say("curve.the_claimed_mechanism_itself", source=own.source)] if own is not None else []
    return say("curve.blue_the_most_that_any", join=say("curve.and_2").join(sources)) if sources else ""


def _paint_roc(figure: Any, game: GameResult, lead: AttackResult, limit: tuple[Floats, Floats] | None) -> None:
    panels = (figure.add_axes((0.085, 0.175, 0.395, 0.8)), figure.add_axes((0.585, 0.175, 0.395, 0.8)))
    smallest = 1 / max(lead.roc.nonmembers, 2)
    turns: tuple[Turn, Turn] = (_rate_texts, _miss)
    for axes, turn in zip(panels, turns, strict=True):
        if turn is _miss:
            axes.set(xlim=(0, 1), ylim=(0, 1.02))
            axes.set(xlabel=say("curve.type_1_error_nonmember_called"), ylabel=say("curve.type_2_error_member_missed"))
        else:
            axes.set(xscale="log", yscale="log", xlim=(smallest, 1), ylim=(smallest, 1.25))
            axes.set(xlabel=say("curve.false_positive_rate"), ylabel=say("curve.true_positive_rate"))
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_formatter(lambda value, _: power(value))
            _plots.log_ticks(axes)
        _plots.grid(axes)
        curves = [*_paint_chance(axes, smallest, turn), *_paint_attacks(axes, game, lead, turn)]
        if limit is not None:
            axes.plot(limit[0], turn(limit[1]), color=CLAIM, linewidth=1.5)
            curves.append(Curve(x=limit[0], y=turn(limit[1]), name=say("curve.limit_of_the_claims"), tone=Tone.CLAIM))
        _labels.label(axes, curves)


def _rate_texts(tpr: Any) -> Floats:
    return np.asarray(tpr, dtype=np.float64)


def _miss(tpr: Any) -> Floats:
    return np.asarray(1 - np.asarray(tpr), dtype=np.float64)


def _paint_chance(axes: Any, smallest: float, turn: Turn) -> list[Curve]:
    grid = np.geomspace(smallest, 1, 200)
    axes.plot(grid, turn(grid), color=CHANCE, linewidth=0.9, linestyle=DASHES[1])
    return [Curve(x=grid, y=turn(grid), name=say("curve.chance"), tone=Tone.CHANCE)]


def _paint_attacks(axes: Any, game: GameResult, lead: AttackResult, turn: Turn) -> list[Curve]:
    curves = []
    for attack in game.attacks:
        if attack is not lead:
            x, y = _plots.thin(attack.roc.fpr, attack.roc.tpr)
            axes.plot(x, turn(y), color=MEASURED, linewidth=0.6, alpha=0.55, drawstyle="steps-post")
            curves.append(_plots.step_curve(x, turn(y)))
    fpr, tpr, low, high = _plots.thin(lead.roc.fpr, lead.roc.tpr, lead.roc.lower, lead.roc.upper)
    axes.fill_between(fpr, turn(low), turn(high), step="post", color=MEASURED, alpha=0.16, linewidth=0)
    axes.plot(fpr, turn(tpr), color=MEASURED, linewidth=1.3, drawstyle="steps-post")
    curve = _plots.step_curve(fpr, turn(tpr), say("curve.measured"))
    return [*curves, curve, _plots.step_curve(fpr, turn(low)), _plots.step_curve(fpr, turn(high))]


def scores(mechanism: MechanismResult, game: GameResult) -> Plan:
    """Outlines of member and nonmember scores, one panel for each of the leading attacks."""
    attacks = sorted(game.attacks, key=lambda attack: -attack.auc_or_zero)[:MOST_HISTOGRAMS]
    descriptions = [say("curve.auc", scorer=attack.scorer, near=area(attack)) for attack in attacks]
    left_out = len(game.attacks) - len(attacks)
    return Plan(
        name=_plots.file_name("scores", mechanism.name, game.name),
        caption=say("curve.scores_of_members_red_and", name=mechanism.name, name_2=game.name)
        + (say("curve.with_a_smaller_auc_not", many=many("noun.attack", left_out)) if left_out else ""),
        alt=say("curve.histograms_of_attack_scores_of") + say("separator.clauses").join(descriptions) + say("separator.end"),
        height_mm=48,
        paint=lambda figure: _paint_scores(figure, attacks),
    )


def _paint_scores(figure: Any, attacks: Sequence[AttackResult]) -> None:
    width = 0.925 / len(attacks)
    for place, attack in enumerate(attacks):
        axes = figure.add_axes((0.065 + place * width, 0.2, width - 0.02, 0.69))
        edges = np.asarray(attack.histogram.edges)
        curves = []
        for counts, tone, dash, name in (
            (attack.histogram.nonmembers, Tone.CHANCE, DASHES[1], say("curve.nonmembers")),
            (attack.histogram.members, Tone.MEASURED, DASHES[0], say("curve.members")),
        ):
            share = np.asarray(counts) / max(1, sum(counts))
            axes.stairs(share, edges, color=COLOURS[tone], linewidth=1.2, linestyle=dash)
            curves.append(Curve(x=np.repeat(edges, 2)[1:-1], y=np.repeat(share, 2), name=name, tone=tone))
        axes.set_title(say("curve.auc_2", elide=elide(attack.scorer, 66 // len(attacks) - 5), near=area(attack)), loc="left")
        axes.set_xlabel(say("curve.score"))
        axes.set_xlim(edges[0], edges[-1])
        axes.set_ylim(0, max(float(curve.y.max()) for curve in curves) * 1.25 + 1e-9)  # a quarter more for names
        axes.tick_params(axis="y", labelleft=False, left=False)
        if place == 0:
            axes.set_ylabel(say("curve.share_of_scores"))
        _labels.label(axes, curves)


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
