"""The places in report.json that nothing else in a run folder decides, by what they hold in words: only a signature vouches.

Every other place is compared with what follows from scores, config and the rest, and must be there. `ABSENT` are the places
that a report of a kind leaves empty.
"""

from __future__ import annotations

from typing import Any

OPEN_PLACES: dict[str, tuple[str, ...]] = {  # a place stands for all within it
    "title": ("title",),
    "date": ("created",),
    "name of the model": ("model",),
    "name, origin and sizes of the data": ("data",),
    "messages that other languages read": ("messages",),
    "notes": ("notes", "mechanisms.claims.note", "mechanisms.verdicts.claim.note", "mechanisms.games.note"),
    "command, commit and platform": tuple(
        f"provenance.{key}" for key in ("command", "code_commit", "platform", "device", "threads")
    ),
    "versions": tuple(f"provenance.{key}" for key in ("version", "packages", "python")),
    "engagement": ("engagement",),
    "ledger": ("ledger",),
    "origins of settings": ("origins", "config_lines"),
    "measurements of the training": ("mechanisms.checks",),
    "accuracies": ("mechanisms.utility", "mechanisms.games.groups.accuracy"),
    "the first look at scores": ("mechanisms.preflight",),
    "bounds over the steps": ("mechanisms.bound_trajectories",),
    "what canaries are": ("mechanisms.games.game.canary", "mechanisms.games.game.independent_noise"),
    "names and labels of records": ("mechanisms.games.records.record", "mechanisms.games.records.label"),
    "lists of exposed records": ("mechanisms.games.records",),
    "guesses of secrets": tuple(
        f"mechanisms.games.{key}" for key in ("attacks.guesses", "attacks.secrets", "trigger", "game.secret")
    ),
    "scores and memberships of single records, and the config that they were judged by": (),
    "lines of audit.log, and which models were kept": (),
    "figures over several targets": ("mechanisms.games.evaluation",),
    "bounds and verdicts of games that stop early": ("mechanisms.games.watched",),
    "columns, predicates, guesses and closeness of tables": (
        "table.columns", "table.closeness", "table.risks.attack", "table.risks.baseline", "table.risks.p_value",
        "table.risks.training", "table.risks.control",
    ),
}  # fmt: skip
OF_RUNS = ("lists of exposed records", "lines of audit.log, and which models were kept")
_GAME, _ATTACK, _RULES = (f"mechanisms.games{part}." for part in ("", ".attacks", ".game"))
EXTERNAL = (
    *("costs", "ledger", "settings", "origins", "config_lines", "engagement"),
    *(f"mechanisms.{key}" for key in ("mechanism", "limit", "trajectories", "bound_trajectories", "training")),
    *(_GAME + key for key in ("watched", "trigger")),
    *(_ATTACK + key for key in ("guesses", "secrets")),
    _RULES + "secret",
)
GIVEN_SCORES = (
    *EXTERNAL, "table", "data", "mechanisms.utility", "mechanisms.models",
    *(_GAME + key for key in ("records", "groups", "evaluation", "models")), _RULES + "unit",
)  # fmt: skip
ABSENT: dict[str, tuple[str, ...]] = {
    "run": ("table",),
    "model": (*EXTERNAL, "table"),
    "scores": (*GIVEN_SCORES, _RULES + "references"),
    "training": (*GIVEN_SCORES, "policy"),
    "table": (*EXTERNAL, "mechanisms", "coverage", "outcome", "policy"),
}
NO_RUN = {"name of the training": ("mechanisms.name",)}  # a config of a run names its trainings
WITHOUT_SEED = {"false alarms of controls": ("mechanisms.games.attacks.control",)}  # decided if the seed is there


def find_undecided(kind: str, *, has_seed: bool, has_bounds: bool = True) -> dict[str, tuple[str, ...]]:
    """Return what nothing decides in a report of a kind, and the places that hold it; scores and memberships are in a file.

    Args:
        has_seed: whether the folder holds the seed of all draws.
        has_bounds: whether the report has bounds, which depend on delta.
    """
    rows, absent = OPEN_PLACES | ({} if has_seed else WITHOUT_SEED), tuple(f"{row}." for row in ABSENT.get(kind, ()))
    if kind != "run":
        rows |= NO_RUN | {"seed": ("provenance.seed",)} | ({} if has_bounds else {"delta": ("delta",)})
        rows = {words: places for words, places in rows.items() if words not in OF_RUNS}
    rows = {words: tuple(row for row in places if not f"{row}.".startswith(absent)) for words, places in rows.items()}
    return {words: places for words, places in rows.items() if places or (not OPEN_PLACES.get(words, "x") and kind != "table")}


def find_foreign(kind: str, report: Any) -> list[str]:
    """Return a line for each place that holds something in a report of a kind that leaves it empty."""
    places = [place for place in ABSENT.get(kind, ()) if any(find_values(report, place.split(".")))]
    return [f"{place}: no audit of the kind '{kind}' writes it" for place in places]


def find_values(value: Any, names: list[str]) -> list[Any]:
    """Return all that a report has at a place, through lists."""
    if isinstance(value, list):
        return [inner for row in value for inner in find_values(row, names)]
    if not names or not isinstance(value, dict):
        return [] if names else [value]
    return find_values(value.get(names[0]), names[1:])
