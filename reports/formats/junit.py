"""junit.xml: one suite a training or attack, one case a judgement, for dashboards that read test results."""

from __future__ import annotations

from collections.abc import Mapping
from xml.etree import ElementTree

from audit.core.results import AuditReport
from reports.findings import Finding, State, findings

FILE = "junit.xml"


class JUnit:
    """Renders junit.xml."""

    def render(self, report: AuditReport) -> Mapping[str, bytes]:
        """The test results under the name junit.xml: what fails is a failure, what was not tested is skipped."""
        suites: dict[str, list[Finding]] = {}
        for one in findings(report):
            suites.setdefault(one.subject or "report", []).append(one)
        root = ElementTree.Element("testsuites", {"name": report.title, **_counts([one for s in suites.values() for one in s])})
        for name, cases in suites.items():
            head = {"name": name, "timestamp": report.created, "time": "0"}
            suite = ElementTree.SubElement(root, "testsuite", head | _counts(cases))
            for one in cases:
                _case(suite, name, one)
        ElementTree.indent(root)
        body: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
        return {FILE: body + b"\n"}


def _counts(cases: list[Finding]) -> dict[str, str]:
    failures = sum(one.state is State.FAILS for one in cases)
    skipped = sum(one.state is State.OPEN for one in cases)
    return {"tests": str(len(cases)), "failures": str(failures), "errors": "0", "skipped": str(skipped)}


def _case(suite: ElementTree.Element, classname: str, one: Finding) -> None:
    case = ElementTree.SubElement(suite, "testcase", classname=classname, name=f"{one.rule} {one.title}", time="0")
    if one.state is State.FAILS:
        ElementTree.SubElement(case, "failure", type=one.rule, message=one.message)
    elif one.state is State.OPEN:
        ElementTree.SubElement(case, "skipped", message=one.message)
    ElementTree.SubElement(case, "system-out").text = one.message


PLUGIN = JUnit
