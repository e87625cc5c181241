"""A finished run as it is written again: its report, config and scores, and what its other files and its tables say of it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from attacks.tables import neighbours
from audit.config import Config, read, yaml_text
from audit.core.data import Array
from audit.core.errors import ConfigError, DataError
from audit.core.game_results import GameResult
from audit.core.results import AuditReport, MechanismResult
from audit.core.seeds import Seed
from audit.core.table_risks import TableAudit
from audit.execution import recompute
from audit.execution.run_folder import PRIVATE, SEED
from audit.execution.store import Store
from audit.stats.bounds import binomial, excess_success

Difference = tuple[str, Any, Any]  # place, what is written, what follows
Place = tuple[str, str, str]  # training, game and attack
_TEXT, _WHOLE = "(large_)?string", r"u?int\d+"
COLUMNS = dict.fromkeys(("mechanism", "game", "attack", "record"), _TEXT)  # of scores.parquet, with their types
COLUMNS |= {"label": f"{_TEXT}|{_WHOLE}|null", "run": _WHOLE, "canary": _WHOLE, "member": "bool"}
COLUMNS |= {"score": f"float|double|{_WHOLE}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSource:
    """A report with its config and, by training, game and attack, scores and memberships `(n,)` each.

    `unread` is filled while sections are written again: what is not, with the reason.
    """

    folder: Path
    report: AuditReport
    config: Mapping[str, Any]
    tables: Mapping[Place, tuple[Array, Array]]
    unread: list[str] = field(default_factory=list)

    @property
    def seed(self) -> int | None:
        """Return the seed of all draws; None if the folder does not hold it."""
        path = self.folder / SEED
        own_seed = int(path.read_text(encoding="utf-8")) if path.is_file() else None
        return self.report.provenance.seed if own_seed is None else own_seed

    def game_seed(self, training: str, game: str) -> Seed:
        seed = Seed(self.seed or 0)
        return seed.child(f"recipe:{training}").child(f"game:{game}") if self.report.kind == "run" else seed


def section(config: Mapping[str, Any], key: str, name: str) -> Mapping[str, Any]:
    """Return the row of that name in a list of a config; empty if there is none."""
    rows = (row for row in config.get(key) or () if isinstance(row, Mapping))
    return next((row for row in rows if row.get("name") == name), {})


def read_source(folder: Path, report: AuditReport) -> RunSource:
    """Return a report with what is beside it, or `DataError` if the scores are not as `audit` writes them."""
    config, path = yaml_text.read(report.config)[0] or {}, folder / "scores.parquet"
    if path.is_file():
        _refuse_form(path)
    columns = recompute.read_scores(folder, report, recompute.NumberCheck())
    tables = {key: (column["scores"], column["member"]) for key, column in columns.items()}
    return RunSource(folder=folder, report=report, config=config, tables=tables)


def _refuse_form(path: Path) -> None:
    from pyarrow import parquet

    schema, facts = parquet.read_schema(path), parquet.read_metadata(path).metadata or {}
    if further := set(facts) - {b"pandas", b"ARROW:schema"}:
        raise DataError(f"scores.parquet: holds {sorted(further)} beside its columns, which `audit` never writes")
    index = json.loads(facts.get(b"pandas", b"{}")).get("index_columns", ())
    if any(isinstance(row, str) or (row["start"], row["step"]) != (0, 1) for row in index):
        raise DataError("scores.parquet: has an index of its own, which `audit` never writes")
    for column in schema:
        if not re.fullmatch(COLUMNS.get(column.name, ""), str(column.type)):
            raise DataError(f"scores.parquet: column '{column.name}' is not as `audit` writes it")


LOG_START = r"\S+ \S+ INFO epsilon-audit (\S+), config .*, sha256 (\w+)(?:, started (\S+))?"
_NAMED_CODE = re.compile(r"[A-Za-z_]\w*(\.\w+)*:[A-Za-z_][\w.]*")
_SCORED = "records references order columns"
_FACTS = {
    "scores": f"scores {_SCORED} game commitment canaries_sha256 decoys place form",
    "model": "model audited sha256 records references trained_by",
    "training": f"trained canaries runs {_SCORED}",
    "table": "synthetic training control sha256 attacks predicate_columns neighbours splits secrets first second categorical",
}
_SETTINGS = "delta confidence seed claim_epsilon claim_unit adjacency randomised_seed overlap proven_by scorers estimators"


def differences(source: RunSource) -> Iterator[Difference]:
    """Yield config, machine, version and time of the report beside other files, and memberships beside the coins drawn."""
    folder, report, provenance = source.folder, source.report, source.report.provenance
    if (path := folder / "config.resolved.yaml").is_file():
        yield "config", path.read_text(encoding="utf-8"), report.config
    if (path := folder / "environment.json").is_file():
        machine = json.loads(path.read_text(encoding="utf-8"))
        for name in ("packages", "python", "platform", "device", "threads"):
            part = getattr(provenance, name)
            yield f"provenance.{name}", dict(part) if name == "packages" else part, machine[name]
        yield "environment.json", sorted({*machine} - {"cores", "seconds"}), [
            "device", "packages", "platform", "python", "threads"
        ]  # fmt: skip
    path = folder / "audit.log"
    if first := re.match(LOG_START, path.read_text(encoding="utf-8") if path.is_file() else ""):
        yield "provenance", [provenance.version, provenance.config_sha256], [first[1], first[2]]
        yield "created", report.created, first[3] or report.created
    elif report.kind == "run":
        yield "audit.log: first line", "another", "version, config and time"
    keys = [
        (result.name, game.name, row.scorer) for result in report.mechanisms for game in result.games for row in game.attacks
    ]
    yield "attacks in their order", keys, list(source.tables)
    store = Store(final=folder, folder=folder, created="")
    for path in sorted((folder / "models").glob("*.safetensors")):  # which hold what their checksums and names say
        yield f"models/{path.name}", len(store.get(path.name.removesuffix(".safetensors"))) > 0, True
    for result in report.mechanisms:
        for game in result.games:
            yield from _coins(result, game, source)


def _coins(result: MechanismResult, game: GameResult, source: RunSource) -> Iterator[Difference]:
    rows = [
        member for (training, name, _), (_, member) in source.tables.items() if (training, name) == (result.name, game.name)
    ]
    if not rows:
        return
    place, member, rules = f"{result.name}/{game.name}", rows[0], game.game
    if digest := source.config.get("coins_sha256") if source.report.kind in ("scores", "training") else None:
        yield f"{place}: coins_sha256", digest, hashlib.sha256(member.astype(np.uint8).tobytes()).hexdigest()
    name = f"coins-{result.name}-{game.name}"
    if (source.folder / PRIVATE / f"{name}.safetensors").is_file():
        arrays = Store(final=source.folder, folder=source.folder, created="").private.get(name)
        count = int(arrays["canaries"])
        coins = np.unpackbits(arrays["bits"], axis=1)[: len(member) // max(count, 1), :count]
        yield f"{place}: coins", np.array_equal(coins.ravel(), member), True
    if source.report.kind == "run" and source.seed is not None and rules.choices * rules.copies == 1:
        random = source.game_seed(result.training or result.name, game.name).child("coins").numpy()
        draws = random.random((rules.runs, rules.canaries)) < rules.inclusion_probability
        yield f"{place}: coins of the seed", np.array_equal(draws.ravel(), member), True


def read_config(source: RunSource) -> tuple[Config | None, list[Difference]]:
    """Return the config of a run, and each line of it, or of what represents a config, that no audit of its kind writes.

    A config that names code of others is not read: its parts would be imported.
    """
    report, text = source.report, source.report.config
    if report.kind != "run":
        known = {*_FACTS.get(report.kind, "").split(), *_SETTINGS.split(), "certificates", "coins_sha256"}
        rows = [line.partition(": ") for line in text.split("\n")[:-1]]
        odd = [key for key, _, value in rows if key not in known or not _is_plain(value)]
        return None, [("config: lines that no such audit writes", odd, []), ("config: ends", text[-1:], "\n")]
    leaves = read.find_leaves({key: value for key, value in source.config.items() if key not in ("title", "name", "about")})
    if any(isinstance(value, str) and _NAMED_CODE.fullmatch(value) for value in _texts(list(leaves.values()))):
        source.unread.append("settings and mechanism of a config that names code of others")
        return None, []
    try:
        resolution = read.parse(text, environment={})
    except ConfigError as error:
        return None, [("config", str(error), "one that can be run")]
    usual = resolution.text.split("\n")
    odd = [line for line in text.split("\n") if line not in usual]
    return resolution.config, [("config: lines that no run writes", odd, [])]


def _is_plain(value: str) -> bool:
    try:
        return json.dumps(json.loads(value)) == value
    except ValueError:
        return False


def _texts(value: Any) -> Iterator[Any]:
    for inner in value.values() if isinstance(value, Mapping) else value:
        if isinstance(inner, Mapping | list):
            yield from _texts(inner)
        else:
            yield inner


def table_differences(report: AuditReport, config: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield sizes, names and risks of a report on a table, each with what follows from the rest."""
    table, data = report.table, report.data
    if table is None or data is None:
        yield "table", [table is None, data is None], [False, False]
        return
    names = "{synthetic} of {training}, beside {control}".format_map(config)
    sizes = [table.training_records, table.control_records, 0, 0, f"{len(table.columns)} columns"]
    yield "data", [data.train, data.pool, data.test, data.classes, data.features], sizes
    yield "data: name, origin and hash", [data.name, data.source, data.sha256], [
        names, "training (train) and control (pool) records as given", config["sha256"]
    ]  # fmt: skip
    yield "model", report.model, f"{table.synthetic_records:,} synthetic records"
    yield "confidence and comparisons", [table.confidence, report.comparisons], [report.confidence, len(table.risks)]
    yield "categorical columns", list(table.categorical), config["categorical"]
    yield "columns", set(table.columns) >= {*table.categorical, *config["secrets"]}, True
    yield "training, games and attacks", [report.mechanisms, report.coverage, report.outcome], [(), (), None]
    predicates = ["one column", f"{config['predicate_columns']} columns"]
    attacks = [(risk.risk, risk.attack) for risk in table.risks]
    links = [risk for risk in table.risks if risk.risk == "linkability"]
    rows = [("singling out", name) for name in predicates if ("singling out", name) in attacks]  # none, if nobody meets it
    rows += [(risk.risk, risk.attack) for risk in links[:1]] + [("inference", name) for name in config["secrets"]]
    yield "risks", attacks, rows
    by_chance = neighbours.link_by_chance(table.synthetic_records, config["neighbours"])
    yield "guesses of links", [risk.baseline for risk in links], [by_chance]
    yield from _risks(table, config)


def _risks(table: TableAudit, config: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield excess, limits and chance of each risk of a table beside those of its counts; predicates have no limits."""
    count = 3 + len(config.get("secrets") or ())
    significance = (1 - table.confidence) / count
    for risk in table.risks:
        place, sides = f"{risk.risk}, {risk.attack}", (risk.training, risk.control)
        hits, attacks = (sides[0].successes, sides[1].successes), (sides[0].attacks, sides[1].attacks)
        excess, *limits = excess_success.excess_limits(hits, attacks, significance)
        if risk.risk == "singling out":
            ends, limits = [[0.0, 1.0]] * 2, [-1.0, 1.0]
        else:
            tails = (binomial.rate_lower, binomial.rate_upper)
            ends = [[float(tail(hits[k], attacks[k], significance / 4)) for tail in tails] for k in (0, 1)]
            yield f"{place}: chance", risk.p_value, excess_success.fisher_tail(hits, attacks)
        yield f"{place}: excess", [risk.excess, risk.excess_lower, risk.excess_upper], [excess, *limits]
        yield f"{place}: limits", [[side.lower, side.upper] for side in sides], ends
        yield f"{place}: beyond chance", risk.beyond_chance, risk.p_value <= significance
        most = [min(int(config["attacks"]), size) for size in (table.training_records, table.control_records)]
        yield f"{place}: attacks", risk.risk == "singling out" or list(attacks) == most, True
