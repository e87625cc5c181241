"""The pages on a synthetic table: its risks beside the control attack, how close records are, and what follows from neither."""

from audit.core.results import AuditReport
from audit.core.table_risks import SuccessRate, TableAudit, TableRisk
from reports.pages.blocks import (
    Block,
    Column,
    Heading,
    Items,
    Mark,
    Mono,
    Paragraph,
    Section,
    Table,
    Text,
    Tone,
    Verdict,
    layout,
)
from reports.pages.cover import identity
from reports.pages.reproduction import reproduce
from reports.words.language import say
from reports.words.numbers import confidence, count, near, percent, significant, target
from reports.words.phrases import join_words

NEVER_SAYS = ("law", "average")


def sections(report: AuditReport, table: TableAudit) -> tuple[Section, ...]:
    """All sections on a synthetic table but the glossary."""
    return (
        Section(title="", blocks=cover(report, table)),
        Section(title=say("synthetic.closest"), blocks=closeness(table)),
        Section(title=say("page.limits_of_this_report"), blocks=limits()),
        reproduce(report),
    )


def cover(report: AuditReport, table: TableAudit) -> tuple[Block, ...]:
    """The answer, what was audited, and a row each risk."""
    notes = tuple(Paragraph(text=note) for note in report.notes)
    return (verdict(table), *notes, identity(report), risks(table), Paragraph(text=say("synthetic.reading"), small=True))


def verdict(table: TableAudit) -> Verdict:
    """Return whether attacks find more of training records than of control records."""
    rows = table.beyond_chance
    names = list(dict.fromkeys(say(f"synthetic.{risk.risk}") for risk in rows))
    text = (
        say("synthetic.beyond", risks=join_words(names), some=count(len(rows)), of=count(len(table.risks)))
        if rows
        else say("synthetic.within", of=count(len(table.risks)))
    )
    test = say("synthetic.test", doubt=target(round(1 - table.confidence, 9)))
    return Verdict(
        question=say("synthetic.question"),
        word=say("answer.yes" if rows else "answer.not shown"),
        text=(text, test),
        tone=Tone.MEASURED if rows else Tone.PLAIN,
    )


def risks(table: TableAudit) -> Table:
    """Return a row each risk."""
    columns = ("risk", "attack", "training", "control", "guessing", "excess", "p", "chance")
    return Table(
        caption=say("synthetic.caption", confidence=confidence(table.confidence)),
        columns=tuple(
            Column(title=say(f"synthetic.{name}"), right=name not in columns[:2], share=0.8 if name == "attack" else 0.0)
            for name in columns
        ),
        rows=tuple(_row(risk) for risk in table.risks),
        small=True,
    )


def _row(risk: TableRisk) -> tuple[Text, ...]:
    excess = percent(risk.excess)
    if risk.has_limits:
        excess += f" [{percent(risk.excess_lower, side='down')}, {percent(risk.excess_upper, side='up')}]"
    word = Mark(say("synthetic.above"), Tone.MEASURED) if risk.beyond_chance else say("synthetic.inside")
    rates = (_rate(risk.training), _rate(risk.control), percent(risk.baseline))
    return (say(f"synthetic.{risk.risk}"), Mono(risk.attack), *rates, excess, significant(risk.p_value), word)


def _rate(rate: SuccessRate) -> str:
    return f"{percent(rate.rate)} ({count(rate.successes)}/{count(rate.attacks)})"


def closeness(table: TableAudit) -> tuple[Block, ...]:
    """Return how close synthetic records are to real ones, after the sentence that this proves nothing."""
    figures = table.closeness
    return (
        Paragraph(text=say("synthetic.closest_proves_nothing")),
        Table(
            caption="",
            columns=(Column(title=""), *layout(">synthetic.training >synthetic.control")),
            rows=(
                (say("synthetic.copies"), percent(figures.training_copies), percent(figures.control_copies)),
                (say("synthetic.distance"), near(figures.training_distance, 3), near(figures.control_distance, 3)),
            ),
            small=True,
        ),
    )


def limits() -> tuple[Block, ...]:
    """Return what these attacks do not say."""
    return (
        Items(items=(say("synthetic.no_epsilon"), say("synthetic.split"), say("synthetic.attacks"))),
        Heading(text=say("page.what_this_report_never_says")),
        Items(items=tuple(say(f"never.{subject}") for subject in NEVER_SAYS)),
    )
