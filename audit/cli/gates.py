"""Gates on the command line: `--gate tpr@0.1%<=2%`, for audits that no config describes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from audit.core.errors import ConfigError

if TYPE_CHECKING:
    from audit.core.protocols import Gate
    from audit.core.results import AuditReport, MechanismResult

Gates = Annotated[
    list[str] | None,
    typer.Option(
        "--gate",
        metavar="FIGURE<=LIMIT",
        help="Policy gate: tpr@0.1%<=2% (rates 10, 1 and 0.1 %), auc<=0.6, proven_epsilon<=1 or claimed_epsilon<=8; may "
        "repeat. Exit code 1 if one is not met.",
    ),
]
RATES = (0.1, 0.01, 0.001)  # false positive rates at which attacks are measured

_FORM = re.compile(
    r"(?P<figure>auc|proven_epsilon|claimed_epsilon|tpr@(?P<rate>\d+(\.\d+)?)%)<=(?P<limit>\d+(\.\d+)?)(?P<unit>%?)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TprAt:
    """The true positive rate of any attack at a false positive rate, at most."""

    rate: float
    limit: float

    def found(self, results: Sequence[MechanismResult]) -> float | None:
        """Return the largest rate of an attack; None if none resolves that false positive rate."""
        from audit.experiment.gates._limits import largest, tprs

        return largest(tprs(results, self.rate))

    def met(self, figure: float | None) -> bool:
        """Return whether a release is allowed with that figure; a figure that is not there does not allow it."""
        return figure is not None and figure <= self.limit


def read(texts: Sequence[str] | None) -> dict[str, Gate]:
    """Return the gates by the names in reports; `ConfigError` if a text is none, or two are about one figure."""
    gates: dict[str, Gate] = {}
    for text in texts or ():
        name, gate = _gate(text)
        if name in gates:
            raise ConfigError(f"--gate {text}: {name} has a limit already; give each figure one gate")
        gates[name] = gate
    return gates


def _gate(text: str) -> tuple[str, Gate]:
    from audit import plugins

    match = _FORM.fullmatch(text.replace(" ", ""))
    if match is None:
        raise ConfigError(
            f"--gate {text}: expected FIGURE<=LIMIT, where FIGURE is tpr@RATE%, auc, proven_epsilon or claimed_epsilon; for "
            "example tpr@0.1%<=2%, auc<=0.6 or proven_epsilon<=1"
        )
    limit = float(match["limit"]) / (100 if match["unit"] else 1)
    if match["rate"] is None:
        name = f"max_{match['figure']}"
        gate: Gate = plugins.build(plugins.FOLDERS["gates"], {"kind": name, "limit": limit}, "--gate")
        return name, gate
    rate = next((candidate for candidate in RATES if abs(candidate - float(match["rate"]) / 100) < 1e-12), None)
    if rate is None or not 0 < limit < 1:
        raise ConfigError(f"--gate {text}: the rate has to be 10, 1 or 0.1 % and the limit a share such as 2% or 0.02")
    return f"tpr@{match['rate']}%", TprAt(rate=rate, limit=limit)


def gated(report: AuditReport, gates: Mapping[str, Gate]) -> AuditReport:
    """Return the report with what each gate found; without gates it stays as it is."""
    from audit.experiment.line import report as reporting

    return replace(report, policy=(*report.policy, *reporting.gates(report.mechanisms, gates))) if gates else report
