"""Federations whose server is somebody else's: it gets each update as its client sent it, and says the next model."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from audit import plugins
from audit.core.data import Array
from audit.core.errors import ConfigError, ObservationError
from audit.core.training import Progress, TrainedModels, TrainingJob
from audit.engine.federated.federated import Federations
from audit.engine.federated.federated_canaries import OVERSIZE, CanaryClients
from audit.engine.federated.federated_plan import RoundPlan

_FAR = 1e12  # of a parameter, in place of NaN and infinity: no training gets there, and its square is a number


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
        self.has_sent_non_finite = np.zeros(len(job.seeds), dtype=bool)
        with plugins.foreign_code("the server, as it is made and begins"):
            self.servers = [_checked(make(seed.integer())) for seed in job.seeds]
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
                self._hand_over(index, server, self._raw[own])

    def _hand_over(self, index: int, server: FederatedServer, updates: Tensor) -> None:
        rows = -self._flat(updates)
        self.has_sent_non_finite[index] |= not np.isfinite(rows).all()
        server.receive(rows)

    def draw_noise(self, number: int) -> Tensor:
        """Hand what canary clients send to the servers; noise is theirs."""
        present = torch.from_numpy(self.arriving[:, number, self.plan.clients :]).to(self.served.device)
        crowd = self.canaries
        if not isinstance(crowd, CanaryClients):
            raise ObservationError("a foreign server is audited by canary clients: use canaries such as signed_cosine")
        for index, (server, mask) in enumerate(zip(self.servers, present & crowd.included, strict=True)):
            # split gives one empty part if no canary sends
            calls = (crowd.raw_updates(part, OVERSIZE) for part in mask.nonzero().flatten().split(64))
            for updates in filter(len, calls):
                self._hand_over(index, server, updates)
        return torch.zeros_like(self.served)

    def move(self, release: Tensor, total: Tensor) -> None:
        """Take the models that the servers release."""
        for index, server in enumerate(self.servers):
            self.served[index, self.columns] = torch.from_numpy(self._model(index, server.release())).to(self.served.device)

    def _model(self, index: int, model: Any) -> Array:
        """Return a released model as finite numbers; `ObservationError` for one of another shape or kind.

        One that an update with NaN made not finite shows that it came: it is taken for one that is far away. Without such an
        update it is an `ObservationError`.
        """
        values = np.asarray(model.detach().cpu() if isinstance(model, Tensor) else model)
        if values.shape != (len(self.columns),) or values.dtype.kind not in "fiu":
            raise ObservationError(
                f"the server's release() has shape {values.shape} and type {values.dtype}; expected ({len(self.columns)},) "
                "and numbers"
            )
        values = np.asarray(values, dtype=np.float32)
        bad = int((~np.isfinite(values)).sum())
        if bad and not self.has_sent_non_finite[index]:
            raise ObservationError(
                f"{bad} of {len(values)} numbers of the server's release() are not finite, and no client had sent such an "
                "update; release finite models"
            )
        return np.nan_to_num(values, nan=_FAR, posinf=_FAR, neginf=-_FAR) if bad else values

    def run(self, progress: Progress) -> TrainedModels:
        """Return all federations after all rounds; of what the servers did nothing is measured."""
        models = super().run(progress)
        return replace(models, executed=replace(models.executed, measured=False))


def _checked(server: Any) -> FederatedServer:
    """Return `server` if it has the three methods, else `ConfigError`."""
    missing = [name for name in ("begin", "receive", "release") if not callable(getattr(server, name, None))]
    if missing:
        raise ConfigError(f"trainer.server: {type(server).__name__} has no method {', '.join(missing)}")
    checked: FederatedServer = server
    return checked
