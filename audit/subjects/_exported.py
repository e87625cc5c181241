"""A `.pt2` file written by `torch.export.save`."""

import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import torch

from audit.core.confined.process import SECONDS
from audit.core.data import Array
from audit.data.source import read_bytes
from audit.engine.read.inference import BATCH_SIZE, batched_logits
from audit.subjects import _loading, _pt2_archive
from audit.subjects._confined import MEMORY_GIB, ModelProcess
from audit.subjects._loading import Load


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _TorchFile:
    """A file whose `load` runs, with torch, in a process of its own."""

    load: ClassVar[Load]

    path: str
    batch_size: int = BATCH_SIZE
    device: str = "cpu"
    seconds: float = SECONDS
    memory_gib: float = MEMORY_GIB
    _model: ModelProcess = field(init=False, repr=False)

    def __post_init__(self) -> None:
        content, name = read_bytes(Path(self.path), "target"), Path(self.path).name
        limits = {"seconds": self.seconds, "memory_gib": self.memory_gib}
        object.__setattr__(self, "_model", ModelProcess(type(self).load, content, name, device=self.device, **limits))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TorchExport(_TorchFile):
    """An exported program that takes one batch of records and gives logits, run in its own process.

    Attributes:
        path: the file. Only a vetted copy of it is loaded: see `audit.subjects._pt2_archive`.
        batch_size: records at once, if the program takes any number.
        seconds, memory_gib: limits on loading and on each batch; see `audit.core.confined.process`.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".pt2",)
    load: ClassVar[Load] = staticmethod(_loading.torch_export)

    _input: _pt2_archive.Input = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _TorchFile.__post_init__(self)
        object.__setattr__(self, "_input", _pt2_archive.input_stated(self._model.facts, Path(self.path).name))

    def logits(self, inputs: Array) -> Array:
        fixed_batch = self._input.batch
        dtype = getattr(torch, self._input.dtype)
        return batched_logits(
            self._model, inputs, batch_size=fixed_batch or self.batch_size, fixed_dtype=fixed_batch is not None, dtype=dtype
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TorchScript(_TorchFile):
    """A scripted or traced module, put in evaluation mode and run in its own process.

    Its code consists of torch operators, not of Python. The archive is rewritten before torch reads it, and every graph is held
    against an allow-list of operators (`audit.subjects._operators`) before it is run.

    Attributes:
        path: the file.
        batch_size: records at once.
        seconds, memory_gib: limits on loading and on each batch; see `audit.core.confined.process`.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".ts", ".torchscript", ".jit", ".pt", ".pth")
    load: ClassVar[Load] = staticmethod(_loading.torchscript)

    @staticmethod
    def recognises(path: Path) -> bool:
        """Return whether a file is a TorchScript archive: `.pt` and `.pth` are the suffixes of state dicts as well."""
        if not path.is_file():
            return False
        try:
            with zipfile.ZipFile(path) as archive:
                return any(name.endswith("/constants.pkl") for name in archive.namelist())
        except zipfile.BadZipFile:  # whoever reads it says what is wrong with it
            return False

    def logits(self, inputs: Array) -> Array:
        return batched_logits(self._model, inputs, batch_size=self.batch_size)
