"""What was run against what was accounted for: steps, batch law, noise and clipping, as trainers measured them."""

from __future__ import annotations

import math

import numpy as np

from audit.core import event_reading
from audit.core.data import Array
from audit.core.event_reading import NoisySteps
from audit.core.events import Event
from audit.core.results import Check, Status
from audit.core.training import Executed
from audit.engine.clip_check import RECOMPUTATION_LIMIT

Z_LIMIT = 5.0  # standard errors beyond which an executed quantity counts as different: false alarm below 1e-6


def check_executed(mechanism: Event, executed: Executed) -> tuple[Check, ...]:
    """What the trainer measured of itself against the mechanism that the accountants were given.

    Steps must agree exactly. The batch law is compared through the mean and the dispersion of realised
    batch sizes, the noise through its realised standard deviation, each within five standard errors.
    """
    if not executed.measured:
        value = "nothing was measured: models were trained by the user's own function"
        return (Check(code="execution", item="What was run", value=value, status=Status.GAP),)
    checks = [_steps(mechanism, executed), *_batches(mechanism, executed)]
    claimed = event_reading.noisy_steps(mechanism)
    if claimed is not None:
        checks += [_noise(claimed, executed), _clip(executed), *_recomputed(executed), *_counts(executed)]
    else:
        checks += _recomputed_sums(executed)
    return tuple(checks)


def check_finite(diverged: Array) -> Check:
    """Whether all models `(N,)` stayed finite; signals of one that did not tell an attack nothing."""
    count = int(np.sum(diverged))
    if not count:
        value = f"all {len(diverged)} models stayed finite"
        return Check(code="finite", item="Training", value=value, status=Status.CHECKED)
    named = ", ".join(str(model) for model in np.flatnonzero(diverged)[:8])
    value = f"{count} of {len(diverged)} models diverged ({named}); their outputs count as the same for every record"
    return Check(code="finite", item="Training", value=value, status=Status.GAP)


def _steps(mechanism: Event, executed: Executed) -> Check:
    accounted = event_reading.steps(mechanism)
    value = f"{executed.steps} taken, {accounted} accounted"
    return _row("steps", "Steps", value, executed.steps == accounted)


def _batches(mechanism: Event, executed: Executed) -> list[Check]:
    rate, draws = event_reading.sample_rate(mechanism), executed.batch_sizes.size
    if draws == 0 or rate is None:  # None: no law of Poisson batches to hold them against
        return []
    expected = rate * executed.population[:, None]
    variance = expected * (1 - rate)
    found = float(executed.batch_sizes.mean() / executed.population.mean())
    if rate in (0.0, 1.0):
        exact = bool((executed.batch_sizes == expected).all())
        return [_row("sampling", "Sampling", f"every record in every step with probability {rate:g}", exact)]
    z = (executed.batch_sizes - expected) / np.sqrt(variance)
    mean_ok = abs(z.mean()) * math.sqrt(draws) < Z_LIMIT
    spread = float((z**2).mean())
    spread_ok = abs(spread - 1) * math.sqrt(draws / 2) < Z_LIMIT * (1 + 1 / float(variance.min()))
    return [
        _row("sampling", "Sampling rate", f"{found:.4g} realised, {rate:.4g} accounted", mean_ok),
        _row("sampling-law", "Sampling law", f"Poisson; realised variance {spread:.3f} of the law's", spread_ok),
    ]


def _noise(mechanism: NoisySteps, executed: Executed) -> Check:
    found = executed.noise_multiplier
    error = mechanism.noise_multiplier / math.sqrt(2 * max(executed.noise_draws, 1))
    off = float(np.abs(found - mechanism.noise_multiplier).max())
    value = f"noise multiplier {found.min():.4f} to {found.max():.4f} realised, {mechanism.noise_multiplier:.4f} accounted"
    return _row("noise", "Noise", value, off <= Z_LIMIT * error + 1e-4 * mechanism.noise_multiplier)


def _clip(executed: Executed) -> Check:
    largest = float(executed.largest_norm.max(initial=0.0))
    return _row("clipping", "Clipping", f"largest clipped gradient {largest:.6f} of the clip norm", largest <= 1 + 1e-4)


def _counts(executed: Executed) -> list[Check]:
    found = executed.count_noise
    if not len(found):
        return []
    value = f"noise on the counts of clipped examples {found.min():.3f} to {found.max():.3f} of the accounted"
    off = float(np.abs(found - 1).max())
    return [_row("count-noise", "Noise on counts", value, off <= Z_LIMIT / math.sqrt(2 * executed.steps))]


def _recomputed(executed: Executed) -> list[Check]:
    found = executed.recomputed[executed.recomputed >= 0]
    if not len(found):
        return []
    value = (
        f"clipped gradients of {len(found)} examples recomputed one at a time by plain autograd; "
        f"largest difference {_decade(float(found.max()))} of the clip norm"
    )
    return [_row("clipping-recomputed", "Clipping, recomputed", value, bool(found.max() <= RECOMPUTATION_LIMIT))]


def _recomputed_sums(executed: Executed) -> list[Check]:
    found = executed.recomputed[executed.recomputed >= 0]
    if not len(found):
        return []
    value = (
        f"summed gradients of {len(found)} models recomputed by plain autograd; "
        f"largest difference {_decade(float(found.max()))} of their norm"
    )
    return [_row("gradients-recomputed", "Gradients, recomputed", value, bool(found.max() <= RECOMPUTATION_LIMIT))]


def _decade(value: float) -> str:
    """The next power of ten, at least 1e-6: the last digits of rounding errors are not the same on every machine."""
    return f"below {10.0 ** max(-6, math.floor(math.log10(value)) + 1):.0e}" if 0 < value < math.inf else f"{value:g}"


def _row(code: str, item: str, value: str, holds: bool) -> Check:
    return Check(code=code, item=item, value=value, status=Status.CHECKED if holds else Status.FAILED)
