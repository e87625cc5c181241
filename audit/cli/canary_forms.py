"""The part of `audit plan` that tries forms of canaries and puts the best into the config."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.cli import own_code
from audit.cli.printing import print_plain, stdout_console
from audit.core.errors import ConfigError, OutputError
from audit.core.files import write_whole
from audit.core.rounding import down

if TYPE_CHECKING:
    from audit.config import Resolution


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearse:
    """What is asked: the game, forms as YAML (none: the usual ones), rehearsals of each, and a file for the config."""

    game: str
    forms: tuple[str, ...]
    rehearsals: int
    write: Path | None

    def choose(self, resolution: Resolution, *, silent: bool) -> tuple[Resolution, dict[str, Any]]:
        """Return the config with the best form and without a seed, and what was seen of all forms; a table unless `silent`.

        Raises:
            ConfigError: a form is no mapping, or none can be used.
            OutputError: the config cannot be written.
        """
        from audit.experiment.plan.canary_forms import settled, try_forms

        with own_code.prints_aside():
            rows, refusals = try_forms(resolution, self.game, [_form(text) for text in self.forms], self.rehearsals)
        chosen = settled(resolution, self.game, rows[0].canaries, rows[0].count, seed=None)
        if self.write is not None:
            try:
                write_whole(self.write, chosen.text.encode())
            except OSError as error:
                raise OutputError(f"cannot write '{self.write}': {error.strerror}; choose another place") from error
        if not silent:
            self._print(rows, refusals)
        return chosen, {"canary_forms": [asdict(row) for row in rows], "refused_forms": refusals}

    def _print(self, rows: list[Any], refusals: list[str]) -> None:
        from rich.table import Table

        from audit.config import yaml_text

        table = Table("canaries", "count", "proven, any mechanism", "standard error", "inside a family", "AUC")
        for row in rows:
            figures = (down(row.proven), f"{row.standard_error:.2f}", down(row.inside), f"{row.auc:.3f}")
            table.add_row(yaml_text.flow(row.canaries), str(row.count), *figures)
        stdout_console().print(table)
        if self.forms:
            print_plain(*(f"left out: {refusal}" for refusal in refusals))
        else:
            print_plain(f"left out: {len(refusals)} forms that do not fit this game; --json says why")
        place = "planned below" if self.write is None else f"in '{self.write}', whose run draws a seed, and planned below"
        print_plain(f"{self.game}: means of {self.rehearsals} rehearsals with coins of their own; the first form is {place}")


def _form(text: str) -> dict[str, Any]:
    from audit.config import yaml_text

    value, _ = yaml_text.read(text)
    form = {"kind": value} if isinstance(value, str) else value
    if not isinstance(form, dict) or "kind" not in form:
        raise ConfigError(
            f"--canaries '{text}': expected a kind, or a mapping such as '{{kind: clipbkd, norm: 2, count: 700}}'"
        )
    return form
