"""A record of a torch training as it runs: which records each step drew, how many steps were taken, with which randomness."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from audit.core import checks
from audit.core.errors import ConfigError, DataError
from audit.stats import sampling_tests
from audit.step_checks.findings import Finding, PropertyStatus

SIGNIFICANCE = 1e-7
"""Of each test of the batch law; ten of them accuse a correct log once in a million."""
FEWEST_STEPS = 20
History = tuple[float, float, int]
"""Noise multiplier, sample rate and number of steps that an accountant noted together."""


@dataclass(kw_only=True)
class TrainingLog:
    """What was recorded.

    Attributes:
        records: in the data set.
        batches: index lists in the order in which the loader drew them; workers draw a few ahead of the last step.
        steps: calls of any torch optimiser's `step`.
        generators: digest of torch's global generator at each step.
        history: what the accountant noted meanwhile, `(noise multiplier, sample rate, steps)` each; None if none was given.
    """

    records: int
    batches: list[list[int]] = field(default_factory=list)
    steps: int = 0
    generators: list[str] = field(default_factory=list)
    history: list[History] | None = None

    def check(self, *, sample_rate: float, steps: int) -> list[Finding]:
        """Return findings on the steps taken and on the law of the batches, against what is accounted for.

        Args:
            sample_rate: of the accounting.
            steps: of the accounting.

        Raises:
            DataError: nothing was recorded, or an index is not of the data set.
        """
        checks.probability(sample_rate, "sample_rate")
        if not self.batches:
            raise DataError("no batch was recorded: is the loader that was recorded the one that the training used?")
        accounts = [] if self.history is None else [_noted(self, self.history, sample_rate)]
        return [_steps(self, steps), *accounts, *_law(self, sample_rate), _reuse(self)]


@contextmanager
def record(loader: Any, accountant: Any = None) -> Iterator[TrainingLog]:
    """Record a torch training: `with record(loader) as log: train(...)`, then `log.check(sample_rate=..., steps=...)`.

    Args:
        loader: a `torch.utils.data.DataLoader` with a batch sampler; Opacus' loaders are.
        accountant: of Opacus (`engine.accountant`), or an object with such a `history`, which is compared with what was run.

    Raises:
        DataError: the loader has no batch sampler (it loads from an iterable, whose records have no index).
        ConfigError: the accountant has no history of `(noise multiplier, sample rate, steps)`.
    """
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    sampler = getattr(loader, "batch_sampler", None)
    if sampler is None:
        raise DataError(
            f"the loader, a {type(loader).__name__}, has no batch sampler; give a DataLoader over a map-style data set"
        )
    log = TrainingLog(records=len(loader.dataset))
    before = None if accountant is None else _history(accountant)
    original = type(sampler)
    # DataLoader forbids another batch_sampler after its construction, so the sampler's own class is changed and put back
    sampler.__class__ = type(original.__name__, (original,), {"__iter__": _recording(original, log)})
    handle = register_optimizer_step_pre_hook(lambda *_: _step(log))
    try:
        yield log
    finally:
        handle.remove()
        sampler.__class__ = original
        if before is not None:
            log.history = _since(before, _history(accountant))


def _history(accountant: Any) -> list[History]:
    try:
        return [(float(noise), float(rate), int(steps)) for noise, rate, steps in accountant.history]
    except (AttributeError, TypeError, ValueError) as error:
        raise ConfigError(
            f"accountant is a {type(accountant).__name__} whose history is not read: {error}; expected one of Opacus"
        ) from error


def _since(before: list[History], after: list[History]) -> list[History]:
    """Return what was noted after `before`, whose last entry may have grown."""
    rows = after[len(before) :]
    if before and len(after) >= len(before):
        noise, rate, steps = after[len(before) - 1]
        increase = steps - before[-1][2]
        rows = [(noise, rate, increase), *rows] if increase else rows
    return rows


def _noted(log: TrainingLog, history: list[History], rate: float) -> Finding:
    """Hold the accountant's history against the steps that were taken and the rate that is claimed."""
    check, steps = "loop.accountant", sum(row[2] for row in history)
    rates = sorted({row[1] for row in history})
    rate_text = ", ".join(f"{value:.4g}" for value in rates) or "none"
    message = f"the accountant noted {steps} steps at rate {rate_text}; {log.steps} were taken"
    wrong = steps < log.steps or any(value < rate * (1 - 1e-9) for value in rates)
    fix = (
        "let the accountant note every optimiser step (`optimizer.attach_step_hook`), at the rate with which batches are drawn"
    )
    status = PropertyStatus.FAILED if wrong else PropertyStatus.PASSED
    return Finding(check=check, status=status, message=message, measured=log.steps, claimed=steps, fix=fix)


def _recording(original: type, log: TrainingLog) -> Any:
    def iterate(self: Any) -> Iterator[Any]:
        for batch in original.__iter__(self):  # type: ignore[attr-defined]
            log.batches.append([int(index) for index in batch])
            yield batch

    return iterate


def _step(log: TrainingLog) -> None:
    import torch

    log.steps += 1
    log.generators.append(hashlib.sha256(torch.get_rng_state().numpy().tobytes()).hexdigest())


def _steps(log: TrainingLog, steps: int) -> Finding:
    message = f"{log.steps} optimiser steps were taken, {steps} are accounted for"
    status = PropertyStatus.FAILED if log.steps > steps else PropertyStatus.PASSED
    fix = "account for every optimiser step, also of later epochs and of resumed runs"
    return Finding(check="loop.steps", status=status, message=message, measured=log.steps, claimed=steps, fix=fix)


def _law(log: TrainingLog, rate: float) -> list[Finding]:
    batches: Sequence[Sequence[int]] = log.batches[: log.steps] if log.steps else log.batches
    largest = max((max(batch) for batch in batches if batch), default=0)
    if largest >= log.records:
        raise DataError(f"a batch has the index {largest}; the data set has {log.records} records")
    twice = next((i for i, batch in enumerate(batches) if len(set(batch)) < len(batch)), None)
    if twice is not None:
        message = f"Batch {twice} holds a record more than once: its contribution is not bounded by one clip"
        return [
            Finding(
                check="loop.duplicates",
                status=PropertyStatus.FAILED,
                message=message,
                fix="draw each record at most once a batch",
            )
        ]
    if len(batches) < FEWEST_STEPS:
        message = f"{len(batches)} batches are too few to test their law; record at least {FEWEST_STEPS} steps"
        return [Finding(check="loop.sampling", status=PropertyStatus.GAP, message=message)]
    members = sampling_tests.membership(batches, log.records)
    mean = float(members.mean())
    tails = sampling_tests.poisson_tails(members, rate)
    if mean < rate and tails["rate"] < SIGNIFICANCE:
        # more was accounted for than was drawn, which keeps the claim: it remains to be seen whether these are Poisson samples
        tails = sampling_tests.poisson_tails(members, mean)
    name, tail = min(tails.items(), key=lambda item: item[1])
    message = f"{len(batches)} batches, mean rate {mean:.4g} of {rate:.4g} accounted; least likely: {name}, p = {tail:.2g}"
    status = PropertyStatus.FAILED if tail < SIGNIFICANCE else PropertyStatus.PASSED
    fix = (
        "draw every record independently with the accounted rate (Poisson sampling), or account for the batches that are drawn"
    )
    return [Finding(check="loop.sampling", status=status, message=message, measured=mean, claimed=rate, fix=fix)]


def _reuse(log: TrainingLog) -> Finding:
    check = "loop.generator"
    repeats = len(log.generators) - len(set(log.generators))
    if repeats == 0:
        return Finding(check=check, status=PropertyStatus.PASSED, message="torch's generator was in a new state at every step")
    message = f"torch's generator was in an earlier state at {repeats} steps; if noise is drawn from it, it repeats"
    return Finding(check=check, status=PropertyStatus.QUESTION, message=message)
