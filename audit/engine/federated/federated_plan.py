"""How a federation works: its plan, the work of a client in a round, and the client of each record."""

from dataclasses import dataclass, field

import numpy as np

from audit.core import checks
from audit.core.clip_quantile import ClipQuantile
from audit.core.data import Array, Dataset
from audit.core.errors import ConfigError
from audit.core.seeds import Seed
from audit.data import clients
from audit.engine.compiled.compiled_gradients import COMPILE

SPLITS = ("uniform", "dirichlet", "column")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordNoise:
    """DP-SGD on a client's own records: every local step is a noisy sum over a Poisson batch of clipped gradients."""

    rate: float  # chance of each record to be in a step's batch
    clip_norm: float  # l2 bound on one record's gradient
    noise_multiplier: float  # noise standard deviation over that
    batch: float  # public number by which the noisy sum is divided


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTraining:
    """What a client does with its records in a round."""

    steps: int = 5  # gradient steps on the client's own loss
    batch: int | None = None  # records of a step, drawn afresh without replacement; None for all that the client has
    learning_rate: float = 0.1  # of these steps
    private: RecordNoise | None = None  # if these steps are DP-SGD; `batch` says nothing then
    compile: str = "off"  # "on", "auto" or "off": whether steps without noise are those of compiled code

    def __post_init__(self) -> None:
        if self.steps < 1 or (self.batch is not None and self.batch < 1) or not self.learning_rate > 0:
            raise ConfigError(
                f"local_steps {self.steps}, local_batch {self.batch}, local_learning_rate {self.learning_rate}; expected at "
                "least 1, at least 1 or null, and more than 0"
            )
        checks.choice(self.compile, "compile", COMPILE)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundPlan:
    """How a federation works."""

    clients: int  # a public constant
    noise: str = "central"  # "none", "central", "local", "distributed" or "records" (in each client's own steps)
    dropped: int = 0  # clients of a round, drawn anew, who do not reply; a distributed noise lacks their shares
    colluders: int = 0  # clients whose part of the noise the parties know
    cohorts: int = 1  # fixed groups of clients that take turns, one a round; each step of the accounting is a turn of all
    local: LocalTraining = field(default_factory=LocalTraining)  # what a client does in a round
    split: str = "dirichlet"  # of the records over the clients: "uniform", "dirichlet", or "column" of the data
    concentration: float = 0.3  # of the Dirichlet law
    split_seed: int = 0  # of the split
    example_cap: int | None = None  # a public number: clients' weights are their records over it, at most 1; None for all 1
    slots: int = 64  # clients trained at once
    hosts: int | None = None  # clients that hold canary examples among their records; None if canaries are clients
    adaptive: ClipQuantile | None = None  # how the clip norm moves; None if it stays


def split(dataset: Dataset, count: int, kind: str, concentration: float, seed: Seed) -> tuple[Array, ...]:
    """The rows of the train split of each client; `ConfigError` for no split of that name, `DataError` for too few records."""
    generator = seed.child("clients").numpy()
    if kind == "uniform":
        return clients.uniform(len(dataset.train), count, generator)
    if kind == "dirichlet":
        return clients.dirichlet(dataset.train.labels, count, concentration, generator)
    if kind == "column":
        return clients.by_owner(dataset.owners, len(dataset.train), count)
    raise ConfigError(f"split is '{kind}'; expected one of {', '.join(SPLITS)}")


def batches(sizes: Array, local: LocalTraining, generator: np.random.Generator) -> tuple[Array, Array]:
    """Return positions among each client's records `(k, steps, rows)`, of which it has `sizes` `(k,)`, and which are real."""
    longest = int(sizes.max())
    real = np.arange(longest) < sizes[:, None]
    shape = (len(sizes), local.steps, longest)
    if local.private is not None:
        drawn = real[:, None] & (generator.random(shape) < local.private.rate)
        counts = drawn.sum(axis=2)
        width = max(1, int(counts.max()))
        return np.argsort(~drawn, axis=2, kind="stable")[:, :, :width], np.arange(width) < counts[:, :, None]
    if local.batch is None:
        return np.broadcast_to(np.arange(longest), shape), np.broadcast_to(real[:, None], shape)
    width = min(local.batch, longest)
    order = np.where(real[:, None], generator.random(shape), np.inf)
    columns = np.argsort(order, axis=2)[:, :, :width]
    return columns, np.broadcast_to((np.arange(width) < sizes[:, None])[:, None], columns.shape)
