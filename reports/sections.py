"""The pages of a report in their order: `AuditReport` in, `Section` values out. A part without content is printed as missing."""

from __future__ import annotations

from collections.abc import Callable

from audit.core.game import Inclusion
from audit.core.results import AuditReport, GameResult, MechanismResult, Status
from reports import figures, reading, tables, wording
from reports.blocks import (
    Block,
    Column,
    Figure,
    Formula,
    Heading,
    Items,
    Listing,
    Missing,
    Mono,
    Paragraph,
    Section,
    Strong,
    Table,
    Terms,
    Text,
)
from reports.cover import cover
from reports.figures import Drawing
from reports.rounding import confidence, count, plural, power


def sections(report: AuditReport) -> tuple[Section, ...]:
    """All sections of the report, the cover first."""
    built: list[Section] = [Section(title="", blocks=cover(report)), summary(report)]
    built += [one for mechanism in report.mechanisms for one in of_mechanism(report, mechanism)]
    built += [
        utility(report),
        Section(
            title="Coverage of attack classes",
            blocks=_or_missing(report.coverage, lambda: (tables.coverage(report),), "coverage of attack classes"),
        ),
        limitations(report),
        reproduce(report),
        Section(title="Terms", blocks=(Terms(items=wording.GLOSSARY),)),
    ]
    return tuple(built)


def summary(report: AuditReport) -> Section:
    """What was claimed, tried, found and left out, without a formula."""
    attacks = sorted({attack.scorer for one in report.mechanisms for game in one.games for attack in game.attacks})
    claimed = [one.name for one in report.mechanisms if one.claims]
    left_out = [one.attack_class.lower() for one in report.coverage if one.status == "not run"]
    points: list[Text] = [
        (Strong("Claimed. "), f"An ε is claimed for {_listed(claimed)}." if claimed else "Nothing was claimed."),
        (
            Strong("Tried. "),
            f"{plural(len(attacks), 'attack')} ({_listed(attacks)}) in {plural(sum(len(one.games) for one in report.mechanisms), 'game')}.",
        ),
        (
            Strong("Error rate. "),
            f"All {plural(report.comparisons, 'bound')} of this report hold at once with {confidence(report.confidence)} confidence: "
            "the doubt was divided among them before any score was seen, so picking the largest costs nothing more.",
        )
        if reading.has_coins(report)
        else (Strong("Error rate. "), "No ε was proven, so no error rate was spent."),
        (Strong("Not tried. "), f"{_listed(left_out).capitalize()}." if left_out else "See the coverage of attack classes."),
    ]
    blocks: list[Block] = [Paragraph(text=wording.HOW_TO_READ), Items(items=tuple(points))]
    if any(game.attacks for one in report.mechanisms for game in one.games):
        blocks.append(tables.overview(report))
    else:
        blocks.append(Missing(what="attacks: none was run"))
    drawing = figures.drawings(report).get("overview")
    blocks += [_figure(drawing)] if drawing else []
    blocks += [Heading(text="Release policy"), tables.policy(report)] if report.policy else []
    return Section(title="In plain words", blocks=tuple(blocks), new_page=True)


def of_mechanism(report: AuditReport, mechanism: MechanismResult) -> tuple[Section, ...]:
    """The claim, the budget and every game of one training."""
    found = figures.drawings(report)
    blocks: list[Block] = []
    if mechanism.claims:
        blocks += [Paragraph(text=_claim_in_words(mechanism)), Formula(name="dp"), tables.claims(mechanism)]
    else:
        blocks.append(
            Paragraph(text="Nothing is claimed for it, so nothing can be contradicted; the figures say what it gives away.")
        )
    parameters = tables.mechanism_table(mechanism)
    blocks.append(parameters or Missing(what="how the model was trained: not known to this audit"))
    blocks += _or_missing(
        mechanism.checks, lambda: (tables.checks(mechanism),), "checks of what was run against what is claimed"
    )
    if mechanism.trajectories:
        blocks += [_figure(found[figures.file_name("budget", mechanism.name)]), tables.budget(mechanism)]
    elif mechanism.claims:
        blocks.append(Missing(what="epsilon over training steps: the training was not watched"))
    name = {"run": "Training", "model": "Model", "scores": "Scores"}.get(report.kind, "Training")
    games = tuple(_game(report, mechanism, game) for game in mechanism.games)
    return (Section(title=f"{name} “{mechanism.name}”", blocks=tuple(blocks), new_page=True), *games)


def _game(report: AuditReport, mechanism: MechanismResult, game: GameResult) -> Section:
    found = figures.drawings(report)
    rules = game.game.describe()
    blocks: list[Block] = [Paragraph(text=(Strong("The game. "), f"{rules[0].upper()}{rules[1:]}."))]
    if game.note:
        blocks.append(Paragraph(text=(Strong("Note. "), f"{game.note[0].upper()}{game.note[1:]}.")))
    if not game.attacks:
        blocks.append(Missing(what="attacks in this game"))
        return Section(title=f"{mechanism.name}: {game.name}", blocks=tuple(blocks), level=2)
    if any(one.bounds for one in game.attacks):
        blocks.append(tables.bounds(game))
    elif game.game.inclusion is Inclusion.SPLIT:
        blocks += [Paragraph(text=_no_epsilon()), tables.overall(game)]
    else:
        blocks.append(Missing(what="lower bounds on epsilon"))
    blocks += [_figure(found[figures.file_name("roc", mechanism.name, game.name)]), tables.rates(game, bool(mechanism.claims))]
    blocks += [_figure(found[figures.file_name("scores", mechanism.name, game.name)])]
    control = tables.control(game)
    if control is not None:
        blocks.append(control)
    elif game.game.inclusion is Inclusion.COINS:
        blocks.append(Missing(what="negative control"))
    estimates = tables.estimates(game)
    blocks += [estimates] if estimates else []
    if game.records:
        blocks += [Heading(text="Most exposed records"), Paragraph(text=_exposed(), small=True), tables.records(game)]
    if game.groups:
        blocks += [Heading(text="Groups"), tables.groups(game)]
    return Section(title=f"{mechanism.name}: {game.name}", blocks=tuple(blocks), level=2)


def utility(report: AuditReport) -> Section:
    """What the trainings are good for."""
    drawing = figures.drawings(report).get("utility")
    if drawing is None:
        return Section(title="Utility", blocks=(Missing(what="utility: not measured"),))
    return Section(title="Utility", blocks=(_figure(drawing), tables.utility(report)))


def limitations(report: AuditReport) -> Section:
    """The fixed limits, those of this audit, and what the report never says."""
    own: list[str] = []
    for mechanism in report.mechanisms:
        own += [
            f"{mechanism.name}: {one.item} ({one.value}): {one.status}."
            for one in mechanism.checks
            if one.status in (Status.GAP, Status.FAILED)
        ]
        own += [
            f"{mechanism.name}, {game.name}: with {count(attack.roc.nonmembers)} nonmembers no false positive rate below "
            f"1 in {count(attack.roc.nonmembers)} can be measured."
            for game in mechanism.games
            for attack in game.attacks[:1]
        ]
    own += [f"{one.attack_class}: {one.status}." for one in report.coverage if one.status not in ("run", "not applicable")]
    return Section(
        title="Limits of this report",
        blocks=(
            Items(items=wording.LIMITATIONS),
            Heading(text="Of this audit"),
            Items(items=tuple(own)) if own else Missing(what="limits of this audit: none recorded"),
            Heading(text="What this report never says"),
            Items(items=wording.NEVER_SAYS),
        ),
    )


def reproduce(report: AuditReport) -> Section:
    """How to get the same report again and how to check this copy."""
    given = report.provenance
    rows: list[tuple[Text, ...]] = [
        ("Command", Mono(given.command)),
        ("Seed", str(given.seed)),
        ("Code", f"audit {given.version}, commit {given.code_commit or 'not recorded'}"),
        ("Configuration, sha256", Mono(given.config_sha256)),
        ("Python", given.python),
        ("Packages", ", ".join(f"{name}\N{NO-BREAK SPACE}{version}" for name, version in sorted(given.packages))),
        ("Machine", f"{given.platform}; device {given.device}; {plural(given.threads, 'thread')}"),
        ("Report", f"{report.id}, schema {report.schema}"),
        (
            "Check this copy",
            (
                "report.json is attached to this PDF; ",
                Mono("audit verify report.pdf"),
                " reads it, renders it again and compares.",
            ),
        ),
    ]
    if report.data is not None:
        rows.insert(4, ("Data, sha256", Mono(report.data.sha256)))
    blocks: list[Block] = [
        Table(caption="", columns=(Column(title="Item", share=0.24), Column(title="Value", share=0.76)), rows=tuple(rows))
    ]
    if report.origins:
        origins = tuple((Mono(key), source) for key, source in report.origins)
        blocks.append(
            Table(
                caption="Where settings came from.",
                columns=(Column(title="Setting", share=0.5), Column(title="Origin", share=0.5)),
                rows=origins,
                small=True,
            )
        )
    blocks += [Heading(text="Resolved configuration"), Listing(text=report.config)] if report.config else []
    return Section(title="How to reproduce and verify", blocks=tuple(blocks))


def _claim_in_words(mechanism: MechanismResult) -> str:
    claim = mechanism.claims[0]
    return (
        f"The training algorithm M is claimed to be (ε, δ)-differentially private at δ = {power(claim.delta)}. For all data sets D and D′ "
        f"that differ in one {claim.unit} ({wording.ADJACENCY[claim.adjacency]}), and for all sets of outcomes S:"
    )


def _no_epsilon() -> str:
    return (
        "No ε is stated. A lower bound on ε needs membership to be decided by coins that the training could not foresee; here it was "
        "decided by a split of the data. Whatever tells the two parts apart, leakage or not, would count."
    )


def _exposed() -> str:
    return "Internal. A reader of this table learns who was in the training set; take it out before passing the report on."


def _figure(drawing: Drawing) -> Figure:
    return Figure(name=drawing.name, caption=drawing.caption, alt=drawing.alt)


def _listed(names: list[str]) -> str:
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _or_missing(present: object, build: Callable[[], tuple[Block, ...]], what: str) -> tuple[Block, ...]:
    return build() if present else (Missing(what=what),)
