"""Servers as another framework has them, three methods each."""

from __future__ import annotations

import numpy as np

from audit.core.data import Array


class Averaging:
    """Clips whole updates, adds noise, divides by the planned number of clients."""

    def __init__(self, clients: float, noise_multiplier: float, clip_norm: float, seed: int) -> None:
        self.clients, self.deviation, self.clip_norm = clients, noise_multiplier * clip_norm, clip_norm
        self.random, self.round = np.random.default_rng(seed), 0

    def begin(self, model: Array) -> None:
        self.model, self.total = model.astype(np.float64), np.zeros(len(model))

    def receive(self, updates: Array) -> None:
        assert len(updates), "a call without updates, of which a server may take the mean"
        self.total += self.clip(updates.astype(np.float64)).sum(0)

    def clip(self, updates: Array) -> Array:
        updates = np.where(np.isfinite(updates).all(1, keepdims=True), updates, 0.0)
        norms = np.linalg.norm(updates, axis=1, keepdims=True)
        return np.asarray(updates * np.minimum(1, self.clip_norm / np.maximum(norms, 1e-12)))

    def noise(self) -> Array:
        return self.random.normal(0, self.deviation, len(self.model))

    def release(self) -> Array:
        self.round += 1
        self.model += (self.total + self.noise()) / self.clients
        self.total[:] = 0
        return self.model


class NoNoise(Averaging):
    def noise(self) -> Array:
        return np.zeros(len(self.model))


class Unclipped(Averaging):
    def clip(self, updates: Array) -> Array:
        return np.nan_to_num(updates)


class HalfNoise(Averaging):
    def noise(self) -> Array:
        return super().noise() / 2


class QuietLastRound(Averaging):
    def noise(self) -> Array:
        return super().noise() * (self.round < 12)


class NoiseByRound(Averaging):
    def noise(self) -> Array:
        return np.random.default_rng(self.round).normal(0, self.deviation, len(self.model))


class NoiseTwice(Averaging):
    """Each noise is used in two rounds, so that their difference has none."""

    def noise(self) -> Array:
        if self.round % 2 == 0 or self.round == 1:
            self.drawn = super().noise()
        return self.drawn


class OppositeNoise(Averaging):
    """The second half of the coordinates gets the noise of the first with the other sign."""

    def noise(self) -> Array:
        half = super().noise()[: len(self.model) // 2]
        return np.concatenate([half, -half])


class LetsNotFiniteIn(Averaging):
    """An update with NaN makes the model NaN."""

    def clip(self, updates: Array) -> Array:
        return np.where(np.isfinite(updates).all(1, keepdims=True), super().clip(updates), np.nan)


class FillsNotFinite(Averaging):
    """An update that is not finite becomes a clip norm in every coordinate."""

    def clip(self, updates: Array) -> Array:
        clipped = super().clip(updates)
        clipped[~np.isfinite(updates).all(1)] = self.clip_norm
        return clipped


class AddsSumForNotFinite(Averaging):
    """An update that is not finite counts as the sum of those before it."""

    def clip(self, updates: Array) -> Array:
        clipped = super().clip(updates)
        clipped[~np.isfinite(updates).all(1)] += self.total
        return clipped


class AddsMeanForNotFinite(Averaging):
    """An update that is not finite counts as the mean of its call: that of all others in it counts more than once."""

    def clip(self, updates: Array) -> Array:
        clipped, finite = super().clip(updates), np.isfinite(updates).all(1)
        clipped[~finite] = clipped[finite].mean(0) if finite.any() else 0.0
        return clipped


class HidesSumInDigits(Averaging):
    """The model is rounded to three places, and a millionth of the sum without noise stands behind them."""

    def release(self) -> Array:
        total = self.total.copy()
        return np.asarray(np.round(super().release(), 3) + 1e-6 * np.clip(total, -400, 400))


class WrongShape(Averaging):
    def release(self) -> Array:
        return super().release()[:-1]


class Complex(Averaging):
    def release(self) -> Array:
        return super().release() * (1 + 0j)


class NotFinite(Averaging):
    def release(self) -> Array:
        return super().release() * np.nan


class NoLicence(Averaging):
    def begin(self, model: Array) -> None:
        raise OSError("no licence")


class NeverReleases:
    def __init__(self, **settings: float) -> None:
        """Take any settings."""

    def begin(self, model: Array) -> None:
        """Do nothing."""

    def receive(self, updates: Array) -> None:
        """Do nothing."""
