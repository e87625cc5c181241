"""A `.pt2` file written by `torch.export.save`."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from audit.core.data import Array
from audit.core.errors import DataError
from audit.data.source import DAMAGED, read_bytes
from audit.engine.device import find_device
from audit.engine.inference import BATCH_SIZE, batched_logits
from audit.subjects import _pt2_archive


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TorchExport:
    """An exported program that takes one batch of records and gives logits.

    Attributes:
        path: the file. Only a vetted copy of it is loaded: see `audit.subjects._pt2_archive`.
        batch_size: records at once, where the program takes any number.
    """

    path: str
    batch_size: int = BATCH_SIZE
    device: str = "cpu"
    _module: Any = field(init=False, repr=False)
    _fixed: int | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        name = Path(self.path).name
        copy, program = _pt2_archive.vetted(read_bytes(Path(self.path), "target"), name)
        object.__setattr__(self, "_fixed", _pt2_archive.fixed_batch(program, name))
        object.__setattr__(self, "_module", _loaded(copy, name).to(find_device(self.device)))

    def logits(self, inputs: Array) -> Array:
        """Outputs for `inputs` `(n, ...)`, `(n, classes)` float32."""
        fixed = self._fixed is not None
        size = self._fixed or self.batch_size
        return batched_logits(self._module, inputs, batch_size=size, device=self.device, fixed=fixed)


def _loaded(copy: bytes, name: str) -> Any:
    try:
        with _quiet("torch.export"):
            return torch.export.load(io.BytesIO(copy)).module(check_guards=False)
    except DAMAGED as error:
        raise DataError(
            f"{name} cannot be loaded by torch {torch.__version__}: {error}. Export the model again with this version, "
            "or give a state dict with --factory"
        ) from error


@contextmanager
def _quiet(logger: str) -> Iterator[None]:
    """The loader logs a traceback where it then raises; the error says it once."""
    log = logging.getLogger(logger)
    before = log.disabled
    log.disabled = True
    try:
        yield
    finally:
        log.disabled = before


PLUGIN = TorchExport
