"""The server's way from noisy mean to model: one that is no mean plus noise is judged by the area between releases."""

import itertools
import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from audit.core.data import Array
from audit.core.seeds import Seed
from audit.stats.bounds.least_favourable import auc_mu
from audit.step_checks.rounds.global_generators import seeded, set_generators
from audit.step_checks.rounds.replies import Replies
from audit.step_checks.tensors import Tensors, norm, spread, zeros

SMALL: Mapping[str, tuple[int, ...]] = {"weight": (12, 5), "bias": (5,), "scale": ()}
SLACK = 2e-3  # relative excess over a sensitivity that single precision and faint updates may cause
DITHERS = 24  # noises under which the influence on a processed mean is averaged
TRIALS, FEWEST, REPLIES = 200, 60, 8000  # releases on each side of a comparison: as many as that many replies allow
_ERRORS = 6.0  # standard errors
_TOLERANCE = 0.01  # relative, by which movements of a mean plus noise may differ
_EARLIER = 2  # rounds before the one in which a client's movement is looked at, at most


@dataclass(eq=False)
class Processing:
    """The server's way from the noisy mean to the model."""

    bench: Any  # a RoundBench, which makes this
    _references: dict[bytes, float] = field(default_factory=dict, init=False)

    @property
    def trials(self) -> int:
        return max(FEWEST, min(TRIALS, REPLIES // int(self.bench.claim.clients)))

    @cached_property
    def is_plain(self) -> bool:
        """True if the release is a mean plus noise, times a constant: one client moves it by its update, whatever the noise.

        A clip norm that adapts counts as such. Noise that no seed repeats leaves the rounds without noise.
        """
        bench = self.bench
        if bench.adaptive:
            return True
        random, size = np.random.default_rng(1), 0.25 * bench.claim.clip_norm  # servers may clip tensors apart
        seeds: list[int | None] = [None]
        replies = self._replies("faint", self._tensors(random.normal(size=_size()), size))
        if self._differences(replies, replies.updates, 3) is not None:
            first, second = self.release(replies, 3), self.release(replies, 3)
            seeds += [3, 4] if first is not None and second is not None and np.array_equal(first, second) else []
        directions = (*random.normal(size=(2, _size())), np.ones(_size()))
        for earlier in range(_EARLIER + 1):  # a server may process the means of several rounds together
            gains = []
            for seed, direction in itertools.product(seeds, directions):
                replies = self._replies("faint", self._tensors(direction, size))
                difference = self._differences(replies, self._replies("faint").updates, seed, earlier)
                if difference is None or not np.isfinite(difference).all():
                    return True
                unit_vector = direction / np.linalg.norm(direction)
                gain = float(unit_vector @ difference)
                if np.linalg.norm(difference - gain * unit_vector) > _TOLERANCE * max(abs(gain), 0.25 * bench.unit):
                    return False
                gains.append(gain)
            if not any(gains) or max(gains) - min(gains) > _TOLERANCE * max(map(abs, gains)):
                return False
        return True

    @cached_property
    def hides_client(self) -> bool:
        """True if the release is no mean plus noise, and in one round the noise hides a client as well as is claimed."""
        claim = self.bench.claim.noise_multiplier
        return claim > 0 and not self.is_plain and self.noise_over_influence >= claim

    def _tensors(self, values: Array, size: float) -> Tensors:
        """Return numbers, in order, as an update of that norm."""
        values, tensors, start = values * (size / np.linalg.norm(values)), {}, 0
        for name, shape in SMALL.items():
            count = math.prod(shape)
            tensors[name] = values[start : start + count].reshape(shape).astype(np.float32)
            start += count
        return tensors

    def _replies(self, kind: str, update: Tensors | None = None) -> Replies:
        faint = spread(SMALL, 1e-6 * self.bench.claim.clip_norm)
        return Replies(updates=[update or faint, *self.bench.background(kind, SMALL)], start=zeros(SMALL))

    def release(self, replies: Replies, seed: int | None, earlier: int = 0) -> Array | None:
        """Return how far a round moves the model, under the noise of a seed or without noise; None if it is refused.

        So many `earlier` rounds, in which the client sends next to nothing, are played on the same strategy.
        """
        live, movement = self.bench.copied(), None
        if seed is not None:
            set_generators(live, Seed(seed))
        with nullcontext() if seed is None else seeded(seed):
            for number in range(1, earlier + 2):
                round_replies = replies if number > earlier else self._replies("faint")
                movement = self.bench.play(round_replies, quiet=seed is None, strategy=live, number=number).moved
        return None if movement is None else np.concatenate([value.ravel() for value in movement.values()])

    def _differences(self, replies: Replies, neighbours: Sequence[Tensors], seed: int | None, earlier: int = 0) -> Array | None:
        """Return by how much two rounds under the same noise are apart."""
        pair = (replies, replace(replies, updates=neighbours))
        first, second = (self.release(replies, seed, earlier) for replies in pair)
        return None if first is None or second is None else first - second

    def mean_distance(self, replies: Replies, neighbours: Sequence[Tensors]) -> float:
        """Return how far two rounds are apart on average over noise that both have: noise undoes what rounding adds.

        The square of a mean is taken without bias, from products of differences under different noise.
        """
        parts = [self._differences(replies, neighbours, seed) for seed in range(DITHERS)]
        differences = [part for part in parts if part is not None]
        if len(differences) < DITHERS:
            return math.inf
        total = float(np.square(np.sum(differences, axis=0)).sum() - np.square(differences).sum())
        return math.sqrt(max(0.0, total / (DITHERS * (DITHERS - 1)))) if math.isfinite(total) else math.inf

    def reference(self, update: Tensors) -> float:
        """Return how far an update moves the model on average that goes the same way and needs no clipping."""
        finite = {name: np.nan_to_num(value.astype(np.float64), posinf=0, neginf=0) for name, value in update.items()}
        size, clip = norm(finite), self.bench.claim.clip_norm
        near = {name: (value * min(1.0, clip * (1 - SLACK) / size)).astype(np.float32) for name, value in finite.items()}
        shapes = {name: value.shape for name, value in update.items()}
        faint, background = spread(shapes, 1e-6 * clip), self.bench.background("faint", shapes)
        start = {name: np.zeros_like(value) for name, value in update.items()}
        replies = Replies(updates=[near, *background], start=start)
        key = replies.digest()
        if key not in self._references:
            self._references[key] = self.mean_distance(replies, [faint, *background])
        return self._references[key]

    @cached_property
    def noise_over_influence(self) -> float:
        """Return an upper confidence bound on the noise over one client's change in one round, in the clearest direction."""
        random, neighbour_rounds = np.random.default_rng(2), {}
        for kind in ("faint", "split", "alike"):
            neighbour_rounds[kind] = self._sample_releases(self._replies(kind), 10_000)
        silent = neighbour_rounds["faint"]
        constant, starts = np.ones(_size()), np.cumsum([0, *map(math.prod, SMALL.values())])
        directions = [(kind, constant) for kind in neighbour_rounds] + [
            ("faint", direction) for direction in random.normal(size=(2, _size()))
        ]
        for start, end in itertools.pairwise(starts):
            directions.append(("faint", constant * ((np.arange(_size()) >= start) & (np.arange(_size()) < end))))
        directions.append(("faint", np.eye(_size())[0]))
        if silent is not None and np.isfinite(silent).all():
            directions.append(("faint", np.linalg.eigh(np.cov(silent.T))[1][:, 0]))  # the direction with the least noise
        share = min(1.0, float(self.bench.claim.noise_multiplier))
        ratios = []
        for kind, direction in directions:
            replies = self._replies(kind, self._tensors(direction, share * self.bench.claim.clip_norm))
            ratios.append(self._ratio(replies, self._replies(kind).updates, neighbour_rounds[kind]))
            if share * ratios[-1] < self.bench.claim.noise_multiplier / 2:
                break
        return share * min(ratios)

    def _ratio(self, replies: Replies, neighbours: Sequence[Tensors], silent: Array | None) -> float:
        parts = [self._differences(replies, neighbours, seed) for seed in range(DITHERS)]
        client_releases = self._sample_releases(replies, 20_000)
        if silent is None or client_releases is None:
            return math.inf
        return ratio_bound(client_releases, silent, np.mean([part for part in parts if part is not None], axis=0))

    def _sample_releases(self, replies: Replies, first_seed: int) -> Array | None:
        """Return releases under as many seeds, `(trials, entries)`; None if a round is refused."""
        rows = [self.release(replies, first_seed + number) for number in range(self.trials)]
        released = [row for row in rows if row is not None]
        return np.stack(released) if len(released) == len(rows) else None

    @cached_property
    def lacks_noise(self) -> bool:
        """True if rounds of a mean plus noise have none in some combination of entries, at a chance of 1e-9.

        The least eigenvalue of n rounds' covariance of d entries with variance 1 or more is below (1 - sqrt(d/n) - t)^2 with
        chance exp(-n t^2 / 2) at most (Davidson and Szarek 2001).
        """
        samples = self.bench.noise_samples
        if not samples or self.bench.adaptive:
            return False
        joint = np.concatenate(list(samples.values()), axis=1)
        rounds = len(joint)
        joint = joint[:, : max(2, rounds // 4)]
        edge = 1 - math.sqrt(joint.shape[1] / rounds) - math.sqrt(2 * math.log(1e9) / rounds)
        if edge <= 0 or not np.isfinite(joint).all():
            return False
        joint = joint / np.maximum(joint.std(axis=0), 1e-12)  # what is scaled apart is judged entry by entry
        return float(np.linalg.eigvalsh(joint.T @ joint / rounds)[0]) < edge**2


def ratio_bound(first: Array, second: Array, difference: Array) -> float:
    """Return an upper confidence bound on 1 / mu, from the areas by which simple statistics separate two samples of releases.

    Under mu-GDP no statistic wins more than Phi(mu / sqrt 2) of pairs. Statistics: the product with a difference, over each
    entry's variance; the sum of squares; the largest and the least size of an entry, and how many are zero.

    Args:
        first: releases with the client, `(n, entries)`.
        second: releases without it.
        difference: that it makes on average.
    """
    usable = np.isfinite(first).all(axis=0) & np.isfinite(second).all(axis=0) & np.isfinite(difference)
    first, second, difference = first[:, usable], second[:, usable], difference[usable]
    if not difference.size:
        return math.inf
    deviations = np.sqrt((first.var(axis=0) + second.var(axis=0)) / 2)
    spread = np.maximum(deviations, 1e-6 * np.abs(second).max(initial=1e-30))
    mus = [0.0]
    for read in (
        lambda rows: rows @ (difference / spread**2),
        lambda rows: np.square(rows / spread).sum(axis=1),
        lambda rows: np.abs(rows).max(axis=1),
        lambda rows: np.abs(rows).min(axis=1),
        lambda rows: (rows == 0).sum(axis=1).astype(float),
    ):
        mus.append(auc_mu(max(0.5, _least_area(read(first), read(second)))))
    return 1 / max(mus) if max(mus) else math.inf


def _least_area(first: Array, second: Array) -> float:
    """Return the area under the curve, turned to be above a half, less its standard errors (DeLong et al. 1988)."""
    wins: Any = (first[:, None] > second).astype(float) + 0.5 * (first[:, None] == second)
    wins = wins if wins.mean() >= 0.5 else 1 - wins
    error = math.sqrt(wins.mean(axis=1).var(ddof=1) / len(first) + wins.mean(axis=0).var(ddof=1) / len(second))
    return min(float(wins.mean()), 1 - 1 / len(first)) - _ERRORS * error


def _size() -> int:
    return sum(math.prod(shape) for shape in SMALL.values())
