"""Reference models: outputs recorded in one npz, a folder of models with who was trained on what, or a training function."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from audit import plugins
from audit.cli import progress
from audit.cli.targets import FOLDER, ReaderOptions, guess_kind
from audit.core.errors import ConfigError, DataError

if TYPE_CHECKING:
    from audit.experiment.external.inspection import References, ReferenceTraining

MEMBERSHIP = "membership.npz"
_FORMS = ("logits", "probabilities", "losses", "errors")
_FEWEST = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceOptions:
    """What the command line says of references: their path, or the function that trains them, perhaps `with_target`.

    `folder` keeps the outputs of models that are trained here.
    """

    path: Path | None
    train: str | None
    runs: int
    workers: int
    with_target: bool
    folder: Path

    def __post_init__(self) -> None:
        if self.path is not None and self.train is not None:
            raise ConfigError("both --references and --train are given; give models to compare with, or train them here")

    @contextmanager
    def open(self, kind: str | None, readers: ReaderOptions) -> Iterator[References | ReferenceTraining | None]:
        """The references, read or yet to be trained, with progress on stderr; `kind` is that of their files."""
        if self.train is None:
            yield None if self.path is None else read_references(self.path, kind, readers)
            return
        from audit.experiment.external.inspection import ReferenceTraining

        with progress.bar("training models", self.runs + self.with_target) as watcher:
            yield ReferenceTraining(
                train=self.train, runs=self.runs, workers=self.workers, folder=self.folder, progress=watcher.advance
            )


def read_references(path: Path, kind: str | None, options: ReaderOptions) -> References:
    """Return what `--references` names, or `DataError`; kind and options are those of files of models, as of the target.

    Args:
        path: an npz with `included` `(k, n)` and one of `logits`, `probabilities` `(k, n, classes)`, `losses` and `errors`
            `(k, n)`; or a folder with `membership.npz`, which holds `included`, and `k` files of models in order of names.
    """
    from audit.experiment.external.inspection import References

    if path.is_dir():
        included = _arrays(path / MEMBERSHIP)["included"]
        return References(included=included, models=_models(path, kind, options))
    arrays = _arrays(path)
    forms = [form for form in _FORMS if form in arrays]
    if len(forms) != 1:
        raise DataError(f"{path} holds {', '.join(arrays)}; expected included and exactly one of {', '.join(_FORMS)}")
    values = np.asarray(arrays[forms[0]], np.float64)
    if forms[0] == "losses":
        return References(included=arrays["included"], losses=values)
    if forms[0] == "errors":
        return References(included=arrays["included"], errors=values.reshape(*values.shape[:2], -1))
    logits = values if forms[0] == "logits" else np.log(np.maximum(values, _FEWEST))
    return References(included=arrays["included"], logits=logits)


def _models(folder: Path, kind: str | None, options: ReaderOptions) -> list[Any]:
    files = sorted(file for file in folder.iterdir() if file.is_file() and file.name != MEMBERSHIP)
    if not files:
        raise DataError(f"{folder} holds no model beside {MEMBERSHIP}; expected one file for each row of its 'included'")
    kinds = [kind or guess_kind(file, options.explicit) for file in files]
    return [
        plugins.build(FOLDER, {"kind": kind, "path": str(file), **options.of(kind)}, "--kind")
        for file, kind in zip(files, kinds, strict=True)
    ]


def _arrays(path: Path) -> dict[str, Any]:
    from audit.data.archives import read_npz
    from audit.data.source import read_bytes

    arrays: dict[str, Any] = read_npz(read_bytes(path, "references"), path)
    if "included" not in arrays:
        raise DataError(f"{path} lacks included; it holds {', '.join(arrays)}")
    return arrays
