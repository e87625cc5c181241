"""What a file with a trained model is, by its name and by what it holds."""

from __future__ import annotations

import zipfile
from pathlib import Path

from audit import plugins
from audit.core.errors import ConfigError

KINDS = plugins.names(plugins.FOLDERS["targets"])
_SUFFIXES = {
    ".pt2": "torch_export",
    ".ts": "torchscript",
    ".torchscript": "torchscript",
    ".jit": "torchscript",
    ".safetensors": "state_dict",
    ".npz": "predictions",
    ".csv": "predictions",
    ".gz": "predictions",
    ".parquet": "predictions",
}


def guess_kind(target: Path | None, has_factory: bool) -> str:
    """The kind of target that a path names, by its suffix and, for `.pt` and `.pth`, by what it holds.

    Raises:
        ConfigError: the suffix says nothing.
    """
    if target is None:
        return "predictions"
    if has_factory:
        return "state_dict"
    suffix = target.suffix.lower()
    if suffix in (".pt", ".pth"):
        is_script = target.is_file() and zipfile.is_zipfile(target) and _is_torchscript(target)
        return "torchscript" if is_script else "state_dict"
    if suffix not in _SUFFIXES:
        raise ConfigError(f"the suffix of '{target.name}' does not show its kind; add --kind {'|'.join(KINDS)}")
    return _SUFFIXES[suffix]


def _is_torchscript(path: Path) -> bool:
    with zipfile.ZipFile(path) as archive:
        return any(name.endswith("/constants.pkl") for name in archive.namelist())
