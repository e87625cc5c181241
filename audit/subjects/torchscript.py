"""A TorchScript file written by `torch.jit.save`."""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from audit.core.data import Array
from audit.core.errors import DataError
from audit.data.source import DAMAGED, read_bytes
from audit.engine.device import find_device
from audit.engine.inference import BATCH_SIZE, batched_logits

_REFUSED = re.compile(r"\b(?:torch|ops\.\w+)\.(from_file|save|load|load_library|_load_for_\w+)\(")
_NAMESPACE = re.compile(r"\bops\.(\w+)\.")
_NAMESPACES = ("aten", "prim", "prims", "inductor")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TorchScript:
    """A scripted or traced module, put in evaluation mode.

    Its code consists of torch operators, not of Python. Operators that read or write files and operators of
    other libraries are refused before anything is loaded.

    Attributes:
        path: the file.
        batch_size: records at once.
    """

    path: str
    batch_size: int = BATCH_SIZE
    device: str = "cpu"
    _module: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        name = Path(self.path).name
        content = read_bytes(Path(self.path), "target")
        _vet(content, name)
        object.__setattr__(self, "_module", _loaded(content, name, find_device(self.device)))

    def logits(self, inputs: Array) -> Array:
        """Outputs for `inputs` `(n, ...)`, `(n, classes)` float32."""
        return batched_logits(self._module, inputs, batch_size=self.batch_size, device=self.device)


def _vet(content: bytes, name: str) -> None:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            paths = {path.partition("/")[2]: path for path in archive.namelist()}
            if "constants.pkl" not in paths:
                found = "a plain torch.save file" if "data.pkl" in paths else "another archive"
                raise DataError(
                    f"{name} is {found}, not TorchScript. A pickled module could run code and is never loaded: save its "
                    "state_dict and give --kind state_dict with --factory, or export it with torch.export"
                )
            code = {inner: archive.read(path).decode() for inner, path in paths.items() if inner.endswith(".py")}
    except DAMAGED as error:
        raise DataError(f"{name} is no whole TorchScript archive: {error}. Expected what torch.jit.save writes") from error
    for inner, text in code.items():
        foreign = sorted({space for space in _NAMESPACE.findall(text) if space not in _NAMESPACES})
        match = _REFUSED.search(text)
        if match or foreign:
            what = f"{match.group(0)}...)" if match else f"operators of {', '.join(foreign)}"
            raise DataError(f"{name} is refused: its code ({inner}) calls {what}; export the plain classifier instead")


def _loaded(content: bytes, name: str, device: torch.device) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return torch.jit.load(io.BytesIO(content), map_location=device).eval()
    except DAMAGED as error:
        reason = str(error).strip().partition("\n")[0]
        raise DataError(
            f"{name} cannot be loaded by torch {torch.__version__}: {reason}. Save it again with this version, "
            "or use torch.export"
        ) from error


PLUGIN = TorchScript
