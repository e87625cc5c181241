"""The pages of a report in their order: `AuditReport` in, `Section` values out. What is absent is printed as missing."""

import dataclasses
import re
from collections.abc import Iterator, Sequence

from audit.core.results import AuditReport, Check, Status
from reports import answer, headline, parties
from reports.figures import _ledger, _parties
from reports.formats import figures
from reports.pages import costs, synthetic, training
from reports.pages.blocks import Block, Contents, Heading, Items, Missing, Paragraph, Section, Signature, Strong, Terms, Text
from reports.pages.cover import cover, identity, picture, unprotected_blocks
from reports.pages.reproduction import reproduce
from reports.tables import report as tables
from reports.tables.report import parties as table
from reports.words import named
from reports.words.language import confidence, count, many, say
from reports.words.phrases import figure_block, join_words, list_names, or_missing, sentence
from reports.words.report_cache import in_own_decimals

# The page on who can learn what: every party of every training that is not the same to all, in one table and one figure.
RULES = ("central", "sum", "dropout", "final", "unit")


def section(report: AuditReport) -> tuple[Section, ...]:
    """Return the page; nothing if no training is seen by several parties."""
    results = parties.of_report(report)
    if not results:
        return ()
    on_cover = picture(report) == _parties.NAME
    blocks = (
        Paragraph(text=say("party.lead")),
        *(() if on_cover else (figure_block(figures.planned(report)[_parties.NAME]),)),
        table(results, report.delta),
        Items(items=tuple(say(f"party.{rule}") for rule in RULES)),
    )
    return (Section(title=say("party.title"), blocks=blocks),)


MOST_ATTACKS = 8
SIGNATURES = ("carried_out", "reviewed", "released")
LIMITATIONS = ("game", "unit", "delta", "machine")
NEVER_SAYS = ("claim", "law", "attacks", "average")


@in_own_decimals
def sections(report: AuditReport) -> tuple[Section, ...]:
    """All sections of the report, the cover first, trainings with a claim before those without."""
    if report.table is not None:
        pages = synthetic.sections(report, report.table)
        return (*pages, glossary(pages))
    trainings = [block for mechanism in answer.paged_trainings(report) for block in training.of_mechanism(report, mechanism)]
    common = training.shared_checks(report)
    coverage = or_missing(report.coverage, lambda: (tables.coverage(report),), say("page.which_classes_of_attack_were"))
    pages = (
        Section(title="", blocks=cover(report)),
        *section(report),
        Section(title="", blocks=(Contents(title=say("contents")),)),
        summary(report),
        Section(title=say("attack_classes"), blocks=coverage, level=2),
        *((training.shared(report, common),) if common else ()),
        *trainings,
        *costs.section(report),
        *ledger(report),
        utility(report),
        limitations(report),
        reproduce(report),
    )
    return (*pages, glossary(pages))


def summary(report: AuditReport) -> Section:
    """Return what was claimed, tried, found and left out, without a formula."""
    games = report.games
    attacks = sorted({attack.scorer for game in games for attack in game.attacks})
    units = {claim.unit for mechanism in report.mechanisms for claim in mechanism.claims}
    meaning = "read.claims_clients" if units == {"client"} else "read.claims" if units else "read.attacks"
    models = sum(mechanism.models for mechanism in report.mechanisms)
    left_out = [row.attack_class.lower() for row in report.coverage if row.status == "not run"]
    model_count = say("page.on_in_all", many=many("noun.trained_model", models)) if report.kind == "run" and models else ""
    examples = say("page.examples", examples=list_names(attacks, MOST_ATTACKS)) if attacks else ""
    numbers = {"many": many("noun.attack", len(attacks)), "many_2": many("noun.game", len(games)), "model_count": model_count}
    rest = sentence(say("separator.clauses").join(left_out)) if left_out else say("page.nothing_is_listed_as_left")
    points: list[Text] = [
        (Strong(say("page.claimed")), _claim_sentence(report)),
        (Strong(say("page.tried")), say("page.in", examples=examples, **numbers)),
        (Strong(say("page.error_rate")), _error_rate(report)),
        (Strong(say("page.not_tried")), rest),
    ]
    blocks: list[Block] = [Paragraph(text=say(meaning)), Items(items=tuple(points))]
    if not attacks:
        blocks.append(Missing(what=say("page.attacks_none_was_run")))
    elif any(game.bounds for game in games):
        blocks.append(tables.overview(report))
    blocks += _gravest_only(report)
    head = headline.headline(report)
    blocks += unprotected_blocks(report, head) if head is not None else ()
    blocks += [
        Heading(text=say("page.what_was_audited")),
        identity(report),
        Signature(roles=tuple(say(f"signature.{role}") for role in SIGNATURES)),
    ]
    blocks += [Heading(text=say("page.release_policy")), tables.policy(report)] if report.policy else []
    return Section(title=say("page.in_plain_words"), blocks=tuple(blocks))


def _gravest_only(report: AuditReport) -> tuple[Block, ...]:
    trainings = answer.paged_trainings(report)
    games, all_games = (sum(len(training.games) for training in part) for part in (trainings, report.mechanisms))
    if (len(trainings), games) == (len(report.mechanisms), all_games):
        return ()
    numbers = {"trainings": len(trainings), "all": len(report.mechanisms), "games": games, "all_games": all_games}
    return (Paragraph(text=say("page.gravest", **{key: count(number) for key, number in numbers.items()})),)


def _claim_sentence(report: AuditReport) -> str:
    names = [mechanism.name for mechanism in report.mechanisms if mechanism.claims]
    if not names:
        return say("page.no_was_claimed")
    outcomes = [verdict.outcome for mechanism in report.mechanisms for verdict in mechanism.verdicts]
    tally = [f"{outcomes.count(outcome)} {named.outcome_word(outcome)}" for outcome in headline.GRAVEST if outcome in outcomes]
    total = say("page.outcome_of_the_claims", len=len(outcomes), join_words=join_words(tally)) if len(outcomes) > 1 else ""
    return say("page.an_is_claimed_for", join_words=list_names(names), total=total)


def _error_rate(report: AuditReport) -> str:
    if not any(game.bounds for game in report.games):
        return say("page.no_was_proven_so_no")
    several = report.comparisons > 1
    key = "page.the_bounds_of_this_report" if several else "page.the_bound_of_this_report"
    together = say(key, comparisons=report.comparisons)
    correction = say("page.the_doubt_was_divided_among") if several else say("separator.end")
    text = say("page.with_confidence", together=together, confidence=confidence(report.confidence), correction=correction)
    void = [mechanism.name for mechanism in report.mechanisms if mechanism.is_void]
    return text + (say("page.bounds_are_void", names=list_names(void)) if void else "")


def ledger(report: AuditReport) -> tuple[Section, ...]:
    """The budget of the data over all releases; none if no ledger was given."""
    if report.ledger is None:
        return ()
    drawing = figures.planned(report)[_ledger.NAME]
    return (Section(title=say("page.budget_of_these_data"), blocks=_ledger.blocks(report.ledger, drawing)),)


def utility(report: AuditReport) -> Section:
    """Return what the trainings are good for."""
    drawing = figures.planned(report).get("utility")
    blocks = or_missing(
        drawing,
        lambda: (figure_block(drawing), tables.utility(report)) if drawing else (),
        say("page.utility_it_was_not_measured"),
    )
    return Section(title=say("page.utility"), blocks=blocks)


def limitations(report: AuditReport) -> Section:
    """The fixed limits, those of this audit, and what the report never says."""
    own: list[Text] = [
        (Strong(f"{list_names(names)}{say('separator.sentences')}"), text) for text, names in _own_limits(report).items()
    ]
    left_out = say("separator.clauses").join(
        say("page.attack_with_status", attack=row.attack_class.lower(), status=named.coverage_word(row.status))
        for row in report.coverage
        if row.status not in ("run", "not applicable")
    )
    if left_out:
        own.append((Strong(say("page.attacks")), say("page.nothing_is_said_about", join=left_out)))
    return Section(
        title=say("page.limits_of_this_report"),
        blocks=(
            Items(items=tuple(say(f"limits.{limit}") for limit in LIMITATIONS)),
            Heading(text=say("page.of_this_audit")),
            *or_missing(own, lambda: (Items(items=tuple(own)),), say("page.limits_of_this_audit_none")),
            Heading(text=say("page.what_this_report_never_says")),
            Items(items=tuple(say(f"never.{subject}") for subject in NEVER_SAYS)),
        ),
    )


def _own_limits(report: AuditReport) -> dict[str, list[str]]:
    """Return each limit with the names of the trainings that it holds for."""
    limits: dict[str, list[str]] = {}
    for mechanism in headline.by_gravity(report):
        texts = [_limit(check) for check in mechanism.checks if check.status in (Status.GAP, Status.FAILED)]
        sizes = [game.attacks[0].roc.nonmembers for game in mechanism.games if game.attacks]
        texts += [say("page.no_false_positive_rate_below", count=count(max(sizes)))] if sizes else []
        for text in texts:
            limits.setdefault(text, []).append(mechanism.name)
    return limits


def _limit(check: Check) -> str:
    return say("page.assumption", item=check.item, value=check.value, status=named.status_mark(check.status).text)


def glossary(pages: Sequence[Section]) -> Section:
    """The terms used in `pages` with their meanings."""
    words = " ".join(text for page in pages for block in page.blocks for text in texts(block))
    keys = [key for key in named.TERMS if re.search(say(f"uses.{key}"), words, re.IGNORECASE)]
    items = tuple((say(f"term.{key}"), say(f"meaning.{key}")) for key in keys)
    return Section(title=say("terms"), blocks=(Terms(items=items),))


def texts(value: object) -> Iterator[str]:
    """Every text inside a block."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for inner in value:
            yield from texts(inner)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from texts(getattr(value, field.name))
