"""Every check of an execution: silent on an honest run, failed by a run with the defect that it looks for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from audit import plugins
from audit.checks.execution import check_executed
from audit.core.deployed_events import MatrixFactorization
from audit.core.events import Event, dp_sgd, sgd
from audit.core.results import Status
from audit.core.training import Executed

PACKAGE = plugins.FOLDERS["checks"]
NOISY = dp_sgd(noise_multiplier=1.5, clip_norm=2.0, sample_rate=0.1, steps=200)
PLAIN = sgd(sample_rate=0.1, steps=200)
CYCLES = MatrixFactorization(noise_multiplier=1.5, coefficients=(1.0, 0.5), steps=200, participations=20, separation=10)
BROKEN: dict[str, tuple[Event, dict[str, Any]]] = {
    "clipping": (NOISY, {"largest_norm": np.full(4, 1.5)}),
    "clipping_recomputed": (NOISY, {"recomputed": np.full(4, 0.1)}),
    "count_noise": (NOISY, {"count_noise": np.full(4, 0.4)}),
    "cyclic_batches": (CYCLES, {"batch_digests": np.arange(800, dtype=np.uint64).reshape(4, 200)}),
    "gradients_recomputed": (PLAIN, {"recomputed": np.full(4, 0.1)}),
    "inside_clients": (PLAIN, {"inner_noise": np.full(4, 0.5)}),
    "noise": (NOISY, {"noise_multiplier": np.full(4, 0.75)}),
    "sampling": (NOISY, {"batch_sizes": np.full((4, 200), 200)}),
    "steps": (NOISY, {"steps": 199}),
}


def honest(event: Event = NOISY) -> Executed:
    random = np.random.default_rng(7)
    cycles = np.tile(random.multinomial(1000, np.full(10, 0.1), size=4), 20)
    digests = np.tile(random.integers(2**64, size=(4, 10), dtype=np.uint64), 20)
    return Executed(
        batch_digests=digests,
        population_digest=digests[:, :10].sum(axis=1),
        steps=200,
        batch_sizes=cycles if event is CYCLES else random.binomial(1000, 0.1, size=(4, 200)),
        population=np.full(4, 1000),
        noise_multiplier=np.full(4, 1.5),
        noise_draws=100_000,
        largest_norm=np.ones(4),
        skipped=np.zeros(4, dtype=np.int64),
        recomputed=np.full(4, 1e-6),
        count_noise=np.ones(4),
        inner_noise=np.ones(4),
        inner_draws=np.full(4, 100_000),
        inner_norm=np.ones(4),
    )


@pytest.mark.parametrize("name", plugins.names(PACKAGE))
def test_it_passes_an_honest_run_and_fails_a_broken_one(name: str) -> None:
    check = plugins.build(PACKAGE, {"kind": name})
    event, change = BROKEN[name]
    passed = check.check(event, honest(event))
    assert passed and all(row.status is Status.CHECKED for row in passed)
    failed = check.check(event, replace(honest(event), **change))
    assert any(row.status is Status.FAILED for row in failed)
    assert {row.code for row in failed} <= {row.code for row in check_executed(event, replace(honest(event), **change))}


@pytest.mark.parametrize("name", plugins.names(PACKAGE))
def test_it_has_a_position_of_its_own(name: str) -> None:
    positions = [check.position for check in plugins.in_order(PACKAGE).values()]
    assert positions == sorted(set(positions)) and plugins.find(PACKAGE, name).position in positions


def test_what_was_not_measured_is_a_gap() -> None:
    (row,) = check_executed(NOISY, replace(honest(), measured=False))
    assert row.status is Status.GAP


def test_sizes_alone_refute_cycles_and_do_not_confirm_them() -> None:
    check = plugins.build(PACKAGE, {"kind": "cyclic_batches"})
    empty = np.empty(0, dtype=np.uint64)
    unknown = replace(honest(CYCLES), batch_digests=empty, population_digest=empty)
    (row,) = check.check(CYCLES, unknown)
    assert row.status is Status.DECLARED and "not recorded" in row.value
    assert check.check(CYCLES, replace(unknown, batch_sizes=np.full((4, 200), 99)))[0].status is Status.FAILED
    twice = honest(CYCLES).batch_digests.copy()
    twice[:, ::10] = twice[:, 1::10]  # members of one batch again in another of each cycle
    assert check.check(CYCLES, replace(honest(CYCLES), batch_digests=twice))[0].status is Status.FAILED
