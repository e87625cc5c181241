"""What a replay of a program found, for people, programs and code scanning; and the witness as a failing test."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from audit.core.errors import OutputError
from audit.core.files import make_folder
from audit.core.tables import frame, html
from audit.core.version import __version__
from audit.replays import witness
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

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a}"
    "table{border-collapse:collapse}th,td{text-align:left;vertical-align:top;padding:.3rem .8rem;border-bottom:1px solid #bbb}"
    "td{overflow-wrap:anywhere}pre{background:#f3f3f3;padding:1rem;white-space:pre-wrap;overflow-wrap:anywhere}"
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReplayReport:
    """The claim of a program and what replays on pairs of neighbours say of it.

    Attributes:
        name: `module:function`, if it can be imported.
        claim: that it was compared with.
        adjacency: of the pairs.
        results: one per pair, up to the first refutation.
        seconds: wall time.
        place: `file:line` at which the program is defined, if it has code.
        folder: from which the program is imported by its name, if it can be.
    """

    name: str
    claim: ReplayClaim
    adjacency: str
    results: tuple[PairResult, ...]
    seconds: float
    place: str = ""
    folder: str | None = None

    @property
    def worst(self) -> PairResult:
        """The pair that decides: of the worst verdict the one of the largest loss."""
        return min(self.results, key=self.gravity)

    @staticmethod
    def gravity(result: PairResult) -> tuple[int, float]:
        """Return a key that sorts pairs from the worst on."""
        return _WORST_FIRST.index(result.verdict), -result.loss

    @property
    def line(self) -> str:
        """`file:line` of what was seen, or else of the program."""
        return witness.line(self.worst.reason, self.place)

    @property
    def sentence(self) -> str:
        """The program and its verdict."""
        return f"{self.name}: {_SENTENCES[self.verdict]}"

    @property
    def verdict(self) -> ReplayVerdict:
        """The verdict of the worst pair."""
        return self.worst.verdict

    @property
    def exit_code(self) -> int:
        """0 proved for all pairs, 1 refuted, 3 not decided."""
        return _CODES.get(self.verdict, 3)

    @property
    def not_visited(self) -> float:
        """At most the probability of combinations of outcomes, of decisions by noise, that no run had, on the worst pair."""
        return max(result.not_visited for result in self.results)

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
                "not_visited": result.not_visited,
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
            "says": _SENTENCES[self.verdict],
            "claim": {
                "epsilon": self.claim.epsilon,
                "delta": self.claim.delta,
                "mu": self.claim.mu,
                "adjacency": self.adjacency,
            },
            "loss": _plain(self.worst.loss),
            "reason": self.worst.reason,
            "not_visited": self.not_visited,
            "line": self.line,
            "pairs": [{key: _plain(value) for key, value in row.items()} for row in self.to_rows()],
            "seconds": self.seconds,
        }

    def __str__(self) -> str:
        worst = self.worst
        kind = "mu" if self.claim.mu is not None else "epsilon"
        lines = [
            self.sentence,
            f"  claimed  {self.claim}, {self.adjacency}",
            f"  loss     {kind} {worst.loss:.6g}{'' if worst.exact else ' at most'}, on the worst of {len(self.results)} pairs",
            f"  pair     {worst.name}: {_short(worst.data)} and {_short(worst.neighbour)}",
        ]
        if worst.reason:
            lines.append(f"  reason   {worst.reason}")
        if self.exit_code and self.line not in worst.reason:
            lines.append(f"  program  at {self.line}")
        if not self.exit_code and self.not_visited > self.claim.delta:
            chance = f"probability at most {self.not_visited:.3g}"
            lines.append(f"  paths    combinations of outcomes that no run had: {chance}")
        if worst.method:
            lines.append(f"  decided  by {worst.method}")
        if self.exit_code == 3:
            lines.append(
                "  next     audit mechanism samples the program; audit.release declares a mechanism that cannot be followed"
            )
        return "\n".join(lines)

    def to_html(self) -> str:
        """Return a page: verdict, claim, loss, line, all pairs from the worst on, and the test that fails."""
        facts = [
            (label, text.strip()) for label, _, text in (line.strip().partition(" ") for line in str(self).splitlines()[1:])
        ]
        table = replace(self, results=tuple(sorted(self.results, key=self.gravity))).to_rows()
        names = [name for name in table[0] if any(row[name] != "" for row in table)]
        rows = [[f"{row[name]:.6g}" if isinstance(row[name], float) else str(row[name]) for name in names] for row in table]
        parts = [
            f"<!doctype html><html lang='en'><meta charset='utf-8'><style>{_STYLE}</style>",
            f"<title>{escape(self.sentence)}</title>",
            f"<h1>{escape(self.sentence)}</h1>{html(['', ''], facts)}<h2>Pairs</h2>{html(names, rows)}",
        ]
        if self.exit_code:
            parts.append(f"<h2>A test that fails</h2><pre>{escape(self.witness_test())}</pre>")
        return "\n".join([*parts, f"<p>audit replay {escape(__version__)}, {self.seconds:.1f} s</p></html>", ""])

    def to_sarif(self) -> dict[str, Any]:
        """Return a SARIF 2.1.0 log: a refutation as an error, an open question as a warning, at the line of the program."""
        file, _, line = self.line.rpartition(":")
        result: dict[str, Any] = {
            "ruleId": "replay",
            "level": "error" if self.exit_code == 1 else "warning",
            "message": {"text": f"{self.sentence}. {self.worst.reason}"},
        }
        if line:
            path, folder = Path(file).absolute(), Path.cwd()  # code scanning finds files by paths from the repository's folder
            uri = quote(path.relative_to(folder).as_posix()) if path.is_relative_to(folder) else path.as_uri()
            place = {"artifactLocation": {"uri": uri}, "region": {"startLine": int(line)}}
            result["locations"] = [{"physicalLocation": place}]
        driver = {"name": "audit replay", "version": __version__, "rules": [{"id": "replay"}]}
        return {"version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": [] if self.exit_code == 0 else [result]}]}

    def witness_test(self) -> str:
        """Return a test that fails as long as the worst pair does."""
        terms = ("mu",) if self.claim.mu is not None else ("epsilon", "delta")
        claim = ", ".join(f"{name}={getattr(self.claim, name)!r}" for name in terms)
        return witness.failing_test(self.worst, self.name, self.place, self.folder, f"{claim}, adjacency={self.adjacency!r}")

    def save(self, folder: str | Path) -> Path:
        """Write replay.html, .json, .sarif and, unless all is proved, test_witness.py to a folder, and return it.

        Raises:
            OutputError: the folder or a file cannot be written.
        """
        path = make_folder(folder)
        texts = {
            "replay.json": json.dumps(self.to_dict(), indent=1) + "\n",
            "replay.sarif": json.dumps(self.to_sarif(), indent=1) + "\n",
            "replay.html": self.to_html(),
        }
        texts |= {"test_witness.py": self.witness_test()} if self.exit_code else {}
        for name, text in texts.items():
            try:
                (path / name).write_text(text, encoding="utf-8")
            except OSError as error:
                raise OutputError(f"cannot write '{path / name}': {error.strerror}; choose another folder") from error
        return path


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _short(data: Any, limit: int = 60) -> str:
    text = " ".join(repr(data).split())
    return text if len(text) <= limit else text[: limit - 3] + "..."
