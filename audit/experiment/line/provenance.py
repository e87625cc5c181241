"""Where a report comes from: command, versions, code and machine."""

import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from audit.core.provenance import Provenance
from audit.core.version import __version__
from audit.core.visible import without_passwords
from audit.experiment.games.settings import Settings, sha256

PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "pandas", "matplotlib", "dp-accounting", "typst", "pydantic")


def provenance(*, command: str, seed: int | None, config_sha256: str, device: str, threads: int) -> Provenance:
    """Versions, code and machine, as far as they matter for getting the same report again."""
    return Provenance(
        command=command,
        version=__version__,
        code_commit=_commit(),
        seed=seed,
        config_sha256=config_sha256,
        packages=tuple((name, _version(name)) for name in PACKAGES),
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.machine()}",
        device=device,
        threads=threads,
    )


def make_provenance(settings: Settings, config: str) -> Provenance:
    return provenance(
        command=settings.command,
        seed=settings.seed,
        config_sha256=sha256(config),
        device=settings.device,
        threads=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
    )


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _commit() -> str:
    """The commit of a source checkout, with a mark if files differ from it; "release" for an installed package."""
    root = Path(__file__).resolve().parents[3]
    if not (root / ".git").exists():
        return "release"
    if shutil.which("git") is None:
        return "unknown"
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    return process.stdout.strip() or "unknown"


def command_line(arguments: Sequence[str] | None = None) -> str:
    """The command as typed, for the report; the program's own path is left out, and so are passwords of URLs."""
    return without_passwords(" ".join(["audit", *(sys.argv[1:] if arguments is None else arguments)]))
