"""The correct loop around a DP-SGD step, which entries of `audit.zoo.loops` change in one place, and its recording."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from audit.accounting.accountants.reference import Reference
from audit.core.adjacency import Adjacency
from audit.core.events import Event, Gaussian, Repeated, dp_sgd
from audit.step_checks.recorder import TrainingLog, record

Batches = list[list[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopPlan:
    """What every loop is asked for: so many records and steps, batches of about so many records, and noise.

    The number of records is not a multiple of the batch size, so that a length of a loader is rounded.
    """

    records: int = 1000
    batch_size: int = 180
    steps: int = 60
    noise_multiplier: float = 1.0
    delta: float = 1e-5

    @property
    def rate(self) -> float:
        """Return the rate of Poisson samples with the batch size as their mean size."""
        return self.batch_size / self.records

    def training(self, *, rate: float | None = None, steps: int | None = None, noise_multiplier: float | None = None) -> Event:
        """Return DP-SGD on Poisson samples, as planned or with another rate, number of steps or noise multiplier."""
        return dp_sgd(
            noise_multiplier=noise_multiplier or self.noise_multiplier,
            clip_norm=1.0,
            sample_rate=rate or self.rate,
            steps=steps or self.steps,
        )

    def one_batch_epsilon(self, epochs: int) -> Event:
        """Return what a record costs that takes part in one batch of each epoch, if everybody knows in which."""
        return Repeated(mechanism=Gaussian(noise_multiplier=self.noise_multiplier), count=epochs)


class Loop:
    """Poisson samples at the accounted rate, as many steps as are accounted for.

    A subclass overrides one method; its class attributes say what is wrong.
    """

    wrong: ClassVar[str] = ""
    visibility: ClassVar[str] = "Abadi et al. 2016"

    def batches(self, plan: LoopPlan, stream: np.random.Generator) -> Batches:
        """Return the index lists that the loop draws, one a step."""
        return poisson(plan.records, plan.rate, plan.steps, stream)

    def accounted_rate(self, plan: LoopPlan) -> float:
        """Return the rate that the accounting is given."""
        return plan.rate

    def accounted_steps(self, plan: LoopPlan) -> int:
        """Return the number of steps that the accounting is given."""
        return plan.steps

    def spent(self, plan: LoopPlan) -> tuple[Event, Event]:
        """Return two events between which is what the loop spends; the same twice if that is known."""
        return plan.training(), plan.training()

    def truth(self, plan: LoopPlan) -> tuple[float, float]:
        """Return a proved bracket on the epsilon that is spent."""
        lower, upper = self.spent(plan)
        return _bracket(lower, plan.delta)[0], _bracket(upper, plan.delta)[1]


def claim(loop: Loop, plan: LoopPlan) -> float:
    """Return the epsilon that is claimed: an upper bound of what is accounted for."""
    event = plan.training(rate=loop.accounted_rate(plan), steps=loop.accounted_steps(plan))
    return _bracket(event, plan.delta)[1]


def observe(loop: Loop, plan: LoopPlan, seed: int = 0) -> TrainingLog:
    """Return the record of a training of one number on the loop's batches, as `audit.record` takes it of any training."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    batches = _BatchLists(loop.batches(plan, np.random.default_rng(seed)))
    weight = torch.nn.Parameter(torch.zeros(()))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    loader = DataLoader(TensorDataset(torch.arange(float(plan.records))), batch_sampler=batches, collate_fn=len)
    with torch.random.fork_rng(devices=[]), record(loader) as log:
        for _ in loader:
            torch.randn(())  # the noise of a step moves torch's generator on
            weight.grad = torch.zeros(())
            optimizer.step()
    return log


def poisson(records: int, rate: float, steps: int, stream: np.random.Generator) -> Batches:
    """Return so many Poisson samples."""
    return [np.flatnonzero(stream.random(records) < rate).tolist() for _ in range(steps)]


def make_epochs(order: Sequence[Sequence[int]], batch_size: int) -> Batches:
    """Return the full batches of each epoch's order of the records; what is left of an epoch is dropped."""
    return [
        list(epoch[start : start + batch_size])
        for epoch in order
        for start in range(0, len(epoch) - batch_size + 1, batch_size)
    ]


def _bracket(event: Event, delta: float) -> tuple[float, float]:
    (lower, upper), _ = Reference().explain(event, delta=delta, adjacency=Adjacency.ADD_REMOVE)
    return lower, upper


class _BatchLists:
    """A batch sampler of lists that are drawn already."""

    def __init__(self, batches: Batches) -> None:
        self.lists = batches

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self.lists)

    def __len__(self) -> int:
        return len(self.lists)
