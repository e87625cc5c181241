"""The noise is N(0, (sigma C)^2 I): over sigma C it is white in every direction, anew in every call and every batch."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from audit.stats import noise_tests, whitening
from audit.step_checks.batches import Batch
from audit.step_checks.findings import Finding, PropertyStatus, failure, gap, note, pass_finding
from audit.step_checks.followed_noise import has_claimed_noise
from audit.step_checks.step_under_test import StepUnderTest
from audit.step_checks.steps import Setting

BUDGET = 1e-7  # the chance that all tests of a correct step together accuse it, at most; each takes an equal part
# noise numbers of a batch in its smallest tensor, and of the longest sample, at least, within the calls below
NUMBERS, LAW_NUMBERS = 320, 20_000
ABSENT = 1e-3  # share of the claimed deviation below which noise is missing
LEAST_CALLS, MOST_CALLS, MOST_ROWS = 8, 400, 4096
RESOLVED = 2000  # numbers that show on which grid noise lies that is followed
LONGEST_BATCH = 16
COARSEST = 2.0**-8  # relative rounding of bfloat16 numbers that were rounded twice, as noise and as a sum with it
FINEST = 2.0**-21  # spacing of normal numbers in single precision, as generators draw them
NEAREST_COLUMNS = 512  # by which calls are compared with each other
FIX = "add N(0, (sigma C)^2) once to every coordinate of the clipped sum, also of an empty batch, then divide once"
FIX_FRESH = "draw fresh noise from the step's generator for every tensor, step and run"
FIX_LAW = "draw normal noise; bounded or truncated noise has no (epsilon, delta) by this accounting"
Noise = dict[str, NDArray[np.float64]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sample:
    """Noise of several calls on one batch over sigma C: rows of independent N(0, I), if the claim is true."""

    setting: Setting
    name: str
    batch: Batch
    seed: int
    noise: Noise  # name to `(calls, coordinates)`
    spacing: float  # largest distance of neighbouring numbers that rounding makes
    exact: bool  # whether nothing but noise is random in it: the step has no dropout, or the batch no records

    @property
    def joint(self) -> NDArray[np.float64]:
        """Return all tensors beside each other, `(calls, coordinates)`."""
        return np.concatenate(list(self.noise.values()), axis=1)

    @property
    def location(self) -> str:
        """Return the batch and the setting in words."""
        return f"{self.name}, sigma = {self.setting.noise_multiplier:g}, C = {self.setting.clip_norm:.3g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseTest:
    """One test: its p-value, and the sentence and fix if it fails."""

    check: str
    tail: float
    message: str
    fix: str
    sample: Sample
    ratio: float | None = None


@dataclass(frozen=True, slots=True)
class NoiseLaw:
    """Directions with too little noise, noise that repeats, and its shape, at the claimed setting first."""

    def run(self, bench: StepUnderTest) -> list[Finding]:
        """Return the findings on the noise; gaps if the claim has none or the step is random alone."""
        if bench.claimed.noise_multiplier == 0:
            return [gap("noise.variance", "no noise is claimed (noise multiplier 0): the step has no guarantee of privacy")]
        if findings := _exact_findings(bench):
            return findings
        samples = _samples(bench)
        endless = next((sample for sample in samples if not np.isfinite(sample.joint).all()), None)
        if endless is not None:
            witness = bench.witness(endless.batch, None, endless.setting, endless.seed)
            return [failure("noise.variance", f"The release is not finite ({endless.location})", fix=FIX, witness=witness)]
        stream = np.random.default_rng(bench.seed)
        factors = _factors(samples)
        evidence = [*_too_little(bench, samples, stream), *_grows(samples, factors)]
        # how much noise there is was said: what follows is about its kind
        samples_alike = [_rescale(sample, factor) for sample, factor in zip(samples, factors, strict=True)]
        samples_alike = [sample for sample in samples_alike if sample.noise]
        if samples_alike:
            evidence += [*_repeats(bench, samples_alike, stream), *_shape(samples_alike)]
        findings = [_judge(bench, check, evidence) for check in ("noise.variance", "noise.repeats", "noise.law")]
        largest = max(max(factor.values()) for factor in factors)
        if largest > 1 and findings[0].status is PropertyStatus.PASSED:
            message = (
                f"Noise has {largest:.3g} times the claimed standard deviation: more private than claimed, and less useful"
            )
            findings[0] = note("noise.variance", message, largest, 1.0)
        return [*findings, _resolution(bench, (samples_alike or samples)[0])]


def _exact_findings(bench: StepUnderTest) -> list[Finding]:
    """Return the findings on noise that a replay follows and that is as claimed; none if the noise is to be sampled."""
    plan = _plan(bench) if bench.replayed_step is bench.step else []
    calls = dict.fromkeys((setting, count) for setting, count, _ in plan)
    if not plan or not has_claimed_noise(bench.step, [(bench.of_size(count), setting) for setting, count in calls]):
        return []
    sizes = ", ".join(str(count) for count in bench.batch_sizes)
    texts = {
        "noise.variance": f"Followed exactly, each number has noise of deviation sigma C, in batches of {sizes}",
        "noise.repeats": "Followed exactly, each number has a draw of its own, in every call",
        "noise.law": "Followed exactly, the noise is normal",
    }
    sample = _sample(bench, *plan[0][:2], max(LEAST_CALLS, min(64, math.ceil(RESOLVED / bench.size))), 1000)
    return [*(pass_finding(check, text, 1.0, 1.0) for check, text in texts.items()), _resolution(bench, sample)]


def _plan(bench: StepUnderTest) -> list[tuple[Setting, int, int]]:
    """Return settings, sizes of batches and numbers of calls: the longest sample, each size as claimed, other sigma and C."""
    clean = bench.adjusts("noise_multiplier") and not bench.random
    sizes = bench.batch_sizes
    longest = min(LONGEST_BATCH, sizes[len(sizes) // 2]) if clean or bench.empty_error else 0
    release = bench.release(bench.of_size(1), bench.claimed)
    smallest = min(value.size for value in release.values())
    size = sum(value.size for value in release.values())
    longest_calls = min(MOST_CALLS, max(LEAST_CALLS, math.ceil(LAW_NUMBERS / size), size + 16 if size < MOST_CALLS else 64))
    calls = max(LEAST_CALLS, min(math.ceil(NUMBERS / smallest), 64))
    plan = [(bench.claimed, longest, longest_calls if size < 100_000 else LEAST_CALLS)]
    plan += [(bench.claimed, count, max(LEAST_CALLS, min(calls, MOST_ROWS // max(1, count)))) for count in sizes]
    sigma, clip = bench.claimed.noise_multiplier, bench.claimed.clip_norm
    if bench.adjusts("noise_multiplier"):
        plan.append((bench.at(noise=2 * sigma), min(1, sizes[-1]), calls))
    if bench.adjusts("noise_multiplier") or bench.adjusts("clip_norm"):
        plan.append((bench.at(noise=sigma / 2, clip=3 * clip), min(1, sizes[-1]), calls))
    return plan


def _samples(bench: StepUnderTest) -> list[Sample]:
    """Return the noise of each call that is planned, of coordinates that are released."""
    samples = [
        _sample(bench, setting, count, calls, 1000 * (1 + at)) for at, (setting, count, calls) in enumerate(_plan(bench))
    ]
    masks = _release_masks(bench, samples[0].noise)
    return [replace(sample, noise=_only(sample.noise, masks)) for sample in samples]


def _sample(bench: StepUnderTest, setting: Setting, count: int, calls: int, offset: int) -> Sample:
    """Return noise of calls with distinct seeds: less the release without noise, else as contrasts of calls (Helmert)."""
    batch, seed = bench.of_size(count), bench.seed + offset
    deviation = setting.noise_multiplier * setting.clip_norm
    releases = [bench.release(batch, setting, seed + i) for i in range(calls)]
    noise = {name: np.stack([release[name].ravel() for release in releases]) / deviation for name in releases[0]}
    largest = max(float(np.abs(values).max(initial=0.0)) for values in noise.values())
    if bench.adjusts("noise_multiplier") and not bench.random:
        clean = bench.release(batch, replace(setting, noise_multiplier=0.0))
        noise = {name: values - clean[name].ravel() / deviation for name, values in noise.items()}
    else:
        noise = {name: whitening.center(values) for name, values in noise.items()}
    spacing = FINEST * (1 + largest) + 4 * bench.step.resolution * setting.divisor / deviation
    name = f"a batch of {count}" if count else "the empty batch"
    exact = not count or not bench.random
    return Sample(setting=setting, name=name, batch=batch, seed=seed, noise=noise, spacing=spacing, exact=exact)


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


def _factors(samples: list[Sample]) -> list[dict[str, float]]:
    """Return the measured over the claimed deviation, by sample and tensor: 1 if chance may explain the difference."""
    level = BUDGET / sum(len(sample.noise) for sample in samples)
    factors = []
    for sample in samples:
        factors.append(
            {
                name: float(np.sqrt(np.mean(values**2))) if noise_tests.variance_tail(values, 1.0) < level else 1.0
                for name, values in sample.noise.items()
            }
        )
    return factors


def _rescale(sample: Sample, factors: dict[str, float]) -> Sample:
    """Return the sample with noise of the claimed deviation, without tensors that have none."""
    noise = {name: values / factors[name] for name, values in sample.noise.items() if factors[name] > ABSENT}
    return replace(sample, noise=noise)


def _too_little(bench: StepUnderTest, samples: list[Sample], stream: np.random.Generator) -> Iterator[NoiseTest]:
    """Yield tests that no tensor, coordinate or direction has less noise than claimed."""
    shapes = {name: value.shape for name, value in bench.release(bench.of_size(1), bench.claimed).items()}
    for sample in samples:
        for name, values in sample.noise.items():
            tail, ratio, _ = whitening.least_energy(values.reshape(-1, 1))
            message = f"Noise has {ratio:.3g} times the claimed standard deviation sigma C (tensor '{name}', {sample.location})"
            yield _little(sample, tail, ratio, message)
        whole = {name: shapes[name] for name, values in sample.noise.items() if values.shape[1] == math.prod(shapes[name])}
        directions = [*whitening.tensor_projections(sample.noise, whole)]
        if len(sample.noise) > 1:
            directions += whitening.joint_projections(sample.joint, stream)
        for title, projections in directions:
            tail, ratio, at = whitening.least_energy(projections)
            direction = title.replace("{}", str(at))
            message = f"Noise has {ratio:.3g} times the claimed standard deviation sigma C in {direction} ({sample.location})"
            yield _little(sample, tail, ratio, message)


def _little(sample: Sample, tail: float, ratio: float, message: str) -> NoiseTest:
    check = "noise.missing" if ratio < ABSENT else "noise.variance"
    return NoiseTest(check=check, tail=tail, message=message, fix=FIX, sample=sample, ratio=ratio)


def _grows(samples: list[Sample], factors: list[dict[str, float]]) -> Iterator[NoiseTest]:
    """Yield tests that noise above the claim does not change with the batch, which would release its size (Fisher's F)."""
    first = samples[0]
    for sample, factor in zip(samples, factors, strict=True):
        if sample.setting != first.setting or not sample.exact or (max(factor.values()) <= 1 and max(factors[0].values()) <= 1):
            continue
        sides = first.joint, sample.joint
        ratios = [float(np.sqrt(np.mean(side**2))) for side in sides]
        message = (
            f"Noise has {ratios[1]:.3g} times the claimed standard deviation for {sample.name} and {ratios[0]:.3g} times for "
            f"{first.name}: it tells the size of the batch"
        )
        tail = whitening.ratio_tail(*sides)
        yield NoiseTest(check="noise.variance", tail=tail, message=message, fix=FIX, sample=sample, ratio=ratios[1])


def _repeats(bench: StepUnderTest, samples: list[Sample], stream: np.random.Generator) -> Iterator[NoiseTest]:
    """Yield tests that no noise is that of another call, tensor or coordinate, nor a combination of such."""
    check = "noise.repeats"
    longest = samples[0]
    deviation = longest.setting.noise_multiplier * longest.setting.clip_norm
    reach = np.abs(longest.joint).max(axis=0) + 1 / longest.setting.noise_multiplier
    rounding = COARSEST * reach + 4 * bench.step.resolution * longest.setting.divisor / deviation
    cases = [
        (
            noise_tests.twins_tail(longest.joint, rounding),
            "Some coordinates have the noise of others but for a factor: a combination of them is released without noise",
            longest,
        ),
        (
            whitening.equality_tail(longest.joint.ravel(), max(4 * longest.spacing, _step(longest) or 0.0)),
            "Noise numbers equal others far too often: they are taken from few that were stored or seeded",
            longest,
        ),
    ]
    for sample in samples:
        text = f"A combination of coordinates, or of calls, is released without noise or with too little ({sample.location})"
        cases.append((whitening.dependence_tail(sample.joint, stream), text, sample))
        repetition = next((name for name, values in sample.noise.items() if np.array_equal(values[0], values[1])), None)
        if repetition is not None:
            cases.append(
                (0.0, f"Two calls with different seeds have the same noise in tensor '{repetition}' ({sample.name})", sample)
            )
    if bench.adjusts("noise_multiplier") and all(sample.exact for sample in samples):
        text = "Two calls with different seeds have the same noise, or one minus the other's: noise comes from few seeds"
        cases.append((_nearest(samples), text, longest))
    for tail, message, sample in cases:
        yield NoiseTest(check=check, tail=tail, message=message, fix=FIX_FRESH, sample=sample)


def _nearest(samples: list[Sample]) -> float:
    """Return the p-value that no two calls of all samples share their noise, from `NEAREST_COLUMNS` coordinates at most."""
    size = samples[0].joint.shape[1]
    columns = np.linspace(0, size - 1, min(size, NEAREST_COLUMNS)).astype(int)
    tables = [sample.joint[:, columns] for sample in samples]
    largest = max(
        float(np.abs(table).max()) + 1 / sample.setting.noise_multiplier for table, sample in zip(tables, samples, strict=True)
    )
    return noise_tests.nearest_tail(np.concatenate(tables), COARSEST * largest + max(sample.spacing for sample in samples))


def _shape(samples: list[Sample]) -> Iterator[NoiseTest]:
    """Yield tests of the normal law, of the largest number of all samples together, and of the lengths of calls."""
    exact = [sample for sample in samples if sample.exact]
    if not exact:
        return
    longest = exact[0]
    numbers = longest.joint.ravel()
    deviation = float(numbers.std())
    step = _step(longest) or 0.0
    together = np.concatenate([sample.joint.ravel() for sample in exact])
    normal = noise_tests.normal_tail(
        numbers / deviation if deviation else numbers, whitening.DENSITY * (step + longest.spacing)
    )
    extreme = noise_tests.extreme_tail(together / together.std() if together.std() else together)
    count = f"{together.size} noise numbers: p = {normal:.2g} for a normal law, p = {extreme:.2g} for the largest value"
    cases = [(min(1.0, 2 * min(normal, extreme)), count, longest)]
    for sample in exact:
        for name, values in (("all tensors", sample.joint), *(sample.noise.items() if len(sample.noise) > 1 else ())):
            text = f"The noise of {name} has one length in every call: it lies on a sphere, or was scaled to one variance"
            cases.append((whitening.regularity_tail(values), f"{text} ({sample.location})", sample))
    for tail, message, sample in cases:
        yield NoiseTest(check="noise.law", tail=tail, message=message, fix=FIX_LAW, sample=sample)


def _judge(bench: StepUnderTest, check: str, evidence: list[NoiseTest]) -> Finding:
    """Return the finding of one property: the least likely test against its part of the error budget of all."""
    checks = ("noise.variance", "noise.missing") if check == "noise.variance" else (check,)
    own = [item for item in evidence if item.check in checks]
    if not own:
        return gap(check, "the noise is missing, or the step is random without noise (dropout), so this cannot be tested")
    # of several that are impossible by chance, the first is of the longest sample, and by the plainest direction
    worst = min(own, key=lambda item: max(item.tail, 1e-30))
    if worst.tail * len(evidence) < BUDGET:
        sample = worst.sample
        witness = bench.witness(sample.batch, None, sample.setting, sample.seed)
        return failure(
            worst.check, worst.message, fix=worst.fix, witness=witness, measurement=worst.ratio, claim=worst.ratio and 1.0
        )
    if check == "noise.law":
        reach = noise_tests.unseen_bound(sum(sample.joint.size for sample in _distinct(own)), BUDGET / len(evidence))
        return pass_finding(check, f"{own[0].message}; noise cut off beyond {reach:.1f} deviations would pass")
    if check == "noise.repeats":
        return pass_finding(check, "Noise differs between calls, between tensors and within them")
    lower = worst.message[0].lower() + worst.message[1:]
    message = f"No direction has less noise than claimed, beyond chance; the least likely of {len(own)}: {lower}"
    return pass_finding(check, message, worst.ratio, 1.0)


def _distinct(evidence: list[NoiseTest]) -> list[Sample]:
    return list({id(item.sample): item.sample for item in evidence}.values())


def _step(sample: Sample) -> float | None:
    """Return the step of the lattice that holds the noise, over sigma C, or None."""
    return whitening.lattice_step(sample.joint.ravel(), sample.spacing)


def _resolution(bench: StepUnderTest, sample: Sample) -> Finding:
    check = "noise.resolution"
    step = _step(sample)
    if step is not None:
        clean = (
            bench.release(sample.batch, replace(sample.setting, noise_multiplier=0.0))
            if bench.adjusts("noise_multiplier")
            else {}
        )
        deviation = sample.setting.noise_multiplier * sample.setting.clip_norm
        for name, value in clean.items():
            multiples = value / (step * deviation)
            if np.abs(multiples - np.round(multiples)).max(initial=0.0) > 0.1 and sample.spacing < step / 100:
                message = (
                    f"The noise lies on a lattice of step {step * deviation:.3g}, the sum of tensor '{name}' does not: what is "
                    "below a step is released without noise"
                )
                fix = "round the clipped gradients to the lattice of the noise, at random or before clipping"
                return failure(check, message, fix=fix, witness=bench.witness(sample.batch, None, sample.setting))
        message = (
            f"The noise is discrete: a lattice of step {step:.3g} sigma C, on which the sum lies too (a discrete Gaussian)"
        )
        return note(check, message, step)
    for name, values in sample.noise.items():
        bits = noise_tests.lattice_bits(values.ravel())
        if bits is not None and np.unique(values).size > 1:
            message = f"The noise of tensor '{name}' lies on a grid of {bits} significant bits: it was drawn in half precision"
            return failure(check, message, fix="draw noise in float32 or wider and add it before rounding", witness=None)
    return pass_finding(check, "No tensor's noise lies on the grid of a half-precision format")


PLUGIN = NoiseLaw
