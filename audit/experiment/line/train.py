"""Running the jobs of a game, in any order and on any executor, until they are enough; a finished job is never run again."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from audit import plugins
from audit.core import training
from audit.core.canaries import Canaries
from audit.core.data import Array, Dataset
from audit.core.protocols import Executor
from audit.core.training import Watcher
from audit.execution.store import Store
from audit.experiment.games.job_specs import JobSpec, fit_and_observe
from audit.experiment.games.spec import Execution


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resources:
    """What every training of an audit shares: the data, where jobs run and are kept, and who receives progress."""

    dataset: Dataset
    execution: Execution
    store: Store
    watcher: Watcher = field(default_factory=Watcher)


def train(job_specs: Sequence[JobSpec], canaries: Canaries, resources: Resources, is_enough: Callable[[int], bool]) -> int:
    """Return how many of the jobs count, from the first: all, or as many as were enough.

    Jobs that the store holds are not run again, others are stored as they finish. `is_enough` is asked in the order of jobs, so
    the end does not depend on which job finished first, or in which process: a job that finished ahead of its turn waits, and
    one behind the end does not count even if it was trained.
    """
    store, executor = resources.store, resources.execution.executor
    lacking = {job_spec.key for job_spec in job_specs if not store.intact(job_spec.key)}
    missing = [job_spec for job_spec in job_specs if job_spec.key in lacking]
    stored_orders = [job_spec for job_spec in job_specs if job_spec.key not in lacking]
    if stored_orders:
        models = sum(job_spec.models for job_spec in job_specs)
        training.LOG.info("%d of %d models are there already", sum(job_spec.models for job_spec in stored_orders), models)
        resources.watcher.skip(_model_steps(stored_orders))
    ledger = _Steps(total=_model_steps(missing), watcher=resources.watcher)
    queue = _InOrder(keys=[job_spec.key for job_spec in job_specs], lacking=lacking, is_enough=is_enough)
    if queue.advance():
        ledger.close()
        return queue.count
    with closing(executor.map(fit_and_observe, (resources.dataset, canaries), missing, ledger)) as results:
        for result in results:
            index, value = _check_result(executor, result, missing, lacking)
            store.put(missing[index].key, value)
            lacking.discard(missing[index].key)
            if queue.advance():
                break
        else:
            plugins.refuse_answer(executor, "map", f"no result of {len(lacking)} of {len(missing)} jobs", "one of each job")
    ledger.close()
    return queue.count


def _check_result(
    executor: Executor, result: Any, jobs: Sequence[JobSpec], lacking: Collection[str]
) -> tuple[int, Mapping[str, Array]]:
    """Return what an executor, which may be a third party's, yields, unless it is no result of a job that lacks one."""
    expected = f"(index of a job, what work(shared, job, progress) returned), once for each of {len(jobs)} jobs"
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[1], Mapping):
        plugins.refuse_answer(executor, "map", f"a {type(result).__name__} of other things", expected)
    index, value = result
    if index not in range(len(jobs)) or jobs[index].key not in lacking:
        plugins.refuse_answer(executor, "map", f"a result of job {index!r}, which waits for none", expected)
    return index, value


def _model_steps(job_specs: Sequence[JobSpec]) -> int:
    return sum(job_spec.models * job_spec.steps for job_spec in job_specs)


@dataclass(slots=True, kw_only=True)
class _InOrder:
    """Asks for each job in its turn, as soon as it and all before it are there, whether that is enough."""

    keys: Sequence[str]
    lacking: set[str]
    is_enough: Callable[[int], bool]
    count: int = 0

    def advance(self) -> bool:
        """True if the jobs that count are known."""
        while self.count < len(self.keys) and self.keys[self.count] not in self.lacking:
            self.count += 1
            if self.is_enough(self.count):
                return True
        return self.count == len(self.keys)


@dataclass(slots=True, kw_only=True)
class _Steps:
    """Passes progress on and says at the end what was not needed."""

    total: int
    watcher: Watcher
    reported_steps: int = 0

    def __call__(self, steps: int) -> None:
        self.reported_steps += steps
        self.watcher.advance(steps)

    def close(self) -> None:
        if self.reported_steps < self.total:
            self.watcher.skip(self.total - self.reported_steps)
