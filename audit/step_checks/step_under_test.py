"""The bench that probes share: a step, ordinary records, the claimed setting, and releases computed once."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from audit.core.errors import ConfigError, DataError
from audit.step_checks.batches import Batch, craft_records, join, rows, scale, scale_records
from audit.step_checks.findings import Witness
from audit.step_checks.steps import Setting, Step
from audit.step_checks.tensors import Tensors, distance, norm

ALMOST_SILENT = 1e-30  # noise multiplier that changes no release, also not at the clip norm `NEVER`
NEVER = 1e9  # multiple of the largest natural norm at which nothing is clipped
# records of the largest batch that is tried, and numbers that their gradients have together
LEAST_LARGE, MOST_LARGE, MOST_NUMBERS = 24, 2048, 300_000_000
UNREPEATABLE = (
    "equal calls give different releases, so no difference can be laid to a record: let the step take noise_multiplier, or "
    "draw its noise from the generator it is given"
)
ROUNDED = 1e-5  # of the largest natural norm: rounding of other records moves a release by as much as shorter ones
SLACK = 1e-3  # relative excess over a sensitivity that single precision may cause


@dataclass(kw_only=True, eq=False)
class StepUnderTest:
    """A step under test."""

    step: Step  # the implementation
    sample: Batch  # at least eight ordinary records
    claimed: Setting  # the setting with the claimed accounting
    seed: int = 0  # of every call that does not say otherwise
    replayed_step: Step | None = None  # the step if a replay followed its noise and found nothing
    calls: int = field(default=0, init=False)
    # whether an empty batch releases what clipping cut off earlier records; asked before any is infinite
    feeds_error_back: bool = field(default=False, init=False)
    _constants: dict[tuple[float, float], Tensors] = field(default_factory=dict, init=False)

    def adjusts(self, name: str) -> bool:
        """Return whether the step takes another `name` for a call, and uses it."""
        return name in self.step.adjustable and (name != "clip_norm" or not self.ignores_clip_norm)

    @cached_property
    def ignores_clip_norm(self) -> bool:
        """True if a clip norm was set on an optimiser that clips by another: a record moves as far as before.

        A function that is given the keyword is believed; if it does not clip by it, that is a defect.
        """
        if "clip_norm" not in self.step.adjustable or getattr(self.step, "optimizer", None) is None:
            return False
        noise = {"noise_multiplier": 0.0} if "noise_multiplier" in self.step.adjustable else {}
        quiet = replace(self.claimed, **noise)
        records = [self.scale(rows(self.sample, [i]), factor) for i in range(2) for factor in (1.0, 1e4)]
        for record in records:
            size = norm(self._call(record, quiet, self.seed))
            if 0.99 * self.claimed.clip_norm <= size <= 1.01 * self.claimed.clip_norm:
                return norm(self._call(record, replace(quiet, clip_norm=size / 4), self.seed)) > size / 2
        return False  # none is clipped at the claimed norm, so a lower one has to show whether any is

    def at(self, *, noise: float | None = None, clip: float | None = None) -> Setting:
        """Return the claimed setting with what is given and adjustable put in its place."""
        overrides = {"noise_multiplier": noise, "clip_norm": clip}
        return replace(
            self.claimed, **{key: value for key, value in overrides.items() if value is not None and self.adjusts(key)}
        )

    def quiet(self, clip: float | None = None) -> Setting:
        """Return the setting without noise, if noise is adjustable; else equal seeds make equal noise cancel."""
        return self.at(noise=0.0, clip=clip)

    def refusal(self, batch: Batch, setting: Setting | None = None) -> str:
        """Return the message with which the step refuses a batch, at the claimed setting by default; "" if it takes it."""
        try:
            self._call(batch, self.claimed if setting is None else setting, self.seed)
        except ConfigError as error:  # that the step raised; one of the set-up comes again with an ordinary batch
            return str(error)
        return ""

    def scale(self, record: Batch, factor: float) -> Batch:
        """Return a record with its floating-point arrays multiplied by `factor`, with the last one if the step takes that."""
        return scale(record, factor) if self._scales_labels else (*scale(record[:-1], factor), record[-1])

    @cached_property
    def _scales_labels(self) -> bool:
        """False if scaled labels are refused, as by a loss of probabilities."""
        return self.sample[-1].dtype.kind != "f" or not self.refusal(scale(rows(self.sample, [0, 1]), 1e5))

    def release(self, batch: Batch, setting: Setting, seed: int | None = None) -> Tensors:
        """Return what the step releases for `batch`: the noisy sum of clipped gradients, by tensor, without its constant."""
        released = self._call(batch, setting, self.seed if seed is None else seed)
        if not self.constant_size:
            return released
        key = setting.clip_norm, setting.divisor
        if key not in self._constants:
            self._constants[key] = self._call(self.empty, replace(setting, noise_multiplier=0.0), self.seed)
        return {name: value - self._constants[key][name] for name, value in released.items()}

    def _call(self, batch: Batch, setting: Setting, seed: int) -> Tensors:
        self.calls += 1
        with np.errstate(all="ignore"):
            try:
                return self.step.release(batch, setting, seed)
            except ConfigError:
                if setting.noise_multiplier:
                    raise
                # a law whose scale has to be positive refuses a noise multiplier of 0
                return self.step.release(batch, replace(setting, noise_multiplier=ALMOST_SILENT), seed)

    @cached_property
    def constant_size(self) -> float:
        """The norm of what an empty batch releases without noise, if it is the same after every batch, as weight decay is.

        0 if nothing is released, if it changes with earlier batches, or if it cannot be separated from noise.
        """
        if not self.adjusts("noise_multiplier") or self.empty_error:
            return 0.0
        after = []
        for batch in (rows(self.sample, slice(0, 5)), scale(rows(self.sample, slice(2, 8)), 100.0)):
            if self.refusal(batch, self.quiet()):
                self._call(rows(self.sample, slice(2, 8)), self.quiet(), self.seed)
            after.append(self._call(self.empty, self.quiet(), self.seed))
        size, apart = norm(after[0]), distance(*after)
        if size < math.inf and apart <= SLACK * min(size, self.claimed.clip_norm):
            return size
        self.feeds_error_back = apart < math.inf and self._remembers_what_was_clipped()
        return 0.0

    def _remembers_what_was_clipped(self) -> bool:
        """Return whether nothing is left of records that no clip reached, and something of those that one did."""
        if not self.adjusts("clip_norm"):
            return False
        batch, quiet = rows(self.sample, slice(0, 5)), self.quiet()
        unclipped = replace(quiet, clip_norm=NEVER * quiet.clip_norm)
        self._call(self.empty, unclipped, self.seed)  # which pays out what was kept before
        size = norm(self._call(batch, unclipped, self.seed))
        sizes = [norm(self._call(self.empty, unclipped, self.seed))]
        for _ in range(2):
            self._call(batch, replace(quiet, clip_norm=max(size / 20, SLACK * quiet.clip_norm)), self.seed)
        sizes.append(norm(self._call(self.empty, unclipped, self.seed)))
        return sizes[0] < SLACK * size < sizes[1] < math.inf

    def difference(self, first: Batch, second: Batch, setting: Setting) -> float:
        """Return the l2 distance of the releases for two batches; infinite if one of them is not finite."""
        return distance(self.release(first, setting), self.release(second, setting))

    def tolerance(self, setting: Setting, batch: Batch) -> float:
        """Return the distance that rounding alone may cause between releases of neighbouring batches."""
        rounding = 8 * self.step.resolution * setting.divisor * math.sqrt(self.size)
        return SLACK * setting.clip_norm + rounding + 1e-6 * setting.clip_norm * len(batch[0])

    @cached_property
    def empty(self) -> Batch:
        """The batch without records, as Poisson sampling draws it now and then."""
        return rows(self.sample, slice(0, 0))

    @cached_property
    def empty_error(self) -> str:
        """The message with which the step refuses an empty batch; "" if it does not."""
        return self.refusal(self.empty, self.quiet())

    @cached_property
    def size(self) -> int:
        """The number of released coordinates."""
        return sum(array.size for array in self._call(rows(self.sample, [0]), self.quiet(), self.seed).values())

    @cached_property
    def random(self) -> bool:
        """True if the step is random without noise, as dropout makes it."""
        batch, setting = rows(self.sample, slice(0, 5)), self.quiet()
        if not self.adjusts("noise_multiplier"):
            return False
        first, second = self.release(batch, setting, self.seed), self.release(batch, setting, self.seed + 1)
        return distance(first, second) > self.tolerance(setting, batch)

    @cached_property
    def repeatable(self) -> bool:
        """True if equal calls give equal releases, so that a difference of releases is due to the records."""
        batch, setting = rows(self.sample, slice(0, 5)), self.quiet()
        return distance(self.release(batch, setting), self.release(batch, setting)) <= self.tolerance(setting, batch)

    @cached_property
    def batch_sizes(self) -> tuple[int, ...]:
        """Sizes of batches to try: 0, 1, L/4, L and 1.5 L + 5 for the divisor L, as far as `MOST_NUMBERS` gradients allow."""
        limit = max(LEAST_LARGE, min(MOST_LARGE, MOST_NUMBERS // self.size))
        divisor = self.claimed.divisor
        sizes = {1, *(min(limit, math.ceil(size)) for size in (divisor / 4, divisor, 1.5 * divisor + 5))}
        return tuple(sorted(sizes if self.empty_error else sizes | {0}))

    def of_size(self, count: int) -> Batch:
        """Return a batch of that many records, those of the sample in turn."""
        return rows(self.sample, [i % len(self.sample[0]) for i in range(count)])

    def bases(self) -> Iterator[tuple[str, Batch]]:
        """Yield batches to which one record is added: none, one, several, and copies of one record."""
        if not self.empty_error:
            yield "no record", self.empty
        yield "one record", rows(self.sample, [1])
        if self._accepts_faint_records:
            yield "a faint record", self.scale(rows(self.sample, [1]), 0.1)
        yield "five records", rows(self.sample, slice(1, 6))
        yield "eight records", rows(self.sample, slice(0, 8))
        yield "six copies of a record", rows(self.sample, [1] * 6)

    def additions(self, base: Batch, record: Batch) -> Iterator[tuple[str, Batch]]:
        """Yield `base` with the record put last, and first if position cannot move the step's own random draws."""
        yield "last", join(base, record)
        if not self.random and len(base[0]):
            yield "first", join(record, base)

    @cached_property
    def records(self) -> dict[str, Batch]:
        """Crafted single records that the step accepts, by name."""
        records = craft_records(self.sample)
        stressing = scale_records(records, self.scale)
        return records | {name: record for name, record in stressing.items() if name not in self.refused_records}

    @cached_property
    def refused_records(self) -> list[str]:
        """Names of crafted records that the step refuses, such as one that checks the range of its inputs."""
        base, stressing = rows(self.sample, [1]), scale_records(craft_records(self.sample), self.scale)
        return [name for name, record in stressing.items() if self.refusal(join(base, record))]

    @cached_property
    def _accepts_faint_records(self) -> bool:
        return not any(self.refusal(self.scale(rows(self.sample, [1]), factor)) for factor in (0.1, 0.03))

    @cached_property
    def natural_norms(self) -> tuple[float, ...]:
        """Norms of single records' gradients before clipping, sorted; at the claimed clip norm if it is fixed.

        Raises:
            DataError: no ordinary record has a gradient that is finite and not zero.
        """
        # a step that divides its sum by the clip norm releases at a huge one what parameters round away
        norms = next(filter(None, map(self._norms_at, (NEVER, 1e4, 1.0))), None)
        if norms is None:
            raise DataError(
                "no record of the sample has a gradient above zero; give ordinary records, and parameters away from a "
                "stationary point"
            )
        return norms

    def _norms_at(self, multiple: float) -> tuple[float, ...]:
        setting = self.quiet(clip=multiple * self.claimed.clip_norm)
        factors = (1.0, 0.3, 0.1, 0.03) if self.sample[0].dtype.kind == "f" and self._accepts_faint_records else (1.0,)
        count = min(8, len(self.sample[0]))
        probes = [self.scale(rows(self.sample, [i]), factor) for factor in factors for i in range(count)]
        norms = sorted(value for value in (self.single(record, setting) for record in probes) if 0 < value < math.inf)
        if not norms:  # of a loss that compares the records of a batch, one alone has none
            together = self.single(rows(self.sample, slice(0, count)), setting)
            norms = [together / count] if 0 < together < math.inf else []
        return tuple(value for value in norms if value > ROUNDED * norms[-1])

    def single(self, record: Batch, setting: Setting) -> float:
        """Return the norm of what one record, or a batch, contributes alone."""
        if self.empty_error or self.adjusts("noise_multiplier"):
            return norm(self.release(record, setting))
        return self.difference(record, self.empty, setting)

    def clips(self) -> tuple[float, ...]:
        """Clip norms to test at: the claimed one, and where it is adjustable, ones around the natural norms."""
        if not self.adjusts("clip_norm"):
            return (self.claimed.clip_norm,)
        norms = self.natural_norms
        middle = norms[len(norms) // 2]
        targets = (0.3 * middle, middle / 1.2, norms[0] / 1.2, norms[len(norms) // 4] / 1.6, norms[-1] / 4)
        return tuple(dict.fromkeys((self.claimed.clip_norm, *targets)))

    def witness(self, base: Batch, neighbour: Batch | None, setting: Setting, seed: int | None = None) -> Witness:
        """Return the calls that show a failure."""
        return Witness(base=base, neighbour=neighbour, setting=setting, seed=self.seed if seed is None else seed)
