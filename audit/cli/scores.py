"""`audit scores`: lower bounds from a table of scores that any tool made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.cli import gates, options
from audit.cli.printing import AsJson
from audit.core.errors import ConfigError, DataError
from audit.core.results import USUAL_FORMATS

if TYPE_CHECKING:
    from audit.core.data import Array

SCORE_NAMES = ("score", "scores", "value", "values")
ID_NAMES = ("id", "record", "record_id")
MEMBER_NAMES = ("member", "members", "membership", "included", "is_member")
COIN_NAMES = ("coin", "coins", *MEMBER_NAMES)
DELTA = 1e-5
MOST_LISTED = 20
LARGEST = 1e300  # widths of scores, and pictures of them, are numbers below
_PARTS = ("mechanism", "game", "attack", "scorer")


def scores(
    file: options.File,
    delta: options.ScoresDelta = None,
    epsilon: options.Epsilon = None,
    claim_epsilon: options.ScoresClaimEpsilon = None,
    confidence: options.Confidence = 0.95,
    game: options.Game = "one_run",
    estimator: options.ScoresEstimator = None,
    score: options.Score = None,
    member: options.Member = None,
    coins: options.ScoreCoins = None,
    identifier: options.Identifier = None,
    adjacency: options.Adjacency = "add_remove",
    conditions: options.Conditions = None,
    seed: options.ScoresSeed = 0,
    certificates: options.Certificates = 200,
    output: options.ScoresOutput = None,
    gate: gates.Gates = None,
    as_json: AsJson = False,
) -> int:
    """Compute the lower bounds on epsilon that a table of scores proves, their ceilings, and the verdict on a claim."""
    from audit.cli import deliver, scores_delta
    from audit.core.adjacency import Adjacency
    from audit.experiment.external import inspection

    limits = gates.read(gate)
    if identifier is not None and coins is None:
        raise ConfigError("--id names the column that scores and coins are joined by; give --coins with it, or leave it out")
    table = ScoreTable(path=file, member=member, coins=coins, identifier=identifier)
    if epsilon is not None:
        if not (delta is None and output is None and claim_epsilon is None):
            raise ConfigError(
                "--epsilon asks for delta at that epsilon: leave out --delta, --claim-epsilon and --output; "
                "or give --delta alone"
            )
        question = scores_delta.DeltaQuestion(
            epsilon=epsilon, confidence=confidence, game=game, seed=seed, estimators=estimator
        )
        return scores_delta.answer(*read_scores(table, score, conditions or []), question, as_json)
    settings = inspection.Settings(
        delta=DELTA if delta is None else delta,
        confidence=confidence,
        seed=seed,
        claim_epsilon=claim_epsilon,
        adjacency=Adjacency.by_name(adjacency, "--adjacency"),
        estimators=tuple(estimator) if estimator else None,
        certificates=certificates,
        title=file.name,
        **deliver.origin("cpu"),
    )
    if output is not None:
        deliver.demand_new(output)
    columns, included = read_scores(table, score, conditions or [])
    score_columns = columns if len(columns) > 1 else {"scores": next(iter(columns.values()))}
    report = inspection.inspect_scores(score_columns, included, settings, game=game, name=file.name)
    return deliver.finish(gates.gated(report, limits), output, as_json, USUAL_FORMATS, deliver.scores(score_columns, included))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreTable:
    """Where scores and memberships are: in one table, or joined to `coins` by `identifier`; None for the usual columns."""

    path: Path
    member: str | None = None
    coins: Path | None = None
    identifier: str | None = None

    def columns(self, conditions: list[str]) -> Mapping[str, Any]:
        """Scores, and memberships of the same rows, by name; `DataError` if the tables are about other records."""
        scores = _rows(_columns(self.path), conditions, self.path)
        if self.coins is None:
            return scores
        from audit.data.record_ids import match_order

        table = _columns(self.coins)
        name = _column(table, self.member, COIN_NAMES, "coin", self.coins)
        usual = [column for column in (self.member, *MEMBER_NAMES) if column in scores]
        if usual:
            raise DataError(
                f"{self.path} has a membership of its own, '{usual[0]}', beside the coins of {self.coins}; leave out that "
                "column, or --coins"
            )
        score_ids = scores[_column(scores, self.identifier, ID_NAMES, "id", self.path)]
        order = match_order(score_ids, table[_column(table, self.identifier, ID_NAMES, "id", self.coins)])
        return {**{key: column[order] for key, column in scores.items()}, (self.member or MEMBER_NAMES[0]): table[name]}


def read_scores(table: ScoreTable, score: list[str] | None, conditions: list[str]) -> tuple[dict[str, Array], Array]:
    """Score columns `(n,)` float64 by name, and memberships `(n,)` bool.

    Raises:
        DataError: the file is missing or malformed, lacks a column, has two of one name, holds NaN or text, or one side only; a
            score is the membership itself; or its rows come from several attacks and `conditions` does not say which to take.
    """
    from audit.core import score_values
    from audit.data.source import memberships

    path, columns = table.path, table.columns(conditions)
    name = _column(columns, table.member, MEMBER_NAMES, "membership", path)
    included = memberships(columns[name], f"{path}: {name}")
    score_names = [
        _column(columns, score_option, SCORE_NAMES, "score", path)
        for score_option in (dict.fromkeys(score) if score else (None,))
    ]
    if name in score_names:
        raise DataError(f"{path}: '{name}' is the membership; a score has to be what an attack gives without seeing it")
    values = {}
    for score_name in score_names:
        values[score_name] = score_values.on_common_scale(
            [score_values.read(columns[score_name], f"{path}: scores '{score_name}'")]
        )
        _refuse_huge(values[score_name], f"{path}: scores '{score_name}'")
        if len(values[score_name]) != len(included):
            raise DataError(
                f"{path}: {len(values[score_name])} scores but {len(included)} memberships; expected as many of each"
            )
    return values, included


def _refuse_huge(values: Array, name: str) -> None:
    import numpy as np

    if np.any(np.abs(values[np.isfinite(values)]) > LARGEST):
        raise DataError(f"{name} reach beyond {LARGEST:g}; only their order counts: give ranks or logarithms")


def _columns(path: Path) -> Mapping[str, Any]:
    """The columns of an npz file or a table by name."""
    from audit.data.archives import read_npz
    from audit.data.exchange import take_metadata
    from audit.data.frames import read_table
    from audit.data.source import read_bytes

    content = read_bytes(path, "scores")
    if content[:2] == b"PK" or content.startswith(b"\x93NUMPY"):
        arrays = read_npz(content, path)
        take_metadata(arrays, path)  # is checked; the claim on a table of scores is given by --claim-epsilon
        return arrays
    frame = read_table(content, path)
    return {str(name): frame[name].to_numpy() for name in frame.columns}


def _column(columns: Mapping[str, Any], column_name: str | None, usual: tuple[str, ...], purpose: str, path: Path) -> str:
    names = [column_name] if column_name else [name for name in usual if name in columns]
    if len(names) == 1 and names[0] in columns:
        return names[0]
    problem = (
        f"no column '{column_name}'"
        if column_name
        else f"{len(names)} columns that could be the {purpose} ({', '.join(names)})"
        if names
        else f"no column that could be the {purpose}"
    )
    raise DataError(
        f"{path} has {problem}; it holds {_list_columns(columns)}. Expected one of {', '.join(usual)}, or name it with "
        f"--{purpose if purpose in ('score', 'id') else 'member'}"
    )


def _list_columns(columns: Mapping[str, Any]) -> str:
    remainder = len(columns) - MOST_LISTED
    return ", ".join(list(columns)[:MOST_LISTED]) + (f" and {remainder:,} more" if remainder > 0 else "")


def _rows(columns: Mapping[str, Any], conditions: list[str], path: Path) -> Mapping[str, Any]:
    """The rows that `conditions` picks; refuses to pool rows of several attacks, games or mechanisms."""
    import numpy as np

    for condition in conditions:
        name, equals, value = condition.partition("=")
        if not equals:
            raise ConfigError(f"--where is '{condition}'; expected COLUMN=VALUE")
        if name not in columns:
            raise DataError(f"{path} has no column '{name}' (--where); it holds {_list_columns(columns)}")
        rows = columns[name].astype(str) == value
        if not rows.any():
            values = ", ".join(sorted(set(columns[name].astype(str)))[:8])
            raise DataError(f"{path} has no row with {name} = {value}; there are {values}")
        columns = {key: column[rows] for key, column in columns.items()}
    for name in _PARTS:
        if name in columns:
            several = sorted(set(np.asarray(columns[name]).astype(str)))
            if len(several) > 1:
                examples = ", ".join(several[:8])
                raise DataError(
                    f"{path} holds scores of several {name}s ({examples}); pick one with --where {name}={several[0]}"
                )
    return columns
