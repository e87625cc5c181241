"""What a folder of a finished audit holds in addition to pages: files that it must have, and those that it may have."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from audit.core.results import AuditReport
from audit.execution.run_folder import (
    EXTERNAL_SIGNATURE,
    EXTERNAL_SUMS,
    LOCK,
    MANIFEST,
    PRIVATE,
    RECORD_KEY,
    SEED,
    SIGNATURE,
    SUMS,
)

SCORES = "scores.parquet"
OF_RUNS = ("config.resolved.yaml", "environment.json", "audit.log", SCORES)
MODELS = r"models/[0-9a-f]{32}\.safetensors"
NO_PART = "not part of the run; keep files of your own elsewhere"
INTERRUPTED = "left by a run that was interrupted while its folder got its name; remove it"


def find_strange(folder: Path, report: AuditReport, pages: Iterable[str]) -> dict[str, str]:
    """Return by path in a folder, for each that no audit of the report's kind has, what is wrong with it.

    Args:
        pages: names of the files that the report renders to.
    """
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    files = {name for name, path in paths.items() if path.is_symlink() or not path.is_dir()}
    own = {SUMS, SIGNATURE, EXTERNAL_SUMS, EXTERNAL_SIGNATURE, RECORD_KEY, SCORES, *pages, *_files_of_runs(report)}
    if report.kind == "run":
        own |= {SEED} | {name for name in files if re.fullmatch(MODELS, name)}
    strange = {name: INTERRUPTED if name in (MANIFEST, LOCK) else NO_PART for name in files - own}
    folders = {name for name in paths.keys() - files if not any(file.startswith(f"{name}/") for file in files)}
    return strange | dict.fromkeys(folders, f"an empty folder; {NO_PART}")


def find_missing(folder: Path, report: AuditReport) -> list[str]:
    """Return what every folder of a run has and this one lacks; pages are compared elsewhere."""
    missing = [f"{name}: missing; every run has it" for name in _files_of_runs(report) if not (folder / name).is_file()]
    has_models = any((folder / "models").glob("*.safetensors"))
    trained = report.kind == "run" and any(result.models for result in report.mechanisms)
    return missing + ["models: missing; the run trained some"] * (trained and not has_models)


def _files_of_runs(report: AuditReport) -> list[str]:
    """Return the files that every run has, but for pages; none of an audit of another kind."""
    pairs = [(result, game) for result in report.mechanisms for game in result.games]
    coins = [f"{PRIVATE}/coins-{result.name}-{game.name}.safetensors" for result, game in pairs]
    return [*OF_RUNS, *coins] if report.kind == "run" else []
