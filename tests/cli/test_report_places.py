"""`audit verify --recompute`: each place of report.json that is altered or deleted is found, or named as not checkable."""

from __future__ import annotations

import copy
import json
import random
import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from audit.cli import verify as verification
from audit.cli.app import answer
from audit.core.errors import AuditError
from audit.execution.report_fields import find_undecided
from audit.experiment.external.inspection import Settings, inspect_scores
from reports.formats.json import to_json

Place = tuple[str | int, ...]


def places_of(value: Any, path: Place = ()) -> Iterator[tuple[str, Place, Any]]:
    """Yield each value within a report with its place, by names alone and in full."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        here = (*path, key)
        yield ".".join(part for part in here if isinstance(part, str)), here, inner
        yield from places_of(inner, here)


def alterations(value: Any) -> list[Any]:
    """Return other values of the same type; of a list without its last row, with its first twice, in another order, empty."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [value + 1, value * 1.02 + 1e-3] if isinstance(value, float) else [value + 1]
    if isinstance(value, str):
        return [value + "x"]
    if isinstance(value, dict):
        return [None]
    rows = [[], value[:-1], [*value, copy.deepcopy(value[0])], value[::-1]] if value else [["added"], [["a", "b"]]]
    return [row for row in rows if row != value] if isinstance(value, list) else []


def changed_reports(report: Any, seed: int, most: int | None) -> Iterator[tuple[str, Any]]:
    """Yield reports in which one place of each name, drawn at random, was altered or deleted, with that name."""
    names: dict[str, list[tuple[Place, Any]]] = defaultdict(list)
    for name, place, value in places_of(report):
        names[name].append((place, value))
    stream = random.Random(seed)
    chosen = sorted(names) if most is None else stream.sample(sorted(names), most)
    for name in chosen:
        place, value = stream.choice(names[name])
        new_values = [*alterations(value), ...]
        for new in new_values if most is None else [stream.choice(new_values)]:
            changed = copy.deepcopy(report)
            around = changed
            for key in place[:-1]:
                around = around[key]
            if new is ...:
                del around[place[-1]]  # type: ignore[arg-type]
            else:
                around[place[-1]] = new  # type: ignore[index]
            if changed != report:
                yield f"{name} -> {'deleted' if new is ... else str(new)[:40]}", changed


def passed_in_silence(folder: Path, work: Path, seed: int, most: int | None) -> list[str]:
    shutil.copytree(folder, work)
    report = json.loads((work / "report.json").read_text())
    assert verification.check_numbers(work).problems == []
    has_seed = report["provenance"]["seed"] is not None or (work / "private" / "seed").is_file()
    has_bounds = "ceiling" in json.dumps(report["mechanisms"])
    rows = find_undecided(report["kind"], has_seed=has_seed, has_bounds=has_bounds)
    named = [place for places in rows.values() for place in places]
    silent, tried = [], 0
    for change, changed in changed_reports(report, seed, most):
        (work / "report.json").write_text(json.dumps(changed))
        tried += 1
        place = change.split(" -> ")[0] + "."
        if any(place.startswith(f"{name}.") for name in named):
            continue
        if not problems_of(work):
            silent.append(change)
    assert tried >= (most or 200) / 2
    return silent


def problems_of(folder: Path) -> list[str]:
    try:
        return verification.check_numbers(folder).problems
    except AuditError as error:
        return [str(error)]


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a check of scores with a claim."""
    folder, stream = tmp_path_factory.mktemp("scores"), np.random.default_rng(3)
    member = stream.random(200) < 0.5
    scores = stream.normal(size=200) + member
    settings = Settings(
        claim_epsilon=2.0, certificates=0, created="2026-01-15T12:34:56Z", title="t.csv", command="audit scores"
    )
    (folder / "report.json").write_bytes(to_json(inspect_scores({"a": scores}, member, settings, name="t.csv")))
    pd.DataFrame({"attack": "a", "score": scores, "member": member}).to_parquet(folder / "scores.parquet")
    return folder


def test_what_is_altered_is_found_or_named(scored: Path, tmp_path: Path) -> None:
    assert passed_in_silence(scored, tmp_path / "work", seed=1, most=40) == []


@pytest.mark.slow
def test_every_place_that_is_altered_is_found_or_named(scored: Path, tmp_path: Path) -> None:
    assert passed_in_silence(scored, tmp_path / "work", seed=7, most=None) == []


@pytest.mark.slow
def test_every_place_of_a_table_s_report_is_found_or_named(tmp_path: Path) -> None:
    stream = np.random.default_rng(3)
    for name in ("people", "control"):
        values = {column: stream.normal(size=150).round(1) for column in "abc"}
        pd.DataFrame(values).to_csv(tmp_path / f"{name}.csv", index=False)
    sides = ["--training", str(tmp_path / "people.csv"), "--control", str(tmp_path / "control.csv")]
    assert answer(["table", str(tmp_path / "people.csv"), *sides, "--attacks", "60", "-o", str(tmp_path / "table")]) == 0
    assert passed_in_silence(tmp_path / "table", tmp_path / "work", seed=7, most=None) == []


@pytest.mark.slow
def test_places_of_a_trained_model_s_report_are_found_or_named(tmp_path: Path) -> None:
    stream = np.random.default_rng(3)
    labels, included = stream.integers(0, 3, 240), stream.random(240) < 0.5
    logits = stream.normal(size=(240, 3)) + 3.0 * np.eye(3)[labels] * (1 + included)[:, None]
    for name, rows in (("members", included), ("nonmembers", ~included)):
        np.savez(tmp_path / f"{name}.npz", logits=logits[rows], labels=labels[rows])
    sides = ["--members", str(tmp_path / "members.npz"), "--nonmembers", str(tmp_path / "nonmembers.npz")]
    assert answer(["model", "--kind", "predictions", *sides, "-o", str(tmp_path / "model")]) == 0
    assert passed_in_silence(tmp_path / "model", tmp_path / "work", seed=7, most=120) == []


@pytest.mark.slow
@pytest.mark.parametrize("config", ["quickstart-language-model"])
def test_places_of_runs_that_are_altered_are_found_or_named(config: str, tmp_path: Path) -> None:
    settings = ["--set", "output.formats=[json]", "--set", "certificates=0"]
    assert answer(["run", config, "--quiet", "-o", str(tmp_path / "run"), *settings]) in (0, 1, 3)
    assert passed_in_silence(tmp_path / "run", tmp_path / "work", seed=5, most=30) == []


def test_places_that_nothing_decides_are_places_of_the_schema() -> None:
    schema = json.loads((Path(__file__).parents[2] / "docs/use/report-schema.json").read_text())
    names = set()

    def walk(part: Any, path: str) -> None:
        names.add(path)
        for inner in (part, *part.get("anyOf", ()), *([part["items"]] if "items" in part else ())):
            reference = inner.get("$ref", "").rpartition("/")[2]
            for key, field in schema["$defs"].get(reference, inner if inner is not part else {}).get("properties", {}).items():
                walk(field, f"{path}.{key}")
            for further in inner.get("anyOf", ()) if inner is not part else ():
                walk(further, path)

    for key, field in schema["properties"].items():
        walk(field, key)
    undecided = find_undecided("run", has_seed=False) | find_undecided("table", has_seed=False)
    assert {place for places in undecided.values() for place in places} - names == set()
