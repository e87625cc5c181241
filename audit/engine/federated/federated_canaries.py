"""Canaries of federated trainings: what all of them answer, and clients that send a crafted update."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from audit.core.access import ROUNDS
from audit.core.canaries import ClientBehaviour
from audit.core.data import Array
from audit.core.seeds import Seed
from audit.core.training import TrainingJob
from audit.engine.federated.federated_clients import Workers
from audit.engine.federated.gradient_canaries import PlantedGradients

_CANARY_BATCH = 64
_PLACES = [*(10.0**place for place in range(1, 7)), *(2.0**place for place in range(3, 20))]  # of single precision
_SAMPLE = 500  # parameters, by which a place is chosen
_UNIFORM = 0.15  # deviation of rests below which they are not uniform: theirs is 0.29
OVERSIZE, OVERWEIGHT = 1e4, 100  # what canary clients send before the clip, over the clip norm; records they claim to hold

# from whole updates and their weights to what enters the sum, and which were finite
Clipping = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RoundSight:
    """What there is to see of one round of every federation, for an adversary who knows all honest clients' updates.

    `counts` `(N,)` are what noisy counts of updates that are not clipped say beyond the honest clients' part; None without.
    """

    models: Tensor  # `(N, width)` models that clients were sent
    present: Tensor  # `(N, clients + canary clients)` who takes part
    residuals: Mapping[str, Tensor]  # of "sums" and "models": `(N, width)` what was released beyond what the adversary knows
    released: Tensor  # `(N, width)` the models after the round
    known_sum: Tensor  # `(N, width)` of the honest clients' updates
    update_noise: float  # noise multiplier of a single update as it arrives
    counts: Tensor | None = None


class PlantedCanaries(Protocol):
    """What a federation plants and what parties see of it."""

    slots: int  # canary clients beside the clients
    owners: Array  # `(m,)` number of the client or canary client that decides in which cohort a canary is

    def rows(self, client_rows: Sequence[Array]) -> tuple[Array, Array]:
        """Return the records of each client `(N, clients, longest)`, padded by repeating, and their numbers `(N, clients)`."""

    def send(self, clip: Clipping, client_weights: Callable[[Tensor], Tensor], most_records: int) -> None:
        """Take the federation's own clipping and weighting for what canary clients send."""

    def add_sum(self, present: Tensor, total: Tensor) -> Tensor | None:
        """Add what canary clients send to `total` `(N, width)`; return their largest norm `(N,)`, None without them."""

    def clipped_alone(self, present: Tensor) -> Tensor | None:
        """Return what the only canary client of each federation adds to a count `(N,)`; None if there are none or several.

        Several would move the clip norm of the clients, so they are not counted. Clip norms that move are audited by crafted
        updates alone.
        """

    def arrive(self, owner: Tensor, client: Tensor, updates: Tensor) -> None:
        """Note honest clients' updates `(k, width)` as they enter the sum of federations `owner`."""

    def unknown(self) -> Tensor | None:
        """Return the part `(N, width)` of the honest clients' sum that hangs on canaries, which adversaries do not know."""

    def observe(self, sight: RoundSight) -> dict[str, Tensor]:
        """Return what parties see of each canary in this round `(N, m)`, by the names under which models keep it."""


class CanaryClients:
    """Gradient canaries as clients with their own slots: those with a true coin send their direction, the others zero.

    They do their worst: an update far beyond the clip norm and many records, through the same clipping and weighting as all
    others, so that what these let through shows.
    """

    def __init__(self, job: TrainingJob, workers: Workers, like: Tensor, clip_norm: float | None) -> None:
        self.clip_norm, self.scale = clip_norm, 1.0 if clip_norm is None else clip_norm
        self.planted = PlantedGradients(job.canaries, workers.layout, like, self.scale)
        self.slots, self.owners = self.planted.count, np.arange(self.planted.count)
        self.layout, self.width, self.behaviour = workers.layout, workers.width, job.canaries.behaviour or ClientBehaviour()
        self.included = torch.from_numpy(np.array(job.included, dtype=bool)).to(like.device)
        self.sources = ROUNDS & job.access.released
        self.streams = streams(job.seeds, "canary noise")
        self.uploads: Tensor | None = None

    def rows(self, client_rows: Sequence[Array]) -> tuple[Array, Array]:
        return same_rows(client_rows, len(self.included))

    def send(self, clip: Clipping, client_weights: Callable[[Tensor], Tensor], most_records: int) -> None:
        """Make what each canary client adds to the sum `(m, width)`, unless it is one coordinate's index, added as it is."""
        if self.planted.directions is None:
            return
        records = torch.full((1,), float(OVERWEIGHT * most_records), device=self.included.device)
        self.clip, self.weight = clip, client_weights(records)
        self.uploads = self._entering(torch.arange(self.slots))[: self.slots]

    def _entering(self, numbers: Tensor) -> Tensor:
        """Return what canary clients, sent in one call, add to the sum, then what those beside them add."""
        raw = self.raw_updates(numbers, OVERSIZE if self.clip_norm is not None else 1.0)
        return self.clip(raw, self.weight.expand(len(raw)))[0]

    def raw_updates(self, numbers: Tensor, size: float) -> Tensor:
        """Return what canary clients send before a clip, so many clip norms long, then those beside them `(k, width)`."""
        length, planted, senders = self.scale * size, self.planted, len(numbers)
        like = planted.directions if planted.directions is not None else planted.norms
        raw = torch.zeros(senders + self.behaviour.beside, self.width, dtype=like.dtype, device=like.device)
        if planted.directions is not None:
            raw[:senders, : planted.directions.shape[1]] = planted.directions[numbers] * length
        elif planted.coordinates is not None:
            raw[torch.arange(senders), planted.coordinates[numbers]] = length
        first = 0 if not self.behaviour.finite else senders
        raw[first:, int(self.layout.columns()[0])] = torch.nan  # updates that are to count as zero
        return raw

    def add_sum(self, present: Tensor, total: Tensor) -> Tensor | None:
        mask = present[:, -self.slots :] & self.included
        if self.uploads is None:
            norms = self.planted.add_sum(mask, self.clip_norm, total[:, : self.layout.width])
        else:
            if self.behaviour.beside:  # a clip may make of NaN what others in its call send
                total += torch.stack([self._entering(senders.nonzero().flatten()).sum(0) for senders in mask])
            else:
                total.addmm_(mask.to(total.dtype), self.uploads)
            norms = self.uploads.norm(dim=1) * mask
        return norms.amax(1)

    def clipped_alone(self, present: Tensor) -> Tensor | None:
        """Return -1/2 for the one canary client if it takes part and is in: its update is far longer than any clip norm."""
        return (present[:, -1] & self.included[:, 0]).double() * -0.5 if self.slots == 1 else None

    def arrive(self, owner: Tensor, client: Tensor, updates: Tensor) -> None:
        """Note nothing: no honest client's update hangs on a canary."""

    def unknown(self) -> Tensor | None:
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
        if "models" in self.sources:
            against = -sight.released[:, : self.layout.width]  # models move against the sums
            signals["digits/products"] = self.planted.products(low_digits(against, self.layout.columns()))
            if self.slots == 1:
                signals["lengths/products"] = self._lengths(sight).float()
        if sight.counts is not None and self.slots == 1 and "models" in self.sources:
            signals["counts/products"] = (-2 * sight.counts).float().unsqueeze(1)
        return signals

    def _lengths(self, sight: RoundSight) -> Tensor:
        """Return squared lengths of what is not known `(N, 1)`; the part along the honest clients' sum counts sqrt(d) times.

        So both parts vary alike under noise, and an update that is taken for the sum so far shows too.
        """
        residual, honest_sum = sight.residuals["models"].double(), sight.known_sum.double()
        along = (residual * honest_sum).sum(1) / honest_sum.norm(dim=1).clamp(min=1e-30)
        weight = math.sqrt(len(self.layout.columns()))
        lengths: Tensor = (residual.square().sum(1) + weight * along.square()) / self.scale**2
        return lengths.unsqueeze(1)

    def _arriving(self, present: Tensor, deviation: float) -> Tensor:
        """Return inner products of what arrives from each canary's slot with its direction `(N, m)`, over the clip norm."""
        width, columns = self.layout.width, self.layout.columns()
        arrivals = (present & self.included).float()
        if self.uploads is not None:
            arrivals *= self.planted.own_products(self.uploads[:, :width], 0)
        if deviation == 0:
            return arrivals
        for index, stream in enumerate(self.streams):
            for start in range(0, self.slots, _CANARY_BATCH):
                batch = min(_CANARY_BATCH, self.slots - start)
                noise = torch.zeros(batch, width)
                noise[:, columns] = torch.randn(batch, len(columns), generator=stream) * deviation * self.scale
                own = self.planted.own_products(noise.to(arrivals.device), start)
                arrivals[index, start : start + batch] += own * present[index, start : start + batch]
        return arrivals


def low_digits(models: Tensor, columns: Tensor) -> Tensor:
    """Return what is left of parameters `columns` beyond one decimal or binary place, over its deviation, as wide as these.

    Of the places it is the one with the least uniform rests: what is hidden behind the noise's digits. Zero for a model with
    rests that all look uniform, as those of noisy numbers do.
    """
    scales = torch.tensor(_PLACES, dtype=torch.float64, device=models.device)
    sample = models[:, columns[:: max(1, len(columns) // _SAMPLE)]].double()
    deviations = _rests(sample * scales.view(-1, 1, 1)).std(dim=2, unbiased=False)
    deviation, place = torch.where(deviations > 0, deviations, torch.inf).min(0)
    digits = torch.zeros_like(models)
    for row in (deviation < _UNIFORM).nonzero().flatten().tolist():
        digits[row, columns] = (_rests(models[row, columns].double() * scales[place[row]]) / deviation[row]).to(digits.dtype)
    return digits


def _rests(values: Tensor) -> Tensor:
    return values - values.round()


def padded_rows(client_rows: Sequence[Array], longest: int | None = None) -> tuple[Array, Array]:
    """Return rows of each client `(clients, longest)`, padded by repeating, which masks leave out, and their numbers."""
    sizes = np.array([len(rows) for rows in client_rows])
    width = int(sizes.max()) if longest is None else longest
    return np.stack([np.resize(rows, width) for rows in client_rows]), sizes


def same_rows(client_rows: Sequence[Array], federations: int) -> tuple[Array, Array]:
    """Return the same for each federation: `(federations, clients, longest)` and `(federations, clients)`."""
    rows, sizes = padded_rows(client_rows)
    return np.broadcast_to(rows, (federations, *rows.shape)), np.broadcast_to(sizes, (federations, *sizes.shape))


def streams(seeds: Sequence[Seed], name: str) -> list[torch.Generator]:
    """Return one generator for each federation, drawn on the host: the same numbers on every device."""
    return [stream(seed.child(name)) for seed in seeds]


def stream(seed: Seed) -> torch.Generator:
    return torch.Generator().manual_seed(seed.integer())
