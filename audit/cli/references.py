"""Reference models as files: outputs recorded in one npz, or a folder of models with who was trained on what."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from audit import plugins
from audit.cli.kinds import guess_kind
from audit.core.errors import DataError

if TYPE_CHECKING:
    from audit.experiment.inspection import References

MEMBERSHIP = "membership.npz"
_FORMS = ("logits", "probabilities", "losses")
_FEWEST = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True, kw_only=True)
class Options:
    """How files of models are read: those of weights alone, and those that hold a program, within limits."""

    weights: dict[str, Any]
    limits: dict[str, Any]

    def of(self, kind: str) -> dict[str, Any]:
        """Those for files of this kind; of a third party's, `package.module:Class`, the ones that the class takes."""
        if ":" not in kind:
            return self.weights if kind == "state_dict" else self.limits
        keys, _ = plugins.keys(plugins.find(plugins.FOLDERS["targets"], kind, "--kind"))
        return {name: value for name, value in (self.limits | self.weights).items() if name in keys}


def read_references(path: Path, kind: str | None, options: Options) -> References:
    """What `--references` names.

    Args:
        path: an npz with `included` `(k, n)` and one of `logits`, `probabilities` `(k, n, classes)` and `losses` `(k, n)`; or
            a folder with `membership.npz`, which holds `included`, and `k` files of models, in the order of their names.
        kind: of those files, as for the target; None guesses it from the suffix.
        options: for reading each of them, as for the target.

    Raises:
        DataError: something is missing, or does not fit.
    """
    from audit.experiment.inspection import References

    if path.is_dir():
        included = _arrays(path / MEMBERSHIP, ("included",))["included"]
        return References(included=included, models=_models(path, kind, options))
    arrays = _arrays(path, ("included",))
    forms = [form for form in _FORMS if form in arrays]
    if len(forms) != 1:
        raise DataError(f"{path} holds {', '.join(arrays)}; expected included and exactly one of {', '.join(_FORMS)}")
    values = np.asarray(arrays[forms[0]], np.float64)
    if forms[0] == "losses":
        return References(included=arrays["included"], losses=values)
    logits = values if forms[0] == "logits" else np.log(np.maximum(values, _FEWEST))
    return References(included=arrays["included"], logits=logits)


def _models(folder: Path, kind: str | None, options: Options) -> list[Any]:
    files = sorted(file for file in folder.iterdir() if file.is_file() and file.name != MEMBERSHIP)
    if not files:
        raise DataError(f"{folder} holds no model beside {MEMBERSHIP}; expected one file for each row of its 'included'")
    kinds = [kind or guess_kind(file, "factory" in options.weights) for file in files]
    return [
        plugins.build("audit.subjects", {"kind": kind, "path": str(file), **options.of(kind)})
        for file, kind in zip(files, kinds, strict=True)
    ]


def _arrays(path: Path, names: tuple[str, ...]) -> dict[str, Any]:
    from audit.data.archives import read_npz
    from audit.data.source import read_bytes

    arrays: dict[str, Any] = read_npz(read_bytes(path, "references"), path)
    missing = [name for name in names if name not in arrays]
    if missing:
        raise DataError(f"{path} lacks {', '.join(missing)}; it holds {', '.join(arrays)}")
    return arrays
