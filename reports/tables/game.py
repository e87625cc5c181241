"""Tables of one game: bounds, rates, control, records, groups; cells are text already rounded."""

import math

from audit.core.claims import NegativeControl
from audit.core.evaluation import GroupSpread
from audit.core.game_results import AttackResult, GameResult, GroupResult, TprAtFpr
from audit.core.lower_bounds import ReportedBound, read_ceiling, read_epsilon
from reports import headline, outliers
from reports.pages.blocks import Column, Mark, Mono, Piece, Strong, Table, Text, Tone, layout, name_column, small_table
from reports.words import named
from reports.words.language import area, confidence, count, down, near, not_measured, percent, rate, recorded, say, target, up

LEVEL = 4  # the column that is left out if all bounds have the same confidence
SMALL_SIDE = 30  # fewer members or nonmembers than this make a group's figures rough


def bounds(game: GameResult, void: bool) -> Table:
    """Every attack with every estimator; the largest bound of each kind is emphasised, if any of them proves something."""
    bounds = game.bounds
    best = [
        max((bound for bound in bounds if (bound.family is None) is free), key=read_epsilon, default=None)
        for free in (True, False)
    ]
    levels = {bound.confidence for bound in bounds}
    alone = say("game_table.each_holds_on_its_own", confidence=confidence(min(levels)))
    rows = tuple(
        (
            Mono(source.name),
            Mono(bound.estimator),
            _proof_cell(bound, not void and any(bound is leader for leader in best)),
            down(read_ceiling(bound)),
            confidence(bound.confidence),
            count(bound.comparisons),
            say("game_table.any_mechanism")
            if bound.family is None
            else say("game_table.only", family=named.family(bound.family)),
            say("separator.words").join(named.assumption(assume) for assume in bound.assumes) or say("proof.nothing"),
            bound.selected or say("proof.nothing"),
        )
        for source in headline.sources(game)
        for bound in source.bounds
    )
    columns = (
        name_column(say("game_table.attack"), [source.name for source in headline.sources(game)]),
        *layout("game_table.estimator"),
        Column(title=say("game_table.void") if void else say("unclaimed.proven"), right=True),
        *layout(
            ">game_table.ceiling >game_table.confidence >game_table.searched game_table.holds_for:1 "
            "game_table.assumes:1.4 game_table.ended_on:1"
        ),
    )
    caption = say("game_table.void_of_each_attack_and") if void else say("game_table.proven_of_each_attack_and")
    caption += say("game_table.searched_means", alone=alone if len(levels) == 1 else "")
    table = small_table(caption, columns, rows)
    return table.only([i for i in range(len(columns)) if i != LEVEL or len(levels) > 1])


def estimates(game: GameResult) -> Table | None:
    """Figures without a guarantee, or None."""
    rows = tuple(
        (Mono(attack.scorer), Mono(estimate.estimator), near(estimate.epsilon), estimate.warning)
        for attack in game.attacks
        for estimate in attack.estimates
    )
    if not rows:
        return None
    caption = say("game_table.estimates_without_a_guarantee_never")
    return small_table(caption, layout("game_table.attack game_table.method >ε game_table.why_it_is_no_bound:1"), rows)


def _absence(point: TprAtFpr, nonmembers: int) -> tuple[str, str]:
    """Return why a rate is not there: finer than one nonmember, or withheld because it speaks of a few records."""
    if point.target_fpr * nonmembers < 1 - 1e-9:  # a product such as 0.001 * 1000 may round to below 1
        return say("game_table.not_resolved"), say("game_table.finest_1_in", count=count(nonmembers))
    return say("game_table.withheld"), say("game_table.few_records")


def rates(game: GameResult, with_claim: bool) -> Table:
    """TPR at fixed FPRs with intervals, counts and what the claim allows."""
    rows: list[tuple[Text, ...]] = []
    for attack in game.attacks:
        members, nonmembers = attack.roc.members, attack.roc.nonmembers
        for point in attack.tpr_at:
            first: tuple[Text, ...] = (Mono(attack.scorer), target(point.target_fpr))
            if point.tpr is None or point.false_positives is None or point.true_positives is None:
                rows.append((*first, *_absence(point, nonmembers), "", "", _limit(point.allowed)))
                continue
            interval = say("game_table.to", rate=rate(point.lower, members, "down"), rate_2=rate(point.upper, members, "up"))
            hits = say("game_table.of", count=count(point.true_positives), count_2=count(members))
            wrong = say("game_table.of", count=count(point.false_positives), count_2=count(nonmembers))
            rows.append((*first, rate(point.tpr, members), interval, hits, wrong, _limit(point.allowed)))
    columns = layout(
        "game_table.attack >FPR:0.5 >TPR:0.75 >game_table.interval:1.1 >unclaimed.members_found:1 "
        ">game_table.false_positives:1 >game_table.allowed:0.6"
    )
    level = min(attack.roc.confidence for attack in game.attacks)
    caption = say("game_table.share_of_members_found_at", confidence=confidence(level))
    caption += say("game_table.allowed_the_most_that_the") if with_claim else ""
    table = small_table(caption, columns, rows)
    return table if with_claim else table.only(range(len(columns) - 1))  # "allowed" is the last column


def overall(game: GameResult) -> Table:
    """AUC of each attack, for games without bounds."""
    rows = tuple((Mono(attack.scorer), area(attack), _interval(attack)) for attack in game.attacks)
    return small_table(say("game_table.area_under_the_roc_of"), layout("game_table.attack >AUC:1 >game_table.interval:1"), rows)


def control(game: GameResult) -> Table | None:
    """The negative control of each attack, or None if no coins exist to shuffle."""
    rows = tuple(_control(source.name, source.control) for source in headline.sources(game) if source.control is not None)
    if not rows:
        return None
    caption = say("game_table.negative_control_the_same_statistics")
    columns = layout(
        "game_table.attack >game_table.repetitions:1 >game_table.false_alarms:1 >game_table.allowed:1 game_table.result:1"
    )
    return small_table(caption, columns, rows)


def records(stand_out: outliers.Outliers) -> Table:
    """The members that are outliers beyond chance."""
    rows = tuple(
        (
            Mono(record.record),
            record.label,
            near(record.score, 3),
            say("game_table.of", count=count(above), count_2=count(stand_out.nonmembers)),
        )
        for record, above in stand_out.records
    )
    columns = layout("game_table.record game_table.label >game_table.score >game_table.nonmembers_as_high")
    table = small_table(say("game_table.members_whose_scores_stand_out"), columns, rows)
    return table.only([i for i in range(len(columns)) if any(row[i] != "" for row in rows)])


def groups(game: GameResult) -> Table:
    """Leakage and answered labels per slice, with counts; over all trained models if each was once the target."""
    spreads = {} if game.evaluation is None else {_name(group): group.auc for group in game.evaluation.groups}
    rows = tuple(
        (
            recorded(group.group),
            count(group.members),
            count(group.nonmembers),
            not_measured() if group.auc is None else near(group.auc, 3),
            _interval(group),
            not_measured()
            if (spread := spreads.get(group.group)) is None
            else f"{near(spread.mean, 3)} ± {near(spread.std, 3)}",
            not_measured() if group.accuracy is None else percent(group.accuracy),
            say("game_table.rough") if min(group.members, group.nonmembers) < SMALL_SIDE else "",
        )
        for group in game.groups
    )
    columns = (
        *layout(
            "game_table.group >game_table.members >game_table.nonmembers >AUC >game_table.interval "
            ">game_table.auc_over_models >game_table.own_label"
        ),
        Column(title=""),
    )
    warning = say("game_table.rough_fewer_than_members_or", SMALL_SIDE=SMALL_SIDE) if any(row[-1] for row in rows) else ""
    caption = say("game_table.every_group_with_its_counts", percent=percent(game.attacks[0].roc.confidence, 0))
    caption += say("game_table.over_models_mean_standard_deviation") if spreads else ""
    caption += say("game_table.own_label_how_often_the", warning=warning)
    table = small_table(caption, columns, rows)
    return table.only([i for i in range(len(columns)) if any(row[i] not in ("", not_measured()) for row in rows)])


def _name(group: GroupSpread) -> str:
    """A group under the name that it has in the other table: classes by their label alone."""
    return group.group if group.column == "class" else f"{group.column} {group.group}"


def _interval(result: AttackResult | GroupResult) -> str:
    if result.auc_lower is None or result.auc_upper is None:
        return not_measured()
    return say("game_table.to_2", down=down(result.auc_lower, 3), up=up(result.auc_upper, 3))


def _proof_cell(bound: ReportedBound, leads: bool) -> Piece:
    figure = down(read_epsilon(bound))
    text = figure if bound.family is None else say("game_table.in_family", epsilon=figure)
    return Strong(text) if leads and read_epsilon(bound) > 0 else text


def _limit(share: float | None) -> str:
    return say("number.no_limit") if share is None or math.isinf(share) else percent(share, side="up")


def _control(name: str, negative_control: NegativeControl) -> tuple[Text, ...]:
    result = Mark(say("game_table.passed"), Tone.GOOD) if negative_control.passed else Mark(say("status.failed"), Tone.BAD)
    return (
        Mono(name),
        count(negative_control.repetitions),
        count(negative_control.false_alarms),
        count(negative_control.allowed),
        result,
    )
