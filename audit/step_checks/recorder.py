"""A record of a torch training as it runs: which records each step drew, how many steps were taken, with which randomness."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from audit.core import checks
from audit.core.errors import ConfigError, DataError
from audit.stats import sampling_tests, whitening
from audit.step_checks.findings import Finding, PropertyStatus, finding, gap, pass_finding

BUDGET = 1e-7  # the chance that all tests of the law of batches together accuse a correct log, at most
FEWEST_STEPS = 20
History = tuple[float, float, int]  # noise multiplier, sample rate and number of steps that an accountant noted together


@dataclass(kw_only=True)
class TrainingLog:
    """What was recorded.

    Attributes:
        records: in the data set.
        batches: index lists in the order in which the loader drew them; workers draw a few ahead of the last step.
        passes: of the loader that were begun.
        ahead: lists that a pass may have drawn for steps that were never taken: one, and those that workers fetch.
        steps: calls of `step` of the optimisers that count.
        largest_share: the most of them that moved one parameter; None if it is not known, so that all count.
        generators: digest of torch's global generator at each step.
        noise: squares of noise numbers over the clip norm, added up, and their number; None if no step showed its noise.
        history: what the accountant noted meanwhile, `(noise multiplier, sample rate, steps)` each; None if none was given.
    """

    records: int
    batches: list[list[int]] = field(default_factory=list, repr=False)
    passes: int = 0
    ahead: int = 1
    steps: int = 0
    largest_share: int | None = None
    generators: list[str] = field(default_factory=list, repr=False)
    noise: tuple[float, int] | None = None
    history: list[History] | None = None

    def __str__(self) -> str:
        return (
            f"{self.steps} steps, {len(self.batches)} batches of {self.records} records, in {self.passes} passes of the loader"
        )

    def check(self, *, sample_rate: float, steps: int, noise_multiplier: float | None = None) -> list[Finding]:
        """Return findings on the steps taken and on the law of the batches, against what is accounted for.

        Args:
            sample_rate: of the accounting.
            steps: of the accounting.
            noise_multiplier: of the accounting; None takes the accountant's, if one was given.

        Raises:
            DataError: nothing was recorded, or an index is not of the data set.
        """
        checks.probability(sample_rate, "sample_rate")
        if not self.batches:
            raise DataError("no batch was recorded: is the loader that was recorded the one that the training used?")
        accounts = [] if self.history is None else [_account(self, self.history, sample_rate)]
        claims = [noise for noise, _, count in self.history or () if count] if noise_multiplier is None else [noise_multiplier]
        noises = [_noise(self, max(claims))] if claims else []
        return [_steps(self, steps), _unused_batches(self), *accounts, *noises, *_law(self, sample_rate), _reuse(self)]


@contextmanager
def record(loader: Any, accountant: Any = None, optimizer: Any = None) -> Iterator[TrainingLog]:
    """Record a torch training: `with record(loader) as log: train(...)`, then `log.check(sample_rate=..., steps=...)`.

    Args:
        loader: a `torch.utils.data.DataLoader` with a batch sampler; Opacus' loaders are.
        accountant: of Opacus (`engine.accountant`), or an object with such a `history`, which is compared with what was run.
        optimizer: the private one, or a list of several, if others step as well (a generator's, a public head's): only
            their steps count. Of Opacus' optimisers the noise that they add is measured too.

    Raises:
        DataError: the loader has no batch sampler (it loads from an iterable: its records have no index).
        ConfigError: the accountant has no history of `(noise multiplier, sample rate, steps)`.
    """
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    sampler = getattr(loader, "batch_sampler", None)
    if sampler is None:
        raise DataError(
            f"the loader, a {type(loader).__name__}, has no batch sampler; give a DataLoader over a map-style data set"
        )
    log = TrainingLog(records=len(loader.dataset), ahead=1 + loader.num_workers * (loader.prefetch_factor or 0))
    own = optimizer if isinstance(optimizer, list | tuple) else [] if optimizer is None else [optimizer]
    before = None if accountant is None else _history(accountant)
    original = type(sampler)
    # DataLoader forbids another batch_sampler after its construction, so the sampler's own class is changed and put back
    sampler.__class__ = type(original.__name__, (original,), {"__iter__": _recording(original, log)})
    shares = Counter[int]()
    handle = register_optimizer_step_pre_hook(lambda stepping, *_: _step(log, stepping, own, shares))
    try:
        yield log
    finally:
        handle.remove()
        # those that were named are private, each of them
        log.largest_share = log.steps if own else max(shares.values(), default=None)
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
    """Return what was noted after `before`; its last entry may have grown."""
    rows = after[len(before) :]
    if before and len(after) >= len(before):
        noise, rate, steps = after[len(before) - 1]
        increase = steps - before[-1][2]
        rows = [(noise, rate, increase), *rows] if increase else rows
    return rows


def _account(log: TrainingLog, history: list[History], rate: float) -> Finding:
    """Hold the accountant's history against the steps that were taken and the rate that is claimed."""
    check, steps = "loop.accountant", sum(row[2] for row in history)
    rates = sorted({row[1] for row in history})
    rate_text = ", ".join(f"{value:.4g}" for value in rates) or "none"
    message = f"the accountant noted {steps} steps at rate {rate_text}; {log.steps} were taken"
    is_low = any(value < rate * (1 - 1e-9) for value in rates)
    fix = (
        "let the accountant note every optimiser step (`optimizer.attach_step_hook`), at the rate with which batches are drawn"
    )
    answer = finding(check, not is_low and log.steps <= steps, message, measurement=log.steps, claim=steps, fix=fix)
    return answer if is_low else _ask_for_the_private_one(log, steps, answer)


def _ask_for_the_private_one(log: TrainingLog, steps: int, answer: Finding) -> Finding:
    """Return a question in the place of a failure that counts the steps of optimisers which may be public."""
    if log.largest_share is None or not log.largest_share <= steps < log.steps:
        return answer
    message = f"{answer.message}, by several optimisers: name the private ones by record(optimizer=), if others are public"
    return replace(answer, status=PropertyStatus.QUESTION, message=message)


def _recording(original: type, log: TrainingLog) -> Any:
    def iterate(self: Any) -> Iterator[Any]:
        log.passes += 1
        for batch in original.__iter__(self):  # type: ignore[attr-defined]
            log.batches.append([int(index) for index in batch])
            yield batch

    return iterate


def _step(log: TrainingLog, stepping: Any, private_optimizers: Sequence[Any], shares: Counter[int]) -> None:
    import torch

    private = next((opt for opt in private_optimizers if stepping in (opt, getattr(opt, "original_optimizer", opt))), None)
    if private_optimizers and private is None:
        return
    log.steps += 1
    shares[id(stepping.param_groups[0]["params"][0])] += 1  # one optimiser may follow another on the same model
    if private is not None and (energy := _noise_energy(private)) is not None:
        before = log.noise or (0.0, 0)
        log.noise = before[0] + energy[0], before[1] + energy[1]
    log.generators.append(hashlib.sha256(torch.get_rng_state().numpy().tobytes()).hexdigest())


def _noise_energy(optimizer: Any) -> tuple[float, int] | None:
    """Return the squares of noise numbers over the clip norm, added up, and their number: what is applied less the sum."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"] if parameter.grad is not None]
    sums: list[Any] = [getattr(parameter, "summed_grad", None) for parameter in parameters]
    divisor, clip_norm = getattr(optimizer, "expected_batch_size", None), getattr(optimizer, "max_grad_norm", None)
    if not parameters or any(total is None for total in sums) or not clip_norm:
        return None
    scale = divisor * optimizer.accumulated_iterations if divisor and optimizer.loss_reduction == "mean" else 1.0
    squares = sum(
        float((parameter.grad.double() * scale - total.double().view_as(parameter)).square().sum())
        for parameter, total in zip(parameters, sums, strict=True)
    )
    return squares / float(clip_norm) ** 2, sum(parameter.numel() for parameter in parameters)


def _noise(log: TrainingLog, claim: float) -> Finding:
    """Hold the noise that was added against the noise multiplier that is accounted for, by its chi-square."""
    check = "loop.noise"
    if log.noise is None:
        return gap(
            check,
            f"noise multiplier {claim:g} is accounted for, and none was seen: hand Opacus' optimiser to record(optimizer=)",
        )
    squares, count = log.noise
    multiplier = (squares / count) ** 0.5
    tail = whitening.energy_tail(squares / claim**2, count) if claim else 1.0
    message = f"noise of {multiplier:.4g} times the clip norm was added, {claim:.4g} is accounted for (p = {tail:.2g} for less)"
    fix = "account for the noise multiplier that the optimiser adds"
    return finding(check, tail >= BUDGET, message, measurement=multiplier, claim=claim, fix=fix)


def _unused_batches(log: TrainingLog) -> Finding:
    """Hold the batches that were drawn against the steps: what is done with the others is not accounted for."""
    spare = log.passes * log.ahead
    message = f"{len(log.batches)} batches were drawn and {log.steps} steps taken"
    holds = len(log.batches) <= log.steps + spare or not log.steps
    fix = "take one noisy step for each batch that is drawn, the empty ones too; evaluate on public records"
    return finding("loop.batches", holds, message, measurement=len(log.batches), claim=log.steps, fix=fix)


def _steps(log: TrainingLog, steps: int) -> Finding:
    message = f"{log.steps} optimiser steps were taken, {steps} are accounted for"
    fix = "account for every optimiser step, also of later epochs and of resumed runs"
    answer = finding("loop.steps", log.steps <= steps, message, measurement=log.steps, claim=steps, fix=fix)
    return _ask_for_the_private_one(log, steps, answer)


def _law(log: TrainingLog, rate: float) -> list[Finding]:
    batches: Sequence[Sequence[int]] = log.batches
    largest = max((max(batch) for batch in batches if batch), default=0)
    if largest >= log.records:
        raise DataError(f"a batch has the index {largest}; the data set has {log.records} records")
    twice = next((i for i, batch in enumerate(batches) if len(set(batch)) < len(batch)), None)
    if twice is not None:
        message = f"Batch {twice} holds a record more than once: its contribution is not bounded by one clip"
        return [finding("loop.duplicates", False, message, fix="draw each record at most once a batch")]
    if len(batches) < FEWEST_STEPS:
        return [
            gap("loop.sampling", f"{len(batches)} batches are too few to test their law; record at least {FEWEST_STEPS} steps")
        ]
    members = sampling_tests.membership(batches, log.records)
    mean = float(members.mean())
    tails = sampling_tests.poisson_tails(members, rate)
    level = BUDGET / len(tails)
    if mean < rate and tails["rate"] < level:
        # more was accounted for than was drawn, which keeps the claim: it remains to be seen whether these are Poisson samples
        tails = sampling_tests.poisson_tails(members, mean)
    name, tail = min(tails.items(), key=lambda item: item[1])
    message = f"{len(batches)} batches, mean rate {mean:.4g} of {rate:.4g} accounted; least likely: {name}, p = {tail:.2g}"
    in_passes = members.reshape(log.passes, -1, log.records) if log.passes and len(batches) % log.passes == 0 else members
    if tail < level and (in_passes.sum(axis=1) == 1).all():
        message += ": each record once a pass, as in shuffled batches"
    fix = (
        "draw every record independently with the accounted rate (Poisson sampling), or account for the batches that are drawn"
    )
    return [finding("loop.sampling", tail >= level, message, measurement=mean, claim=rate, fix=fix)]


def _reuse(log: TrainingLog) -> Finding:
    check = "loop.generator"
    repeats = len(log.generators) - len(set(log.generators))
    if repeats == 0 or len(set(log.generators)) == 1:  # one that never moves is not what noise is drawn from
        kind = "in a new state at every step" if repeats == 0 else "not used: noise comes from another one"
        return pass_finding(check, f"torch's global generator was {kind}")
    message = f"torch's generator was in an earlier state at {repeats} steps; if noise is drawn from it, it repeats"
    return Finding(check=check, status=PropertyStatus.QUESTION, message=message)
