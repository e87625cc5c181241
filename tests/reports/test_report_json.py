"""report.json: exact both ways, strict on reading, described by the published schema."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import report_schema

from audit.core.claims import Claim
from audit.core.errors import DataError, OutputError
from audit.core.results import AuditReport
from reports.formats import json as report_json
from tests.reports import sample

PUBLISHED = Path(__file__).resolve().parents[2] / "docs" / "use" / "report-schema.json"


@pytest.fixture(scope="module", params=sample.ALL)
def report(request: pytest.FixtureRequest) -> AuditReport:
    return sample.ALL[request.param]()


@pytest.mark.sampled(2)
def test_round_trip_is_exact(report: AuditReport) -> None:
    data = report_json.to_json(report)
    assert report_json.from_json(data) == report
    assert report_json.to_json(report_json.from_json(data)) == data


def test_bytes_are_canonical(report: AuditReport) -> None:
    data = report_json.to_json(report)
    assert data.endswith(b"}\n") and data.count(b"\n") == 1
    plain = json.loads(data)
    assert list(plain) == sorted(plain)
    assert b"NaN" not in data


def _with_claim(epsilon: float) -> AuditReport:
    result = sample.scores()
    only = result.mechanisms[0]
    claim: Claim = replace(only.claims[0], epsilon=epsilon)
    return replace(result, mechanisms=(replace(only, claims=(claim,)),))


def test_infinity_is_a_word_and_comes_back() -> None:
    data = report_json.to_json(_with_claim(math.inf))
    assert json.loads(data)["mechanisms"][0]["claims"][0]["epsilon"] == "Infinity"
    assert report_json.from_json(data).mechanisms[0].claims[0].epsilon == math.inf


def test_nan_is_refused_with_its_place() -> None:
    with pytest.raises(OutputError, match=r"mechanisms\[0\]\.claims\[0\]\.epsilon is NaN"):
        report_json.to_json(_with_claim(math.nan))


def test_an_integer_where_a_float_belongs_gives_the_same_bytes() -> None:
    assert report_json.to_json(_with_claim(2)) == report_json.to_json(_with_claim(2.0))


def _edited(edit: Any) -> bytes:
    plain = json.loads(report_json.to_json(sample.run()))
    edit(plain)
    return json.dumps(plain).encode()


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            lambda r: r.update(schema="audit-report/9.0"),
            r"schema 'audit-report/9\.0'.*'audit-report/1\.0' and 'audit-report/1\.1'",
        ),
        (lambda r: r.pop("schema"), r"schema None"),
        (lambda r: r.update(verdict="fine"), r"unknown field 'verdict'"),
        (lambda r: r["mechanisms"][1]["claims"][0].update(private=True), r"report\.mechanisms\[1\]\.claims\[0\].*'private'"),
        (lambda r: r.pop("delta"), r"lacks the field 'delta'"),
        (lambda r: r.update(delta="small"), r"report\.delta is 'small'; expected a float"),
        (lambda r: r.update(comparisons=1.5), r"report\.comparisons is 1\.5; expected a int"),
        (lambda r: r.update(comparisons=True), r"report\.comparisons is True"),
        (lambda r: r.update(outcome="safe"), r"report\.outcome is 'safe'; expected one of violated"),
        (lambda r: r.update(notes="none"), r"report\.notes is 'none'; expected an array"),
        (lambda r: r.update(data=[]), r"report\.data is \[\]; expected an object"),
        (lambda r: r["origins"][0].append("x"), r"report\.origins\[0\] has 3 entries; expected 2"),
        (
            lambda r: r["mechanisms"][1]["mechanism"].update(type="Laplace"),
            r"type 'Laplace'; expected one of DpSgd, NonPrivate, OtherEvent",
        ),
        (lambda r: r["mechanisms"][1]["mechanism"].update(sample_rate=2.0), r"sample_rate is 2\.0"),
    ],
)
def test_reading_is_strict(edit: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        report_json.from_json(_edited(edit))


@pytest.mark.parametrize("edit", [lambda r: r["mechanisms"][1].pop("mechanism"), lambda r: r["data"].update(pixels=3)])
def test_a_report_of_another_version_is_refused_with_who_wrote_it(edit: Any) -> None:
    """Fields that this version lacks, or that the other one lacked: the message says which version reads them."""
    wrote = sample.run().provenance
    with pytest.raises(DataError) as refused:
        report_json.from_json(_edited(edit))
    assert f"audit {wrote.version}, commit {wrote.code_commit or 'unknown'}, wrote it" in str(refused.value)
    assert "read it with that version, or run the audit again" in str(refused.value)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"schema": NaN}', b"\xff\xfe"])
def test_what_is_no_report_is_refused(data: bytes) -> None:
    with pytest.raises(DataError):
        report_json.from_json(data)


def test_fields_with_a_default_may_be_absent() -> None:
    def edit(plain: dict[str, Any]) -> None:
        for mechanism in plain["mechanisms"]:
            mechanism.pop("limit", None)

    expected = sample.run()
    without = tuple(replace(item, limit=None) for item in expected.mechanisms)
    assert report_json.from_json(_edited(edit)) == replace(expected, mechanisms=without)


def test_published_schema_is_current() -> None:
    assert PUBLISHED.read_text(encoding="utf-8") == report_schema.schema_text(), (
        "docs/use/report-schema.json is old; write it again: python benchmarks/report_schema.py docs/use/report-schema.json"
    )


def _conforms(value: Any, rule: dict[str, Any], root: dict[str, Any]) -> bool:  # noqa: PLR0911 (a case a word)
    """A reader of the few JSON Schema words that the published schema uses."""
    if "$ref" in rule:
        return _conforms(value, root["$defs"][rule["$ref"].removeprefix("#/$defs/")], root)
    if "anyOf" in rule:
        return any(_conforms(value, item, root) for item in rule["anyOf"])
    if "const" in rule:
        return bool(value == rule["const"])
    if "enum" in rule:
        return value in rule["enum"]
    if rule["type"] == "object":
        if "properties" not in rule:
            return all(_conforms(item, rule["additionalProperties"], root) for item in value.values())
        known = rule["properties"]
        return (
            isinstance(value, dict)
            and set(rule["required"]) <= set(value) <= set(known)
            and all(_conforms(item, known[name], root) for name, item in value.items())
        )
    if rule["type"] == "array":
        if not isinstance(value, list):
            return False
        rules = rule.get("prefixItems") or [rule["items"]] * len(value)
        return len(rules) == len(value) and all(_conforms(v, r, root) for v, r in zip(value, rules, strict=True))
    kinds: dict[str, Any] = {"null": type(None), "string": str, "integer": int, "number": (int, float), "boolean": bool}
    return isinstance(value, kinds[rule["type"]]) and (rule["type"] == "boolean" or not isinstance(value, bool))


def test_reports_conform_to_the_schema(report: AuditReport) -> None:
    rules = json.loads(report_schema.schema_text())
    plain = json.loads(report_json.to_json(report))
    assert _conforms(plain, rules, rules)
    assert not _conforms(plain | {"verdict": "fine"}, rules, rules)
    assert not _conforms(plain | {"delta": "small"}, rules, rules)
