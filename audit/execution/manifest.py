"""What an unfinished run says of itself: when it was started, with which config, by which code."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from audit.core import provenance
from audit.core.errors import ConfigError
from audit.core.files import read_json
from audit.core.version import __version__
from audit.execution.run_folder import MANIFEST, PARTIAL, write

LOG = logging.getLogger("audit")


def start(folder: Path, config_sha256: str) -> str:
    """Return when this run was first started, also if resumed; `ConfigError` if it is of another config or version."""
    path = folder / MANIFEST
    if path.exists():
        manifest = _read(path)
        _same_version(folder, manifest.get("version"))
        if manifest["config_sha256"] != config_sha256:
            raise ConfigError(f"'{folder}' was started with another config; choose another --output, or remove it")
        return str(manifest["created"])
    jobs = len(list(folder.glob("*/*.safetensors")))
    if jobs:
        LOG.warning(
            "'%s' holds %d finished jobs and nothing that says which version wrote them; those of this version (%s), code and "
            "config are taken, and all others are trained again",
            folder,
            jobs,
            __version__,
        )
    timestamp = provenance.timestamp()
    manifest = {"created": timestamp, "config_sha256": config_sha256, "version": __version__}
    write(path, json.dumps(manifest).encode())
    return timestamp


def bind_code(folder: Path, sources: Mapping[str, str]) -> None:
    """Write down which code the run is of, by the hash of each source; later `ConfigError` for other code."""
    path = folder / MANIFEST
    manifest = _read(path)
    before = manifest.setdefault("code", dict(sources))
    changes = sorted(name for name in {*before, *sources} if before.get(name) != sources.get(name))
    if changes:
        raise ConfigError(
            f"the source of {', '.join(changes)} has changed since '{folder}' was started; models of two codes must "
            "not share a bound: restore the code and continue with --resume, or start a new run"
        )
    write(path, json.dumps(manifest).encode())


def find_unfinished(directory: Path, config_sha256: str) -> Path | None:
    """The newest unfinished run of the same config below `directory`, by its final name; None if there is none.

    `ConfigError` if only one that is damaged, or of another version of this package, may be of this config.
    """
    damage: ConfigError | None = None
    of_versions: list[str] = []
    for folder in sorted(directory.glob(f"*{PARTIAL}"), reverse=True):
        if not (folder / MANIFEST).is_file():
            continue
        try:
            manifest = _read(folder / MANIFEST)
        except ConfigError as error:
            damage = damage or error
            continue
        if manifest["config_sha256"] == config_sha256:
            return folder.with_name(folder.name.removesuffix(PARTIAL))
        if manifest.get("version") != __version__:
            of_versions.append(f"'{folder}' by {_version_name(manifest.get('version'))}")
    if damage is not None:
        raise damage
    if of_versions:  # which writes a config down in other words, so that no one can tell whether it is the same
        raise ConfigError(
            f"no unfinished run of this config and of this version ({__version__}) under '{directory}', which holds unfinished "
            f"runs of others: {', '.join(of_versions)}; finish such a run with its own version, or start one without --resume, "
            "which trains all models again"
        )
    return None


def _same_version(folder: Path, version: object) -> None:
    if version != __version__:
        raise ConfigError(
            f"'{folder}' was started by {_version_name(version)} of epsilon-audit and this is {__version__}; models of two "
            "versions must not share a bound: finish the run with its own version, or choose another --output"
        )


def _version_name(version: object) -> str:
    return "a version before 0.1.0" if version is None else f"version {version}"


def _read(path: Path) -> dict[str, Any]:
    try:
        manifest = read_json(path)
    except (OSError, ValueError) as error:
        raise ConfigError(_damage_text(path, str(error))) from error
    code = manifest.get("code", {}) if isinstance(manifest, dict) else None
    if not isinstance(code, dict) or not all(isinstance(manifest.get(key), str) for key in ("created", "config_sha256")):
        raise ConfigError(_damage_text(path, "it lacks the time or the hash of the config"))
    return dict(manifest)


def _damage_text(path: Path, reason: str) -> str:
    return (
        f"'{path}', which says what config and code the run is of, is damaged ({reason}); if they are those you give now, "
        "remove that file and continue with --resume and --output: finished models are kept. Else choose another --output"
    )
