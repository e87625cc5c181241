"""What `audit report --edition external` does before anything is written: figures computed again, an attacker let at them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from audit.core.errors import ConfigError, DataError
from audit.core.seeds import SHORTEST_SEED, new_seed

if TYPE_CHECKING:
    from audit.core.results import AuditReport
    from audit.experiment.external.editions import Place, ScoredGame

SCORES, KEY = "scores.parquet", "private/record-key"
_COLUMNS = ("attack", "score", "member")


def external_edition(report: AuditReport, source: Path, title: str | None, earlier: Sequence[Path]) -> AuditReport:
    """Return the external edition of a report; one that is external already as it is.

    `ConfigError` if the seed can be guessed, or if an attacker with the earlier editions that are there recovers
    something; `DataError` if scores or the record key are missing or damaged.
    """
    from audit.cli.report_files import load
    from audit.experiment.external import editions
    from reports.editions.external import is_external

    if is_external(report):
        return report
    _refuse_seed(report)
    folder = source if source.is_dir() else source.parent
    edition, games, secret = make_edition(report, folder, title)
    earlier_editions = [load(path) for path in earlier if path.is_file()]
    rows = editions.leaks([edition, *earlier_editions], report, games, secret)
    problems = [leak.problem for leak in rows if leak.problem]
    if problems:
        raise ConfigError(
            f"no external edition was written, since this package's own attacker learns memberships from it "
            f"({'; '.join(problems)}). "
            "Draw coins anew from a secret seed, or audit more records"
        )
    return edition


def make_edition(report: AuditReport, folder: Path, title: str | None) -> tuple[AuditReport, dict[Place, ScoredGame], bytes]:
    """Return the edition that scores and secret of a run folder give, with those; `DataError` if they are damaged."""
    from audit.experiment.external import editions
    from audit.experiment.games import records
    from reports.editions.external import external

    games, key = _scored_games(report, folder / SCORES), folder / KEY
    if not key.is_file():
        raise DataError(
            f"'{key}' is missing: an external edition turns memberships over by a secret of the run; put the file back there"
        )
    secret = records.read_key(key)
    return external(editions.noisy_report(report, games, secret), title, editions.EPSILON), games, secret


def _refuse_seed(report: AuditReport) -> None:
    """Raise `ConfigError` if memberships follow from a seed that is public or short."""
    seed = report.provenance.seed
    if report.kind == "run" and seed is not None and seed < SHORTEST_SEED:
        raise ConfigError(
            f"memberships follow from the seed {seed} of the run, which can be guessed, so an external edition would give them "
            f"away. Run again with a secret seed in the config, such as this line: seed: {new_seed()}"
        )


def _scored_games(report: AuditReport, path: Path) -> dict[Place, ScoredGame]:
    """Return the scores and memberships of each game; `DataError` if the file is damaged or not of this report."""
    import numpy as np

    from audit.data.frames import read_table
    from audit.data.source import read_bytes
    from audit.experiment.external.editions import ScoredGame

    if not any(game.attacks for game in report.games):
        return {}  # its table of scores has no row, which is no damage
    purpose = "scores of the run, from which its external edition is computed"
    table = read_table(read_bytes(path, purpose), path)
    if not set(_COLUMNS) <= set(table.columns):
        raise DataError(f"'{path}' has the columns {', '.join(table.columns)}; expected {', '.join(_COLUMNS)} among them")
    if "game" not in table or "mechanism" not in table:
        (result,) = report.mechanisms
        (game,) = result.games
        table = table.assign(mechanism=result.name, game=game.name)
    games: dict[Place, ScoredGame] = {}
    for result in report.mechanisms:
        for game in result.games:
            rows = table[(table.mechanism == result.name) & (table.game == game.name)]
            parts = {str(name): part for name, part in rows.groupby("attack", sort=False)}
            members = [part.member.to_numpy(dtype=bool) for part in parts.values()]
            absent = [attack.scorer for attack in game.attacks if attack.scorer not in parts]
            if absent or any(not np.array_equal(side, members[0]) for side in members):
                raise DataError(f"'{path}' is not of this report: game '{game.name}' has other attacks or memberships there")
            if members:
                columns = {name: part.score.to_numpy(dtype=np.float64) for name, part in parts.items()}
                games[result.name, game.name] = ScoredGame(columns=columns, included=members[0])
    return games
