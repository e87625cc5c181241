"""The pages of each training: its claim, its budget, its games, and what all claims of a report rest on."""

import math

import numpy as np

from audit.core.claims import OUTSIDE, Certificate, Claim, Detectable
from audit.core.game import Inclusion
from audit.core.game_results import GameResult
from audit.core.results import AuditReport, Check, MechanismResult
from reports import answer, headline, outliers
from reports.figures import _evidence, _plots
from reports.formats import figures
from reports.outliers import tail
from reports.pages.blocks import Block, Formula, Heading, Missing, Paragraph, Section, Strong
from reports.pages.cover import picture
from reports.tables import game as game_tables
from reports.tables import leave_one_out
from reports.tables import report as tables
from reports.tables.secrets import guesses, secrets, triggers
from reports.words import named
from reports.words.language import at_delta, at_most, count, epsilon, many, percent, recorded, say, up
from reports.words.phrases import figure_block, join_words, list_names, or_missing, sentence


# Titles of the sections that each training and each game has.
def training_title(report: AuditReport, mechanism: MechanismResult) -> str:
    """Return the title of a training's section: its kind in this report, and its name."""
    kind = say({"model": "page.model", "scores": "page.scores"}.get(report.kind, "page.training"))
    return say("page.section_of", kind=kind, name=mechanism.name)


def game_title(mechanism: MechanismResult, game: GameResult) -> str:
    """Return the title of a game's section."""
    return f"{mechanism.name}: {game.name}"


MOST_APART = 3  # claimed trainings each of which has all its assumptions in its own table
NEAR_TOTAL = 0.9  # a claim that allows so large a share of the members at 0.1 % false positives rules out little


def shared_checks(report: AuditReport) -> tuple[Check, ...]:
    """Assumptions that are alike for every claim of a report of many trainings; they are printed once."""
    claimed = [mechanism for mechanism in report.mechanisms if mechanism.claims]
    if len(claimed) <= MOST_APART:
        return ()
    return tuple(check for check in claimed[0].checks if all(check in result.checks for result in claimed[1:]))


def shared_budgets(report: AuditReport) -> tuple[MechanismResult, ...]:
    """The trainings with budgets in one table: those of a report of many, if attacks watched no single steps."""
    if not shared_checks(report):
        return ()
    plain = [
        mechanism for mechanism in headline.by_gravity(report) if mechanism.trajectories and not mechanism.bound_trajectories
    ]
    lengths = {trajectory.steps[-1:] for mechanism in plain for trajectory in mechanism.trajectories}
    return tuple(plain) if len(lengths) == 1 else ()


def shared(report: AuditReport, common: tuple[Check, ...]) -> Section:
    """Return the section on what every claim of the report rests on."""
    names = list_names([mechanism.name for mechanism in headline.by_gravity(report) if mechanism.claims])
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
        claim = headline.tightest(mechanism)
        blocks += [] if claim is None else [Paragraph(text=(Strong(say("page.worth")), _allows(mechanism, claim)))]
    else:
        blocks.append(Paragraph(text=say("page.no_is_claimed_for_it")))
    blocks += _reading(mechanism)
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
    return (Section(title=training_title(report, mechanism), blocks=tuple(blocks)), *games)


def _reading(mechanism: MechanismResult) -> list[Block]:
    preflight = mechanism.preflight
    if preflight is None:
        return []
    texts = [sentence(recorded(text)) for text in (preflight.reading, preflight.figures) if text]
    return [Paragraph(text=(Strong(say("page.read_as")), say("separator.space").join(texts)))] if texts else []


def _definition(report: AuditReport, mechanism: MechanismResult) -> tuple[Block, ...]:
    """Return the sentence of what is claimed, with the formula if it represents the first time."""
    claim = mechanism.claims[0]
    first = next(result for result in answer.paged_trainings(report) if result.claims)
    key = "page.the_training_algorithm_m_is" if mechanism.name == first.name else "page.claimed_as_before"
    words = {"at_delta": at_delta(claim.delta), "unit": claim.unit, "adjacency": named.adjacency(claim.adjacency)}
    paragraph = Paragraph(text=say(key, **words))
    return (paragraph, Formula(name="dp")) if mechanism.name == first.name else (paragraph,)


def _allows(mechanism: MechanismResult, claim: Claim) -> str:
    """Return what the tightest claim leaves an attack, so that a large epsilon cannot look like much."""
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
    blocks += [*_bounds(game, mechanism.is_void), *simulation_blocks(game)]
    if game.game.choices > 1:
        blocks.append(guesses(game))
    else:
        blocks += _curves(report, mechanism, game)
    secret_table = secrets(game)
    blocks += [secret_table] if secret_table is not None else []
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
    images = figures.planned(report)
    curve = images[_plots.file_name("roc", mechanism.name, game.name)]
    drawing: Block = figure_block(curve)
    if curve.name == picture(report):
        drawing = Paragraph(text=say("page.the_roc_of_this_game"))
    rates = game_tables.rates(game, bool(mechanism.claims))
    return [
        drawing,
        *([rates] if rates.rows else []),
        figure_block(images[_plots.file_name("scores", mechanism.name, game.name)]),
    ]


def _records(game: GameResult) -> list[Block]:
    """Members of the one target that are outliers beyond chance, with the test; nothing if models say more."""
    result = outliers.target_outliers(game) if game.records else None
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


def _bounds(game: GameResult, void: bool) -> list[Block]:
    if game.bounds:
        return [game_tables.bounds(game, void)]
    if game.game.inclusion is Inclusion.SPLIT:
        return [Paragraph(text=say("no_epsilon")), game_tables.overall(game)]
    return [Missing(what=say("page.lower_bounds_on_no_estimator")), game_tables.overall(game)]


def simulation_blocks(game: GameResult) -> list[Block]:
    """Two paragraphs, or the remark that something was not simulated; nothing if no bound was asked for."""
    if game.game.inclusion is not Inclusion.COINS or not game.bounds:
        return []
    return [
        Paragraph(text=(Strong(say("simulated.what_it_would_have_caught")), _detectable(game.detectable)))
        if game.detectable
        else Missing(what=say("simulated.what_this_game_would_have")),
        Paragraph(text=(Strong(say("simulated.how_often_it_is_wrong")), _wrong(game.certificates)))
        if game.certificates
        else Missing(what=say("simulated.the_simulated_error_rate_of")),
    ]


def _detectable(detectables: tuple[Detectable, ...]) -> str:
    powers, draws = {detectable.power for detectable in detectables}, min(detectable.draws for detectable in detectables)
    chance = percent(min(powers), 0)
    parts = say("separator.clauses").join(_detectable_text(detectable) for detectable in detectables)
    error = math.ceil(200 * math.sqrt(min(powers) * (1 - min(powers)) / draws))  # two standard errors
    return say("simulated.with_probability_the_bounds_of", chance=chance, parts=parts, draws=draws, error=error)


def _detectable_text(detectable: Detectable) -> str:
    inside = say("inside.family", family=named.family(detectable.family)) if detectable.family else ""
    claimed = detectable.claim > 0
    over = say("simulated.against", at_most=at_most(detectable.claim)) if claimed else say("simulated.for_the_proof_of_any")
    key = "simulated.by_nothing_at_all" if math.isinf(detectable.epsilon) else "simulated.by"
    return say(key, up=up(detectable.epsilon), estimator=detectable.estimator, inside=inside, over=over)


def _wrong(certificates: tuple[Certificate, ...]) -> str:
    rates = []
    for certificate in certificates:
        counts = {"count": count(certificate.wrong), "count_2": count(certificate.repetitions)}
        limits = {"percent": percent(certificate.lower), "percent_2": percent(_tested_upper(certificate))}
        limits["searched"] = _search_limit(certificate)
        rates.append(say("simulated.of_simulated_audits_of_to", law=_law(certificate), **counts, **limits))
    several = len({certificate.nominal for certificate in certificates}) > 1
    nominals = [percent(certificate.nominal) for certificate in certificates]
    limit = join_words(nominals) if several else nominals[0]
    excess = "" if all(certificate.kept for certificate in certificates) else say("simulated.that_is_more_often_than")
    explanation = say("simulated.few_are_searched") if any(map(_search_limit, certificates)) else ""
    return sentence(say("simulated.the_largest_bound_of_this", rates=join_words(rates), limit=limit)) + explanation + excess


def _tested_upper(certificate: Certificate) -> float:
    """The upper limit by all audits, in each of which the truth was put to the tests (Clopper and Pearson 1934)."""
    low, high = 0.0, 1.0
    while high - low > 1e-6 and certificate.wrong < certificate.repetitions:
        rate = (low + high) / 2
        is_low = 1 - tail(certificate.wrong + 1, certificate.repetitions, rate) > OUTSIDE / 2
        low, high = (rate, high) if is_low else (low, rate)
    return min(certificate.upper, high)


def _search_limit(certificate: Certificate) -> str:
    """The upper limit by the few audits in which bounds were searched for, where it is another."""
    if certificate.upper <= _tested_upper(certificate) + 1e-3:
        return ""
    return say("simulated.to_by_searched", percent=percent(certificate.upper, 1))


def _law(certificate: Certificate) -> str:
    if certificate.epsilon == 0:
        return say("law.nothing")
    return say("law.with", law=recorded(certificate.law.split(",")[0]), epsilon=f"{certificate.epsilon:g}")
