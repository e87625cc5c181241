"""The sum to which a step adds its noise, read inside of the step, if all that follows is proved to be post-processing.

A step may smooth, normalise or threshold after the noise: its result has other noise than claimed, and a record may move it
further, yet it reveals no more than the noisy sum. So every call is a replay with the noisy sums of one reference call, and
must end equal to it to the last bit: whatever the batch, the result is a function of the noisy sum. The probes then test that.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from audit.core.errors import AuditError
from audit.replays.recording import Recording, Schedule
from audit.step_checks.batches import Batch
from audit.step_checks.replayed_runs import GENERATOR, StepRun, StepRuns
from audit.step_checks.steps import Setting
from audit.step_checks.tensors import Tensors


class NotFollowedError(AuditError):
    """What a step returns is no function of a sum with independent noise of one deviation."""


@dataclass(kw_only=True, eq=False)
class NoisySumStep:
    """A step of torch, released where its noise joins the sum (the `Step` protocol).

    Attributes:
        step: as it is.
        reference: the batch of the noisy sums that are handed back in every call.
        claimed: setting with noise that counts as none: without noise, the sum is what the noise was added to.
        seed: of the reference calls.
    """

    step: Any
    reference: Batch
    claimed: Setting
    seed: int
    _runs: StepRuns = field(init=False)
    _references: dict[Setting, tuple[StepRun, float]] = field(default_factory=dict, init=False)

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
        """Return the noisy sum of one call, scaled to noise of deviation sigma C; the sum alone if sigma is 0.

        One scale serves all sigma and C, that of the claim, so that noise which does not follow them shows.

        Raises:
            NotFollowedError: the result is not the reference's, given its noisy sum, or the noise is not white.
        """
        noisy = replace(setting, noise_multiplier=setting.noise_multiplier or self.claimed.noise_multiplier)
        first, deviation = self._reference(noisy)
        recording = Recording(seed=seed, schedule=Schedule.EARLY, frozen=first.recording)
        run = self._runs.run(batch, noisy, recording)
        cause = recording.divergence or ", ".join([*recording.gaps, *first.differing(run, besides=GENERATOR)][:3])
        if cause or _deviation(recording) != deviation:
            raise NotFollowedError(f"given the same noisy sum, {cause or 'the deviation of the noise'} differs")
        claimed = replace(self.claimed, divisor=setting.divisor)
        scale = claimed.noise_multiplier * claimed.clip_norm / self._reference(claimed)[1]
        quiet = setting.noise_multiplier == 0
        return {
            f"noisy sum {i}": scale * (entry.rows.value if quiet else recording.evaluate(entry.rows))
            for i, entry in enumerate(recording.releases)
        }

    def _reference(self, setting: Setting) -> tuple[StepRun, float]:
        if setting not in self._references:
            run = self._runs.run(self.reference, setting, Recording(seed=self.seed, schedule=Schedule.EARLY))
            self._references[setting] = run, _deviation(run.recording)
        return self._references[setting]


def _deviation(recording: Recording) -> float:
    """Return the deviation that all noise has, `value + s z` with an independent normal draw for each number.

    Raises:
        NotFollowedError: no noise, other laws, unequal deviations, or a draw in two numbers.
    """
    if not recording.releases or set(recording.laws) - {"normal"}:
        raise NotFollowedError("the noise that is added is not followed")
    used = np.concatenate([entry.rows.index[entry.rows.weight != 0] for entry in recording.releases])
    squares = np.concatenate([np.square(entry.rows.weight).sum(-1) for entry in recording.releases])
    if np.unique(used).size < used.size or np.ptp(squares) > 1e-9 * squares.max():
        raise NotFollowedError("the noise is not independent and of one deviation where it is added")
    return float(np.sqrt(squares.max()))
