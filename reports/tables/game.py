"""Tables of one game: bounds, rates, control, records, groups; cells are text already rounded."""

from __future__ import annotations

import math

from audit.core.claims import LowerBound, NegativeControl
from audit.core.evaluation import GroupSpread
from audit.core.game_results import GameResult, GroupResult
from audit.core.rounding import DASH, confidence, count, down, near, percent, rate, target, up
from reports import headline, outliers
from reports.pages.blocks import Column, Mark, Mono, Piece, Strong, Table, Text, Tone
from reports.words import en

LEVEL = 4  # the column that is left out where all bounds have the same confidence
SMALL_SIDE = 30  # fewer members or nonmembers than this make a group's figures rough


def bounds(game: GameResult) -> Table:
    """Every attack with every estimator; the largest bound of each kind stands out."""
    bounds = game.bounds
    best = [
        max((bound for bound in bounds if (bound.family is None) is free), key=lambda bound: bound.epsilon, default=None)
        for free in (True, False)
    ]
    levels = {bound.confidence for bound in bounds}
    alone = f" Each holds on its own with {confidence(min(levels))} confidence, so that all of them hold together."
    rows = tuple(
        (
            Mono(source.name),
            Mono(bound.estimator),
            _proof_cell(bound, any(bound is leader for leader in best)),
            down(bound.ceiling),
            confidence(bound.confidence),
            count(bound.comparisons),
            _holds_for(bound),
            _assumptions(bound),
            bound.selected or "nothing",
        )
        for source in headline.sources(game)
        for bound in source.bounds
    )
    columns = (
        Column(title="Attack"),
        Column(title="Estimator"),
        Column(title="Proven ε", right=True),
        Column(title="Ceiling", right=True),
        Column(title="Confidence", right=True),
        Column(title="Searched", right=True),
        Column(title="Holds for", share=1),
        Column(title="Assumes", share=1),
        Column(title="Ended on", share=1),
    )
    indices = [i for i in range(len(columns)) if i != LEVEL or len(levels) > 1]
    return Table(
        caption="Proven ε of each attack and estimator, the largest in bold. Searched: how many thresholds or guess counts were"
        f" tried; their number was fixed before the scores were seen and is paid for.{alone if len(levels) == 1 else ''}",
        columns=tuple(columns[i] for i in indices),
        rows=tuple(tuple(row[i] for i in indices) for row in rows),
        small=True,
    )


def estimates(game: GameResult) -> Table | None:
    """Figures without a guarantee, or None."""
    rows = tuple(
        (Mono(attack.scorer), Mono(estimate.estimator), near(estimate.epsilon), estimate.warning)
        for attack in game.attacks
        for estimate in attack.estimates
    )
    if not rows:
        return None
    return Table(
        caption="Estimates without a guarantee, never held against a claim.",
        columns=(
            Column(title="Attack"),
            Column(title="Method"),
            Column(title="ε", right=True),
            Column(title="Why it is no bound", share=1),
        ),
        rows=rows,
        small=True,
    )


def rates(game: GameResult, with_claim: bool) -> Table:
    """TPR at fixed FPRs with intervals, counts and what the claim allows."""
    rows: list[tuple[Text, ...]] = []
    for attack in game.attacks:
        members, nonmembers = attack.roc.members, attack.roc.nonmembers
        for point in attack.tpr_at:
            first: tuple[Text, ...] = (Mono(attack.scorer), target(point.target_fpr))
            if point.tpr is None or point.false_positives is None or point.true_positives is None:
                rows.append((*first, "not resolved", f"finest: 1 in {count(nonmembers)}", "", "", _limit(point.allowed)))
                continue
            interval = f"{rate(point.lower, members, 'down')} to {rate(point.upper, members, 'up')}"
            hits = f"{count(point.true_positives)} of {count(members)}"
            wrong = f"{count(point.false_positives)} of {count(nonmembers)}"
            rows.append((*first, rate(point.tpr, members), interval, hits, wrong, _limit(point.allowed)))
    columns = (
        Column(title="Attack"),
        Column(title="FPR", right=True, share=0.5),
        Column(title="TPR", right=True, share=0.75),
        Column(title="Interval", right=True, share=1.1),
        Column(title="Members found", right=True, share=1),
        Column(title="False positives", right=True, share=1),
        Column(title="Allowed", right=True, share=0.6),
    )
    last = None if with_claim else -1
    return Table(
        caption=f"Share of members found at fixed false positive rates. The intervals of one attack hold together with "
        f"{confidence(min(attack.roc.confidence for attack in game.attacks))} confidence. Guessing finds as "
        "many members as the FPR says." + (" Allowed: the most that the claim leaves any attack." if with_claim else ""),
        columns=columns[:last],
        rows=tuple(row[:last] for row in rows),
        small=True,
    )


def overall(game: GameResult) -> Table:
    """AUC of each attack, for games without bounds."""
    rows = tuple(
        (Mono(attack.scorer), near(attack.auc, 3), f"{down(attack.auc_lower, 3)} to {up(attack.auc_upper, 3)}")
        for attack in game.attacks
    )
    return Table(
        caption="Area under the ROC of each attack; one half is chance. An average over all records says nothing of the worst.",
        columns=(
            Column(title="Attack"),
            Column(title="AUC", right=True, share=1),
            Column(title="Interval", right=True, share=1),
        ),
        rows=rows,
        small=True,
    )


def control(game: GameResult) -> Table | None:
    """The negative control of each attack, or None where no coins exist to shuffle."""
    rows = tuple(_control(source.name, source.control) for source in headline.sources(game) if source.control is not None)
    if not rows:
        return None
    return Table(
        caption="Negative control: the same statistics on coins drawn anew, which no attack can know.",
        columns=(
            Column(title="Attack"),
            Column(title="Repetitions", right=True, share=1),
            Column(title="False alarms", right=True, share=1),
            Column(title="Allowed", right=True, share=1),
            Column(title="Result", share=1),
        ),
        rows=rows,
        small=True,
    )


def records(stand_out: outliers.Outliers) -> Table:
    """The members that stand out more than chance allows."""
    rows = tuple(
        (Mono(record.record), record.label, near(record.score, 3), f"{count(above)} of {count(stand_out.nonmembers)}")
        for record, above in stand_out.records
    )
    return Table(
        caption="Members whose scores stand out, under keyed names, with the nonmembers that score at least as high.",
        columns=(
            Column(title="Record"),
            Column(title="Label"),
            Column(title="Score", right=True),
            Column(title="Nonmembers as high", right=True),
        ),
        rows=rows,
        small=True,
    )


def groups(game: GameResult) -> Table:
    """Leakage and answered labels per slice, with counts; over all trained models where each was once the target."""
    spreads = {} if game.evaluation is None else {_name(group): group.auc for group in game.evaluation.groups}
    rows = tuple(
        (
            group.group,
            count(group.members),
            count(group.nonmembers),
            DASH if group.auc is None else near(group.auc, 3),
            _interval(group),
            DASH if (spread := spreads.get(group.group)) is None else f"{near(spread.mean, 3)} ± {near(spread.std, 3)}",
            DASH if group.accuracy is None else percent(group.accuracy),
            "rough" if min(group.members, group.nonmembers) < SMALL_SIDE else "",
        )
        for group in game.groups
    )
    columns = (
        Column(title="Group"),
        Column(title="Members", right=True),
        Column(title="Nonmembers", right=True),
        Column(title="AUC", right=True),
        Column(title="Interval", right=True),
        Column(title="AUC over models", right=True),
        Column(title="Own label", right=True),
        Column(title=""),
    )
    indices = [i for i in range(len(columns)) if any(row[i] not in ("", DASH) for row in rows)]
    warning = f" Rough: fewer than {SMALL_SIDE} members or nonmembers." if any(row[-1] for row in rows) else ""
    return Table(
        caption="Every group with its counts and the attack's AUC in it (chance is 0.5). The intervals of a column hold "
        f"together with {percent(game.attacks[0].roc.confidence, 0)} confidence where scores are independent."
        + (" Over models: mean ± standard deviation, each trained model once the target." if spreads else "")
        + f" Own label: how often the model answers with the label that the record carries, be it wrong.{warning}",
        columns=tuple(columns[i] for i in indices),
        rows=tuple(tuple(row[i] for i in indices) for row in rows),
        small=True,
    )


def _name(group: GroupSpread) -> str:
    """A group under the name that it has in the other table: classes by their label alone."""
    return group.group if group.column == "class" else f"{group.column} {group.group}"


def _interval(group_result: GroupResult) -> str:
    if group_result.auc_lower is None or group_result.auc_upper is None:
        return DASH
    return f"{down(group_result.auc_lower, 3)} to {up(group_result.auc_upper, 3)}"


def _proof_cell(bound: LowerBound, leads: bool) -> Piece:
    return Strong(down(bound.epsilon)) if leads and bound.epsilon > 0 else down(bound.epsilon)


def _holds_for(bound: LowerBound) -> str:
    return "any mechanism" if bound.family is None else f"{en.family(bound.family)} only"


def _assumptions(bound: LowerBound) -> str:
    return ", ".join(en.ASSUMPTIONS[assume] for assume in bound.assumes) or "nothing"


def _limit(share: float | None) -> str:
    return "no limit" if share is None or math.isinf(share) else percent(share, side="up")


def _control(name: str, negative_control: NegativeControl) -> tuple[Text, ...]:
    result = Mark("passed", Tone.GOOD) if negative_control.passed else Mark("failed", Tone.BAD)
    return (
        Mono(name),
        count(negative_control.repetitions),
        count(negative_control.false_alarms),
        count(negative_control.allowed),
        result,
    )
