"""Executors give the same results whatever they run on, and a lost process costs only its own job."""

from __future__ import annotations

import multiprocessing.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from audit import plugins
from audit.core.errors import ConfigError, WorkerLost
from audit.core.protocols import Executor
from audit.core.training import Progress


def build(kind: str, **options: object) -> Executor:
    executor: Executor = plugins.build("audit.execution.executors", {"kind": kind, **options})
    return executor


def scaled(shared: tuple[int], job: int, progress: Progress, device: str | None = None) -> int:
    if job < 0:
        raise ConfigError(f"job {job} cannot be done")
    progress(job)
    return shared[0] * job


def dies_once(shared: tuple[Path], job: int, progress: Progress, device: str | None = None) -> int:
    """Job 2 kills its process the first time; every start of a job leaves a line."""
    with (shared[0] / "started").open("a") as stream:
        stream.write(f"{job}\n")
    mark = shared[0] / "died"
    if job == 2 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return job


def always_dies(shared: tuple[()], job: int, progress: Progress, device: str | None = None) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return job


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["serial", "processes"])
def test_results_and_progress(kind: str) -> None:
    heard: list[int] = []
    assert dict(build(kind).map(scaled, (10,), [3, 1, 2], heard.append)) == {0: 30, 1: 10, 2: 20}
    assert sum(heard) == 6


def slow(shared: tuple[Path], job: int, progress: Progress, device: str | None = None) -> int:
    """The first job is quick; the others leave a mark only after half a minute."""
    if job:
        time.sleep(30)
        (shared[0] / str(job)).touch()
    return job


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["serial", "processes"])
def test_closing_gives_up_what_has_not_finished(kind: str, tmp_path: Path) -> None:
    results = build(kind).map(slow, (tmp_path,), [0, 1, 2, 3], lambda steps: None)
    assert next(results) == (0, 0)
    started = time.monotonic()
    results.close()
    assert time.monotonic() - started < 15
    assert list(tmp_path.iterdir()) == []


def slow_after_a_step(shared: tuple[Path], job: int, progress: Progress, device: str | None = None) -> int:
    progress(1)
    time.sleep(30)
    (shared[0] / str(job)).touch()
    return job


def stopped(steps: int) -> None:
    raise KeyboardInterrupt


@pytest.mark.slow
def test_a_stop_waits_for_no_job_that_is_under_way(tmp_path: Path) -> None:
    """It may come at any moment, also while the driver waits for jobs and not only while it stores one."""
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        list(build("processes").map(slow_after_a_step, (tmp_path,), [0, 1, 2, 3], stopped))
    while multiprocessing.active_children():
        assert time.monotonic() - started < 25
        time.sleep(0.05)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["serial", "processes"])
def test_a_failure_is_not_swallowed(kind: str) -> None:
    with pytest.raises(ConfigError, match="job -1"):
        list(build(kind).map(scaled, (1,), [1, -1], lambda steps: None))


@pytest.mark.slow
def test_a_killed_process_costs_only_its_unfinished_jobs(tmp_path: Path) -> None:
    result = dict(build("processes", workers=1).map(dies_once, (tmp_path,), [0, 1, 2, 3], lambda steps: None))
    assert result == {0: 0, 1: 1, 2: 2, 3: 3}
    started = (tmp_path / "started").read_text().split()
    assert started == ["0", "1", "2", "2", "3"]


@pytest.mark.slow
def test_processes_that_keep_dying_are_given_up() -> None:
    with pytest.raises(WorkerLost, match="--resume"):
        list(build("processes", workers=1, restarts=1).map(always_dies, (), [0], lambda steps: None))


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"kind": "processes", "workers": 0}, "workers is 0"),
        ({"kind": "clowd"}, "has no 'clowd'"),
        ({"kind": "processes", "workes": 2}, "Did you mean 'workers'"),
    ],
)
def test_what_cannot_be_used_is_refused(options: dict[str, object], part: str) -> None:
    with pytest.raises(ConfigError, match=part):
        plugins.build("audit.execution.executors", options)


class FailsElsewhere:
    """What the driver can send and no worker can read, as a module that only the driver finds."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return __import__, ("no_such_module",)


@pytest.mark.slow
def test_an_error_while_a_worker_reads_what_it_shares_is_told_once_as_what_it_is(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        list(build("processes", workers=1).map(scaled, (FailsElsewhere(),), [1, 2], lambda steps: None))
    assert "Traceback" not in capfd.readouterr().err


def first_of(shared: tuple[np.ndarray], job: int, progress: Progress, device: str | None = None) -> float:
    return float(shared[0][0]) * job


@pytest.mark.slow
def test_a_process_that_dies_while_it_is_started_does_not_hang_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """The data are far more than a pipe takes, and the first process is killed before it has read any."""
    launch = multiprocessing.util.spawnv_passfds  # type: ignore[attr-defined]
    killed: list[int] = []

    def start(*arguments: object) -> int:
        pid: int = launch(*arguments)
        if not killed and "resource_tracker" not in str(arguments[1]):
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)
        return pid

    monkeypatch.setattr(multiprocessing.util, "spawnv_passfds", start)
    data = np.ones(10**6)
    result = dict(build("processes", workers=1).map(first_of, (data,), [1, 2], lambda steps: None))
    assert killed and result == {0: 1.0, 1: 2.0}


@pytest.mark.slow
def test_workers_end_with_a_driver_that_is_killed(tmp_path: Path) -> None:
    """Each worker holds the pipe on which it waits for jobs, so the end of the driver alone does not wake it."""
    driver = subprocess.Popen(
        [sys.executable, "-c", f"from tests.execution.test_executors import drive; drive({str(tmp_path)!r})"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while len(list(tmp_path.iterdir())) < 3:  # two jobs are done and the third keeps one worker busy, the other idle
        assert time.monotonic() < deadline and driver.poll() is None
        time.sleep(0.05)
    driver.kill()
    driver.wait()
    while time.monotonic() < deadline:
        try:
            os.killpg(driver.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    os.killpg(driver.pid, signal.SIGKILL)
    raise AssertionError("workers outlive the driver")


def drive(folder: str) -> None:
    list(build("processes", workers=2).map(linger, (folder,), [0, 0, 600], lambda message: None))


def linger(context: tuple[str], seconds: float, progress: Progress, device: str | None = None) -> None:
    (Path(context[0]) / f"{os.getpid()}-{time.monotonic_ns()}").touch()
    time.sleep(seconds)


def listed(shared: tuple[Path], job: int, progress: Progress, device: str | None = None) -> list[str]:
    print("verdict: private", flush=True)
    return sorted(path.name for path in shared[0].iterdir())


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="a file without a name needs Linux")
def test_what_all_jobs_share_has_no_name_that_a_kill_could_leave_and_prints_are_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert dict(build("processes").map(listed, (tmp_path,), [1], lambda count: None)) == {0: []}
    assert capfd.readouterr().out == ""
