"""JUnit and SARIF: every judgement is in both, under one stable id."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from audit.core.claims import Outcome
from audit.core.lower_bounds import read_epsilon
from audit.core.results import AuditReport
from reports import render
from reports.findings import RULES, JudgementState, findings, rule_family
from reports.formats._pipelines import line
from tests.reports import sample


def _junit(report: AuditReport) -> ElementTree.Element:
    return ElementTree.fromstring(render(report, ("junit",))["junit.xml"])


def _sarif(report: AuditReport) -> list[dict[str, object]]:
    results: list[dict[str, object]] = json.loads(render(report, ("sarif",))["results.sarif"])["runs"][0]["results"]
    return results


@pytest.mark.parametrize("kind", sample.ALL)
def test_every_judgement_is_in_both_formats(kind: str) -> None:
    report = sample.ALL[kind]()
    result = findings(report)
    assert result
    root = _junit(report)
    names = [(case.get("classname"), case.get("name")) for case in root.iter("testcase")]
    assert sorted(names, key=str) == sorted(((f.subject or "report", f"{f.rule} {f.title}") for f in result), key=str)
    failing = [
        item
        for item in result
        if item.state is JudgementState.FAILS or (item.state is JudgementState.OPEN and item.rule in ("AU001", "AU002"))
    ]
    assert [item["ruleId"] for item in _sarif(report)] == [item.rule for item in failing]
    assert all(rule_family(item.rule) in RULES for item in result)


@pytest.mark.parametrize("kind", sample.ALL)
def test_counts_add_up(kind: str) -> None:
    root = _junit(sample.ALL[kind]())
    for node in [root, *root.iter("testsuite")]:
        assert int(node.get("tests", -1)) == len(list(node.iter("testcase")))
        assert int(node.get("failures", -1)) == len(list(node.iter("failure")))
        assert int(node.get("skipped", -1)) == len(list(node.iter("skipped")))


@pytest.mark.parametrize(
    ("outcome", "state", "level"),
    [
        (Outcome.CONSISTENT, JudgementState.HOLDS, None),
        (Outcome.VIOLATED, JudgementState.FAILS, "error"),
        (Outcome.INVALID, JudgementState.FAILS, "error"),
        (Outcome.OUT_OF_REACH, JudgementState.OPEN, "warning"),
    ],
)
def test_each_outcome_has_its_state_and_level(outcome: Outcome, state: JudgementState, level: str | None) -> None:
    report = sample.run(outcome)
    judged = [item for item in findings(report) if item.rule == "AU001"]
    assert len(judged) == 3 and {item.state for item in judged} == {state}
    assert {item["level"] for item in _sarif(report) if item["ruleId"] == "AU001"} == ({level} - {None})


def test_an_epsilon_inside_a_family_is_never_called_proven_without_it() -> None:
    report = sample.run(Outcome.VIOLATED)
    (judged,) = report.mechanisms[-1:] if report.mechanisms[-1].verdicts else report.mechanisms[:1]
    inside = next(bound for game in judged.games for bound in game.bounds if bound.family is not None)
    verdict = replace(judged.verdicts[0], bound=inside, claim=replace(judged.verdicts[0].claim, family=inside.family))
    changed = replace(report, mechanisms=(replace(judged, verdicts=(verdict,)),))
    free = max(read_epsilon(bound) for game in judged.games for bound in game.bounds if bound.family is None)
    (result,) = (item for item in findings(changed) if item.rule == "AU001")
    assert f"inside the family {inside.family} only" in result.message
    figures = dict(result.figures)
    assert figures["proven_epsilon"] == free and figures[f"epsilon_inside_{inside.family}"] == read_epsilon(inside)
    assert f"inside the family {inside.family} only" in render(changed, ("junit",))["junit.xml"].decode()
    assert f"inside the family {inside.family} only" in render(changed, ("sarif",))["results.sarif"].decode()


def test_a_failed_control_fails() -> None:
    failed = [
        item for item in findings(sample.run(Outcome.INVALID)) if item.rule == "AU003" and item.state is JudgementState.FAILS
    ]
    assert [item.subject for item in failed] == ["dp_sgd.black_box.lira"]
    assert "41 false alarms" in failed[0].message


def test_a_location_is_the_line_that_names_the_training() -> None:
    report = sample.run()
    text = report.config.splitlines()
    assert text[line(report, "dp_sgd.black_box.lira") - 1] == "- name: dp_sgd"
    assert line(report, "") == 1
    assert line(sample.model(), "classifier.pt2") == 1


def test_a_failure_points_at_the_line_of_the_users_own_file() -> None:
    report = replace(
        sample.run(Outcome.VIOLATED),
        settings=(("mechanisms.0.name", "non_private"), ("mechanisms.1.name", "dp_sgd"), ("games.1.name", "white_box")),
        config_lines=(("policy", 30), ("mechanisms.1", 14), ("games.1", 22)),
    )
    log = json.loads(render(report, ("sarif",))["results.sarif"])["runs"][0]
    places = {
        result["ruleId"]: result["locations"][0]["physicalLocation"] for result in log["results"] if result["kind"] == "fail"
    }
    assert {place["artifactLocation"]["uri"] for place in places.values()} == {"quickstart.yaml"}
    assert places["AU001"]["region"]["startLine"] == 14 and places["AU005"]["region"]["startLine"] == 22
    assert places["PO/tpr-at-0-1-fpr"]["region"]["startLine"] == 30
    assert all(rule["helpUri"].startswith("https://") and rule["help"]["text"] for rule in log["tool"]["driver"]["rules"])


def test_names_cannot_break_the_xml() -> None:
    from dataclasses import replace

    report = sample.scores()
    hostile = replace(report.mechanisms[0], name='a<b>&"c')
    root = _junit(replace(report, mechanisms=(hostile,)))
    assert 'a<b>&"c' in {suite.get("name") for suite in root.iter("testsuite")}
