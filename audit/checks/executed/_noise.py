"""Standard deviation of the noise that was added, compared with the accounted one."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from audit.checks.executed._row import Z_LIMIT, row
from audit.core.event_reading import noisy_steps, sum_noise
from audit.core.events import Event
from audit.core.phrases import phrase
from audit.core.results import Check
from audit.core.training import Executed


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Standard deviation of the noise that was added, compared with the accounted one."""

    position: ClassVar[int] = 30

    def check(self, event: Event, execution: Executed) -> tuple[Check, ...]:
        accounted_noise = sum_noise(event)
        if accounted_noise is None:
            return ()
        noise = execution.noise_multiplier
        error = accounted_noise / math.sqrt(2 * max(execution.noise_draws, 1))  # of a deviation of so many normal numbers
        off = float(np.abs(noise - accounted_noise).max())
        value = phrase(
            "noise multiplier {low} to {high} realised, {accounted} accounted",
            low=f"{noise.min():.4f}",
            high=f"{noise.max():.4f}",
            accounted=f"{accounted_noise:.4f}",
        )
        # a ten-thousandth more, for sums in single precision
        return (row("noise", "Noise", value, off <= Z_LIMIT * error + 1e-4 * accounted_noise),)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountNoise:
    """Noise on the counts of clipped examples, if clipping releases such counts."""

    position: ClassVar[int] = 60

    def check(self, event: Event, execution: Executed) -> tuple[Check, ...]:
        realised_noise = execution.count_noise
        if noisy_steps(event) is None or not len(realised_noise):
            return ()
        value = phrase(
            "noise on the counts of clipped examples {low} to {high} of the accounted",
            low=f"{realised_noise.min():.3f}",
            high=f"{realised_noise.max():.3f}",
        )
        off = float(np.abs(realised_noise - 1).max())
        return (row("count-noise", "Noise on counts", value, off <= Z_LIMIT / math.sqrt(2 * execution.steps)),)


@dataclass(frozen=True, slots=True, kw_only=True)
class InsideClients:
    """Noise and clipping in the clients' own steps; a federation in which no client took part has nothing to look at."""

    position: ClassVar[int] = 65

    def check(self, event: Event, execution: Executed) -> tuple[Check, ...]:
        active = execution.inner_draws > 0
        if not active.any():
            return ()
        noise, largest = execution.inner_noise[active], float(execution.inner_norm.max())
        noise_text = f"noise inside clients {noise.min():.4f} to {noise.max():.4f} of the accounted"
        norm_text = f"largest clipped gradient of one record {largest:.6f} of the clip norm"
        errors = 1 / np.sqrt(2.0 * execution.inner_draws[active])
        return (
            row("inner-noise", "Noise inside clients", noise_text, bool((np.abs(noise - 1) <= Z_LIMIT * errors + 1e-4).all())),
            row("inner-clipping", "Clipping inside clients", norm_text, largest <= 1 + 1e-4),
        )
