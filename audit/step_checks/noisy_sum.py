"""The sum to which a step adds its noise, read inside of the step, if all that follows is proved to be post-processing.

A step may smooth, normalise or threshold after the noise: its result has other noise than claimed, and a record may move it
further, yet it reveals no more than the noisy sum. So every call is a replay with the noisy sums of one reference call, and
must end equal to it to the last bit: whatever the batch, the result is a function of the noisy sum. The probes then test that,
in units of its own noise, which the replay knows: layers may have noise of their own, and a sum another scale.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from audit.core.errors import AuditError
from audit.replays.gaussian_loss import stack_rows
from audit.replays.recording import Array, Integers, Recording, Schedule
from audit.stats.blockwise_noise import Whitening, find_change
from audit.step_checks.batches import Batch
from audit.step_checks.replayed_runs import GENERATOR, StepRun, StepRuns
from audit.step_checks.steps import Setting
from audit.step_checks.tensors import Tensors

ROUNDING = 1e-6  # relative, of deviations in single precision
Law = tuple[Integers, Array]


class NotFollowedError(AuditError):
    """What a step returns is no function of a sum with normal noise of a known law."""


@dataclass(kw_only=True, eq=False)
class NoisySumStep:
    """A step of torch, released where its noise joins the sum (the `Step` protocol)."""

    step: Any  # as it is
    reference: Batch  # the batch of the noisy sums that are handed back in every call
    claimed: Setting  # setting with noise that counts as none: without noise, the sum is what the noise was added to
    seed: int  # of the reference calls
    sizes: Sequence[int]  # of the tensors that the step returns
    _runs: StepRuns = field(init=False)
    _references: dict[Setting, tuple[StepRun, Law]] = field(default_factory=dict, init=False)
    _whitenings: dict[Setting, Whitening] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._runs = StepRuns(step=self.step, seed=self.seed)

    @property
    def adjustable(self) -> frozenset[str]:
        return frozenset(self.step.adjustable)

    @property
    def resolution(self) -> float:
        """0: sums are read in double precision."""
        return 0.0

    def release(self, batch: Batch, setting: Setting, seed: int) -> Tensors:
        """Return the noisy sum of one call over its own noise at the claimed sigma, times sigma C; without noise if sigma is 0.

        The noise of one sigma serves all, so that noise which does not follow sigma shows; with C, a step may change units.

        Raises:
            NotFollowedError: the result is not the reference's, given its noisy sum, or the law of the noise is not known.
        """
        noisy = replace(setting, noise_multiplier=setting.noise_multiplier or self.claimed.noise_multiplier)
        first, law = self._reference(noisy)
        recording = Recording(seed=seed, schedule=Schedule.EARLY, frozen=first.recording)
        run = self._runs.run(batch, noisy, recording)
        cause = recording.divergence or ", ".join([*recording.gaps, *first.differing(run, besides=GENERATOR)][:3])
        if cause or find_change(law, _law(recording)):
            raise NotFollowedError(f"given the same noisy sum, {cause or 'the noise'} differs")
        claimed = replace(setting, noise_multiplier=self.claimed.noise_multiplier)
        scale = claimed.noise_multiplier * claimed.clip_norm
        quiet = setting.noise_multiplier == 0
        values = [entry.rows.value if quiet else recording.evaluate(entry.rows) for entry in recording.releases]
        white = scale * self._whitening(claimed).whiten(np.concatenate(values))
        parts = np.split(white, np.cumsum([len(value) for value in values])[:-1])
        return {f"noisy sum {i}": part for i, part in enumerate(parts)}

    def is_even(self) -> bool:
        """True if at the claimed setting the numbers of each tensor have independent noise of one deviation."""
        run, _ = self._reference(self.claimed)
        sizes = [entry.rows.value.size for entry in run.recording.releases]
        if len(sizes) == 1 and sizes[0] == sum(self.sizes):
            sizes = list(self.sizes)  # one vector of all tensors
        deviations = self._whitening(self.claimed).deviations
        return deviations is not None and all(
            np.ptp(part) <= ROUNDING * part.max() for part in np.split(deviations, np.cumsum(sizes)[:-1]) if part.size
        )

    def _reference(self, setting: Setting) -> tuple[StepRun, Law]:
        if setting not in self._references:
            run = self._runs.run(self.reference, setting, Recording(seed=self.seed, schedule=Schedule.EARLY))
            self._references[setting] = run, _law(run.recording)
        return self._references[setting]

    def _whitening(self, setting: Setting) -> Whitening:
        if setting not in self._whitenings:
            try:
                self._whitenings[setting] = Whitening(*self._reference(setting)[1])
            except ValueError as error:
                raise NotFollowedError(str(error)) from error
        return self._whitenings[setting]


def _law(recording: Recording) -> Law:
    """Return the draws in each released number, and their weights.

    Raises:
        NotFollowedError: no noise, or other laws than the normal one.
    """
    if not recording.releases or set(recording.laws) - {"normal"}:
        raise NotFollowedError("the noise that is added is not followed")
    rows = stack_rows([entry.rows for entry in recording.releases])
    return rows.index, rows.weight
