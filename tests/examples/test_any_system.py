"""Each system of `examples/any_system.py` is refuted or not as it was built, within its ceiling; none if it saw nothing."""

from __future__ import annotations

import dataclasses
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import audit
from audit.core.claims import Outcome

EXAMPLES = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "any_system.py"))
SYSTEMS = EXAMPLES["SYSTEMS"]
PAGE = (Path(__file__).parents[2] / "docs" / "use" / "any-system.md").read_text(encoding="utf-8")
ROWS = PAGE.split("| System |")[1].split("\n\n")[0].splitlines()[2:]
PRIVATE = {"pate", "federated_analytics"}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("make", "row"), zip(SYSTEMS, ROWS, strict=True), ids=[make.__name__ for make in SYSTEMS])
def test_each_system_is_judged_as_it_was_built(make: Callable[[], Any], row: str) -> None:
    report = make().check()
    expected = Outcome.CONSISTENT if make.__name__ in PRIVATE else Outcome.VIOLATED
    assert report.verdict.outcome is expected
    assert report.bound is not None and report.bound.epsilon <= report.bound.ceiling < 5
    shown = [float(cell) for cell in row.strip("| ").split(" | ")[3:]]
    found = report.verdict.claim.epsilon, report.bound.epsilon, report.bound.ceiling
    assert shown == [round(value, 2) for value in found], "the page shows other figures"
    assert report.report.mechanisms[0].preflight is not None and report.report.mechanisms[0].games[0].controls[0].passed


@pytest.mark.slow
@pytest.mark.parametrize("make", SYSTEMS, ids=lambda make: make.__name__)
def test_a_system_that_never_saw_a_canary_is_not_refuted(make: Callable[[], Any]) -> None:
    system = make()
    blind = dataclasses.replace(system, train=lambda records, seed: system.train(system.data, seed), epsilon=0.0)
    refuted = [blind.check(seed).exit_code == 1 for seed in range(4)]
    assert sum(refuted) <= 2, "of 4 audits at 5 % each, chance gives 3 in fewer than 1 of 2,000"


@pytest.mark.slow
def test_a_system_that_keeps_nothing_is_refuted_at_most_as_often_as_stated() -> None:
    def noise(system: int, references: int, rare: bool) -> Any:
        values = np.random.default_rng(system).normal(size=(60, 1 + bool(references)))
        return np.maximum(values - 0.7, 0.0) if rare else values  # about a quarter of the records seem to be named

    def audit_noise(seed: int, references: int, rare: bool = False) -> bool:
        report = audit.check_training(
            lambda records, train_seed: train_seed,
            None,
            np.arange(60.0),
            score=lambda system, canaries: noise(system, references, rare),
            epsilon=0.0,
            references=references,
            seed=seed,
        )
        return report.exit_code == 1

    assert sum(audit_noise(seed, 0) for seed in range(200)) <= 20
    assert sum(audit_noise(seed, 6) for seed in range(200)) <= 20
    assert sum(audit_noise(seed, 0, rare=True) for seed in range(200)) <= 20


def test_a_report_of_any_system_is_written_to_a_file_and_printed(tmp_path: Any) -> None:
    report = EXAMPLES["group_by"]().check()
    assert report.save(tmp_path / "report.json").stat().st_size > 1000
    assert "violated" in str(report) and "one_run" in str(report)


def test_a_system_that_names_half_of_its_records_is_judged_by_these() -> None:
    def name_half(records: Any, seed: int) -> set[str]:
        return set(np.random.default_rng(seed).choice(records, len(records) // 2, replace=False).tolist())

    canaries = [f"person {place}" for place in range(200)]
    report = audit.check_training(
        name_half, None, canaries, score=lambda system, names: [float(name in system) for name in names], epsilon=1.0, seed=1
    )
    assert report.bound is not None and report.bound.epsilon > 2, (
        "about 50 sure guesses; guessing as many nonmembers proves 0.8"
    )


def test_references_prove_a_leak_that_lowers_scores() -> None:
    def deny(records: Any, seed: int) -> set[str]:
        return set(records)  # a list of what must not be answered is a list of who was there

    def answered(denied: set[str], canaries: Any) -> Any:
        return [float(name not in denied) + 1e-3 * len(name) for name in canaries]

    canaries = [f"person {place}" for place in range(100)]
    alone = audit.check_training(deny, None, canaries, score=answered, epsilon=1.0, seed=1)
    assert alone.verdict.outcome is Outcome.INVALID and alone.bound is None
    compared = audit.check_training(deny, None, canaries, score=answered, epsilon=1.0, references=6, seed=1)
    assert compared.exit_code == 1 and compared.bound is not None and compared.bound.epsilon > 2.5


def test_a_cache_that_keeps_a_third_of_its_records_is_judged_by_these() -> None:
    def keep_some(records: Any, seed: int) -> set[str]:
        return {
            name for name, draw in zip(records, np.random.default_rng(seed).random(len(records)), strict=True) if draw < 0.3
        }

    def answer_fast(cached: set[str], names: Any) -> Any:
        delays = np.random.default_rng(len(cached)).exponential(size=len(names))
        return [-(5 + delay if name in cached else 50 + 10 * delay) for name, delay in zip(names, delays, strict=True)]

    bounds = [
        audit.check_training(
            keep_some, None, [f"query {place}" for place in range(200)], score=answer_fast, epsilon=0.5, seed=seed
        ).bound
        for seed in range(4)
    ]
    assert min(bound.epsilon for bound in bounds if bound) > 0.9 and None not in bounds, "taking nonmembers in turn proves 0.6"
