"""The page on how to get the same report again, and how to check a copy of it."""

from audit.core.results import AuditReport
from audit.core.seeds import SHORTEST_SEED
from reports.pages.blocks import Block, Heading, Mono, Paragraph, Section, Table, Text, layout
from reports.tables.report import settings
from reports.words.language import SPACE, many, say


def reproduce(report: AuditReport) -> Section:
    """Return how to get the same report again and how to check this copy."""
    provenance = report.provenance
    packages = ", ".join(f"{name}{SPACE}{version}" for name, version in sorted(provenance.packages))
    rows: list[tuple[Text, ...]] = [
        (say("page.command"), Mono(provenance.command)),
        *([(say("page.seed"), _seed_text(report.kind, provenance.seed))] if report.config else []),
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
        (say("page.check_this_copy"), (Mono("audit verify report.pdf"), say("page.takes_report_json_out_of"))),
    ]
    columns = layout("page.item:0.24 page.value:0.76")
    blocks: list[Block] = [Table(caption="", columns=columns, rows=tuple(rows), small=True)]
    given_settings = settings(report)
    configuration = _origins(report) if report.config else []
    configuration += [given_settings] if given_settings is not None else []
    blocks += [Heading(text=say("page.configuration")), *configuration] if configuration else []
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
        titles = layout("page.setting:0.5 page.origin:0.5")
        blocks.append(Table(caption=say("page.settings_from_elsewhere"), columns=titles, rows=over, small=True))
    return blocks


def _seed_text(kind: str, seed: int | None) -> str:
    """Return the seed, with what follows from it, or the file that holds it."""
    if seed is None:
        return say("page.seed_secret")
    if kind != "run":  # memberships come from the owner, or from another seed
        return say("page.seed_of_controls", seed=seed)
    return say("page.seed_public", seed=seed) if seed < SHORTEST_SEED else str(seed)
