"""All probes on one step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from audit.core.errors import ConfigError
from audit.step_checks.batches import check_batch, rows
from audit.step_checks.findings import Finding, PropertyStatus, StepReport, all_findings, failure, note
from audit.step_checks.probes.sensitivity import SMALLEST_CLIP
from audit.step_checks.replayed import replay_findings
from audit.step_checks.step_under_test import StepUnderTest
from audit.step_checks.steps import PARAMETERS, FunctionStep, RescaledStep, Setting, Step

PROBES = "audit.step_checks.probes"
LEAST_RECORDS = 8
PROPORTION = 1e-4  # 1 less the cosine of two vectors that half precision rounds, or two lengths
SUM_CHECKS = ("clip.", "noise.", "sum.")  # checks about the noisy sum; the others are about the whole step


def check_step(
    function: Callable[..., Any],
    params: Mapping[str, Any],
    sample: Sequence[Any],
    *,
    noise_multiplier: float,
    clip_norm: float,
    divisor: float,
    returns: str = PARAMETERS,
    learning_rate: float = 1.0,
    generator: str | None = None,
    deviations: Mapping[str, float] | None = None,
    seed: int = 0,
    probes: Sequence[str] = (),
) -> StepReport:
    """Return the findings of all probes on one DP-SGD step; takes seconds and trains nothing.

    Args:
        function: `function(params, batch, generator[, noise_multiplier=, clip_norm=, divisor=])`, which returns the new
            parameters or the released sum. The more of the three keywords it takes, the more can be tested.
        params: name to tensor or array.
        sample: arrays of at least 8 ordinary records, `(inputs, labels)`.
        noise_multiplier, clip_norm, divisor: what the accounting of the training claims.
        returns: "parameters" or "sum".
        learning_rate: that the function uses, if it returns parameters of plain gradient descent.
        generator: "torch", "numpy" or "seed": what the function takes as its third argument; None infers it from `params`.
        deviations: of the noise of each tensor at the claimed setting, if groups of parameters have their own noise; they
            are taken to grow with sigma and C. The claim is then about the Mahalanobis norm of what a record moves.
        seed: of the calls.
        probes: further probes, `package.module:Class` each, with a method `run(step_under_test)` that returns findings.

    Raises:
        ConfigError: the function returns something else than a mapping with the keys of `params`.
        DataError: the sample cannot be used.

    References: docs/use/step-checks.md.
    """
    claim = Setting(noise_multiplier=noise_multiplier, clip_norm=clip_norm, divisor=divisor)
    plain = FunctionStep(function=function, params=params, returns=returns, learning_rate=learning_rate, generator=generator)
    step = plain if deviations is None else RescaledStep.of(plain, list(params), deviations, claim)
    name = f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', type(function).__name__)}"
    return run_probes(step, sample, claim, name=name, seed=seed, probes=probes)


def check_optimizer(
    model: Any,
    optimizer: Any,
    criterion: Callable[[Any, Any], Any],
    sample: Sequence[Any],
    *,
    noise_multiplier: float,
    clip_norm: float,
    divisor: float,
    mean: bool = True,
    seed: int = 0,
    probes: Sequence[str] = (),
) -> StepReport:
    """Return the findings of all probes on one step of a private optimiser, such as Opacus' `make_private` returns.

    Args:
        model, optimizer, criterion: as the training uses them; parameters, settings and the state of the optimiser are put
            back, and no step is reported to an accountant (Opacus).
        sample: arrays of at least 8 ordinary records, `(inputs, labels)`.
        noise_multiplier, clip_norm, divisor: what the accounting claims; the divisor is the expected batch size.
        mean: whether the optimiser divides the noisy sum by the divisor (`loss_reduction="mean"`).
        seed: of the calls.
        probes: further probes, `package.module:Class` each, with a method `run(step_under_test)` that returns findings.

    Raises:
        ConfigError: no optimiser, or a step that leaves trainable parameters without a gradient.
        DataError: the sample cannot be used.
    """
    from audit.step_checks.optimizer_step import OptimizerStep

    step = OptimizerStep(model=model, optimizer=optimizer, criterion=criterion, mean=mean)
    claim = Setting(noise_multiplier=noise_multiplier, clip_norm=clip_norm, divisor=divisor)
    return run_probes(
        step, sample, claim, name=f"{type(optimizer).__name__} on {type(model).__name__}", seed=seed, probes=probes
    )


def check_trainer(
    trainer: Any,
    sample: Mapping[str, Any],
    *,
    noise_multiplier: float,
    clip_norm: float,
    divisor: float,
    mean: bool = True,
    seed: int = 0,
    probes: Sequence[str] = (),
) -> StepReport:
    """Return the findings of all probes on one step of a Hugging Face `Trainer`, by its own `training_step`.

    Args:
        trainer: a `transformers.Trainer` or a subclass (TRL, PEFT models), before or after a training; its model and the
            state of its optimiser are put back. `training_step`, the clipping by `args.max_grad_norm`, callbacks before the
            optimiser (`on_pre_optimizer_step`) and the optimiser run as in its loop.
        sample: arrays of at least 8 ordinary records by the names that the model takes, "labels" among them.
        noise_multiplier, clip_norm, divisor: what the accounting claims; the divisor is the expected batch size.
        mean: whether the gradients that reach the optimiser are divided by the divisor.
        seed: of the calls.
        probes: further probes, `package.module:Class` each, with a method `run(step_under_test)` that returns findings.

    Raises:
        ConfigError: no trainer, one that accumulates gradients or runs in several processes.
        DataError: the sample cannot be used.
    """
    from audit.step_checks.trainer_step import TrainerStep, sample_arrays

    names, arrays = sample_arrays(sample)
    step = TrainerStep(trainer=trainer, names=names, mean=mean)
    claim = Setting(noise_multiplier=noise_multiplier, clip_norm=clip_norm, divisor=divisor)
    return run_probes(
        step, arrays, claim, name=f"{type(trainer).__name__} on {type(step.model).__name__}", seed=seed, probes=probes
    )


def run_probes(
    step: Step, sample: Sequence[Any], setting: Setting, *, name: str, seed: int = 0, probes: Sequence[str] = ()
) -> StepReport:
    """Return the findings of the replay, of every plug-in in `audit.step_checks.probes`, and of `probes`, on a step."""
    arrays = [np.asarray(array.detach().cpu().numpy() if hasattr(array, "detach") else array) for array in sample]
    bench = StepUnderTest(step=step, sample=check_batch(arrays, LEAST_RECORDS), claimed=setting, seed=seed)
    refusal = bench.refusal(rows(bench.sample, [1]))
    if refusal and not bench.refusal(rows(bench.sample, [0, 1])):
        raise ConfigError(f"{refusal}. Poisson sampling draws batches of one record: let them pass (squeeze(1), not squeeze())")
    start = time.perf_counter()
    replays = replay_findings(bench)
    spent = {"replayed": time.perf_counter() - start}
    bench.replayed_step = step if [finding.status for finding in replays] == [PropertyStatus.PASSED] * 2 else None
    findings, seconds = all_findings(PROBES, bench, probes)
    accused = any(finding.check.startswith(SUM_CHECKS) for finding in findings if finding.status is PropertyStatus.FAILED)
    if accused and bench.replayed_step is not None:
        findings = _read_noisy_sum(bench, findings, probes)
    return StepReport(
        name=name, setting=setting, findings=(*replays, *findings, *_less_noise(step, setting)), seconds=spent | seconds
    )


def _less_noise(step: Step, claimed: Setting) -> Iterator[Finding]:
    """Yield the failure of an optimiser whose own noise multiplier, which checks replace by the claimed one, is below it."""
    own = getattr(getattr(step, "optimizer", None), "noise_multiplier", None)
    if isinstance(own, int | float) and own < claimed.noise_multiplier * (1 - 1e-6):
        yield failure(
            "noise.variance",
            f"The optimiser's own noise_multiplier is {own:.6g}, and {claimed.noise_multiplier:.6g} is claimed",
            fix="make the optimiser with the noise multiplier that is accounted for",
            witness=None,
            measurement=float(own),
            claim=claimed.noise_multiplier,
        )


def _read_noisy_sum(bench: StepUnderTest, findings: tuple[Finding, ...], probes: Sequence[str]) -> tuple[Finding, ...]:
    """Return the findings on the sum inside a step, in units of its noise, or those that there are.

    Probes that accuse what is returned are asked again about the sum if every one of their calls is a function of it.
    """
    from audit.step_checks.noisy_sum import NoisySumStep, NotFollowedError

    if isinstance(bench.step, RescaledStep):
        return findings
    sizes = [value.size for value in bench.release(bench.of_size(1), bench.claimed).values()]
    reference = rows(bench.sample, slice(0, 8))
    step = NoisySumStep(step=bench.step, reference=reference, claimed=bench.claimed, seed=bench.seed, sizes=sizes)
    inner = replace(bench, step=step)
    try:
        inner.empty_error  # noqa: B018  most sums that are not followed have no noise here, and the probes take seconds
        if not step.is_even() and not _clips_by_its_noise(inner):
            return findings
        sums, _ = all_findings(PROBES, inner, probes)
    except NotFollowedError:
        return findings
    text = (
        "What is returned is a function of a sum with noise, in every call equal to the last bit given that sum: "
        f"{', '.join(SUM_CHECKS)} are about the sum, in units of its own noise"
    )
    # a sum is read in double precision: how its noise was drawn shows in what is returned, if that is the sum
    outer = {"noise.resolution"} if _are_in_proportion(bench, inner) else set()
    outer |= {finding.check for finding in sums if finding.status is PropertyStatus.GAP}  # it contradicts nothing
    kept = [finding for finding in findings if finding.check in outer or not finding.check.startswith(SUM_CHECKS)]
    about_sums = [finding for finding in sums if finding.check.startswith(SUM_CHECKS) and finding.check not in outer]
    return (*about_sums, *kept, note("step.processing", text))


def _clips_by_its_noise(inner: StepUnderTest) -> bool:
    """True if all clipped records are equally long in units of the noise, whatever the directions of their gradients.

    Noise that is uneven within a tensor hides a record only so: few records have gradients where it is least.
    """
    if not inner.adjusts("clip_norm"):
        return False
    setting = inner.quiet(clip=SMALLEST_CLIP * inner.natural_norms[0])
    records = [*inner.records.values(), *(rows(inner.sample, [i]) for i in range(LEAST_RECORDS))]
    lengths = [length for record in records if (length := inner.single(record, setting)) > 0]
    return max(lengths) <= min(lengths) * (1 + PROPORTION)


def _are_in_proportion(bench: StepUnderTest, inner: StepUnderTest) -> bool:
    """True if without noise the step returns its sum, but for a factor and rounding."""
    if not bench.adjusts("noise_multiplier"):
        return False
    batch, quiet = bench.of_size(max(bench.batch_sizes)), bench.quiet()
    outputs, sums = (
        np.concatenate([value.ravel() for value in under_test.release(batch, quiet).values()]) for under_test in (bench, inner)
    )
    if outputs.size != sums.size:
        return False
    lengths = float(np.linalg.norm(outputs)) * float(np.linalg.norm(sums))
    return bool(lengths > 0 and float(outputs @ sums) > (1 - PROPORTION) * lengths)
