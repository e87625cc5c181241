"""What the trained models of a game say, each of them once the target: spreads, thresholds, records found again, groups."""

from collections.abc import Sequence

from audit.core.evaluation import Evaluation, RecordSpread, Spread, UsageSpread
from audit.core.game_results import GameResult
from reports import outliers
from reports.pages.blocks import Block, Column, Heading, Mono, Paragraph, Strong, Table, Text, layout, small_table
from reports.words.language import confidence, count, many, near, not_measured, percent, say, target
from reports.words.phrases import join_sentences, sentence

MOST_RECORDS = 10
MOST_GROUPS = 30


def blocks(game: GameResult) -> list[Block]:
    """The part of a game's section that describes its trained models and proves nothing."""
    evaluation = game.evaluation
    if evaluation is None:
        return []
    blocks_of_game: list[Block] = [
        Heading(text=say("models.across_the_trained_models")),
        Paragraph(text=say("descriptive")),
        spreads(evaluation),
    ]
    blocks_of_game += [thresholds(evaluation)] if evaluation.thresholds else []
    blocks_of_game.append(Paragraph(text=_again(evaluation)))
    if evaluation.records:
        blocks_of_game += exposures(evaluation, game.game.canaries)
    if len(evaluation.groups) > 1 and not game.groups:
        blocks_of_game.append(groups(evaluation))
    blocks_of_game += [units(evaluation)] if evaluation.units else []
    if evaluation.usage is not None:
        blocks_of_game.append(Paragraph(text=(Strong(say("models.usage")), usage(evaluation.usage))))
    if evaluation.fidelity is not None:
        title = say("models.references") if evaluation.fidelity.matches else say("models.weak_attack")
        blocks_of_game.append(Paragraph(text=(Strong(title), sentence(evaluation.fidelity.sentence))))
    return blocks_of_game


def exposures(evaluation: Evaluation, canaries: int) -> list[Block]:
    """The records that are outliers beyond chance, with the test; a sentence if there is none."""
    outlying = outliers.of_models(evaluation, canaries)
    test = say("models.tested_for_each_of_the", count=count(canaries), percent=percent(outliers.SIGNIFICANCE, 0))
    if not outlying:
        return [Paragraph(text=say("models.no_record_is_found_in", test=test))]
    listed_records = outlying[:MOST_RECORDS]
    remark = (
        say("models.in_report_json", many=many("noun.further_record", len(outlying) - len(listed_records)))
        if len(outlying) > len(listed_records)
        else ""
    )
    key = "outlying.at_least" if len(outlying) == len(evaluation.records) else "outlying.found"
    subject = many("noun.record", len(outlying))
    form = "one" if len(outlying) == 1 else "many"
    return [
        Paragraph(text=join_sentences([say(f"{key}.{form}", records=subject, test=test), say("internal.table")])),
        records(evaluation, listed_records, remark),
    ]


def spreads(evaluation: Evaluation) -> Table:
    """AUC and TPR of each attack over targets."""
    figures = list(dict.fromkeys(figure.figure for scorer in evaluation.scorers for figure in scorer.figures))
    rows: list[tuple[Text, ...]] = []
    for scorer in evaluation.scorers:
        own = {figure.figure: figure for figure in scorer.figures}
        rows.append((Mono(scorer.scorer), *(_spread(own.get(figure)) for figure in figures)))
    caption = say("models.once_the_target_all_others", targets_text=_targets_text(evaluation))
    columns = (Column(title=say("game_table.attack")), *(Column(title=_figure(figure), right=True) for figure in figures))
    return small_table(caption, columns, rows)


def thresholds(evaluation: Evaluation) -> Table:
    """Return what thresholds realise that an adversary sets without the target."""
    rows: list[tuple[Text, ...]] = [
        (
            target(threshold.nominal_fpr),
            percent(threshold.realised_fpr),
            percent(threshold.tpr),
            not_measured() if threshold.precision is None else percent(threshold.precision),
        )
        for threshold in evaluation.thresholds
    ]
    prior = percent(evaluation.thresholds[0].prior)
    caption = say("models.thresholds_of_set_on_nonmembers", leading=evaluation.leading, prior=prior)
    return small_table(caption, layout(">models.intended_fpr >models.realised_fpr_chance >TPR >models.precision"), rows)


def records(evaluation: Evaluation, record_spreads: Sequence[RecordSpread], remark: str) -> Table:
    """The records that are exposed in most targets."""
    rows: list[tuple[Text, ...]] = [
        (Mono(record.record), record.label, _share(record.fpr, evaluation.at_fpr), percent(record.found), count(record.targets))
        for record in record_spreads
    ]
    caption = say("models.records_that_stand_out_over", percent=percent(evaluation.at_fpr), remark=remark)
    return small_table(caption, layout("game_table.record game_table.label >FPR >models.found >models.models"), rows)


def _share(fpr: float, resolution: float) -> str:
    """A share of nonmembers; no share is printed as zero, a sample shows none below one over its size."""
    return say("models.below", percent=percent(resolution)) if fpr == 0 else percent(fpr)


def groups(evaluation: Evaluation) -> Table:
    """Attack AUC in each group, over targets."""
    rows: list[tuple[Text, ...]] = [
        (group.column, group.group, _spread(group.auc)) for group in evaluation.groups[:MOST_GROUPS]
    ]
    remainder = len(evaluation.groups) - len(rows)
    caption = say("models.auc_of_inside_each_group", leading=evaluation.leading)
    caption += say("models.in_report_json", many=many("noun.further_group", remainder)) if remainder > 0 else ""
    return small_table(caption, layout("models.column game_table.group >AUC"), rows)


def units(evaluation: Evaluation) -> Table:
    """The attack on all records of a unit at once."""
    figures = list(dict.fromkeys(figure.figure for unit in evaluation.units for figure in unit.figures))
    rows: list[tuple[Text, ...]] = []
    for unit in evaluation.units:
        own = {figure.figure: figure for figure in unit.figures}
        rows.append((unit.column, count(unit.units), near(unit.records, 1), *(_spread(own.get(figure)) for figure in figures)))
    caption = say("models.on_several_records_of_one", leading=evaluation.leading)
    columns = (
        *layout("models.unit >models.units >models.records_a_unit"),
        *(Column(title=_figure(figure), right=True) for figure in figures),
    )
    return small_table(caption, columns, rows)


def usage(spread: UsageSpread) -> str:
    """Return which share of the audited records the first model was trained on, by the rates of the others, and how far off."""
    estimate = spread.target
    parts = [
        say("models.usage_untold", scorer=spread.scorer)
        if estimate.share is None
        else say(
            "models.usage_share",
            scorer=spread.scorer,
            share=percent(estimate.share),
            lower=percent(estimate.lower, side="down"),
            upper=percent(estimate.upper, side="up"),
            confidence=confidence(estimate.confidence),
            truth=percent(spread.truth),
        )
    ]
    if spread.error is not None:
        trained_models = many("noun.trained_model", spread.targets)
        parts.append(
            say("models.usage_error", models=trained_models, error=percent(spread.error), covered=percent(spread.covered))
        )
    return join_sentences([*parts, say("models.usage_assumes")])


def _targets_text(evaluation: Evaluation) -> str:
    """Return which models were targets, as the beginning of a sentence."""
    if not evaluation.spared:
        return say("models.each_of", many=many("noun.trained_model", evaluation.targets))
    return say(
        "models.each_of_of_evenly_spread",
        count=count(evaluation.targets),
        many=many("noun.trained_model", evaluation.targets + evaluation.spared),
    )


def _again(evaluation: Evaluation) -> str:
    """Return whether targets agree on who is exposed, in a sentence."""
    if evaluation.reproducibility is None or evaluation.chance is None:
        return say("models.no_record_was_found_at", percent=percent(evaluation.at_fpr))
    return say(
        "models.the_lists_of_records_that",
        leading=evaluation.leading,
        percent=percent(evaluation.at_fpr),
        percent_2=percent(evaluation.reproducibility),
        percent_3=percent(evaluation.chance),
    )


def _figure(name: str) -> str:
    tpr, _, fpr = name.partition(" at fpr ")
    return say("rates.tpr_at", fpr=target(float(fpr))) if tpr == "tpr" and fpr else {"auc": "AUC"}.get(name, name)


def _spread(spread: Spread | None) -> str:
    if spread is None:
        return say("game_table.not_resolved")
    return f"{near(spread.mean, 3)} ± {near(spread.std, 3)} [{near(spread.lowest, 3)}, {near(spread.highest, 3)}]"
