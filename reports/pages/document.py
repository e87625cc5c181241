"""The pages of a report in their order: `AuditReport` in, `Section` values out. What is absent is printed as missing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from audit.core.game import Inclusion
from audit.core.game_results import GameResult
from audit.core.results import AuditReport, Check, MechanismResult, Status
from reports import headline, outliers
from reports.figures import _evidence, _ledger, _plots
from reports.formats import figures
from reports.pages import simulation, terms
from reports.pages.blocks import (
    Block,
    Column,
    Contents,
    Formula,
    Heading,
    Items,
    Missing,
    Mono,
    Paragraph,
    Section,
    Signature,
    Strong,
    Table,
    Text,
)
from reports.pages.cover import cover, identity, picture, unprotected_blocks
from reports.pages.titles import game_title, training_title
from reports.tables import game as game_tables
from reports.tables import leave_one_out
from reports.tables import report as tables
from reports.tables.guesses import guesses
from reports.tables.settings import settings
from reports.tables.triggers import triggers
from reports.words import named
from reports.words.language import many, say
from reports.words.numbers import SPACE, at_delta, confidence, count, epsilon, percent, up
from reports.words.phrases import figure_block, join_words, or_missing, sentence

MOST_NAMES = 8
MOST_APART = 3  # claimed trainings each of which has all its assumptions in a table of its own
SIGNATURES = ("carried_out", "reviewed", "released")
LIMITATIONS = ("game", "unit", "delta", "machine")
NEVER_SAYS = ("claim", "law", "attacks", "average")
NEAR_TOTAL = 0.9  # a claim that allows so large a share of the members at 0.1 % false positives rules out little


def sections(report: AuditReport) -> tuple[Section, ...]:
    """All sections of the report, the cover first, trainings with a claim before those without."""
    trainings = [block for mechanism in headline.by_gravity(report) for block in of_mechanism(report, mechanism)]
    common = shared_checks(report)
    coverage = or_missing(report.coverage, lambda: (tables.coverage(report),), say("page.which_classes_of_attack_were"))
    pages = (
        Section(title="", blocks=cover(report)),
        Section(title="", blocks=(Contents(title=say("contents")),)),
        summary(report),
        Section(title=say("attack_classes"), blocks=coverage, level=2),
        *((shared(report, common),) if common else ()),
        *trainings,
        *ledger(report),
        utility(report),
        limitations(report),
        reproduce(report),
    )
    return (*pages, terms.section(pages))


def summary(report: AuditReport) -> Section:
    """Return what was claimed, tried, found and left out, without a formula."""
    games = [game for mechanism in report.mechanisms for game in mechanism.games]
    attacks = sorted({attack.scorer for game in games for attack in game.attacks})
    has_claims = any(mechanism.claims for mechanism in report.mechanisms)
    models = sum(mechanism.models for mechanism in report.mechanisms)
    left_out = [row.attack_class.lower() for row in report.coverage if row.status == "not run"]
    model_count = say("page.on_in_all", many=many("noun.trained_model", models)) if report.kind == "run" and models else ""
    points: list[Text] = [
        (Strong(say("page.claimed")), _claim_sentence(report)),
        (
            Strong(say("page.tried")),
            say(
                "page.in",
                many=many("noun.attack", len(attacks)),
                examples=_examples(attacks),
                many_2=many("noun.game", len(games)),
                model_count=model_count,
            ),
        ),
        (Strong(say("page.error_rate")), _error_rate(report)),
        (
            Strong(say("page.not_tried")),
            sentence(say("separator.clauses").join(left_out)) if left_out else say("page.nothing_is_listed_as_left"),
        ),
    ]
    blocks: list[Block] = [
        Paragraph(text=say("read.claims") if has_claims else say("read.attacks")),
        Items(items=tuple(points)),
    ]
    if not attacks:
        blocks.append(Missing(what=say("page.attacks_none_was_run")))
    elif any(True for mechanism in report.mechanisms for _ in headline.game_bounds(mechanism)):
        blocks.append(tables.overview(report))
    head = headline.headline(report)
    blocks += unprotected_blocks(report, head) if head is not None else ()
    blocks += [
        Heading(text=say("page.what_was_audited")),
        identity(report),
        Signature(roles=tuple(say(f"signature.{role}") for role in SIGNATURES)),
    ]
    blocks += [Heading(text=say("page.release_policy")), tables.policy(report)] if report.policy else []
    return Section(title=say("page.in_plain_words"), blocks=tuple(blocks))


def _examples(names: Sequence[str]) -> str:
    """All names of a short list, the first of a long one."""
    return (
        join_words(names)
        if len(names) <= MOST_NAMES
        else join_words([*names[: MOST_NAMES - 1], say("page.more", len=len(names) - MOST_NAMES + 1)])
    )


def _claim_sentence(report: AuditReport) -> str:
    """For whom an epsilon is claimed, and how the claims fared."""
    names = [mechanism.name for mechanism in report.mechanisms if mechanism.claims]
    if not names:
        return say("page.no_was_claimed")
    outcomes = [verdict.outcome for mechanism in report.mechanisms for verdict in mechanism.verdicts]
    tally = [f"{outcomes.count(outcome)} {named.outcome_word(outcome)}" for outcome in headline.GRAVEST if outcome in outcomes]
    total = say("page.outcome_of_the_claims", len=len(outcomes), join_words=join_words(tally)) if len(outcomes) > 1 else ""
    return say("page.an_is_claimed_for", join_words=join_words(names), total=total)


def _error_rate(report: AuditReport) -> str:
    if not any(True for mechanism in report.mechanisms for _ in headline.game_bounds(mechanism)):
        return say("page.no_was_proven_so_no")
    several = report.comparisons > 1
    together = (
        say("page.the_bounds_of_this_report", comparisons=report.comparisons)
        if several
        else say("page.the_bound_of_this_report")
    )
    correction = say("page.the_doubt_was_divided_among") if several else say("separator.end")
    return say("page.with_confidence", together=together, confidence=confidence(report.confidence), correction=correction)


def shared_checks(report: AuditReport) -> tuple[Check, ...]:
    """Assumptions that stand alike for every claim of a report of many trainings; they are printed once."""
    claimed = [mechanism for mechanism in report.mechanisms if mechanism.claims]
    if len(claimed) <= MOST_APART:
        return ()
    return tuple(check for check in claimed[0].checks if all(check in result.checks for result in claimed[1:]))


def shared_budgets(report: AuditReport) -> tuple[MechanismResult, ...]:
    """The trainings whose budgets stand in one table: those of a report of many, where attacks watched no single steps."""
    if not shared_checks(report):
        return ()
    plain = [
        mechanism for mechanism in headline.by_gravity(report) if mechanism.trajectories and not mechanism.bound_trajectories
    ]
    lengths = {trajectory.steps[-1:] for mechanism in plain for trajectory in mechanism.trajectories}
    return tuple(plain) if len(lengths) == 1 else ()


def shared(report: AuditReport, common: tuple[Check, ...]) -> Section:
    """Return the section on what every claim of the report rests on."""
    names = join_words([mechanism.name for mechanism in headline.by_gravity(report) if mechanism.claims])
    budgets = shared_budgets(report)
    blocks = (
        Paragraph(text=say("page.shared_by", names=names)),
        tables.checks(common, has_claims=True),
        *((tables.budgets(budgets),) if budgets else ()),
    )
    return Section(title=say("page.shared"), blocks=blocks)


def of_mechanism(report: AuditReport, mechanism: MechanismResult) -> tuple[Section, ...]:
    """The claim, the budget and every game of one training."""
    images = figures.planned(report)
    blocks: list[Block] = []
    if mechanism.claims:
        blocks += [*_definition(report, mechanism), tables.claims(mechanism)]
        blocks += [Paragraph(text=text) for text in (_allows(mechanism),) if text]
    else:
        blocks.append(Paragraph(text=say("page.no_is_claimed_for_it")))
    blocks.append(tables.mechanism_table(mechanism) or Missing(what=say("page.how_the_model_was_trained")))
    subject = say("page.checks_of_what_was_run") if mechanism.claims else say("page.checks_of_what_was_run_2")
    common = shared_checks(report) if mechanism.claims else ()
    own = tuple(check for check in mechanism.checks if check not in common)
    blocks += or_missing(own or common, lambda: (tables.checks(own, bool(mechanism.claims)),) if own else (), subject)
    if mechanism.trajectories and mechanism not in shared_budgets(report):
        blocks += [figure_block(images[_plots.file_name("budget", mechanism.name)]), tables.budget(mechanism)]
    elif mechanism.claims and not mechanism.trajectories:
        blocks.append(Missing(what=say("page.over_training_steps_no_accountant")))
    access = images.get(_plots.file_name("access", mechanism.name))
    blocks += [figure_block(access)] if access else []
    games = tuple(_game(report, mechanism, game) for game in mechanism.games)
    return (
        Section(title=training_title(report, mechanism), blocks=tuple(blocks)),
        *games,
    )


def _definition(report: AuditReport, mechanism: MechanismResult) -> tuple[Block, ...]:
    """Return the sentence of what is claimed, with the formula where it stands for the first time."""
    claim = mechanism.claims[0]
    first = next(result for result in headline.by_gravity(report) if result.claims)
    key = "page.the_training_algorithm_m_is" if mechanism is first else "page.claimed_as_before"
    words = {"at_delta": at_delta(claim.delta), "unit": claim.unit, "adjacency": named.adjacency(claim.adjacency)}
    paragraph = Paragraph(text=say(key, **words))
    return (paragraph, Formula(name="dp")) if mechanism is first else (paragraph,)


def _allows(mechanism: MechanismResult) -> str:
    """Return what the tightest claim leaves an attack, so that a large epsilon cannot look like much."""
    claim = headline.tightest(mechanism)
    if claim is None:
        return ""
    low, high = (headline.allowed_tpr(fpr, claim.epsilon, claim.delta) for fpr in (0.001, 0.01))
    if low > NEAR_TOTAL:
        sentence = say("page.by_itself_it_rules_out", percent=percent(low, side="down"), epsilon=epsilon(up(claim.epsilon)))
    else:
        sentence = say(
            "page.by_itself_lets_an_attack",
            epsilon=epsilon(up(claim.epsilon)),
            percent=percent(low, side="up"),
            percent_2=percent(high, side="up"),
        )
    if mechanism.limit is None:
        return say("page.what_the_claim_is_worth", sentence=sentence)
    low, high = (float(np.interp(fpr, mechanism.limit.fpr, mechanism.limit.tpr)) for fpr in (0.001, 0.01))
    return say("page.what_the_claim_is_worth_2", sentence=sentence, percent=percent(low), percent_2=percent(high))


def _game(report: AuditReport, mechanism: MechanismResult, game: GameResult) -> Section:
    title = game_title(mechanism, game)
    blocks: list[Block] = [Paragraph(text=(Strong(say("page.the_game")), named.game(game.game)))]
    blocks += [Paragraph(text=(Strong(say("page.note")), sentence(game.note)))] if game.note else []
    if not game.attacks:
        return Section(title=title, blocks=(*blocks, Missing(what=say("page.attacks_in_this_game_none"))), level=2)
    images = figures.planned(report)
    if game.watched is not None:
        blocks += _evidence.blocks(game.watched, images.get(_evidence.name(mechanism, game)))
    blocks += [*_bounds(game), *simulation.blocks(game)]
    if game.game.choices > 1:
        blocks.append(guesses(game))
    else:
        blocks += _curves(report, mechanism, game)
    blocks += [triggers(game.trigger)] if game.trigger is not None else []
    control = game_tables.control(game)
    if control is not None:
        blocks.append(control)
    elif game.game.inclusion is Inclusion.COINS:
        blocks.append(Missing(what=say("page.the_negative_control_of_this")))
    estimates = game_tables.estimates(game)
    blocks += [estimates] if estimates else []
    blocks += _records(game)
    blocks += leave_one_out.blocks(game)
    if game.groups:
        blocks += [Heading(text=say("page.groups")), game_tables.groups(game)]
    return Section(title=title, blocks=tuple(blocks), level=2)


def _curves(report: AuditReport, mechanism: MechanismResult, game: GameResult) -> list[Block]:
    """The ROC, rates and scores of a game whose canaries are in or out."""
    images = figures.planned(report)
    curve = images[_plots.file_name("roc", mechanism.name, game.name)]
    drawing: Block = figure_block(curve)
    if curve.name == picture(report):
        drawing = Paragraph(text=say("page.the_roc_of_this_game"))
    rates = game_tables.rates(game, bool(mechanism.claims))
    return [drawing, rates, figure_block(images[_plots.file_name("scores", mechanism.name, game.name)])]


def _records(game: GameResult) -> list[Block]:
    """Members of the one target that stand out more than chance allows, with the test; nothing where models say more."""
    result = outliers.of_target(game) if game.records else None
    if result is None or (game.evaluation is not None and game.evaluation.records):
        return []
    test = say(
        "page.the_rank_of_each_of",
        count=count(result.tested),
        count_2=count(result.nonmembers),
        percent=percent(outliers.SIGNIFICANCE, 0),
    )
    head = Heading(text=say("page.records_that_stand_out"))
    if not result.records:
        return [head, Paragraph(text=say("page.no_member_stands_out_more", test=test))]
    return [
        head,
        Paragraph(
            text=say(
                "page.stand_out_more_than_chance",
                many=many("noun.member", len(result.records)),
                test=test,
                internal=say("internal.table"),
            )
        ),
        game_tables.records(result),
    ]


def _bounds(game: GameResult) -> list[Block]:
    if game.bounds:
        return [game_tables.bounds(game)]
    if game.game.inclusion is Inclusion.SPLIT:
        return [Paragraph(text=say("no_epsilon")), game_tables.overall(game)]
    return [Missing(what=say("page.lower_bounds_on_no_estimator")), game_tables.overall(game)]


def ledger(report: AuditReport) -> tuple[Section, ...]:
    """The budget of the data over all releases; none where no ledger was given."""
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
    own: list[Text] = []
    for mechanism in headline.by_gravity(report):
        for check in mechanism.checks:
            if check.status in (Status.GAP, Status.FAILED):
                own.append(_limit(mechanism, check))
        sizes = sorted({game.attacks[0].roc.nonmembers for game in mechanism.games if game.attacks})
        if sizes:
            text = say("page.no_false_positive_rate_below", count=count(sizes[-1]))
            own.append((Strong(f"{mechanism.name}{say('separator.sentences')}"), text))
    left_out = [
        say("page.attack_with_status", attack=row.attack_class.lower(), status=named.coverage_word(row.status))
        for row in report.coverage
        if row.status not in ("run", "not applicable")
    ]
    own += (
        [(Strong(say("page.attacks")), say("page.nothing_is_said_about", join=say("separator.clauses").join(left_out)))]
        if left_out
        else []
    )
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


def _limit(mechanism: MechanismResult, check: Check) -> Text:
    """An assumption that does not stand, as a limit."""
    status = named.status_mark(check.status).text
    return (
        Strong(f"{mechanism.name}{say('separator.sentences')}"),
        say("page.assumption", item=check.item, value=check.value, status=status),
    )


def reproduce(report: AuditReport) -> Section:
    """Return how to get the same report again and how to check this copy."""
    provenance = report.provenance
    packages = ", ".join(f"{name}{SPACE}{version}" for name, version in sorted(provenance.packages))
    rows: list[tuple[Text, ...]] = [
        (say("page.command"), Mono(provenance.command)),
        *([(say("page.seed"), str(provenance.seed))] if provenance.seed is not None else []),
        (
            say("page.code"),
            say("code.commit", version=provenance.version, commit=provenance.code_commit)
            if provenance.code_commit
            else say("code.no_commit", version=provenance.version),
        ),
        *([(say("page.configuration_sha256"), Mono(provenance.config_sha256))] if provenance.config_sha256 else []),
        *([(say("page.data_sha256"), Mono(report.data.sha256))] if report.data is not None and report.data.sha256 else []),
        ("Python", provenance.python),
        (say("page.packages"), packages),
        (
            say("page.machine"),
            say(
                "page.device",
                platform=provenance.platform,
                device=provenance.device,
                many=many("noun.thread", provenance.threads),
            )
            if provenance.device
            else provenance.platform,
        ),
        (say("cover.report"), say("page.schema", id=report.id, schema=report.schema)),
        (
            say("page.check_this_copy"),
            (Mono("audit verify report.pdf"), say("page.takes_report_json_out_of")),
        ),
    ]
    columns = (Column(title=say("page.item"), share=0.24), Column(title=say("page.value"), share=0.76))
    blocks: list[Block] = [Table(caption="", columns=columns, rows=tuple(rows))]
    given_settings = settings(report)
    blocks += [Heading(text=say("page.configuration"))] if given_settings is not None or report.config else []
    blocks += _origins(report) if report.config else []
    blocks += [given_settings] if given_settings is not None else []
    return Section(title=say("page.how_to_reproduce_and_verify"), blocks=tuple(blocks))


def _origins(report: AuditReport) -> list[Block]:
    """Return where the settings came from: the file in a sentence, whatever overrode it in a table."""
    sources = [source for _, source in report.origins if source != "default"]
    if not sources:
        return []
    main = max(sorted(set(sources)), key=sources.count)
    blocks: list[Block] = [
        Paragraph(text=(say("page.settings_are_those_of"), Mono(main), say("page.and_where_it_says_nothing")))
    ]
    over = tuple((Mono(key), source) for key, source in report.origins if source not in ("default", main))
    if over:
        titles = (Column(title=say("page.setting"), share=0.5), Column(title=say("page.origin"), share=0.5))
        blocks.append(Table(caption=say("page.settings_from_elsewhere"), columns=titles, rows=over, small=True))
    return blocks
