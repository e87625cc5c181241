"""Functions that load models inside `audit.subjects._worker`: those of torch, and how the worker finds any of them."""

from __future__ import annotations

import importlib
import io
import logging
import warnings
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import torch

from audit.core.errors import DataError
from audit.data.source import DAMAGE
from audit.subjects import _torchscript_archive, _torchscript_source

Load = Callable[[bytes, str, torch.device], Callable[[torch.Tensor], Any]]


def torchscript(content: bytes, name: str, device: torch.device) -> Callable[[torch.Tensor], Any]:
    """The module of a rewritten archive, in evaluation mode, after its code and its graphs were vetted."""
    content = _torchscript_source.reprint(content, name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            module = torch.jit.load(io.BytesIO(content), map_location=device)
    except DAMAGE as error:
        raise _unreadable(name, error, "or use torch.export") from error
    _torchscript_archive.vet_graphs(module, name)
    module.eval()
    return lambda batch: module(batch.to(device))


def torch_export(content: bytes, name: str, device: torch.device) -> Callable[[torch.Tensor], Any]:
    """The program of a vetted archive."""
    logging.getLogger("torch.export").disabled = True  # it logs a traceback where it then raises
    try:
        module = torch.export.load(io.BytesIO(content)).module(check_guards=False).to(device)
    except DAMAGE as error:
        raise _unreadable(name, error, "or give a state dict with --factory") from error
    return lambda batch: module(batch.to(device))


def _unreadable(name: str, error: BaseException, way_out: str) -> DataError:
    reason = str(error).strip().partition("\n")[0]
    return DataError(
        f"{name} cannot be loaded by torch {torch.__version__}: {reason}. Save it again with this version, {way_out}"
    )


def loader(place: str) -> Load:
    """Return the function of a place `module:name`, such as `place_of` gives."""
    module, _, name = place.partition(":")
    load: Load = attrgetter(name)(importlib.import_module(module))
    return load


def place_of(load: Load) -> str:
    """Return `module:name` of a function that loads models, by which another process finds it."""
    return f"{load.__module__}:{load.__qualname__}"
