"""Recorded trainings: the batch law by exact tests, steps done against steps accounted."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

from audit.core.errors import ConfigError, DataError
from audit.stats.sampling_tests import membership, poisson_tails
from audit.step_checks.findings import Finding, PropertyStatus
from audit.step_checks.recorder import SIGNIFICANCE, record

RECORDS, RATE, STEPS = 400, 0.05, 60


class Poisson:
    """A batch sampler that draws each record independently."""

    def __init__(self, rate: float = RATE, steps: int = STEPS, seed: int = 0) -> None:
        self.rate, self.steps, self.stream = rate, steps, np.random.default_rng(seed)

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[list[int]]:
        for _ in range(self.steps):
            yield np.flatnonzero(self.stream.random(RECORDS) < self.rate).tolist()


def train(loader: DataLoader[tuple[torch.Tensor, ...]], epochs: int = 1) -> None:
    model = torch.nn.Linear(3, 1)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(epochs):
        for (batch,) in loader:
            optimiser.zero_grad()
            (model(batch).sum() + torch.randn(())).backward()
            optimiser.step()


def findings(sampler: object, epochs: int = 1, rate: float = RATE, steps: int = STEPS) -> dict[str, Finding]:
    data = TensorDataset(torch.zeros(RECORDS, 3))
    loader = DataLoader(data, batch_sampler=sampler)  # type: ignore[arg-type]
    with record(loader) as log:
        train(loader, epochs)
    assert type(loader.batch_sampler) is type(sampler)
    return {finding.check: finding for finding in log.check(sample_rate=rate, steps=steps)}


def test_a_poisson_training_passes() -> None:
    assert {finding.status for finding in findings(Poisson()).values()} == {PropertyStatus.PASSED}


def test_shuffled_batches_are_no_poisson_samples() -> None:
    shuffled = BatchSampler(RandomSampler(range(RECORDS)), batch_size=20, drop_last=False)
    assert findings(shuffled, epochs=3)["loop.sampling"].status is PropertyStatus.FAILED


def test_another_rate_and_more_steps_fail() -> None:
    result = findings(Poisson(rate=0.075), epochs=1)
    assert result["loop.sampling"].status is PropertyStatus.FAILED
    assert findings(Poisson(steps=STEPS + 1))["loop.steps"].status is PropertyStatus.FAILED


def test_a_record_twice_in_a_batch_fails() -> None:
    replacement = BatchSampler(RandomSampler(range(RECORDS), replacement=True, num_samples=RECORDS * 3), 40, drop_last=True)
    assert findings(replacement, steps=30)["loop.duplicates"].status is PropertyStatus.FAILED


def test_truncated_batches_fail() -> None:
    class Truncated(Poisson):
        def __iter__(self) -> Iterator[list[int]]:
            for batch in super().__iter__():
                yield batch[:21]

    assert findings(Truncated(steps=200), steps=200)["loop.sampling"].status is PropertyStatus.FAILED


def test_correct_logs_are_never_accused() -> None:
    stream = np.random.default_rng(5)
    for _ in range(200):
        records, steps, rate = int(stream.integers(100, 800)), int(stream.integers(20, 200)), stream.uniform(0.01, 0.5)
        tails = poisson_tails(stream.random((steps, records)) < rate, rate)
        assert min(tails.values()) > SIGNIFICANCE


def test_memberships_that_belong_together_are_seen() -> None:
    stream = np.random.default_rng(6)
    halves = stream.random((80, 250)) < 0.1
    together = np.repeat(halves, 2, axis=1)
    assert poisson_tails(together, 0.1)["next record"] < SIGNIFICANCE
    sticky = np.repeat(stream.random((60, 500)) < 0.1, 2, axis=0)
    assert poisson_tails(sticky, 0.1)["next step"] < SIGNIFICANCE
    assert membership([[0, 2], []], 3).tolist() == [[True, False, True], [False, False, False]]


def test_a_loader_without_indices_is_refused() -> None:
    class Stream(torch.utils.data.IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            return iter(range(3))

    with pytest.raises(DataError, match="batch sampler"), record(DataLoader(Stream(), batch_size=None)):
        pass
    loader = DataLoader(TensorDataset(torch.zeros(8, 3)), batch_size=2)
    with record(loader) as log:
        pass
    with pytest.raises(DataError, match="no batch was recorded"):
        log.check(sample_rate=0.1, steps=3)


class Accountant:
    """The history of Opacus' accountants: equal steps in a row are counted in one entry."""

    def __init__(self, *history: tuple[float, float, int]) -> None:
        self.history = list(history)


@pytest.mark.parametrize(
    ("noted", "status"),
    [
        ((1.0, RATE, STEPS), PropertyStatus.PASSED),
        ((1.0, RATE, STEPS - 1), PropertyStatus.FAILED),
        ((1.0, RATE / 2, STEPS), PropertyStatus.FAILED),
    ],
)
@pytest.mark.parametrize("earlier", [(), ((1.0, RATE, 7),)])
def test_the_history_of_an_accountant_is_held_against_the_run(
    noted: tuple[float, float, int], status: PropertyStatus, earlier: tuple[tuple[float, float, int], ...]
) -> None:
    accountant = Accountant(*earlier)
    loader = DataLoader(TensorDataset(torch.zeros(RECORDS, 3)), batch_sampler=Poisson())  # type: ignore[arg-type]
    with record(loader, accountant) as log:
        train(loader)
        if earlier and noted[1] == RATE:  # Opacus adds to the last entry
            accountant.history[-1] = (1.0, RATE, 7 + noted[2])
        else:
            accountant.history.append(noted)
    assert log.history == [noted]
    findings_by_check = {finding.check: finding for finding in log.check(sample_rate=RATE, steps=STEPS)}
    assert findings_by_check["loop.accountant"].status is status


def test_an_accountant_without_history_is_refused() -> None:
    loader = DataLoader(TensorDataset(torch.zeros(8, 3)), batch_size=2)
    with pytest.raises(ConfigError, match="history"), record(loader, object()):
        pass
