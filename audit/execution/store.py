"""One folder a run: values kept under the hash of their inputs, outputs written once and whole.

While a run goes on its folder ends in `.partial`; it gets its name only after everything in it was
written, so a half-written run can never be taken for a finished one.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import re
import secrets
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from audit.core.data import Array
from audit.core.errors import ConfigError, DataError, OutputError
from audit.core.files import read_text, sync_folder, write_whole
from audit.core.version import __version__

LOG = logging.getLogger("audit")
PARTIAL = ".partial"
MANIFEST = "started.json"
LOCK = "lock"
PROBE = "probe"
SUMS = "SHA256SUMS"
SCRATCH = "scratch"
SPARE_BYTES = 64 * 2**20
OBSERVATIONS = "models"
PRIVATE = "private"
_KEY = ""  # stands for the value itself among the checksums of its arrays
RECORD_KEY = f"{PRIVATE}/record-key"
SIGNATURE = f"{SUMS}.sig"
NOT_LISTED = (SUMS, SIGNATURE, RECORD_KEY, MANIFEST, LOCK)
"""What `SHA256SUMS` leaves out: itself, the key of the records' names, which its owner may keep elsewhere, and what only an
unfinished run needs."""


@dataclass(slots=True, eq=False)
class Store:
    """The folder of one run, readable by its owner alone. Open with `start`, close with `finish` or `close`.

    Values lie in `models/`, which attacks are served from; those of `private` lie apart from them.
    """

    final: Path
    folder: Path
    created: str
    _lock: Any = field(repr=False, default=None)
    _values: str = OBSERVATIONS

    @classmethod
    def start(cls, final: Path, config_sha256: str, *, resume: bool = False) -> Store:
        """A new run folder, or the unfinished one of the same config where `resume` is set.

        Raises:
            ConfigError: the folder exists already, is in use, or belongs to another config.
            OutputError: it cannot be created or written to.
        """
        folder = final.with_name(final.name + PARTIAL)
        if os.path.lexists(final):
            raise ConfigError(f"'{final}' exists already; choose another --output, or remove it")
        if os.path.lexists(folder) and not resume:
            raise ConfigError(f"'{folder}' holds an unfinished run; continue it with --resume, or remove it")
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
            folder.chmod(0o700)
            (folder / OBSERVATIONS).mkdir(exist_ok=True)
            lock = open(os.open(folder / LOCK, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600), "w")  # noqa: SIM115 (held)
            write_whole(folder / PROBE, b"\0" * 4096)
            (folder / PROBE).unlink()
        except OSError as error:
            raise OutputError(f"cannot write to '{folder}': {error}; choose another --output") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ConfigError(f"'{folder}' is in use by another audit; wait for it or choose another --output") from error
        if os.path.lexists(final):  # finished by another audit since it was asked for above
            shutil.rmtree(folder)
            raise ConfigError(f"'{final}' exists already; choose another --output, or remove it")
        return cls(final, folder, _start(folder, config_sha256), lock)

    def bind_code(self, sources: Mapping[str, str]) -> None:
        """Writes down which code the run is of, by the hash of each source; later the same code is demanded.

        Raises:
            ConfigError: the run was started with other code, whose models must not share a bound with this one's.
        """
        path = self.folder / MANIFEST
        manifest = _read_started(path)
        before = manifest.setdefault("code", dict(sources))
        changes = sorted(name for name in {*before, *sources} if before.get(name) != sources.get(name))
        if changes:
            raise ConfigError(
                f"the source of {', '.join(changes)} has changed since '{self.folder}' was started; models of two codes must "
                "not share a bound: restore the code and continue with --resume, or start a new run"
            )
        _write(path, json.dumps(manifest).encode())

    def ensure_space(self, size: int) -> None:
        """Raise `OutputError` where the disk cannot take `size` more bytes."""
        free = shutil.disk_usage(self.folder).free
        if free < size + SPARE_BYTES:
            text = (
                f"{size / 2**20:.0f} MiB to write and {SPARE_BYTES / 2**20:.0f} MiB to spare, but {free / 2**20:.0f} MiB free"
            )
            text += f" at '{self.folder}'"
            raise OutputError(f"{text}; free some space or choose another --output")

    @property
    def private(self) -> Store:
        """The same folder for values that no attack may read, such as the coins."""
        return replace(self, _values=PRIVATE)

    def record_key(self, key: bytes | None = None) -> bytes:
        """The secret that the records' names are keyed with: given or drawn when first asked for, kept for `--resume`.

        Raises:
            ConfigError: another key was given when the run was started.
        """
        path = self.folder / RECORD_KEY
        if not path.exists():
            self.write(RECORD_KEY, key or secrets.token_hex(16).encode())
        stored_key = path.read_bytes().strip()
        if key is not None and stored_key != key:
            raise ConfigError(f"'{self.folder}' was started with another record key; give that one, or none")
        return stored_key

    def arrays(self, key: str, compute: Callable[[], Mapping[str, Array]]) -> Mapping[str, Array]:
        """Return what was stored under `key`, else the computed value, stored first."""
        if not self.intact(key):
            self.put(key, compute())
        return self.get(key)

    def put(self, key: str, value: Mapping[str, Array]) -> None:
        """Stores a value, whole or not at all, with a checksum of each of its arrays."""
        arrays = {name: np.asarray(array, order="C") for name, array in value.items()}
        sums = {name: _digest(array) for name, array in arrays.items()}
        self._path(key).parent.mkdir(exist_ok=True)
        sums[_KEY] = key  # in the same entry: safetensors writes several in an order of its own, each time another
        _write(self._path(key), save(arrays, metadata={"sha256": json.dumps(sums, sort_keys=True)}))

    def get(self, key: str, selects: Callable[[str], bool] | None = None) -> dict[str, Array]:
        """The arrays under `key`, or those whose name is wanted; no others are read.

        Raises:
            OutputError: there is none, or it is damaged.
        """
        path = self._path(key)
        try:
            with safe_open(path, framework="numpy") as file:
                sums = _sums(file.metadata() or {}, key, path)
                names = [name for name in file.keys() if selects is None or selects(name)]  # noqa: SIM118 (not a dict)
                value = {name: file.get_tensor(name) for name in names}
        except (SafetensorError, OSError, ValueError) as error:
            raise OutputError(f"cannot read '{path}': {error}; continue with --resume, which computes it again") from error
        for name, array in value.items():
            if sums.get(name) != _digest(array):
                raise OutputError(f"'{name}' in '{path}' is damaged; continue with --resume, which computes it again")
        return value

    def names(self, key: str) -> tuple[str, ...]:
        """Names of the arrays under `key`, sorted.

        Raises:
            OutputError: there is none, or it is damaged.
        """
        path = self._path(key)
        try:
            with safe_open(path, framework="numpy") as file:
                _sums(file.metadata() or {}, key, path)
                return tuple(sorted(file.keys()))
        except (SafetensorError, OSError, ValueError) as error:
            raise OutputError(f"cannot read '{path}': {error}; continue with --resume, which computes it again") from error

    def intact(self, key: str) -> bool:
        """True where a value is stored under `key` and agrees with its checksums."""
        if not self._path(key).exists():
            return False
        try:
            self.get(key)
        except OutputError as error:
            LOG.warning("%s", error)
            return False
        return True

    def scratch(self, name: str, shape: tuple[int, ...], dtype: Any) -> Array:
        """An array on disk for what memory need not hold; gone when the run is finished."""
        folder = self.folder / SCRATCH
        folder.mkdir(exist_ok=True)
        try:
            memory_map = np.lib.format.open_memmap(folder / f"{name}.npy", mode="w+", dtype=dtype, shape=shape)
        except OSError as error:
            raise OutputError(f"cannot write to '{folder}': {error}; free some space") from error
        return np.asarray(memory_map)

    def _path(self, key: str) -> Path:
        return self.folder / self._values / f"{key}.safetensors"

    def write(self, name: str, content: bytes) -> None:
        """One output file, whole or not at all."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, content)

    def abandon(self) -> None:
        """Removes the folder of a run that was refused before anything was computed; keeps any other."""
        if not any((self.folder / OBSERVATIONS).iterdir()):
            shutil.rmtree(self.folder)
        self.close()

    def close(self) -> None:
        """Gives the lock up; the folder stays unfinished."""
        self._lock.close()

    def finish(self) -> Path:
        """The final folder, after writing the checksums of every file and taking the partial name away.

        The lock is held until the folder has its name: whoever resumes it in between finds it in use.
        """
        shutil.rmtree(self.folder / SCRATCH, ignore_errors=True)
        files = _list_files(self.folder)
        rows = [f"{file_sha256(path)}  {path.relative_to(self.folder).as_posix()}\n" for path in files]
        self.write(SUMS, "".join(rows).encode())
        _make_private(self.folder)
        try:
            os.replace(self.folder, self.final)
            for name in (MANIFEST, LOCK):
                (self.final / name).unlink(missing_ok=True)
            sync_folder(self.final)
            sync_folder(self.final.parent)
        except OSError as error:
            raise OutputError(f"cannot rename '{self.folder}' to '{self.final}': {error}") from error
        self.close()
        return self.final


def verify_folder(folder: Path) -> list[str]:
    """Return what differs from `SHA256SUMS`: one line per changed, missing or added file; empty where all agree."""
    if not (folder / SUMS).is_file():
        return [f"{SUMS} is missing: the folder is not a finished run"]
    try:
        checksums = read_sums(folder)
    except DataError as error:
        return [str(error)]
    present = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}
    problems = [problem for name, checksum in sorted(checksums.items()) if (problem := _problem(folder, name, checksum))]
    return problems + [f"{name}: not in {SUMS}" for name in sorted(present - set(checksums) - set(NOT_LISTED))]


def _problem(folder: Path, name: str, checksum: str) -> str:
    """Return why a file is not the listed one, "" where it is."""
    if name.startswith("/") or ".." in name.split("/"):
        return f"{name}: outside of the folder"
    path = folder / name
    if not path.is_file():
        return f"{name}: missing"
    return "" if file_sha256(path) == checksum else f"{name}: changed"


def read_sums(folder: Path) -> dict[str, str]:
    """The checksums in `SHA256SUMS` by the names of the files.

    Raises:
        DataError: it is damaged.
    """
    path = folder / SUMS
    try:
        rows = [line.partition("  ") for line in read_text(path).splitlines() if line]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{SUMS}: cannot be read ({error})") from error
    bad = next((checksum for checksum, _, name in rows if not name or not re.fullmatch("[0-9a-f]{64}", checksum)), None)
    if bad is not None:
        raise DataError(f"{SUMS}: '{bad:.80}' is not a checksum of a file")
    return {name: checksum for checksum, _, name in rows}


def file_sha256(path: Path) -> str:
    """The sha256 of a file's bytes, hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def new_folder(directory: Path, name: str) -> Path:
    """A folder name for a run that starts now: `<UTC time>-<name>`."""
    return directory / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{name}"


def find_unfinished(directory: Path, config_sha256: str) -> Path | None:
    """The newest unfinished run of the same config below `directory`, by its final name; None where there is none.

    Raises:
        ConfigError: none is known to be of this config, and one that is damaged may be.
    """
    damage: ConfigError | None = None
    for folder in sorted(directory.glob(f"*{PARTIAL}"), reverse=True):
        if not (folder / MANIFEST).is_file():
            continue
        try:
            manifest = _read_started(folder / MANIFEST)
        except ConfigError as error:
            damage = damage or error
            continue
        if manifest["config_sha256"] == config_sha256:
            return folder.with_name(folder.name.removesuffix(PARTIAL))
    if damage is not None:
        raise damage
    return None


def _start(folder: Path, config_sha256: str) -> str:
    """Return when this run was first started; kept across resumes so that the report does not depend on interruptions."""
    path = folder / MANIFEST
    if path.exists():
        manifest = _read_started(path)
        _same_version(folder, manifest.get("version"))
        if manifest["config_sha256"] != config_sha256:
            raise ConfigError(f"'{folder}' was started with another config; choose another --output, or remove it")
        return str(manifest["created"])
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    time = datetime.now(UTC) if epoch is None else datetime.fromtimestamp(int(epoch), UTC)
    timestamp = f"{time:%Y-%m-%dT%H:%M:%SZ}"
    manifest = {"created": timestamp, "config_sha256": config_sha256, "version": __version__}
    _write(path, json.dumps(manifest).encode())
    return timestamp


def _same_version(folder: Path, version: object) -> None:
    """Raise `ConfigError` if another version of this package started the run."""
    if version != __version__:
        name = "a version before 0.1.0" if version is None else f"version {version}"
        raise ConfigError(
            f"'{folder}' was started by {name} of epsilon-audit and this is {__version__}; models of two versions "
            "must not share a bound: finish the run with its own version, or choose another --output"
        )


def _read_started(path: Path) -> dict[str, Any]:
    """Return what a run wrote down when it was started.

    Raises:
        ConfigError: it is damaged.
    """
    try:
        manifest = json.loads(path.read_bytes())
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


def _sums(metadata: Mapping[str, str], key: str, path: Path) -> dict[str, str]:
    """Return the checksums of the arrays in a file by name; `OutputError` where it was written for another key (a swap)."""
    sums = dict(json.loads(metadata.get("sha256", "{}")))
    if sums.pop(_KEY, None) != key:
        raise OutputError(f"'{path}' holds another value than its name says; --resume computes it again")
    return sums


def _digest(array: Array) -> str:
    digest = hashlib.sha256(f"{array.dtype}:{array.shape};".encode())
    digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _write(path: Path, content: bytes) -> None:
    try:
        write_whole(path, content)
    except OSError as error:
        raise OutputError(f"cannot write '{path}': {error}") from error


def _list_files(folder: Path) -> list[Path]:
    """The files that `SHA256SUMS` lists."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in files if path.relative_to(folder).as_posix() not in NOT_LISTED)


def _make_private(folder: Path) -> None:
    """Leave every folder and file to its owner alone, whoever wrote it and under whatever umask."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o700 if path.is_dir() else 0o600)


def write_outputs(final: Path, files: Mapping[str, bytes]) -> Path:
    """A finished folder with these files and their checksums, for audits that need no resuming.

    Raises:
        ConfigError: the folder exists already.
        OutputError: it cannot be written.
    """
    contents = hashlib.sha256(b"".join(name.encode() + content for name, content in sorted(files.items())))
    store = Store.start(final, contents.hexdigest(), resume=True)
    for name, content in files.items():
        store.write(name, content)
    (store.folder / OBSERVATIONS).rmdir()
    return store.finish()
