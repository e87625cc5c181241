"""Data inside scikit-learn, for quick starts without a download."""

import gzip
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import numpy as np

from audit.core.data import Array
from audit.core.errors import DataError
from audit.core.phrases import join_clauses, phrase
from audit.data.source import Part, Scaling, Source, array_sha256, class_labels

_DIGITS = "UCI optical recognition of handwritten digits (test part), embedded in scikit-learn"


def _read_table(name: str, header_rows: int = 0) -> tuple[Array, Array]:
    """Return inputs and labels of a file of scikit-learn's, without importing it, which takes most of a second."""
    package = find_spec("sklearn")
    places = package.submodule_search_locations if package is not None else None
    file = Path(*(places or ["sklearn"])[:1], "datasets", "data", name)
    try:
        content = file.read_bytes()
    except OSError as error:
        raise DataError(f"{file} cannot be read ({error}); install scikit-learn as constraints.txt pins it") from error
    lines = (gzip.decompress(content) if name.endswith(".gz") else content).decode().splitlines()
    table = np.loadtxt(lines[header_rows:], delimiter=",")
    return table[:, :-1], table[:, -1].astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Digits:
    """1,797 handwritten digits `(1, 8, 8)` that come with scikit-learn, divided by 16."""

    is_public: ClassVar[bool] = True

    def read(self) -> Source:
        inputs, labels = _read_table("digits.csv.gz")
        images = inputs.reshape(-1, 8, 8)
        return Source(
            origin=join_clauses((_DIGITS, phrase("divided by {factor}", factor=16))),
            sha256=array_sha256(images, labels),
            classes=10,
            main=Part(inputs=images[:, None], labels=class_labels(labels, 10, "digits")),
            scaling=Scaling(offset=np.zeros(()), unit=np.array(16.0)),
        )


# Upper limits of the ten cell measurements (mean, error, worst) of the Wisconsin breast cancer data, rounded up from the
# ranges in its published description; lower limits are 0. Constants: nothing is computed from the records at run time.
_MEAN_LIMITS = (30, 40, 200, 2600, 0.2, 0.4, 0.5, 0.25, 0.35, 0.1)
_ERROR_LIMITS = (3, 5, 25, 600, 0.035, 0.15, 0.4, 0.06, 0.08, 0.03)
_WORST_LIMITS = (40, 50, 260, 4500, 0.25, 1.1, 1.3, 0.3, 0.7, 0.25)


@dataclass(frozen=True, slots=True, kw_only=True)
class BreastCancer:
    """569 tumours with 30 measurements that come with scikit-learn, scaled to [-1, 1] by round public limits."""

    is_public: ClassVar[bool] = True

    def read(self) -> Source:
        inputs, labels = _read_table("breast_cancer.csv", header_rows=1)
        half = np.array(_MEAN_LIMITS + _ERROR_LIMITS + _WORST_LIMITS) / 2
        return Source(
            origin="UCI breast cancer Wisconsin (diagnostic), embedded in scikit-learn; scaled by round public limits",
            sha256=array_sha256(inputs, labels),
            classes=2,
            main=Part(inputs=inputs, labels=class_labels(labels, 2, "breast_cancer")),
            scaling=Scaling(offset=half, unit=half),
        )
