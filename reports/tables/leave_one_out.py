"""What the trained models of a game say, each of them once the target: spreads, thresholds, records found again, groups."""

from __future__ import annotations

from collections.abc import Sequence

from audit.core.evaluation import Evaluation, RecordSpread, Spread
from audit.core.game_results import GameResult
from audit.core.rounding import DASH, count, near, percent, plural, target
from reports import outliers
from reports.pages.blocks import Block, Column, Heading, Mono, Paragraph, Strong, Table, Text
from reports.words import en
from reports.words.phrases import sentence

MOST_RECORDS = 10
MOST_GROUPS = 30


def blocks(game: GameResult) -> list[Block]:
    """The part of a game's section that describes its trained models and proves nothing."""
    evaluation = game.evaluation
    if evaluation is None:
        return []
    blocks_of_game: list[Block] = [
        Heading(text="Across the trained models"),
        Paragraph(text=en.DESCRIPTIVE),
        spreads(evaluation),
    ]
    blocks_of_game += [thresholds(evaluation)] if evaluation.thresholds else []
    blocks_of_game.append(Paragraph(text=_again(evaluation)))
    if evaluation.records:
        blocks_of_game += exposures(evaluation, game.game.canaries)
    if len(evaluation.groups) > 1 and not game.groups:
        blocks_of_game.append(groups(evaluation))
    blocks_of_game += [units(evaluation)] if evaluation.units else []
    if evaluation.fidelity is not None:
        title = "References. " if evaluation.fidelity.matches else "Weak attack. "
        blocks_of_game.append(Paragraph(text=(Strong(title), sentence(evaluation.fidelity.sentence))))
    return blocks_of_game


def exposures(evaluation: Evaluation, canaries: int) -> list[Block]:
    """The records that stand out more than chance allows, with the test; a sentence where there is none."""
    outlying = outliers.of_models(evaluation, canaries)
    test = (
        f"tested for each of the {count(canaries)} records by the binomial tail, at {percent(outliers.SIGNIFICANCE, 0)} for "
        "all of them together, as if its scores were drawn anew for each model; models share references, so this is approximate"
    )
    if not outlying:
        return [Paragraph(text=f"No record is found in more models trained on it than chance allows ({test}).")]
    listed_records = outlying[:MOST_RECORDS]
    remark = (
        f" {plural(len(outlying) - len(listed_records), 'further record')} in report.json."
        if len(outlying) > len(listed_records)
        else ""
    )
    subject = (
        f"At least {plural(len(outlying), 'record')}"
        if len(outlying) == len(evaluation.records)
        else plural(len(outlying), "record")
    )
    verb = "is" if len(outlying) == 1 else "are"
    return [
        Paragraph(text=f"{subject} {verb} found in more models trained on it than chance allows ({test}). {en.INTERNAL}"),
        records(evaluation, listed_records, remark),
    ]


def spreads(evaluation: Evaluation) -> Table:
    """AUC and TPR of each attack over targets."""
    figures = list(dict.fromkeys(figure.figure for scorer in evaluation.scorers for figure in scorer.figures))
    rows: list[tuple[Text, ...]] = []
    for scorer in evaluation.scorers:
        own = {figure.figure: figure for figure in scorer.figures}
        rows.append((Mono(scorer.scorer), *(_spread(own.get(figure)) for figure in figures)))
    return Table(
        caption=f"{_targets_text(evaluation)} once the target, all others its references: mean ± sample "
        "standard deviation over targets [smallest, largest]. Targets share references, so this is no confidence interval.",
        columns=(Column(title="Attack"), *(Column(title=_figure(figure), right=True) for figure in figures)),
        rows=tuple(rows),
        small=True,
    )


def thresholds(evaluation: Evaluation) -> Table:
    """What thresholds realise that an adversary sets without the target."""
    rows: list[tuple[Text, ...]] = [
        (
            target(threshold.nominal_fpr),
            percent(threshold.realised_fpr),
            percent(threshold.tpr),
            DASH if threshold.precision is None else percent(threshold.precision),
        )
        for threshold in evaluation.thresholds
    ]
    prior = percent(evaluation.thresholds[0].prior)
    return Table(
        caption=f"Thresholds of {evaluation.leading} set on nonmembers of the other models and applied to each target, means "
        f"over targets. Precision: share of members among those called members if {prior} of all candidates are members.",
        columns=(
            Column(title="Intended FPR", right=True),
            Column(title="Realised FPR (chance)", right=True),
            Column(title="TPR", right=True),
            Column(title="Precision", right=True),
        ),
        rows=tuple(rows),
        small=True,
    )


def records(evaluation: Evaluation, record_spreads: Sequence[RecordSpread], remark: str) -> Table:
    """The records that are exposed in most targets."""
    rows: list[tuple[Text, ...]] = [
        (Mono(record.record), record.label, _share(record.fpr, evaluation.at_fpr), percent(record.found), count(record.targets))
        for record in record_spreads
    ]
    return Table(
        caption="Records that stand out over all models trained on them, under keyed names. FPR: median share of nonmembers "
        "that score at least as high. Found: share of those models in which the record is found at "
        f"{percent(evaluation.at_fpr)} false positives; chance is the same {percent(evaluation.at_fpr)}.{remark}",
        columns=(
            Column(title="Record"),
            Column(title="Label"),
            Column(title="FPR", right=True),
            Column(title="Found", right=True),
            Column(title="Models", right=True),
        ),
        rows=tuple(rows),
        small=True,
    )


def _share(fpr: float, resolution: float) -> str:
    """A share of nonmembers; no share is printed as zero, a sample shows none below one over its size."""
    return f"below {percent(resolution)}" if fpr == 0 else percent(fpr)


def groups(evaluation: Evaluation) -> Table:
    """Attack AUC in each group, over targets."""
    rows: list[tuple[Text, ...]] = [
        (group.column, group.group, _spread(group.auc)) for group in evaluation.groups[:MOST_GROUPS]
    ]
    rest = len(evaluation.groups) - len(rows)
    return Table(
        caption=f"AUC of {evaluation.leading} inside each group, over targets."
        + (f" {plural(rest, 'further group')} in report.json." if rest > 0 else ""),
        columns=(Column(title="Column"), Column(title="Group"), Column(title="AUC", right=True)),
        rows=tuple(rows),
        small=True,
    )


def units(evaluation: Evaluation) -> Table:
    """The attack on all records of a unit at once."""
    figures = list(dict.fromkeys(figure.figure for unit in evaluation.units for figure in unit.figures))
    rows: list[tuple[Text, ...]] = []
    for unit in evaluation.units:
        own = {figure.figure: figure for figure in unit.figures}
        rows.append((unit.column, count(unit.units), near(unit.records, 1), *(_spread(own.get(figure)) for figure in figures)))
    return Table(
        caption=f"{evaluation.leading} on several records of one unit at once, all trained on or none, scores averaged; over "
        "targets. Coins decided record by record, so this says nothing of a guarantee for units.",
        columns=(
            Column(title="Unit"),
            Column(title="Units", right=True),
            Column(title="Records a unit", right=True),
            *(Column(title=_figure(figure), right=True) for figure in figures),
        ),
        rows=tuple(rows),
        small=True,
    )


def _targets_text(evaluation: Evaluation) -> str:
    """Which models were targets, as the beginning of a sentence."""
    if not evaluation.spared:
        return f"Each of {plural(evaluation.targets, 'trained model')}"
    return (
        f"Each of {count(evaluation.targets)} of {plural(evaluation.targets + evaluation.spared, 'trained model')}, "
        "evenly spread,"
    )


def _again(evaluation: Evaluation) -> str:
    """Whether targets agree on who is exposed, in a sentence."""
    if evaluation.reproducibility is None or evaluation.chance is None:
        return f"No record was found at {percent(evaluation.at_fpr)} false positives in two models that both trained on it."
    return (
        f"The lists of records that {evaluation.leading} finds at {percent(evaluation.at_fpr)} false positives in two "
        f"models, among those that both trained on, overlap by {percent(evaluation.reproducibility)} (Jaccard, mean over "
        f"pairs); random lists of the same lengths would by {percent(evaluation.chance)}."
    )


def _figure(name: str) -> str:
    return {"auc": "AUC"}.get(name, name.replace("tpr", "TPR").replace("fpr", "FPR"))


def _spread(spread: Spread | None) -> str:
    if spread is None:
        return "not resolved"
    return f"{near(spread.mean, 3)} ± {near(spread.std, 3)} [{near(spread.lowest, 3)}, {near(spread.highest, 3)}]"
