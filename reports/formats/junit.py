"""junit.xml: one suite a training or attack, one case a judgement, for dashboards that read test results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar
from xml.etree import ElementTree

from audit.core.results import AuditReport
from audit.core.visible import visible
from reports.findings import Judgement, JudgementState, findings

FILE = "junit.xml"


class JUnit:
    """Renders junit.xml."""

    suffix: ClassVar[str] = ".xml"

    def render(self, report: AuditReport) -> Mapping[str, bytes]:
        """The test results under the name junit.xml: what fails is a failure, what was not tested is skipped."""
        suites: dict[str, list[Judgement]] = {}
        for finding in findings(report):
            suites.setdefault(finding.subject or "report", []).append(finding)
        root = ElementTree.Element(
            "testsuites", {"name": report.title, **_counts([case for s in suites.values() for case in s])}
        )
        for name, cases in suites.items():
            head = {"name": name, "timestamp": report.created, "time": "0"}
            suite = ElementTree.SubElement(root, "testsuite", head | _counts(cases))
            for finding in cases:
                _case(suite, name, finding)
        ElementTree.indent(root)
        body = visible(ElementTree.tostring(root, encoding="unicode"), keep="\n")
        return {FILE: f"<?xml version='1.0' encoding='utf-8'?>\n{body}\n".encode()}


def _counts(cases: list[Judgement]) -> dict[str, str]:
    failures = sum(case.state is JudgementState.FAILS for case in cases)
    open_count = sum(case.state is JudgementState.OPEN for case in cases)
    return {"tests": str(len(cases)), "failures": str(failures), "errors": "0", "skipped": str(open_count)}


def _case(suite: ElementTree.Element, classname: str, finding: Judgement) -> None:
    case = ElementTree.SubElement(suite, "testcase", classname=classname, name=f"{finding.rule} {finding.title}", time="0")
    if finding.state is JudgementState.FAILS:
        ElementTree.SubElement(case, "failure", type=finding.rule, message=finding.message)
    elif finding.state is JudgementState.OPEN:
        ElementTree.SubElement(case, "skipped", message=finding.message)
    ElementTree.SubElement(case, "system-out").text = finding.message


PLUGIN = JUnit
