"""Executors give the same results in the same order, whatever they run on."""

from __future__ import annotations

import pytest

from audit.core.errors import ConfigError
from audit.core.protocols import Progress
from audit.execution import executor


def squared(job: int, progress: Progress) -> int:
    if job < 0:
        raise ConfigError(f"job {job} cannot be done")
    progress(job)
    return job * job


@pytest.mark.parametrize("kind", ["serial", "processes"])
def test_results_and_progress(kind: str) -> None:
    heard: list[int] = []
    assert list(executor(kind, 2).map(squared, [3, 1, 2], heard.append)) == [9, 1, 4]
    assert sum(heard) == 6


@pytest.mark.parametrize("kind", ["serial", "processes"])
def test_a_failure_is_not_swallowed(kind: str) -> None:
    with pytest.raises(ConfigError, match="job -1"):
        list(executor(kind, 2).map(squared, [1, -1], lambda steps: None))


def test_unknown_kinds_are_refused() -> None:
    with pytest.raises(ConfigError, match="expected one of"):
        executor("cloud", 1)
