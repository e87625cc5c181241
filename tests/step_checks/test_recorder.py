"""Recorded trainings: the batch law by exact tests, steps done against steps accounted."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

from audit.core.errors import ConfigError, DataError
from audit.stats.sampling_tests import membership, poisson_tails
from audit.step_checks.findings import Finding, PropertyStatus
from audit.step_checks.recorder import BUDGET, record

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
    finding = findings(shuffled, epochs=3)["loop.sampling"]
    assert finding.status is PropertyStatus.FAILED
    assert finding.message.endswith("each record once a pass, as in shuffled batches")


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


@pytest.mark.parametrize("logs", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_correct_logs_are_never_accused(logs: int) -> None:
    stream = np.random.default_rng(5)
    for _ in range(logs):
        records, steps, rate = int(stream.integers(100, 800)), int(stream.integers(20, 200)), stream.uniform(0.01, 0.5)
        tails = poisson_tails(stream.random((steps, records)) < rate, rate)
        assert min(tails.values()) > BUDGET


def test_memberships_that_belong_together_are_seen() -> None:
    stream = np.random.default_rng(6)
    halves = stream.random((80, 250)) < 0.1
    together = np.repeat(halves, 2, axis=1)
    assert poisson_tails(together, 0.1)["next record"] < BUDGET
    sticky = np.repeat(stream.random((60, 500)) < 0.1, 2, axis=0)
    assert poisson_tails(sticky, 0.1)["next step"] < BUDGET
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


def defects() -> dict[str, np.ndarray]:
    """Return tables of 120 Poisson batches of 300 records at rate .1, each with one defect, by the test that finds it."""
    stream = np.random.default_rng(4)

    def table() -> np.ndarray:
        return stream.random((120, 300)) < 0.1

    tables = {name: table() for name in ("record drawn most", "record drawn least", "records alike", "batches alike")}
    tables["record drawn most"][:, 5] = stream.random(120) < 0.6
    tables["record drawn least"] = stream.random((400, 300)) < 0.1
    tables["record drawn least"][:, 5] = False
    tables["records alike"][:, 8] = tables["records alike"][:, 7]
    tables["batches alike"][50] = tables["batches alike"][3]
    tables["spread of inclusions"] = stream.random((240, 300)) < np.where(np.arange(300) < 30, 0.2, 0.08 / 0.9)
    tables["smallest batch"] = table()
    tables["smallest batch"][10] = False
    tables["batch sizes on a grid"] = table()
    for row in tables["batch sizes on a grid"]:
        row[np.flatnonzero(row)[: row.sum() % 8]] = False
    return tables


@pytest.mark.parametrize(
    "name",
    ["record drawn most", "record drawn least", "records alike", "batches alike", "smallest batch", "spread of inclusions"],
)
def test_one_odd_record_or_batch_is_seen(name: str) -> None:
    assert poisson_tails(defects()[name], 0.1)[name] < BUDGET / 14


def test_sizes_in_steps_of_eight_are_seen() -> None:
    members = defects()["batch sizes on a grid"]
    assert poisson_tails(members, float(members.mean()))["batch sizes on a grid"] < BUDGET / 14


def test_batches_without_a_step_fail_and_print_briefly() -> None:
    loader = DataLoader(TensorDataset(torch.zeros(RECORDS, 3)), batch_sampler=Poisson())  # type: ignore[arg-type]
    with record(loader) as log:
        train(loader)
        assert sum(len(batch) for (batch,) in loader) > 0  # a second pass over the private records
    by_check = {finding.check: finding.status for finding in log.check(sample_rate=RATE, steps=STEPS)}
    assert by_check["loop.batches"] is PropertyStatus.FAILED and len(repr(log)) < 200 and "passes" in str(log)


@pytest.mark.parametrize(("noted", "status"), [(1.0, PropertyStatus.PASSED), (2.0, PropertyStatus.FAILED)])
def test_the_noise_of_opacus_is_held_against_the_account(noted: float, status: PropertyStatus) -> None:
    opacus = pytest.importorskip("opacus", reason="needs the extra 'opacus'")
    model = torch.nn.Linear(3, 1)
    model, optimizer, loader = opacus.PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(TensorDataset(torch.ones(RECORDS, 3)), batch_size=20),
        noise_multiplier=1.0,
        max_grad_norm=0.5,
    )
    public = torch.optim.SGD([torch.nn.Parameter(torch.zeros(()))], lr=0.1)
    with record(loader, optimizer=optimizer) as log:
        for _ in range(3):
            for (batch,) in loader:
                optimizer.zero_grad()
                model(batch).mean().backward()
                optimizer.step()
                public.step()
    findings_by_check = {row.check: row for row in log.check(sample_rate=0.05, steps=60, noise_multiplier=noted)}
    assert log.steps == 60 and findings_by_check["loop.noise"].status is status
    assert findings_by_check["loop.batches"].status is PropertyStatus.PASSED


@pytest.mark.parametrize(
    ("public_steps", "names_private", "status"),
    [(1, False, PropertyStatus.QUESTION), (2, False, PropertyStatus.FAILED), (2, True, PropertyStatus.PASSED)],
)
def test_steps_of_a_public_optimiser_are_a_question_until_the_private_one_is_named(
    public_steps: int, names_private: bool, status: PropertyStatus
) -> None:
    loader = DataLoader(TensorDataset(torch.zeros(20, 1)), batch_size=10)
    private, public = (torch.optim.SGD([torch.zeros(1, requires_grad=True)]) for _ in range(2))
    with record(loader, optimizer=private if names_private else None) as log:
        for _ in loader:
            private.step()
            for _ in range(public_steps):
                public.step()
    finding = next(finding for finding in log.check(sample_rate=0.5, steps=2) if finding.check == "loop.steps")
    assert finding.status is status
    assert ("optimizer=" in finding.message) == (status is PropertyStatus.QUESTION)


def test_full_batches_are_drawn_at_rate_one_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tails = poisson_tails(membership([list(range(20_000))] * 24, 20_000), 1.0)
    assert min(tails.values()) == 1.0
