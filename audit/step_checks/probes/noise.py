"""The noise is normal with standard deviation sigma C in every coordinate, anew in every call and every batch."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit.stats import noise_tests
from audit.step_checks.batches import Batch, rows
from audit.step_checks.findings import Finding, PropertyStatus, failure, gap, pass_finding
from audit.step_checks.step_under_test import StepUnderTest
from audit.step_checks.steps import Setting

SIGNIFICANCE = 1e-9
"""Of each single test; a step has some hundred of them, so a correct step fails less than once in a million."""
NUMBERS = 320
"""Noise numbers per tensor and batch at the first setting, at least: enough to tell 2 from its square root."""
FEW_NUMBERS = 64
"""At the other settings, which need to show only that the noise follows sigma and C."""
LAW_NUMBERS = 4000
LEAST_CALLS, MOST_CALLS = 7, 400
COARSEST = 2.0**-8
"""Relative rounding of bfloat16 numbers that were rounded twice, as noise and as a sum with it."""
NEAREST_COLUMNS = 512  # by which calls are compared with each other
FIX = "add N(0, (sigma C)^2) once to every coordinate of the clipped sum, also of an empty batch, then divide once"
Noise = dict[str, NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class NoiseLaw:
    """Variance by tensor at several settings and batches, repetition, shape, resolution."""

    def run(self, bench: StepUnderTest) -> list[Finding]:
        """Return the findings on the noise; gaps if the claim has none or the step is random alone."""
        if bench.claimed.noise_multiplier == 0:
            return [gap("noise.variance", "no noise is claimed (noise multiplier 0): the step has no guarantee of privacy")]
        settings = _settings(bench)
        batches = _batches(bench)
        smallest = min(array.size for array in bench.release(batches[-1][1], bench.claimed).values())
        calls = min(MOST_CALLS, max(4, math.ceil(NUMBERS / smallest)))
        few_calls = min(calls, max(4, math.ceil(FEW_NUMBERS / smallest)))
        most_calls = max(calls, LEAST_CALLS, min(MOST_CALLS, math.ceil(LAW_NUMBERS / bench.size)))
        plan = [(settings[0], *batches[-1], most_calls)]
        plan += [(settings[0], *batch, calls) for batch in batches[:-1]]
        plan += [(setting, *batches[-1], few_calls) for setting in settings[1:]]
        samples = [
            (setting, name, batch, _noise(bench, batch, setting, count, bench.seed + 1000 * (1 + at)))
            for at, (setting, name, batch, count) in enumerate(plan)
        ]
        masks = _release_masks(bench, samples[0][3])
        samples = [(setting, name, batch, _only(noise, masks)) for setting, name, batch, noise in samples]
        longest = samples[0][3]
        variance = _variance(bench, samples)
        if variance.status is PropertyStatus.PASSED:
            variance = _coordinates(bench, settings[0], batches[-1][1], longest) or variance
        variance_holds = variance.status is PropertyStatus.PASSED
        law_samples = samples if variance_holds and _has_clean_release(bench) else samples[:1]
        return [variance, _repeats(bench, samples, variance_holds), _law(bench, law_samples), _resolution(longest)]


def _settings(bench: StepUnderTest) -> list[Setting]:
    sigmas = (2.0, 0.5) if bench.adjusts("noise_multiplier") else (bench.claimed.noise_multiplier,)
    factors = (1.0, 3.0) if bench.adjusts("clip_norm") else (1.0,)
    return [bench.at(noise=sigma, clip=factor * bench.claimed.clip_norm) for sigma in sigmas for factor in factors]


def _batches(bench: StepUnderTest) -> list[tuple[str, Batch]]:
    batches = [] if bench.empty_error else [("the empty batch", bench.empty)]
    sizes = (1, 5, min(12, len(bench.sample[0])))
    return [*batches, *((f"a batch of {size}", rows(bench.sample, slice(0, size))) for size in sizes)]


def _noise(bench: StepUnderTest, batch: Batch, setting: Setting, calls: int, first_seed: int) -> Noise:
    """Noise of `calls` calls with seeds from `first_seed` on, name to `(calls, coordinates)`.

    If noise can be set to 0, the clean release is subtracted; else the mean over calls, which takes one degree of freedom.
    """
    releases = [bench.release(batch, setting, first_seed + i) for i in range(calls)]
    noise = {name: np.stack([release[name].ravel() for release in releases]) for name in releases[0]}
    if _has_clean_release(bench):
        clean = bench.release(batch, bench.quiet(clip=setting.clip_norm))
        return {name: values - clean[name].ravel() for name, values in noise.items()}
    return {name: (values - values.mean(0)) * math.sqrt(calls / (calls - 1)) for name, values in noise.items()}


def _has_clean_release(bench: StepUnderTest) -> bool:
    return bench.adjusts("noise_multiplier") and not bench.random


def _variance(bench: StepUnderTest, samples: list[tuple[Setting, str, Batch, Noise]]) -> Finding:
    worst, finding = 2.0, None
    for setting, batch_name, batch, noise in samples:
        expected_std = setting.noise_multiplier * setting.clip_norm
        for name, values in noise.items():
            if not np.isfinite(values).all():
                tail, ratio = 0.0, math.nan
            else:
                tail, ratio = noise_tests.variance_tail(values, expected_std), float(np.sqrt(np.mean(values**2))) / expected_std
            if tail < worst:
                worst = tail
                location = f"tensor '{name}', {batch_name}, sigma = {setting.noise_multiplier:g}, C = {setting.clip_norm:.3g}"
                finding = (ratio, location, bench.witness(batch, None, setting))
    assert finding is not None  # noqa: S101  a step releases at least one tensor
    ratio, location, witness = finding
    message = f"Noise has {ratio:.3g} times the claimed standard deviation sigma C ({location})"
    if worst >= SIGNIFICANCE:
        return pass_finding("noise.variance", f"Least likely tensor: {message[0].lower()}{message[1:]}", ratio, 1.0)
    check = "noise.missing" if ratio < 1e-3 else "noise.variance"
    return failure(check, message, fix=FIX, witness=witness, measurement=ratio, claim=1.0)


def _coordinates(bench: StepUnderTest, setting: Setting, batch: Batch, noise: Noise) -> Finding | None:
    """Return the failure of a coordinate whose own noise is too small or too large, if there is one.

    A tensor's variance hides one row without noise among many.
    """
    expected_std = setting.noise_multiplier * setting.clip_norm
    size, calls = sum(values.shape[1] for values in noise.values()), len(next(iter(noise.values())))
    # without a clean release the mean over calls was subtracted, and the rest scaled to the same variance
    degrees = 0 if _has_clean_release(bench) else 1
    scale = math.sqrt((calls - degrees) / calls)
    for name, values in noise.items():
        tails = size * noise_tests.coordinate_tails(scale * values, expected_std, degrees)
        for at in np.flatnonzero(tails < SIGNIFICANCE).tolist():
            ratio = float(np.sqrt(np.mean(values[:, at] ** 2))) / expected_std
            return failure(
                "noise.missing" if ratio < 1e-3 else "noise.variance",
                f"Coordinate {at} of tensor '{name}' has {ratio:.3g} times the claimed standard deviation sigma C of noise, "
                f"the tensor as a whole has it ({tails[at]:.2g} of {size} coordinates by chance)",
                fix=FIX,
                witness=bench.witness(batch, None, setting),
                measurement=ratio,
                claim=1.0,
            )
    return None


def _release_masks(bench: StepUnderTest, noise: Noise) -> dict[str, NDArray[np.bool_]]:
    """Return which coordinates are released, `(coordinates,)` by tensor: those with noise, and those that some record moves.

    The others are constants, such as the padding row of an embedding: they need no noise. If none were left, all are taken.
    """
    masks: dict[str, NDArray[np.bool_]] = {name: (values != 0).any(axis=0) for name, values in noise.items()}
    if all(mask.all() for mask in masks.values()):
        return masks
    setting = bench.quiet()
    for batch in (bench.sample, *bench.records.values()):
        release = bench.release(batch, setting)
        masks = {name: mask | (release[name].ravel() != 0) for name, mask in masks.items()}
    if not any(mask.any() for mask in masks.values()):
        return {name: np.ones_like(mask) for name, mask in masks.items()}
    return masks


def _only(noise: Noise, masks: dict[str, NDArray[np.bool_]]) -> Noise:
    """Return the noise of the coordinates under the masks, without tensors of which none is."""
    return {name: values[:, masks[name]] for name, values in noise.items() if masks[name].any()}


def _repeats(bench: StepUnderTest, samples: list[tuple[Setting, str, Batch, Noise]], variance_holds: bool) -> Finding:
    check, fix = "noise.repeats", "draw fresh noise from the step's generator for every tensor, step and run"
    for setting, batch_name, batch, noise in samples:
        for name, values in noise.items():
            if np.array_equal(values[0], values[1]):
                message = f"Two calls with different seeds have the same noise in tensor '{name}' ({batch_name})"
                return failure(check, message, fix=fix, witness=bench.witness(batch, None, setting, bench.seed + 1000))
    setting, batch_name, batch, noise = samples[0]
    for (first, first_noise), (second, right) in itertools.combinations(noise.items(), 2):
        width = min(first_noise.shape[1], right.shape[1])
        tail = noise_tests.correlation_tail(first_noise[:, :width].ravel(), right[:, :width].ravel())
        if tail < SIGNIFICANCE:
            message = f"The noise of tensors '{first}' and '{second}' is correlated"
            return failure(check, message, fix=fix, witness=bench.witness(batch, None, setting, bench.seed + 1000))
    joint = np.concatenate(list(noise.values()), axis=1)
    if min(noise_tests.correlation_tail(joint[i], joint[i + 1]) for i in range(len(joint) - 1)) < SIGNIFICANCE:
        return failure(
            check, "The noise of consecutive calls is correlated", fix=fix, witness=bench.witness(batch, None, setting)
        )
    rounding = COARSEST * (np.abs(joint).max(axis=0) + setting.clip_norm) + 4 * bench.step.resolution * setting.divisor
    if np.isfinite(joint).all() and noise_tests.twins_tail(joint, rounding) < SIGNIFICANCE:
        message = "Some coordinates have the noise of others but for a factor: a combination of them is released without noise"
        return failure(check, message, fix=fix, witness=bench.witness(batch, None, setting, bench.seed + 1000))
    if variance_holds and _has_clean_release(bench) and _nearest(bench, samples) < SIGNIFICANCE:
        message = "Two calls with different seeds have the same noise, or one minus the other's: noise comes from few seeds"
        return failure(check, message, fix=fix, witness=bench.witness(batch, None, setting, bench.seed + 1000))
    return pass_finding(check, "Noise differs between calls, between tensors and within them")


def _nearest(bench: StepUnderTest, samples: list[tuple[Setting, str, Batch, Noise]]) -> float:
    """Return the p-value that no two calls of all samples share their noise, from `NEAREST_COLUMNS` coordinates at most."""
    size = sum(values.shape[1] for values in samples[0][3].values())
    columns = np.linspace(0, size - 1, min(size, NEAREST_COLUMNS)).astype(int)
    rows, errors = [], [0.0]
    for setting, _, _, noise in samples:
        deviation = setting.noise_multiplier * setting.clip_norm
        joint = np.concatenate(list(noise.values()), axis=1)[:, columns]
        rows.append(joint / deviation)
        largest = float(np.abs(joint).max()) + setting.clip_norm
        errors.append((COARSEST * largest + 4 * bench.step.resolution * setting.divisor) / deviation)
    return noise_tests.nearest_tail(np.concatenate(rows), max(errors))


def _law(bench: StepUnderTest, samples: list[tuple[Setting, str, Batch, Noise]]) -> Finding:
    """Return the finding on the shape of the longest sample's noise, and on the largest number of all samples together.

    Their seeds differ, so numbers are independent; if the mean over calls was subtracted or some variance is wrong, only the
    longest sample is given.
    """
    longest, *shorter = (_standardised(setting, noise) for setting, _, _, noise in samples)
    setting = samples[0][0]
    if not np.isfinite(longest).all() or not longest.std():
        return gap("noise.law", "the noise is missing or not finite, so its shape cannot be tested")
    together = np.concatenate([longest, *shorter])
    shape = noise_tests.normal_tail(longest / longest.std())  # the variance has its own test
    extreme = noise_tests.extreme_tail(together / together.std())
    message = f"{together.size} noise numbers: p = {shape:.2g} for a normal law, p = {extreme:.2g} for the largest value"
    if min(shape, extreme) >= SIGNIFICANCE:
        reach = noise_tests.unseen_bound(together.size, SIGNIFICANCE)
        return pass_finding("noise.law", f"{message}; noise cut off beyond {reach:.1f} deviations would pass")
    fix = "draw normal noise; bounded or truncated noise has no (epsilon, delta) by this accounting"
    return failure("noise.law", message, fix=fix, witness=bench.witness(rows(bench.sample, slice(0, 1)), None, setting))


def _standardised(setting: Setting, noise: Noise) -> NDArray[np.float64]:
    """Return all noise numbers of a sample over the claimed deviation."""
    return np.concatenate([values.ravel() for values in noise.values()]) / (setting.noise_multiplier * setting.clip_norm)


def _resolution(noise: Noise) -> Finding:
    check = "noise.resolution"
    for name, values in noise.items():
        bits = noise_tests.lattice_bits(values.ravel())
        if bits is not None and np.unique(values).size > 1:
            message = f"The noise of tensor '{name}' lies on a grid of {bits} significant bits: it was drawn in half precision"
            return failure(check, message, fix="draw noise in float32 or wider and add it before rounding", witness=None)
    return pass_finding(check, "No tensor's noise lies on the grid of a half-precision format")


PLUGIN = NoiseLaw
