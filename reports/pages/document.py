"""The pages of a report in their order: `AuditReport` in, `Section` values out. What is absent is printed as missing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from audit.core.game import Inclusion
from audit.core.game_results import GameResult
from audit.core.results import AuditReport, MechanismResult, Status
from audit.core.rounding import SPACE, at_delta, confidence, count, epsilon, percent, plural, up
from reports import headline, outliers
from reports.figures import _plots, evidence
from reports.figures import ledger as ledger_figure
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
from reports.tables import game as game_tables
from reports.tables import leave_one_out
from reports.tables import report as tables
from reports.tables.settings import settings
from reports.words import en
from reports.words.language import say
from reports.words.phrases import figure_block, join_words, or_missing, sentence

MOST_NAMES = 8
NEAR_TOTAL = 0.9  # a claim that allows so large a share of the members at 0.1 % false positives rules out little


def sections(report: AuditReport) -> tuple[Section, ...]:
    """All sections of the report, the cover first, trainings with a claim before those without."""
    trainings = [block for mechanism in headline.by_gravity(report) for block in of_mechanism(report, mechanism)]
    coverage = or_missing(report.coverage, lambda: (tables.coverage(report),), "which classes of attack were run")
    pages = (
        Section(title="", blocks=cover(report)),
        Section(title="", blocks=(Contents(title=say("contents")),)),
        summary(report),
        Section(title=say("attack_classes"), blocks=coverage, level=2),
        *trainings,
        *ledger(report),
        utility(report),
        limitations(report),
        reproduce(report),
    )
    return (*pages, terms.section(pages))


def summary(report: AuditReport) -> Section:
    """What was claimed, tried, found and left out, without a formula."""
    games = [game for mechanism in report.mechanisms for game in mechanism.games]
    attacks = sorted({attack.scorer for game in games for attack in game.attacks})
    has_claims = any(mechanism.claims for mechanism in report.mechanisms)
    models = sum(mechanism.models for mechanism in report.mechanisms)
    left_out = [row.attack_class.lower() for row in report.coverage if row.status == "not run"]
    model_count = f", on {plural(models, 'trained model')} in all" if report.kind == "run" and models else ""
    points: list[Text] = [
        (Strong("Claimed. "), _claim_sentence(report)),
        (
            Strong("Tried. "),
            f"{plural(len(attacks), 'attack')} ({_examples(attacks)}) in {plural(len(games), 'game')}{model_count}.",
        ),
        (Strong("Error rate. "), _error_rate(report)),
        (
            Strong("Not tried. "),
            sentence("; ".join(left_out)) if left_out else "Nothing is listed as left out; see the coverage.",
        ),
    ]
    blocks: list[Block] = [
        Paragraph(text=en.HOW_TO_READ if has_claims else en.HOW_TO_READ_ATTACKS),
        Items(items=tuple(points)),
    ]
    if not attacks:
        blocks.append(Missing(what="attacks; none was run"))
    elif any(True for mechanism in report.mechanisms for _ in headline.game_bounds(mechanism)):
        blocks.append(tables.overview(report))
    head = headline.headline(report)
    blocks += unprotected_blocks(report, head) if head is not None else ()
    blocks += [Heading(text="What was audited"), identity(report), Signature(roles=en.SIGNATURES)]
    blocks += [Heading(text="Release policy"), tables.policy(report)] if report.policy else []
    return Section(title="In plain words", blocks=tuple(blocks))


def _examples(names: Sequence[str]) -> str:
    """All names of a short list, the first of a long one."""
    return (
        join_words(names)
        if len(names) <= MOST_NAMES
        else join_words([*names[: MOST_NAMES - 1], f"{len(names) - MOST_NAMES + 1} more"])
    )


def _claim_sentence(report: AuditReport) -> str:
    """For whom an epsilon is claimed, and how the claims fared."""
    names = [mechanism.name for mechanism in report.mechanisms if mechanism.claims]
    if not names:
        return "No ε was claimed."
    outcomes = [verdict.outcome for mechanism in report.mechanisms for verdict in mechanism.verdicts]
    tally = [f"{outcomes.count(outcome)} {en.OUTCOMES[outcome][0]}" for outcome in headline.GRAVEST if outcome in outcomes]
    total = f" Outcome of the {len(outcomes)} claims: {join_words(tally)}." if len(outcomes) > 1 else ""
    return f"An ε is claimed for {join_words(names)}.{total}"


def _error_rate(report: AuditReport) -> str:
    if not any(True for mechanism in report.mechanisms for _ in headline.game_bounds(mechanism)):
        return "No ε was proven, so no error rate was spent. Intervals hold each on its own."
    several = report.comparisons > 1
    together = f"The {report.comparisons} bounds of this report hold at once" if several else "The bound of this report holds"
    correction = (
        ": the doubt was divided among them before any score was seen, so naming the largest costs nothing more."
        if several
        else "."
    )
    return f"{together} with {confidence(report.confidence)} confidence{correction}"


def of_mechanism(report: AuditReport, mechanism: MechanismResult) -> tuple[Section, ...]:
    """The claim, the budget and every game of one training."""
    images = figures.drawings(report)
    blocks: list[Block] = []
    if mechanism.claims:
        blocks += [Paragraph(text=_claim_in_words(mechanism)), Formula(name="dp"), tables.claims(mechanism)]
        blocks += [Paragraph(text=text) for text in (_allows(mechanism),) if text]
    else:
        blocks.append(
            Paragraph(text="No ε is claimed for it, so nothing can be contradicted. The figures say what it gives away.")
        )
    blocks.append(tables.mechanism_table(mechanism) or Missing(what="how the model was trained; this audit was not there"))
    subject = "checks of what was run" + (" against what is claimed" if mechanism.claims else "")
    blocks += or_missing(mechanism.checks, lambda: (tables.checks(mechanism),), subject)
    if mechanism.trajectories:
        blocks += [figure_block(images[_plots.file_name("budget", mechanism.name)]), tables.budget(mechanism)]
    elif mechanism.claims:
        blocks.append(Missing(what="ε over training steps; no accountant covers this training"))
    access = images.get(_plots.file_name("access", mechanism.name))
    blocks += [figure_block(access)] if access else []
    kind = {"run": "Training", "model": "Model", "scores": "Scores"}.get(report.kind, "Training")
    games = tuple(_game(report, mechanism, game) for game in mechanism.games)
    return (
        Section(title=f"{kind} “{mechanism.name}”", blocks=tuple(blocks)),
        *games,
    )


def _claim_in_words(mechanism: MechanismResult) -> str:
    claim = mechanism.claims[0]
    return (
        f"The training algorithm M is claimed to be (ε, δ)-differentially private {at_delta(claim.delta)}. For all data sets D "
        f"and D′ that differ in one {claim.unit} ({en.ADJACENCY[claim.adjacency]}), and for all sets of outcomes S:"
    )


def _allows(mechanism: MechanismResult) -> str:
    """What the tightest claim leaves an attack, so that a large epsilon cannot look like much."""
    claim = headline.tightest(mechanism)
    if claim is None:
        return ""
    low, high = (headline.allowed_tpr(fpr, claim.epsilon, claim.delta) for fpr in (0.001, 0.01))
    if low > NEAR_TOTAL:
        sentence = (
            f"By itself it rules out little: an attack that finds {percent(low, side='down')} of the members at 0.1{SPACE}% "
            f"false positives would still be within {epsilon(up(claim.epsilon))}."
        )
    else:
        sentence = (
            f"By itself {epsilon(up(claim.epsilon))} lets an attack find at most {percent(low, side='up')} of the members at "
            f"0.1{SPACE}% false positives and {percent(high, side='up')} at 1{SPACE}%."
        )
    if mechanism.limit is None:
        return f"What the claim is worth. {sentence}"
    low, high = (float(np.interp(fpr, mechanism.limit.fpr, mechanism.limit.tpr)) for fpr in (0.001, 0.01))
    return (
        f"What the claim is worth. {sentence} The mechanism it is stated for leaves an attack about {percent(low)} at "
        f"0.1{SPACE}% false positives and {percent(high)} at 1{SPACE}%."
    )


def _game(report: AuditReport, mechanism: MechanismResult, game: GameResult) -> Section:
    title = f"{mechanism.name}: {game.name}"
    blocks: list[Block] = [Paragraph(text=(Strong("The game. "), en.game(game.game)))]
    blocks += [Paragraph(text=(Strong("Note. "), sentence(game.note)))] if game.note else []
    if not game.attacks:
        return Section(title=title, blocks=(*blocks, Missing(what="attacks in this game; none was run")), level=2)
    images = figures.drawings(report)
    if game.watched is not None:
        blocks += evidence.blocks(game.watched, images.get(evidence.name(mechanism, game)))
    blocks += [*_bounds(game), *simulation.blocks(game)]
    curve = images[_plots.file_name("roc", mechanism.name, game.name)]
    blocks += (
        [figure_block(curve)]
        if curve.name != picture(report)
        else [Paragraph(text="The ROC of this game is on the first page.")]
    )
    blocks.append(game_tables.rates(game, bool(mechanism.claims)))
    blocks.append(figure_block(images[_plots.file_name("scores", mechanism.name, game.name)]))
    control = game_tables.control(game)
    if control is not None:
        blocks.append(control)
    elif game.game.inclusion is Inclusion.COINS:
        blocks.append(Missing(what="the negative control of this game"))
    estimates = game_tables.estimates(game)
    blocks += [estimates] if estimates else []
    blocks += _records(game)
    blocks += leave_one_out.blocks(game)
    if game.groups:
        blocks += [Heading(text="Groups"), game_tables.groups(game)]
    return Section(title=title, blocks=tuple(blocks), level=2)


def _records(game: GameResult) -> list[Block]:
    """Members of the one target that stand out more than chance allows, with the test; nothing where models say more."""
    result = outliers.of_target(game) if game.records else None
    if result is None or (game.evaluation is not None and game.evaluation.records):
        return []
    test = (
        f"the rank of each of {count(result.tested)} members among {count(result.nonmembers)} nonmembers; Benjamini and "
        f"Hochberg, at most {percent(outliers.SIGNIFICANCE, 0)} of those named by chance"
    )
    head = Heading(text="Records that stand out")
    if not result.records:
        return [head, Paragraph(text=f"No member stands out more than chance allows ({test}).")]
    return [
        head,
        Paragraph(text=f"{plural(len(result.records), 'member')} stand out more than chance allows ({test}). {en.INTERNAL}"),
        game_tables.records(result),
    ]


def _bounds(game: GameResult) -> list[Block]:
    if game.bounds:
        return [game_tables.bounds(game)]
    if game.game.inclusion is Inclusion.SPLIT:
        return [Paragraph(text=en.NO_EPSILON), game_tables.overall(game)]
    return [Missing(what="lower bounds on ε; no estimator was asked for"), game_tables.overall(game)]


def ledger(report: AuditReport) -> tuple[Section, ...]:
    """The budget of the data over all releases; none where no ledger was given."""
    if report.ledger is None:
        return ()
    drawing = figures.drawings(report)[ledger_figure.NAME]
    return (Section(title="Budget of these data", blocks=ledger_figure.blocks(report.ledger, drawing)),)


def utility(report: AuditReport) -> Section:
    """What the trainings are good for."""
    drawing = figures.drawings(report).get("utility")
    blocks = or_missing(
        drawing, lambda: (figure_block(drawing), tables.utility(report)) if drawing else (), "utility; it was not measured"
    )
    return Section(title="Utility", blocks=blocks)


def limitations(report: AuditReport) -> Section:
    """The fixed limits, those of this audit, and what the report never says."""
    own: list[Text] = []
    for mechanism in headline.by_gravity(report):
        for check in mechanism.checks:
            if check.status in (Status.GAP, Status.FAILED):
                own.append((Strong(f"{mechanism.name}. "), f"{check.item}: {check.value} ({check.status.value})."))
        sizes = sorted({game.attacks[0].roc.nonmembers for game in mechanism.games if game.attacks})
        if sizes:
            text = f"No false positive rate below 1 in {count(sizes[-1])} was measured, because there were no more nonmembers."
            own.append((Strong(f"{mechanism.name}. "), text))
    left_out = [
        f"{row.attack_class.lower()} ({row.status})" for row in report.coverage if row.status not in ("run", "not applicable")
    ]
    own += [(Strong("Attacks. "), f"Nothing is said about {'; '.join(left_out)}.")] if left_out else []
    return Section(
        title="Limits of this report",
        blocks=(
            Items(items=en.LIMITATIONS),
            Heading(text="Of this audit"),
            *or_missing(own, lambda: (Items(items=tuple(own)),), "limits of this audit; none was recorded"),
            Heading(text="What this report never says"),
            Items(items=en.NEVER_SAYS),
        ),
    )


def reproduce(report: AuditReport) -> Section:
    """How to get the same report again and how to check this copy."""
    provenance = report.provenance
    packages = ", ".join(f"{name}{SPACE}{version}" for name, version in sorted(provenance.packages))
    rows: list[tuple[Text, ...]] = [
        ("Command", Mono(provenance.command)),
        *([("Seed", str(provenance.seed))] if provenance.seed is not None else []),
        ("Code", f"audit {provenance.version}, commit {provenance.code_commit or 'not recorded'}"),
        *([("Configuration, sha256", Mono(provenance.config_sha256))] if provenance.config_sha256 else []),
        *([("Data, sha256", Mono(report.data.sha256))] if report.data is not None and report.data.sha256 else []),
        ("Python", provenance.python),
        ("Packages", packages),
        (
            "Machine",
            f"{provenance.platform}; device {provenance.device}; {plural(provenance.threads, 'thread')}"
            if provenance.device
            else provenance.platform,
        ),
        ("Report", f"{report.id}, schema {report.schema}"),
        (
            "Check this copy",
            (Mono("audit verify report.pdf"), " takes report.json out of this PDF, renders it again and compares."),
        ),
    ]
    columns = (Column(title="Item", share=0.24), Column(title="Value", share=0.76))
    blocks: list[Block] = [Table(caption="", columns=columns, rows=tuple(rows))]
    given_settings = settings(report)
    blocks += [Heading(text="Configuration")] if given_settings is not None or report.config else []
    blocks += _origins(report) if report.config else []
    blocks += [given_settings] if given_settings is not None else []
    return Section(title="How to reproduce and verify", blocks=tuple(blocks))


def _origins(report: AuditReport) -> list[Block]:
    """Where the settings came from: the file in a sentence, whatever overrode it in a table."""
    sources = [source for _, source in report.origins if source != "default"]
    if not sources:
        return []
    main = max(sorted(set(sources)), key=sources.count)
    blocks: list[Block] = [Paragraph(text=("Settings are those of ", Mono(main), " and, where it says nothing, the defaults."))]
    over = tuple((Mono(key), source) for key, source in report.origins if source not in ("default", main))
    if over:
        titles = (Column(title="Setting", share=0.5), Column(title="Origin", share=0.5))
        blocks.append(Table(caption="Settings from elsewhere.", columns=titles, rows=over, small=True))
    return blocks
