"""results.sarif: the judgements as SARIF 2.1.0, each at the line of the resolved configuration that it speaks about."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from audit.core.results import AuditReport
from reports.findings import RULES, Finding, State, findings, rule_family

FILE = "results.sarif"
CONFIG = "config.resolved.yaml"
SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


class Sarif:
    """Renders results.sarif."""

    def render(self, report: AuditReport) -> Mapping[str, bytes]:
        """The log under the name results.sarif; what holds is a result of kind "pass"."""
        results = findings(report)
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
                            "rules": [{"id": rule, "shortDescription": {"text": RULES[rule_family(rule)]}} for rule in rules],
                        }
                    },
                    "automationDetails": {"id": report.id},
                    "results": [_result(report, finding, rules.index(finding.rule)) for finding in results],
                    "columnKind": "unicodeCodePoints",
                }
            ],
        }
        return {FILE: (json.dumps(log, indent=1, ensure_ascii=False, sort_keys=True, allow_nan=False) + "\n").encode()}


def _result(report: AuditReport, finding: Finding, rule: int) -> dict[str, Any]:
    kind, level = {State.HOLDS: ("pass", "none"), State.FAILS: ("fail", "error"), State.OPEN: ("open", "none")}[finding.state]
    if finding.state is State.OPEN and finding.rule in ("AU001", "AU002"):
        kind, level = "fail", "warning"
    return {
        "ruleId": finding.rule,
        "ruleIndex": rule,
        "kind": kind,
        "level": level,
        "message": {"text": f"{finding.subject}: {finding.message}" if finding.subject else finding.message},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": CONFIG},
                    "region": {"startLine": line(report, finding.subject)},
                },
                "logicalLocations": [{"fullyQualifiedName": finding.subject or "report"}],
            }
        ],
        "partialFingerprints": {"judgement/v1": f"{finding.rule}|{finding.subject}|{finding.title}"},
        "properties": {name: value if math.isfinite(value) else "Infinity" for name, value in finding.figures},
    }


def line(report: AuditReport, subject: str) -> int:
    """The first line of the configuration that names the subject's training, or 1."""
    name = subject.partition(".")[0]
    for number, text in enumerate(report.config.splitlines(), start=1):
        if name and text.lstrip("- ").removeprefix("name:").strip() == name and "name:" in text:
            return number
    return 1


PLUGIN = Sarif
