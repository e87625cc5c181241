"""What is in a run folder under which name, the checksums of a finished one, and what it must and may hold."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from audit.core.errors import DataError, OutputError
from audit.core.files import file_sha256, read_text, write_whole

if TYPE_CHECKING:
    from audit.core.results import AuditReport

PARTIAL = ".partial"
MANIFEST = "started.json"
LOCK = "lock"
SUMS = "SHA256SUMS"
PRIVATE = "private"
RECORD_KEY = f"{PRIVATE}/record-key"
SEED = f"{PRIVATE}/seed"
SIGNATURE = f"{SUMS}.sig"
# checksums of the files of an external edition alone: those of the run's folder commit to coins, seed and scores
EXTERNAL_SUMS = f"{SUMS}-external"
EXTERNAL_SIGNATURE = f"{EXTERNAL_SUMS}.sig"
# what `SHA256SUMS` leaves out: itself, key of the records' names and seed, which the owner may keep elsewhere, and what only
# an unfinished run needs
NOT_LISTED = (SUMS, SIGNATURE, EXTERNAL_SUMS, EXTERNAL_SIGNATURE, RECORD_KEY, SEED, MANIFEST, LOCK)
SCORES = "scores.parquet"
OF_RUNS = ("config.resolved.yaml", "environment.json", "audit.log", SCORES)
MODELS = r"models/[0-9a-f]{32}\.safetensors"
NO_PART = "not part of the run; keep files of your own elsewhere"
INTERRUPTED = "left by a run that was interrupted while its folder got its name; remove it"


def new_folder(directory: Path, name: str) -> Path:
    """A folder name for a run that starts now: `<UTC time>-<name>`."""
    return directory / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{name}"


def verify_folder(folder: Path) -> list[str]:
    """Return what differs from `SHA256SUMS`: one line per changed, missing or added file; empty if all agree."""
    if not (folder / SUMS).is_file():
        return [f"{SUMS} is missing: the folder is not a finished run"]
    try:
        checksums = read_sums(folder)
        if (folder / EXTERNAL_SUMS).is_file():
            checksums = read_sums(folder, EXTERNAL_SUMS) | checksums
    except DataError as error:
        return [str(error)]
    paths = [path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()]
    present = {path.relative_to(folder).as_posix() for path in paths}
    problems = [problem for name, checksum in sorted(checksums.items()) if (problem := _problem(folder, name, checksum))]
    problems += [f"{name}: a link; expected the file itself" for name in NOT_LISTED if (folder / name).is_symlink()]
    strange = sorted(present - set(checksums) - set(NOT_LISTED))
    return problems + [f"{name}: not part of the run (not in {SUMS}); keep files of your own elsewhere" for name in strange]


def _problem(folder: Path, name: str, checksum: str) -> str:
    """Return why a file is not the listed one, "" if it is."""
    if name.startswith("/") or ".." in name.split("/") or Path(name).as_posix() != name:
        return f"{name}: outside of the folder, or not the plain name of a file in it"
    path = folder / name
    if not path.is_file():
        return f"{name}: missing"
    if path.resolve() != folder.resolve() / name:
        return f"{name}: a link, or in a linked folder; expected the file itself"
    return "" if file_sha256(path) == checksum else f"{name}: changed"


def read_sums(folder: Path, sums: str = SUMS) -> dict[str, str]:
    """The checksums in `SHA256SUMS`, or another such file, by file; `DataError` if it is damaged or lists a file twice."""
    path = folder / sums
    try:
        text = read_text(path)
        rows = [line.partition("  ") for line in text.removesuffix("\n").split("\n") if text]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{sums}: cannot be read ({error})") from error
    names = [name for _, _, name in rows]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise DataError(f"{sums}: lists '{twice[0]:.80}' twice")
    bad = next((checksum for checksum, _, name in rows if not name or not re.fullmatch("[0-9a-f]{64}", checksum)), None)
    if bad is not None:
        raise DataError(f"{sums}: '{bad:.80}' is not a checksum of a file")
    return {name: checksum for checksum, _, name in rows}


def find_strange(folder: Path, report: AuditReport, pages: Iterable[str]) -> dict[str, str]:
    """Return by path in a folder, for each that no audit of the report's kind has, what is wrong with it.

    Args:
        pages: names of the files that the report renders to.
    """
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    files = {name for name, path in paths.items() if path.is_symlink() or not path.is_dir()}
    own = {SUMS, SIGNATURE, EXTERNAL_SUMS, EXTERNAL_SIGNATURE, RECORD_KEY, SCORES, *pages, *_run_files(report)}
    if report.kind == "run":
        own |= {SEED} | {name for name in files if re.fullmatch(MODELS, name)}
    strange = {name: INTERRUPTED if name in (MANIFEST, LOCK) else NO_PART for name in files - own}
    folders = {name for name in paths.keys() - files if not any(file.startswith(f"{name}/") for file in files)}
    return strange | dict.fromkeys(folders, f"an empty folder; {NO_PART}")


def find_missing(folder: Path, report: AuditReport) -> list[str]:
    """Return what every folder of a run has and this one lacks; pages are compared elsewhere."""
    missing = [f"{name}: missing; every run has it" for name in _run_files(report) if not (folder / name).is_file()]
    has_models = any((folder / "models").glob("*.safetensors"))
    trained = report.kind == "run" and any(result.models for result in report.mechanisms)
    return missing + ["models: missing; the run trained some"] * (trained and not has_models)


def _run_files(report: AuditReport) -> list[str]:
    """Return the files that every run has, but for pages; none of an audit of another kind."""
    pairs = [(result, game) for result in report.mechanisms for game in result.games]
    coins = [f"{PRIVATE}/coins-{result.name}-{game.name}.safetensors" for result, game in pairs]
    return [*OF_RUNS, *coins] if report.kind == "run" else []


def list_files(folder: Path) -> list[Path]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in files if path.relative_to(folder).as_posix() not in NOT_LISTED)


def write(path: Path, content: bytes) -> None:
    """Write one file, completely or not; `OutputError` if that fails."""
    try:
        write_whole(path, content)
    except OSError as error:
        raise OutputError(f"cannot write '{path}': {error}") from error
