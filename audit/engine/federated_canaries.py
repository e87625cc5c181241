"""Canaries of federated trainings: whole clients beside the others, or examples that some clients hold among their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from audit.core.access import ROUNDS
from audit.core.data import Array
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.seeds import Seed
from audit.core.training import TrainingJob
from audit.engine.federated_clients import Workers
from audit.engine.gradient_canaries import PlantedGradients

_CANARY_BATCH = 64
_OVERSIZE, _OVERWEIGHT = 1e4, 100  # what canary clients send before the clip, over the clip norm; records they claim to hold

Clipping = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""From whole updates and their weights to what enters the sum, and which were finite."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RoundSight:
    """What there is to see of one round of every federation, for an adversary who knows all honest clients' updates.

    Attributes:
        models: `(N, width)` models that clients were sent.
        present: `(N, clients + canary clients)` who takes part.
        residuals: by source, "sums" and "models": `(N, width)` what was released without what the adversary knows of it.
        released: `(N, width)` the models after the round.
        update_noise: noise multiplier of a single update as it arrives.
    """

    models: Tensor
    present: Tensor
    residuals: Mapping[str, Tensor]
    released: Tensor
    update_noise: float


class PlantedCanaries(Protocol):
    """What a federation plants and what parties see of it.

    Attributes:
        slots: canary clients beside the clients.
        owners: `(m,)` number of the client or canary client that decides in which cohort a canary is.
    """

    slots: int
    owners: Array

    def rows(self, held: Sequence[Array]) -> tuple[Array, Array]:
        """Return the records of each client `(N, clients, longest)`, padded by repeating, and their numbers `(N, clients)`."""

    def send(self, clip: Clipping, weight_of: Callable[[Tensor], Tensor], most_records: int) -> None:
        """Take the federation's own clipping and weighting for what canary clients send."""

    def add_sum(self, present: Tensor, total: Tensor) -> Tensor | None:
        """Add what canary clients send to `total` `(N, width)`; return their largest norm `(N,)`, None without them."""

    def arrive(self, owner: Tensor, client: Tensor, updates: Tensor) -> None:
        """Note honest clients' updates `(k, width)` as they enter the sum of federations `owner`."""

    def unknown(self) -> Tensor | None:
        """Return the part `(N, width)` of the honest clients' sum that hangs on canaries: adversaries do not know it."""

    def observe(self, sight: RoundSight) -> dict[str, Tensor]:
        """Return what parties see of each canary in this round `(N, m)`, by the names under which models keep it."""


class CanaryClients:
    """Gradient canaries as clients with slots of their own: those whose coin says so send their direction, the others zero.

    They do their worst: an update far beyond the clip norm and many records, through the same clipping and weighting as all
    others, so that what these let through shows.
    """

    def __init__(self, job: TrainingJob, workers: Workers, like: Tensor, clip_norm: float | None) -> None:
        self.clip_norm, self.scale = clip_norm, 1.0 if clip_norm is None else clip_norm
        self.planted = PlantedGradients(job.canaries, workers.layout, like, self.scale)
        self.slots, self.owners = self.planted.count, np.arange(self.planted.count)
        self.layout, self.width = workers.layout, workers.width
        self.included = torch.from_numpy(np.array(job.included, dtype=bool)).to(like.device)
        self.sources = ROUNDS & job.access.released
        self.streams = streams(job.seeds, "canary noise")
        self.uploads: Tensor | None = None

    def rows(self, held: Sequence[Array]) -> tuple[Array, Array]:
        """Return the clients' own records, the same in all federations."""
        rows, sizes = padded_rows(held)
        count = len(self.included)
        return np.broadcast_to(rows, (count, *rows.shape)), np.broadcast_to(sizes, (count, *sizes.shape))

    def send(self, clip: Clipping, weight_of: Callable[[Tensor], Tensor], most_records: int) -> None:
        """Make what each canary client adds to the sum `(m, width)`; canaries of one coordinate each are added as they are."""
        directions = self.planted.directions
        if directions is None:
            return
        worst = _OVERSIZE if self.clip_norm is not None else 1.0
        raw = torch.zeros(self.slots, self.width, device=directions.device)
        raw[:, : directions.shape[1]] = directions * (self.scale * worst)
        records = torch.full((self.slots,), float(_OVERWEIGHT * most_records), device=directions.device)
        self.uploads = clip(raw, weight_of(records))[0]

    def add_sum(self, present: Tensor, total: Tensor) -> Tensor | None:
        """Add the sum of the canary clients that take part and are in."""
        mask = present[:, -self.slots :] & self.included
        if self.uploads is None:
            norms = self.planted.add_sum(mask, self.clip_norm, total[:, : self.layout.width])
        else:
            total.addmm_(mask.to(total.dtype), self.uploads)
            norms = self.uploads.norm(dim=1) * mask
        return norms.amax(1)

    def arrive(self, owner: Tensor, client: Tensor, updates: Tensor) -> None:
        """Note nothing: no honest client's update hangs on a canary."""

    def unknown(self) -> Tensor | None:
        """Return None: adversaries know every honest update."""
        return None

    def observe(self, sight: RoundSight) -> dict[str, Tensor]:
        """Return inner products of what is seen with each direction, over the clip norm: the coin plus the noise along it."""
        signals = {
            f"{source}/products": self.planted.products(residual[:, : self.layout.width])
            for source, residual in sight.residuals.items()
            if source in self.sources
        }
        if "updates" in self.sources:
            signals["updates/products"] = self._arriving(sight.present[:, -self.slots :], sight.update_noise)
        return signals

    def _arriving(self, present: Tensor, deviation: float) -> Tensor:
        """Return inner products of what arrives from each canary's slot with its direction `(N, m)`, over the clip norm."""
        uploads = (present & self.included).float()
        if deviation == 0:
            return uploads
        width, columns = self.layout.width, self.layout.columns()
        for index, stream in enumerate(self.streams):
            for start in range(0, self.slots, _CANARY_BATCH):
                batch = min(_CANARY_BATCH, self.slots - start)
                noise = torch.zeros(batch, width)
                noise[:, columns] = torch.randn(batch, len(columns), generator=stream) * deviation * self.scale
                own = self.planted.own_products(noise.to(uploads.device), start)
                uploads[index, start : start + batch] += own * present[index, start : start + batch]
        return uploads


class CanaryExamples:
    """Records as canaries among those of the first `hosts` clients, dealt out in turn; a coin decides whether each is held.

    The adversary knows all other clients' updates, and of a host what it sends. It looks at the cosine between each example's
    gradient, at the model that clients were sent, and what it sees; and at how far the example's loss falls by it.

    Raises:
        ConfigError: more hosts than clients.
        UnsupportedMechanism: a model that keeps statistics of its batches, in which one example has no gradient of its own.

    References:
        Nasr, Shokri, Houmansadr 2019, arXiv 1812.00910 (passive global attacker). Li et al. 2022, arXiv 2202.10209 (cosine of
        gradients and updates).
    """

    slots = 0

    def __init__(self, job: TrainingJob, workers: Workers, like: Tensor, hosts: int) -> None:
        if workers.moved:
            raise UnsupportedMechanism(
                f"examples as canaries need a gradient of each alone, and the model keeps statistics of its batches "
                f"({', '.join(workers.moved)}); use a model without, or canary clients (signed_cosine)"
            )
        self.workers, self.hosts, self.seeds = workers, hosts, job.seeds
        self.included = np.array(job.included, dtype=bool)
        self.first = len(job.dataset.train)
        self.owners = np.arange(self.included.shape[1]) % hosts
        self.sources = ROUNDS & job.access.released
        self.streams = streams(job.seeds, "canary noise")
        self.host_updates = like.new_zeros(len(job.seeds), hosts, workers.width)
        self.scale = 1.0 if job.noisy is None else job.noisy.clip_norm

    def rows(self, held: Sequence[Array]) -> tuple[Array, Array]:
        """Return the records of each client of each federation, the hosts' with the canaries that are in."""
        if self.hosts > len(held):
            raise ConfigError(f"hosts is {self.hosts} of {len(held)} clients; expected at most as many")
        numbers = self.first + np.arange(len(self.owners))
        parts = []
        for coins in self.included:
            own = [np.concatenate([held[host], numbers[coins & (self.owners == host)]]) for host in range(self.hosts)]
            parts.append([*own, *held[self.hosts :]])
        longest = max(len(rows) for lists in parts for rows in lists)
        blocks = [padded_rows(lists, longest) for lists in parts]
        return np.stack([rows for rows, _ in blocks]), np.stack([sizes for _, sizes in blocks])

    def send(self, clip: Clipping, weight_of: Callable[[Tensor], Tensor], most_records: int) -> None:
        """Do nothing: no client is a canary."""

    def add_sum(self, present: Tensor, total: Tensor) -> Tensor | None:
        """Return None: canaries are in the honest clients' updates."""
        self.host_updates.zero_()
        return None

    def arrive(self, owner: Tensor, client: Tensor, updates: Tensor) -> None:
        """Keep the hosts' updates."""
        chosen = client < self.hosts
        self.host_updates[owner[chosen], client[chosen]] = updates[chosen]

    def unknown(self) -> Tensor | None:
        """Return the sum of the hosts' updates."""
        return self.host_updates.sum(1)

    def observe(self, sight: RoundSight) -> dict[str, Tensor]:
        """Return cosines of each example's gradient with what is seen, 0 where nothing is, and the falls of its loss."""
        vectors = {source: residual.unsqueeze(1) for source, residual in sight.residuals.items() if source in self.sources}
        if "updates" in self.sources:
            vectors["updates"] = self._noisy(sight)
        count, width = self.included.shape
        signals = {f"{source}/products": sight.models.new_zeros(count * width) for source in vectors}
        drops = {source: sight.models.new_zeros(count * width) for source in vectors if source != "sums"}
        for start in range(0, count * width, self.workers.slots):
            pairs = np.arange(start, min(start + self.workers.slots, count * width))
            model = torch.from_numpy(pairs // width).to(sight.models.device)
            canary = pairs % width
            before, records = sight.models[model], torch.from_numpy(self.first + canary).to(model.device)
            gradients, losses = self.workers.gradients(before, records), self.workers.losses(before, records)
            host = torch.from_numpy(self.owners[canary]).to(model.device)
            for source, views in vectors.items():
                vector = views[model, host if source == "updates" else torch.zeros_like(host)]
                signals[f"{source}/products"][start : start + len(pairs)] = _cosines(gradients, vector)
                if source in drops:
                    after = before - vector if source == "updates" else sight.released[model]
                    drops[source][start : start + len(pairs)] = losses - self.workers.losses(after, records)
        signals |= {f"{source}/loss_drops": values for source, values in drops.items()}
        return {name: values.view(count, width) for name, values in signals.items()}

    def _noisy(self, sight: RoundSight) -> Tensor:
        """Return the hosts' updates as they arrive `(N, hosts, width)`: with their own noise, zero from those not there."""
        present = sight.present[:, : self.hosts].unsqueeze(2)
        if sight.update_noise == 0:
            return self.host_updates * present
        noise = torch.zeros(self.host_updates.shape)
        columns = self.workers.columns.cpu()
        for index, stream in enumerate(self.streams):
            noise[index][:, columns] = torch.randn(self.hosts, len(columns), generator=stream)
        return (self.host_updates + noise.to(self.host_updates.device) * (sight.update_noise * self.scale)) * present


def _cosines(first: Tensor, second: Tensor) -> Tensor:
    """Return the cosine of each pair of rows, 0 where one of them is zero or not finite."""
    values: Tensor = (first * second).sum(1) / (first.norm(dim=1) * second.norm(dim=1)).clamp(min=1e-30)
    return torch.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)


def padded_rows(held: Sequence[Array], longest: int | None = None) -> tuple[Array, Array]:
    """Return rows of each client `(clients, longest)`, padded by repeating, which masks leave out, and their numbers."""
    sizes = np.array([len(rows) for rows in held])
    width = int(sizes.max()) if longest is None else longest
    return np.stack([np.resize(rows, width) for rows in held]), sizes


def streams(seeds: Sequence[Seed], name: str) -> list[torch.Generator]:
    """Return one generator for each federation, drawn on the host: the same numbers on every device."""
    return [stream(seed.child(name)) for seed in seeds]


def stream(seed: Seed) -> torch.Generator:
    """Return the generator of a seed."""
    generator = torch.Generator()
    generator.manual_seed(seed.integer())
    return generator
