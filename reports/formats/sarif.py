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
        found = findings(report)
        rules = sorted({one.rule for one in found})
        log = {
            "$schema": SCHEMA,
            "version": "2.1.0",
            "runs": [
                {
                    "tool": {
                        "driver": {
                            "name": "audit",
                            "version": report.provenance.version,
                            "rules": [{"id": one, "shortDescription": {"text": RULES[rule_family(one)]}} for one in rules],
                        }
                    },
                    "automationDetails": {"id": report.id},
                    "results": [_result(report, one, rules.index(one.rule)) for one in found],
                    "columnKind": "unicodeCodePoints",
                }
            ],
        }
        return {FILE: (json.dumps(log, indent=1, ensure_ascii=False, sort_keys=True, allow_nan=False) + "\n").encode()}


def _result(report: AuditReport, one: Finding, rule: int) -> dict[str, Any]:
    kind, level = {State.HOLDS: ("pass", "none"), State.FAILS: ("fail", "error"), State.OPEN: ("open", "none")}[one.state]
    if one.state is State.OPEN and one.rule in ("AU001", "AU002"):
        kind, level = "fail", "warning"
    return {
        "ruleId": one.rule,
        "ruleIndex": rule,
        "kind": kind,
        "level": level,
        "message": {"text": f"{one.subject}: {one.message}" if one.subject else one.message},
        "locations": [
            {
                "physicalLocation": {"artifactLocation": {"uri": CONFIG}, "region": {"startLine": line(report, one.subject)}},
                "logicalLocations": [{"fullyQualifiedName": one.subject or "report"}],
            }
        ],
        "partialFingerprints": {"judgement/v1": f"{one.rule}|{one.subject}|{one.title}"},
        "properties": {name: value if math.isfinite(value) else "Infinity" for name, value in one.figures},
    }


def line(report: AuditReport, subject: str) -> int:
    """The first line of the configuration that names the subject's training, or 1."""
    name = subject.partition(".")[0]
    for number, text in enumerate(report.config.splitlines(), start=1):
        if name and text.lstrip("- ").removeprefix("name:").strip() == name and "name:" in text:
            return number
    return 1


PLUGIN = Sarif
