"""DP-SGD as people get it wrong, as trainers that a config can name: `kind: tests.broken:HalfNoise`."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from audit import plugins
from audit.core.event_reading import noisy_steps
from audit.core.events import dp_sgd
from audit.core.training import Executed, Progress, TrainingJob
from audit.engine.read.subject import Ensemble


def honest(job: TrainingJob, progress: Progress, **changes: float) -> Ensemble:
    """The job run by the real trainer, on a mechanism that differs from the accounted one."""
    noisy = noisy_steps(job.mechanism)
    assert noisy is not None
    mechanism = dp_sgd(**{**asdict(noisy), **changes})
    trained: Ensemble = plugins.build("audit.trainers", {"kind": "dpsgd"}).fit(replace(job, mechanism=mechanism), progress)
    return trained


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfNoise:
    """Adds half of the noise that was accounted for; its own log shows it if it `admits`."""

    admits: bool = True

    def fit(self, job: TrainingJob, progress: Progress) -> Ensemble:
        assert job.noisy is not None
        trained = honest(job, progress, noise_multiplier=job.noisy.noise_multiplier / 2)
        if self.admits:
            return trained
        reported: Executed = replace(trained.executed, noise_multiplier=trained.executed.noise_multiplier * 2)
        return trained.changed(executed=reported)


@dataclass(frozen=True, slots=True, kw_only=True)
class TwiceTheRate:
    """Samples every record twice as often as was accounted for, as if accumulation steps had been forgotten."""

    def fit(self, job: TrainingJob, progress: Progress) -> Ensemble:
        return honest(job, progress, sample_rate=2 * job.sample_rate)


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedBatches:
    """Reports the batches of a shuffled loader: always the same size."""

    def fit(self, job: TrainingJob, progress: Progress) -> Ensemble:
        trained = honest(job, progress)
        size = round(job.sample_rate * float(np.mean(trained.executed.population)))
        reported = replace(trained.executed, batch_sizes=np.full_like(trained.executed.batch_sizes, size))
        return trained.changed(executed=reported)


@dataclass(frozen=True, slots=True, kw_only=True)
class LosesModels:
    """Plain SGD in which models of the named rows end as NaN."""

    rows: list[int]

    def fit(self, job: TrainingJob, progress: Progress) -> Ensemble:
        trained: Ensemble = plugins.build("audit.trainers", {"kind": "sgd"}).fit(job, progress)
        lost = [model for model, seed in enumerate(job.seeds) if seed.path[-1] in {f"model[{row}]" for row in self.rows}]
        weights = {name: np.array(value) for name, value in trained.weights.items()}
        for value in weights.values():
            value[lost] = np.nan
        return trained.changed(weights=weights)


@dataclass(frozen=True, slots=True, kw_only=True)
class CutsFile:
    """Plain SGD of a machine on which a user cuts the mapped file short, or writes into it, while models train."""

    path: str
    size: int

    def fit(self, job: TrainingJob, progress: Progress) -> Ensemble:
        path = Path(self.path)
        if path.stat().st_size > self.size:
            os.truncate(path, self.size)
        else:
            with path.open("r+b") as file:
                file.seek(-1, 2)
                file.write(b"\x07")
        trained: Ensemble = plugins.build("audit.trainers", {"kind": "sgd"}).fit(job, progress)
        return trained
