"""What a replay of a program found, for people, programs and code scanning; and the witness as a failing test."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from audit.core.tables import frame
from audit.core.version import __version__
from audit.replays.check import PairResult, ReplayVerdict
from audit.replays.claims import ReplayClaim

if TYPE_CHECKING:
    import pandas as pd

_WORST_FIRST = (ReplayVerdict.REFUTED, ReplayVerdict.NOT_FOLLOWED, ReplayVerdict.BOUND, ReplayVerdict.PROVED)
_CODES = {ReplayVerdict.PROVED: 0, ReplayVerdict.REFUTED: 1}
_SENTENCES = {
    ReplayVerdict.PROVED: "proved for these pairs and these paths",
    ReplayVerdict.REFUTED: "refuted",
    ReplayVerdict.BOUND: "not decided: only an upper bound is known, and it is above the claim",
    ReplayVerdict.NOT_FOLLOWED: "not followed: some randomness has no known law",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReplayReport:
    """The claim of a program and what replays on pairs of neighbours say of it.

    Attributes:
        name: `module:function`.
        claim: that it was compared with.
        adjacency: of the pairs.
        results: one per pair, up to the first refutation.
        seconds: wall time.
    """

    name: str
    claim: ReplayClaim
    adjacency: str
    results: tuple[PairResult, ...]
    seconds: float

    @property
    def worst(self) -> PairResult:
        """The pair that decides: of the worst verdict the one of the largest loss."""
        return min(self.results, key=lambda result: (_WORST_FIRST.index(result.verdict), -result.loss))

    @property
    def verdict(self) -> ReplayVerdict:
        """The verdict of the worst pair."""
        return self.worst.verdict

    @property
    def exit_code(self) -> int:
        """0 proved for all pairs, 1 refuted, 3 not decided."""
        return _CODES.get(self.verdict, 3)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one row per pair, of plain values."""
        return [
            {
                "pair": result.name,
                "verdict": result.verdict.value,
                "loss": result.loss,
                "exact": result.exact,
                "releases": result.releases,
                "reason": result.reason,
                "method": result.method,
            }
            for result in self.results
        ]

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per pair."""
        return frame(self.to_rows())

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON; numbers that are not finite are texts."""
        return {
            "exit_code": self.exit_code,
            "program": self.name,
            "verdict": self.verdict.value,
            "claim": {
                "epsilon": self.claim.epsilon,
                "delta": self.claim.delta,
                "mu": self.claim.mu,
                "adjacency": self.adjacency,
            },
            "loss": _plain(self.worst.loss),
            "reason": self.worst.reason,
            "pairs": [{key: _plain(value) for key, value in row.items()} for row in self.to_rows()],
            "seconds": self.seconds,
        }

    def __str__(self) -> str:
        worst = self.worst
        kind = "mu" if self.claim.mu is not None else "epsilon"
        lines = [
            f"{self.name}: {_SENTENCES[self.verdict]}",
            f"  claimed  {self.claim}, {self.adjacency}",
            f"  loss     {kind} {worst.loss:.6g}{'' if worst.exact else ' at most'}, on the worst of {len(self.results)} pairs",
            f"  pair     {worst.name}: {_short(worst.data)} and {_short(worst.neighbour)}",
        ]
        if worst.reason:
            lines.append(f"  reason   {worst.reason}")
        if worst.method:
            lines.append(f"  decided  by {worst.method}")
        if self.exit_code == 3:
            lines.append(
                "  next     audit mechanism samples the program; audit.release declares a mechanism that cannot be followed"
            )
        return "\n".join(lines)

    def witness_test(self) -> str:
        """Return a test that fails as long as the worst pair does."""
        worst, (module, _, function) = self.worst, self.name.partition(":")
        claim = (
            f"mu={self.claim.mu!r}"
            if self.claim.mu is not None
            else f"epsilon={self.claim.epsilon!r}, delta={self.claim.delta!r}"
        )
        return "\n".join(
            [
                f'"""{worst.name}: {worst.reason}"""',
                "",
                "from numpy import array, inf, nan  # noqa: F401",
                "",
                "import audit",
                f"from {module} import {function}",
                "",
                f"DATA = {_literal(worst.data)}",
                f"NEIGHBOUR = {_literal(worst.neighbour)}",
                "",
                "",
                f"def test_{function}_keeps_its_claim() -> None:",
                f"    report = audit.replay({function}, [(DATA, NEIGHBOUR)], {claim})",
                "    assert report.exit_code == 0, str(report)",
                "",
            ]
        )

    def to_sarif(self) -> dict[str, Any]:
        """Return a SARIF 2.1.0 log: a refutation as an error, an open question as a warning, at the line of the program."""
        place = next((word for word in self.worst.reason.split() if ".py:" in word), "")
        file, _, line = place.rstrip(":,)").lstrip("(").rpartition(":")
        result: dict[str, Any] = {
            "ruleId": "replay",
            "level": "error" if self.exit_code == 1 else "warning",
            "message": {"text": f"{self.name}: {_SENTENCES[self.verdict]}. {self.worst.reason}"},
        }
        if line.isdigit():
            region = {"startLine": int(line)}
            result["locations"] = [{"physicalLocation": {"artifactLocation": {"uri": file}, "region": region}}]
        driver = {"name": "audit replay", "version": __version__, "rules": [{"id": "replay"}]}
        return {"version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": [] if self.exit_code == 0 else [result]}]}

    def save(self, folder: str | Path) -> Path:
        """Write replay.json, replay.sarif and, unless all is proved, test_witness.py to a folder, and return it."""
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        (path / "replay.json").write_text(json.dumps(self.to_dict(), indent=1) + "\n", encoding="utf-8")
        (path / "replay.sarif").write_text(json.dumps(self.to_sarif(), indent=1) + "\n", encoding="utf-8")
        if self.exit_code:
            (path / "test_witness.py").write_text(self.witness_test(), encoding="utf-8")
        return path


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _short(data: Any, limit: int = 60) -> str:
    text = " ".join(repr(data).split())
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _literal(data: Any) -> str:
    """Return Python code of a data set."""
    if isinstance(data, np.ndarray):
        return f"array({data.tolist()!r}, dtype={data.dtype.str!r})"
    if hasattr(data, "to_dict") and hasattr(data, "iloc"):
        columns = data.to_dict("list") if hasattr(data, "columns") else data.tolist()
        return f"__import__('pandas').{type(data).__name__}({columns!r})"
    if isinstance(data, dict):
        return "{" + ", ".join(f"{key!r}: {_literal(part)}" for key, part in data.items()) + "}"
    if isinstance(data, list | tuple):
        inside = ", ".join(_literal(part) for part in data)
        return f"[{inside}]" if isinstance(data, list) else f"({inside}{',' if len(data) == 1 else ''})"
    return repr(data.item() if isinstance(data, np.generic) else data)
