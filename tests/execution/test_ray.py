"""Jobs on a real Ray cluster of several nodes: a node, a worker or the driver can be killed and nothing changes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from audit import plugins
from audit.core.errors import ConfigError, WorkerLost
from audit.core.protocols import Executor
from tests.execution.test_executors import always_dies, dies_once, scaled
from tests.tiny import CONFIG

ray = pytest.importorskip("ray", reason="the extra 'ray' is not installed")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


def build(**options: Any) -> Executor:
    executor: Executor = plugins.build("audit.execution.executors", {"kind": "ray", **options})
    return executor


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head without places for jobs, and two nodes with one each."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("PYTHONPATH", str(ROOT))
        result = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        for _ in range(2):
            result.add_node(num_cpus=1)
        result.wait_for_nodes()
        yield result
        ray.shutdown()
        result.shutdown()


def command(config: Path, folder: Path, *more: str) -> list[str]:
    key = config.with_name("record-key")
    return [sys.executable, "-m", "audit", "run", str(config), "-q", "-o", str(folder), "--record-key", str(key), *more]


def environment(address: str = "") -> dict[str, str]:
    known = {**os.environ, "SOURCE_DATE_EPOCH": "1767225600", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    return {**known, "RAY_ADDRESS": address} if address else known


def same_findings(first: Path, second: Path) -> None:
    assert (first / "scores.parquet").read_bytes() == (second / "scores.parquet").read_bytes()
    item, two = (json.loads((folder / "report.json").read_text()) for folder in (first, second))
    assert item["mechanisms"] == two["mechanisms"]
    names = [sorted(path.name for path in (folder / "models").iterdir()) for folder in (first, second)]
    assert names[0] == names[1]
    for name in names[0]:
        assert (first / "models" / name).read_bytes() == (second / "models" / name).read_bytes()


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Jobs of some seconds each, and the key behind the names of records, so that runs name them alike."""
    path = tmp_path_factory.mktemp("config") / "tiny.yaml"
    path.with_name("record-key").write_text("5" * 32)
    path.write_text(CONFIG.replace("steps: 12", "steps: 1500") + "output: {formats: [json]}\n")
    return path


@pytest.fixture(scope="module")
def undisturbed(config: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "serial"
    done = subprocess.run(command(config, folder), env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode in (0, 3), done.stderr
    return folder


ON_RAY = ("--set", "execution={kind: ray, models_per_job: 2}")


def start(line: list[str], folder: Path, address: str, jobs: int) -> subprocess.Popen[str]:
    """The run, after `jobs` of its jobs are stored."""
    process = subprocess.Popen(line, env=environment(address), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    models = folder.with_name(folder.name + ".partial") / "models"
    deadline = time.monotonic() + 180
    while sum(not path.name.startswith("coins") for path in models.glob("*.safetensors")) < jobs:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process


def descendants(pid: int) -> dict[int, str]:
    """The command lines of all processes below one."""
    rows = subprocess.run(["ps", "-ewwo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout.splitlines()
    parents = {int(row.split()[0]): (int(row.split()[1]), row.split(maxsplit=2)[-1]) for row in rows}
    family = {pid}
    while grown := {key for key, (parent, _) in parents.items() if parent in family} - family:
        family |= grown
    return {key: parents[key][1] for key in family if key in parents}


@pytest.mark.parametrize("process_name", ["raylet/raylet ", "ray::RuntimeEnvAgent", "ray::DashboardAgent"])
def test_a_run_that_loses_a_process_of_ray_says_so_and_goes_on(
    process_name: str, config: Path, undisturbed: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    process = start(command(config, folder, *ON_RAY), folder, "", 1)
    deadline = time.monotonic() + 60
    while not (victims := [pid for pid, line in descendants(process.pid).items() if process_name in line]):
        assert time.monotonic() < deadline
    os.kill(victims[0], signal.SIGKILL)
    error = process.communicate(timeout=120)[1]
    # Ray may end its program itself, by exit code 1, which would say that a claim was refuted
    assert process.returncode == WorkerLost.exit_code and "--resume" in error, error
    again = command(config, folder, "--resume")
    done = subprocess.run(again, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode in (0, 3), done.stderr
    same_findings(undisturbed, folder)


def test_results_progress_and_failures(cluster: Any) -> None:
    heard: list[int] = []
    executor = build(address=cluster.address)
    assert dict(executor.map(scaled, (10,), [3, 1, 2], heard.append)) == {0: 30, 1: 10, 2: 20}
    assert sum(heard) == 6
    with pytest.raises(ConfigError, match=r"^job -1"):
        list(executor.map(scaled, (1,), [1, -1], heard.append))


def test_a_killed_worker_costs_only_its_job(cluster: Any, tmp_path: Path) -> None:
    result = dict(build(address=cluster.address).map(dies_once, (tmp_path,), [0, 1, 2, 3], lambda steps: None))
    assert result == {0: 0, 1: 1, 2: 2, 3: 3}
    assert sorted((tmp_path / "started").read_text().split()) == ["0", "1", "2", "2", "3"]
    with pytest.raises(WorkerLost, match="--resume"):
        list(build(address=cluster.address, retries=1).map(always_dies, (), [0], lambda steps: None))


def test_a_job_that_fits_nowhere_is_refused(cluster: Any) -> None:
    with pytest.raises(ConfigError, match="2 CPUs and 0 GPUs; a job takes 4"):
        list(build(address=cluster.address, cpus_per_job=4).map(scaled, (1,), [1], lambda steps: None))


def test_jobs_take_free_gpus_first_and_cpus_too_where_mixed(cluster: Any) -> None:
    gpu_node = cluster.add_node(num_cpus=1, num_gpus=1)
    cluster.wait_for_nodes()
    executor = build(address=cluster.address, gpus_per_job=1, mixed=True)
    devices = dict(executor.map(_device, (), list(range(8)), lambda steps: None))
    assert set(devices.values()) == {None, "cpu"}
    only = build(address=cluster.address, gpus_per_job=1)
    assert set(dict(only.map(_device, (), [0, 1], lambda steps: None)).values()) == {None}
    cluster.remove_node(gpu_node)


def _device(shared: tuple[()], job: int, progress: Any, device: str | None = None) -> str | None:
    time.sleep(0.3)
    return device


def _slow(shared: tuple[Path], job: int, progress: Any, device: str | None = None) -> int:
    with (shared[0] / "started").open("a") as stream:
        stream.write(f"{job} {ray.get_runtime_context().get_node_id()}\n")
    time.sleep(1.5)
    return job


def test_jobs_of_a_lost_node_run_elsewhere(cluster: Any, tmp_path: Path) -> None:
    victim = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    actual, lost = {}, set[int]()
    for index, result in build(address=cluster.address).map(_slow, (tmp_path,), list(range(12)), lambda steps: None):
        actual[index] = result
        started = [line.split() for line in (tmp_path / "started").read_text().splitlines()]
        there = {int(job) for job, node in started if node == victim.node_id} - set(actual)
        if there and not lost:
            lost = there
            cluster.remove_node(victim, allow_graceful=False)
    assert actual == {job: job for job in range(12)}
    jobs = [int(line.split()[0]) for line in (tmp_path / "started").read_text().splitlines()]
    assert lost, "the node had no job, so nothing was tested"
    assert {job for job in jobs if jobs.count(job) > 1} == lost


def test_a_lost_node_changes_nothing(cluster: Any, config: Path, undisturbed: Path, tmp_path: Path) -> None:
    victim = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    process = start(command(config, tmp_path / "run", *ON_RAY), tmp_path / "run", cluster.address, jobs=1)
    cluster.remove_node(victim, allow_graceful=False)
    _, errors = process.communicate(timeout=300)
    assert process.returncode in (0, 3), errors
    same_findings(undisturbed, tmp_path / "run")


def test_a_value_that_each_model_draws_is_its_own_on_any_machine(cluster: Any, config: Path, tmp_path: Path) -> None:
    """Each model draws an attribute beside its weights; a model that holds it as a buffer gives the same scores."""
    chosen = {}
    for kind, on in (("attribute", ()), ("attribute", ON_RAY), ("buffer", ON_RAY)):
        model = f"model={{factory: 'tests.engine.drawn_modules:make_for_digits', arguments: {{kind: {kind}}}}}"
        folder = tmp_path / f"{kind}{len(on)}"
        line = command(config, folder, "--set", model, "--set", "training.steps=60", *on)
        done = subprocess.run(line, env=environment(cluster.address if on else ""), capture_output=True, text=True, check=False)
        assert done.returncode in (0, 3), done.stderr
        chosen[kind, bool(on)] = folder
    same_findings(chosen["attribute", False], chosen["attribute", True])
    assert "kept' differs between models" in (chosen["attribute", True] / "report.json").read_text()
    drawn, held = (pd.read_parquet(chosen[kind, True] / "scores.parquet")["score"] for kind in ("attribute", "buffer"))
    np.testing.assert_allclose(drawn, held, atol=1e-5)
    assert drawn.nunique() > 100


def test_a_killed_driver_goes_on_under_another_executor(cluster: Any, config: Path, undisturbed: Path, tmp_path: Path) -> None:
    process = start(command(config, tmp_path / "run", *ON_RAY), tmp_path / "run", cluster.address, jobs=2)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    models = tmp_path / "run.partial" / "models"
    retained = {path.name: path.stat().st_mtime_ns for path in models.glob("*.safetensors")}
    assert len(retained) >= 2
    line = command(config, tmp_path / "run", "--resume", "--set", "execution={kind: processes, models_per_job: 2}")
    done = subprocess.run(line, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode in (0, 3), done.stderr
    for name, written in retained.items():
        assert (tmp_path / "run" / "models" / name).stat().st_mtime_ns == written, "a finished model was trained again"
    same_findings(undisturbed, tmp_path / "run")


def test_no_cluster_is_said(config: Path, tmp_path: Path) -> None:
    line = command(config, tmp_path / "run", "--set", "execution={kind: ray, address: '127.0.0.1:1'}")
    done = subprocess.run(line, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "no Ray cluster at '127.0.0.1:1'" in done.stderr


def test_one_process_is_on_one_cluster(cluster: Any) -> None:
    list(build(address=cluster.address).map(scaled, (1,), [1], lambda steps: None))
    with pytest.raises(ConfigError, match="connected to the Ray cluster"):
        list(build(address="127.0.0.1:1").map(scaled, (1,), [1], lambda steps: None))
