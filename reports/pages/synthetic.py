"""The pages on a synthetic table: its risks beside the control attack, how close records are, and what follows from neither."""

from audit.core.results import AuditReport
from audit.core.table_risks import SuccessRate, TableAudit, TableRisk
from reports.pages import blocks as page
from reports.pages.cover import identity
from reports.pages.reproduction import reproduce
from reports.words.language import confidence, count, near, percent, say, significant, target
from reports.words.phrases import join_words

NEVER_SAYS = ("law", "average")


def sections(report: AuditReport, table: TableAudit) -> tuple[page.Section, ...]:
    """All sections on a synthetic table but the glossary."""
    return (
        page.Section(title="", blocks=cover(report, table)),
        page.Section(title=say("synthetic.closest"), blocks=closeness(table)),
        page.Section(title=say("page.limits_of_this_report"), blocks=limits()),
        reproduce(report),
    )


def cover(report: AuditReport, table: TableAudit) -> tuple[page.Block, ...]:
    """The answer, what was audited, and a row each risk."""
    notes = tuple(page.Paragraph(text=note) for note in report.notes)
    return (verdict(table), *notes, identity(report), risks(table), page.Paragraph(text=say("synthetic.reading"), small=True))


def verdict(table: TableAudit) -> page.Verdict:
    """Return whether attacks find more of training records than of control records."""
    rows = table.beyond_chance
    names = list(dict.fromkeys(say(f"synthetic.{risk.risk}") for risk in rows))
    text = (
        say("synthetic.beyond", risks=join_words(names), some=count(len(rows)), of=count(len(table.risks)))
        if rows
        else say("synthetic.within", of=count(len(table.risks)))
    )
    test = say("synthetic.test", doubt=target(round(1 - table.confidence, 9)))
    return page.Verdict(
        question=say("synthetic.question"),
        word=say("answer.yes" if rows else "answer.not shown"),
        text=(text, test),
        tone=page.Tone.MEASURED if rows else page.Tone.PLAIN,
    )


def risks(table: TableAudit) -> page.Table:
    """Return a row each risk."""
    figures = ("training", "control", "guessing", "excess", "p", "chance")
    caption = say("synthetic.caption", confidence=confidence(table.confidence))
    columns = page.layout("synthetic.risk synthetic.attack:0.8 " + " ".join(f">synthetic.{name}" for name in figures))
    return page.small_table(caption, columns, map(_row, table.risks))


def _row(risk: TableRisk) -> tuple[page.Text, ...]:
    excess = percent(risk.excess)
    if risk.has_limits:
        excess += f" [{percent(risk.excess_lower, side='down')}, {percent(risk.excess_upper, side='up')}]"
    word = page.Mark(say("synthetic.above"), page.Tone.MEASURED) if risk.beyond_chance else say("synthetic.inside")
    rates = (_rate(risk.training), _rate(risk.control), percent(risk.baseline))
    return (say(f"synthetic.{risk.risk}"), page.Mono(risk.attack), *rates, excess, significant(risk.p_value), word)


def _rate(rate: SuccessRate) -> str:
    return f"{percent(rate.rate)} ({count(rate.successes)}/{count(rate.attacks)})"


def closeness(table: TableAudit) -> tuple[page.Block, ...]:
    """Return how close synthetic records are to real ones, after the sentence that this proves nothing."""
    figures = table.closeness
    return (
        page.Paragraph(text=say("synthetic.closest_proves_nothing")),
        page.Table(
            caption="",
            columns=(page.Column(title=""), *page.layout(">synthetic.training >synthetic.control")),
            rows=(
                (say("synthetic.copies"), percent(figures.training_copies), percent(figures.control_copies)),
                (say("synthetic.distance"), near(figures.training_distance, 3), near(figures.control_distance, 3)),
            ),
            small=True,
        ),
    )


def limits() -> tuple[page.Block, ...]:
    """Return what these attacks do not say."""
    return (
        page.Items(items=(say("synthetic.no_epsilon"), say("synthetic.split"), say("synthetic.attacks"))),
        page.Heading(text=say("page.what_this_report_never_says")),
        page.Items(items=tuple(say(f"never.{subject}") for subject in NEVER_SAYS)),
    )
