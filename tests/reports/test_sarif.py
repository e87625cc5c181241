"""SARIF logs are valid against the schema of SARIF 2.1.0, whatever failed and whatever things are called."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from audit.core.claims import Outcome
from audit.core.results import AuditReport
from reports.formats._pipelines import Sarif
from tests.reports import sample

jsonschema = pytest.importorskip("jsonschema", reason="checking against a schema needs the extra 'dev'")
SCHEMA = Path(__file__).parent / "schemas" / "sarif-2.1.0.json"


@cache
def validator() -> Any:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    return jsonschema.validators.validator_for(schema)(schema, format_checker=jsonschema.FormatChecker())


def log(report: AuditReport) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(Sarif().render(report)["results.sarif"])
    return content


def problems(content: dict[str, Any]) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in validator().iter_errors(content)]


@pytest.mark.parametrize("kind", sample.ALL)
def test_the_log_of_every_kind_of_report_is_valid(kind: str) -> None:
    assert problems(log(sample.ALL[kind]())) == []


def test_hostile_names_and_an_infinite_claim_give_a_valid_log_at_the_users_own_line() -> None:
    report = sample.run(Outcome.VIOLATED)
    plain, dp = report.mechanisms
    name = 'a b/..\\ "<é>" \u202e 模型'
    infinite = replace(dp.claims[0], epsilon=float("inf"))
    hostile = replace(dp, name=name, claims=(infinite, *dp.claims[1:]))
    edited = replace(
        report,
        mechanisms=(plain, hostile),
        settings=(("mechanisms.1.name", name),),
        config_lines=(("mechanisms.1", 14),),
    )
    content = log(edited)
    assert problems(content) == []
    places = [result["locations"][0]["physicalLocation"] for result in content["runs"][0]["results"]]
    assert {place["artifactLocation"]["uri"] for place in places} == {"quickstart.yaml"}
    assert 14 in {place["region"]["startLine"] for place in places}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("version",), "2.0.0"),
        (("runs", 0, "tool", "driver", "rules", 0, "helpUri"), 5),
        (("runs", 0, "results", 0, "level"), "grave"),
        (("runs", 0, "results", 0, "locations", 0, "physicalLocation", "region", "startLine"), 0),
        (("runs", 0, "results", 0, "made_up"), 1),
    ],
)
def test_the_schema_refuses_what_sarif_does_not_know(path: tuple[str | int, ...], value: object) -> None:
    content = copy.deepcopy(log(sample.run(Outcome.VIOLATED)))
    place: Any = content
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    assert problems(content) != []
