"""The noise of a federation as a party sees it, whatever the trainer's log says of it."""

from __future__ import annotations

import math

import numpy as np

from attacks.signals._rounds import ModelProducts, SumProducts, UpdateProducts
from audit.core.access import Access
from audit.core.event_reading import noisy_steps
from audit.core.results import Check, Status
from audit.experiment.games.observed import GameModels
from audit.stats.whitening import energy_tail

_SIGNALS = {
    Access.EACH_UPDATE: UpdateProducts.key,
    Access.SECURE_SUM: SumProducts.key,
    Access.RELEASED_MODELS: ModelProducts.key,
}
_LEVEL = 1e-9  # of a false alarm, in each of three tests


def look_at_noise(models: GameModels) -> tuple[Check, ...]:
    """Return whether canaries that sent nothing meet the noise that is accounted for, over all rounds, in each, and each alone.

    Along orthogonal directions their inner products are independent normal draws with the deviation of the noise, so their
    squares add up to a chi-square number. Less than chance allows fails; more noise protects better than is claimed. No row if
    the party is claimed nothing, or canaries are not orthogonal updates.
    """
    game = models.prepared_game
    design, canaries = game.training_design, game.assignment.canaries
    noise = None if design is None else noisy_steps(design.mechanism)
    key = _SIGNALS.get(game.game_design.access, "")
    values = models.observed.signals.get(key)
    if noise is None or not noise.noise_multiplier or values is None or not canaries.payload.orthogonal:
        return ()
    energies = np.zeros((values.shape[1], values.shape[2]))
    counts = np.zeros(values.shape[1])
    for target in np.flatnonzero(~models.observed.diverged[: game.assignment.runs]):
        silent = ~np.asarray(game.assignment.included[target : target + 1])[0].astype(bool)
        energies[silent] += np.square(np.asarray(values[target], dtype=np.float64)[silent] / noise.noise_multiplier)
        counts += silent
    energies, counts = energies[counts > 0], counts[counts > 0]
    if not len(counts):
        return ()
    rounds, draws = int(energies.shape[-1]), int(counts.sum())
    by_round, by_canary = energies.sum(axis=0), energies.sum(axis=1) / (counts * rounds)
    quietest = int(np.argmin(by_canary))
    tails = (
        energy_tail(float(energies.sum()), draws * rounds),
        energy_tail(float(by_round.min()), draws) * rounds,
        energy_tail(float(energies[quietest].sum()), int(counts[quietest]) * rounds) * len(counts),
    )
    ratios = [math.sqrt(ratio) for ratio in (energies.sum() / (draws * rounds), by_round.min() / draws, by_canary[quietest])]
    value = (
        f"{ratios[0]:.4f} of the accounted for {draws} canaries that sent nothing, {ratios[1]:.4f} in the quietest of {rounds} "
        f"rounds, {ratios[2]:.4f} along the quietest direction"
    )
    status = Status.CHECKED if min(tails) > _LEVEL else Status.FAILED
    return (Check(code="noise-seen", item="Noise in what was seen", value=value, status=status),)
