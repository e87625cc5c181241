"""One figure of a record's outputs, for attacks that read no more of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.signals import _reductions
from audit.core import checks
from audit.core.canaries import Canaries
from audit.core.data import Array
from audit.core.models import Models


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFigures:
    """A figure of each record's outputs (`_reductions.FIGURES`); not a number if an output is not finite.

    Attributes:
        figure: its name: the entropy of the prediction, that which knows the label, the log odds of the predicted class, or
            the log of the length of the loss gradient in the outputs.
    """

    figure: str

    source = "outputs"

    def __post_init__(self) -> None:
        checks.choice(self.figure, "output_figures.figure", _reductions.FIGURES)

    @property
    def key(self) -> str:
        return f"{_reductions.OUTPUT_FIGURES}/{self.figure}"

    def size(self, classes: int, steps: int) -> int:
        """Numbers of 4 bytes that are kept of one canary under one model."""
        return 2

    def reduce(self, outputs: Array, first: Array, labels: Array) -> Array:
        """`(N, rows)` float64."""
        with np.errstate(invalid="ignore"):
            values = _reductions.FIGURES[self.figure](outputs, labels)
        return np.where(np.isfinite(outputs).all(axis=-1), values, np.nan)

    def read(self, models: Models, canaries: Canaries) -> Array | None:
        """`(N, m)` float64; None for canaries that are no records of one class each."""
        return _reductions.read(self, models, canaries)


PLUGIN = OutputFigures
