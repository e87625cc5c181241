"""Adaptive clipping: the clip norm follows a quantile of the gradients' norms, privately."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from audit.core import checks
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.event_reading import NoisySteps
from audit.core.seeds import Seed
from audit.core.training import TrainingJob
from audit.engine.gradients.clipping import Clip, Clipping


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantile:
    """Options of adaptive clipping.

    Attributes:
        count_noise: standard deviation of the noise on the count of such examples; None takes a twentieth of the expected
            batch, or twice the noise multiplier if that is more.
    """

    target: float = 0.5  # share of the examples with a gradient that is to stay as it is
    rate: float = 0.2  # of the geometric update of the clip norm
    count_noise: float | None = None

    def __post_init__(self) -> None:
        checks.probability(self.target, "quantile")
        checks.positive(self.rate, "clip_rate")
        if self.count_noise is not None:
            checks.nonnegative(self.count_noise, "count_noise")

    def noise_on_count(self, mechanism: NoisySteps, expected_batch: float) -> float:
        """Standard deviation of the noise on the count of a batch of `expected_batch` examples."""
        if self.count_noise is not None:
            return self.count_noise
        # at two noise multipliers the count takes a sixteenth of the accounted inverse variance (`noise_on_sum`), above it less
        return 0.0 if mechanism.noise_multiplier == 0 else max(expected_batch / 20.0, 2.0 * mechanism.noise_multiplier)


def noise_on_sum(total: float, count: float) -> float:
    """Noise multiplier of the gradients' sum for which it and the count together are one release of multiplier `total`.

    An example moves the sum by at most one clip norm and the centred count by exactly 1/2. Both come from the same
    batch, so they are one Gaussian vector, and `total^-2 = sum^-2 + (2 count)^-2`, `count` being the deviation of the noise on
    the count.

    Raises:
        ConfigError: the count alone would cost more than is accounted.

    References:
        Andrew, Thakkar, McMahan, Ramaswamy 2021, arXiv 1905.03871, Theorem 1.

    >>> round(noise_on_sum(1.0, 1.0), 4)
    1.1547
    """
    if total == 0:
        return 0.0
    if 2.0 * count <= total:
        raise ConfigError(
            f"count_noise is {count:g} at a noise multiplier of {total:g}; the count of clipped examples alone would cost more "
            f"than that accounts for: take more than {total / 2.0:g}, or leave it out"
        )
    return float((total**-2 - (2.0 * count) ** -2) ** -0.5)


def together(sum_multiplier: float, count: float) -> float:
    """Noise multiplier of the one release that the sum and the count are; undoes `noise_on_sum`, leaves what is not finite.

    >>> round(together(noise_on_sum(1.3, 4.0), 4.0), 9)
    1.3
    """
    if not math.isfinite(sum_multiplier):
        return sum_multiplier
    if sum_multiplier == 0 or count == 0:
        return 0.0
    return float((sum_multiplier**-2 + (2.0 * count) ** -2) ** -0.5)


class AdaptiveNorms:
    """The clip norms of N models, `(N, 1)`, step after step.

    After a step in which a share b of the expected batch, read off with noise, had norms up to C, the clip norm
    becomes `C * exp(-rate * (b - target))`. Each example enters the count as +1/2 or -1/2, one without a finite gradient as 0.
    """

    def __init__(
        self, options: Quantile, mechanism: NoisySteps, expected_batch: float, seeds: tuple[Seed, ...], like: Tensor
    ) -> None:
        self._options = options
        self._expected_batch = max(expected_batch, 1e-300)  # a divisor, though no record may be expected
        self.count_noise = options.noise_on_count(mechanism, expected_batch)
        self.multiplier = noise_on_sum(mechanism.noise_multiplier, self.count_noise)
        self.norms = torch.full((len(seeds), 1), mechanism.clip_norm, dtype=like.dtype, device=like.device)
        # drawn on the host before the first step, so that no device or arrangement changes them
        self._noise_draws = torch.stack([_normal(seed, mechanism.steps) for seed in seeds], dim=1).to(like.device)
        self._halves = torch.zeros(len(seeds), dtype=torch.float64, device=like.device)
        self._step = 0
        self._squares = torch.zeros_like(self._halves)

    @property
    def clip(self) -> Clip:
        return Clip(norm=self.norms)

    def see(self, clipping: Clipping, mask: Tensor) -> None:
        below = (clipping.norms <= self.norms).double() - 0.5
        self._halves += torch.where(mask & clipping.norms.isfinite(), below, 0.0).sum(1)

    def step(self) -> None:
        """Releases the noisy counts of the step and moves the clip norms."""
        noisy = self._halves + self.count_noise * self._noise_draws[self._step]
        self._squares += (noisy - self._halves).square()
        share = noisy / self._expected_batch + 0.5
        factor = torch.exp(-self._options.rate * (share - self._options.target))
        self.norms = self.norms * factor.to(self.norms.dtype).unsqueeze(1)
        self._halves = torch.zeros_like(self._halves)
        self._step += 1

    def realised_count_noise(self) -> NDArray[np.float64]:
        """`(N,)` std of the noise that the released counts really had, over the accounted one; empty without such noise."""
        if self.count_noise == 0 or self._step == 0:
            return np.empty(0)
        noise: NDArray[np.float64] = (self._squares / self._step).sqrt().cpu().numpy() / self.count_noise
        return noise


def refuse_planted_gradients(job: TrainingJob) -> None:
    """Raise `UnsupportedMechanism` if the canaries of `job` are gradients.

    What an adversary sees along them would depend on a clip norm that depends on the other canaries, and
    the bounds of such games rest on a fixed one and on canaries that do not touch each other.
    """
    if job.canaries.are_gradients:
        raise UnsupportedMechanism(
            f"canaries '{job.canaries.kind}' are gradients planted at a fixed clip norm, under which each gets independent "
            "noise; adaptive clipping ties them together. Use clipping: flat, or canaries that are records"
        )


def _normal(seed: Seed, steps: int) -> Tensor:
    stream = torch.Generator().manual_seed(seed.child("count").integer())
    return torch.randn(steps, generator=stream, dtype=torch.float64)
