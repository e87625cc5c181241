"""`audit report`, `audit verify`, `audit diff`: render again, check what somebody hands over, compare two audits."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from audit.cli.printing import AsJson, print_json, print_plain
from audit.core import files
from audit.core.errors import ConfigError, DataError, OutputError
from audit.core.results import USUAL_FORMATS
from audit.core.rounding import plural
from audit.core.visible import without_passwords

if TYPE_CHECKING:
    from audit.core.results import AuditReport
    from reports.diff import Change

JSON = "report.json"
INTERNAL, EXTERNAL = "internal", "external"
VERIFICATION_FAILURE = 1


def report(
    source: Annotated[Path, typer.Argument(metavar="RUN_DIR|FILE", help="A run folder, or its report.json or report.pdf.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder to write to. Default: the run folder.")] = None,
    formats: Annotated[
        list[str] | None,
        typer.Option("--format", help="Format, a name that `audit ls formats` lists; may repeat. Default: those of a run."),
    ] = None,
    edition: Annotated[
        str,
        typer.Option("--edition", help="Edition: internal, or external (without records, seeds, hashes and file names)."),
    ] = INTERNAL,
    title: Annotated[str | None, typer.Option("--title", help="Title of the external edition.")] = None,
    language: Annotated[
        str,
        typer.Option("--lang", help="Language, a name that `audit ls languages` lists; several joined by +, as en+zh."),
    ] = "en",
    annex: Annotated[bool, typer.Option("--annex", help="Write annex.pdf as well: which requirement is shown where.")] = False,
    ledger: Annotated[
        str | None, typer.Option("--ledger", help="Budget ledger to put into a copy of the report; needs --output.")
    ] = None,
    costs: Annotated[
        bool,
        typer.Option(
            "--costs", help="Compute what the claimed mechanisms cost, for pages in a copy of the report; needs --output."
        ),
    ] = False,
    key: Annotated[
        Path | None,
        typer.Option(
            "--sign", metavar="KEY", help="Private key of OpenSSH; writes SHA256SUMS.sig over the folder's checksums."
        ),
    ] = None,
    mlflow: Annotated[
        str | None,
        typer.Option(
            "--mlflow", metavar="URI", help="Also log figures and the files that are written here into MLflow at this address."
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Render a finished audit again from its report.json."""
    from audit.execution import run_folder, signature

    folder = output or (source if source.is_dir() else source.parent)
    request = _Request(
        edition=edition,
        title=title,
        languages=tuple(language.split("+")),
        formats=tuple(formats or ()),
        extra=("annex",) if annex else (),
    )
    audit_report = _with_costs(_with_ledger(load(source), ledger, output), costs, output)
    files_by_name = _render(audit_report, request)
    sums = run_folder.read_sums(folder) if (folder / run_folder.SUMS).is_file() else None
    for name, content in files_by_name.items():
        _write(folder, name, content)
    if sums is not None or key is not None:
        _refresh_sums(folder, sums or {}, files_by_name)
    if key is not None:
        signature.sign(folder, key)
    elif (folder / run_folder.SIGNATURE).is_file():
        print_plain(f"'{folder / run_folder.SIGNATURE}' is of the folder as it was; sign again with --sign", file=sys.stderr)
    tracked = None if mlflow is None else _track(audit_report, files_by_name, mlflow)
    if as_json:
        print_json({"folder": str(folder), "files": sorted(files_by_name), "mlflow_run": tracked})
    else:
        print_plain(f"{plural(len(files_by_name), 'file')} written to {folder}")
        if tracked is not None:
            print_plain(f"MLflow run {tracked} at {without_passwords(str(mlflow))}")
    return 0


def _track(audit_report: AuditReport, files_by_name: Mapping[str, bytes], uri: str) -> str:
    from reports import tracking

    return tracking.log(audit_report, files_by_name, uri)


def _with_ledger(audit_report: AuditReport, file: str | None, output: Path | None) -> AuditReport:
    """The report with another ledger in it; a run's own folder keeps what was written when it ended."""
    from audit.accounting import ledger, ledger_database

    if file is None:
        return audit_report
    if output is None:
        raise ConfigError("--ledger makes another report; name a folder for it with --output")
    return replace(audit_report, ledger=ledger.summary(ledger_database.load(file)))


def _with_costs(audit_report: AuditReport, enabled: bool, output: Path | None) -> AuditReport:
    """The report with what its mechanisms cost, as a run with `output.costs` has it."""
    from audit.accounting.report_costs import with_costs

    if not enabled:
        return audit_report
    if output is None:
        raise ConfigError("--costs makes another report; name a folder for it with --output")
    return with_costs(audit_report)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """What is to be rendered; no `formats` stands for those that are usual for the edition and language."""

    edition: str
    title: str | None
    languages: tuple[str, ...]
    formats: tuple[str, ...]
    extra: tuple[str, ...]

    def formats_in(self, language: str) -> tuple[str, ...]:
        """The formats to render; by itself another language than English is for readers alone."""
        usual = USUAL_FORMATS if self.edition == INTERNAL else ("pdf", "json")
        return (*(self.formats or (usual if language == "en" else ("pdf",))), *self.extra)


def _render(audit_report: AuditReport, request: _Request) -> dict[str, bytes]:
    """The files of an edition; those of the external one carry it in their names and lie beside the internal ones."""
    import reports
    from reports.editions.external import external

    if request.edition not in (INTERNAL, EXTERNAL):
        raise ConfigError(f"there is no edition '{request.edition}'; choose {INTERNAL} or {EXTERNAL}")
    if request.edition == INTERNAL and request.title is not None:
        raise ConfigError("--title is for --edition external; the internal edition keeps the title of the run")
    edition = audit_report if request.edition == INTERNAL else external(audit_report, request.title)
    files: dict[str, bytes] = {}
    for language in request.languages:
        files |= reports.render(edition, request.formats_in(language), language)
    if request.edition == INTERNAL:
        return files
    return {f"{Path(name).with_suffix('')}-{EXTERNAL}{Path(name).suffix}": content for name, content in files.items()}


def verify(
    source: Annotated[Path, typer.Argument(metavar="FILE|RUN_DIR", help="A run folder, a report.pdf or a report.json.")],
    key: Annotated[
        Path | None, typer.Option("--key", metavar="PUBLIC", help="Public key of OpenSSH; checks SHA256SUMS.sig as well.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Check hashes and schema, render again and compare every byte. Exit code 1 if anything differs."""
    audit_report = load(source)
    problems = [*_problems(source, audit_report), *(_signature_problems(source, key) if key is not None else ())]
    if as_json:
        print_json({"report": audit_report.id, "verified": not problems, "problems": problems})
    else:
        for line in problems:
            print_plain(f"differs: {line}")
        print_plain(
            f"{source}: {'NOT VERIFIED' if problems else 'verified'}, report {audit_report.id}, schema {audit_report.schema}"
        )
    return VERIFICATION_FAILURE if problems else 0


def diff(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="The earlier run folder, report.json or report.pdf.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="The later run folder, report.json or report.pdf.")],
    as_json: AsJson = False,
) -> int:
    """Compare two audits: what got worse, is missing or differs. Exit code 1 on a regression, else that of the new audit."""
    from audit.experiment import judge
    from reports import diff as comparison

    before, after = load(old), load(new)
    differences = comparison.changes(before, after)
    _show(differences, before, after, as_json)
    if comparison.is_worse(differences):
        return VERIFICATION_FAILURE
    return judge.exit_code(after.outcome, all(gate.met for gate in after.policy))


def load(source: Path) -> AuditReport:
    """The report in a run folder, a report.json or a report.pdf.

    Raises:
        DataError: there is none, or it cannot be read.
    """
    from reports.formats import json, pdf

    path = source / JSON if source.is_dir() else source
    try:
        content = files.read(path)
    except OSError as error:
        raise DataError(
            f"cannot read '{path}': {error.strerror}; expected a run folder, a report.json or a report.pdf"
        ) from error
    return json.from_json(pdf.attachment(content) if content.startswith(b"%PDF-") else content)


def _problems(source: Path, audit_report: AuditReport) -> list[str]:
    import reports
    from audit.execution import run_folder
    from reports.formats import json, pdf

    if source.is_dir():
        problems = run_folder.verify_folder(source)
        names = {line.partition(":")[0] for line in problems}
        fresh = {name: content for name, content in reports.render(audit_report).items() if name not in names}
        return problems + [
            f"{name}: {problem}"
            for name, content in fresh.items()
            if (problem := _compare(source / name, content, audit_report))
        ]
    if source.read_bytes().startswith(b"%PDF-"):
        (content,) = reports.render(audit_report, ("pdf",), pdf.language(source.read_bytes())).values()
        problem = _compare(source, content, audit_report)
    else:
        problem = _compare(source, json.to_json(audit_report), None)
    return [f"{source.name}: {problem}"] if problem else []


def _signature_problems(source: Path, key: Path) -> list[str]:
    """Return what is wrong with the signature of the folder, and of one file alone whether the signed checksums name it."""
    from audit.execution import run_folder, signature

    folder = source if source.is_dir() else source.parent
    if problem := signature.problem(folder, key):
        return [problem]
    if source.is_dir() or run_folder.read_sums(folder).get(source.name) == run_folder.file_sha256(source):
        return []
    return [f"{source.name}: not as the signed {run_folder.SUMS} says"]


def _compare(path: Path, content: bytes, audit_report: AuditReport | None) -> str:
    """Return why a file is not what the report renders to, "" where it is. Other versions of the renderers draw other bytes."""
    if not path.is_file():
        return "missing"
    if path.read_bytes() == content:
        return ""
    packages = _renderers(audit_report) if audit_report else []
    return f"not what report.json renders to here ({', '.join(packages)})" if packages else "not what report.json renders to"


def _renderers(audit_report: AuditReport) -> list[str]:
    """The rendering libraries whose version differs from the one that wrote the report."""
    from importlib.metadata import version

    versions = dict(audit_report.provenance.packages)
    names = [name for name in ("typst", "matplotlib") if name in versions and versions[name] != version(name)]
    return [f"{name} {version(name)} here, {versions[name]} there" for name in names]


def _show(changes: Sequence[Change], before: AuditReport, after: AuditReport, as_json: bool) -> None:
    if as_json:
        rows = [
            {"weight": change.weight.value, "subject": change.subject, "text": change.text, "p_value": change.p_value}
            for change in changes
        ]
        print_json({"old": before.id, "new": after.id, "changes": rows})
        return
    for change in changes:
        print_plain(f"{change.weight.value:<6} {change.subject + ': ' if change.subject else ''}{change.text}")
    print_plain(f"{before.id} to {after.id}: {len(changes)} difference{'' if len(changes) == 1 else 's'}")


def _refresh_sums(folder: Path, sums: dict[str, str], files_by_name: Mapping[str, bytes]) -> None:
    """Puts the new checksums of the rendered files into SHA256SUMS; every other line stays as it was."""
    from audit.execution import run_folder

    checksums = sums | {name: run_folder.file_sha256(folder / name) for name in files_by_name}
    _write(folder, run_folder.SUMS, "".join(f"{digest}  {name}\n" for name, digest in sorted(checksums.items())).encode())


def _write(folder: Path, name: str, content: bytes) -> None:
    """One file of a folder, which may come from somebody else: no link in it leads the file elsewhere."""
    path = folder / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.parent.resolve() != folder.resolve() / Path(name).parent:
            raise OutputError(f"'{path.parent}' is a link out of '{folder}'; remove it, or choose another --output")
        files.write_whole(path, content)
    except OSError as error:
        raise OutputError(f"cannot write '{path}': {error.strerror}; choose another --output") from error
