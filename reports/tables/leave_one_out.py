"""What the trained models of a game say, each of them once the target: spreads, thresholds, records found again, groups."""

from __future__ import annotations

from audit.core.evaluation import Evaluation, Spread
from audit.core.rounding import NOTHING, count, near, percent, plural, target
from reports.pages.blocks import Block, Column, Heading, Mono, Paragraph, Strong, Table, Text
from reports.words import en
from reports.words.phrases import sentence

MOST_RECORDS = 10
MOST_GROUPS = 30


def blocks(found: Evaluation) -> list[Block]:
    """The part of a game's section that describes and proves nothing."""
    made: list[Block] = [Heading(text="Across the trained models"), Paragraph(text=en.DESCRIPTIVE), spreads(found)]
    made += [thresholds(found)] if found.thresholds else []
    made += [Paragraph(text=_again(found)), *([records(found)] if found.records else [])]
    made += [groups(found)] if len(found.groups) > 1 else []
    made += [units(found)] if found.units else []
    if found.fidelity is not None:
        title = "References. " if found.fidelity.matches else "Weak attack. "
        made.append(Paragraph(text=(Strong(title), sentence(found.fidelity.sentence))))
    return made


def spreads(found: Evaluation) -> Table:
    """AUC and TPR of each attack over targets."""
    figures = list(dict.fromkeys(one.figure for scorer in found.scorers for one in scorer.figures))
    rows: list[tuple[Text, ...]] = []
    for scorer in found.scorers:
        own = {one.figure: one for one in scorer.figures}
        rows.append((Mono(scorer.scorer), *(_spread(own.get(figure)) for figure in figures)))
    return Table(
        caption=f"{_whom(found)} once the target, all others its references: mean ± sample "
        "standard deviation over targets [smallest, largest]. Targets share references, so this is no confidence interval.",
        columns=(Column(title="Attack"), *(Column(title=_figure(figure), right=True, share=1) for figure in figures)),
        rows=tuple(rows),
        small=True,
    )


def thresholds(found: Evaluation) -> Table:
    """What thresholds realise that an adversary sets without the target."""
    rows: list[tuple[Text, ...]] = [
        (
            target(one.nominal_fpr),
            percent(one.realised_fpr),
            percent(one.tpr),
            NOTHING if one.precision is None else percent(one.precision),
        )
        for one in found.thresholds
    ]
    prior = percent(found.thresholds[0].prior)
    return Table(
        caption=f"Thresholds of {found.leading} set on nonmembers of the other models and applied to each target, means over "
        f"targets. Precision: share of members among those called members if {prior} of all candidates are members.",
        columns=(
            Column(title="Intended FPR", right=True, share=1),
            Column(title="Realised FPR", right=True, share=1),
            Column(title="TPR", right=True, share=1),
            Column(title="Precision", right=True, share=1),
        ),
        rows=tuple(rows),
        small=True,
    )


def records(found: Evaluation) -> Table:
    """The records that are exposed in most targets."""
    rows: list[tuple[Text, ...]] = [
        (Mono(one.record), one.label, _share(one.fpr, found.at_fpr), percent(one.found), count(one.targets))
        for one in found.records[:MOST_RECORDS]
    ]
    return Table(
        caption="The records that stand out most over all models trained on them, under keyed names. FPR: median share of "
        "nonmembers that score at least as high. Found: share of those models in which the record is found at "
        f"{percent(found.at_fpr)} false positives.",
        columns=(
            Column(title="Record", share=1),
            Column(title="Label", share=0.6),
            Column(title="FPR", right=True, share=0.7),
            Column(title="Found", right=True, share=0.7),
            Column(title="Models", right=True, share=0.6),
        ),
        rows=tuple(rows),
        small=True,
    )


def _share(fpr: float, resolved: float) -> str:
    """A share of nonmembers; no share is printed as zero, a sample shows none below one over its size."""
    return f"below {percent(resolved)}" if fpr == 0 else percent(fpr)


def groups(found: Evaluation) -> Table:
    """Attack AUC in each group, over targets."""
    rows: list[tuple[Text, ...]] = [(one.column, one.group, _spread(one.auc)) for one in found.groups[:MOST_GROUPS]]
    left = len(found.groups) - len(rows)
    return Table(
        caption=f"AUC of {found.leading} inside each group, over targets."
        + (f" {plural(left, 'further group')} in report.json." if left > 0 else ""),
        columns=(Column(title="Column", share=0.6), Column(title="Group", share=1), Column(title="AUC", right=True, share=1.4)),
        rows=tuple(rows),
        small=True,
    )


def units(found: Evaluation) -> Table:
    """The attack on all records of a unit at once."""
    figures = list(dict.fromkeys(one.figure for unit in found.units for one in unit.figures))
    rows: list[tuple[Text, ...]] = []
    for unit in found.units:
        own = {one.figure: one for one in unit.figures}
        rows.append((unit.column, count(unit.units), near(unit.records, 1), *(_spread(own.get(figure)) for figure in figures)))
    return Table(
        caption=f"{found.leading} on several records of one unit at once, all trained on or none, scores averaged; over "
        "targets. Coins decided record by record, so this says nothing of a guarantee for units.",
        columns=(
            Column(title="Unit", share=0.6),
            Column(title="Units", right=True, share=0.5),
            Column(title="Records a unit", right=True, share=0.6),
            *(Column(title=_figure(figure), right=True, share=1) for figure in figures),
        ),
        rows=tuple(rows),
        small=True,
    )


def _whom(found: Evaluation) -> str:
    """Which models were targets, as the beginning of a sentence."""
    if not found.spared:
        return f"Each of {plural(found.targets, 'trained model')}"
    return f"Each of {count(found.targets)} of {plural(found.targets + found.spared, 'trained model')}, evenly spread,"


def _again(found: Evaluation) -> str:
    """Whether targets agree on who is exposed, in a sentence."""
    if found.reproducibility is None or found.chance is None:
        return f"No record was found at {percent(found.at_fpr)} false positives in two models that both trained on it."
    return (
        f"The lists of records that {found.leading} finds at {percent(found.at_fpr)} false positives in two models, among "
        f"those that both trained on, overlap by {percent(found.reproducibility)} (Jaccard, mean over pairs); random lists of "
        f"the same lengths would by {percent(found.chance)}."
    )


def _figure(name: str) -> str:
    return {"auc": "AUC"}.get(name, name.replace("tpr", "TPR").replace("fpr", "FPR"))


def _spread(one: Spread | None) -> str:
    if one is None:
        return "not resolved"
    return f"{near(one.mean, 3)} ± {near(one.std, 3)} [{near(one.lowest, 3)}, {near(one.highest, 3)}]"
