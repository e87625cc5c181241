"""Federated averaging: many federations of many clients in one tensor program."""

from collections.abc import Mapping
from dataclasses import dataclass

from audit import plugins
from audit.core import checks
from audit.core.clip_quantile import ClipQuantile
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.event_reading import unit
from audit.core.training import Progress, TrainingJob
from audit.engine.federated.federated import Federations
from audit.engine.federated.federated_plan import SPLITS, LocalTraining, RecordNoise, RoundPlan
from audit.engine.federated.foreign_server import ForeignFederations
from audit.engine.read.subject import Ensemble

# keys that a plan of rounds has by the same names
_PLANNED = (
    *("clients", "noise", "dropped", "colluders", "cohorts", "split", "concentration", "split_seed", "example_cap", "slots"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FederatedTrainer:
    """Trains as mechanism `federated` says, with canary clients in slots beside the clients.

    `training.learning_rate` and `training.optimizer` are the server's, `training.sample_rate` is the chance of a client to take
    part in a round, `training.steps` are the rounds.

    Attributes:
        clients: who may take part, a public constant. This key, `noise`, `dropped` (clients of a round who do not reply),
            `colluders`, `cohorts`, `adaptive_clip`, `record_rate`, `record_noise`, `record_clip` come from the mechanism.
        unit: "client" for canary clients, which send a crafted update or hold one record each; "example" for canaries that
            are among the records of clients; from the mechanism.
        local_steps: gradient steps of a client in a round; with 1, all records and local_learning_rate 1 it is FedSGD.
        local_batch: records of such a step, drawn afresh without replacement; None takes all that the client has.
        local_learning_rate: of such a step.
        split: of the train split over the clients: "dirichlet" over labels, "uniform", or "column": `data.client`.
        concentration: of the Dirichlet law: small for clients of few classes.
        split_seed: of the split, which is the same in all trainings.
        example_cap: weights clients by their records over this public number, at most 1; None weights all clients alike.
        slots: clients trained at once.
        hosts: clients among whose records canary examples are, dealt out in turn.
        server: `package.module:maker` of servers that are audited in place of the mechanism's (`FederatedServer`), called with
            the keywords clients (of a round, in expectation), noise_multiplier, clip_norm and seed; "" for none.
        compile: as for trainer `dpsgd`, for the clients' steps if these have no noise.
    """

    clients: int
    noise: str = "central"
    dropped: int = 0
    colluders: int = 0
    cohorts: int = 1
    adaptive_clip: Mapping[str, float] | None = None
    unit: str = "client"
    local_steps: int = 5
    local_batch: int | None = None
    local_learning_rate: float = 0.1
    split: str = "dirichlet"
    concentration: float = 0.3
    split_seed: int = 0
    example_cap: int | None = None
    slots: int = 64
    hosts: int = 1
    server: str = ""
    record_rate: float | None = None
    record_noise: float = 0.0
    record_clip: float = 1.0
    compile: str = "off"

    def __post_init__(self) -> None:
        self._plan()
        checks.choice(self.split, "split", SPLITS)
        for name in ("clients", "slots", "example_cap", "cohorts", "hosts"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"federated.{name} is {value}; expected at least 1")
        if not self.concentration > 0:
            raise ConfigError(f"federated.concentration is {self.concentration}; expected more than 0")
        if self.noise == "records" and (self.example_cap is not None or self.local_batch is not None):
            raise ConfigError(
                "federated.example_cap and local_batch with noise 'records': weights by a client's number of records would "
                "release it without noise, and batches are Poisson ones of record_rate; leave both out"
            )
        if not 0 <= self.dropped < self.clients:
            raise ConfigError(f"federated.dropped is {self.dropped} of {self.clients} clients; expected 0 or more, and fewer")

    def _plan(self, records: int = 0) -> RoundPlan:
        """Return how the federation works on so many training records, a public number."""
        private = None
        if self.noise == "records":
            rate = self.record_rate or 1.0
            private = RecordNoise(
                rate=rate,
                clip_norm=self.record_clip,
                noise_multiplier=self.record_noise,
                batch=max(1.0, rate * records / self.clients),
            )
        local = LocalTraining(
            steps=self.local_steps,
            batch=self.local_batch,
            learning_rate=self.local_learning_rate,
            private=private,
            compile=self.compile,
        )
        hosts, adaptive = self.hosts if self.unit == "example" else None, ClipQuantile.read(self.adaptive_clip)
        return RoundPlan(**{name: getattr(self, name) for name in _PLANNED}, local=local, hosts=hosts, adaptive=adaptive)

    def fit(self, job: TrainingJob, progress: Progress) -> Ensemble:
        """The trained models of `job`; `UnsupportedMechanism` if it does not say what noise to add, or plants another unit."""
        if unit(job.mechanism) != "client" or (job.noisy is None) != (self.noise in ("none", "records")):
            raise UnsupportedMechanism(
                f"trainer 'federated' with noise '{self.noise}' does not execute {job.mechanism}; use mechanism 'federated'"
            )
        if self.unit == "example" and (job.canaries.are_gradients or job.canaries.behaviour is not None):
            raise UnsupportedMechanism(
                f"trainer 'federated' about one example plants records, and canaries '{job.canaries.kind}' are clients; use "
                "held_out, or change 'unit' of the mechanism"
            )
        if self.adaptive_clip is not None and (self.server or not job.canaries.are_gradients):
            raise UnsupportedMechanism(
                "adaptive_clip is audited by canary clients that send a crafted update, such as signed_cosine, at a server of "
                "this package"
            )
        plan = self._plan(len(job.dataset.train))
        return Ensemble(job, (self._foreign(job, plan) if self.server else Federations(job, plan)).run(progress))

    def _foreign(self, job: TrainingJob, plan: RoundPlan) -> Federations:
        """Return federations with the servers of `server`."""
        if job.noisy is None or self.noise != "central" or self.cohorts != 1:
            raise UnsupportedMechanism(
                "federated.server takes the place of a server with noise: use noise 'central', cohorts 1"
            )
        noisy = job.noisy
        settings = {
            "clients": job.sample_rate * self.clients,
            "noise_multiplier": noisy.noise_multiplier,
            "clip_norm": noisy.clip_norm,
        }
        make = plugins.foreign(self.server, "trainer.server")
        return ForeignFederations(job, plan, lambda seed: make(**settings, seed=seed))


PLUGIN = FederatedTrainer
