"""registry.yaml: the claim as a record for the OpenDP registry of deployments, and label.md for the card of a model.

What the report does not know is as "to be filled in": the record is a draft for the owner, never an approval.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from audit.core.claims import Claim
from audit.core.event_reading import noisy_steps
from audit.core.results import AuditReport, MechanismResult, Status
from reports import headline
from reports.words import named

FILE = "registry.yaml"
OPEN = "to be filled in by the owner"


class Registry:
    """Renders registry.yaml."""

    def render(self, report: AuditReport) -> Mapping[str, bytes]:
        """The record under the name registry.yaml, in the form that the registry's schema of July 2026 asks for."""
        return {FILE: ("".join(f"{line}\n" for line in _yaml(record(report)))).encode()}


def record(report: AuditReport) -> dict[str, Any]:
    """The record: tier 2 if something is claimed, else tier 1."""
    claims = [
        (mechanism, claim) for mechanism in headline.by_gravity(report) if (claim := headline.tightest(mechanism)) is not None
    ]
    deployment: dict[str, Any] = {"basic": _basic(report)}
    if claims:
        deployment |= _claim_properties(*claims[0])
    deployment["administrative"] = {
        "registry_authors": [(report.engagement.auditor if report.engagement else "") or OPEN],
        "notes": f"Drafted from audit report {report.id}. An audit can contradict a claim; it cannot prove one.",
    }
    slug = re.sub(r"[^a-z0-9]+", "_", report.title.lower()).strip("_") or "model"
    return {"url_slug": slug, "status": "Draft", "tier": 2 if claims else 1, "deployment": deployment}


def _basic(report: AuditReport) -> dict[str, Any]:
    engagement = report.engagement
    return {
        "name": (engagement.system if engagement else "") or report.title,
        "data_curators": [(engagement.owner if engagement else "") or OPEN],
        "description": f"{report.model}. Data: {report.data.name if report.data else OPEN}.",
        "intended_use": (engagement.purpose if engagement else "") or OPEN,
        "data_product_type": "Machine learning model",
        "data_product_region": OPEN,
        "publication_date": report.created[:10],
    }


def _claim_properties(subject: MechanismResult, claim: Claim) -> dict[str, Any]:
    noisy = None if subject.mechanism is None else noisy_steps(subject.mechanism)
    gaps = [check.value for check in subject.checks if check.status is Status.GAP and check.code.startswith("unaccounted")]
    sections: dict[str, Any] = {
        "dp_variant": {"variant_name": "Pure DP" if claim.delta == 0 else "Approximate DP"},
        "privacy_loss": {
            "privacy_unit": claim.unit,
            "privacy_unit_details": named.adjacency(claim.adjacency),
            "privacy_parameters": {"epsilon": claim.epsilon, "delta": claim.delta},
        },
        "deployment_model": {"model_name": "Central", "access_type": "Non-interactive"},
        "accounting": {"composition": f"{claim.source}; {claim.note}" if claim.note else claim.source},
    }
    if noisy is not None:
        sections["implementation"] = {
            "mechanisms": f"DP-SGD, noise multiplier {noisy.noise_multiplier:.6g}, clip norm {noisy.clip_norm:.6g}, sample "
            f"rate {noisy.sample_rate:.6g}, {noisy.steps} steps",
            "preprocessing_and_hyperparameter_tuning": "; ".join(gaps) or OPEN,
        }
    return sections


def _yaml(value: Any, depth: int = 0) -> list[str]:
    """Lines of block YAML; every text is quoted as JSON, which YAML reads as the same text."""
    pad = "  " * depth
    lines: list[str] = []
    for key, inner in value.items():
        if isinstance(inner, dict):
            lines += [f"{pad}{key}:", *_yaml(inner, depth + 1)]
        elif isinstance(inner, list):
            lines += [f"{pad}{key}:", *(f"{pad}  - {json.dumps(item, ensure_ascii=False)}" for item in inner)]
        else:
            lines.append(f"{pad}{key}: {json.dumps(inner, ensure_ascii=False)}")
    return lines


PLUGIN = Registry
