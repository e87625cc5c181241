"""The noise that a step adds to the sums of N models: where it comes from, how it is scaled, how large it was."""

from collections.abc import Sequence

import torch
from torch import Tensor

from audit.core.event_reading import NoisySteps
from audit.engine.gradients.adaptive_clipping import AdaptiveNorms
from audit.engine.random.correlated_noise import CorrelatedNoise, Encoder
from audit.engine.random.noise import NoiseSource


class StepNoise:
    """Noise of the scale that was accounted for, of independent steps or correlated by an encoder.

    Args:
        source: standard normal numbers, independent from step to step.
        private: the noise multiplier and the clip norm at the start.
        adaptive: clip norms that move, with which noise moves; None if they stay.
        encoder: coefficients of correlated noise; none if steps are independent.
        like: a tensor of the shape of the sums, `(N, width)`.
    """

    def __init__(
        self, source: NoiseSource, private: NoisySteps, adaptive: AdaptiveNorms | None, encoder: Sequence[float], like: Tensor
    ) -> None:
        self._source = CorrelatedNoise(source, encoder) if encoder else source
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
            noisy = torch.add(total, self._source.step(), alpha=scale, out=self._noisy)
            noise = torch.sub(noisy, total, out=self._noise)
            torch.linalg.vector_norm(noise if self._encoder is None else self._encoder.apply(noise), dim=1, out=norms)
            return noisy
        clip_norms = self._adaptive.norms
        noisy = torch.add(total, self._source.step() * (self._adaptive.multiplier * clip_norms), out=self._noisy)
        noise = torch.sub(noisy, total, out=self._noise).mul_(self._private.clip_norm / clip_norms)
        torch.linalg.vector_norm(noise, dim=1, out=norms)
        return noisy
