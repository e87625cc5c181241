"""Functions that load models inside `audit.core.confined.worker`: those of torch, and how the worker finds any of them."""

import dataclasses
import importlib
import io
import logging
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import torch

from audit.core.errors import DataError
from audit.data.source import DAMAGE
from audit.subjects import _pt2_archive, _torchscript_archive

Load = Callable[[bytes, str, torch.device], Callable[[torch.Tensor], Any]]


def torchscript(content: bytes, name: str, device: torch.device) -> Callable[[torch.Tensor], Any]:
    """The module of an archive, rewritten, in evaluation mode, after its code and its graphs were vetted."""
    content = _torchscript_archive.reprint(_torchscript_archive.rewrite(content, name), name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            module = torch.jit.load(io.BytesIO(content), map_location=device)
    except DAMAGE as error:
        raise _unreadable(name, error, "or use torch.export") from error
    _torchscript_archive.vet_graphs(module, name)
    module.eval()
    return lambda batch: module(batch.to(device))


@dataclass(frozen=True, slots=True, eq=False)
class DescribedModel:
    """A model, and what the audit has to know of it: plain facts, which leave the process as JSON."""

    call: Callable[[torch.Tensor], Any]
    facts: Mapping[str, Any]

    def __call__(self, batch: torch.Tensor) -> Any:
        return self.call(batch)


def torch_export(content: bytes, name: str, device: torch.device) -> DescribedModel:
    """The program of an archive, vetted, with the input that it takes."""
    content, program = _pt2_archive.vet(content, name)
    expected = _pt2_archive.only_input(program, name)
    logging.getLogger("torch.export").disabled = True  # it logs a traceback if it then raises
    try:
        module = torch.export.load(io.BytesIO(content)).module(check_guards=False).to(device)
    except DAMAGE as error:
        raise _unreadable(name, error, "or give a state dict with --factory") from error
    return DescribedModel(lambda batch: module(batch.to(device)), dataclasses.asdict(expected))


def _unreadable(name: str, error: BaseException, way_out: str) -> DataError:
    reason = str(error).strip().partition("\n")[0]
    return DataError(
        f"{name} cannot be loaded by torch {torch.__version__}: {reason}. Save it again with this version, {way_out}"
    )


def loader(place: str) -> Load:
    """Return the function of a place `module:name`, such as `loader_name` gives."""
    module, _, name = place.partition(":")
    load: Load = attrgetter(name)(importlib.import_module(module))
    return load


def loader_name(load: Load) -> str:
    """Return `module:name` of a function that loads models, by which another process finds it."""
    return f"{load.__module__}:{load.__qualname__}"
