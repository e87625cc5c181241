"""Where jobs run: one after another in this process, or side by side in several."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from audit.core.errors import ConfigError
from audit.core.protocols import Executor, Progress

Job = TypeVar("Job")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Serial:
    """One job after another, each with all cores."""

    def map(self, work: Callable[[Job, Progress], Result], jobs: Sequence[Job], progress: Progress) -> Iterator[Result]:
        """The results in the order of the jobs."""
        for job in jobs:
            yield work(job, progress)


@dataclass(frozen=True, slots=True, kw_only=True)
class Processes:
    """Several jobs at once in processes of their own, each with its share of the cores."""

    workers: int = 2

    def map(self, work: Callable[[Job, Progress], Result], jobs: Sequence[Job], progress: Progress) -> Iterator[Result]:
        """The results in the order of the jobs; progress arrives a job at a time."""
        threads = max(1, (os.cpu_count() or 1) // self.workers)
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(self.workers, mp_context=context, initializer=_limit_threads, initargs=(threads,)) as pool:
            for result, done in pool.map(_counted, [work] * len(jobs), jobs):
                progress(done)
                yield result


def _limit_threads(threads: int) -> None:
    os.environ["OMP_NUM_THREADS"] = str(threads)


def _counted(work: Callable[[Job, Progress], Result], job: Job) -> tuple[Result, int]:
    """A job's result and the progress that it reported."""
    done: list[int] = []
    return work(job, done.append), sum(done)


def executor(kind: str, workers: int) -> Executor:
    """The executor of that name."""
    if kind == "serial":
        return Serial()
    if kind == "processes":
        return Processes(workers=workers)
    raise ConfigError(f"execution.kind is '{kind}'; expected one of: serial, processes")
