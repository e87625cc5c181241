"""Noise of DP-FTRL: independent Gaussian numbers z through the inverse of the encoder C, so that C gives them back."""

from collections import deque
from collections.abc import Sequence

import torch
from torch import Tensor

from audit.engine.random.noise import NoiseSource


class CorrelatedNoise:
    """The rows of `inverse(C) z`, step by step, C being lower-triangular Toeplitz with `coefficients` as its first column.

    Row t is `(z_t - sum over j of c_j w_(t-j)) / c_0`, the w being the rows before, of which as many are kept as C has bands.
    """

    def __init__(self, streams: NoiseSource, coefficients: Sequence[float]) -> None:
        self._streams = streams
        self._encoder = Encoder(coefficients)

    def step(self) -> Tensor:
        """`(N, width)` numbers of the next step."""
        return self._encoder.solve(self._streams.step())


class Encoder:
    """C, applied to a sequence of rows or solved for it, one row after another."""

    def __init__(self, coefficients: Sequence[float]) -> None:
        self._first, self._later = float(coefficients[0]), [float(value) for value in coefficients[1:]]
        self._past: deque[Tensor] = deque(maxlen=len(self._later))

    def apply(self, row: Tensor) -> Tensor:
        """Row t of `C rows`, from row t and those of the calls before."""
        total = torch.add(self._past_noise(row), row, alpha=self._first)
        self._past.appendleft(row.clone())
        return total

    def solve(self, row: Tensor) -> Tensor:
        """Row t of `inverse(C) rows`."""
        solution = (row - self._past_noise(row)).div_(self._first)
        self._past.appendleft(solution)
        return solution

    def _past_noise(self, like: Tensor) -> Tensor:
        total = torch.zeros_like(like)
        for coefficient, past in zip(self._later, self._past, strict=False):
            total.add_(past, alpha=coefficient)
        return total
