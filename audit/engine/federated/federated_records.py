"""Canaries of federated trainings that are records: examples that some clients hold, or of clients that hold nothing else."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from audit.core.access import ROUNDS
from audit.core.canaries import ClientBehaviour
from audit.core.data import Array
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.training import TrainingJob
from audit.engine.federated.federated_canaries import OVERWEIGHT, Clipping, RoundSight, padded_rows, same_rows, streams
from audit.engine.federated.federated_clients import Workers


class RecordSight:
    """What an adversary reads off a round for each canary that is a record, of federations that train together.

    It looks at the cosine between the record's gradient, at the model that clients were sent, and its view (Li et al. 2022,
    arXiv 2202.10209); and at how far the record's loss falls by it (Nasr, Shokri, Houmansadr 2019, arXiv 1812.00910, passive
    global attacker). `senders` `(m,)` says which of the watched clients holds each record. A model that keeps statistics of its
    batches is an `UnsupportedMechanism`: no record has a separate gradient.
    """

    def __init__(self, job: TrainingJob, workers: Workers, like: Tensor, senders: Array) -> None:
        if workers.moved:
            raise UnsupportedMechanism(
                f"records as canaries need a gradient of each alone, and the model keeps statistics of its batches "
                f"({', '.join(workers.moved)}); use a model without, or canary clients (signed_cosine)"
            )
        self.workers, self.senders = workers, senders
        self.first = len(job.dataset.train)
        self.sources = ROUNDS & job.access.released
        self.streams = streams(job.seeds, "canary noise")
        self.updates = like.new_zeros(len(job.seeds), int(senders.max(initial=0)) + 1, workers.width)
        self.scale = 1.0 if job.noisy is None else job.noisy.clip_norm

    def observe(self, sight: RoundSight, present: Tensor) -> dict[str, Tensor]:
        """Return cosines of each record's gradient with what is seen, 0 if nothing is, and the falls of its loss.

        `present` `(N, watched clients)` says which of them take part.
        """
        vectors = {source: residual.unsqueeze(1) for source, residual in sight.residuals.items() if source in self.sources}
        if "updates" in self.sources:
            vectors["updates"] = self._arriving(sight, present)
        if not vectors:
            return {}
        count, width = len(sight.models), len(self.senders)
        signals = {f"{source}/products": sight.models.new_zeros(count * width) for source in vectors}
        drops = {source: sight.models.new_zeros(count * width) for source in vectors if source != "sums"}
        for start in range(0, count * width, self.workers.slots):
            pairs = np.arange(start, min(start + self.workers.slots, count * width))
            model = torch.from_numpy(pairs // width).to(sight.models.device)
            canary = pairs % width
            before, records = sight.models[model], torch.from_numpy(self.first + canary).to(model.device)
            gradients, losses = self.workers.gradients(before, records), self.workers.losses(before, records)
            host = torch.from_numpy(self.senders[canary]).to(model.device)
            for source, views in vectors.items():
                vector = views[model, host if source == "updates" else torch.zeros_like(host)]
                signals[f"{source}/products"][start : start + len(pairs)] = _cosines(gradients, vector)
                if source in drops:
                    # updates arrive as falls of the parameters, as gradients do
                    after = before - vector if source == "updates" else sight.released[model]
                    drops[source][start : start + len(pairs)] = losses - self.workers.losses(after, records)
        signals |= {f"{source}/loss_drops": values for source, values in drops.items()}
        return {name: values.view(count, width) for name, values in signals.items()}

    def _arriving(self, sight: RoundSight, present: Tensor) -> Tensor:
        """Return the watched updates as they arrive `(N, watched, width)`: with their own noise, zero from those not there."""
        taking_part = present.unsqueeze(2)
        if sight.update_noise == 0:
            return self.updates * taking_part
        noise = torch.zeros(self.updates.shape)
        columns = self.workers.columns.cpu()
        for index, stream in enumerate(self.streams):
            noise[index][:, columns] = torch.randn(self.updates.shape[1], len(columns), generator=stream)
        return (self.updates + noise.to(self.updates.device) * (sight.update_noise * self.scale)) * taking_part


class CanaryExamples:
    """Records as canaries among those of the first `hosts` clients, dealt out in turn; a coin decides whether each is held.

    The adversary knows all other clients' updates, and of a host its message. More hosts than clients are a `ConfigError`.
    `UnsupportedMechanism` as for `RecordSight`.
    """

    slots = 0

    def __init__(self, job: TrainingJob, workers: Workers, like: Tensor, hosts: int) -> None:
        self.hosts, self.included = hosts, np.array(job.included, dtype=bool)
        self.owners = np.arange(self.included.shape[1]) % hosts
        self.first = len(job.dataset.train)
        self.sight = RecordSight(job, workers, like, self.owners)

    def rows(self, client_rows: Sequence[Array]) -> tuple[Array, Array]:
        if self.hosts > len(client_rows):
            raise ConfigError(f"hosts is {self.hosts} of {len(client_rows)} clients; expected at most as many")
        numbers = self.first + np.arange(len(self.owners))
        parts = []
        for coins in self.included:
            own = [np.concatenate([client_rows[host], numbers[coins & (self.owners == host)]]) for host in range(self.hosts)]
            parts.append([*own, *client_rows[self.hosts :]])
        longest = max(len(rows) for lists in parts for rows in lists)
        blocks = [padded_rows(lists, longest) for lists in parts]
        return np.stack([rows for rows, _ in blocks]), np.stack([sizes for _, sizes in blocks])

    def send(self, clip: Clipping, client_weights: Callable[[Tensor], Tensor], most_records: int) -> None:
        """Do nothing: no client is a canary."""

    def add_sum(self, present: Tensor, total: Tensor) -> Tensor | None:
        self.sight.updates.zero_()  # canaries are in the honest clients' updates
        return None

    def clipped_alone(self, present: Tensor) -> Tensor | None:
        return None

    def arrive(self, owner: Tensor, client: Tensor, updates: Tensor) -> None:
        of_hosts = client < self.sight.updates.shape[1]
        self.sight.updates[owner[of_hosts], client[of_hosts]] = updates[of_hosts]

    def unknown(self) -> Tensor | None:
        return self.sight.updates.sum(1)

    def observe(self, sight: RoundSight) -> dict[str, Tensor]:
        return self.sight.observe(sight, sight.present[:, : self.sight.updates.shape[1]])


class RecordClients:
    """Records as clients with their own slots, each of which holds one; a coin decides whether it sends its update or zero.

    They do their worst within their conduct: they multiply their update and claim many records, through the same clipping and
    weighting as all others. A free rider sends the last released step back, whatever its coin: that decides only whether it
    holds its record. `served` `(N, width)` are the models that clients are sent, as they move on. Errors as of `RecordSight`.
    """

    def __init__(self, job: TrainingJob, workers: Workers, served: Tensor) -> None:
        self.behaviour = job.canaries.behaviour or ClientBehaviour()
        self.workers, self.served = workers, served
        self.included = torch.from_numpy(np.array(job.included, dtype=bool)).to(served.device)
        self.slots = self.included.shape[1]
        self.owners = np.arange(self.slots)
        self.sight = RecordSight(job, workers, served, self.owners)
        self.previous = served.clone()

    def rows(self, client_rows: Sequence[Array]) -> tuple[Array, Array]:
        return same_rows(client_rows, len(self.included))

    def send(self, clip: Clipping, client_weights: Callable[[Tensor], Tensor], most_records: int) -> None:
        self.clip = clip
        self.weight = client_weights(torch.tensor([float(OVERWEIGHT * most_records)], device=self.served.device))

    def add_sum(self, present: Tensor, total: Tensor) -> Tensor | None:
        updates = self.sight.updates.zero_()
        senders = present[:, -self.slots :]
        if self.behaviour.trains:
            senders = senders & self.included
        federation, client = torch.nonzero(senders, as_tuple=True)
        for start in range(0, len(client), self.workers.slots):
            part = slice(start, start + self.workers.slots)
            raw = self._raw(federation[part], client[part]) * self.behaviour.boost
            updates[federation[part], client[part]] = self.clip(raw, self.weight.expand(len(raw)))[0]
        self.previous.copy_(self.served)
        total += updates.sum(1)
        largest: Tensor = updates.norm(dim=2).amax(1)
        return largest

    def _raw(self, federation: Tensor, client: Tensor) -> Tensor:
        """Return what clients would send before they multiply it `(k, width)`."""
        if not self.behaviour.trains:
            return (self.previous - self.served)[federation]
        rows = (self.sight.first + client).view(-1, 1, 1).expand(-1, self.workers.local.steps, 1)
        return self.workers.updates(self.served[federation], rows, torch.ones_like(rows, dtype=torch.bool))[0]

    def clipped_alone(self, present: Tensor) -> Tensor | None:
        return None

    def arrive(self, owner: Tensor, client: Tensor, updates: Tensor) -> None:
        """Note nothing: no honest client's update hangs on a canary."""

    def unknown(self) -> Tensor | None:
        return None

    def observe(self, sight: RoundSight) -> dict[str, Tensor]:
        return self.sight.observe(sight, sight.present[:, -self.slots :])


def _cosines(first: Tensor, second: Tensor) -> Tensor:
    """Return the cosine of each pair of rows, 0 if one of them is zero or not finite."""
    values: Tensor = (first * second).sum(1) / (first.norm(dim=1) * second.norm(dim=1)).clamp(min=1e-30)
    return torch.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
