"""The evidence of a game that could stop at the first proof: how training went, in words and as a drawing."""

import math
from typing import Any

import numpy as np

from audit.core.evidence import Evidence, Watched
from audit.core.game_results import GameResult
from audit.core.results import MechanismResult
from reports.figures import _labels, _plots
from reports.figures._plots import COLOURS, DASHES, Curve, Floats, Plan
from reports.pages.blocks import Block, Paragraph, Strong, Tone
from reports.words.language import at_most, confidence, count, elide, many, power, say, significant, up
from reports.words.phrases import figure_block, join_words

MOST_LETTERS = 16
SMALLEST, LARGEST = 1e-3, 1e9  # of drawn e-values: beyond, how far says nothing more


def name(mechanism: MechanismResult, game: GameResult) -> str:
    """The file name of the drawing."""
    return _plots.file_name("evidence", mechanism.name, game.name)


def blocks(stopping: Watched, drawing: Plan | None) -> list[Block]:
    """Return how training went, and the drawing if there is evidence to draw."""
    paragraph = Paragraph(text=(Strong(say("evidence.stopping")), sentence(stopping)))
    return [paragraph, *([figure_block(drawing)] if drawing is not None else [])]


def sentence(stopping: Watched) -> str:
    """Return how training went, in words."""
    plan = say("evidence.up_to_were_planned_and", many=many("noun.run", stopping.planned))
    if not stopping.evidence:
        return say("evidence.nothing_is_claimed_that_these", plan=plan)
    if stopping.proved is None:
        best = max(stopping.evidence, key=lambda process: max(process.log_evidence) - process.threshold)
        return say(
            "evidence.no_proof_within_the_evidence",
            plan=plan,
            many=many("noun.run", stopping.used),
            at_most=at_most(best.claim.epsilon),
            number=_number(max(best.log_evidence)),
            number_2=_number(best.threshold),
        )
    refutations = {
        f"{at_most(process.claim.epsilon)} ({process.claim.source})"
        for process in stopping.evidence
        if process.proved is not None
    }
    savings = stopping.planned - stopping.used
    outcome = (
        say("evidence.were_trained_and_spared", many=many("noun.run", stopping.used), count=count(savings))
        if savings
        else say("evidence.all_runs_were_trained")
    )
    return say(
        "evidence.was_refuted_after_the_bounds",
        plan=plan,
        join_words=join_words(sorted(refutations)),
        many=many("noun.run", stopping.proved),
        outcome=outcome,
    )


def evidence(mechanism: MechanismResult, game: GameResult, stopping: Watched) -> Plan:
    """The e-values of the bets against each claim, over the models of the game."""
    names = _names(stopping)
    thresholds = join_words(sorted({_number(process.threshold) for process in stopping.evidence}))
    level = confidence(min(1 - math.exp(-process.threshold) for process in stopping.evidence))
    attacks = len(stopping.evidence[0].stakes)
    descriptions = [
        say("evidence.ends_at", label=label, number=_number(process.log_evidence[-1]))
        + (say("evidence.refuted_after", many=many("noun.model", process.proved)) if process.proved is not None else "")
        for label, process in zip(names, stopping.evidence, strict=True)
    ]
    return Plan(
        name=name(mechanism, game),
        caption=say(
            "evidence.evidence_against_each_claim_over",
            name=mechanism.name,
            name_2=game.name,
            level=level,
            thresholds=thresholds,
        )
        + (say("evidence.thin_each_of_attacks_by", count=count(attacks)) if attacks > 1 else "")
        + (say("evidence.family_only_inside_the_family") if any(process.family for process in stopping.evidence) else ""),
        alt=say(
            "evidence.line_chart_over_logarithmic_axis",
            many=many("noun.target_model", stopping.used),
            thresholds=thresholds,
            join=say("separator.clauses").join(descriptions),
        ),
        height_mm=58,
        paint=lambda figure: _paint(figure, stopping, names),
    )


def _names(stopping: Watched) -> list[str]:
    """The claims, and whether the evidence holds only inside the family that they assert."""
    sources = _labels.short([process.claim.source for process in stopping.evidence])
    return [
        f"{elide(source, MOST_LETTERS)} {up(process.claim.epsilon)}{say('evidence.family') if process.family else ''}"
        for source, process in zip(sources, stopping.evidence, strict=True)
    ]


def _number(log_evidence: float) -> str:
    return significant(math.exp(min(max(log_evidence, -20.0), 700.0)), 3)  # e-values may be beyond all floats


def _paint(figure: Any, stopping: Watched, names: list[str]) -> None:
    axes = figure.add_axes((0.075, 0.185, 0.605, 0.795))
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: power(value))
    axes.yaxis.set_minor_formatter(lambda value, _: "")
    curves = []
    for dash, label, process in zip(DASHES * 9, names, stopping.evidence, strict=False):
        x, y = _points(process, process.log_evidence)
        if len(process.stakes) > 1:
            for stake in process.stakes:
                axes.plot(*_points(process, stake.log_evidence), color=COLOURS[Tone.MEASURED], linewidth=0.5, linestyle=dash)
        axes.plot(x, y, color=COLOURS[Tone.MEASURED], linewidth=1.5, linestyle=dash)
        curves.append(Curve(x=x, y=y, name=label, tone=Tone.MEASURED))
        if process.proved is not None:
            axes.plot(
                [process.proved], [math.exp(process.threshold)], "o", color=COLOURS[Tone.MEASURED], markersize=4.5, zorder=5
            )
    for threshold in {process.threshold for process in stopping.evidence}:
        axes.axhline(math.exp(threshold), color=COLOURS[Tone.CLAIM], linewidth=1.2)
    axes.axhline(1.0, color=COLOURS[Tone.CHANCE], linewidth=0.7)
    values = np.concatenate([curve.y for curve in curves])
    axes.set_ylim(
        max(min(float(values.min()), 0.5) / 2, SMALLEST),
        4 * max(float(values.max()), *(math.exp(e.threshold) for e in stopping.evidence)),
    )
    axes.set_xlim(0, stopping.planned)
    axes.axvspan(stopping.used, stopping.planned, color=_plots.FAINT, linewidth=0, alpha=0.6)
    axes.set_xlabel(
        say("evidence.target_models_trained") + (say("evidence.grey_spared") if stopping.used < stopping.planned else "")
    )
    axes.set_ylabel("e-value")
    _plots.grid(axes)
    _labels.label_ends(axes, curves)


def _points(process: Evidence, log_evidence: tuple[float, ...]) -> tuple[Floats, Floats]:
    """The points to draw, cut off where the axis ends."""
    x, y = _plots.thin(process.models, log_evidence)
    return x, np.exp(np.clip(y, math.log(SMALLEST), math.log(LARGEST)))
