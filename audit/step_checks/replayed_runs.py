"""Runs of one torch step under replay: what was released, and what the step leaves behind."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from audit.replays.gaussian_loss import UnequalNoiseError, gaussian_mu
from audit.replays.recording import Recording, Schedule
from audit.replays.torch_noise import TorchNoise, follow
from audit.step_checks.batches import Batch
from audit.step_checks.optimizer_step import OptimizerStep, kept_states
from audit.step_checks.steps import FunctionStep, Setting

_SEED, _OTHER_SEED = 982_451_653, 7919  # none that a step would give a generator itself
GENERATOR = "attribute state of the generator"
_MODULE_ATTRIBUTES = frozenset(vars(nn.Module()))
_DEEPEST = 3


@dataclass(kw_only=True, eq=False)
class StepRun:
    """One run."""

    recording: Recording  # of its draws and releases
    survivors: dict[str, Any]  # name to a copy of everything that outlives the step
    hidden: str = ""  # why the result is not a function of the releases alone, or ""
    # whether noise came from a seed that was drawn among few numbers, and no other draws than whole numbers chose
    few_seeds: bool = False

    def differing(self, other: StepRun, besides: str = "\0") -> tuple[str, ...]:
        """Return the names of survivors that differ, sorted, without those that start with `besides`."""
        names = self.survivors.keys() | other.survivors.keys()
        missing = object()
        return tuple(
            sorted(
                name
                for name in names
                if not name.startswith(besides)
                and not _is_equal(self.survivors.get(name, missing), other.survivors.get(name, missing))
            )
        )


@dataclass(kw_only=True, eq=False)
class StepRuns:
    """Runs of a step; the recorded run of each batch is kept."""

    step: Any  # a function of torch or an optimiser's step
    seed: int  # of the recorded runs
    schedule: Schedule = Schedule.LATE  # when noisy numbers are released
    public_seeds: frozenset[str] = frozenset()  # seeds of generators that the step gives itself: their noise is a constant
    _recorded: dict[tuple[int, Setting], StepRun] = field(default_factory=dict)

    def record(self, batch: Batch, setting: Setting) -> StepRun:
        """Return the recorded run of a batch, with what a second draw of everything but the releases shows."""
        key = (id(batch), setting)
        if key not in self._recorded:
            shared = None
            while shared is None or shared - self.public_seeds:  # numbers of a seed that every run has are constants
                self.public_seeds |= shared or frozenset()
                run = self.run(batch, setting, self._recording())
                again = self.run(batch, setting, self._recording(run.recording, self.seed + _OTHER_SEED))
                shared = frozenset(run.recording.seeds) & frozenset(again.recording.seeds)
            differences = run.differing(again, besides=GENERATOR)
            if again.recording.divergence or differences:
                cause = again.recording.divergence or f"{', '.join(differences[:3])} changes"
                run.hidden = f"with other random draws and the same releases, {cause}"
            self._recorded = {key: run}
        return self._recorded[key]

    def replay(self, batch: Batch, setting: Setting, first: StepRun) -> StepRun:
        """Return the run of a neighbouring batch that is handed the releases of `first`."""
        return self.run(batch, setting, self._recording(first.recording))

    def shows_few_seeds(self, batch: Batch, setting: Setting, first: StepRun) -> bool:
        """True if with one of few seeds, which anyone can try, a neighbour ends otherwise."""
        return first.few_seeds and bool(self.replay(batch, setting, first).differing(first, besides=GENERATOR))

    def seeds_by_records(self, batch: Batch, setting: Setting, first: StepRun, second: StepRun) -> bool:
        """True if the seeds of the noise differ for a neighbour, and are the same whenever the batch is."""
        if first.recording.seeds == second.recording.seeds:
            return False
        return self.run(batch, setting, self._recording()).recording.seeds == first.recording.seeds

    def _recording(self, frozen: Recording | None = None, seed: int | None = None) -> Recording:
        return Recording(seed=_SEED + (self.seed if seed is None else seed), frozen=frozen, schedule=self.schedule)

    @staticmethod
    def loss(first: StepRun, second: StepRun) -> tuple[float, str]:
        """Return mu of the pair and, if it is infinite or unknown, why."""
        laws = {*first.recording.laws, *second.recording.laws} - {"normal"}
        if laws:
            return math.nan, f"noise of the law {sorted(laws)[0]}"
        try:
            mu = gaussian_mu(first.recording, second.recording)
        except UnequalNoiseError as error:
            return math.inf, f"the noise depends on the records: {error}"
        except ValueError as error:
            return math.nan, str(error)
        return mu, ""

    def run(self, batch: Batch, setting: Setting, recording: Recording) -> StepRun:
        step, seed, recording.public_seeds = self.step, recording.seed, self.public_seeds
        if isinstance(step, FunctionStep):
            with follow(recording) as noise:
                survivors = _copies(noise, _function(step, batch, setting, seed))
        else:
            with step._prepare(setting, seed), kept_states() as optimizers, follow(recording) as noise:
                survivors = _copies(noise, _optimizer(step, batch, optimizers))
        return StepRun(recording=recording, survivors=survivors, few_seeds=noise.has_few_seeds)


def _function(step: FunctionStep, batch: Batch, setting: Setting, seed: int) -> dict[str, Any]:
    result, stream = step.call(batch, setting, seed)
    parameters = {f"parameter {name}": value for name, value in result.items()}
    return parameters | ({GENERATOR: stream.get_state()} if isinstance(stream, torch.Generator) else {})


def _optimizer(step: OptimizerStep, batch: Batch, optimizers: list[Any]) -> dict[str, Any]:
    model, optimizer = step.model, step.optimizer
    model.train()
    optimizer.zero_grad()
    step.run(batch)
    optimizer.zero_grad()
    parameters = {name for name, _ in model.named_parameters()}
    values: dict[str, Any] = {
        f"{'parameter' if name in parameters else 'buffer'} {name}": value for name, value in model.state_dict().items()
    }
    names = {id(value): name for name, value in model.named_parameters()}
    for inner in optimizers:
        for parameter, state in inner.state.items():
            values |= {f"optimiser state {key} of {names.get(id(parameter), '?')}": value for key, value in state.items()}
        for i, group in enumerate(inner.param_groups):
            values |= {f"setting {key} of group {i}": value for key, value in group.items() if key != "params"}
    values |= {f"attribute {key} of the optimiser": value for key, value in vars(optimizer).items() if _is_own(key)}
    for name, module in model.named_modules():
        attributes = {key: value for key, value in vars(module).items() if key not in _MODULE_ATTRIBUTES and _is_own(key)}
        values |= {f"attribute {key} of {name or 'the model'}": value for key, value in attributes.items()}
    generator = getattr(optimizer, "generator", None)
    return values | ({GENERATOR: generator.get_state()} if generator is not None else {})


def _is_own(key: str) -> bool:
    """True for attributes that users read: no scratch of a library, such as activations between forward and backward."""
    return not key.startswith("_") and key not in ("activations", "generator", "state", "defaults")


def _copies(noise: TorchNoise, survivors: dict[str, Any]) -> dict[str, Any]:
    """Return copies of plain values, released where they hold noise; objects of other kinds are left out."""
    noise.recording.at_return = True
    copies = {name: _copy(noise, value, _DEEPEST) for name, value in survivors.items()}
    return {name: value for name, value in copies.items() if value is not _OBJECT}


_OBJECT = object()


def _copy(noise: TorchNoise, value: Any, depth: int) -> Any:
    if isinstance(value, Tensor):
        noise.release(value)
        return value.detach().clone()
    if isinstance(value, bool | int | float | str | type(None)):
        return value
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, list | tuple) and depth:
        return [_copy(noise, part, depth - 1) for part in value]
    if isinstance(value, dict) and depth:
        return {str(key): _copy(noise, part, depth - 1) for key, part in value.items()}
    return _OBJECT


def _is_equal(first: Any, second: Any) -> bool:
    if type(first) is not type(second):
        return False
    if isinstance(first, Tensor):
        alike = first.shape == second.shape and first.dtype == second.dtype
        return alike and (torch.equal(first, second) or torch.equal(first.nan_to_num(), second.nan_to_num()))
    if isinstance(first, np.ndarray):
        return np.array_equal(first, second, equal_nan=first.dtype.kind == "f")
    if isinstance(first, list):
        return len(first) == len(second) and all(map(_is_equal, first, second))
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(_is_equal(part, second[key]) for key, part in first.items())
    both_nan = isinstance(first, float) and math.isnan(first) and math.isnan(second)
    return first is second or both_nan or bool(first == second)
