"""Federated averaging of N federations at once: clients in slots of one ensemble, clipped sums, noise as planned."""

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from audit import plugins
from audit.core.data import Array
from audit.core.errors import UnsupportedMechanism
from audit.core.seeds import Seed
from audit.core.training import Progress, TrainedModels, TrainingJob
from audit.engine.device import find_device, keep_freed_memory
from audit.engine.federated.adaptive_clip import ClipNorms
from audit.engine.federated.federated_canaries import CanaryClients, PlantedCanaries, RoundSight, stream, streams
from audit.engine.federated.federated_clients import CACHE_CLIENTS, Workers
from audit.engine.federated.federated_measures import ReleasedSums, RoundMeasures
from audit.engine.federated.federated_plan import RoundPlan, batches, split
from audit.engine.federated.federated_records import CanaryExamples, RecordClients
from audit.engine.gradients.clipping import all_finite, clip_factors, stacked_state
from audit.engine.measurements import export
from audit.engine.optimizing import build_optimizer
from audit.engine.record_rows import client_records
from audit.engine.trial.model_source import ModelSource


class Federations:
    """The federations of a job, trained from the first to the last round.

    In each round every client takes part by its own coin; it trains the model that it is sent on its own records, and sends
    how far the model moved. The whole update is clipped, parameters and moved buffers together, and one that is not finite
    counts as zero. The sum gets noise, is divided by the expected number of clients, a public constant, and moves the model by
    the server's optimiser. Canary clients have their own slots beside the clients': those with a true coin send their direction
    at the clip norm, the others send zero, so neighbouring federations differ by one client's update, which is zeroed out.
    Canary examples are among the records of some clients, or each is all that its own client holds.

    Noise that many clients add is drawn once with the deviation of their sum, which has the same law. The slots of canaries add
    noise to their updates, and none to the sum: its noise stays that of the accounted clients.

    Models that cannot share slots (dropout, buffers that differ), or that give single examples no gradient, are an
    `UnsupportedMechanism`; too few records for the clients, or canaries made for another model, a `DataError`; no such split,
    or more hosts than clients, a `ConfigError`.
    """

    crews: ClassVar[type[Workers]] = Workers

    def __init__(self, job: TrainingJob, plan: RoundPlan) -> None:
        self.job, self.plan = job, plan
        keep_freed_memory()
        device = find_device(job.device)
        self.count, self.rounds, self.rate = len(job.seeds), job.steps * plan.cohorts, job.sample_rate
        self.private = job.noisy
        self.clip_norm = None if self.private is None else self.private.clip_norm
        self.scale = 1.0 if self.clip_norm is None else self.clip_norm
        source = ModelSource.of(job)
        modules = [source.make(model) for model in range(len(job.seeds))]
        apart = source.compare(modules)
        if apart is not None:
            raise UnsupportedMechanism(
                f"federations share one module, but weights alone do not make one model another: {apart}; make it "
                "a buffer with the same values in every model, or a parameter"
            )
        self.state = stacked_state(modules, torch.float32, device)
        records = client_records(job, device)
        self.workers = self.crews(modules[0], self.state, records, plan.slots, plan.local)
        self.served = self.workers.make_row(self.state)
        self.canaries = self._planted()
        self.record_table, self.sizes = self.canaries.rows(
            split(job.dataset, plan.clients, plan.split, plan.concentration, Seed(plan.split_seed))
        )
        self.workers.compile(modules[0], self._examples())
        self.weights = self.client_weights(torch.from_numpy(np.array(self.sizes)).to(device, torch.float32))
        self.canaries.send(self.clipped, self.client_weights, int(self.sizes.max()))
        self.optimizer = build_optimizer(job).start(self.rounds)
        self.denominator = max(self.rate * plan.clients / plan.cohorts, 1e-300)
        self.released_sums = ReleasedSums(job, self.rounds, self.denominator)
        self.coins = np.stack([self._coins(seed) for seed in job.seeds])
        self.arriving = np.stack([self._arrivals(*pair) for pair in zip(job.seeds, self.coins, strict=True)])
        self.streams = streams(job.seeds, "noise")
        self.clip_norms = self._clip_norms()

    def _clip_norms(self) -> ClipNorms | None:
        """Return clip norms that move, None if they stay; what is summed is in units of a clip norm over the first one."""
        settings, private = self.plan.adaptive, self.private
        if settings is None or private is None:
            return None
        return ClipNorms(
            settings,
            clients=self.denominator,
            deviation=settings.count_noise(private.noise_multiplier),
            clip_norm=private.clip_norm,
            streams=streams(self.job.seeds, "count noise"),
            like=self.served,
        )

    def _planted(self) -> PlantedCanaries:
        if self.job.canaries.are_gradients:
            return CanaryClients(self.job, self.workers, self.served, self.clip_norm)
        if self.plan.hosts is None:
            return RecordClients(self.job, self.workers, self.served)
        return CanaryExamples(self.job, self.workers, self.served, self.plan.hosts)

    def _examples(self) -> float:
        sizes = self.sizes[0] if self.plan.local.batch is None else np.minimum(self.sizes[0], self.plan.local.batch)
        return float(sizes.sum()) * self.plan.local.steps * self.job.steps * self.rate

    def client_weights(self, records: Tensor) -> Tensor:
        """Return the weights of clients that hold so many records, all 1 or capped at 1."""
        cap = self.plan.example_cap
        return torch.ones_like(records) if cap is None else (records / cap).clamp(max=1.0)

    def clipped(self, updates: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Return whole updates `(k, width)` as they enter the sum, and which were finite."""
        return clipped_updates(updates, self.clip_norm, weights)

    def take_arrivals(self, owners: Tensor) -> None:
        """Note that the updates clipped last were those of clients of federations `owners`."""

    def _coins(self, seed: Seed) -> Array:
        """Return `(rounds, clients + canaries)`: who takes part, by coins, or by the number modulo the cohorts."""
        # drawn for canaries that are out as well: the clients' batches do not depend on the secret coins
        coin_draws = seed.child("batches").numpy().random((self.rounds, self.plan.clients + self.canaries.slots))
        cohorts = np.concatenate([np.arange(self.plan.clients), np.arange(self.canaries.slots)]) % self.plan.cohorts
        turns = cohorts == np.arange(self.rounds)[:, None] % self.plan.cohorts
        return np.asarray((coin_draws < self.rate) & turns)

    def _arrivals(self, seed: Seed, coins: Array) -> Array:
        """Return `coins` without the clients that drop out, as many in each round, drawn anew."""
        arriving, generator = coins.copy(), seed.child("dropped").numpy()
        for row in arriving[:, : self.plan.clients] if self.plan.dropped else ():
            row[generator.choice(np.flatnonzero(row), self.plan.dropped, replace=False)] = False
        return arriving

    def run(self, progress: Progress) -> TrainedModels:
        rounds, count = self.rounds, self.count
        initial = {name: value.clone() for name, value in self.workers.named(self.served).items()}
        participants = self.coins.sum(2).reshape(count, -1, self.plan.cohorts).sum(2)
        measures = RoundMeasures(participants, self.arriving[:, :, : self.plan.clients].sum(2), self.clip_norm, self.served)
        signals: dict[str, Tensor] = {}
        checkpoints = []
        for number in range(rounds):
            with plugins.foreign_code(f"round {number + 1} of a training", whole=False):
                self._round(number, measures, signals)
            if (number + 1) % self.plan.cohorts:
                continue
            if (number + 1) // self.plan.cohorts in self.job.checkpoints:
                checkpoints.append(export({**self.state, **self.workers.named(self.served)}))
            progress(count)
        return TrainedModels(
            weights=export({**self.state, **self.workers.named(self.served)}),
            executed=measures.executed(
                self.job.steps,
                self._noisy_coordinates,
                self.coins.shape[2],
                local=self.plan.noise == "local",
                inner=0 if self.plan.local.private is None else self.workers.layout.parameters * self.plan.local.steps,
            ),
            initial=export({slot.name: initial[slot.name] for slot in self.workers.layout.slots}),
            checkpoints=tuple(checkpoints),
            extra={name: values.cpu().numpy() for name, values in signals.items()},
        )

    def _round(self, number: int, measures: RoundMeasures, signals: dict[str, Tensor]) -> None:
        """One round of every federation; what is seen of canaries goes to `signals`, name to `(N, m, steps)`."""
        present = torch.from_numpy(self.arriving[:, number]).to(self.served.device)
        total = torch.zeros_like(self.served)
        measures.note_norms(self.canaries.add_sum(present, total))
        honest = self._clients_sum(number, measures)
        unknown = self.canaries.unknown()
        background = honest if unknown is None else honest - unknown
        total += honest
        noise = self.draw_noise(number)
        measures.note_noise(noise, self._spread(number))
        model_release = self.released(total, noise)
        noisy_sum = total if self.plan.noise == "central" else model_release
        before = self.served.clone()
        ratio = 1.0 if self.clip_norms is None else self.clip_norms.ratios.to(total.dtype).unsqueeze(1)
        self.move(model_release * ratio, total * ratio)
        known_sum = background + self.known_noise(number)
        model_sum = self.released_sums.sum_behind(before, self.served, model_release * ratio) / ratio
        sight = RoundSight(
            models=before,
            present=present,
            # the adversary knows all other updates (docs/develop/design.md, section 9): canaries and noise are left
            residuals={"sums": noisy_sum - known_sum, "models": model_sum - known_sum},
            released=self.served,
            known_sum=known_sum,
            update_noise=self.update_noise(),
            counts=None if self.clip_norms is None else self.clip_norms.advance(self.canaries.clipped_alone(present)),
        )
        self._note(number, self.canaries.observe(sight), signals)

    def _note(self, number: int, observed: Mapping[str, Tensor], signals: dict[str, Tensor]) -> None:
        step, own = number // self.plan.cohorts, self.canaries.owners % self.plan.cohorts == number % self.plan.cohorts
        for name, values in observed.items():
            if name not in signals:
                signals[name] = values.new_zeros(*values.shape, self.job.steps)
            signals[name][:, own, step] = values[:, own]

    def _clients_sum(self, number: int, measures: RoundMeasures) -> Tensor:
        """Return the sum of the honest clients' clipped and weighted updates `(N, width)`."""
        total = torch.zeros_like(self.served)
        federation, client = np.nonzero(self.arriving[:, number, : self.plan.clients])
        rows, real = self._step_records(number, federation, client)
        device = self.served.device
        for part in self.workers.parts(len(client)):
            owner, read_number = (torch.from_numpy(numbers[part]).to(device) for numbers in (federation, client))
            longest = max(1, int(real[part].sum(2).max()))
            moves, private = self.workers.updates(
                self.served.index_select(0, owner),
                torch.from_numpy(np.ascontiguousarray(rows[part, :, :longest])).to(device),
                torch.from_numpy(np.ascontiguousarray(real[part, :, :longest])).to(device),
                self._record_noise(number, federation[part], client[part]),
            )
            if private is not None:
                measures.note_inside(owner, private)
            blocks = (values.split(CACHE_CLIENTS) for values in (moves, owner, read_number))
            for updates, owners, numbers in zip(*blocks, strict=True):  # few enough to stay in the cache meanwhile
                scaled = updates if self.clip_norms is None else self.clip_norms.take(updates, owners)
                products, finite = self.clipped(scaled, self.weights[owners, numbers])
                self.take_arrivals(owners)
                self.canaries.arrive(owners, numbers, products)
                total.index_add_(0, owners, products)
                measures.note_updates(owners, products, finite)
        return total

    def _record_noise(self, number: int, federation: Array, client: Array) -> list[torch.Generator]:
        """Return a stream for each client that takes part, if clients noise their own steps."""
        if self.plan.local.private is None:
            return []
        seeds = self.job.seeds
        pairs = zip(federation, client, strict=True)
        return [stream(seeds[owner].child("record noise", number).child("client", int(place))) for owner, place in pairs]

    def _step_records(self, number: int, federation: Array, client: Array) -> tuple[Array, Array]:
        """Return the records of each local step `(k, steps, rows)` and which are real, for clients of several federations."""
        longest = int(self.sizes.max())
        if self.plan.local.batch is not None and self.plan.local.private is None:
            longest = min(self.plan.local.batch, longest)
        rows = np.zeros((len(client), self.plan.local.steps, longest), dtype=np.int64)
        real = np.zeros(rows.shape, dtype=bool)
        for index in range(self.count):
            own = np.flatnonzero(federation == index)
            if len(own):
                generator = self.job.seeds[index].child("local", number).numpy()
                row_numbers, mask = batches(self.sizes[index, client[own]], self.plan.local, generator)
                rows[own, :, : row_numbers.shape[2]] = np.take_along_axis(
                    self.record_table[index, client[own]][:, None], row_numbers, axis=2
                )
                real[own, :, : mask.shape[2]] = mask
        return rows, real

    def released(self, total: Tensor, noise: Tensor) -> Tensor:
        return total + noise

    def move(self, release: Tensor, total: Tensor) -> None:
        """Take the server's step by the released sum; `total` is that before the noise."""
        self.optimizer.step(self.served, release / self.denominator)

    def draw_noise(self, number: int) -> Tensor:
        """Return the noise of this round on the released sum `(N, width)`, 0 in the padding."""
        noise = self._draw(self.streams)
        if self.private is None:
            return noise
        noise *= (self.private.noise_multiplier * self.scale * self._spread(number)).unsqueeze(1)
        share = self._known_share()
        return noise if not share else noise * math.sqrt(1 - share) + self.known_noise(number)

    def known_noise(self, number: int) -> Tensor:
        """Return the part of a round's noise that colluding clients added, and so know `(N, width)`."""
        share = self._known_share()
        if not share or self.private is None:
            return torch.zeros_like(self.served)
        deviation = self.private.noise_multiplier * self.scale * math.sqrt(share)
        own = self._draw([stream(seed.child("known noise", number)) for seed in self.job.seeds])
        return own * (deviation * self._spread(number)).unsqueeze(1)

    def _known_share(self) -> float:
        """Return the share of a sum's noise, as variance, that colluding clients know."""
        return self.plan.colluders / (self.plan.clients // self.plan.cohorts - self.plan.dropped)

    def _draw(self, streams: list[torch.Generator]) -> Tensor:
        """Return standard normal numbers `(N, width)`, 0 in the padding; zeros if no noise is planned."""
        noise = torch.zeros_like(self.served)
        if self.private is not None:
            draws = torch.stack([torch.randn(len(self.workers.columns), generator=stream) for stream in streams])
            noise[:, self.workers.columns] = draws.to(noise.device)
        return noise

    @property
    def _noisy_coordinates(self) -> int:
        return len(self.workers.columns) if self.private is not None else 0

    def _spread(self, number: int) -> Tensor:
        """Return how much larger the noise of the sum is than the accounted one, of an update or of the sum itself `(N,)`."""
        if self.plan.noise != "local":
            spread = 1.0 if self.plan.adaptive is None else self.plan.adaptive.sum_noise
            return torch.full((self.count,), spread, device=self.served.device)
        replies = self.arriving[:, number, : self.plan.clients].sum(1)
        return torch.from_numpy(np.sqrt(replies)).to(self.served)

    def update_noise(self) -> float:
        """Return the noise multiplier of a single update as it arrives."""
        if self.private is None or self.plan.noise in ("none", "central", "records"):
            return 0.0
        share = 1.0 if self.plan.noise == "local" else 1 / math.sqrt(self.plan.clients // self.plan.cohorts - self.plan.dropped)
        return self.private.noise_multiplier * share


def clipped_updates(updates: Tensor, clip_norm: float | None, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return whole updates `(k, width)` scaled to l2 norm `clip_norm` at most (None clips nothing), times their weights `(k,)`,
    and which were finite `(k,)`: one with an entry that is not becomes zero."""
    norms = torch.linalg.vector_norm(updates, dim=1, dtype=torch.float64).to(updates.dtype)
    finite = norms.isfinite()
    factors = weights if clip_norm is None else weights * clip_factors(norms, clip_norm, finite)
    products = updates * factors.unsqueeze(1)
    if not all_finite(norms):
        products[~finite] = 0  # a factor of 0 does not take out what is infinite
    return products, finite
