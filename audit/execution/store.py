"""One folder a run: values kept under the hash of their inputs, outputs written once and whole.

While a run continues its folder ends in `.partial`; it gets its name only after everything in it was
written, so a half-written run can never be taken for a finished one.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from audit.core.data import Array
from audit.core.errors import ConfigError, OutputError
from audit.core.files import file_sha256, read, sync_folder, write_whole
from audit.core.seeds import SHORTEST_SEED, new_seed
from audit.execution import manifest
from audit.execution.run_folder import LOCK, MANIFEST, PARTIAL, PRIVATE, RECORD_KEY, SEED, SUMS, list_files, write

LOG = logging.getLogger("audit")
PROBE = "probe"
SCRATCH = "scratch"
_ZEROS = 1 << 20  # bytes written at once
SPARE_BYTES = 64 * 2**20
OBSERVATIONS = "models"
_KEY = ""  # represents the value itself among the checksums of its arrays


@dataclass(slots=True, eq=False)
class Store:
    """The folder of one run, readable by its owner alone. Open with `start`, close with `finish` or `close`.

    Values are in `models/`, which attacks are served from; those of `private` are apart from them.
    """

    final: Path
    folder: Path
    created: str
    _lock: Any = field(repr=False, default=None)
    _values: str = OBSERVATIONS

    @classmethod
    def start(cls, final: Path, config_sha256: str, *, resume: bool = False) -> Store:
        """A new run folder, or the unfinished one of the same config if `resume` is set.

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
            lock = open(os.open(folder / LOCK, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600), "w")  # noqa: SIM115 (held)
        except OSError as error:
            raise OutputError(f"cannot write to '{folder}': {error}; choose another --output") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ConfigError(f"'{folder}' is in use by another audit; wait for it or choose another --output") from error
        try:
            write_whole(folder / PROBE, b"\0" * 4096)  # with the lock held: two audits would take it from each other
            (folder / PROBE).unlink()
        except OSError as error:
            raise OutputError(f"cannot write to '{folder}': {error}; choose another --output") from error
        if os.path.lexists(final):  # finished by another audit since it was asked for above
            shutil.rmtree(folder)
            raise ConfigError(f"'{final}' exists already; choose another --output, or remove it")
        shutil.rmtree(folder / SCRATCH, ignore_errors=True)  # of a run that was killed; no one reads it again
        return cls(final, folder, manifest.start(folder, config_sha256), lock)

    def ensure_space(self, size: int) -> None:
        """Raise `OutputError` if the disk cannot take `size` more bytes."""
        free = shutil.disk_usage(self.folder).free
        if free < size + SPARE_BYTES:
            raise OutputError(
                f"{size / 2**20:.0f} MiB to write and {SPARE_BYTES / 2**20:.0f} MiB to spare, but {free / 2**20:.0f} MiB free "
                f"at '{self.folder}'; free some space or choose another --output"
            )

    @property
    def private(self) -> Store:
        """The same folder for values that no attack may read, such as the coins."""
        return replace(self, _values=PRIVATE)

    def record_key(self, key: bytes | None = None) -> bytes:
        """The secret that the records' names are keyed with: given or drawn when first asked for, kept for `--resume`.
        `ConfigError` if the stored one is another, or cannot be read.
        """
        path = self.folder / RECORD_KEY
        if not os.path.lexists(path):
            self.write(RECORD_KEY, key or secrets.token_hex(16).encode())
        try:
            stored_key = read(path).strip()
        except OSError as error:
            raise ConfigError(
                f"cannot read the record key '{path}': {error.strerror}; expected the key that the run was "
                "started with; put it back, or remove what lies there and continue with --resume and --record-key"
            ) from error
        if key is not None and stored_key != key:
            raise ConfigError(f"'{self.folder}' was started with another record key; give that one, or none")
        return stored_key

    def seed(self) -> int:
        """The seed of a config without one, drawn once and kept for `--resume`; `ConfigError` if the stored one is damaged."""
        path = self.folder / SEED
        if not os.path.lexists(path):
            self.write(SEED, str(new_seed()).encode())
        try:
            seed = int(read(path))
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"cannot read the seed '{path}' ({error}); expected the whole number that the run was started with: put it "
                "back, or choose another --output"
            ) from error
        if seed < SHORTEST_SEED:
            raise ConfigError(f"'{path}' holds {seed}; expected at least 2**64: put the seed back, or choose another --output")
        return seed

    def put(self, key: str, value: Mapping[str, Array]) -> None:
        """Stores a value, completely or not, with a checksum of each of its arrays."""
        arrays = {name: np.asarray(array, order="C") for name, array in value.items()}
        sums = {name: _digest(array) for name, array in arrays.items()}
        self._path(key).parent.mkdir(exist_ok=True)
        sums[_KEY] = key  # in the same entry: safetensors writes several in its own order, each time another
        write(self._path(key), save(arrays, metadata={"sha256": json.dumps(sums, sort_keys=True)}))

    def get(self, key: str, selects: Callable[[str], bool] | None = None) -> dict[str, Array]:
        """The arrays under `key`, or those of the given names, or `OutputError` if they are damaged; no others are read."""
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
        """Names of the arrays under `key`, sorted; `OutputError` if there are none, or they are damaged."""
        path = self._path(key)
        try:
            with safe_open(path, framework="numpy") as file:
                _sums(file.metadata() or {}, key, path)
                return tuple(sorted(file.keys()))
        except (SafetensorError, OSError, ValueError) as error:
            raise OutputError(f"cannot read '{path}': {error}; continue with --resume, which computes it again") from error

    def intact(self, key: str) -> bool:
        """True where a value is stored under `key` and agrees with its checksums."""
        if not self._path(key).is_file():  # a pipe in its place would never end
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
        path = folder / f"{name}.npy"
        try:
            folder.mkdir(exist_ok=True)
            path.unlink(missing_ok=True)  # an array of that name keeps what it has while it is in use
            memory_map = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
            _allocate(path, memory_map.offset)
        except OSError as error:
            with contextlib.suppress(OSError):
                path.unlink()
            raise OutputError(f"cannot write to '{folder}': {error}; free some space") from error
        return np.asarray(memory_map)

    def _path(self, key: str) -> Path:
        return self.folder / self._values / f"{key}.safetensors"

    def write(self, name: str, content: bytes) -> None:
        """One output file, completely or not."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, content)

    def abandon(self) -> None:
        """Removes the folder of a run that was refused before anything was computed; keeps any other."""
        if not any((self.folder / OBSERVATIONS).iterdir()):
            shutil.rmtree(self.folder)
        self.close()

    def close(self) -> None:
        self._lock.close()

    def finish(self) -> Path:
        """The final folder, after writing the checksums of every file and taking the partial name away.

        The lock is held until the folder has its name: whoever resumes it in between finds it in use.
        """
        shutil.rmtree(self.folder / SCRATCH, ignore_errors=True)
        files = list_files(self.folder)
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


def _allocate(path: Path, start: int) -> None:
    """Take the disk's room from byte `start` on; a page that a full disk cannot take would end the process later."""
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
            return
        file.seek(start)  # macOS has no such call
        for place in range(start, size, _ZEROS):
            file.write(bytes(min(_ZEROS, size - place)))


def _sums(metadata: Mapping[str, str], key: str, path: Path) -> dict[str, str]:
    """Return the checksums of the arrays in a file by name; `OutputError` if it was written for another key (a swap)."""
    sums = dict(json.loads(metadata.get("sha256", "{}")))
    if sums.pop(_KEY, None) != key:
        raise OutputError(f"'{path}' holds another value than its name says; --resume computes it again")
    return sums


def _digest(array: Array) -> str:
    digest = hashlib.sha256(f"{array.dtype}:{array.shape};".encode())
    digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _make_private(folder: Path) -> None:
    """Leave every folder and file to its owner alone, whoever wrote it and under whatever umask."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o700 if path.is_dir() else 0o600)


def write_outputs(final: Path, files: Mapping[str, bytes]) -> Path:
    """A finished folder with these files and their checksums, for audits that need no resuming; errors as of `Store.start`."""
    contents = hashlib.sha256(b"".join(name.encode() + content for name, content in sorted(files.items())))
    store = Store.start(final, contents.hexdigest(), resume=True)
    for name, content in files.items():
        store.write(name, content)
    (store.folder / OBSERVATIONS).rmdir()
    return store.finish()
