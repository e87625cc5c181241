"""Jobs side by side in processes of this machine, for many cores."""

import functools
import multiprocessing
import os
import pickle
import signal
import tempfile
import threading
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from audit.core.errors import ConfigError, WorkerLost
from audit.core.protocols import Result, Work
from audit.core.training import Progress

_POLL_SECONDS = 0.2
_STOPPING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


@dataclass(frozen=True, slots=True, kw_only=True)
class Processes:
    """Several jobs at once in so many worker processes, each with its share of the cores.

    The pool is started again up to `restarts` times after a process was killed; only unfinished jobs are repeated.
    """

    workers: int = 2
    restarts: int = 2

    def __post_init__(self) -> None:
        if self.workers < 1 or self.restarts < 0:
            raise ConfigError(
                f"processes: workers is {self.workers}, restarts is {self.restarts}; expected at least 1 and at least 0"
            )

    def map(
        self, work: Work[Result], context: tuple[Any, ...], jobs: Sequence[Any], progress: Progress
    ) -> Generator[tuple[int, Result], None, None]:
        """The results as they are finished; `WorkerLost` if processes died more often than `restarts` allows."""
        waiting = dict(enumerate(jobs))
        losses = 0
        while waiting:
            try:
                with closing(self._pool(work, context, dict(waiting), progress)) as results:
                    for index, result in results:
                        del waiting[index]
                        yield index, result
            except BrokenProcessPool as error:
                losses += 1
                if losses > self.restarts:
                    raise WorkerLost(
                        f"a worker process died {losses} times with {len(waiting)} of {len(jobs)} jobs unfinished (killed, "
                        "or out of memory); finished models are kept: lower execution.workers or models_per_job, "
                        "and continue with --resume"
                    ) from error

    def _pool(
        self, work: Work[Result], context: tuple[Any, ...], jobs: dict[int, Any], progress: Progress
    ) -> Generator[tuple[int, Result], None, None]:
        """One pool, until all jobs are done or a process is lost. No more jobs are under way than can run."""
        mp_context = multiprocessing.get_context("spawn")
        messages, strangers = mp_context.SimpleQueue(), set(multiprocessing.active_children())
        workers = min(self.workers, len(jobs))
        threads = max(1, (os.cpu_count() or 1) // self.workers)
        running: dict[Future[Any], int] = {}
        with (
            _pickle_file((work, context)) as path,
            ProcessPoolExecutor(
                workers, mp_context=mp_context, initializer=_settle, initargs=(threads, path, messages)
            ) as pool,
        ):
            try:
                while jobs or running:
                    while jobs and len(running) <= workers:
                        index = next(iter(jobs))
                        with _uninterrupted():
                            running[pool.submit(_run, jobs.pop(index))] = index
                    ready, _ = wait(running, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
                    _pass_on(messages, progress)
                    for future in ready:
                        yield running.pop(future), future.result()
            except BaseException:
                # enough is known, a job failed, or the run is stopped: what is under way would be thrown away
                _end(strangers)
                raise
            finally:
                pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def _pickle_file(value: Any) -> Iterator[str]:
    """A file that holds a value, readable by its owner alone, gone afterwards: under Linux also if this process is killed.

    What a process is started with goes through a pipe that the starting side holds open: of more than the pipe takes
    (64 KiB) the rest would wait for ever for a process that died before it read it.
    """
    descriptors = Path(f"/proc/{os.getpid()}/fd")
    with tempfile.NamedTemporaryFile(prefix="audit-shared-", suffix=".pickle", delete=not descriptors.is_dir()) as file:
        if descriptors.is_dir():
            os.unlink(file.name)  # what was trained on must not outlive this process; others open its descriptor
        pickle.dump(value, file, protocol=pickle.HIGHEST_PROTOCOL)
        file.flush()
        yield str(descriptors / str(file.fileno())) if descriptors.is_dir() else file.name


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """A scope that no signal to stop interrupts, so that each process that is started in it is known to the pool.

    Such a process holds them, too, until `_settle` lets them go.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _end(strangers: set[BaseProcess]) -> None:
    """Ends the processes that this one has started, but for some that are not of the pool."""
    for process in set(multiprocessing.active_children()) - strangers:
        process.kill()


def _pass_on(messages: Any, progress: Progress) -> None:
    while not messages.empty():
        progress(messages.get())


_PLACE: dict[str, Any] = {}


def _settle(threads: int, path: str, messages: Any) -> None:
    """Prepares a worker process: its share of the cores, and where it finds what all jobs have in common.

    Ctrl-C on a terminal reaches all processes of a command; the one that was started by the user ends the others.
    """
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)
    os.dup2(2, 1)  # what a user's own code prints is no result
    os.environ["OMP_NUM_THREADS"] = str(threads)
    _PLACE.update(path=path, heard=messages)


def _run(job: Any) -> Any:
    work, context = _shared(_PLACE["path"])
    return work(context, job, _PLACE["heard"].put)


def _end_with_parent() -> None:
    """Ends this process when the one that started it is gone.

    A killed parent cannot end its workers, and they would wait for work for ever: each holds the writing end of the pipe on
    which it waits, so none ever reads the pipe's end.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@functools.lru_cache(maxsize=1)
def _shared(path: str) -> tuple[Any, tuple[Any, ...]]:
    """Return what all jobs have in common, read with the first job: an error in code that it imports is that job's error."""
    with open(path, "rb") as file:
        shared: tuple[Any, tuple[Any, ...]] = pickle.load(file)  # written by the process that started this one
    return shared


PLUGIN = Processes
