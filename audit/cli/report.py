"""`audit report`: render a finished audit again."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from audit.cli.edition import external_edition as edition_of
from audit.cli.printing import AsJson, print_plain, print_result
from audit.cli.report_files import load
from audit.core import files
from audit.core.errors import ConfigError, OutputError
from audit.core.files import file_sha256
from audit.core.results import USUAL_FORMATS
from audit.core.rounding import plural
from audit.core.visible import without_passwords
from audit.execution.run_folder import SUMS

if TYPE_CHECKING:
    from audit.core.results import AuditReport

INTERNAL, EXTERNAL = "internal", "external"

Source = Annotated[Path, typer.Argument(metavar="RUN_DIR|FILE", help="A run folder, or its report.json or report.pdf.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="Folder, or file of a single format. Default: the run folder.")
]
Formats = Annotated[
    list[str] | None,
    typer.Option("--format", help="Format, a name that `audit ls formats` lists; may repeat. Default: those of a run."),
]
Edition = Annotated[
    str,
    typer.Option(
        "--edition",
        help="Edition: internal, or external (answer, claims, bounds, and one area and one rate per game; from a run folder).",
    ),
]
Title = Annotated[str | None, typer.Option("--title", help="Title of the external edition.")]
Languages = Annotated[
    str, typer.Option("--lang", help="Language, a name that `audit ls languages` lists; several joined by +, as en+zh.")
]
Annex = Annotated[bool, typer.Option("--annex", help="Write annex.pdf as well: which requirement is shown where.")]
Ledger = Annotated[str | None, typer.Option("--ledger", help="Budget ledger to put into a copy of the report; needs --output.")]
Costs = Annotated[
    bool,
    typer.Option(
        "--costs", help="Compute what the claimed mechanisms cost, for pages in a copy of the report; needs --output."
    ),
]
SigningKey = Annotated[
    Path | None,
    typer.Option("--sign", metavar="KEY", help="Private key of OpenSSH; writes SHA256SUMS.sig over the folder's checksums."),
]
Mlflow = Annotated[
    str | None,
    typer.Option(
        "--mlflow", metavar="URI", help="Also log figures and the files that are written here into MLflow at this address."
    ),
]


def report(
    source: Source,
    output: Output = None,
    formats: Formats = None,
    edition: Edition = INTERNAL,
    title: Title = None,
    language: Languages = "en",
    annex: Annex = False,
    ledger: Ledger = None,
    costs: Costs = False,
    key: SigningKey = None,
    mlflow: Mlflow = None,
    as_json: AsJson = False,
) -> int:
    """Render a finished audit again from its report.json."""
    from audit.execution import run_folder

    folder = output or (source if source.is_dir() else source.parent)
    request = _Request(
        edition=edition,
        title=title,
        languages=tuple(language.split("+")),
        formats=tuple(formats or ()),
        extra=("annex",) if annex else (),
    )
    request.check()
    audit_report = _with_costs(_with_ledger(load(source), ledger, output), costs, output)
    is_external = request.edition == EXTERNAL
    if is_external:
        earlier = [folder / f"report-{EXTERNAL}.json", *(part / f"report-{EXTERNAL}.json" for part in (source, source.parent))]
        audit_report = edition_of(audit_report, source, title, earlier)
    files_by_name = _render(audit_report, request)
    if _is_single_file(output, files_by_name):
        if key is not None or mlflow is not None:
            raise ConfigError(f"--sign and --mlflow are about a folder, and --output names the file '{output}'; name a folder")
        return _write_single(folder, next(iter(files_by_name.values())), as_json)
    sums = run_folder.read_sums(folder) if (folder / run_folder.SUMS).is_file() else None
    for name, content in files_by_name.items():
        _write(folder, name, content)
    if is_external:
        _refresh_sums(folder, {}, files_by_name, run_folder.EXTERNAL_SUMS)
    elif sums is not None or key is not None:
        _refresh_sums(folder, sums or {}, files_by_name)
    _sign(folder, key, run_folder.EXTERNAL_SUMS if is_external else run_folder.SUMS)
    run_id = None
    if mlflow is not None:
        from reports import tracking

        run_id = tracking.log(audit_report, files_by_name, mlflow)
    lines = [f"{plural(len(files_by_name), 'file')} written to {folder}"]
    lines += [] if run_id is None else [f"MLflow run {run_id} at {without_passwords(str(mlflow))}"]
    print_result(as_json, {"folder": str(folder), "files": sorted(files_by_name), "mlflow_run": run_id}, *lines)
    return 0


def _is_single_file(output: Path | None, files_by_name: Mapping[str, bytes]) -> bool:
    """Return whether `--output` names the one file that is rendered: it ends as that file does, and is no folder."""
    return output is not None and not output.is_dir() and [Path(name).suffix for name in files_by_name] == [output.suffix]


def _write_single(path: Path, content: bytes, as_json: bool) -> int:
    """Write a single rendered file; `ConfigError` if its folder holds its checksum."""
    from audit.execution import run_folder

    if (path.parent / run_folder.SUMS).is_file() and path.name in run_folder.read_sums(path.parent):
        raise ConfigError(f"'{path.parent}' holds the checksum of '{path.name}'; name the folder as --output, or another file")
    _write(path.parent, path.name, content)
    values = {"folder": str(path.parent), "files": [path.name], "mlflow_run": None}
    print_result(as_json, values, f"written to {path}")
    return 0


def _sign(folder: Path, key: Path | None, sums: str) -> None:
    """Sign the checksums of the folder, or of an edition alone; or say that a signature is of the folder as it was."""
    from audit.execution import signature

    old = folder / f"{sums}.sig"
    if key is not None:
        signature.sign(folder, key, sums)
    elif old.is_file():
        print_plain(f"'{old}' is of the files as they were; sign again with --sign", file=sys.stderr)


def _with_ledger(audit_report: AuditReport, file: str | None, output: Path | None) -> AuditReport:
    """The report with another ledger in it; a run's own folder keeps what was written when it ended."""
    from audit.accounting import ledger, ledger_database

    if file is None:
        return audit_report
    if output is None:
        raise ConfigError("--ledger makes another report; name a folder for it with --output")
    return replace(audit_report, ledger=ledger.summary(ledger_database.load(file)))


def _with_costs(audit_report: AuditReport, has_costs: bool, output: Path | None) -> AuditReport:
    """The report with what its mechanisms cost, as a run with `output.costs` has it."""
    from audit.accounting.costs import with_costs

    if not has_costs:
        return audit_report
    if output is None:
        raise ConfigError("--costs makes another report; name a folder for it with --output")
    return with_costs(audit_report)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """What is to be rendered; no `formats` represents those that are usual for the edition and language."""

    edition: str
    title: str | None
    languages: tuple[str, ...]
    formats: tuple[str, ...]
    extra: tuple[str, ...]

    def check(self) -> None:
        """Raise `ConfigError` if the edition does not exist, or is given what only another one takes."""
        if self.edition not in (INTERNAL, EXTERNAL):
            raise ConfigError(f"there is no edition '{self.edition}'; choose {INTERNAL} or {EXTERNAL}")
        if self.edition == INTERNAL and self.title is not None:
            raise ConfigError("--title is for --edition external; the internal edition keeps the title of the run")

    def formats_in(self, language: str) -> tuple[str, ...]:
        """The formats to render; alone another language than English is for readers alone."""
        usual = USUAL_FORMATS if self.edition == INTERNAL else ("pdf", "json")
        return (*(self.formats or (usual if language == "en" else ("pdf",))), *self.extra)


def _render(audit_report: AuditReport, request: _Request) -> dict[str, bytes]:
    """The files of an edition; those of the external one carry it in their names and are beside the internal ones."""
    import reports

    files: dict[str, bytes] = {}
    for language in request.languages:
        files |= reports.render(audit_report, request.formats_in(language), language)
    if request.edition == INTERNAL:
        return files
    return {f"{Path(name).with_suffix('')}-{EXTERNAL}{Path(name).suffix}": content for name, content in files.items()}


def _refresh_sums(folder: Path, sums: dict[str, str], files_by_name: Mapping[str, bytes], name: str = SUMS) -> None:
    """Puts the new checksums of the rendered files into SHA256SUMS, or a file like it; every other line stays as it was."""
    checksums = sums | {file: file_sha256(folder / file) for file in files_by_name}
    _write(folder, name, "".join(f"{digest}  {file}\n" for file, digest in sorted(checksums.items())).encode())


def _write(folder: Path, name: str, content: bytes) -> None:
    """One file of a folder, which may come from a third party: no link in it leads the file elsewhere."""
    path = folder / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.parent.resolve() != folder.resolve() / Path(name).parent:
            raise OutputError(f"'{path.parent}' is a link out of '{folder}'; remove it, or choose another --output")
        files.write_whole(path, content)
    except OSError as error:
        raise OutputError(f"cannot write '{path}': {error.strerror}; choose another --output") from error
