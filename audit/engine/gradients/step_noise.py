"""The noise that a step adds to the sums of N models: its source (DP-FTRL's is encoded), its scale and its size."""

from collections import deque
from collections.abc import Sequence

import torch
from torch import Tensor

from audit.core.event_reading import NoisySteps
from audit.engine.gradients.adaptive_clipping import AdaptiveNorms
from audit.engine.random.noise import NoiseSource


class Encoder:
    """C, applied to a sequence of rows or solved for it, one row after another.

    C is lower-triangular Toeplitz with `coefficients` as its first column. Row t of `inverse(C) z` is
    `(z_t - sum over j of c_j w_(t-j)) / c_0`, the w being the rows before, of which as many are kept as C has bands.
    """

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


class StepNoise:
    """Noise of the scale that was accounted for, of independent steps or correlated by an encoder with such coefficients.

    It moves with clip norms that are `adaptive`. `like` has the shape of the sums, `(N, width)`.
    """

    def __init__(
        self, source: NoiseSource, private: NoisySteps, adaptive: AdaptiveNorms | None, encoder: Sequence[float], like: Tensor
    ) -> None:
        self._source, self._decoder = source, Encoder(encoder) if encoder else None
        self._encoder = Encoder(encoder) if encoder else None
        self._private, self._adaptive = private, adaptive
        # the sum with noise, and the noise: kept, as fresh memory costs more than what is done in it
        self._noisy, self._noise = torch.zeros_like(like), torch.zeros_like(like)

    def add(self, total: Tensor, norms: Tensor) -> Tensor:
        """`total` with noise, overwritten by the next call; its norm, at the first clip norm, goes to `norms` `(N,)`.

        The norm is of what was really added, of correlated noise of what the encoder makes of it, which was accounted for.
        """
        if self._adaptive is None:
            scale = self._private.noise_multiplier * self._private.clip_norm
            numbers = self._source.step()
            numbers = numbers if self._decoder is None else self._decoder.solve(numbers)
            noisy = torch.add(total, numbers, alpha=scale, out=self._noisy)
            noise = torch.sub(noisy, total, out=self._noise)
            torch.linalg.vector_norm(noise if self._encoder is None else self._encoder.apply(noise), dim=1, out=norms)
            return noisy
        clip_norms = self._adaptive.norms
        noisy = torch.add(total, self._source.step() * (self._adaptive.multiplier * clip_norms), out=self._noisy)
        noise = torch.sub(noisy, total, out=self._noise).mul_(self._private.clip_norm / clip_norms)
        torch.linalg.vector_norm(noise, dim=1, out=norms)
        return noisy
