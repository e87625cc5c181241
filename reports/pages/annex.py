"""The annex: what each requirement asks to be shown, whether this report shows it, and in which section and field.

It is filled from the report's own data. It is no legal advice: it maps evidence to texts, and says what stays with the
controller.
"""

import importlib.resources
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from audit.core.game_results import GameResult
from audit.core.provenance import Engagement
from audit.core.results import AuditReport, MechanismResult, Status
from reports import headline
from reports.pages.blocks import Mark, Mono, Paragraph, Section, Text, Tone, layout, small_table
from reports.pages.training import game_title, training_title
from reports.words.language import recorded, say


class Presence(StrEnum):
    """How far a report meets a requirement."""

    SHOWN = "shown"
    PARTLY = "partly"
    NOT_SHOWN = "not shown"
    ELSEWHERE = "not for this tool"


TONES = {Presence.SHOWN: Tone.GOOD, Presence.PARTLY: Tone.OPEN, Presence.NOT_SHOWN: Tone.BAD, Presence.ELSEWHERE: Tone.PLAIN}


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One requirement of a text.

    Attributes:
        number: R1 to R26.
        source: texts with their sections.
        section, field: where the report shows it, the section by the key of its title; "" if it does not.
        judge: how far a report shows it.
    """

    number: str
    source: str
    section: str
    field: str
    judge: Callable[[AuditReport], Presence]


def annex(report: AuditReport, pages: Mapping[str, int] | None = None) -> Section:
    """The mapping as its own section; `pages`: those of report.pdf on which sections begin, by title."""
    rows: list[tuple[Text, ...]] = []
    for requirement in REQUIREMENTS:
        state = requirement.judge(report)
        place = requirement.section if state in (Presence.SHOWN, Presence.PARTLY) else ""
        cell: Text = (_place(report, place, pages or {}), Mono(requirement.field)) if place else say("word.none")
        rows.append(
            (
                requirement.number,
                say(f"annex.{requirement.number}"),
                recorded(requirement.source),
                cell,
                Mark(say(f"annex.{state.value.replace(' ', '_')}"), TONES[state]),
            )
        )
    caption = say("annex.caption")
    columns = layout("annex.number annex.requirement:1.5 annex.source:1.2 annex.place:1.3 annex.status:0.7")
    table = small_table(caption, columns, rows)
    return Section(title=say("annex"), blocks=(Paragraph(text=say("annex.law")), table))


def _place(report: AuditReport, key: str, pages: Mapping[str, int]) -> str:
    """A section by its key, with its page if that is known; a file represents itself."""
    if key.endswith(".yaml"):
        return say("annex.cell", section=key)
    section, page = say(key), _page(report, key, pages)
    return say("annex.cell", section=section) if page is None else say("annex.cell_page", section=section, page=page)


def _page(report: AuditReport, key: str, pages: Mapping[str, int]) -> int | None:
    """The page of a section; of those that each training or each game has, the first."""
    if key == FIRST_PAGE:
        return 1 if pages else None
    if key == GAME:
        titles = [game_title(mechanism, game) for mechanism in report.mechanisms for game in mechanism.games]
    elif key == TRAINING:
        titles = [training_title(report, mechanism) for mechanism in report.mechanisms]
    else:
        titles = [say(key)]
    return min((pages[title] for title in titles if title in pages), default=None)


def _engagement(report: AuditReport) -> Engagement:
    return report.engagement or Engagement()


def _if(
    condition: Callable[[AuditReport], bool], otherwise: Presence = Presence.NOT_SHOWN
) -> Callable[[AuditReport], Presence]:
    return lambda report: Presence.SHOWN if condition(report) else otherwise


def _check(code: str) -> Callable[[AuditReport], Presence]:
    """Shown if a check of that code passed, partly if it was declared or is a gap, else not shown."""

    def presence(report: AuditReport) -> Presence:
        checks = (check for mechanism in report.mechanisms for check in mechanism.checks)
        statuses = [check.status for check in checks if check.code.startswith(code)]
        if not statuses:
            return Presence.NOT_SHOWN
        return Presence.SHOWN if all(status is Status.CHECKED for status in statuses) else Presence.PARTLY

    return presence


def _several_accountants(report: AuditReport) -> Presence:
    counts = [len(mechanism.claims) for mechanism in report.mechanisms if mechanism.claims]
    return Presence.NOT_SHOWN if not counts else Presence.SHOWN if min(counts) > 1 else Presence.PARTLY


def _coverage(report: AuditReport) -> Presence:
    if not report.coverage:
        return Presence.NOT_SHOWN
    return Presence.SHOWN if all(row.status in ("run", "not applicable") for row in report.coverage) else Presence.PARTLY


def _threat(report: AuditReport) -> Presence:
    if not report.games:
        return Presence.NOT_SHOWN
    return Presence.SHOWN if _engagement(report).release_context else Presence.PARTLY


def _utility(report: AuditReport) -> Presence:
    has_claims = [bool(mechanism.claims) for mechanism in report.mechanisms if mechanism.utility]
    return Presence.NOT_SHOWN if not has_claims else Presence.SHOWN if {True, False} <= set(has_claims) else Presence.PARTLY


def _worst(report: AuditReport) -> Presence:
    games = report.games
    records = any(game.records or (game.evaluation and game.evaluation.records) for game in games)
    groups = any(game.groups for game in games)
    return Presence.SHOWN if records and groups else Presence.PARTLY if records or groups else Presence.NOT_SHOWN


def _valid(report: AuditReport) -> Presence:
    engagement = _engagement(report)
    if not engagement.valid_until:
        return Presence.NOT_SHOWN
    return Presence.SHOWN if engagement.next_audit else Presence.PARTLY


GAME, FIRST_PAGE, TRAINING = "annex.section_game", "annex.first_page", "page.training"


def _any_game(condition: Callable[[GameResult], object]) -> Callable[[AuditReport], bool]:
    return lambda report: any(map(condition, report.games))


def _any_training(condition: Callable[[MechanismResult], object]) -> Callable[[AuditReport], bool]:
    return lambda report: any(map(condition, report.mechanisms))


# how far a report shows each requirement, in the order of annex.json
JUDGES = (
    *(_check("unit"), _check("adjacency"), _if(_any_training(lambda training: training.mechanism and training.claims))),
    *(_if(_any_training(lambda training: training.claims)), _if(_any_training(headline.tightest))),
    *(_check("unaccounted"), _check("release"), _several_accountants, _threat, _check("floating-point")),
    *(_if(lambda report: bool(report.ledger)), _if(_any_game(lambda game: game.bounds)), _coverage),
    *(_if(_any_game(lambda game: game.detectable), Presence.PARTLY), _threat),
    *(_if(lambda report: bool(_engagement(report).auditor), Presence.PARTLY), _worst, _if(_any_game(lambda game: game.groups))),
    *(_utility, lambda report: Presence.PARTLY if report.games else Presence.NOT_SHOWN),
    lambda _: Presence.PARTLY,  # lines for names and dates are printed; whether a user signs them, no report can know
    *(_if(lambda report: bool(report.provenance.packages)), lambda _: Presence.ELSEWHERE, _valid),
    *(lambda _: Presence.SHOWN, lambda _: Presence.SHOWN),
)


# what compliance texts ask of such a report; their articles are named, their words are not quoted
REQUIREMENTS = tuple(
    Requirement(number=number, source=source, section=section, field=field, judge=judge)
    for (number, source, section, field), judge in zip(
        json.loads((importlib.resources.files("reports.pages") / "annex.json").read_text("utf-8")), JUDGES, strict=True
    )
)
