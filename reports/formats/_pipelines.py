"""What continuous integration reads: JUnit and SARIF."""

import json
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar
from xml.etree import ElementTree

from audit.core.results import AuditReport
from audit.core.visible import visible
from reports.findings import RULES, Judgement, JudgementState, findings, rule_family

JUNIT_FILE = "junit.xml"


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
        return {JUNIT_FILE: f"<?xml version='1.0' encoding='utf-8'?>\n{body}\n".encode()}


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


SARIF_FILE = "results.sarif"
CONFIG = "config.resolved.yaml"
SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
GUIDELINES = "https://doi.org/10.6028/NIST.SP.800-226"
ONE_RUN = "https://arxiv.org/abs/2305.08846"
# where each rule is explained by those who stated it first; every other rule by the guidelines
HELP = {"AU001": ONE_RUN, "AU002": ONE_RUN, "AU003": ONE_RUN, "AU004": GUIDELINES, "AU005": ONE_RUN}


class Sarif:
    """Renders results.sarif."""

    def render(self, report: AuditReport) -> Mapping[str, bytes]:
        """The log under the name results.sarif: what fails as errors, claims out of reach as warnings, nothing that holds."""
        results = [finding for finding in findings(report) if _level(finding)]
        rules = sorted({finding.rule for finding in results})
        log = {
            "$schema": SCHEMA,
            "version": "2.1.0",
            "runs": [
                {
                    "tool": {
                        "driver": {
                            "name": "audit",
                            "version": report.provenance.version,
                            "rules": [_rule(rule) for rule in rules],
                        }
                    },
                    "automationDetails": {"id": report.id},
                    "results": [_result(report, finding, rules.index(finding.rule)) for finding in results],
                    "columnKind": "unicodeCodePoints",
                }
            ],
        }
        return {SARIF_FILE: (json.dumps(log, indent=1, ensure_ascii=False, sort_keys=True, allow_nan=False) + "\n").encode()}


def _level(finding: Judgement) -> str:
    """Return how grave a finding is to code scanning, "" if it is none."""
    if finding.state is JudgementState.FAILS:
        return "error"
    return "warning" if finding.state is JudgementState.OPEN and finding.rule in ("AU001", "AU002") else ""


def _rule(rule: str) -> dict[str, Any]:
    family = rule_family(rule)
    return {
        "id": rule,
        "shortDescription": {"text": RULES[family]},
        "help": {"text": f"Fails where this does not hold: {RULES[family]}. The rules are listed in docs/use/report.md."},
        "helpUri": HELP.get(family, GUIDELINES),
    }


def _result(report: AuditReport, finding: Judgement, rule: int) -> dict[str, Any]:
    file, number = location(report, finding)
    return {
        "ruleId": finding.rule,
        "ruleIndex": rule,
        "kind": "fail",
        "level": _level(finding),
        "message": {"text": f"{finding.subject}: {finding.message}" if finding.subject else finding.message},
        "locations": [
            {
                "physicalLocation": {"artifactLocation": {"uri": file}, "region": {"startLine": number}},
                "logicalLocations": [{"fullyQualifiedName": finding.subject or "report"}],
            }
        ],
        "partialFingerprints": {"judgement/v1": f"{finding.rule}|{finding.subject}|{finding.title}"},
        "properties": {name: value if math.isfinite(value) else "Infinity" for name, value in finding.figures},
    }


def location(report: AuditReport, finding: Judgement) -> tuple[str, int]:
    """The user's own file and the line in it; if the report knows none, the resolved configuration."""
    lines = dict(report.config_lines)
    files = Counter(source for _, source in report.origins if source.endswith((".yaml", ".yml")))
    if not lines or not files:
        return CONFIG, line(report, finding.subject)
    return files.most_common(1)[0][0], next((lines[path] for path in _paths(report, finding) if path in lines), 1)


def _paths(report: AuditReport, finding: Judgement) -> list[str]:
    """Paths of the configuration that a finding is about, the nearest first."""
    if finding.rule.startswith("PO/"):
        return [f"policy.{finding.title}", "policy"]
    if finding.rule == "AU004":
        return ["games"]
    subject = f".{finding.subject}."
    section_of = {value: path.rpartition(".")[0] for path, value in report.settings if path.endswith(".name")}
    own = sorted((name for name in section_of if f".{name}." in subject), key=lambda name: -subject.rfind(f".{name}."))
    return [path for name in own for path in (section_of[name], f"{section_of[name]}.name")]


def line(report: AuditReport, subject: str) -> int:
    """The first line of the configuration that names the subject's training, or 1."""
    for number, text in enumerate(report.config.splitlines(), start=1):
        key, _, name = text.lstrip("- ").partition(":")
        if key == "name" and name.strip() and f"{subject}.".startswith(f"{name.strip()}."):
            return number
    return 1
