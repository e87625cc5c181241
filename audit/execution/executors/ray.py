"""Jobs on a Ray cluster: many machines, with GPUs or without."""

import os
import socket
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from audit.core.errors import ConfigError, WorkerLost
from audit.core.protocols import Result, Work
from audit.core.training import Progress

_POLL_SECONDS = 0.3
_KNOCK_SECONDS = 10
_AGAIN = "finished models are kept. Check the cluster, or lower models_per_job if memory ran out, then use --resume"
_QUEUE_FACTOR = 2  # jobs under way for each that can run: the next is there before a place falls free


@dataclass(frozen=True, slots=True, kw_only=True)
class Ray:
    """Jobs as Ray tasks; shared data is broadcast once, a lost machine costs only the jobs it was at.

    A job has the same bits wherever it runs on processors of one kind with as many threads, so a run can be
    killed under one executor and go on under another. With `mixed`, jobs for which no GPU is free run on CPUs;
    those have other bits than on a GPU.

    Attributes:
        address: of the cluster ("auto", "host:6379", "ray://host:10001"); None starts one on this machine, or
            takes the one that the environment variable RAY_ADDRESS names.
        cpus_per_job: CPU cores, and so threads, of a job.
        gpus_per_job: share of a GPU of a job; needs `device: cuda`.
        mixed: GPU jobs also go to machines without a free GPU, on CPU cores.
        retries: how often a job is tried again after its process or machine was lost.
    """

    address: str | None = None
    cpus_per_job: int = 1
    gpus_per_job: float = 0.0
    mixed: bool = False
    retries: int = 3
    _references: dict[int, tuple[Any, Any]] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        if self.cpus_per_job < 1 or self.gpus_per_job < 0 or self.retries < 0:
            raise ConfigError(
                f"ray: cpus_per_job is {self.cpus_per_job}, gpus_per_job {self.gpus_per_job}, retries {self.retries}; "
                "expected at least 1, 0 and 0"
            )
        if self.mixed and not self.gpus_per_job:
            raise ConfigError("ray: mixed sends GPU jobs to CPUs too, but gpus_per_job is 0; set gpus_per_job, or drop mixed")
        _library()

    def map(
        self, work: Work[Result], context: tuple[Any, ...], jobs: Sequence[Any], progress: Progress
    ) -> Generator[tuple[int, Result], None, None]:
        """The results as they finish; `ConfigError` without a place for such jobs, `WorkerLost` beyond `retries`."""
        if not jobs:
            return
        ray = _library()
        _connect(ray, self.address)
        pool = _Pool(ray=ray, executor=self, work=work, parts=[self._publish(ray, part) for part in context])
        yield from pool.results(jobs, progress)

    def _publish(self, ray: Any, part: Any) -> Any:
        """The reference of `part` in the cluster; the object is kept so that its identity stays its own."""
        if id(part) not in self._references:
            self._references[id(part)] = (part, ray.put(part))
        return self._references[id(part)][1]


@dataclass(slots=True, kw_only=True, eq=False)
class _Pool:
    """The jobs of one call on one cluster."""

    ray: Any
    executor: Ray
    work: Any
    parts: list[Any]
    board: Any = None
    steps_reported_before: int = 0
    running: dict[Any, tuple[int, bool]] = field(default_factory=dict)  # task to job index, and whether it has a GPU

    def results(self, jobs: Sequence[Any], progress: Progress) -> Iterator[tuple[int, Any]]:
        self.board = _board(self.ray)
        waiting = list(reversed(range(len(jobs))))
        try:
            while waiting or self.running:
                for gpu in self._places(len(waiting)):
                    index = waiting.pop()
                    self.running[self._submit(index, jobs[index], gpu)] = (index, gpu)
                ready, _ = self.ray.wait(list(self.running), num_returns=1, timeout=_POLL_SECONDS)
                self._refuse_lost_node()
                self._pass_on(progress)
                for task in ready:
                    index, _ = self.running.pop(task)
                    yield index, self._result(task, index)
            self._pass_on(progress)
        except self.ray.exceptions.RayTaskError:
            raise
        except self.ray.exceptions.RayError as error:
            raise WorkerLost(f"Ray lost a process of its own ({type(error).__name__}); {_AGAIN}") from error
        finally:
            for task in self.running:
                self.ray.cancel(task, force=True)

    def _refuse_lost_node(self) -> None:
        """Raise `WorkerLost` if Ray's process for this machine, started here, ended: soon Ray would end this one as well."""
        node = getattr(self.ray._private.worker, "_global_node", None)
        if any(row.process.poll() is not None for row in getattr(node, "all_processes", {}).get("raylet", ())):
            self.running.clear()
            self.ray.shutdown()
            raise WorkerLost(f"Ray's process for this machine (raylet) ended; {_AGAIN}")

    def _places(self, waiting: int) -> list[bool]:
        """For each job to be submitted now, whether it takes a GPU."""
        resources, own = self.ray.cluster_resources(), self.executor
        cpus, gpus = resources.get("CPU", 0) // own.cpus_per_job, 0.0
        if own.gpus_per_job:
            gpus = min(resources.get("GPU", 0) // own.gpus_per_job, cpus)
        kinds = {True: gpus, False: cpus - gpus if own.mixed or not own.gpus_per_job else 0.0}
        if not any(kinds.values()):
            raise ConfigError(
                f"the Ray cluster has {resources.get('CPU', 0):g} CPUs and {resources.get('GPU', 0):g} GPUs; a job takes "
                f"{own.cpus_per_job} and {own.gpus_per_job:g}: add machines, or change execution.cpus_per_job or gpus_per_job"
            )
        choices: list[bool] = []
        for gpu, places in kinds.items():
            busy = sum(uses_gpu is gpu for _, uses_gpu in self.running.values())
            choices += [gpu] * min(max(0, int(_QUEUE_FACTOR * places) - busy), waiting - len(choices))
        return choices

    def _submit(self, index: int, job: Any, gpu: bool) -> Any:
        own = self.executor
        gpus, device = (own.gpus_per_job, None) if gpu else (0.0, "cpu" if own.gpus_per_job else None)
        task = self.ray.remote(_task).options(
            num_cpus=own.cpus_per_job,
            num_gpus=gpus,
            max_retries=own.retries,
            scheduling_strategy="SPREAD",
            runtime_env={"env_vars": {"OMP_NUM_THREADS": str(own.cpus_per_job)}},
        )
        return task.remote(self.work, index, job, device, self.board, *self.parts)

    def _result(self, task: Any, index: int) -> Any:
        errors = self.ray.exceptions
        try:
            return self.ray.get(task)
        except errors.RayTaskError as error:
            raise (error.cause if isinstance(error.cause, Exception) else error) from None
        except errors.RayError as error:
            raise WorkerLost(
                f"job {index} lost its machine or process more than {self.executor.retries} times ({type(error).__name__}); "
                f"{_AGAIN}"
            ) from error

    def _pass_on(self, progress: Progress) -> None:
        """Progress of all jobs since the last call; a job that starts again takes back its earlier reports."""
        total = self.ray.get(self.board.total.remote())
        if total > self.steps_reported_before:
            progress(total - self.steps_reported_before)
            self.steps_reported_before = total


def _task(work: Any, index: int, job: Any, device: str | None, board: Any, *context: Any) -> Any:
    board.start.remote(index)
    result = work(context, job, lambda steps: board.add.remote(index, steps), device)
    _library().get(board.total.remote())  # calls of one task arrive in order: now the board has heard all of it
    return result


class _Board:
    """Steps done of each job, on the driver's machine."""

    def __init__(self) -> None:
        self.steps: dict[int, int] = {}

    def start(self, index: int) -> None:
        self.steps[index] = 0

    def add(self, index: int, steps: int) -> None:
        self.steps[index] += steps

    def total(self) -> int:
        return sum(self.steps.values())


def _board(ray: Any) -> Any:
    placement = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
        ray.get_runtime_context().get_node_id(), soft=False
    )
    return ray.remote(_Board).options(num_cpus=0, scheduling_strategy=placement).remote()


def _library() -> Any:
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError as error:
        raise ConfigError("execution.kind 'ray' needs the package ray: pip install 'epsilon-audit[ray]'") from error
    return ray


def _connect(ray: Any, address: str | None) -> None:
    if ray.is_initialized():
        own_address = ray.get_runtime_context().gcs_address
        if address not in (None, "auto", own_address) and "://" not in str(address):
            raise ConfigError(f"this process is connected to the Ray cluster at '{own_address}' already, not to '{address}'")
        return
    _knock(address or os.environ.get("RAY_ADDRESS"))
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConfigError(f"no Ray cluster at '{address}': {error}; start one (see docs/use/clusters.md)") from error
    except Exception as error:
        if type(error) is not Exception:  # which Ray raises if a process of its own does not start in time
            raise
        raise WorkerLost(f"Ray did not start: {error}; {_AGAIN}") from error


def _knock(address: str | None) -> None:
    """Raise `ConfigError` if no one listens: Ray itself would try again for minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=_KNOCK_SECONDS).close()
    except OSError as error:
        raise ConfigError(f"no Ray cluster at '{address}': {error}; start one (see docs/use/clusters.md)") from error


PLUGIN = Ray
