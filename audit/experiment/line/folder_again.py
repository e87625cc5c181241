"""What the other files of a finished run's folder say of its report, and the config of what it can hold."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from audit.config import Config, read
from audit.core.errors import ConfigError
from audit.core.game_results import GameResult
from audit.core.results import MechanismResult
from audit.execution.run_folder import PRIVATE
from audit.execution.store import Store
from audit.experiment.line.run_source import Difference, RunSource

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
    """Yield whether the memberships of a game are the coins that were stored, hashed, or drawn from the seed."""
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
