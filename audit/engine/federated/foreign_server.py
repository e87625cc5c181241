"""Federations whose server is somebody else's: it gets each update as its client sent it, and says the next model."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from audit.core.data import Array
from audit.core.errors import ObservationError
from audit.core.training import Progress, TrainedModels, TrainingJob
from audit.engine.federated.federated import Federations
from audit.engine.federated.federated_canaries import OVERSIZE, CanaryClients
from audit.engine.federated.federated_plan import RoundPlan


class FederatedServer(Protocol):
    """A federation's server; nothing that it says of itself is believed but the models that it releases."""

    def begin(self, model: Array) -> None:
        """Take the model before the first round, `(d,)` float32."""

    def receive(self, updates: Array) -> None:
        """Take updates of clients in this round `(k, d)` float32, a client's model minus the one it was sent, before any clip.

        Called several times a round.
        """

    def release(self) -> Array:
        """End the round; return the next model `(d,)`."""


class ForeignFederations(Federations):
    """Rounds of clients as ever, whose updates go to servers that a maker made, one for each federation.

    The adversary knows the honest clients' updates and clips them as the mechanism says; what a server does otherwise is left
    in what it released.
    """

    def __init__(self, job: TrainingJob, plan: RoundPlan, make: Callable[[Any], FederatedServer]) -> None:
        self._raw: Tensor | None = None
        super().__init__(job, plan)
        self.columns = self.workers.columns.to(self.served.device)
        self.servers = [make(seed.integer()) for seed in job.seeds]
        for server, model in zip(self.servers, self.served, strict=True):
            server.begin(self._flat(model))

    def _flat(self, rows: Tensor) -> Array:
        return np.ascontiguousarray(rows[..., self.columns].cpu().numpy(), dtype=np.float32)

    def clipped(self, updates: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Return what the mechanism makes of updates; keep them as they are for the servers."""
        self._raw = updates.clone()
        return super().clipped(updates, weights)

    def take_arrivals(self, owners: Tensor) -> None:
        """Hand the updates of honest clients of federations `owners` to their servers."""
        for index, server in enumerate(self.servers):
            own = owners == index
            if self._raw is not None and bool(own.any()):
                server.receive(-self._flat(self._raw[own]))

    def draw_noise(self, number: int) -> Tensor:
        """Hand what canary clients send to the servers; noise is theirs."""
        present = torch.from_numpy(self.arriving[:, number, self.plan.clients :]).to(self.served.device)
        crowd = self.canaries
        if not isinstance(crowd, CanaryClients):
            raise ObservationError("a foreign server is audited by canary clients: use canaries such as signed_cosine")
        for server, mask in zip(self.servers, present & crowd.included, strict=True):
            # split gives one empty part if no canary sends
            calls = (crowd.raw_updates(part, OVERSIZE) for part in mask.nonzero().flatten().split(64))
            for updates in filter(len, calls):
                server.receive(-self._flat(updates))
        return torch.zeros_like(self.served)

    def move(self, release: Tensor, total: Tensor) -> None:
        """Take the models that the servers release; `ObservationError` for one of another shape."""
        for index, server in enumerate(self.servers):
            model = np.asarray(server.release(), dtype=np.float32)
            if model.shape != (len(self.columns),):
                raise ObservationError(f"the server's release() has shape {model.shape}; expected ({len(self.columns)},)")
            self.served[index, self.columns] = torch.from_numpy(model).to(self.served.device)

    def run(self, progress: Progress) -> TrainedModels:
        """Return all federations after all rounds; of what the servers did nothing is measured."""
        models = super().run(progress)
        return replace(models, executed=replace(models.executed, measured=False))
