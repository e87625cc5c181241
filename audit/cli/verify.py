"""`audit verify`: check what a user hands over."""

from __future__ import annotations

import json as strict_json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from audit.cli.printing import AsJson, print_json, print_plain
from audit.cli.report_files import load
from audit.core.errors import ConfigError
from audit.core.files import file_sha256
from audit.execution.report_fields import find_undecided
from audit.execution.run_folder import SEED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from audit.core.results import AuditReport
    from audit.execution.recompute import NumberCheck

VERIFICATION_FAILURE = 1
EXTERNAL = "report-external.json"


def verify(
    source: Annotated[Path, typer.Argument(metavar="FILE|RUN_DIR", help="A run folder, a report.pdf or a report.json.")],
    key: Annotated[
        Path | None, typer.Option("--key", metavar="PUBLIC", help="Public key of OpenSSH; checks SHA256SUMS.sig as well.")
    ] = None,
    again: Annotated[
        bool,
        typer.Option(
            "--recompute",
            help="Compute the numbers of a run folder again: what scores decide by code of its own, the rest by the audit's.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Check hashes and schema, render again and compare every byte. Exit code 1 if anything differs."""
    if (source / "findings.json").is_file() and not (source / "report.json").is_file():
        raise ConfigError(f"'{source}' holds findings of a step or strategy, which no scores decide: run the check again")
    audit_report = load(source)
    problems, unchecked_words = _problems(source, audit_report)
    problems += _signature_problems(source, key)
    numbers = check_numbers(source) if again else None
    if numbers is not None:
        problems += numbers.problems
        unchecked_words += _find_unchecked_words(audit_report, source, numbers.unread)
    if as_json:
        answer = {"report": audit_report.id, "verified": not problems, "signed": key is not None, "problems": problems}
        if numbers is not None:
            answer |= {"numbers": numbers.numbers, "recomputed": numbers.numbers - len(numbers.problems)}
        if unchecked_words:
            answer |= {"not_checkable_without_a_signature": unchecked_words}
        print_json(answer)
    else:
        for line in problems:
            print_plain(f"differs: {line}")
        if numbers is not None:
            print_plain(numbers.summary)
        if unchecked_words:
            heading = "not checkable without a signature" if key is None or problems else "vouched for by the signature alone"
            print_plain(f"{heading}: {'; '.join(unchecked_words)}")
        if key is None:
            print_plain("unsigned: shows only that the files agree")
        print_plain(
            f"{source}: {'NOT VERIFIED' if problems else 'verified'}, report {audit_report.id}, schema {audit_report.schema}"
        )
    return VERIFICATION_FAILURE if problems else 0


def check_numbers(source: Path) -> NumberCheck:
    """Return what came of computing a run folder's numbers, and what follows, again; `ConfigError` if it is none."""
    from audit.cli import edition
    from audit.core.errors import AuditError
    from audit.execution import recompute, run_folder
    from audit.execution.report_fields import find_foreign
    from audit.experiment.line import again, consistency
    from reports.formats import json

    if not source.is_dir():
        raise ConfigError(f"--recompute needs the run folder with its scores; '{source}' is a file")
    try:
        report, (plain, check) = load(source), recompute.recompute(source)
        if plain["schema"] == report.schema and plain != strict_json.loads(json.to_json(report)):
            return recompute.NumberCheck(numbers=1, problems=["report.json: lacks fields that every report has"])
        check.problems += [*run_folder.find_missing(source, report), *find_foreign(report.kind, plain)]
        for part in (consistency.contradictions, lambda report: again.differences(source, report)):
            if not check.problems:  # what follows from figures that differ already says nothing more, and takes longest
                count, problems, unread = part(report)
                check.numbers += count
                check.problems += problems
                check.unread += unread
        if (source / EXTERNAL).is_file() and (source / edition.KEY).is_file() and not check.problems:
            external_report = load(source / EXTERNAL)
            follows, _, _ = edition.make_edition(report, source, external_report.title)
            text, follows_text = (json.without_messages(json.to_json(row)) for row in (external_report, follows))
            check.take(EXTERNAL, text == follows_text or "is not what scores and secret give")
        return check
    except (AuditError, ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError) as error:
        return recompute.NumberCheck(numbers=1, problems=[f"report.json or scores.parquet: {type(error).__name__}: {error}"])


def _find_unchecked_words(report: AuditReport, folder: Path, unread: Sequence[str]) -> list[str]:
    """Return what only a signature vouches for; `unread` could not be written again."""
    from audit.cli import edition

    has_seed = report.provenance.seed is not None or (folder / SEED).is_file()
    has_bounds = any(result.all_bounds for result in report.mechanisms)
    rows = find_undecided(report.kind, has_seed=has_seed, has_bounds=has_bounds)
    without_secret = (folder / EXTERNAL).is_file() and not (folder / edition.KEY).is_file()
    return [*([f"figures of {EXTERNAL}"] * without_secret), *rows, *unread]


def _problems(source: Path, audit_report: AuditReport) -> tuple[list[str], list[str]]:
    """Return what differs, and what cannot be compared here."""
    import reports
    from reports.formats import json, pdf

    if source.is_dir():
        return _folder_problems(source, audit_report)
    if source.read_bytes().startswith(b"%PDF-"):
        (content,) = reports.render(audit_report, ("pdf",), pdf.language(source.read_bytes())).values()
        problem = _compare(source, content, audit_report)
    else:
        problem = _compare(source, json.to_json(audit_report), None)
    return ([f"{source.name}: {problem}"] if problem else []), []


def _folder_problems(folder: Path, audit_report: AuditReport) -> tuple[list[str], list[str]]:
    """Return what differs from checksums and pages or is no part of them; and what is unread, as pages of foreign formats."""
    import reports
    from audit.execution import run_folder

    problems = run_folder.verify_folder(folder)
    differing = {line.partition(":")[0] for line in problems}
    formats, foreign_formats = _find_formats(audit_report)
    usual = reports.render(audit_report, formats)
    strange = run_folder.find_strange(folder, audit_report, usual)
    further = _further_pages(folder, set(strange) - differing, audit_report)
    contents = {name: content for name, content in (usual | further).items() if name not in differing}
    pages = ((name, _compare(folder / name, content, audit_report)) for name, content in contents.items())
    rest = {name: words for name, words in sorted(strange.items()) if name not in differing | set(further)}
    foreign = [name for name, words in rest.items() if foreign_formats and words == run_folder.NO_PART]
    unread = [f"{', '.join(foreign)}, perhaps of the format {' or '.join(foreign_formats)}"] if foreign else []
    strange_rows = ((name, words) for name, words in rest.items() if name not in foreign)
    return problems + [f"{name}: {problem}" for name, problem in (*pages, *strange_rows) if problem], unread


def _find_formats(report: AuditReport) -> tuple[list[str], list[str]]:
    """Return the formats of this package that a folder has, by the config of a run, and those that are code of others."""
    from audit.config import yaml_text
    from audit.core.results import USUAL_FORMATS

    config: Any = yaml_text.read(report.config)[0] if report.kind == "run" else None
    section = config.get("output") if isinstance(config, dict) else None
    names = section.get("formats") if isinstance(section, dict) else None
    formats = [str(name) for name in names] if isinstance(names, list) else list(USUAL_FORMATS)
    return list(dict.fromkeys(["json", *(name for name in formats if ":" not in name)])), [
        name for name in formats if ":" in name
    ]


def _further_pages(folder: Path, names: set[str], audit_report: AuditReport) -> dict[str, bytes]:
    """Return what those files should be that no run writes by itself: pages in other formats, languages and editions."""
    import reports
    from audit import plugins
    from reports.editions import external

    endings = {name: reports.suffix(name) for name in plugins.names(reports.PACKAGE)}
    contents, rendered = dict[str, bytes](), dict[tuple[str, str, str], dict[str, bytes]]()
    for path in map(Path, sorted(names)):
        stem, is_external, _ = path.stem.partition("-external")
        language = next((tag for tag in plugins.names("reports.words.languages") if stem.endswith(f"-{tag}")), "en")
        edition = folder / EXTERNAL
        report = load(edition) if is_external and edition.is_file() else audit_report
        if is_external and not (external.is_external(report) and len(report.mechanisms) == len(audit_report.mechanisms)):
            continue
        name = path.with_name(stem + path.suffix).as_posix()
        for kind, ending in endings.items():
            if ending in (path.suffix, f".{kind}"):  # without a suffix of its own a format may write several files
                key = (kind, language, is_external)
                rendered[key] = files = rendered.get(key) or reports.render(report, [kind], language)
                contents |= {path.as_posix(): files[name]} if name in files else {}
    return contents


def _signature_problems(source: Path, key: Path | None) -> list[str]:
    """Return what is wrong with a signature, or that there is no key to check it; of one file, if signed checksums lack it."""
    from audit.execution import run_folder, signature

    folder = source if source.is_dir() else source.parent
    sums = run_folder.SUMS
    if not source.is_dir() and (folder / run_folder.EXTERNAL_SUMS).is_file():
        sums = run_folder.EXTERNAL_SUMS if source.name in run_folder.read_sums(folder, run_folder.EXTERNAL_SUMS) else sums
    if key is None:
        signatures = [name for name in (run_folder.SIGNATURE, run_folder.EXTERNAL_SIGNATURE) if (folder / name).is_file()]
        return [f"{name}: not checked; give the signer's public key with --key" for name in signatures if source.is_dir()]
    if problem := signature.problem(folder, key, sums):
        return [problem]
    if source.is_dir() and (folder / run_folder.EXTERNAL_SUMS).is_file():  # it lists files that the other one need not
        further = set(run_folder.read_sums(folder, run_folder.EXTERNAL_SUMS)) - set(run_folder.read_sums(folder))
        problem = signature.problem(folder, key, run_folder.EXTERNAL_SUMS)
        return [f"{problem}; nothing else vouches for {', '.join(sorted(further))}"] if problem and further else []
    if source.is_dir() or run_folder.read_sums(folder, sums).get(source.name) == file_sha256(source):
        return []
    return [f"{source.name}: not as the signed {sums} says"]


def _compare(path: Path, content: bytes, audit_report: AuditReport | None) -> str:
    """Return why a file is not what the report renders to, now or in version 1.1, "" if it is."""
    from reports.formats import json

    if not path.is_file():
        return "missing"
    data = path.read_bytes()
    if data == content or (path.suffix == ".json" and data == json.without_messages(content)):
        return ""
    packages = _renderers(audit_report) if audit_report else []
    return f"not what report.json renders to here ({', '.join(packages)})" if packages else "not what report.json renders to"


def _renderers(audit_report: AuditReport) -> list[str]:
    """The rendering libraries with another version than when the report was written."""
    from importlib.metadata import version

    versions = dict(audit_report.provenance.packages)
    names = [name for name in ("typst", "matplotlib") if name in versions and versions[name] != version(name)]
    return [f"{name} {version(name)} here, {versions[name]} there" for name in names]
