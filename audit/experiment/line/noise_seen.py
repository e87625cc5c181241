"""The noise of a federation as a party sees it, whatever the trainer's log says of it."""

from __future__ import annotations

import math

import numpy as np

from attacks.signals._rounds import ModelProducts, SumProducts, UpdateProducts
from audit.core.access import Access
from audit.core.event_reading import noisy_steps
from audit.core.results import Check, Status
from audit.experiment.games.observed import GameModels

_SEEN = {
    Access.EACH_UPDATE: UpdateProducts.key,
    Access.SECURE_SUM: SumProducts.key,
    Access.RELEASED_MODELS: ModelProducts.key,
}
_Z_LIMIT = 6.0


def look_at_noise(models: GameModels) -> tuple[Check, ...]:
    """Return whether canaries that sent nothing meet the noise that is accounted for, over all rounds and in each.

    Along orthogonal directions such inner products are independent normal draws with the deviation of the noise. Less than that
    fails; more protects better than is claimed. No row if the party is claimed nothing, or canaries are not orthogonal updates.
    """
    prepared = models.prepared_game
    noise, canaries = noisy_steps(prepared.training_design.mechanism), prepared.assignment.canaries
    key = _SEEN.get(prepared.game_design.access, "")
    values = models.observed.signals.get(key)
    if noise is None or not noise.noise_multiplier or values is None or not canaries.are_gradients or not canaries.orthogonal:
        return ()
    squares, count = np.zeros(values.shape[2]), 0
    for target in np.flatnonzero(~models.observed.diverged[: prepared.assignment.runs]):
        silent = ~np.asarray(prepared.assignment.included[target : target + 1])[0].astype(bool)
        squares += np.square(np.asarray(values[target], dtype=np.float64)[silent]).sum(axis=0)
        count += int(silent.sum())
    if not count:
        return ()
    ratios = squares / (count * noise.noise_multiplier**2)
    overall, quietest = float(ratios.mean()), float(ratios.min())
    deviations = (overall - 1) * math.sqrt(count * len(ratios) / 2), (quietest - 1) * math.sqrt(count / 2)
    value = (
        f"{math.sqrt(overall):.4f} of the accounted over all rounds, {math.sqrt(quietest):.4f} in the quietest of {len(ratios)}, "
        f"by the products of canaries that sent nothing"
    )
    status = Status.CHECKED if min(deviations) > -_Z_LIMIT else Status.FAILED
    return (Check(code="noise-seen", item="Noise in what was seen", value=value, status=status),)
